//! Answers in the three forms that clients know: JSON, plain text, and errors of access.

use crate::auth::Denial;
use akash_provider_core::error::{Error, ErrorKind};
use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");
const PLAIN_JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// What handlers return: always a response, never an error that a framework would put into words.
pub(crate) type Answer = Response<Body>;

/// An answer of a status alone, without a body and without a content type.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// An error in words.
pub(crate) fn text(status: StatusCode, words: impl std::fmt::Display) -> Answer {
    let mut answer = Response::new(Body::from(format!("{words}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, TEXT);
    answer
        .headers_mut()
        // The words may repeat what a stranger sent. No browser shall take them for a page.
        .insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    answer
}

/// There is no such route.
pub(crate) fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found")
}

/// A JSON body that was written before.
pub(crate) fn json_bytes(body: impl Into<Body>) -> Answer {
    let mut answer = Response::new(body.into());
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    json_bytes(encode(value))
}

/// A value as JSON of the plainer type that some routes have.
pub(crate) fn plain_json(value: &impl Serialize) -> Answer {
    let mut answer = Response::new(Body::from(encode(value)));
    answer.headers_mut().insert(CONTENT_TYPE, PLAIN_JSON);
    answer
}

/// The answer to a caller who is turned away: 400 for what breaks a rule, 401 for what is not believed, 503 or 429
/// where it is not known who it is.
pub(crate) fn denied(denial: Denial) -> Answer {
    let status = match denial {
        Denial::Header | Denial::Ambiguous | Denial::Claims => StatusCode::BAD_REQUEST,
        Denial::Token | Denial::Expired | Denial::Unauthorized => StatusCode::UNAUTHORIZED,
        Denial::Outage => StatusCode::SERVICE_UNAVAILABLE,
        Denial::TooMany => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut answer = plain_json(&serde_json::json!({ "message": denial.message() }));
    *answer.status_mut() = status;
    answer
}

/// What went wrong in the cluster.
pub(crate) fn cluster(error: &Error) -> Answer {
    tracing::debug!("{}", akash_provider_core::error::chain_text(error));
    text(cluster_status(error), error)
}

/// The status that belongs to an error of the cluster.
pub(crate) fn cluster_status(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ClusterNotReady | ErrorKind::Stopped => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// JSON as the network's tools write it: characters that mean something in HTML are escaped.
pub(crate) fn encode(value: &impl Serialize) -> String {
    // Our own types have text keys and nothing that could fail.
    escaped(serde_json::to_string(value).unwrap_or_default())
}

/// JSON with the characters escaped that mean something in HTML, as the network's tools write it: `<` is `\\u003c`.
#[must_use]
pub fn escaped(plain: String) -> String {
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    // None of them has a meaning in JSON, so they stand in texts alone.
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
    fn json_is_escaped_as_the_networks_tools_do() {
        let text = "a<b>&\u{2028}\u{2029}\u{1}\n\"ü";
        assert_eq!(encode(&text), r#""a\u003cb\u003e\u0026\u2028\u2029\u0001\n\"ü""#);
    }

    #[test]
    fn an_outage_is_never_a_no() {
        for denial in [Denial::Outage, Denial::TooMany] {
            assert_ne!(denied(denial).status(), StatusCode::UNAUTHORIZED);
        }
    }
}
