//! Connections of which nobody knows yet whose they are. They may be cut to make room; those of tenants never are.
//!
//! ```text
//!  accepted ──► stranger ──► a request by a tenant ──► known
//!                  └─ too many of its network, or no place left: the oldest of the network that has most is cut
//! ```
//! So whoever opens thousands of connections and says nothing pushes out its own, and who has something to show gets
//! in from wherever it comes.

use super::budget::network;
use akash_provider_core::types::Address;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Connections of one tenant that are kept whatever happens: twice its streams. More of them are a stranger's.
const KEPT_OF_TENANT: usize = 512;

/// All connections of a port.
#[derive(Debug)]
pub(crate) struct Strangers {
    all: Mutex<All>,
    most_of_network: usize,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    /// By network, and by number within it: numbers grow, so the first is the oldest.
    strangers: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
    known: HashMap<u64, Address>,
    of_tenant: HashMap<Address, usize>,
}

/// One connection for as long as it is open; leaves all lists when it is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    of: Arc<Strangers>,
    network: IpAddr,
    number: u64,
    cut: CancellationToken,
    was_asked: AtomicBool,
}

impl Strangers {
    pub(crate) fn new(most_of_network: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Mutex::default(),
            most_of_network,
        })
    }

    /// One more. Where its network has too many, the oldest of them is cut.
    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Stranger {
        let (network, cut) = (network(peer), CancellationToken::new());
        let mut all = self.lock();
        let number = all.next;
        all.next += 1;
        let mine = all.strangers.entry(network).or_default();
        // The oldest goes and not the newest: a flood cuts its own silent connections, and an honest one comes
        // through.
        if mine.len() >= self.most_of_network
            && let Some((_, oldest)) = mine.pop_first()
        {
            oldest.cancel();
        }
        mine.insert(number, cut.clone());
        drop(all);
        Stranger {
            of: Arc::clone(self),
            network,
            number,
            cut,
            was_asked: AtomicBool::new(false),
        }
    }

    /// Cuts the oldest stranger of the network that has most of them; false where there is none.
    pub(crate) fn make_room(&self) -> bool {
        let mut all = self.lock();
        // From the network with most: one attacker's address loses first, and a single connection of another last.
        let most = all.strangers.values_mut().max_by_key(|of| of.len());
        let oldest = most.and_then(BTreeMap::pop_first);
        if let Some((_, cut)) = &oldest {
            cut.cancel();
        }
        oldest.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// A tenant has shown itself on it: it is not cut from here on, unless that tenant has very many.
    pub(crate) fn is_of(&self, tenant: &Address) {
        // Asked at each request. Without the lock, all but the first would queue for it for nothing.
        if self.was_asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut guard = self.of.lock();
        let all = &mut *guard;
        let kept = all.of_tenant.entry(tenant.clone()).or_insert(0);
        // A tenant is cheap to become, so even a known one cannot fill every place with connections nobody may cut.
        if *kept >= KEPT_OF_TENANT {
            return;
        }
        *kept += 1;
        all.known.insert(self.number, tenant.clone());
        all.leave(self.network, self.number);
    }

    /// Waits until it is cut.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }
}

impl All {
    fn leave(&mut self, network: IpAddr, number: u64) {
        if let Some(mine) = self.strangers.get_mut(&network) {
            mine.remove(&number);
            if mine.is_empty() {
                self.strangers.remove(&network);
            }
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut all = self.of.lock();
        all.leave(self.network, self.number);
        let Some(tenant) = all.known.remove(&self.number) else {
            return;
        };
        if let Some(kept) = all.of_tenant.get_mut(&tenant) {
            *kept -= 1;
            if *kept == 0 {
                all.of_tenant.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(network: u16, host: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, network, host, 2, 3, 4])
    }

    fn tenant() -> Address {
        Address::from_bytes(&[1; 20]).unwrap()
    }

    fn is_cut(stranger: &Stranger) -> bool {
        stranger.cut.is_cancelled()
    }

    #[test]
    fn a_network_that_has_too_many_loses_its_oldest() {
        let strangers = Strangers::new(2);
        let other = strangers.enter(peer(2, 1));
        let [first, second, third] = [1, 2, 3].map(|host| strangers.enter(peer(1, host)));
        assert_eq!(
            [&first, &second, &third, &other].map(is_cut),
            [true, false, false, false]
        );
    }

    #[test]
    fn the_network_that_has_most_makes_room_and_tenants_never_do() {
        let strangers = Strangers::new(100);
        let lone = strangers.enter(peer(2, 1));
        let many: Vec<_> = (0..5).map(|host| strangers.enter(peer(1, host))).collect();
        many[0].is_of(&tenant());
        assert!(strangers.make_room());
        let cut: Vec<bool> = many.iter().map(is_cut).collect();
        assert_eq!(cut, [false, true, false, false, false]);
        for _ in 0..4 {
            assert!(strangers.make_room());
        }
        assert!(is_cut(&lone) && !is_cut(&many[0]));
        assert!(!strangers.make_room());
        drop((many, lone));
        let all = strangers.lock();
        assert!(all.strangers.is_empty() && all.known.is_empty() && all.of_tenant.is_empty());
    }

    #[test]
    fn one_tenant_keeps_so_many_and_more_are_a_strangers() {
        let strangers = Strangers::new(10_000);
        let mine: Vec<_> = (0..=KEPT_OF_TENANT)
            .map(|_| strangers.enter(peer(1, 1)))
            .collect();
        for one in &mine {
            one.is_of(&tenant());
            one.is_of(&tenant());
        }
        assert!(strangers.make_room() && !strangers.make_room());
        assert!(is_cut(&mine[KEPT_OF_TENANT]));
    }
}
