//! Log of a running provider: the sending half of the queue, and its health.

use super::files::AuditSettings;
use super::line::{AuditLine, LineFormat};
use super::queue::{AuditHealth, AuditMessage, AuditState};
use super::writer::AuditWriter;
use akash_provider_core::audit::{Act, Actor, AuditEntry, AuditLog, AuditedAct};
use akash_provider_core::error::{Error, ErrorKind};
use async_trait::async_trait;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Handle of the audit log of a running provider. Clones share the log.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    queue: SyncSender<AuditMessage>,
    shared: Arc<AuditState>,
    format: LineFormat,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// Starts the writer thread of the log. The thread opens the directory.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub(crate) fn start(settings: AuditSettings) -> std::io::Result<Audit> {
    let (queue, messages) = sync_channel(QUEUE);
    let shared = Arc::<AuditState>::default();
    let format = LineFormat::new();
    let writer = AuditWriter::new(settings, format.clone(), Arc::clone(&shared));
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
        self.shared.health()
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
            drop(queue.send(AuditMessage::End));
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
        let message = AuditMessage::Durable(self.line(&entry), done);
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
        if self
            .queue
            .try_send(AuditMessage::Line(self.line(&entry)))
            .is_err()
        {
            self.shared.count_dropped(1);
        }
    }
}

/// Returns the system user and the ID of this process.
pub fn this_process() -> Actor {
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
