//! Writer of the log: a thread that appends lines in batches.

use super::files::{AuditSettings, FILE_MIN};
use super::line::{AuditLine, LineFormat};
use super::queue::{AuditMessage, AuditState, Written};
use crate::flight::wall_ms;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time for which the writer collects lines before a write. A crash loses the collected lines. A line is
/// written immediately if its sender waits for the write.
const COLLECT: Duration = Duration::from_millis(50);
/// Maximum number of messages per write.
const BATCH_MAX: usize = 1024;
/// Delay before the next attempt to write after a failure.
const RETRY: Duration = Duration::from_millis(250);
/// Maximum time to wait for a message if nothing is pending.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum total size of the lines that are retained during a failure, in bytes.
const RETAINED_MAX: usize = 4 << 20;

/// Unwritten line, with the channel for the result of the write.
struct UnwrittenLine {
    line: String,
    done: Option<oneshot::Sender<Written>>,
}

/// Error that has prevented writes since the time `since`.
struct WriteFailure {
    /// Start of the failure, in milliseconds since the Unix epoch.
    since: u64,
    /// Time of the last attempt.
    last: Instant,
    why: String,
    /// Number of lines that were not written.
    dropped: usize,
}

pub(super) struct AuditWriter {
    settings: AuditSettings,
    format: LineFormat,
    shared: Arc<AuditState>,
    pending: VecDeque<UnwrittenLine>,
    failure: Option<WriteFailure>,
    ends: bool,
}

impl AuditWriter {
    pub(super) const fn new(settings: AuditSettings, format: LineFormat, shared: Arc<AuditState>) -> Self {
        Self {
            settings,
            format,
            shared,
            pending: VecDeque::new(),
            failure: None,
            ends: false,
        }
    }

    pub(super) fn run(mut self, messages: &Receiver<AuditMessage>) {
        while !self.ends {
            let turn = catch_unwind(AssertUnwindSafe(|| {
                self.take(messages);
                self.write();
            }));
            if turn.is_err() {
                self.pending.clear();
                self.fail("the writer panicked".to_owned());
            }
        }
    }

    fn take(&mut self, messages: &Receiver<AuditMessage>) {
        let is_idle = self.pending.is_empty() && self.failure.is_none();
        let wait = if is_idle { IDLE } else { RETRY };
        match messages.recv_timeout(wait) {
            Ok(message) => {
                let is_urgent = !matches!(message, AuditMessage::Line(_));
                self.push(message);
                if !is_urgent {
                    thread::sleep(COLLECT);
                }
            }
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => self.ends = true,
        }
        for message in messages.try_iter().take(BATCH_MAX) {
            self.push(message);
        }
    }

    fn push(&mut self, message: AuditMessage) {
        let pending = match message {
            AuditMessage::Line(line) => UnwrittenLine { line, done: None },
            AuditMessage::Durable(line, done) => UnwrittenLine {
                line,
                done: Some(done),
            },
            AuditMessage::End => {
                self.ends = true;
                return;
            }
        };
        self.pending.push_back(pending);
    }

    /// Writes the pending lines. After a failure, first writes a line about the failure.
    ///
    /// Within [`RETRY`] after a failed attempt, writes nothing, and returns the error to the callers that
    /// wait for their lines. The last write before the end of the process ignores [`RETRY`].
    fn write(&mut self) {
        let is_recent = |failure: &WriteFailure| failure.last.elapsed() < RETRY && !self.ends;
        if self.failure.as_ref().is_some_and(is_recent) {
            return self.retain();
        }
        // A sender that no longer waits has not started its act.
        let is_wanted = |pending: &UnwrittenLine| pending.done.as_ref().is_none_or(|done| !done.is_closed());
        self.pending.retain(is_wanted);
        while !self.pending.is_empty() || self.failure.is_some() {
            let (mut lines, mut count) = (self.failure_line(), 0);
            for pending in &self.pending {
                if lines.len() as u64 >= FILE_MIN / 2 {
                    break;
                }
                lines.push_str(&pending.line);
                count += 1;
            }
            if let Err(error) = self.settings.append(lines.as_bytes()) {
                return self.fail(format!("{error:#}"));
            }
            self.shared
                .count_lines(count + usize::from(self.failure.is_some()));
            // Before the replies, so that a sender finds the status without the failure.
            self.recover();
            for done in self.pending.drain(..count).filter_map(|pending| pending.done) {
                // The sender may have stopped waiting.
                drop(done.send(Ok(())));
            }
        }
    }

    fn failure_line(&self) -> String {
        let dir = &self.settings.dir;
        let line = self.failure.as_ref().map(|failure| {
            AuditLine::failure(&self.format, failure.since, dir, &failure.why, failure.dropped).to_json()
        });
        line.unwrap_or_default()
    }

    fn recover(&mut self) {
        if self.failure.take().is_some() {
            self.shared.set_problem(None);
            tracing::info!(
                "audit log is writable again, so delayed closes, teardowns and revocations continue"
            );
        }
    }

    fn fail(&mut self, why: String) {
        // Before the replies, so that a sender with an error finds the reason in the status.
        self.shared.set_problem(Some(why.clone()));
        let last = Instant::now();
        match &mut self.failure {
            Some(failure) => (failure.last, failure.why) = (last, why),
            None => {
                tracing::error!(
                    error = why,
                    dir = %self.settings.dir.display(),
                    "audit log not writable: closes of leases, teardowns and revocations wait; check the free space and the permissions of the directory, or restart with --audit-log none"
                );
                let (since, dropped) = (wall_ms(), 0);
                self.failure = Some(WriteFailure {
                    since,
                    last,
                    why,
                    dropped,
                });
            }
        }
        self.retain();
    }

    /// Reports the failure to the callers that wait for their lines. Retains the lines without a waiting
    /// caller. If these lines exceed [`RETAINED_MAX`] bytes, drops the oldest lines.
    fn retain(&mut self) {
        let Some(failure) = &mut self.failure else {
            return;
        };
        let (waiting, retained): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| pending.done.is_some());
        for done in waiting.into_iter().filter_map(|pending| pending.done) {
            drop(done.send(Err(failure.why.clone())));
        }
        self.pending = retained;
        let mut bytes: usize = self.pending.iter().map(|pending| pending.line.len()).sum();
        let mut dropped = 0;
        while bytes > RETAINED_MAX
            && let Some(oldest) = self.pending.pop_front()
        {
            bytes -= oldest.line.len();
            dropped += 1;
        }
        if dropped == 0 {
            return;
        }
        self.shared.count_dropped(dropped);
        if failure.dropped == 0 {
            tracing::warn!(
                dropped,
                "audit log incomplete: the oldest lines were dropped while the log was not writable; check the free space"
            );
        }
        failure.dropped += dropped;
    }
}
