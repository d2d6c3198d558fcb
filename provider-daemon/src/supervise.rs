//! Keeps the parts of a provider running, and says which of them did not.
//!
//! ```text
//!            ┌─ ended, failed or panicked ─▶ policy ─┬─ restarts left ─▶ wait (1 s … 30 s) ─▶ begun anew
//! part ──────┤                                       └─ none left ─▶ the provider drains ─▶ exit code of the part
//!            └─ pulse ─▶ watchdog (a thread of its own) ─┬─ beats ─▶ WATCHDOG=1 to systemd
//!                                                        └─ stands still ─▶ told by name, and systemd hears nothing
//! ```
//! `docs/lifecycle.md` has the contract.

mod notify;
mod part;
mod policy;
mod pulse;
mod watchdog;

pub(crate) use notify::{ready, status, stopping};
pub use part::{Part, PartFailed};
pub use policy::{Action, Input, Machine, Policy, State};
pub use pulse::{Pulse, Standstill};
pub use watchdog::Watchdog;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use pulse::Pulses;
use std::any::Any;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// What a part does until the end; `Err` says why it cannot go on.
pub type Work = BoxFuture<'static, Result<(), String>>;

/// The parts that run. Dropping it ends them at once.
#[derive(Debug)]
pub struct Supervisor {
    running: FuturesUnordered<BoxFuture<'static, Result<(), PartFailed>>>,
    pulses: Pulses,
    draining: CancellationToken,
}

impl Supervisor {
    /// Of a provider that begins to stop with this token: a part may end from then on, and none is begun anew.
    #[must_use]
    pub fn new(draining: CancellationToken) -> Self {
        Self {
            running: FuturesUnordered::new(),
            pulses: Pulses::default(),
            draining,
        }
    }

    /// Runs a part that cannot be begun anew: its end is that of the provider, whatever its policy allows.
    pub fn once(&mut self, part: Part, work: impl FnOnce(&Pulse) -> Work) {
        let pulse = self.pulses.of(part);
        let mut work = Some(work(&pulse));
        self.keep(part, pulse, move |_| work.take());
    }

    /// Runs a part, and begins it anew as often as its policy says.
    pub fn again(&mut self, part: Part, mut begin: impl FnMut(&Pulse) -> Work + Send + 'static) {
        let pulse = self.pulses.of(part);
        self.keep(part, pulse, move |pulse| Some(begin(pulse)));
    }

    /// The pulse of a part that somebody else runs.
    #[must_use]
    pub fn pulse(&self, part: Part) -> Pulse {
        self.pulses.of(part)
    }

    /// Begins to look whether the parts stand still, those included that come later.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn watchdog(&self) -> std::io::Result<Watchdog> {
        Watchdog::start(self.pulses.clone())
    }

    /// Waits for the first that fails for good. Never ends while none does.
    pub async fn failure(&mut self) -> PartFailed {
        while let Some(ended) = self.running.next().await {
            if let Err(failed) = ended {
                return failed;
            }
        }
        std::future::pending().await
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// The first that failed, once the others have ended too.
    pub async fn end(mut self) -> Result<(), PartFailed> {
        let mut failure = None;
        while let Some(ended) = self.running.next().await {
            failure = failure.or_else(|| ended.err());
        }
        failure.map_or(Ok(()), Err)
    }

    fn keep(&self, part: Part, pulse: Pulse, begin: impl FnMut(&Pulse) -> Option<Work> + Send + 'static) {
        let keeping = keep(part, pulse, begin, self.draining.clone());
        // A task of its own, so that a part is begun anew also while nobody asks for a failure.
        let keeping = AbortOnDropHandle::new(tokio::spawn(keeping));
        self.running.push(Box::pin(async move {
            keeping
                .await
                .unwrap_or_else(|error| Err(PartFailed::new(part, words(error), 0)))
        }));
    }
}

async fn keep(
    part: Part,
    pulse: Pulse,
    mut begin: impl FnMut(&Pulse) -> Option<Work>,
    draining: CancellationToken,
) -> Result<(), PartFailed> {
    let (mut machine, origin) = (Machine::new(part.policy()), Instant::now());
    let mut why = "it cannot be begun anew".to_owned();
    while let Some(work) = begin(&pulse) {
        let ended = AbortOnDropHandle::new(tokio::spawn(pulse.clone().watch(work))).await;
        pulse.rest();
        why = match ended {
            Ok(Ok(())) if draining.is_cancelled() => return Ok(()),
            Ok(Ok(())) => "it ended by itself".to_owned(),
            Ok(Err(why)) => why,
            Err(error) => words(error),
        };
        if draining.is_cancelled() {
            break;
        }
        let Action::Wait(wait) = machine.step(origin.elapsed(), Input::Failed) else {
            break;
        };
        tracing::error!("the {} failed: {why}; it is begun anew in {wait:?}", part.name());
        tokio::select! {
            biased;
            () = draining.cancelled() => return Ok(()),
            () = sleep(wait) => {}
        }
        machine.step(origin.elapsed(), Input::Due);
    }
    Err(PartFailed::new(part, why, machine.restarts()))
}

/// Why a task did not come to its end.
pub(crate) fn words(error: JoinError) -> String {
    fn text(panic: &(dyn Any + Send)) -> Option<&str> {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied())
    }
    match error.try_into_panic() {
        Ok(panic) => text(&*panic).unwrap_or("it panicked").to_owned(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
