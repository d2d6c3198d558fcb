//! Thread that writes the files, so that the engine never waits for the disk.

use super::folder::rotation_size;
use super::format::Encoder;
use super::health::FlightHealth;
use super::redact::RedactionKey;
use super::{FlightRecord, Head};
use crate::numbered_files::NumberedFiles;
use akash_provider_core::engine::{Engine, Input};
use akash_provider_core::record;
use akash_provider_core::types::Now;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

// Sizes above this are written at once, others after a pause: a crash of the machine may lose that much.
const FLUSH_SIZE: usize = 256 << 10;
const PAUSE: Duration = Duration::from_secs(1);
/// Interval at which the writer takes messages from the queue.
const COLLECT_INTERVAL: Duration = Duration::from_millis(15);
/// Initial and maximum pause before the next attempt to write after an error.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Message from the recorder to the writer.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are turns, and the queue holds boxes"
)]
pub(super) enum FlightMessage {
    State {
        now: Now,
        wall: u64,
        engine: Box<Engine>,
        missed: u64,
    },
    Turn {
        now: Now,
        input: Option<Input>,
        effects: u32,
        digest: u64,
    },
}

pub(super) struct FlightWriter {
    folder: NumberedFiles,
    head: Head,
    key: RedactionKey,
    wants_state: Arc<AtomicBool>,
    health: FlightHealth,
    file: Option<Encoder<File>>,
    /// Number of recorded steps that are not yet in a file.
    unsaved: u64,
    /// Number of lost steps that no gap record contains yet.
    lost: u64,
    /// Number of lost steps in gap records that are not stored in a file yet.
    unsaved_gaps: u64,
    pause: Duration,
}

impl FlightWriter {
    pub(super) fn new(
        folder: NumberedFiles,
        head: Head,
        key: RedactionKey,
        wants_state: Arc<AtomicBool>,
        health: FlightHealth,
    ) -> Self {
        Self {
            folder,
            head,
            key,
            wants_state,
            health,
            file: None,
            unsaved: 0,
            lost: 0,
            unsaved_gaps: 0,
            pause: RETRY_PAUSE.0,
        }
    }

    pub(super) fn run(mut self, messages: &Receiver<Box<FlightMessage>>) {
        loop {
            let written = catch_unwind(AssertUnwindSafe(|| self.write(messages)));
            let failed = match written {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the writer of the recording panicked".to_owned(),
            };
            self.fail(failed);
            if !self.discard_during_pause(messages) {
                return;
            }
        }
    }

    /// Closes the file after an error. The next file starts with an engine state.
    fn fail(&mut self, why: String) {
        self.health.pause();
        let unsaved = std::mem::take(&mut self.unsaved);
        self.lose(unsaved);
        self.lost += std::mem::take(&mut self.unsaved_gaps);
        if let Some(file) = self.file.take() {
            self.folder.finish(file.written(), file.is_empty());
        }
        let before = self.health.set_error(Some(why.clone()));
        if before.as_ref() != Some(&why) {
            tracing::warn!(
                error = why,
                "flight recorder cannot write, the provider continues without it; check the disk"
            );
        }
    }

    /// Counts steps that will be missing in the recording.
    fn lose(&mut self, turns: u64) {
        self.lost += turns;
        self.health.missed(turns);
    }

    /// Discards messages during the pause. Returns false if the recorder was dropped.
    fn discard_during_pause(&mut self, messages: &Receiver<Box<FlightMessage>>) -> bool {
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(RETRY_PAUSE.1);
        loop {
            let wait = until.saturating_duration_since(Instant::now());
            match messages.recv_timeout(wait).map(|message| *message) {
                Ok(FlightMessage::Turn { .. }) => self.lose(1),
                Ok(FlightMessage::State { missed, .. }) => self.lose(missed),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        // In this order, so that a state precedes every step.
        self.wants_state.store(true, Ordering::Relaxed);
        self.health.go_on();
        true
    }

    fn write(&mut self, messages: &Receiver<Box<FlightMessage>>) -> io::Result<()> {
        let mut flushed = Instant::now();
        let mut is_over = false;
        while !is_over {
            match messages.recv_timeout(PAUSE) {
                Ok(message) => {
                    self.take(*message)?;
                    // A wake-up for each message would cost the provider more than the message itself.
                    thread::sleep(COLLECT_INTERVAL);
                    while let Ok(message) = messages.try_recv() {
                        self.take(*message)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_over = true,
            }
            if flushed.elapsed() >= PAUSE {
                self.flush()?;
                flushed = Instant::now();
            }
        }
        self.push(&FlightRecord::End)?;
        self.flush()
    }

    fn take(&mut self, message: FlightMessage) -> io::Result<()> {
        match message {
            FlightMessage::State {
                now,
                wall,
                mut engine,
                missed,
            } => {
                // First, so that they are counted even if no file can be created.
                self.lose(missed);
                if self.is_full() {
                    self.rotate()?;
                }
                if self.lost > 0 {
                    let turns = std::mem::take(&mut self.lost);
                    self.unsaved_gaps += turns;
                    self.push(&FlightRecord::Gap { turns })?;
                }
                let key = &self.key;
                record::hide_in_engine(&mut engine, &|secret: &str| key.redact(secret));
                self.push(&FlightRecord::State { now, wall, engine })
            }
            // A replay needs a preceding state.
            FlightMessage::Turn { .. } if self.file.is_none() => {
                self.lose(1);
                Ok(())
            }
            FlightMessage::Turn {
                now,
                mut input,
                effects,
                digest,
            } => {
                self.unsaved += 1;
                let key = &self.key;
                if let Some(input) = &mut input {
                    record::hide_in_input(input, &|secret: &str| key.redact(secret));
                }
                self.push(&FlightRecord::Turn {
                    now,
                    input,
                    effects,
                    digest,
                })
            }
        }
    }

    fn is_full(&self) -> bool {
        let file = self.file.as_ref();
        file.is_none_or(|file| file.written() >= rotation_size(self.folder.limit()))
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.flush()?;
        if let Some(file) = self.file.take() {
            self.folder.finish(file.written(), file.is_empty());
        }
        let file = Encoder::new(self.folder.next()?, &self.head);
        if file.is_err() {
            self.folder.finish(0, true);
        }
        self.file = Some(file?);
        Ok(())
    }

    fn push(&mut self, record: &FlightRecord) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.push(record)?;
        if file.waiting() >= FLUSH_SIZE {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if file.waiting() == 0 {
            return Ok(());
        }
        let before = file.written();
        if !self.folder.remove_oldest(file.pack()?)? {
            return Err(io::Error::other(
                "the state of the engine is larger than --record-bytes; raise the limit",
            ));
        }
        file.store()?;
        self.health.written(file.written() - before);
        (self.unsaved, self.unsaved_gaps) = (0, 0);
        self.pause = RETRY_PAUSE.0;
        if self.health.set_error(None).is_some() {
            tracing::info!("flight recorder can write the recording again");
        }
        if self.is_full() {
            self.wants_state.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
