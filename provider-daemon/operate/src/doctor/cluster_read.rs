//! Requests to the API server with a time limit, and checks that an object exists.

use super::check::Check;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum duration of one request.
pub(super) const LIMIT: Duration = Duration::from_secs(3);

/// Reason why an object of the cluster is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// This Kubernetes user has no right to read the object.
    Forbidden,
    /// The request failed.
    Failed(String),
}

/// Returns the response of the API server, if it arrives within the time limit.
pub(super) async fn read<T>(
    limit: Duration,
    reading: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Unread> {
    match timeout(limit, reading).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Err(Unread::Forbidden),
        Ok(Err(error)) => Err(Unread::Failed(error.to_string())),
        Err(_) => Err(Unread::Failed(format!("no response within {limit:.1?}"))),
    }
}

/// Returns the response for a path, with a body of at most `most` bytes.
pub(super) async fn get(client: &Client, path: &str, most: usize) -> anyhow::Result<Response<Bytes>> {
    let response = client.send(Request::get(path).body(Body::empty())?).await?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
    Ok(Response::from_parts(head, body))
}

/// Object that the settings or the nodes require.
pub(super) struct Needed {
    pub(super) subject: &'static str,
    /// Effect of the missing object.
    pub(super) without: &'static str,
    pub(super) help: &'static str,
}

/// Judges whether the object `name` exists.
pub(super) fn judge_existence<T>(needed: &Needed, name: &str, found: &Result<Option<T>, Unread>) -> Check {
    let &Needed {
        subject,
        without,
        help,
    } = needed;
    match found {
        Ok(Some(_)) => Check::ok(subject, format!("{name} exists")),
        Ok(None) => Check::failure(subject, format!("{name} does not exist, so {without}"), help),
        Err(Unread::Forbidden) => Check::skipped(
            subject,
            format!("this Kubernetes user has no right to read {name}"),
        ),
        Err(Unread::Failed(why)) => Check::warning(subject, format!("cannot read {name}: {why}"), help),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn needed_object_must_exist() {
        let needed = Needed {
            subject: "class",
            without: "x",
            help: "y",
        };
        for (found, wanted) in [
            (Ok(Some(())), Severity::Ok),
            (Ok(None), Severity::Failure),
            (Err(Unread::Forbidden), Severity::Skipped),
            (Err(Unread::Failed("x".to_owned())), Severity::Warning),
        ] {
            assert_eq!(judge_existence(&needed, "a/b", &found).severity(), wanted);
        }
    }
}
