//! Supervision of the provider's parts: restarts, and the exit code of the part that failed.
//!
//! ```text
//!            ┌─ ended, failed or panicked ─▶ policy ─┬─ restarts left ─▶ wait (1 s … 30 s) ─▶ restarted
//! part ──────┤                                       └─ none left ─▶ the provider drains ─▶ exit code of the part
//!            └─ pulse ─▶ watchdog (a separate thread) ─┬─ beats ─▶ WATCHDOG=1 to systemd
//!                                                      └─ stalled ─▶ logged by name, no WATCHDOG=1
//! ```
//! `docs/lifecycle.md` specifies the behavior.

mod notify;
mod part;
mod policy;
mod pulse;
mod watchdog;

pub(crate) use notify::{ready, status, stopping};
pub use part::{Part, PartFailed};
pub use policy::RestartPolicy;
pub(crate) use policy::{RestartAction, RestartInput, RestartMachine};
pub use pulse::{PartStatus, Pulse, Pulses, Standstill};
pub use watchdog::Watchdog;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::any::Any;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Future of a part; `Err` is the reason why the part failed.
pub type PartFuture = BoxFuture<'static, Result<(), String>>;

/// Supervised parts of the provider, aborted when the supervisor is dropped.
#[derive(Debug)]
pub struct Supervisor {
    running: FuturesUnordered<BoxFuture<'static, Result<(), PartFailed>>>,
    pulses: Pulses,
    draining: CancellationToken,
}

impl Supervisor {
    /// Creates a supervisor. After `draining` is cancelled, no part is restarted, and parts may end without
    /// an error.
    #[must_use]
    pub fn new(draining: CancellationToken) -> Self {
        Self {
            running: FuturesUnordered::new(),
            pulses: Pulses::default(),
            draining,
        }
    }

    /// Runs a part without restarts. The end of the part ends the provider.
    pub fn once(&mut self, part: Part, work: impl FnOnce(&Pulse) -> PartFuture) {
        let pulse = self.pulses.add(part);
        let mut work = Some(work(&pulse));
        self.supervise(part, pulse, move |_| work.take());
    }

    /// Runs a part and restarts it according to its policy.
    pub fn again(&mut self, part: Part, mut begin: impl FnMut(&Pulse) -> PartFuture + Send + 'static) {
        let pulse = self.pulses.add(part);
        self.supervise(part, pulse, move |pulse| Some(begin(pulse)));
    }

    /// Adds a part, but does not run the part. Returns the pulse of the part for the watchdog.
    #[must_use]
    pub fn pulse(&self, part: Part) -> Pulse {
        self.pulses.add(part)
    }

    /// Returns the pulses of all parts, including parts that start later.
    #[must_use]
    pub fn pulses(&self) -> Pulses {
        self.pulses.clone()
    }

    /// Starts the watchdog for all parts, including parts that start later.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be created.
    pub fn watchdog(&self) -> std::io::Result<Watchdog> {
        Watchdog::start(self.pulses.clone())
    }

    /// Waits for the first permanent failure of a part. Never returns without a failure.
    pub async fn failure(&mut self) -> PartFailed {
        while let Some(ended) = self.running.next().await {
            if let Err(failed) = ended {
                return failed;
            }
        }
        std::future::pending().await
    }

    /// Waits until all parts have ended.
    ///
    /// # Errors
    /// Returns the first permanent failure of a part.
    pub async fn end(mut self) -> Result<(), PartFailed> {
        let mut failure = None;
        while let Some(ended) = self.running.next().await {
            failure = failure.or_else(|| ended.err());
        }
        failure.map_or(Ok(()), Err)
    }

    fn supervise(
        &self,
        part: Part,
        pulse: Pulse,
        begin: impl FnMut(&Pulse) -> Option<PartFuture> + Send + 'static,
    ) {
        let supervising = supervise(part, pulse, begin, self.draining.clone());
        // A separate task, so that parts are restarted also while no caller awaits a failure.
        let supervising = AbortOnDropHandle::new(tokio::spawn(supervising));
        self.running.push(Box::pin(async move {
            supervising
                .await
                .unwrap_or_else(|error| Err(PartFailed::new(part, join_error_text(error), 0)))
        }));
    }
}

async fn supervise(
    part: Part,
    pulse: Pulse,
    mut begin: impl FnMut(&Pulse) -> Option<PartFuture>,
    draining: CancellationToken,
) -> Result<(), PartFailed> {
    let (mut machine, origin) = (RestartMachine::new(part.policy()), Instant::now());
    let mut why = "the part cannot be restarted".to_owned();
    while let Some(work) = begin(&pulse) {
        let ended = AbortOnDropHandle::new(tokio::spawn(pulse.clone().watch(work))).await;
        pulse.rest();
        why = match ended {
            Ok(Ok(())) if draining.is_cancelled() => return Ok(()),
            Ok(Ok(())) => "ended unexpectedly".to_owned(),
            Ok(Err(why)) => why,
            Err(error) => join_error_text(error),
        };
        if draining.is_cancelled() {
            break;
        }
        let RestartAction::Wait(wait) = machine.step(origin.elapsed(), RestartInput::Failed) else {
            break;
        };
        tracing::error!(part = part.name(), reason = why, after = ?wait, "part of the provider failed, restarting it");
        if draining.run_until_cancelled(sleep(wait)).await.is_none() {
            return Ok(());
        }
        machine.step(origin.elapsed(), RestartInput::Due);
        pulse.restarted();
    }
    Err(PartFailed::new(part, why, machine.restarts()))
}

pub(crate) fn join_error_text(error: JoinError) -> String {
    fn text(panic: &(dyn Any + Send)) -> Option<&str> {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied())
    }
    match error.try_into_panic() {
        Ok(panic) => text(&*panic).unwrap_or("panic without a message").to_owned(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
