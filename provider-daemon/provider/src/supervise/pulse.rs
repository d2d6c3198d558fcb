//! Detection of stalled parts of the process. A part is stalled if one step of its task (one poll of its
//! future) takes too long, or if its next heartbeat is late.
//!
//! A blocked step waits for a lock, a disk or a reader of the output, and occupies a thread of the runtime. A loop that
//! awaits forever occupies no thread, so only its missing heartbeats show the stall.

use super::Part;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Maximum duration of one poll of the part's future. The longest intended poll, a certificate decryption,
/// takes one second.
pub(super) const STEP_MAX: Duration = Duration::from_secs(10);

/// Data from which the watchdog detects a stalled part: the current step (a poll of the part's future), and
/// the last heartbeat. Clones share the data.
#[derive(Debug, Clone)]
pub struct Pulse(Arc<PulseState>);

#[derive(Debug)]
struct PulseState {
    part: Part,
    origin: Instant,
    /// Start of the current step, as 1 + milliseconds since `origin`; 0 between steps.
    step: AtomicU64,
    /// Time of the last heartbeat, as 1 + milliseconds since `origin`; 0 while no heartbeat is expected.
    beat: AtomicU64,
    /// Maximum time until the next heartbeat, in milliseconds.
    within: AtomicU64,
    is_running: AtomicBool,
    restarts: AtomicU64,
    /// Number of stalls that the watchdog found.
    stalls: AtomicU64,
}

/// Status of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartStatus {
    /// The part.
    pub part: Part,
    /// True while the part runs; false while the part waits for its restart.
    pub is_running: bool,
    /// Number of restarts.
    pub restarts: u64,
    /// Number of stalls that the watchdog found.
    pub stalls: u64,
    /// Whether the part is stalled.
    pub is_stalled: bool,
}

/// Stalled part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standstill {
    /// The part.
    pub part: Part,
    /// Duration of the stall.
    pub since: Duration,
    /// True while the future of the part is polled. Polling occupies a runtime thread.
    pub in_a_step: bool,
}

impl Pulse {
    pub(super) fn new(part: Part) -> Self {
        Self(Arc::new(PulseState {
            part,
            origin: Instant::now(),
            step: AtomicU64::new(0),
            beat: AtomicU64::new(0),
            within: AtomicU64::new(0),
            is_running: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
        }))
    }

    /// Returns the status of the part.
    #[must_use]
    pub fn status(&self) -> PartStatus {
        PartStatus {
            part: self.0.part,
            is_running: self.0.is_running.load(Ordering::Relaxed),
            restarts: self.0.restarts.load(Ordering::Relaxed),
            stalls: self.0.stalls.load(Ordering::Relaxed),
            is_stalled: self.standstill().is_some(),
        }
    }

    /// Counts a restart.
    pub(super) fn restarted(&self) {
        self.0.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stall.
    pub(super) fn stalled(&self) {
        self.0.stalls.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a heartbeat. `within` is the maximum time until the next heartbeat.
    pub fn beat(&self, within: Duration) {
        self.0.within.store(millis(within), Ordering::Relaxed);
        self.0.beat.store(self.mark(), Ordering::Relaxed);
    }

    /// Stops the heartbeat check until the next call of [`Pulse::beat`].
    pub fn rest(&self) {
        self.0.beat.store(0, Ordering::Relaxed);
    }

    /// Runs the future of the part, and records each step (poll).
    pub async fn watch<T>(self, task: impl Future<Output = T> + Send) -> T {
        let _running = Running::new(&self);
        let pulse = self.clone();
        Watched {
            task: Box::pin(task),
            pulse,
        }
        .await
    }

    /// Returns the stall of the part, if any.
    #[must_use]
    pub fn standstill(&self) -> Option<Standstill> {
        let now = self.mark();
        let since = |mark: u64| Duration::from_millis(now.saturating_sub(mark));
        let found = |since, in_a_step| {
            Some(Standstill {
                part: self.0.part,
                since,
                in_a_step,
            })
        };
        let step = self.0.step.load(Ordering::Relaxed);
        if step != 0 && since(step) > STEP_MAX {
            return found(since(step), true);
        }
        let beat = self.0.beat.load(Ordering::Relaxed);
        let within = Duration::from_millis(self.0.within.load(Ordering::Relaxed));
        if beat != 0 && since(beat) > within {
            return found(since(beat), false);
        }
        None
    }

    /// Restarts the time measurements after a pause of the whole process. The pause then does not count as a
    /// stall.
    pub(super) fn reset(&self) {
        let now = self.mark();
        for at in [&self.0.step, &self.0.beat] {
            // 0 stays 0, also if it becomes 0 concurrently.
            let forgiven = |mark: u64| (mark != 0).then_some(now);
            let _ = at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, forgiven);
        }
    }

    fn mark(&self) -> u64 {
        millis(self.0.origin.elapsed()).saturating_add(1)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Marks a part as running until this value is dropped.
struct Running(Pulse);

impl Running {
    fn new(pulse: &Pulse) -> Self {
        pulse.0.is_running.store(true, Ordering::Relaxed);
        Self(pulse.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.is_running.store(false, Ordering::Relaxed);
    }
}

struct Watched<F> {
    task: Pin<Box<F>>,
    pulse: Pulse,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        /// Sets the start time of the step to 0 on drop, even after a panic.
        struct StepGuard<'a>(&'a AtomicU64);
        impl Drop for StepGuard<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        let this = &mut *self;
        this.pulse.0.step.store(this.pulse.mark(), Ordering::Relaxed);
        let _step = StepGuard(&this.pulse.0.step);
        this.task.as_mut().poll(cx)
    }
}

/// Pulses of all parts. Clones share the pulses.
#[derive(Debug, Clone, Default)]
pub struct Pulses(Arc<Mutex<Vec<Pulse>>>);

impl Pulses {
    pub(super) fn add(&self, part: Part) -> Pulse {
        let pulse = Pulse::new(part);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(pulse.clone());
        pulse
    }

    /// Returns the status of each part, in the order in which parts were added.
    #[must_use]
    pub fn status(&self) -> Vec<PartStatus> {
        self.all().iter().map(Pulse::status).collect()
    }

    pub(super) fn all(&self) -> Vec<Pulse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_step_is_a_standstill_until_it_returns() {
        let mut pulse = Pulse::new(Part::Printing);
        let inner = Arc::get_mut(&mut pulse.0).unwrap();
        inner.origin = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        inner.step = AtomicU64::new(1);
        let still = pulse.standstill().unwrap();
        assert!(
            still.in_a_step && still.since >= Duration::from_secs(59),
            "{still:?}"
        );
        pulse.reset();
        assert_eq!(pulse.standstill(), None, "the whole process was paused");
        pulse.0.step.store(1, Ordering::Relaxed);
        assert!(pulse.standstill().is_some());
        pulse.0.step.store(0, Ordering::Relaxed);
        assert_eq!(pulse.standstill(), None, "between steps");
    }
}
