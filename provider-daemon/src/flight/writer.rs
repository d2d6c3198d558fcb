//! The thread that writes: what it is slow with, nobody waits for.

use super::cover::Key;
use super::format::Encoder;
use super::health::Health;
use super::shelf::Shelf;
use super::{Head, Record};
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

/// So much is written at once, and what is less after a second: that is what a crash of the machine may cost.
const ENOUGH: usize = 256 << 10;
const PAUSE: Duration = Duration::from_secs(1);
/// Notes of so long are taken together: fewer than the queue has room for, of an engine that does nothing else.
const GATHER: Duration = Duration::from_millis(15);
/// Pause before it is tried again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// From the recorder to the writer.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are turns, and each of them would be one more allocation"
)]
pub(super) enum Note {
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

pub(super) struct Writer {
    shelf: Shelf,
    head: Head,
    key: Key,
    wants_state: Arc<AtomicBool>,
    health: Health,
    file: Option<Encoder<File>>,
    /// Turns that are not in a file yet.
    unsaved: u64,
    /// Turns that never will be, and of which the recording does not say so yet.
    lost: u64,
    /// Those of which it says so in what is not in a file yet.
    untold: u64,
    pause: Duration,
}

impl Writer {
    pub(super) fn new(
        shelf: Shelf,
        head: Head,
        key: Key,
        wants_state: Arc<AtomicBool>,
        health: Health,
    ) -> Self {
        Self {
            shelf,
            head,
            key,
            wants_state,
            health,
            file: None,
            unsaved: 0,
            lost: 0,
            untold: 0,
            pause: AGAIN.0,
        }
    }

    /// Writes until the recorder is gone; what cannot be written is missing, and later it is tried again.
    pub(super) fn run(mut self, notes: &Receiver<Note>) {
        loop {
            let written = catch_unwind(AssertUnwindSafe(|| self.write(notes)));
            let failed = match written {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it panicked".to_owned(),
            };
            self.fail(failed);
            if !self.rest(notes) {
                return;
            }
        }
    }

    /// A new file is to follow, with a state at its beginning.
    fn fail(&mut self, why: String) {
        self.health.pause();
        let unsaved = std::mem::take(&mut self.unsaved);
        self.lose(unsaved);
        self.lost += std::mem::take(&mut self.untold);
        if let Some(file) = self.file.take() {
            self.shelf.leave(file.written(), file.is_empty());
        }
        let before = self.health.tell(Some(why.clone()));
        if before.as_ref() != Some(&why) {
            tracing::warn!(
                "the flight recorder cannot write, and the provider goes on: {why}; it is tried again"
            );
        }
    }

    /// So many turns will not be in the recording.
    fn lose(&mut self, turns: u64) {
        self.lost += turns;
        self.health.missed(turns);
    }

    /// Takes no note of anything for a while; false where the recorder is gone.
    fn rest(&mut self, notes: &Receiver<Note>) -> bool {
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(AGAIN.1);
        loop {
            match notes.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Note::Turn { .. }) => self.lose(1),
                Ok(Note::State { missed, .. }) => self.lose(missed),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        // In this order, so that a state comes before every turn.
        self.wants_state.store(true, Ordering::Relaxed);
        self.health.go_on();
        true
    }

    fn write(&mut self, notes: &Receiver<Note>) -> io::Result<()> {
        let mut flushed = Instant::now();
        let mut is_over = false;
        while !is_over {
            match notes.recv_timeout(PAUSE) {
                Ok(note) => {
                    self.take(note)?;
                    // Who waits for each note is woken for each: that costs the provider more than the note itself.
                    thread::sleep(GATHER);
                    while let Ok(note) = notes.try_recv() {
                        self.take(note)?;
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
        self.push(&Record::End)?;
        self.flush()
    }

    fn take(&mut self, note: Note) -> io::Result<()> {
        match note {
            Note::State {
                now,
                wall,
                mut engine,
                missed,
            } => {
                // First, so that they are not forgotten where there can be no file.
                self.lose(missed);
                if self.is_full() {
                    self.turn()?;
                }
                if self.lost > 0 {
                    let turns = std::mem::take(&mut self.lost);
                    self.untold += turns;
                    self.push(&Record::Gap { turns })?;
                }
                let key = &self.key;
                record::hide_in_engine(&mut engine, &|secret: &str| key.cover(secret));
                self.push(&Record::State { now, wall, engine })
            }
            // Nothing to replay it from.
            Note::Turn { .. } if self.file.is_none() => {
                self.lose(1);
                Ok(())
            }
            Note::Turn {
                now,
                mut input,
                effects,
                digest,
            } => {
                self.unsaved += 1;
                let key = &self.key;
                if let Some(input) = &mut input {
                    record::hide_in_input(input, &|secret: &str| key.cover(secret));
                }
                self.push(&Record::Turn {
                    now,
                    input,
                    effects,
                    digest,
                })
            }
        }
    }

    /// True where a state is to begin the next file.
    fn is_full(&self) -> bool {
        let file = self.file.as_ref();
        file.is_none_or(|file| file.written() >= self.shelf.turn())
    }

    fn turn(&mut self) -> io::Result<()> {
        self.flush()?;
        if let Some(file) = self.file.take() {
            self.shelf.leave(file.written(), file.is_empty());
        }
        let file = Encoder::new(self.shelf.next()?, &self.head);
        if file.is_err() {
            self.shelf.leave(0, true);
        }
        self.file = Some(file?);
        Ok(())
    }

    fn push(&mut self, record: &Record) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.push(record)?;
        if file.waiting() >= ENOUGH {
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
        self.shelf.make_room(file.pack()?)?;
        file.store()?;
        self.health.written(file.written() - before);
        (self.unsaved, self.untold) = (0, 0);
        self.pause = AGAIN.0;
        if self.health.tell(None).is_some() {
            tracing::info!("the flight recorder writes again");
        }
        if self.is_full() {
            self.wants_state.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
