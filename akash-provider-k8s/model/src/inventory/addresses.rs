//! Pools and load balancers, which determine the number of addresses for leases. The addresses are counted as in the
//! IP operator. This module writes nothing.

use super::facts::NamespacedName;
use crate::leased_ips::pool::Pool;
use crate::leased_ips::{AddressCount, Assignment, Balancer, is_balancer, is_leased};
use crate::settings::KubeSettings;
use akash_provider_kube_kernel::labels;
use kube::core::DynamicObject;
use std::collections::BTreeMap;

/// Watched pools and load balancers.
#[derive(Debug, Default)]
pub(super) struct AddressTables {
    pools: BTreeMap<NamespacedName, Pool>,
    balancers: BTreeMap<NamespacedName, Balancer>,
    /// True if an object changed, or a list was completed, since the last count.
    pub(super) changed: bool,
}

/// Decodes the lease and the addresses of a Service. Returns `None` for a Service without the type LoadBalancer.
pub(super) fn balancer(object: &DynamicObject) -> Option<Balancer> {
    let labels = object.metadata.labels.as_ref();
    let lease = labels.filter(|_| is_leased(labels)).and_then(labels::lease_of);
    object
        .data
        .get("spec")
        .is_some_and(is_balancer)
        .then(|| Balancer {
            lease,
            addresses: Assignment::from_status(&object.data).addresses,
        })
}

/// Inserts or removes a value. Returns true after a change.
fn set<V: Clone + PartialEq>(
    table: &mut BTreeMap<NamespacedName, V>,
    key: &NamespacedName,
    value: Option<V>,
) -> bool {
    let before = match value.clone() {
        Some(value) => table.insert(key.clone(), value),
        None => table.remove(key),
    };
    before != value
}

impl AddressTables {
    pub(super) fn set_pool(&mut self, key: &NamespacedName, pool: Option<Pool>) {
        self.changed |= set(&mut self.pools, key, pool);
    }

    pub(super) fn set_balancer(&mut self, key: &NamespacedName, balancer: Option<Balancer>) {
        self.changed |= set(&mut self.balancers, key, balancer);
    }

    pub(super) fn pools(&self) -> impl Iterator<Item = &NamespacedName> {
        self.pools.keys()
    }

    pub(super) fn balancers(&self) -> impl Iterator<Item = &NamespacedName> {
        self.balancers.keys()
    }

    /// Counts the addresses after a change; returns `None` without a change.
    pub(super) fn recount(&mut self, settings: &KubeSettings) -> Option<AddressCount> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let pools = self.pools.iter().map(|(key, pool)| (&*key.name, pool));
        let balancers = self.balancers.iter();
        let balancers = balancers.map(|(key, one)| (&*key.name, one.lease.as_ref(), &*one.addresses));
        let (provider, pool) = (&settings.provider, &settings.metallb_pool);
        Some(AddressCount::new(provider, pools, pool, balancers))
    }
}
