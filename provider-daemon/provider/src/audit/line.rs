//! Line of the log, as JSON and as text.

use crate::flight::{format_time, wall_ms};
use akash_provider_cli::plain::{self, count, cut};
use akash_provider_core::audit::{Actor, AuditEntry, Evidence};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Maximum length of a text in a line, in characters.
const TEXT_MAX: usize = 1024;
/// Number in the ID of a line about a failed write of the log. The numbers of acts start at 1.
const FAILURE: u64 = 0;

/// Format of the IDs in the log. Each ID starts with the start time of this process.
#[derive(Debug, Clone)]
pub(super) struct LineFormat {
    /// Start of the process in milliseconds since the Unix epoch.
    started: u64,
}

impl LineFormat {
    pub(super) fn new() -> Self {
        Self { started: wall_ms() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuditStage {
    /// The act follows.
    Intent,
    /// The act ended, or its result changed.
    Outcome,
}

/// Line of the audit log. Fields of a later version are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuditLine {
    /// RFC 3339 time in UTC.
    pub(super) time: String,
    /// ID of the act, the same for its intent and outcomes.
    pub(super) id: String,
    pub(super) act: String,
    pub(super) stage: AuditStage,
    pub(super) actor: ActorLine,
    pub(super) subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) evidence: EvidenceLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<OutcomeLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ActorLine {
    /// `user` for an act that a system user requested, otherwise `provider`.
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct EvidenceLine {
    /// Height of the newest block that was processed before the act.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u64>,
    /// Evidence that the lease is closed on the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<ReportLine>,
    /// Record of the closed lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    /// Deleted object of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
}

/// Source and block height of the evidence that a lease is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ReportLine {
    /// `chain` for a chain event or a rejected message; `scan` for a comparison of chain and cluster.
    source: String,
    height: u64,
}

/// Chain record of a closed lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordLine {
    height: u64,
    state: String,
    /// Whether the queried endpoints agree about the state of the lease.
    agreement: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct OutcomeLine {
    pub(super) result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Height of the block that contains the transaction of the act.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fee: Option<String>,
}

impl AuditLine {
    /// Creates the line of an audit entry, with the current time.
    pub(super) fn new(format: &LineFormat, entry: &AuditEntry) -> Self {
        let act = &entry.act;
        let outcome = entry.outcome.as_ref();
        Self {
            time: format_time(wall_ms()),
            id: format!("{:x}-{}", format.started, entry.number),
            act: act.kind.name().to_owned(),
            stage: outcome.map_or(AuditStage::Intent, |_| AuditStage::Outcome),
            actor: ActorLine::new(&act.actor),
            subject: bounded(&act.subject),
            reason: act.reason.as_deref().map(bounded),
            evidence: EvidenceLine::new(&act.evidence),
            outcome: outcome.map(|outcome| OutcomeLine {
                result: outcome.result.to_owned(),
                message: outcome.message.as_deref().map(bounded),
                height: outcome.height,
                tx_hash: outcome.receipt.as_ref().map(|receipt| receipt.hash.clone()),
                fee: outcome.receipt.as_ref().map(|receipt| receipt.fee.to_string()),
            }),
        }
    }

    /// Creates the line about a failure to write the log. `since` is the start of the failure, in
    /// milliseconds since the Unix epoch. `dropped` is the number of lost lines.
    pub(super) fn failure(format: &LineFormat, since: u64, dir: &Path, why: &str, dropped: usize) -> Self {
        let lost = match dropped {
            0 => String::new(),
            _ => format!("; {} dropped", count(dropped, "line")),
        };
        Self {
            time: format_time(since),
            id: format!("{:x}-{FAILURE}", format.started),
            act: "audit_log_failure".to_owned(),
            stage: AuditStage::Outcome,
            actor: ActorLine::new(&Actor::Provider),
            subject: bounded(&dir.display().to_string()),
            reason: None,
            evidence: EvidenceLine::default(),
            outcome: Some(OutcomeLine {
                result: "written_late".to_owned(),
                message: Some(bounded(why) + &lost),
                ..OutcomeLine::default()
            }),
        }
    }

    /// Returns the line as JSON, with a line feed.
    pub(super) fn to_json(&self) -> String {
        // A structure of texts and numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    pub(super) fn to_text(&self) -> String {
        let result = match &self.outcome {
            None => "intent".to_owned(),
            Some(outcome) => outcome.to_text(),
        };
        let details = [
            self.reason.as_ref().map(|reason| format!("reason {reason}")),
            Some(self.actor.to_text()),
            // The outcome has the same evidence as the intent.
            self.outcome.is_none().then(|| self.evidence.to_text()).flatten(),
        ];
        let details: Vec<String> = details.into_iter().flatten().collect();
        let (time, act, subject) = (&self.time, &self.act, &self.subject);
        let text = format!("{time} {act} {subject}: {result} ({})", details.join(", "));
        plain::line(&text).into_owned() + "\n"
    }

    /// Returns true if the time of the line is not before `start`. The unit of `start` is milliseconds since
    /// the Unix epoch.
    pub(super) fn is_since(&self, start: u64) -> bool {
        // A time that cannot be parsed is listed rather than hidden.
        let time = humantime::parse_rfc3339(&self.time).ok();
        time.is_none_or(|time| time >= UNIX_EPOCH + Duration::from_millis(start))
    }
}

impl ActorLine {
    fn new(actor: &Actor) -> Self {
        let (kind, uid, pid) = match actor {
            Actor::User { uid, pid } => ("user", *uid, *pid),
            _ => ("provider", None, None),
        };
        let kind = kind.to_owned();
        Self { kind, uid, pid }
    }

    fn to_text(&self) -> String {
        let uid = self.uid.map(|uid| format!(" uid {uid}")).unwrap_or_default();
        let pid = self.pid.map(|pid| format!(" pid {pid}")).unwrap_or_default();
        format!("by {}{uid}{pid}", self.kind)
    }
}

impl EvidenceLine {
    fn new(evidence: &Evidence) -> Self {
        let named = |value: serde_json::Result<serde_json::Value>| {
            let text = value.ok().and_then(|value| value.as_str().map(str::to_owned));
            text.unwrap_or_default()
        };
        Self {
            height: evidence.height,
            report: evidence.report.map(|(source, height)| ReportLine {
                source: source.to_owned(),
                height,
            }),
            record: evidence.record.map(|record| RecordLine {
                height: record.height,
                state: named(serde_json::to_value(record.state)),
                agreement: named(serde_json::to_value(record.agreement)),
                reason: record.reason.map(|reason| reason.name().to_owned()),
            }),
            price: evidence.price.as_ref().map(|price| bounded(&price.to_string())),
            deposit: evidence
                .deposit
                .as_ref()
                .map(|deposit| bounded(&deposit.to_string())),
            request: evidence.request.as_deref().map(bounded),
            object: evidence.object.as_deref().map(bounded),
        }
    }

    fn to_text(&self) -> Option<String> {
        let record = |record: &RecordLine| {
            let reason = record
                .reason
                .as_ref()
                .map(|reason| format!(" {reason}"))
                .unwrap_or_default();
            format!(
                "record {}{reason} at height {}, {}",
                record.state, record.height, record.agreement
            )
        };
        let report =
            |report: &ReportLine| format!("reported by {} at height {}", report.source, report.height);
        let parts = [
            self.price.as_ref().map(|price| format!("price {price}")),
            self.deposit.as_ref().map(|deposit| format!("deposit {deposit}")),
            self.report.as_ref().map(report),
            self.record.as_ref().map(record),
            self.request.as_ref().map(|request| format!("request {request}")),
            self.object.as_ref().map(|object| format!("object {object}")),
            self.height.map(|height| format!("at height {height}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl OutcomeLine {
    fn to_text(&self) -> String {
        let parts = [
            self.height.map(|height| format!(" in block {height}")),
            self.message.as_ref().map(|message| format!(": {message}")),
            self.tx_hash.as_ref().map(|hash| format!(", transaction {hash}")),
            self.fee.as_ref().map(|fee| format!(", fee {fee}")),
        ];
        self.result.clone() + &parts.into_iter().flatten().collect::<String>()
    }
}

fn bounded(text: &str) -> String {
    cut(text.to_owned(), TEXT_MAX)
}
