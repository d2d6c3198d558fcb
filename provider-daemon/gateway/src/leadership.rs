//! State of the leader election, for the responses of a standby.

use crate::rest::reply::{self, RestReply};
use http::StatusCode;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Response header with the address of the leader, set by a standby.
const LEADER: HeaderName = HeaderName::from_static("akash-provider-leader");
/// Value of the header `Retry-After`, in seconds. A fail-over takes less time.
const AGAIN: HeaderValue = HeaderValue::from_static("3");

/// State of the leader election.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Leadership {
    /// Role of this instance: `leader` or `standby`.
    pub role: &'static str,
    /// Term of the leader election in which this instance is the leader; `None` on a standby.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// Identity of the leader, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Address at which tenants reach the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Implausibly high term in the leader election record. This instance ignores the term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implausible_term: Option<u64>,
}

/// Source of the current state of the leader election.
#[derive(Clone)]
pub struct LeadershipSource(Arc<dyn Fn() -> Leadership + Send + Sync>);

impl fmt::Debug for LeadershipSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeadershipSource").field(&self.now()).finish()
    }
}

impl LeadershipSource {
    /// Creates a source that calls `now` for the current state.
    #[must_use]
    pub fn new(now: impl Fn() -> Leadership + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current state of the leader election.
    #[must_use]
    pub fn now(&self) -> Leadership {
        (self.0)()
    }
}

/// Response extension of a standby: only the leader can serve the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotLeading;

/// Adds the leader's address, if known, to the response of a standby.
pub(crate) fn point(source: Option<&LeadershipSource>, reply: RestReply) -> RestReply {
    if reply.extensions().get::<NotLeading>().is_none() {
        return reply;
    }
    let leader = source.and_then(|source| source.now().address);
    // The record is untrusted: the address may be an invalid header value.
    let leader = leader.and_then(|leader| Some((HeaderValue::from_str(&leader).ok()?, leader)));
    let mut reply = match leader {
        Some((value, leader)) => {
            let words = format!("this instance is a standby; the leader is {leader}");
            let mut pointed = reply::text(StatusCode::SERVICE_UNAVAILABLE, words);
            pointed.headers_mut().insert(LEADER, value);
            pointed
        }
        None => reply,
    };
    reply.headers_mut().insert(RETRY_AFTER, AGAIN);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    fn standby(address: Option<&str>) -> LeadershipSource {
        let now = Leadership {
            role: "standby",
            address: address.map(str::to_owned),
            ..Leadership::default()
        };
        LeadershipSource::new(move || now.clone())
    }

    fn refused() -> RestReply {
        let mut reply = reply::text(StatusCode::SERVICE_UNAVAILABLE, "a standby");
        reply.extensions_mut().insert(NotLeading);
        reply
    }

    async fn words(reply: RestReply) -> String {
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn only_the_response_of_a_standby_names_the_leader() {
        let source = standby(Some("provider-2.example.com:8443"));
        let pointed = point(Some(&source), refused());
        assert_eq!(pointed.status(), 503);
        assert_eq!(pointed.headers()[LEADER], "provider-2.example.com:8443");
        assert_eq!(pointed.headers()[RETRY_AFTER], "3");
        assert!(
            words(pointed)
                .await
                .contains("the leader is provider-2.example.com:8443")
        );
        // Unknown, or an attempt to inject headers.
        for source in [
            None,
            Some(standby(None)),
            Some(standby(Some("a\r\nset-cookie: x"))),
        ] {
            let reply = point(source.as_ref(), refused());
            assert!(reply.headers().get(LEADER).is_none());
            assert_eq!(words(reply).await, "a standby\n");
        }
        let other = point(
            Some(&source),
            reply::text(StatusCode::SERVICE_UNAVAILABLE, "busy"),
        );
        assert!(other.headers().get(LEADER).is_none() && other.headers().get(RETRY_AFTER).is_none());
    }
}
