//! Writes of each daemon that the API server received, according to its audit log.

use super::room::{Sent, To};
use data_encoding::BASE64URL_NOPAD;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use testbed::Testbed;

/// Key of the extra user field with the token id.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Audit log of the API server since a point in time.
pub(crate) struct Audit {
    path: PathBuf,
    /// Length of the audit log at the start, in bytes.
    from: usize,
    start: (SystemTime, Instant),
    /// Ids of the tokens with which the daemons authenticate.
    credentials: [String; 2],
}

impl Audit {
    pub(crate) fn start(cluster: &Testbed, tokens: &[String; 2]) -> Self {
        let path = cluster.audit_log();
        let from = std::fs::read_to_string(&path).map_or(0, |text| text.len());
        Self {
            path,
            from,
            start: (SystemTime::now(), Instant::now()),
            credentials: [0, 1].map(|who| credential(&tokens[who])),
        }
    }

    /// Returns the writes of the daemons, except election writes and access reviews.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        let lines = text[self.from..].lines();
        let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter_map(|event| self.write(&event)).collect()
    }

    fn write(&self, event: &Value) -> Option<Sent> {
        let object = &event["objectRef"];
        let is_election = object["resource"] == "leases";
        let reviews = ["authentication.k8s.io", "authorization.k8s.io"];
        let is_review = reviews.iter().any(|group| object["apiGroup"] == *group);
        let id = event["user"]["extra"][CREDENTIAL][0].as_str()?;
        let by = self.credentials.iter().position(|own| own == id)?;
        // A dry run stores nothing.
        let is_dry_run = event["requestURI"].as_str()?.contains("dryRun=All");
        if is_election || is_review || is_dry_run {
            return None;
        }
        let at: Timestamp = event["requestReceivedTimestamp"].as_str()?.parse().ok()?;
        let at = Duration::from_micros(u64::try_from(at.as_microsecond()).ok()?);
        let (then, start) = self.start;
        let at = (SystemTime::UNIX_EPOCH + at).duration_since(then).ok()?;
        Some(Sent {
            by,
            to: To::Cluster,
            at: start + at,
            // A client keeps its connections from its start on.
            connected: start,
        })
    }
}

/// Returns the token id in the notation of the audit log.
fn credential(token: &str) -> String {
    let payload = token.split('.').nth(1).unwrap();
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).unwrap();
    let payload: Value = serde_json::from_slice(&payload).unwrap();
    format!("JTI={}", payload["jti"].as_str().unwrap())
}
