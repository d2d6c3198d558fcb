//! Conversion of Kubernetes client errors into [`Error`], and the timeout of a call.
//!
//! The retry layer of the client (on by default) handles `429` and `Retry-After`.

use akash_provider_core::error::{Error, ErrorKind};
use kube::core::Status;
use kube::core::response::reason;
use std::time::Duration;

/// Cause in the API status of a rejected write: the namespace is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// Text of an RBAC denial. Denials by admission do not contain this text.
const RBAC_DENIAL: &str = "is forbidden: User \"";

const RBAC_HELP: &str = "; apply deploy/rbac/provider.yaml to give the provider its rights, or deploy/operators to give an \
                    operator its rights";

/// Converts an error of the Kubernetes client into an [`Error`], with the error kind and the message of the
/// API server.
#[must_use]
pub fn from_kube(operation: &'static str, error: kube::Error) -> Error {
    let (kind, message) = match &error {
        kube::Error::Api(status) => return from_status(operation, status),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::ReadEvents(_) => {
            let message = "cannot decode the response of the API server";
            return Error::new(ErrorKind::Unavailable, operation, message).with_source(error);
        }
        kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
            (ErrorKind::Internal, "cannot build the request")
        }
        kube::Error::Auth(_) => (ErrorKind::Denied, "the API server rejects the credentials"),
        _ => (ErrorKind::Unavailable, "cannot reach the API server"),
    };
    Error::new(kind, operation, message).with_source(error)
}

/// Converts a failure status of the API server into an [`Error`].
#[must_use]
pub fn from_status(operation: &'static str, status: &Status) -> Error {
    let error = Error::new(kind_of(status), operation, text_of(status));
    // A retry succeeds once the namespace is deleted.
    if is_terminating(status) {
        return error.transient();
    }
    error
}

/// Returns true if the API server reports that the object does not exist.
#[must_use]
pub fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// Returns true if the API server rejects a write because the namespace is being deleted.
#[must_use]
pub fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|d| &d.causes);
    causes.into_iter().any(|c| c.reason == NAMESPACE_TERMINATING)
}

/// Awaits a call to the API server, for at most `limit`.
///
/// # Errors
/// [`ErrorKind::Timeout`] after `limit`; otherwise the error that [`from_kube`] returns.
pub async fn within<T>(
    limit: Duration,
    operation: &'static str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(from_kube(operation, error)),
        Err(_) => {
            let message = format!("no response from the API server within {limit:?}");
            Err(Error::new(ErrorKind::Timeout, operation, message))
        }
    }
}

fn kind_of(status: &Status) -> ErrorKind {
    // The API server reports a terminating namespace as a 403, like a missing right.
    if is_terminating(status) {
        return ErrorKind::Conflict;
    }
    match (status.reason.as_str(), status.code) {
        (reason::TIMEOUT | reason::SERVER_TIMEOUT, _) | (_, 408 | 504) => ErrorKind::Timeout,
        (reason::TOO_MANY_REQUESTS | reason::SERVICE_UNAVAILABLE, _) => ErrorKind::Unavailable,
        (reason::NOT_FOUND, _) | (_, 404) => ErrorKind::NotFound,
        (reason::CONFLICT | reason::ALREADY_EXISTS, _) | (_, 409) => ErrorKind::Conflict,
        (reason::UNAUTHORIZED | reason::FORBIDDEN, _) | (_, 401 | 403) => ErrorKind::Denied,
        (reason::INVALID | reason::BAD_REQUEST | reason::REQUEST_ENTITY_TOO_LARGE, _) => ErrorKind::Invalid,
        (_, 429 | 500..) => ErrorKind::Unavailable,
        (_, 400..=499) => ErrorKind::Invalid,
        // Without code and known reason, a proxy sent the response.
        _ => ErrorKind::Unavailable,
    }
}

/// Returns the message of a status, and the affected fields that the message lacks.
fn text_of(status: &Status) -> String {
    let mut text = if status.message.is_empty() {
        format!("the API server responds with {} {}", status.code, status.reason)
    } else {
        status.message.clone()
    };
    let causes = status.details.iter().flat_map(|d| &d.causes);
    for field in causes.map(|c| c.field.as_str()).filter(|f| !f.is_empty()) {
        if !text.contains(field) {
            text.push_str("; field ");
            text.push_str(field);
        }
    }
    if status.code == 403 && text.contains(RBAC_DENIAL) {
        text.push_str(RBAC_HELP);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::{StatusCause, StatusDetails};

    fn status(code: u16, reason: &str) -> Status {
        Status::failure("the reason", reason).with_code(code)
    }

    fn cause(reason: &str, field: &str) -> StatusDetails {
        let cause = StatusCause {
            reason: reason.to_owned(),
            message: "why".to_owned(),
            field: field.to_owned(),
        };
        StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: 0,
        }
    }

    #[test]
    fn each_status_maps_to_its_kind() {
        let cases = [
            (404, "NotFound", ErrorKind::NotFound, false),
            (409, "Conflict", ErrorKind::Conflict, false),
            (409, "AlreadyExists", ErrorKind::Conflict, false),
            (422, "Invalid", ErrorKind::Invalid, false),
            (400, "BadRequest", ErrorKind::Invalid, false),
            (413, "RequestEntityTooLarge", ErrorKind::Invalid, false),
            (401, "Unauthorized", ErrorKind::Denied, false),
            (403, "Forbidden", ErrorKind::Denied, false),
            (429, "TooManyRequests", ErrorKind::Unavailable, true),
            (500, "InternalError", ErrorKind::Unavailable, true),
            (500, "ServerTimeout", ErrorKind::Timeout, true),
            (503, "ServiceUnavailable", ErrorKind::Unavailable, true),
            (504, "Timeout", ErrorKind::Timeout, true),
            (502, "Failed to parse error data", ErrorKind::Unavailable, true),
            (429, "Failed to parse error data", ErrorKind::Unavailable, true),
            (404, "Failed to parse error data", ErrorKind::NotFound, false),
            (0, "", ErrorKind::Unavailable, true),
        ];
        for (code, reason, kind, transient) in cases {
            let error = from_kube("deploy", kube::Error::Api(status(code, reason).boxed()));
            assert_eq!(error.kind(), kind, "{code} {reason}");
            assert_eq!(error.is_transient(), transient, "{code} {reason}");
            assert_eq!(error.to_string(), "deploy: the reason");
        }
    }

    #[test]
    fn an_invalid_object_names_the_field() {
        let refused = status(422, "Invalid").with_details(cause("FieldValueInvalid", "spec.replicas"));
        let error = from_status("deploy", &refused);
        assert_eq!(error.to_string(), "deploy: the reason; field spec.replicas");
    }

    #[test]
    fn an_rbac_denial_names_the_remedy_and_admission_does_not() {
        let denial = "pods is forbidden: User \"me\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
        let lacking = from_status("list", &Status::failure(denial, "Forbidden").with_code(403));
        assert_eq!(lacking.to_string(), format!("list: {denial}{RBAC_HELP}"));
        let quota = "pods \"web\" is forbidden: exceeded quota: ours";
        let refused = from_status("deploy", &Status::failure(quota, "Forbidden").with_code(403));
        assert_eq!(refused.to_string(), format!("deploy: {quota}"));
    }

    #[test]
    fn a_terminating_namespace_is_a_transient_conflict() {
        let going =
            status(403, "Forbidden").with_details(cause("NamespaceTerminating", "metadata.namespace"));
        let error = from_status("deploy", &going);
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.is_transient());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_response_fails_at_its_limit() {
        let limit = Duration::from_secs(4);
        let never = std::future::pending::<kube::Result<()>>();
        let error = within(limit, "deploy", never).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.is_transient());
    }
}
