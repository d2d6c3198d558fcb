//! Total and used number of addresses for leases.

use super::is_any_pool;
use super::pool::Pool;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Status of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolStatus {
    /// True if leased addresses come from this pool.
    pub counts: bool,
    /// Number of addresses, at most 4,294,967,295.
    pub total: u32,
    /// Number of used addresses in the pool. Includes addresses of load balancers outside of leases.
    pub in_use: u32,
    /// Invalid parts of the pool.
    pub problems: Vec<String>,
}

/// Total number of addresses for leases, and the number in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AddressUsage {
    /// Number of distinct addresses in the counted pools; `None` if unknown.
    pub total: Option<u32>,
    /// Number of used addresses in the counted pools; `None` if unknown.
    pub in_use: Option<u32>,
    /// Reason why the numbers are unknown or possibly wrong.
    pub problem: Option<String>,
    /// All pools.
    pub pools: BTreeMap<String, PoolStatus>,
}

impl AddressUsage {
    /// Counts the addresses in the pools from which MetalLB assigns leased addresses: `pool`, or any pool.
    /// `addresses` are the used addresses of all load balancers.
    #[must_use]
    pub fn with(pools: Option<&BTreeMap<String, Pool>>, pool: &str, addresses: &BTreeSet<IpAddr>) -> Self {
        let Some(pools) = pools else {
            let problem = "the IPAddressPools of MetalLB are unknown: the cluster does not serve them, or they cannot be \
                           listed";
            return Self {
                problem: Some(problem.to_owned()),
                ..Self::default()
            };
        };
        let is_any = is_any_pool(pool);
        let counts = |name: &str, candidate: &Pool| {
            if is_any {
                candidate.assigns && !candidate.is_reserved
            } else {
                name == pool
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
            if is_any {
                "no IPAddressPool is assigned automatically: autoAssign is off, or all pools are restricted"
                    .to_owned()
            } else {
                format!("IPAddressPool `{pool}` does not exist (--metal-lb-pool)")
            }
        });
        let statuses = pools.iter().map(|(name, pool)| {
            let others = pools.iter().filter(|(other, _)| *other != name);
            let overlapping = others.filter(|(_, other)| pool.overlaps(other));
            let overlapping = overlapping.map(|(other, _)| format!("overlaps with pool `{other}`"));
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

    /// Returns the total and the used number of addresses, if both are known.
    #[must_use]
    pub fn known(&self) -> Option<(u32, u32)> {
        self.total.zip(self.in_use)
    }

    /// Returns the names of the counted pools.
    pub fn counted(&self) -> impl Iterator<Item = &str> {
        let counted = self.pools.iter().filter(|(_, pool)| pool.counts);
        counted.map(|(name, _)| name.as_str())
    }
}
