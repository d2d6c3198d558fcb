//! Meaning of a 403: a missing right, or a denial by admission.
//!
//! The API server responds with "forbidden" in both cases. An administrator must add a missing right. A denial by
//! admission (quota, Pod Security, policy) results from the content of the write. An access review at the API server
//! distinguishes the two.

use crate::error::within;
use akash_provider_core::error::{Error, ErrorKind};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{ApiResource, PostParams};
use kube::{Api, Client, Resource};
use std::error::Error as _;
use std::time::Duration;

/// Phrases in messages of the API server about a denial by a webhook or a policy.
const ADMISSION: [&str; 2] = ["denied the request", "ValidatingAdmissionPolicy"];

/// Attempted call: the verbs, the kind of the object and the namespace.
#[derive(Debug, Clone)]
pub struct Attempt<'a> {
    /// Verbs that the attempted call requires.
    pub verbs: &'static [&'static str],
    /// Kind of the object.
    pub resource: ApiResource,
    /// Namespace of the object; `None` for a cluster-scoped kind.
    pub namespace: Option<&'a str>,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt on objects of the kind `K`.
    #[must_use]
    pub fn at<K: Resource<DynamicType = ()>>(
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

/// Changes [`ErrorKind::Denied`] to [`ErrorKind::Invalid`] if the account of the client has all required
/// rights. In this case, admission caused the denial.
pub async fn judged(client: &Client, limit: Duration, attempt: &Attempt<'_>, error: Error) -> Error {
    if error.kind() != ErrorKind::Denied {
        return error;
    }
    // All verbs: an apply creates or patches, and either right may be missing.
    for verb in attempt.verbs {
        // If the review fails, the error remains unchanged.
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

/// Marks a denial by admission as transient. A retry can succeed after a change of the quota or policy.
#[must_use]
pub fn retried(error: Error) -> Error {
    if error.kind() == ErrorKind::Invalid && is_admission(&error) {
        return error.transient();
    }
    error
}

/// Returns true if a webhook or a policy refused the request.
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
    ADMISSION.iter().any(|phrase| message.contains(phrase))
}

/// Returns true if the account of the client may make the call in `attributes`.
///
/// # Errors
/// Returns an error if the API server does not respond within `limit`.
pub async fn may(
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
    fn admission_denials_are_retried_and_invalid_objects_are_not() {
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
