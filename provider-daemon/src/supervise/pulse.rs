//! Whether a part moves: how long its task has been in one step, and when its loop came round last.
//!
//! A step that does not come back holds a thread of the runtime: it waits for a lock, for a disk, for whoever reads our
//! output. A loop that awaits something for ever holds none, and is noticed by its beat alone.

use super::Part;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Longest step of a task: the longest that is meant to be, opening a certificate, takes a second elsewhere.
pub(super) const STEP_MAX: Duration = Duration::from_secs(10);

/// The pulse of one part. A clone is the same one.
#[derive(Debug, Clone)]
pub struct Pulse(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    part: Part,
    origin: Instant,
    /// When the step began, in milliseconds after the origin and one; 0 between steps.
    step: AtomicU64,
    /// When it beat last, likewise; 0 while no beat is expected.
    beat: AtomicU64,
    /// Milliseconds within which the next beat is expected.
    within: AtomicU64,
}

/// A part that does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standstill {
    /// Which.
    pub part: Part,
    /// For how long.
    pub since: Duration,
    /// It is in the middle of a step, and holds a thread of the runtime.
    pub in_a_step: bool,
}

impl Pulse {
    pub(super) fn new(part: Part) -> Self {
        Self(Arc::new(Inner {
            part,
            origin: Instant::now(),
            step: AtomicU64::new(0),
            beat: AtomicU64::new(0),
            within: AtomicU64::new(0),
        }))
    }

    /// It moves, and says so again within this time.
    pub fn beat(&self, within: Duration) {
        self.0.within.store(millis(within), Ordering::Relaxed);
        self.0.beat.store(self.mark(), Ordering::Relaxed);
    }

    /// It rests, and nothing is expected of it.
    pub fn rest(&self) {
        self.0.beat.store(0, Ordering::Relaxed);
    }

    /// A task whose steps are watched.
    pub async fn watch<T>(self, task: impl Future<Output = T> + Send) -> T {
        Watched {
            task: Box::pin(task),
            pulse: self,
        }
        .await
    }

    /// What is wrong with it now.
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

    /// The whole process stood still, which is no fault of this part.
    pub(super) fn forgive(&self) {
        let now = self.mark();
        for at in [&self.0.step, &self.0.beat] {
            // What is 0 stays so, also where it becomes 0 meanwhile.
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

struct Watched<F> {
    task: Pin<Box<F>>,
    pulse: Pulse,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        /// A step that panics is over too.
        struct Step<'a>(&'a AtomicU64);
        impl Drop for Step<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        let this = &mut *self;
        this.pulse.0.step.store(this.pulse.mark(), Ordering::Relaxed);
        let _step = Step(&this.pulse.0.step);
        this.task.as_mut().poll(cx)
    }
}

/// Those of all parts, also of such as come later. A clone has the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Pulses(Arc<Mutex<Vec<Pulse>>>);

impl Pulses {
    /// A new one, of this part.
    pub(super) fn of(&self, part: Part) -> Pulse {
        let pulse = Pulse::new(part);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(pulse.clone());
        pulse
    }

    pub(super) fn all(&self) -> Vec<Pulse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_does_not_come_back_is_a_standstill_until_it_does() {
        let pulse = Pulse(Arc::new(Inner {
            part: Part::Printing,
            origin: Instant::now().checked_sub(Duration::from_secs(60)).unwrap(),
            step: AtomicU64::new(1),
            beat: AtomicU64::new(0),
            within: AtomicU64::new(0),
        }));
        let still = pulse.standstill().unwrap();
        assert!(
            still.in_a_step && still.since >= Duration::from_secs(59),
            "{still:?}"
        );
        pulse.forgive();
        assert_eq!(pulse.standstill(), None, "the whole process stood still");
        pulse.0.step.store(1, Ordering::Relaxed);
        assert!(pulse.standstill().is_some());
        pulse.0.step.store(0, Ordering::Relaxed);
        assert_eq!(pulse.standstill(), None, "between steps");
    }
}
