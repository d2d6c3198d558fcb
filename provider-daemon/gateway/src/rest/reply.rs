//! Responses in the three forms that clients expect: JSON, plain text, and authentication errors.

use crate::auth::Denial;
use akash_provider_core::error::{Error, ErrorKind};
use axum::body::Body;
use axum::response::IntoResponse;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");
const PLAIN_JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

pub(crate) type RestReply = Response<Body>;

/// Response that a check of a request returns instead of a value.
#[derive(Debug)]
pub(crate) struct RejectionReply(Box<RestReply>);

/// Result of a handler.
pub(crate) type RestResult = Result<RestReply, RejectionReply>;

impl From<RestReply> for RejectionReply {
    fn from(reply: RestReply) -> Self {
        Self(Box::new(reply))
    }
}

impl IntoResponse for RejectionReply {
    fn into_response(self) -> RestReply {
        *self.0
    }
}

/// Returns a response without a body and without a content type.
pub(crate) fn empty(status: StatusCode) -> RestReply {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}

pub(crate) fn text(status: StatusCode, words: impl std::fmt::Display) -> RestReply {
    let mut reply = Response::new(Body::from(format!("{words}\n")));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, TEXT);
    reply
        .headers_mut()
        // The text may repeat client data. A browser must not render it as a page.
        .insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    reply
}

pub(crate) fn not_found() -> RestReply {
    text(StatusCode::NOT_FOUND, "404 page not found")
}

pub(crate) fn json_bytes(body: impl Into<Body>) -> RestReply {
    let mut reply = Response::new(body.into());
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply
}

pub(crate) fn json(value: &impl Serialize) -> RestReply {
    json_bytes(encode(value))
}

/// Encodes a value as a JSON response without a charset, as on some routes of the Go provider.
pub(crate) fn plain_json(value: &impl Serialize) -> RestReply {
    let mut reply = Response::new(Body::from(encode(value)));
    reply.headers_mut().insert(CONTENT_TYPE, PLAIN_JSON);
    reply
}

/// Returns the response for a refused caller. The status is 400 for a malformed credential, 401 for an
/// invalid credential, 429 for too many unknown accounts, and 503 after a failed chain query.
pub(crate) fn denied(denial: Denial) -> RestReply {
    let status = match denial {
        Denial::Header | Denial::Ambiguous | Denial::Claims => StatusCode::BAD_REQUEST,
        Denial::Token | Denial::Expired | Denial::Unauthorized => StatusCode::UNAUTHORIZED,
        Denial::Outage => StatusCode::SERVICE_UNAVAILABLE,
        Denial::TooMany => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut reply = plain_json(&serde_json::json!({ "message": denial.message() }));
    *reply.status_mut() = status;
    reply
}

pub(crate) fn cluster(error: &Error) -> RestReply {
    tracing::debug!("{}", akash_provider_core::error::chain_text(error));
    text(cluster_status(error), error)
}

pub(crate) fn cluster_status(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ClusterNotReady | ErrorKind::Stopped => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Encodes a value as JSON. Characters with a meaning in HTML are escaped, as in Go.
pub(crate) fn encode(value: &impl Serialize) -> String {
    // The types of this crate have text keys, so the encoding cannot fail.
    escaped(serde_json::to_string(value).unwrap_or_default())
}

/// Escapes the characters `<`, `>`, `&`, U+2028 and U+2029 of a JSON text, as in Go: `<` becomes `\u003c`.
#[must_use]
pub fn escaped(plain: String) -> String {
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    // None of them has a meaning in JSON, so they occur in strings only.
    plain
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_escaped_as_go_does() {
        let text = "a<b>&\u{2028}\u{2029}\u{1}\n\"ü";
        assert_eq!(encode(&text), r#""a\u003cb\u003e\u0026\u2028\u2029\u0001\n\"ü""#);
    }

    #[test]
    fn an_outage_is_never_unauthorized() {
        for denial in [Denial::Outage, Denial::TooMany] {
            assert_ne!(denied(denial).status(), StatusCode::UNAUTHORIZED);
        }
    }
}
