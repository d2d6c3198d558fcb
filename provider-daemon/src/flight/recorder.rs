//! The end of the recorder that stands beside the engine: it copies, and waits for nothing.

use super::cover::Key;
use super::health::Health;
use super::shelf::Shelf;
use super::writer::{self, Note};
use super::{Head, wall};
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

/// Turns that may wait to be written.
const QUEUE: usize = 8192;
/// When a state that found no room is offered again.
const RETRY: Duration = Duration::from_millis(250);
/// How long the last of it may take to be written.
const LAST: Duration = Duration::from_secs(5);

/// Takes down what the engine does.
#[derive(Debug)]
pub struct FlightRecorder {
    queue: SyncSender<Note>,
    key: Key,
    /// The writer wants the engine's state, to begin a file with it.
    wants_state: Arc<AtomicBool>,
    health: Health,
    /// The writer is gone.
    stopped: bool,
    /// Turns that found no room in the queue, and that nothing was written since.
    missed: u64,
    /// When a state found no room last: to copy the engine for nothing again and again is what would cost most.
    refused: Option<Instant>,
    open: Option<(Now, Option<Input>)>,
}

/// Waits for the writer.
#[derive(Debug)]
pub struct Finish {
    writer: JoinHandle<()>,
    health: Health,
}

/// Starts a recorder of a provider with these settings.
///
/// # Errors
/// The folder cannot be made or looked into.
pub fn start(dir: &Path, limit: u64, config: &Config) -> anyhow::Result<(FlightRecorder, Finish)> {
    let head = Head {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        chain_id: config.chain_id.clone(),
        provider: config.provider.clone(),
        started: wall(),
    };
    let shelf = Shelf::open(dir, limit)?;
    with_queue(shelf, head, QUEUE)
}

pub(super) fn with_queue(shelf: Shelf, head: Head, queue: usize) -> anyhow::Result<(FlightRecorder, Finish)> {
    let (queue, notes) = sync_channel(queue);
    let key = Key::new()?;
    let wants_state = Arc::new(AtomicBool::new(true));
    let health = Health::default();
    let writer = writer::Writer::new(shelf, head, key.clone(), Arc::clone(&wants_state), health.clone());
    let thread = thread::Builder::new().name("flight recorder".to_owned());
    let writer = thread.spawn(move || writer.run(&notes));
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
    let writer = writer.context("starting the flight recorder")?;
    Ok((recorder, Finish { writer, health }))
}

impl FlightRecorder {
    /// After a gap nothing can be replayed before the next state, and a file begins with one.
    fn offer_state(&mut self, engine: &Engine, now: Now) {
        if self.refused.is_some_and(|at| at.elapsed() < RETRY) {
            return;
        }
        let state = Note::State {
            now,
            wall: wall(),
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

    /// True where the note found room.
    fn send(&mut self, note: Note) -> bool {
        let sent = self.queue.try_send(note);
        self.stopped |= matches!(sent, Err(TrySendError::Disconnected(_)));
        sent.is_ok()
    }
}

impl Recorder for FlightRecorder {
    fn takes(&mut self, engine: &Engine, now: Now, input: Option<&Input>) {
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

    fn made(&mut self, effects: &[Effect]) {
        let Some((now, input)) = self.open.take() else {
            return;
        };
        let key = &self.key;
        let turn = Note::Turn {
            now,
            input,
            effects: u32::try_from(effects.len()).unwrap_or(u32::MAX),
            // Here, because what was carried out is no longer there to be looked at.
            digest: record::digest(effects, Some(&|secret: &str| key.cover(secret))),
        };
        if !self.send(turn) {
            self.missed += 1;
        }
    }
}

impl Finish {
    /// How the recording is, also while it is written.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Waits until the last is written, once the recorder is gone.
    pub async fn wait(self) {
        let writer = tokio::task::spawn_blocking(move || self.writer.join());
        if !matches!(tokio::time::timeout(LAST, writer).await, Ok(Ok(Ok(())))) {
            tracing::warn!("the end of the flight recording may be missing");
        }
    }

    #[cfg(test)]
    pub(super) fn join(self) {
        self.writer.join().unwrap();
    }
}
