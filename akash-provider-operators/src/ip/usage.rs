//! Used addresses in the index, and notices about assigned addresses.

use super::index::IpIndex;
use super::live::LiveService;
use crate::operator_state::OperatorIndex;
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::time::rfc3339;
use akash_provider_kube_model::leased_ips::{AddressCount, AddressUsage};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// Maximum wait of a Service for an address. A longer wait is logged.
pub(super) const LATE_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Maximum number of Services in one log line.
const NAMED: usize = 5;

/// Counts the addresses of all load balancers in the index.
pub(super) fn usage(index: &IpIndex) -> AddressUsage {
    let balancers = index.services().filter(|(_, live)| live.is_balancer);
    let addresses: BTreeSet<IpAddr> = balancers
        .flat_map(|(_, live)| live.given.addresses.iter().copied())
        .collect();
    let services_known = index.is_known();
    let usage = AddressUsage::with(index.pools(), &index.mode().pool, &addresses);
    AddressUsage {
        in_use: usage.in_use.filter(|_| services_known),
        ..usage
    }
}

/// Counts the addresses for the leases of the provider; returns `None` before the lists of Services and pools.
pub(super) fn address_count(provider: &Address, index: &IpIndex) -> Option<AddressCount> {
    let pools = index.pools().filter(|_| index.is_known())?;
    let pools = pools.iter().map(|(name, pool)| (name.as_str(), pool));
    let balancers = index.services().filter(|(_, live)| live.is_balancer);
    let balancers = balancers.map(|(place, live)| {
        let name = place.rsplit('/').next().unwrap_or_default();
        let lease = live.lease.as_ref().filter(|_| live.is_leased);
        (name, lease, live.given.addresses.as_slice())
    });
    let pool = &index.mode().pool;
    Some(AddressCount::new(provider, pools, pool, balancers))
}

/// Notice about the addresses of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// Start of the Service's wait for an address.
    Late(Timestamp),
    /// Any other notice, as text.
    Odd(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(since) => write!(
                f,
                "address pending since {}; check MetalLB and the free addresses of its pools",
                rfc3339(*since)
            ),
            Self::Odd(text) => f.write_str(text),
        }
    }
}

/// Notices that were not logged before.
#[derive(Debug, Default)]
pub(super) struct NewNotices<'a> {
    late: Vec<&'a str>,
    /// Notices about problems other than a pending address, each with the name of the Service.
    pub(super) odd: Vec<(&'a str, &'a Notice)>,
}

impl<'a> NewNotices<'a> {
    pub(super) fn new(
        logged: &BTreeMap<String, Vec<Notice>>,
        now: &'a BTreeMap<String, Vec<Notice>>,
    ) -> Self {
        let mut new_notices = Self::default();
        for (service, notices) in now {
            let earlier = logged.get(service);
            for notice in notices.iter().filter(|n| earlier.is_none_or(|k| !k.contains(n))) {
                match notice {
                    Notice::Late(_) => new_notices.late.push(service),
                    Notice::Odd(_) => new_notices.odd.push((service, notice)),
                }
            }
        }
        new_notices
    }

    /// Returns the names of the Services with a pending address, or `None` if there are no such Services.
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

/// Returns true if a Service has waited for an address for less than `LATE_AFTER`. The caller must then call
/// again later, because no event reports the end of this time.
pub(super) fn is_waited(index: &IpIndex, now: Timestamp) -> bool {
    let mut services = index.services().filter(|(_, live)| live.is_leased);
    services.any(|(_, live)| waiting(live).is_some_and(|since| now.duration_since(since) < LATE_AFTER))
}

/// Returns the notices by Service: unusual addresses, and addresses that are not assigned in time.
pub(super) fn notices(index: &IpIndex, now: Timestamp) -> BTreeMap<String, Vec<Notice>> {
    let mut holders: BTreeMap<IpAddr, Vec<(&String, &LiveService)>> = BTreeMap::new();
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
        if let Some(since) = waiting(live).filter(|since| now.duration_since(*since) >= LATE_AFTER) {
            texts.push(Notice::Late(since));
        }
        for address in &live.given.addresses {
            texts.extend(outside(index, *address).map(Notice::Odd));
            let others = holders.get(address).into_iter().flatten();
            texts.extend(shared_with(*address, live, others).map(Notice::Odd));
        }
        (place.clone(), texts)
    });
    all.filter(|(_, texts)| !texts.is_empty()).collect()
}

/// Returns the start of a Service's wait for an address, or `None` if the Service has an address or is being
/// deleted.
pub(super) fn waiting(live: &LiveService) -> Option<Timestamp> {
    (live.given.addresses.is_empty() && !live.is_going).then_some(live.since)
}

fn outside(index: &IpIndex, address: IpAddr) -> Option<String> {
    let (pools, mode) = (index.pools()?, index.mode());
    let mut meant = pools
        .iter()
        .filter(|(name, _)| mode.is_any_pool() || **name == mode.pool);
    let is_inside = meant.any(|(_, pool)| pool.has(address));
    (!is_inside).then(|| {
        if mode.is_any_pool() {
            format!("the address {address} is in no pool")
        } else {
            format!("the address {address} is not in pool `{}`", mode.pool)
        }
    })
}

/// Returns a notice if a Service of another tenant also has `address`.
fn shared_with<'a>(
    address: IpAddr,
    own: &LiveService,
    mut others: impl Iterator<Item = &'a (&'a String, &'a LiveService)>,
) -> Option<String> {
    let owner = |live: &LiveService| live.lease.as_ref().map(|lease| lease.owner().clone());
    let other = others.find(|(_, other)| owner(other) != owner(own));
    other.map(|(place, other)| match owner(other) {
        Some(owner) => format!("the address {address} is shared with tenant {owner}, by Service {place}"),
        None => format!("the address {address} is shared with Service {place}, which belongs to no lease"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_addresses_are_logged_together_once() {
        let late = |second| vec![Notice::Late(Timestamp::from_second(second).unwrap())];
        let mut now: BTreeMap<String, Vec<Notice>> = (0..1_000)
            .map(|number| (format!("ns/web-{number:04}"), late(7)))
            .collect();
        now.insert(
            "ns/odd".to_owned(),
            vec![Notice::Odd("the address is shared".to_owned())],
        );
        let new_notices = NewNotices::new(&BTreeMap::new(), &now);
        assert_eq!(new_notices.odd.len(), 1);
        let text = new_notices.late().unwrap();
        assert!(text.starts_with("ns/web-0000, ns/web-0001"), "{text}");
        assert!(text.ends_with("ns/web-0004 and 995 more"), "{text}");
        let again = NewNotices::new(&now, &now);
        assert!(
            again.late().is_none() && again.odd.is_empty(),
            "the notice was logged"
        );
        let before = now.clone();
        now.insert("ns/web-0001".to_owned(), late(9));
        assert_eq!(
            NewNotices::new(&before, &now).late().as_deref(),
            Some("ns/web-0001")
        );
    }
}
