//! Result of one check.

use serde::Serialize;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::timeout;

/// Severity of a result, from the least to the most severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// The check passed.
    Ok,
    /// The check could not run, or does not apply.
    Skipped,
    /// The provider works, but needs attention.
    Warning,
    /// The provider does not work, or tenants cannot use it.
    Failure,
}

impl Severity {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// Part of an installation. The variants are in the order of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Area {
    /// Flags, variables and files.
    Settings,
    /// Signing key.
    Key,
    /// Running provider that uses the home directory.
    Provider,
    /// Machine: files, disk, clock, limits.
    Host,
    /// Nodes of the chain.
    Chain,
    Account,
    /// Certificate of the gateway.
    Certificate,
    /// Public DNS names, and ports of the gateway.
    Dns,
    /// API server: connection, permissions, custom resource definitions, and HTTP routes.
    Kubernetes,
    /// Nodes, storage classes and GPUs.
    Nodes,
    /// Operators in the cluster.
    Operators,
    /// Redis.
    Bus,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    severity: Severity,
    subject: String,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl Check {
    fn new(severity: Severity, subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            severity,
            subject: subject.into(),
            detail: detail.into(),
            help: None,
        }
    }

    pub(super) fn ok(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Severity::Ok, subject, detail)
    }

    pub(super) fn skipped(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(Severity::Skipped, subject, reason)
    }

    pub(super) fn warning(
        subject: impl Into<String>,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Warning, subject, detail).with_help(help)
    }

    pub(super) fn failure(
        subject: impl Into<String>,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Failure, subject, detail).with_help(help)
    }

    /// Creates a failure, or a warning if `is_minor` is true.
    pub(super) fn problem(
        is_minor: bool,
        subject: impl Into<String>,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        match is_minor {
            true => Self::warning(subject, detail, help),
            false => Self::failure(subject, detail, help),
        }
    }

    fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) const fn severity(&self) -> Severity {
        self.severity
    }

    pub(super) fn subject(&self) -> &str {
        &self.subject
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

/// Joins the first `max` texts with commas, then the number of other texts: `and 3 more`.
pub(super) fn listed(texts: impl IntoIterator<Item = String>, max: usize) -> String {
    let mut texts: Vec<String> = texts.into_iter().collect();
    let more = texts.len().saturating_sub(max);
    texts.truncate(max);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    texts.join(", ")
}

/// Returns the response of a server, or the reason for a failure or timeout.
pub(super) async fn within<T, E: Display>(
    limit: Duration,
    asking: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(limit, asking).await {
        Ok(response) => response.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no response within {limit:?}")),
    }
}
