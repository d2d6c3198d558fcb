//! Chain queries about unauthenticated clients. The number and the duration of these queries are limited, and
//! also the number of unknown accounts that the clients of one IP network may name.
//!
//! Any client can name an account that does not exist, and each such name costs a chain query. After the clients of an
//! IP network have named the maximum number of unknown accounts, they cause no more queries in that minute. Accounts
//! with a stored key need no query.

use super::LookupFault;
use crate::budget::RequestBudget;
use akash_provider_core::error::Error;
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of concurrent chain queries.
const CONCURRENT_MAX: usize = 16;
/// Maximum time of a chain query, including the wait for a permit.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Limits of the chain queries on behalf of clients.
#[derive(Debug)]
pub(super) struct Lookups {
    permits: Semaphore,
    unknown: RequestBudget,
}

impl Lookups {
    /// Creates the limits. Each IP network may cause `unknown_per_network` queries for unknown accounts per
    /// minute.
    pub(super) fn new(unknown_per_network: u32) -> Self {
        Self {
            permits: Semaphore::new(CONCURRENT_MAX),
            unknown: RequestBudget::new(unknown_per_network),
        }
    }

    /// Counts a chain query against the IP network of `peer`. Called if the query did not authenticate the
    /// client.
    pub(super) fn count_unknown(&self, peer: IpAddr) {
        self.unknown.take(peer);
    }

    /// Runs a chain query for the client at `peer`. If the query returns `Ok(None)` (unknown account), the
    /// query budget of the client's IP network decreases.
    pub(super) async fn query<T>(
        &self,
        peer: IpAddr,
        query: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Option<T>, LookupFault> {
        // Checked before the wait for a permit, so that a flood does not fill the queue too.
        if self.unknown.is_spent(peer) {
            return Err(LookupFault::TooMany);
        }
        let limited = async {
            // Never closed, so a permit always becomes free.
            let _permit = self.permits.acquire().await;
            query.await
        };
        // One limit over permit and response: behind a slow node the waits of many would add up otherwise.
        match timeout(TIMEOUT, limited).await {
            Ok(Ok(Some(reply))) => Ok(Some(reply)),
            Ok(Ok(None)) => {
                self.count_unknown(peer);
                Ok(None)
            }
            // An outage never counts against a client.
            Ok(Err(error)) => {
                tracing::warn!(%error, "request of a tenant refused: the query of the tenant's account or certificate failed; check the chain node");
                Err(LookupFault::Outage)
            }
            Err(_) => {
                tracing::warn!(timeout = ?TIMEOUT, "request of a tenant refused: the query of the tenant's account or certificate timed out; check the chain node");
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

    async fn unknown_account() -> Result<Option<()>, Error> {
        Ok(None)
    }

    #[tokio::test]
    async fn limits_only_networks_that_keep_naming_unknown_accounts() {
        let lookups = Lookups::new(UNKNOWN_MAX);
        for _ in 0..UNKNOWN_MAX {
            assert_eq!(lookups.query(peer(1), unknown_account()).await, Ok(None));
        }
        assert_eq!(
            lookups.query(peer(1), unknown_account()).await,
            Err(LookupFault::TooMany)
        );
        let neighbour = IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]);
        assert_eq!(
            lookups.query(neighbour, unknown_account()).await,
            Err(LookupFault::TooMany)
        );
        assert_eq!(lookups.query(peer(2), unknown_account()).await, Ok(None));
        assert_eq!(lookups.query(peer(2), async { Ok(Some(1)) }).await, Ok(Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_counts_against_no_network_and_is_bounded() {
        let lookups = Lookups::new(UNKNOWN_MAX);
        for _ in 0..UNKNOWN_MAX + 1 {
            let down = async { Err::<Option<()>, _>(Error::new(ErrorKind::Unavailable, "ask", "down")) };
            assert_eq!(lookups.query(peer(1), down).await, Err(LookupFault::Outage));
        }
        let hangs = lookups.query(peer(1), std::future::pending::<Result<Option<()>, _>>());
        assert_eq!(hangs.await, Err(LookupFault::Outage));
        assert_eq!(lookups.query(peer(1), unknown_account()).await, Ok(None));
    }
}
