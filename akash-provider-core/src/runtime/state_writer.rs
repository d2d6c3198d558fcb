//! Stores state for the next start before the effects that depend on the state are executed.
//!
//! ```text
//! effects ─► changes the stored state? ─ no ─────────────────────────────► executed
//!       └─ yes ─► held ─► store ──┬─ stored ───────────────► executed in order
//!            └─ failed, or timeout ──► executed, logged, retried
//! ```
//! While state is being written, later effects are held too, so that the order of effects does not change.

use super::execute::panic_text;
use crate::RestartState;
use crate::config::Config;
use crate::engine::Effect;
use crate::error::{Error, chain_text};
use async_trait::async_trait;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum time for which a write delays effects. A slow disk must not stop the provider.
pub(super) const KEEP_LIMIT: Duration = Duration::from_secs(10);
/// Delay before the retry of a failed write.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Stores the state that a provider needs at its next start.
///
/// # Behavior
/// - When [`StateStore::save`] returns `Ok`, the state is durable. Effects that depend on the state wait for
///   this result, but at most ten seconds.
/// - Calls are sequential. Each call contains the complete state.
/// - A failed call is repeated until it succeeds.
#[async_trait]
pub trait StateStore: fmt::Debug + Send + Sync {
    /// Replaces the stored state.
    ///
    /// # Errors
    /// Returns an error when the state is possibly not durable.
    async fn save(&self, state: &RestartState) -> Result<(), Error>;
}

type Written = Result<Result<Result<(), Error>, Elapsed>, JoinError>;

/// Delays each effect until the state for the next start is stored.
#[derive(Debug)]
pub(crate) struct StateWriter {
    store: Option<Arc<dyn StateStore>>,
    state: RestartState,
    /// Task that writes the state; at most one.
    writing: JoinSet<Result<Result<(), Error>, Elapsed>>,
    /// Whether the state changed after the running write started.
    is_behind: bool,
    again_at: Option<Instant>,
    held_effects: Vec<Effect>,
}

impl StateWriter {
    pub(crate) fn new(store: Option<Arc<dyn StateStore>>, config: &Config) -> Self {
        Self {
            store,
            state: RestartState {
                breaker_tripped: config.breaker_tripped,
                breaker_held_owners: config.breaker_held_owners.clone(),
            },
            writing: JoinSet::new(),
            is_behind: false,
            again_at: None,
            held_effects: Vec::new(),
        }
    }

    /// Returns the effects that can be executed now. [`StateWriter::turn`] returns the others after a write.
    pub(crate) fn pass(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut changed = false;
        for effect in &effects {
            if let Effect::Publish(event) = effect {
                changed |= self.state.apply(event);
            }
        }
        if changed {
            self.begin();
        }
        if self.writing.is_empty() || (!changed && self.held_effects.is_empty()) {
            return effects;
        }
        self.held_effects.extend(effects);
        Vec::new()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_empty()
    }

    /// Waits until a write ends, then returns the delayed effects. If no write is in progress or scheduled,
    /// the future never completes. Cancel-safe.
    pub(crate) async fn turn(&mut self) -> Vec<Effect> {
        loop {
            if let Some(written) = self.writing.join_next().await {
                self.settle(written);
                if std::mem::take(&mut self.is_behind) {
                    self.begin();
                    continue;
                }
                return std::mem::take(&mut self.held_effects);
            }
            match self.again_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
            self.begin();
        }
    }

    /// Starts one more attempt of a failed write, during shutdown.
    pub(crate) fn try_again(&mut self) {
        if self.again_at.is_some() {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let Some(store) = self.store.clone() else { return };
        self.again_at = None;
        if !self.writing.is_empty() {
            self.is_behind = true;
            return;
        }
        let state = self.state.clone();
        self.writing
            .spawn(async move { timeout(KEEP_LIMIT, store.save(&state)).await });
    }

    fn settle(&mut self, written: Written) {
        let why = match written {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => chain_text(&error),
            Ok(Err(_)) => format!("no response within {KEEP_LIMIT:?}"),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => format!("panic: {}", panic_text(panic.as_ref())),
                Err(error) => error.to_string(),
            },
        };
        tracing::error!(
            error = why,
            after = ?AGAIN_AFTER,
            "cannot store the state of the circuit breaker for the next start, retrying"
        );
        self.again_at = Some(Instant::now() + AGAIN_AFTER);
    }
}

#[cfg(test)]
mod tests;
