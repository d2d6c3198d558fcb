//! What a 403 means: a right that is missing, or admission that refuses.
//!
//! The API server says "forbidden" to who may not write, and also to who may, when admission (a quota, a standard
//! for pods, a policy) refuses what is written. The first is the operator's to mend, the second lies in what was
//! written. Which of the two it was is a question that the API server answers.

use crate::error::within;
use akash_provider_core::error::{Error, ErrorKind};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{ApiResource, PostParams};
use kube::{Api, Client, Resource};
use std::error::Error as _;
use std::time::Duration;

/// Parts of the API server's messages for what a webhook and a policy refuse.
const ADMISSION: [&str; 2] = ["denied the request", "ValidatingAdmissionPolicy"];

/// What was tried: verbs at a kind, in a namespace.
#[derive(Debug, Clone)]
pub(crate) struct Attempt<'a> {
    /// The rights it takes, all of them.
    pub(crate) verbs: &'static [&'static str],
    /// The kind it was tried at.
    pub(crate) resource: ApiResource,
    /// `None` for a kind of the whole cluster.
    pub(crate) namespace: Option<&'a str>,
}

impl<'a> Attempt<'a> {
    /// An attempt at a kind that has a type.
    pub(crate) fn at<K: Resource<DynamicType = ()>>(
        verbs: &'static [&'static str],
        namespace: Option<&'a str>,
    ) -> Self {
        Self {
            verbs,
            resource: ApiResource::erase::<K>(&()),
            namespace,
        }
    }
}

/// An error of an attempt; [`ErrorKind::Denied`] becomes [`ErrorKind::Invalid`] where no right is missing.
pub(crate) async fn judged(client: &Client, limit: Duration, attempt: &Attempt<'_>, error: Error) -> Error {
    if error.kind() != ErrorKind::Denied {
        return error;
    }
    // All of them: an apply creates or patches, and either right may be the one that is missing.
    for verb in attempt.verbs {
        // Where nobody answers, it stays what it was.
        let attributes = ResourceAttributes {
            verb: Some((*verb).to_owned()),
            group: Some(attempt.resource.group.clone()),
            resource: Some(attempt.resource.plural.clone()),
            namespace: attempt.namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let allowed = may(client, limit, attributes, error.operation()).await;
        if !allowed.unwrap_or(false) {
            return error;
        }
    }
    Error::new(ErrorKind::Invalid, error.operation(), error.message().to_owned()).with_source(error)
}

/// An error of a deploy. What admission refuses may pass later, when the quota is raised or the policy changed, and
/// is no fault of the tenant: it is worth trying again.
pub(crate) fn retried(error: Error) -> Error {
    if error.kind() == ErrorKind::Invalid && is_admission(&error) {
        return error.transient();
    }
    error
}

/// True for a refusal of admission: a 403 without a missing right, or a webhook or policy, which choose their code.
fn is_admission(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause
            .downcast_ref::<Error>()
            .is_some_and(|e| e.kind() == ErrorKind::Denied)
        {
            return true;
        }
        source = cause.source();
    }
    let message = error.message();
    ADMISSION.iter().any(|said| message.contains(said))
}

/// True if the account of the client has a right.
pub(crate) async fn may(
    client: &Client,
    limit: Duration,
    attributes: ResourceAttributes,
    operation: &'static str,
) -> Result<bool, Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let params = PostParams::default();
    let answer = within(limit, operation, api.create(&params, &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_admission_refuses_is_retried_and_what_is_invalid_is_not() {
        let error = |kind, message: &str| Error::new(kind, "deploy", message);
        let quota = error(ErrorKind::Invalid, "Service web: exceeded quota")
            .with_source(error(ErrorKind::Denied, "exceeded quota"));
        for (error, wanted) in [
            (quota, true),
            (
                error(
                    ErrorKind::Invalid,
                    r#"admission webhook "w" denied the request: no"#,
                ),
                true,
            ),
            (
                error(
                    ErrorKind::Invalid,
                    "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                ),
                true,
            ),
            (
                error(ErrorKind::Invalid, "spec.replicas: Invalid value: -1"),
                false,
            ),
            (error(ErrorKind::Denied, "is forbidden: User \"x\""), false),
        ] {
            assert_eq!(retried(error).is_transient(), wanted);
        }
    }
}
