//! Which of several instances leads, for whoever asks one that does not.

use crate::rest::answer::{self, Answer};
use http::StatusCode;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Where the leader is asked, on an answer of a standby.
const LEADER: HeaderName = HeaderName::from_static("akash-provider-leader");
/// Seconds after which asking again may help: a leadership is handed over in less.
const AGAIN: HeaderValue = HeaderValue::from_static("3");

/// How the election stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Leadership {
    /// `leader` or `standby`.
    pub role: &'static str,
    /// The term that this instance leads in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// Who leads, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Where tenants reach the one that leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Term of the record, if no leadership can have it. A third party forged it, and it is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implausible_term: Option<u64>,
}

/// Says how it stands, at any time.
#[derive(Clone)]
pub struct LeadershipSource(Arc<dyn Fn() -> Leadership + Send + Sync>);

impl fmt::Debug for LeadershipSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeadershipSource").field(&self.now()).finish()
    }
}

impl LeadershipSource {
    /// One that asks this.
    #[must_use]
    pub fn new(now: impl Fn() -> Leadership + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Leadership {
        (self.0)()
    }
}

/// Marks the answer of a standby that the leader would have given otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotLeading;

/// Says on an answer of a standby where the leader is, where that is known.
pub(crate) fn point(source: Option<&LeadershipSource>, answer: Answer) -> Answer {
    if answer.extensions().get::<NotLeading>().is_none() {
        return answer;
    }
    let leader = source.and_then(|source| source.now().address);
    // Whoever wrote the record may have written anything.
    let leader = leader.and_then(|leader| Some((HeaderValue::from_str(&leader).ok()?, leader)));
    let mut answer = match leader {
        Some((value, leader)) => {
            let words = format!("this instance is a standby; ask the leading one at {leader}");
            let mut pointed = answer::text(StatusCode::SERVICE_UNAVAILABLE, words);
            pointed.headers_mut().insert(LEADER, value);
            pointed
        }
        None => answer,
    };
    answer.headers_mut().insert(RETRY_AFTER, AGAIN);
    answer
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

    fn refused() -> Answer {
        let mut answer = answer::text(StatusCode::SERVICE_UNAVAILABLE, "a standby");
        answer.extensions_mut().insert(NotLeading);
        answer
    }

    async fn words(answer: Answer) -> String {
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_of_a_standby_says_where_the_leader_is_and_others_stay_as_they_are() {
        let source = standby(Some("provider-2.example.com:8443"));
        let pointed = point(Some(&source), refused());
        assert_eq!(pointed.status(), 503);
        assert_eq!(pointed.headers()[LEADER], "provider-2.example.com:8443");
        assert_eq!(pointed.headers()[RETRY_AFTER], "3");
        assert!(
            words(pointed)
                .await
                .contains("ask the leading one at provider-2.example.com:8443")
        );
        // Not known, or written by somebody who wants to add headers.
        for source in [
            None,
            Some(standby(None)),
            Some(standby(Some("a\r\nset-cookie: x"))),
        ] {
            let answer = point(source.as_ref(), refused());
            assert!(answer.headers().get(LEADER).is_none());
            assert_eq!(words(answer).await, "a standby\n");
        }
        let other = point(
            Some(&source),
            answer::text(StatusCode::SERVICE_UNAVAILABLE, "busy"),
        );
        assert!(other.headers().get(LEADER).is_none() && other.headers().get(RETRY_AFTER).is_none());
    }
}
