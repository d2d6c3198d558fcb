//! Questions to the chain about strangers: few at a time, short, and fewer for whoever asks about nobody.
//!
//! Anybody can name an account that does not exist. Each such name costs the chain a question, so an address on
//! the network that keeps naming nobody is not asked for any more for a while; who is known already is served
//! without a question.

use super::LookupFault;
use akash_provider_core::error::Error;
use moka::sync::Cache;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Questions under way at once: a node answers one in milliseconds, so this is hundreds a second.
const AT_ONCE: usize = 16;
/// How long a question waits for its turn and its answer, together.
const PATIENCE: Duration = Duration::from_secs(5);
/// Addresses on the network that are counted.
const COUNTED_MAX: u64 = 10_000;
/// For how long they are.
const WINDOW: Duration = Duration::from_secs(60);
/// Names of nobody within that time; consoles bring many tenants from one address, and few of them are unknown.
const UNKNOWN_MAX: u32 = 60;

/// The gate before the chain.
#[derive(Debug)]
pub(super) struct Lookups {
    turns: Semaphore,
    unknown: Cache<IpAddr, Arc<AtomicU32>>,
    patience: Duration,
}

impl Default for Lookups {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl Lookups {
    pub(super) fn with_patience(patience: Duration) -> Self {
        Self {
            turns: Semaphore::new(AT_ONCE),
            unknown: Cache::builder()
                .max_capacity(COUNTED_MAX)
                .time_to_live(WINDOW)
                .build(),
            patience,
        }
    }

    /// Asks on behalf of an address; `Ok(None)`, nobody, counts against it.
    pub(super) async fn ask<T>(
        &self,
        peer: IpAddr,
        question: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Option<T>, LookupFault> {
        let network = network(peer);
        let count = self.unknown.get_with(network, Arc::default);
        if count.load(Ordering::Relaxed) >= UNKNOWN_MAX {
            return Err(LookupFault::TooMany);
        }
        let asking = async {
            // Never closed, so there is always a turn to come.
            let _turn = self.turns.acquire().await;
            question.await
        };
        match timeout(self.patience, asking).await {
            Ok(Ok(Some(answer))) => Ok(Some(answer)),
            Ok(Ok(None)) => {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Ok(Err(error)) => {
                tracing::warn!("the chain cannot be asked about a tenant: {error}");
                Err(LookupFault::Outage)
            }
            Err(_) => {
                tracing::warn!(
                    "the chain did not answer about a tenant within {:?}",
                    self.patience
                );
                Err(LookupFault::Outage)
            }
        }
    }
}

/// Who has one address of version 6 has at least 2^64 of them.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::error::ErrorKind;

    fn peer(last: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, last, 1, 2, 3, last])
    }

    async fn nobody() -> Result<Option<()>, Error> {
        Ok(None)
    }

    #[tokio::test]
    async fn who_keeps_naming_nobody_is_not_asked_for_any_more_and_others_are() {
        let lookups = Lookups::default();
        for _ in 0..UNKNOWN_MAX {
            assert_eq!(lookups.ask(peer(1), nobody()).await, Ok(None));
        }
        assert_eq!(lookups.ask(peer(1), nobody()).await, Err(LookupFault::TooMany));
        let neighbour = IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]);
        assert_eq!(lookups.ask(neighbour, nobody()).await, Err(LookupFault::TooMany));
        assert_eq!(lookups.ask(peer(2), nobody()).await, Ok(None));
        assert_eq!(lookups.ask(peer(2), async { Ok(Some(1)) }).await, Ok(Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_counts_against_nobody_and_is_bounded() {
        let lookups = Lookups::default();
        for _ in 0..UNKNOWN_MAX + 1 {
            let down = async { Err::<Option<()>, _>(Error::new(ErrorKind::Unavailable, "ask", "down")) };
            assert_eq!(lookups.ask(peer(1), down).await, Err(LookupFault::Outage));
        }
        let hangs = lookups.ask(peer(1), std::future::pending::<Result<Option<()>, _>>());
        assert_eq!(hangs.await, Err(LookupFault::Outage));
        assert_eq!(lookups.ask(peer(1), nobody()).await, Ok(None));
    }
}
