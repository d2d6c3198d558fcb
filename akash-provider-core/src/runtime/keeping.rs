//! What the next start must know is durable before anything comes of it.
//!
//! ```text
//! effects ─► does one change what is kept? ─ no ──────────────────────────► carried out
//!                      └─ yes ─► held ─► keeper ─┬─ kept ─────────────────► carried out, in order
//!                                                └─ failed, or too slow ──► carried out, told, tried again
//! ```
//! While something is written later effects wait behind it, so that their order stays.

use super::execute::panic_text;
use crate::Kept;
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

/// How long effects wait for it: a disk that takes longer must not stop the provider.
pub(super) const KEEP_LIMIT: Duration = Duration::from_secs(10);
/// Pause before what was not kept is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Keeps what a provider must be told again at its next start.
///
/// # Behavior
/// - what is kept is durable when [`Keeper::keep`] returns `Ok`; the provider carries out nothing that follows from it
///   before that, for at most ten seconds
/// - calls come one at a time, each with the whole of what is to be kept
/// - what fails is tried again until it succeeds, and the provider goes on meanwhile
#[async_trait]
pub trait Keeper: fmt::Debug + Send + Sync {
    /// Keeps this in the place of what was kept before.
    ///
    /// # Errors
    /// It is not known to be durable.
    async fn keep(&self, kept: &Kept) -> Result<(), Error>;
}

type Written = Result<Result<Result<(), Error>, Elapsed>, JoinError>;

/// Holds effects while their cause is being written.
#[derive(Debug)]
pub(crate) struct Keeping {
    keeper: Option<Arc<dyn Keeper>>,
    kept: Kept,
    /// One at most.
    writing: JoinSet<Result<Result<(), Error>, Elapsed>>,
    /// It has changed since the writing began.
    is_behind: bool,
    again_at: Option<Instant>,
    held: Vec<Effect>,
}

impl Keeping {
    pub(crate) fn new(keeper: Option<Arc<dyn Keeper>>, config: &Config) -> Self {
        Self {
            keeper,
            kept: Kept {
                breaker_tripped: config.breaker_tripped,
                breaker_held_owners: config.breaker_held_owners.clone(),
            },
            writing: JoinSet::new(),
            is_behind: false,
            again_at: None,
            held: Vec::new(),
        }
    }

    /// Those that can be carried out now; the others come out of [`Keeping::turn`].
    pub(crate) fn pass(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut changed = false;
        for effect in &effects {
            if let Effect::Publish(event) = effect {
                changed |= self.kept.note(event);
            }
        }
        if changed {
            self.begin();
        }
        if self.writing.is_empty() || (!changed && self.held.is_empty()) {
            return effects;
        }
        self.held.extend(effects);
        Vec::new()
    }

    /// Nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_empty()
    }

    /// Waits until something is written; what may be carried out then. Never ends while there is nothing to write. It may
    /// be dropped at any time.
    pub(crate) async fn turn(&mut self) -> Vec<Effect> {
        loop {
            if let Some(written) = self.writing.join_next().await {
                self.settle(written);
                if std::mem::take(&mut self.is_behind) {
                    self.begin();
                    continue;
                }
                return std::mem::take(&mut self.held);
            }
            match self.again_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
            self.begin();
        }
    }

    /// The provider ends: what was not kept is tried once more.
    pub(crate) fn try_again(&mut self) {
        if self.again_at.is_some() {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let Some(keeper) = self.keeper.clone() else { return };
        self.again_at = None;
        if !self.writing.is_empty() {
            self.is_behind = true;
            return;
        }
        let kept = self.kept.clone();
        self.writing
            .spawn(async move { timeout(KEEP_LIMIT, keeper.keep(&kept)).await });
    }

    fn settle(&mut self, written: Written) {
        let why = match written {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => chain_text(&error),
            Ok(Err(_)) => format!("no answer within {KEEP_LIMIT:?}"),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => format!("panic: {}", panic_text(panic.as_ref())),
                Err(error) => error.to_string(),
            },
        };
        tracing::error!(
            "what the next start must know of the circuit breaker was not kept, and is tried again in {AGAIN_AFTER:?}: {why}"
        );
        self.again_at = Some(Instant::now() + AGAIN_AFTER);
    }
}

#[cfg(test)]
mod tests;
