//! How the recording is, for those who look: whether it is written, and how much is missing in it.

use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Looks at a recording; a clone looks at the same one.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    trouble: Mutex<Option<String>>,
    /// As in `trouble`, for the recorder, which looks with every turn.
    is_paused: AtomicBool,
    missed: AtomicU64,
    written: AtomicU64,
}

/// How a recording is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordingStatus {
    /// What the provider takes is written down.
    pub is_written: bool,
    /// Why it is not; it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Turns that are missing in it since the start.
    pub missed: u64,
    /// Bytes that were written since the start.
    pub written_bytes: u64,
}

impl Health {
    /// How it is now.
    #[must_use]
    pub fn status(&self) -> RecordingStatus {
        let trouble = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        RecordingStatus {
            is_written: trouble.is_none(),
            trouble: trouble.clone(),
            missed: self.0.missed.load(Ordering::Relaxed),
            written_bytes: self.0.written.load(Ordering::Relaxed),
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.0.is_paused.load(Ordering::Relaxed)
    }

    /// From now on nothing is taken, until it is said to go on.
    pub(super) fn pause(&self) {
        self.0.is_paused.store(true, Ordering::Relaxed);
    }

    pub(super) fn go_on(&self) {
        self.0.is_paused.store(false, Ordering::Relaxed);
    }

    /// The trouble before; `None` says that it is over.
    pub(super) fn tell(&self, trouble: Option<String>) -> Option<String> {
        let mut told = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *told, trouble)
    }

    pub(super) fn missed(&self, turns: u64) {
        self.0.missed.fetch_add(turns, Ordering::Relaxed);
    }

    pub(super) fn written(&self, bytes: u64) {
        self.0.written.fetch_add(bytes, Ordering::Relaxed);
    }
}
