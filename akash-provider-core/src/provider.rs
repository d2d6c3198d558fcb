//! The provider: built from five ports, runs until it is stopped, and is controlled by a handle.
//!
//! `docs/embedding.md` describes how to embed a provider in a program.

mod builder;
mod handle;

pub use crate::engine::Lifecycle;
pub use crate::runtime::state_writer::StateStore;
pub use builder::{BuildError, ProviderBuilder};
pub use handle::ProviderHandle;

use crate::error::Error;
use crate::runtime::recorded_engine::RecordedEngine;
use crate::runtime::{self, Parts};
use tokio_util::sync::CancellationToken;

/// A compute provider, ready to run. Created by [`Provider::builder`].
#[derive(Debug)]
pub struct Provider {
    parts: Parts<RecordedEngine>,
}

impl Provider {
    /// Starts building a provider.
    #[must_use]
    pub fn builder() -> ProviderBuilder {
        ProviderBuilder::default()
    }

    /// Runs until `shutdown` is cancelled and pending work is finished, or the grace period is over.
    ///
    /// # Behavior
    /// - workloads and open bids stay; the next start takes them over
    /// - the provider waits for an unavailable chain without a time limit, and reports it in its status
    /// - a provider that is not registered on the chain runs and does not bid
    ///
    /// # Errors
    /// [`ErrorKind::ClusterNotReady`](crate::error::ErrorKind::ClusterNotReady) when the cluster or its
    /// capacity was not known within [`cluster_ready_timeout`](crate::config::Config::cluster_ready_timeout).
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_until(shutdown, CancellationToken::new()).await
    }

    /// Runs like [`Provider::run`]. `abort` is the second signal and stops the provider at once.
    ///
    /// # Errors
    /// The errors of [`Provider::run`], and [`ErrorKind::Aborted`](crate::error::ErrorKind::Aborted) after an
    /// abort. In every case pending requests of handles get a response, and later requests get
    /// [`ErrorKind::Stopped`](crate::error::ErrorKind::Stopped).
    pub async fn run_until(self, shutdown: CancellationToken, abort: CancellationToken) -> Result<(), Error> {
        runtime::run(self.parts, shutdown, abort).await
    }
}

#[cfg(test)]
mod tests;
