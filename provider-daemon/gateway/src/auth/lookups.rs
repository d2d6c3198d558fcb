//! Questions to the chain about strangers: few at a time, short, and fewer for whoever asks about nobody.
//!
//! Anybody can name an account that does not exist. Each such name costs the chain a question, so an address on
//! the network that keeps naming nobody is not asked for any more for a while; who is known already is served
//! without a question.

use super::LookupFault;
use crate::budget::Budget;
use akash_provider_core::error::Error;
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Questions under way at once: a node answers one in milliseconds, so this is hundreds a second.
const AT_ONCE: usize = 16;
/// How long a question waits for its turn and its answer, together.
const PATIENCE: Duration = Duration::from_secs(5);

/// The gate before the chain.
#[derive(Debug)]
pub(super) struct Lookups {
    turns: Semaphore,
    unknown: Budget,
}

impl Lookups {
    /// With so many questions in vain of one network in a minute.
    pub(super) fn new(unknown_per_network: u32) -> Self {
        Self {
            turns: Semaphore::new(AT_ONCE),
            unknown: Budget::new(unknown_per_network),
        }
    }

    /// Counts a question against an address although there was an answer: it was of no use.
    pub(super) fn in_vain(&self, peer: IpAddr) {
        self.unknown.take(peer);
    }

    /// Asks on behalf of an address; `Ok(None)`, nobody, counts against it.
    pub(super) async fn ask<T>(
        &self,
        peer: IpAddr,
        question: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Option<T>, LookupFault> {
        // Looked at before the wait for a turn, so that whoever floods us does not fill the queue too.
        if self.unknown.is_spent(peer) {
            return Err(LookupFault::TooMany);
        }
        let asking = async {
            // Never closed, so there is always a turn to come.
            let _turn = self.turns.acquire().await;
            question.await
        };
        // One limit over turn and answer: behind a slow node the waits of many would add up otherwise.
        match timeout(PATIENCE, asking).await {
            Ok(Ok(Some(answer))) => Ok(Some(answer)),
            Ok(Ok(None)) => {
                self.in_vain(peer);
                Ok(None)
            }
            // An outage is never counted against an address: the node is at fault and not who asks.
            Ok(Err(error)) => {
                tracing::warn!("the chain cannot be asked about a tenant: {error}");
                Err(LookupFault::Outage)
            }
            Err(_) => {
                tracing::warn!("the chain did not answer about a tenant within {PATIENCE:?}");
                Err(LookupFault::Outage)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::error::ErrorKind;

    const UNKNOWN_MAX: u32 = 7;

    fn peer(last: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, last, 1, 2, 3, last])
    }

    async fn nobody() -> Result<Option<()>, Error> {
        Ok(None)
    }

    #[tokio::test]
    async fn who_keeps_naming_nobody_is_not_asked_for_any_more_and_others_are() {
        let lookups = Lookups::new(UNKNOWN_MAX);
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
        let lookups = Lookups::new(UNKNOWN_MAX);
        for _ in 0..UNKNOWN_MAX + 1 {
            let down = async { Err::<Option<()>, _>(Error::new(ErrorKind::Unavailable, "ask", "down")) };
            assert_eq!(lookups.ask(peer(1), down).await, Err(LookupFault::Outage));
        }
        let hangs = lookups.ask(peer(1), std::future::pending::<Result<Option<()>, _>>());
        assert_eq!(hangs.await, Err(LookupFault::Outage));
        assert_eq!(lookups.ask(peer(1), nobody()).await, Ok(None));
    }
}
