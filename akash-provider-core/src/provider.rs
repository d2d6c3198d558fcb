//! The provider: five ports in, a life of its own, a handle out.
//!
//! See `docs/embedding.md` for how to put one into a program.

mod builder;
mod handle;

pub use crate::engine::Lifecycle;
pub use crate::runtime::keeping::Keeper;
pub use builder::{BuildError, ProviderBuilder};
pub use handle::ProviderHandle;

use crate::error::Error;
use crate::runtime::recorded::Recorded;
use crate::runtime::{self, Parts};
use tokio_util::sync::CancellationToken;

/// A compute provider, ready to run. Made by [`Provider::builder`].
#[derive(Debug)]
pub struct Provider {
    parts: Parts<Recorded>,
}

impl Provider {
    /// Starts building a provider.
    #[must_use]
    pub fn builder() -> ProviderBuilder {
        ProviderBuilder::default()
    }

    /// Runs until `shutdown` is cancelled and what is owed is done, or the grace is over.
    ///
    /// # Behavior
    /// - workloads and open bids stay as they are; the next start takes them over
    /// - the chain may be away for ever: the provider waits, and its status says so
    /// - not being registered is no error: it follows, and does not bid
    ///
    /// # Errors
    /// [`ErrorKind::ClusterNotReady`](crate::error::ErrorKind::ClusterNotReady) when the cluster or its capacity
    /// did not become known within [`cluster_ready_timeout`](crate::config::Config::cluster_ready_timeout).
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_until(shutdown, CancellationToken::new()).await
    }

    /// Like [`Provider::run`]; `abort`, the second signal, stops it at once.
    ///
    /// # Errors
    /// As [`Provider::run`], and [`ErrorKind::Aborted`](crate::error::ErrorKind::Aborted) when aborted. Whatever
    /// the end, every handle gets its answers and
    /// [`ErrorKind::Stopped`](crate::error::ErrorKind::Stopped) from then on.
    pub async fn run_until(self, shutdown: CancellationToken, abort: CancellationToken) -> Result<(), Error> {
        runtime::run(self.parts, shutdown, abort).await
    }
}

#[cfg(test)]
mod tests;
