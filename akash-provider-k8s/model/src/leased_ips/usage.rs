//! Total and used number of addresses for leases.

use super::is_any_pool;
use super::pool::Pool;
use akash_provider_core::types::{Address, LeaseId};
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
        let counts = |name: &str, candidate: &Pool| is_counted(name, candidate, pool);
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

/// Returns true if leased addresses come from the pool `candidate`. `pool` is the configured pool.
fn is_counted(name: &str, candidate: &Pool, pool: &str) -> bool {
    if is_any_pool(pool) {
        candidate.assigns && !candidate.is_reserved
    } else {
        name == pool
    }
}

/// Load balancer, with the fields that the count of addresses needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancer {
    /// Lease of a leased address.
    pub lease: Option<LeaseId>,
    /// Assigned addresses.
    pub addresses: Vec<IpAddr>,
}

/// Addresses for the leases of one provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressCount {
    /// Number of addresses in the counted pools.
    pub total: u32,
    /// Number of these addresses in use by load balancers that belong to no lease of the provider.
    pub others: u32,
    /// Load balancers of the provider's leases that have an address.
    leases: BTreeMap<LeaseId, LeaseBalancers>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LeaseBalancers {
    /// Names of the Services.
    services: BTreeSet<Box<str>>,
    /// Addresses in the counted pools.
    addresses: BTreeSet<IpAddr>,
}

impl AddressCount {
    /// Counts the addresses in the pools from which MetalLB assigns leased addresses: `pool`, or any pool.
    /// `pools` and `balancers` have names without a namespace.
    pub fn new<'a>(
        provider: &Address,
        pools: impl Iterator<Item = (&'a str, &'a Pool)>,
        pool: &str,
        balancers: impl Iterator<Item = (&'a str, Option<&'a LeaseId>, &'a [IpAddr])>,
    ) -> Self {
        let counted = pools.filter(|(name, candidate)| is_counted(name, candidate, pool));
        let counted: Vec<&Pool> = counted.map(|(_, pool)| pool).collect();
        let (mut others, mut leases) = (BTreeSet::new(), BTreeMap::new());
        for (service, lease, addresses) in balancers.filter(|(_, _, addresses)| !addresses.is_empty()) {
            let in_pool = addresses.iter().copied();
            let in_pool = in_pool.filter(|address| counted.iter().any(|pool| pool.has(*address)));
            match lease.filter(|lease| lease.provider == *provider) {
                None => others.extend(in_pool),
                Some(lease) => {
                    let of_lease: &mut LeaseBalancers = leases.entry(lease.clone()).or_default();
                    of_lease.services.insert(service.into());
                    of_lease.addresses.extend(in_pool);
                }
            }
        }
        Self {
            total: Pool::union(counted),
            others: u32::try_from(others.len()).unwrap_or(u32::MAX),
            leases,
        }
    }

    /// Returns the number of addresses that leases of the provider use, and the leases with all addresses
    /// assigned. `declared` returns the Services that the Manifest of a lease declares, or `None` without a Manifest.
    ///
    /// A lease with a missing address is not included, because its reservation counts all its addresses.
    pub fn of_leases<'a>(
        &self,
        declared: impl Fn(&LeaseId) -> Option<&'a BTreeSet<Box<str>>>,
    ) -> (u32, Vec<LeaseId>) {
        let (mut in_use, mut confirmed) = (0, Vec::new());
        for (lease, balancers) in &self.leases {
            match declared(lease) {
                Some(declared) if declared.is_subset(&balancers.services) => confirmed.push(lease.clone()),
                Some(_) => continue,
                // The addresses of a closed lease are in use until the Services are deleted.
                None => {}
            }
            in_use += balancers.addresses.len();
        }
        (u32::try_from(in_use).unwrap_or(u32::MAX), confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::pool;
    use super::*;
    use serde_json::json;

    const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
    const OTHER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";

    fn lease(dseq: u32, provider: &str) -> LeaseId {
        format!("{OTHER}/{dseq}/1/1/{provider}").parse().unwrap()
    }

    fn count(balancers: &[(&str, Option<LeaseId>, &str)]) -> AddressCount {
        let object = json!({"metadata": {"name": "p"}, "spec": {"addresses": ["203.0.113.0/28"]}});
        let pool = pool(&serde_json::from_value(object).unwrap());
        let address = |text: &str| text.parse::<IpAddr>().into_iter().collect::<Vec<_>>();
        let balancers: Vec<(_, _, Vec<IpAddr>)> = balancers
            .iter()
            .map(|(name, lease, text)| (*name, lease.clone(), address(text)))
            .collect();
        let balancers = balancers
            .iter()
            .map(|(name, lease, all)| (*name, lease.as_ref(), &**all));
        AddressCount::new(
            &PROVIDER.parse().unwrap(),
            [("p", &pool)].into_iter(),
            "default",
            balancers,
        )
    }

    #[test]
    fn addresses_of_a_lease_are_confirmed_when_all_are_assigned() {
        let (own, theirs) = (lease(1, PROVIDER), lease(2, OTHER));
        let of = |udp: &str| {
            count(&[
                ("web-ip-80-tcp", Some(own.clone()), "203.0.113.1"),
                ("web-ip-53-udp", Some(own.clone()), udp),
                ("web-ip-80-tcp", Some(theirs.clone()), "203.0.113.2"),
                ("ingress", None, "203.0.113.3"),
                ("remote", None, "192.0.2.1"),
            ])
        };
        let declared: BTreeSet<Box<str>> = ["web-ip-80-tcp", "web-ip-53-udp"].map(Into::into).into();
        let (pending, shared, two) = (of(""), of("203.0.113.1"), of("203.0.113.4"));
        assert_eq!((pending.total, pending.others), (16, 2));
        let used = |count: &AddressCount| count.of_leases(|_| Some(&declared));
        assert_eq!(
            used(&pending),
            (0, vec![]),
            "the reservation counts both addresses"
        );
        assert_eq!(
            used(&shared),
            (1, vec![own.clone()]),
            "both ports share the address"
        );
        assert_eq!(used(&two), (2, vec![own]));
        assert_eq!(
            pending.of_leases(|_| None),
            (1, vec![]),
            "the lease is closed, its Service remains"
        );
    }
}
