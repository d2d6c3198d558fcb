//! The thread that writes: what it is slow with, nobody waits for.

use super::cover::Key;
use super::format::Encoder;
use super::shelf::Shelf;
use super::{Head, Record};
use akash_provider_core::engine::{Engine, Input};
use akash_provider_core::record;
use akash_provider_core::types::Now;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// So much is written at once, and what is less after a second: that is what a crash of the machine may cost.
const ENOUGH: usize = 256 << 10;
const PAUSE: Duration = Duration::from_secs(1);

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
    file: Option<Encoder<File>>,
}

impl Writer {
    pub(super) fn new(shelf: Shelf, head: Head, key: Key, wants_state: Arc<AtomicBool>) -> Self {
        Self {
            shelf,
            head,
            key,
            wants_state,
            file: None,
        }
    }

    /// Writes until the recorder is gone, or nothing can be written.
    pub(super) fn run(mut self, notes: &Receiver<Note>) -> io::Result<()> {
        let mut flushed = Instant::now();
        loop {
            match notes.recv_timeout(PAUSE) {
                Ok(note) => self.take(note)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
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
                if missed > 0 {
                    self.push(&Record::Gap { turns: missed })?;
                }
                if self.is_full() {
                    self.turn()?;
                }
                let key = &self.key;
                record::hide_in_engine(&mut engine, &|secret: &str| key.cover(secret));
                self.push(&Record::State { now, wall, engine })
            }
            Note::Turn {
                now,
                mut input,
                effects,
                digest,
            } => {
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
        let before = self.file.take().map(|file| file.written());
        let file = self.shelf.next(before)?;
        self.file = Some(Encoder::new(file, &self.head)?);
        Ok(())
    }

    fn push(&mut self, record: &Record) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            // A gap before the first file is told by its state.
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
        self.shelf.make_room(file.pack()?)?;
        file.store()?;
        if self.is_full() {
            self.wants_state.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
