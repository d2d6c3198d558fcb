//! Status of the recorder: whether it writes, and the number of missing steps.

use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared status of a recorder.
#[derive(Debug, Clone, Default)]
pub struct FlightHealth(Arc<RecorderHealth>);

#[derive(Debug, Default)]
struct RecorderHealth {
    trouble: Mutex<Option<String>>,
    /// True while an error pauses the recorder. The recorder reads this value at every step.
    is_paused: AtomicBool,
    missed: AtomicU64,
    written: AtomicU64,
}

/// Status of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordingStatus {
    /// True if inputs are recorded; false while writing fails.
    pub is_written: bool,
    /// Error of the last write, until a retry succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Number of missing steps since the start of the process.
    pub missed: u64,
    /// Number of bytes written to the recording since the start.
    pub written_bytes: u64,
}

impl FlightHealth {
    /// Returns the present status.
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

    /// Marks the recorder as paused until [`Self::go_on`].
    pub(super) fn pause(&self) {
        self.0.is_paused.store(true, Ordering::Relaxed);
    }

    pub(super) fn go_on(&self) {
        self.0.is_paused.store(false, Ordering::Relaxed);
    }

    /// Sets or clears the error of the last write. Returns the previous error.
    pub(super) fn set_error(&self, trouble: Option<String>) -> Option<String> {
        let mut current = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, trouble)
    }

    pub(super) fn missed(&self, turns: u64) {
        self.0.missed.fetch_add(turns, Ordering::Relaxed);
    }

    pub(super) fn written(&self, bytes: u64) {
        self.0.written.fetch_add(bytes, Ordering::Relaxed);
    }
}
