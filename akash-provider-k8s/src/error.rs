//! Errors of the API server as errors of the port.
//!
//! Waiting out `429` and `Retry-After` is the client's own business (its retry layer, on by default); what is
//! here gives every call its limit and its kind.

use akash_provider_core::error::{Error, ErrorKind};
use kube::core::Status;
use kube::core::response::reason;
use std::time::Duration;

/// What the API server says of a namespace that is going.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// What the API server says where somebody lacks a right, and admission never says.
const LACKS_A_RIGHT: &str = "is forbidden: User \"";

/// What is to be done about it.
const MEND: &str = "; give the provider's account the rights of deploy/rbac/provider.yaml, and an operator's those of \
                    deploy/operators";

/// The error of a call to the API server, with its kind and what the server said.
#[must_use]
pub fn from_kube(operation: &'static str, error: kube::Error) -> Error {
    let (kind, message) = match &error {
        kube::Error::Api(status) => return from_status(operation, status),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::ReadEvents(_) => {
            let message = "the API server's answer cannot be read";
            return Error::new(ErrorKind::Unavailable, operation, message).with_source(error);
        }
        kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
            (ErrorKind::Internal, "the request cannot be made")
        }
        kube::Error::Auth(_) => (
            ErrorKind::Denied,
            "the credentials for the API server do not work",
        ),
        _ => (ErrorKind::Unavailable, "the API server cannot be reached"),
    };
    Error::new(kind, operation, message).with_source(error)
}

/// The error that a status of the API server is.
#[must_use]
pub fn from_status(operation: &'static str, status: &Status) -> Error {
    let error = Error::new(kind_of(status), operation, text_of(status));
    // It can be made again once the namespace is gone.
    if is_terminating(status) {
        return error.transient();
    }
    error
}

/// True when the API server says that there is no such object.
#[must_use]
pub fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// True when the API server refuses because the namespace is going.
#[must_use]
pub fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|d| &d.causes);
    causes.into_iter().any(|c| c.reason == NAMESPACE_TERMINATING)
}

/// The answer of a call, or [`ErrorKind::Timeout`] when it takes longer than `limit`.
///
/// # Errors
/// As [`from_kube`], and the timeout.
pub async fn within<T>(
    limit: Duration,
    operation: &'static str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(from_kube(operation, error)),
        Err(_) => {
            let message = format!("no answer of the API server within {limit:?}");
            Err(Error::new(ErrorKind::Timeout, operation, message))
        }
    }
}

fn kind_of(status: &Status) -> ErrorKind {
    // It comes as a 403, as a missing right does.
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
        // No code and no known reason: somebody between here and the server answered.
        _ => ErrorKind::Unavailable,
    }
}

/// The server's message, and the fields it names where the message does not.
fn text_of(status: &Status) -> String {
    let mut text = if status.message.is_empty() {
        format!("the API server answers {} {}", status.code, status.reason)
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
    if status.code == 403 && text.contains(LACKS_A_RIGHT) {
        text.push_str(MEND);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::{StatusCause, StatusDetails};

    fn status(code: u16, reason: &str) -> Status {
        Status::failure("it said so", reason).with_code(code)
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
    fn every_answer_has_its_kind() {
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
            assert_eq!(error.to_string(), "deploy: it said so");
        }
    }

    #[test]
    fn a_refusal_names_the_field() {
        let refused = status(422, "Invalid").with_details(cause("FieldValueInvalid", "spec.replicas"));
        let error = from_status("deploy", &refused);
        assert_eq!(error.to_string(), "deploy: it said so; field spec.replicas");
    }

    #[test]
    fn a_missing_right_names_the_mend_and_admission_does_not() {
        let words = "pods is forbidden: User \"me\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
        let lacking = from_status("list", &Status::failure(words, "Forbidden").with_code(403));
        assert_eq!(lacking.to_string(), format!("list: {words}{MEND}"));
        let quota = "pods \"web\" is forbidden: exceeded quota: ours";
        let refused = from_status("deploy", &Status::failure(quota, "Forbidden").with_code(403));
        assert_eq!(refused.to_string(), format!("deploy: {quota}"));
    }

    #[test]
    fn a_namespace_that_is_going_is_a_conflict_that_passes() {
        let going =
            status(403, "Forbidden").with_details(cause("NamespaceTerminating", "metadata.namespace"));
        let error = from_status("deploy", &going);
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.is_transient());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends_at_its_limit() {
        let limit = Duration::from_secs(4);
        let never = std::future::pending::<kube::Result<()>>();
        let error = within(limit, "deploy", never).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.is_transient());
    }
}
