//! The provider: built from five ports, runs until it is stopped, and is controlled by a handle.
//!
//! `docs/embedding.md` describes how to embed a provider in a program.

mod builder;
mod handle;
pub mod statistics;

pub use crate::engine::Lifecycle;
pub use crate::runtime::state_writer::StateStore;
pub use builder::{BuildError, ProviderBuilder};
pub use handle::ProviderHandle;
pub use statistics::ProviderStatistics;

use crate::error::Error;
use crate::runtime::recorded_engine::RecordedEngine;
use crate::runtime::{self, RuntimeParts};
use tokio_util::sync::CancellationToken;

/// A compute provider, ready to run. Created by [`Provider::builder`].
#[derive(Debug)]
pub struct Provider {
    parts: RuntimeParts<RecordedEngine>,
}

impl Provider {
    /// Starts building a provider.
    #[must_use]
    pub fn builder() -> ProviderBuilder {
        ProviderBuilder::default()
    }

    /// Runs until `shutdown` is cancelled and pending work is finished, or until the grace period is over.
    ///
    /// # Behavior
    /// - Workloads and open bids are not removed. The next start takes them over.
    /// - If the chain is unavailable, the provider waits without a time limit, and reports this problem in
    ///   its status.
    /// - If the provider is not registered on the chain, it runs and does not bid.
    ///
    /// # Errors
    /// Returns [`ErrorKind::ClusterNotReady`](crate::error::ErrorKind::ClusterNotReady) when the cluster or
    /// its capacity was not known within
    /// [`cluster_ready_timeout`](crate::config::Config::cluster_ready_timeout).
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_until(shutdown, CancellationToken::new()).await
    }

    /// Runs like [`Provider::run`]. When `abort` is cancelled, for example by a second signal, the provider
    /// stops at once.
    ///
    /// # Errors
    /// Returns the errors of [`Provider::run`], and [`ErrorKind::Aborted`](crate::error::ErrorKind::Aborted)
    /// after an abort.
    ///
    /// Pending requests of provider handles always get a response. Later requests get
    /// [`ErrorKind::Stopped`](crate::error::ErrorKind::Stopped).
    pub async fn run_until(self, shutdown: CancellationToken, abort: CancellationToken) -> Result<(), Error> {
        runtime::run(self.parts, shutdown, abort).await
    }
}

#[cfg(test)]
mod tests;
