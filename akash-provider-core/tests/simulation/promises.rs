//! Indivisible hardware: GPUs and IP addresses, and the bids and leases that use them.

use crate::capacity::CLASSES;
use crate::cluster_state::ClusterState;
use crate::ids::{PROVIDER, TENANTS};
use crate::invariants::{CallCheck, SettledCheck, StateCheck, reservations};
use crate::oracle::{Checked, ensure};
use crate::random::Random;
use akash_provider_core::engine::Call;
use akash_provider_core::inventory::LeasedIpUsage;
use akash_provider_core::inventory::spec::{ClusterSpec, GpuSpec, NodeSpec, Quantity};
use akash_provider_core::types::group::distinct_leased_ips;
use akash_provider_core::types::{BidState, EndpointKind, LeaseId, Msg, OrderId, OrderState, ResourceUnit};
use std::collections::{BTreeMap, BTreeSet};

/// GPUs per node: model, and number of healthy devices.
const DEVICES: [&[(&str, u32)]; 3] = [&[("a100", 2)], &[("a100", 1), ("t4", 2)], &[]];
/// Number of IP addresses in the pool.
const ADDRESSES: u32 = 3;

#[derive(Debug, Clone, Default)]
pub(crate) struct Hardware {
    /// Number of unhealthy devices per node. Only devices of the last GPU model of a node can be unhealthy.
    unwell: [u32; DEVICES.len()],
    /// Number of devices that other processes use, by node. All these devices have the first model of the
    /// node in [`DEVICES`].
    foreign: [u32; DEVICES.len()],
    /// Fault of each storage class.
    storage_faults: [StorageFault; CLASSES.len()],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StorageFault {
    #[default]
    None,
    /// Amount of the storage class that other processes use, in GiB.
    Used(i64),
    /// The cluster does not have the storage class.
    Missing,
}

/// Size of each storage class, in GiB.
const POOL: i64 = 40;

impl Hardware {
    pub(crate) fn changes(&mut self, random: &mut Random) {
        let node = random.index(DEVICES.len());
        self.unwell[node] = u32::try_from(random.below(3)).unwrap();
        self.foreign[node] = u32::try_from(random.below(2)).unwrap();
    }

    /// Selects a random fault, or none, for a random storage class.
    pub(crate) fn storage_changes(&mut self, random: &mut Random) {
        let class = random.index(CLASSES.len());
        self.storage_faults[class] = match random.below(4) {
            0 => StorageFault::None,
            1 => StorageFault::Missing,
            _ => StorageFault::Used(i64::try_from(random.between(1, 40)).unwrap()),
        };
    }

    /// Adds the persistent storage classes to the cluster and to the nodes that mount the classes.
    pub(crate) fn store(&self, cluster: &mut ClusterSpec) {
        for (name, fault) in CLASSES.iter().zip(self.storage_faults) {
            let used = match fault {
                StorageFault::None => 0,
                StorageFault::Used(used) => used,
                StorageFault::Missing => continue,
            };
            let pool = Quantity::used(POOL << 30, used << 30);
            cluster.storage.insert((*name).to_owned(), pool);
        }
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            // The last node mounts only the first class.
            let mounts = CLASSES.iter().take(if index < 2 { 2 } else { 1 });
            node.storage_classes = mounts.map(|class| (*class).to_owned()).collect();
        }
    }

    /// Adds the GPUs of node number `index` to `node`.
    pub(crate) fn equip(&self, index: usize, mut node: NodeSpec) -> NodeSpec {
        let last = DEVICES[index].len().saturating_sub(1);
        for (kind, (model, count)) in DEVICES[index].iter().enumerate() {
            let unwell = if kind == last { self.unwell[index] } else { 0 };
            let count = count.saturating_sub(unwell);
            let mut gpus = GpuSpec::new("nvidia", model, "40Gi", "PCIe", count);
            gpus.allocated = if kind == 0 {
                self.foreign[index].min(count)
            } else {
                0
            };
            node = node.with_gpus(gpus);
        }
        node
    }

    pub(crate) fn usage(&self, cluster_state: &ClusterState) -> LeasedIpUsage {
        let in_use: BTreeSet<&String> = cluster_state.ips.values().flatten().collect();
        let confirmed = cluster_state.ips.iter().filter(|(_, keys)| !keys.is_empty());
        LeasedIpUsage {
            total: ADDRESSES,
            in_use: u32::try_from(in_use.len()).unwrap(),
            confirmed: confirmed.map(|(lease, _)| lease.clone()).collect(),
        }
    }
}

fn devices(model: &str) -> u64 {
    let all = DEVICES.iter().flat_map(|node| node.iter());
    all.filter(|(m, _)| *m == model)
        .map(|(_, count)| u64::from(*count))
        .sum()
}

fn gpus(units: &[ResourceUnit]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for unit in units.iter().filter(|u| u.resources.gpu.units > 0) {
        let kind = unit.resources.gpu.attributes.first();
        let model = kind.and_then(|a| a.key.strip_prefix("vendor/nvidia/model/"));
        let model = model.and_then(|m| m.split('/').next()).unwrap_or("*");
        *all.entry(model.to_owned()).or_default() += unit.resources.gpu.units * u64::from(unit.count);
    }
    all
}

/// Returns the number of external ports, not multiplied by replicas.
fn ports(units: &[ResourceUnit]) -> u32 {
    let endpoints = units.iter().flat_map(|u| &u.resources.endpoints);
    let ports = endpoints.filter(|e| e.kind == EndpointKind::RandomPort);
    u32::try_from(ports.count()).unwrap()
}

impl CallCheck<'_> {
    pub(crate) fn promises(&self) -> Checked {
        match self.call {
            Call::Broadcast(Msg::CreateBid {
                id, resources_offer, ..
            }) => {
                let offers = self.offers(id, resources_offer);
                Self::gpus_are_never_oversold(id, resources_offer, &offers)?;
                Self::addresses_are_never_oversold(id, resources_offer, &offers)?;
                self.ports_are_never_oversold(id, resources_offer, &offers)
            }
            Call::Deploy { deployment, .. } => self.the_promised_gpu_is_deployed(deployment),
            _ => Ok(()),
        }
    }

    /// Returns the resources of all observed bids and leases, including the bid `id`.
    fn offers(&self, id: &LeaseId, offer: &[ResourceUnit]) -> Vec<Vec<ResourceUnit>> {
        // The bid may have been refused because a bid from before a crash, with other resources, had landed.
        // The resources of that bid are unknown until it is read.
        let stands = |bid: &LeaseId, units: &Vec<ResourceUnit>| {
            let landed = self.market.bid(bid).filter(|b| b.resources_offer == *units);
            matches!(landed.map(|b| b.state), Some(BidState::Open | BidState::Active))
        };
        let flies = |bid: &LeaseId| {
            let open = self.market.order(&bid.order).map(|o| o.state) == Some(OrderState::Open);
            let is_bid =
                |c: &Call| matches!(c, Call::Broadcast(Msg::CreateBid { id: other, .. }) if other == bid);
            open && self.market.bid(bid).is_none() && self.model.calls.values().any(is_bid)
        };
        let others = self.model.offers.iter().filter(|(order, _)| **order != id.order);
        let others = others.filter(|(order, units)| {
            let bid = LeaseId {
                order: (*order).clone(),
                provider: PROVIDER.clone(),
            };
            stands(&bid, units) || flies(&bid)
        });
        let mut all: Vec<_> = others.map(|(_, units)| units.clone()).collect();
        all.push(offer.to_vec());
        all
    }

    fn gpus_are_never_oversold(id: &LeaseId, offer: &[ResourceUnit], all: &[Vec<ResourceUnit>]) -> Checked {
        for model in gpus(offer).keys() {
            let promised: u64 = all
                .iter()
                .filter_map(|units| gpus(units).get(model).copied())
                .sum();
            ensure("gpus_are_never_oversold", promised <= devices(model), || {
                format!("{id}: {promised} {model} of {}", devices(model))
            })?;
        }
        Ok(())
    }

    fn addresses_are_never_oversold(
        id: &LeaseId,
        offer: &[ResourceUnit],
        all: &[Vec<ResourceUnit>],
    ) -> Checked {
        let promised: u32 = all.iter().map(|units| distinct_leased_ips(units)).sum();
        let wanted = distinct_leased_ips(offer);
        ensure(
            "addresses_are_never_oversold",
            wanted == 0 || promised <= ADDRESSES,
            || format!("{id}: {promised} of {ADDRESSES}"),
        )
    }

    fn ports_are_never_oversold(
        &self,
        id: &LeaseId,
        offer: &[ResourceUnit],
        all: &[Vec<ResourceUnit>],
    ) -> Checked {
        let promised: u32 = all.iter().map(|units| ports(units)).sum();
        let there = self.config.external_ports;
        ensure(
            "ports_are_never_oversold",
            ports(offer) == 0 || promised <= there,
            || format!("{id}: {promised} of {there}"),
        )
    }

    fn the_promised_gpu_is_deployed(
        &self,
        deployment: &akash_provider_core::cluster::WorkloadSpec,
    ) -> Checked {
        let Some(bid) = self.market.bid(&deployment.lease) else {
            return Ok(());
        };
        let of = |id: &u32| deployment.params.get(id).cloned().flatten();
        for unit in bid.resources_offer.iter().filter(|u| u.resources.gpu.units > 0) {
            let params = of(&unit.resources.id)
                .and_then(|p| p.resources)
                .and_then(|r| r.gpu);
            let model = params.map(|g| g.model);
            let promised = gpus(std::slice::from_ref(unit)).into_keys().next();
            ensure("the_promised_gpu_is_deployed", model == promised, || {
                format!("{}: promised {promised:?}, deployed {model:?}", deployment.lease)
            })?;
        }
        Ok(())
    }
}

impl StateCheck<'_> {
    /// Checks that the addresses of bids and leases are not counted as free.
    pub(crate) fn no_promised_address_is_free(&self) -> Checked {
        let Some(pool) = self.status.inventory.leased_ips else {
            return Ok(());
        };
        let promised = |order: &OrderId| {
            let id = order.clone().bid(PROVIDER.clone());
            let bid = self.chain.market.bid(&id);
            bid.map_or(0, |b| distinct_leased_ips(&b.resources_offer))
        };
        // A reservation without CPU waits until its bid is read.
        let needed = reservations(self.status).filter(|r| r.cpu > 0);
        let needed: u32 = needed.map(|r| promised(&r.order)).sum();
        // Two successive leases share one address until the first one is torn down.
        let counted = self.counted.confirmed.iter().map(|lease| promised(&lease.order));
        let shared = counted.sum::<u32>().saturating_sub(self.counted.in_use);
        ensure(
            "no_promised_address_is_free",
            needed <= pool.allocated + shared,
            || {
                format!(
                    "bids and leases need {needed} addresses, but {} are counted as used",
                    pool.allocated
                )
            },
        )
    }
}

impl SettledCheck<'_> {
    /// Checks that no instance replaces an accepted manifest by an older manifest.
    pub(crate) fn accepted_manifests_are_stored(&self, live: &BTreeSet<LeaseId>) -> Checked {
        for lease in live {
            let accepted = self.memory.accepted.get(lease.deployment()).copied();
            let (Some(accepted), Some(run)) = (accepted, self.cluster_state.runs.get(lease)) else {
                continue;
            };
            let image = &run.deployment.group.services[0].image;
            let version: u64 = image.strip_prefix("image:").unwrap().parse().unwrap();
            ensure("accepted_manifests_are_kept", version >= accepted, || {
                format!("{lease}: version {accepted} was accepted, {version} runs")
            })?;
        }
        Ok(())
    }

    /// Checks that each deployed workload of an active lease has the addresses of its manifest, and that no
    /// other lease has addresses.
    pub(crate) fn addresses_follow_leases(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let wanted = |lease: &LeaseId| -> BTreeSet<String> {
            let run = self
                .cluster_state
                .runs
                .get(lease)
                .filter(|r| r.deployed && live.contains(lease));
            let ips = run.into_iter().flat_map(|r| &r.deployment.ips);
            ips.map(|ip| ip.sharing_key.clone()).collect()
        };
        for lease in self.cluster_state.ips.keys().chain(live) {
            let has = self.cluster_state.ips.get(lease).cloned().unwrap_or_default();
            ensure("addresses_follow_leases", has == wanted(lease), || {
                format!("{lease}: has {has:?}, expected {:?}", wanted(lease))
            })?;
        }
        let tenants = self.cluster_state.ips.keys().all(|l| TENANTS.contains(l.owner()));
        ensure("addresses_follow_leases", tenants, || {
            "another lease has an address".to_owned()
        })
    }

    /// Checks that the engine counts each address and port of its bids and leases exactly once.
    pub(crate) fn addresses_and_ports_are_counted_once(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let bids = self.market.bids().filter(|b| b.id.provider == *PROVIDER);
        let owed = bids.filter(|b| b.state == BidState::Open || live.contains(&b.id));
        let owed: Vec<_> = owed.map(|b| &b.resources_offer).collect();
        let addresses: u32 = owed.iter().map(|units| distinct_leased_ips(units)).sum();
        let taken = self.status.inventory.leased_ips.map_or(0, |ips| ips.allocated);
        ensure("addresses_are_counted_once", taken == addresses, || {
            format!("{addresses} expected, {taken:?} taken")
        })?;
        let ports: u32 = owed.iter().map(|units| ports(units)).sum();
        let free = self.status.inventory.external_ports_free;
        let right = free == self.config.external_ports.saturating_sub(ports);
        ensure("ports_are_counted_once", right, || {
            format!("{ports} expected, {free} free of {}", self.config.external_ports)
        })
    }
}
