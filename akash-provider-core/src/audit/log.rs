//! Port of the audit log, and the entries of one act in the log.

use super::{Act, ActOutcome};
use crate::error::{Error, ErrorKind};
use async_trait::async_trait;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time to record one intent.
pub(crate) const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// Entry of the log: the intent or the outcome of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Number of the act, unique within the process. All entries of an act have the same number.
    pub number: u64,
    /// Act of the entry.
    pub act: Arc<Act>,
    /// Outcome of the act; `None` for the intent.
    pub outcome: Option<ActOutcome>,
}

/// Log of the acts of a provider.
///
/// # Behavior
/// - Before an act that destroys data, the provider passes the intent to [`AuditLog::record`]. The act waits
///   until `record` succeeds. The provider repeats a call that fails or takes longer than ten seconds.
/// - The provider passes all other entries to [`AuditLog::submit`], in the order of their acts.
#[async_trait]
pub trait AuditLog: fmt::Debug + Send + Sync + 'static {
    /// Records an entry, and returns when the entry is durable.
    ///
    /// # Errors
    /// Returns an error unless the entry is certainly durable.
    async fn record(&self, entry: AuditEntry) -> Result<(), Error>;

    /// Records an entry without waiting. This method must not block.
    fn submit(&self, entry: AuditEntry);
}

/// Act with its log.
#[derive(Debug)]
pub struct AuditedAct {
    log: Arc<dyn AuditLog>,
    number: u64,
    act: Arc<Act>,
    progress: Mutex<ActProgress>,
}

#[derive(Debug, Default)]
struct ActProgress {
    is_started: bool,
    /// Last recorded outcome.
    outcome: Option<ActOutcome>,
}

impl AuditedAct {
    /// Creates an act that is not in the log yet.
    #[must_use]
    pub fn new(log: Arc<dyn AuditLog>, act: Act) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            log,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            act: Arc::new(act),
            progress: Mutex::default(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, ActProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, outcome: Option<ActOutcome>) -> AuditEntry {
        AuditEntry {
            number: self.number,
            act: Arc::clone(&self.act),
            outcome,
        }
    }

    /// Records the intent of the act. If the act destroys data, waits until the entry is durable.
    ///
    /// # Errors
    /// Returns an error if the log cannot store the entry within ten seconds. The caller must not start the
    /// act after an error.
    pub async fn record_intent(&self) -> Result<(), Error> {
        if self.progress().is_started {
            return Ok(());
        }
        let intent = self.entry(None);
        if self.act.kind.destroys() {
            let recorded = timeout(RECORD_TIMEOUT, self.log.record(intent)).await;
            recorded.unwrap_or_else(|_| {
                let message = format!("the audit log does not respond within {RECORD_TIMEOUT:?}");
                Err(Error::new(ErrorKind::Timeout, "audit", message))
            })?;
        } else {
            self.log.submit(intent);
        }
        self.progress().is_started = true;
        Ok(())
    }

    /// Records the outcome of the act. Does nothing if no intent was recorded, or if `outcome` equals the
    /// last recorded outcome.
    pub fn record_outcome(&self, outcome: ActOutcome) {
        let mut progress = self.progress();
        if !progress.is_started || progress.outcome.as_ref() == Some(&outcome) {
            return;
        }
        progress.outcome = Some(outcome.clone());
        drop(progress);
        self.log.submit(self.entry(Some(outcome)));
    }

    /// Returns true if the last recorded outcome has this result.
    #[must_use]
    pub fn has_result(&self, result: &str) -> bool {
        let progress = self.progress();
        progress
            .outcome
            .as_ref()
            .is_some_and(|last| last.result == result)
    }
}
