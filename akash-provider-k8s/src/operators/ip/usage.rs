//! How many addresses there are and how many are in use, and what of the given ones is not as it should be.

use super::balancer::Mode;
use super::index::Index;
use super::live::Live;
use super::pool::Pool;
use crate::hostnames::rfc3339;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// A Service waits for its address for so long before it is said.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Services that are named in one line of the log; the status has all.
const NAMED: usize = 5;

/// A pool as it is declared and used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolStatus {
    /// Leased addresses are of it.
    pub counts: bool,
    /// Addresses that it has; 4,294,967,295 also where there are more.
    pub total: u32,
    /// Those that a load balancer has, whoever made that.
    pub in_use: u32,
    /// What of it makes no sense.
    pub problems: Vec<String>,
}

/// How many addresses there are for leases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Addresses of the pools that count, each once; `None` where that is not known.
    pub total: Option<u32>,
    /// Those that a load balancer has; `None` where that is not known.
    pub in_use: Option<u32>,
    /// Why it is not known, or what is odd about it.
    pub problem: Option<String>,
    /// The pools there are.
    pub pools: BTreeMap<String, PoolStatus>,
}

impl Usage {
    pub(super) fn of(index: &Index) -> Self {
        let balancers = index.services().filter(|(_, live)| live.is_balancer);
        let addresses: BTreeSet<IpAddr> = balancers
            .flat_map(|(_, live)| live.given.addresses.iter().copied())
            .collect();
        let services_known = index.is_known();
        let usage = Self::with(index.pools(), index.mode(), &addresses);
        Self {
            in_use: usage.in_use.filter(|_| services_known),
            ..usage
        }
    }

    /// Of pools, and of the addresses that load balancers have.
    #[must_use]
    pub fn with(pools: Option<&BTreeMap<String, Pool>>, mode: &Mode, addresses: &BTreeSet<IpAddr>) -> Self {
        let Some(pools) = pools else {
            let problem = "MetalLB's IPAddressPools are not known: the cluster does not serve them, or they cannot be \
                           listed";
            return Self {
                problem: Some(problem.to_owned()),
                ..Self::default()
            };
        };
        let counts = |name: &str, pool: &Pool| {
            if mode.is_any_pool() {
                pool.assigns && !pool.is_reserved
            } else {
                name == mode.pool
            }
        };
        let counted: Vec<&Pool> = pools
            .iter()
            .filter(|(n, p)| counts(n, p))
            .map(|(_, p)| p)
            .collect();
        let used = addresses
            .iter()
            .filter(|a| counted.iter().any(|pool| pool.has(**a)));
        let in_use = u32::try_from(used.count()).unwrap_or(u32::MAX);
        let problem = counted.is_empty().then(|| {
            if mode.is_any_pool() {
                "no IPAddressPool gives its addresses to everybody: autoAssign is off, or they are for others"
                    .to_owned()
            } else {
                format!(
                    "there is no IPAddressPool `{}`; --metal-lb-pool names it",
                    mode.pool
                )
            }
        });
        let statuses = pools.iter().map(|(name, pool)| {
            let others = pools.iter().filter(|(other, _)| *other != name);
            let overlapping = others.filter(|(_, other)| pool.overlaps(other));
            let overlapping =
                overlapping.map(|(other, _)| format!("it has addresses in common with pool `{other}`"));
            let status = PoolStatus {
                counts: counts(name, pool),
                total: pool.total(),
                in_use: pool.in_use(addresses),
                problems: pool.problems.iter().cloned().chain(overlapping.take(8)).collect(),
            };
            (name.clone(), status)
        });
        Self {
            total: Some(Pool::union(counted.iter().copied())),
            in_use: Some(in_use),
            problem,
            pools: statuses.collect(),
        }
    }

    /// Addresses there are, and those in use.
    #[must_use]
    pub fn known(&self) -> Option<(u32, u32)> {
        self.total.zip(self.in_use)
    }

    /// Names of the pools that count.
    pub(super) fn counted(&self) -> impl Iterator<Item = &str> {
        let counted = self.pools.iter().filter(|(_, pool)| pool.counts);
        counted.map(|(name, _)| name.as_str())
    }
}

/// What is not as it should be with what was given to a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// It waits for an address since then.
    Late(Timestamp),
    /// Something else.
    Odd(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(since) => write!(
                f,
                "waiting for an address since {}; MetalLB is late, or has none left",
                rfc3339(*since)
            ),
            Self::Odd(text) => f.write_str(text),
        }
    }
}

/// What of notices was not told before.
#[derive(Debug, Default)]
pub(super) struct News<'a> {
    late: Vec<&'a str>,
    /// By Service.
    pub(super) odd: Vec<(&'a str, &'a Notice)>,
}

impl<'a> News<'a> {
    pub(super) fn of(told: &BTreeMap<String, Vec<Notice>>, now: &'a BTreeMap<String, Vec<Notice>>) -> Self {
        let mut news = Self::default();
        for (service, notices) in now {
            let known = told.get(service);
            for notice in notices.iter().filter(|n| known.is_none_or(|k| !k.contains(n))) {
                match notice {
                    Notice::Late(_) => news.late.push(service),
                    Notice::Odd(_) => news.odd.push((service, notice)),
                }
            }
        }
        news
    }

    /// The Services that are late, the first of them by name; `None` where none is.
    pub(super) fn late(&self) -> Option<String> {
        let named = self.late.get(..NAMED).unwrap_or(&self.late);
        let rest = self.late.len() - named.len();
        let more = if rest > 0 {
            format!(" and {rest} more")
        } else {
            String::new()
        };
        (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
    }
}

/// True while a Service of ours waits for an address and is not late yet: only then time alone changes something.
pub(super) fn is_waited(index: &Index, now: Timestamp) -> bool {
    let mut services = index.services().filter(|(_, live)| live.is_leased);
    services.any(|(_, live)| waiting(live).is_some_and(|since| now.duration_since(since) < PATIENCE))
}

/// What is not as it should be with what was given to our Services, by Service.
pub(super) fn notices(index: &Index, now: Timestamp) -> BTreeMap<String, Vec<Notice>> {
    let mut holders: BTreeMap<IpAddr, Vec<(&String, &Live)>> = BTreeMap::new();
    for (place, live) in index.services().filter(|(_, live)| live.is_balancer) {
        for address in &live.given.addresses {
            holders.entry(*address).or_default().push((place, live));
        }
    }
    let ours = index
        .services()
        .filter(|(place, live)| live.is_leased && index.leased(place).is_some());
    let all = ours.map(|(place, live)| {
        let mut texts = Vec::new();
        if let Some(since) = waiting(live).filter(|since| now.duration_since(*since) >= PATIENCE) {
            texts.push(Notice::Late(since));
        }
        for address in &live.given.addresses {
            texts.extend(outside(index, *address).map(Notice::Odd));
            let others = holders.get(address).into_iter().flatten();
            texts.extend(stranger(*address, live, others).map(Notice::Odd));
        }
        (place.clone(), texts)
    });
    all.filter(|(_, texts)| !texts.is_empty()).collect()
}

/// Since when a Service waits for an address; `None` where it has one.
pub(super) fn waiting(live: &Live) -> Option<Timestamp> {
    (live.given.addresses.is_empty() && !live.is_going).then_some(live.since)
}

fn outside(index: &Index, address: IpAddr) -> Option<String> {
    let (pools, mode) = (index.pools()?, index.mode());
    let mut meant = pools
        .iter()
        .filter(|(name, _)| mode.is_any_pool() || **name == mode.pool);
    let is_inside = meant.any(|(_, pool)| pool.has(address));
    (!is_inside).then(|| {
        if mode.is_any_pool() {
            format!("its address {address} is in no pool")
        } else {
            format!("its address {address} is not in pool `{}`", mode.pool)
        }
    })
}

/// An address is of one tenant.
fn stranger<'a>(
    address: IpAddr,
    own: &Live,
    mut others: impl Iterator<Item = &'a (&'a String, &'a Live)>,
) -> Option<String> {
    let owner = |live: &Live| live.lease.as_ref().map(|lease| lease.owner().clone());
    let other = others.find(|(_, other)| owner(other) != owner(own));
    other.map(|(place, other)| match owner(other) {
        Some(owner) => format!("its address {address} is shared with tenant {owner}, by Service {place}"),
        None => format!("its address {address} is shared with Service {place}, which is of no lease"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_late_are_told_together_and_once() {
        let late = |second| vec![Notice::Late(Timestamp::from_second(second).unwrap())];
        let mut now: BTreeMap<String, Vec<Notice>> = (0..1_000)
            .map(|number| (format!("ns/web-{number:04}"), late(7)))
            .collect();
        now.insert("ns/odd".to_owned(), vec![Notice::Odd("it is odd".to_owned())]);
        let news = News::of(&BTreeMap::new(), &now);
        assert_eq!(news.odd.len(), 1);
        let text = news.late().unwrap();
        assert!(text.starts_with("ns/web-0000, ns/web-0001"), "{text}");
        assert!(text.ends_with("ns/web-0004 and 995 more"), "{text}");
        let again = News::of(&now, &now);
        assert!(again.late().is_none() && again.odd.is_empty(), "it was told");
        let before = now.clone();
        now.insert("ns/web-0001".to_owned(), late(9));
        assert_eq!(News::of(&before, &now).late().as_deref(), Some("ns/web-0001"));
    }
}
