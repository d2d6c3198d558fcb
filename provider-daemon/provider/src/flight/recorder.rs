//! Recorder on the engine's side: copies steps into the queue without waiting.

use super::folder;
use super::health::FlightHealth;
use super::redact::RedactionKey;
use super::writer::{self, FlightMessage};
use super::{Head, wall_ms};
use crate::numbered_files::NumberedFiles;
use akash_provider_core::Config;
use akash_provider_core::engine::{Effect, Engine, Input};
use akash_provider_core::record::{self, Recorder};
use akash_provider_core::types::Now;
use anyhow::Context;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Capacity of the recorder's queue, in steps.
const QUEUE: usize = 8192;
/// Delay before the recorder sends the engine's state again, if the queue was full.
const RETRY: Duration = Duration::from_millis(250);
/// Maximum time to write the last steps after the engine has stopped.
const LAST: Duration = Duration::from_secs(5);

/// Recorder of the engine's steps.
#[derive(Debug)]
pub struct FlightRecorder {
    /// Queue of messages, boxed because a channel allocates all its slots at once.
    queue: SyncSender<Box<FlightMessage>>,
    key: RedactionKey,
    /// Whether the writer needs the engine's state to start a file.
    wants_state: Arc<AtomicBool>,
    health: FlightHealth,
    /// Whether the writer has ended.
    stopped: bool,
    /// Number of steps that were dropped because the queue was full. Counted since the queue last accepted a
    /// message.
    missed: u64,
    /// Time at which the queue last rejected the engine's state. The next attempt waits, because copying the
    /// state is expensive.
    refused: Option<Instant>,
    open: Option<(Now, Option<Input>)>,
}

/// Handle that waits for the last writes of a recording.
#[derive(Debug)]
pub struct Finish {
    writer: JoinHandle<()>,
    health: FlightHealth,
}

/// Starts a recorder for a provider with these settings.
///
/// # Errors
/// Returns an error if the folder cannot be created or read.
pub fn start(dir: &Path, limit: u64, config: &Config) -> anyhow::Result<(FlightRecorder, Finish)> {
    let head = Head {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        chain_id: config.chain_id.clone(),
        provider: config.provider.clone(),
        started: wall_ms(),
    };
    let folder = folder::open(dir, limit)?;
    with_queue(folder, head, QUEUE)
}

pub(super) fn with_queue(
    folder: NumberedFiles,
    head: Head,
    queue: usize,
) -> anyhow::Result<(FlightRecorder, Finish)> {
    let (queue, messages) = sync_channel(queue);
    let key = RedactionKey::new()?;
    let wants_state = Arc::new(AtomicBool::new(true));
    let health = FlightHealth::default();
    let writer = writer::FlightWriter::new(
        folder,
        head,
        key.clone(),
        Arc::clone(&wants_state),
        health.clone(),
    );
    let thread = thread::Builder::new().name("flight recorder".to_owned());
    let writer = thread.spawn(move || writer.run(&messages));
    let recorder = FlightRecorder {
        queue,
        key,
        wants_state,
        health: health.clone(),
        stopped: false,
        missed: 0,
        refused: None,
        open: None,
    };
    let writer = writer.context("cannot start the flight recorder")?;
    Ok((recorder, Finish { writer, health }))
}

impl FlightRecorder {
    /// Sends the engine's state. A new file and the end of a gap require this state.
    fn offer_state(&mut self, engine: &Engine, now: Now) {
        if self.refused.is_some_and(|at| at.elapsed() < RETRY) {
            return;
        }
        let state = FlightMessage::State {
            now,
            wall: wall_ms(),
            engine: Box::new(engine.clone()),
            missed: self.missed,
        };
        if self.send(state) {
            self.wants_state.store(false, Ordering::Relaxed);
            (self.missed, self.refused) = (0, None);
        } else {
            self.refused = Some(Instant::now());
        }
    }

    /// Returns true if the queue accepted the message.
    fn send(&mut self, message: FlightMessage) -> bool {
        let sent = self.queue.try_send(Box::new(message));
        self.stopped |= matches!(sent, Err(TrySendError::Disconnected(_)));
        sent.is_ok()
    }
}

impl Recorder for FlightRecorder {
    fn record_input(&mut self, engine: &Engine, now: Now, input: Option<&Input>) {
        self.open = None;
        if self.stopped {
            return;
        }
        if self.health.is_paused() {
            self.missed += 1;
            return;
        }
        if self.missed > 0 || self.wants_state.load(Ordering::Relaxed) {
            self.offer_state(engine, now);
        }
        if self.missed > 0 {
            self.missed += 1;
            return;
        }
        self.open = Some((now, input.cloned()));
    }

    fn record_effects(&mut self, effects: &[Effect]) {
        let Some((now, input)) = self.open.take() else {
            return;
        };
        let key = &self.key;
        let turn = FlightMessage::Turn {
            now,
            input,
            effects: u32::try_from(effects.len()).unwrap_or(u32::MAX),
            // Calculated here, because the caller consumes the effects.
            digest: record::digest(effects, Some(&|secret: &str| key.redact(secret))),
        };
        if !self.send(turn) {
            self.missed += 1;
        }
    }
}

impl Finish {
    /// Returns the status of the recording. Can be called while the recorder runs.
    #[must_use]
    pub fn health(&self) -> FlightHealth {
        self.health.clone()
    }

    /// Waits until the last steps are written. Drop the recorder first.
    pub async fn wait(self) {
        let writer = tokio::task::spawn_blocking(move || self.writer.join());
        if !matches!(tokio::time::timeout(LAST, writer).await, Ok(Ok(Ok(())))) {
            tracing::warn!(
                "recording not written completely before the exit, the last inputs may be missing; check the disk"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn join(self) {
        self.writer.join().unwrap();
    }
}
