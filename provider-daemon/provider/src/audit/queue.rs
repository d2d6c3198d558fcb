//! Queue from the senders to the writer, and the health that both report.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Result of a write, for a sender that waits for a durable line.
pub(super) type Written = Result<(), String>;

#[derive(Debug)]
pub(super) enum AuditMessage {
    /// Line for the next write.
    Line(String),
    /// Line that is written immediately, with the channel for the result.
    Durable(String, oneshot::Sender<Written>),
    /// Request to write all earlier lines and then stop the writer.
    End,
}

#[derive(Debug, Default)]
pub(super) struct AuditState {
    lines: AtomicU64,
    dropped: AtomicU64,
    delayed: AtomicU64,
    /// Error of the last write; `None` after a success.
    problem: Mutex<Option<String>>,
}

impl AuditState {
    fn problem(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.problem() = problem;
    }

    pub(super) fn count_lines(&self, lines: usize) {
        self.lines.fetch_add(lines as u64, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self, lines: usize) {
        self.dropped.fetch_add(lines as u64, Ordering::Relaxed);
    }

    pub(super) fn count_delayed(&self) {
        self.delayed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn health(&self) -> AuditHealth {
        AuditHealth {
            lines: self.lines.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            delayed: self.delayed.load(Ordering::Relaxed),
            problem: self.problem().clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AuditHealth {
    /// Number of lines written since the start.
    pub(crate) lines: u64,
    /// Number of lines that were dropped since the start.
    pub(crate) dropped: u64,
    /// Number of acts that were delayed because the log could not be written.
    pub(crate) delayed: u64,
    /// Error of the last write; `None` after a success.
    pub(crate) problem: Option<String>,
}
