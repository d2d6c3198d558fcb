//! Limits for requests without authentication. Each limit applies to the IP network of the clients: the number of
//! requests per minute, or the number of concurrent requests.
//!
//! An IP network is one IPv4 address or one /64 prefix of IPv6 addresses, because one client usually has a whole /64
//! prefix.

use moka::sync::Cache;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of IP networks with a counter.
const COUNTED_MAX: u64 = 10_000;
/// Length of the period in which requests are counted.
const WINDOW: Duration = Duration::from_secs(60);

pub(super) fn network(peer: IpAddr) -> IpAddr {
    // A dual-stack socket shows IPv4 addresses as `::ffff:a.b.c.d`. As IPv6, all of IPv4 would be one network.
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Counter of requests per minute for each IP network.
#[derive(Debug)]
pub(super) struct RequestBudget {
    taken: Cache<IpAddr, Arc<AtomicU32>>,
    most: u32,
}

impl RequestBudget {
    pub(super) fn new(most: u32) -> Self {
        Self {
            taken: Cache::builder()
                .max_capacity(COUNTED_MAX)
                .time_to_live(WINDOW)
                .build(),
            most,
        }
    }

    /// Returns true if the IP network of `peer` has no requests left in the current minute.
    pub(super) fn is_spent(&self, peer: IpAddr) -> bool {
        let taken = self.taken.get(&network(peer));
        taken.is_some_and(|taken| taken.load(Ordering::Relaxed) >= self.most)
    }

    /// Counts one request of the IP network of `peer`. Returns false if the network has no requests left.
    pub(super) fn take(&self, peer: IpAddr) -> bool {
        let taken = self.taken.get_with(network(peer), Arc::default);
        // Never exceeds the maximum, so the counter cannot wrap.
        let one_more = |taken: u32| (taken < self.most).then_some(taken + 1);
        let took = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        took.is_ok()
    }
}

/// Counter of concurrent requests for each IP network.
#[derive(Debug)]
pub(super) struct Shares {
    taken: Mutex<HashMap<IpAddr, usize>>,
    most: usize,
}

/// One counted request. Dropping this value decrements the counter.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Shares>,
    network: IpAddr,
}

impl Shares {
    pub(super) fn new(most: usize) -> Self {
        Self {
            taken: Mutex::default(),
            most,
        }
    }

    /// Returns a share for the IP network of `peer`, or `None` if the network has the maximum number of
    /// shares.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Share> {
        let network = network(peer);
        // A poisoned lock is used as it is: the counts are correct after each step, and a panic of another task must
        // not stop the gateway.
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_network = taken.entry(network).or_insert(0);
        if *of_network >= self.most {
            return None;
        }
        *of_network += 1;
        Some(Share {
            of: Arc::clone(self),
            network,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_network) = taken.get_mut(&self.network) {
            *of_network -= 1;
            if *of_network == 0 {
                // Removed at zero. Otherwise the map grows with every address that ever connected.
                taken.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(network: u16, host: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, network, host, 2, 3, 4])
    }

    #[test]
    fn budget_is_per_network_and_minute() {
        let budget = RequestBudget::new(3);
        let taken = (0..5).filter(|host| budget.take(v6(1, *host))).count();
        assert_eq!(taken, 3);
        assert!(budget.is_spent(v6(1, 99)) && !budget.is_spent(v6(2, 0)));
        assert!(budget.take(v6(2, 0)));
        let (old, mapped) = ("10.0.0.1", "::ffff:10.0.0.1");
        let [old, mapped] = [old, mapped].map(|a| a.parse::<IpAddr>().unwrap());
        let taken = [old, mapped, old, mapped].into_iter().filter(|a| budget.take(*a));
        assert_eq!(taken.count(), 3);
        assert!(budget.take("10.0.0.2".parse().unwrap()));
        assert!(!RequestBudget::new(0).take(old));
    }

    #[test]
    fn shares_are_per_network_and_released() {
        let shares = Arc::new(Shares::new(2));
        let first = shares.take(v6(1, 1));
        let second = shares.take(v6(1, 2));
        assert!(first.is_some() && second.is_some());
        assert!(shares.take(v6(1, 3)).is_none());
        assert!(shares.take(v6(2, 1)).is_some());
        drop(first);
        assert!(shares.take(v6(1, 3)).is_some());
        drop(second);
        assert!(shares.taken.lock().unwrap().is_empty());
    }
}
