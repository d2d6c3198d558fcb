//! Log of a running provider: the sending half of the queue, and its health.

use super::files::AuditSettings;
use super::line::{AuditLine, LineFormat};
use super::writer::Writer;
use akash_provider_core::audit::{Act, Actor, AuditEntry, AuditLog, AuditedAct};
use akash_provider_core::error::{Error, ErrorKind};
use async_trait::async_trait;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// Capacity of the audit queue, in lines.
const QUEUE: usize = 8192;
/// Maximum time to write the last lines when the process stops.
const LAST: Duration = Duration::from_secs(5);
/// Help text that is shown while the log cannot be written.
pub(crate) const HELP: &str =
    "check the free space and the permissions of the directory, or restart with --audit-log none";

/// Result of a write, for a sender that waits for a durable line.
pub(super) type Written = Result<(), String>;

#[derive(Debug)]
pub(super) enum Message {
    /// Line for the next write.
    Line(String),
    /// Line that is written immediately, with the channel for the result.
    Durable(String, oneshot::Sender<Written>),
    /// Request to write all earlier lines and then stop the writer.
    End,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    lines: AtomicU64,
    dropped: AtomicU64,
    delayed: AtomicU64,
    /// Error of the last write; `None` after a success.
    problem: Mutex<Option<String>>,
}

impl Shared {
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

/// Handle of the audit log of a running provider. Clones share the log.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    format: LineFormat,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// Starts the writer thread of the log. The thread opens the directory.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub(crate) fn start(settings: AuditSettings) -> std::io::Result<Audit> {
    let (queue, messages) = sync_channel(QUEUE);
    let shared = Arc::<Shared>::default();
    let format = LineFormat::new();
    let writer = Writer::new(settings, format.clone(), Arc::clone(&shared));
    let thread = thread::Builder::new().name("audit log".to_owned());
    let writer = thread.spawn(move || writer.run(&messages))?;
    Ok(Audit {
        queue,
        shared,
        format,
        writer: Arc::new(Mutex::new(Some(writer))),
    })
}

impl Audit {
    pub(crate) fn health(&self) -> AuditHealth {
        AuditHealth {
            lines: self.shared.lines.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            delayed: self.shared.delayed.load(Ordering::Relaxed),
            problem: self.shared.problem().clone(),
        }
    }

    /// Creates an audited act with this log.
    pub(crate) fn act(&self, act: Act) -> AuditedAct {
        AuditedAct::new(Arc::new(self.clone()), act)
    }

    /// Writes the last lines and ends the writer.
    pub(crate) async fn finish(self) {
        let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let queue = self.queue;
        let ended = tokio::task::spawn_blocking(move || {
            drop(queue.send(Message::End));
            writer.join()
        });
        if !matches!(tokio::time::timeout(LAST, ended).await, Ok(Ok(Ok(())))) {
            tracing::warn!(
                "audit log not written completely before the exit, the last lines may be missing; check the disk"
            );
        }
    }

    fn line(&self, entry: &AuditEntry) -> String {
        AuditLine::new(&self.format, entry).to_json()
    }
}

#[async_trait]
impl AuditLog for Audit {
    async fn record(&self, entry: AuditEntry) -> Result<(), Error> {
        let (done, written) = oneshot::channel();
        let message = Message::Durable(self.line(&entry), done);
        // A message that does not fit is dropped here, and its receiver then returns an error.
        let is_queued = self.queue.try_send(message).is_ok();
        let why = match written.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(_) if is_queued => "the writer has ended".to_owned(),
            Err(_) => "the queue is full, or the writer has ended".to_owned(),
        };
        self.shared.count_delayed();
        Err(unwritten(&why))
    }

    fn submit(&self, entry: AuditEntry) {
        if self.queue.try_send(Message::Line(self.line(&entry))).is_err() {
            self.shared.count_dropped(1);
        }
    }
}

pub(crate) fn this_process() -> Actor {
    let uid = nix::unistd::getuid().as_raw();
    user(uid, i32::try_from(std::process::id()).ok())
}

pub(crate) const fn user(uid: u32, pid: Option<i32>) -> Actor {
    Actor::User { uid: Some(uid), pid }
}

pub(super) fn unwritten(why: &str) -> Error {
    let message = format!("cannot write the audit log: {why}");
    Error::new(ErrorKind::Unavailable, "audit", message)
}
