//! Ledger of reservations: the capacity of bids and leases, subtracted from the inventory.
//!
//! Capacity is reserved before a bid. The reservation lasts until the order is lost or the workload of the
//! lease is torn down. Each replica of a reservation is assigned to a node. After an inventory update, the
//! same amounts and GPU models are reserved on the same nodes. A running pod changes only the node of its
//! replica. The state does not depend on the order of calls and always equals a count from scratch
//! ([`Reservations::recount_matches`]).

use crate::bidding::Decline;
use crate::config::Config;
use crate::inventory::{AdjustOptions, Allocation, Inventory, InventoryUpdate, ReplicaGroup};
use crate::manifest::SchedulerParamsById;
use crate::pricing::Utilization;
use crate::types::group::distinct_leased_ips;
use crate::types::{EndpointKind, GroupSpec, OrderId, ResourceUnit};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

mod capacity;
mod commit;
mod params;
mod pins;
mod pools;
#[cfg(test)]
mod tests;
mod view;

pub use capacity::Capacity;
pub use commit::{committed, committed_units};
use pools::{Claim, Pools};

/// Reservations of bids and leases.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reservations {
    config: Config,
    #[serde(rename = "known")]
    inventory: Option<InventoryState>,
    #[serde(rename = "held")]
    reservations: HashMap<OrderId, Reservation, FxBuildHasher>,
    /// Orders with a reserved replica that no node can run.
    unplaced: BTreeSet<OrderId>,
    /// Orders of leases with unknown resources, because the winning bid was not read yet.
    unread: BTreeSet<OrderId>,
    pools: Pools,
    /// Orders of the leases in the last `LeasedIpUsage::confirmed`. The reported usage includes the addresses
    /// of these leases.
    counted: HashSet<OrderId, FxBuildHasher>,
    shared: params::ParamsInterner,
}

/// Inventory with all reservations applied.
#[derive(Debug, Serialize, Deserialize)]
struct InventoryState {
    #[serde(with = "crate::inventory::written")]
    base: Arc<dyn Inventory>,
    /// Free capacity: `base` minus all reservations.
    #[serde(with = "crate::inventory::written")]
    left: Box<dyn Inventory>,
    /// Total capacity of `base`, and the capacity used by workloads other than this provider's leases.
    in_use: Utilization,
    /// Nodes of the running pods, by the order id of the lease. Contains only nodes in `base`.
    #[serde(default)]
    pods: Pods,
}

type Pods = HashMap<OrderId, Box<[ReplicaGroup]>, FxBuildHasher>;

impl Clone for InventoryState {
    fn clone(&self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            left: self.left.dup(),
            in_use: self.in_use.clone(),
            pods: self.pods.clone(),
        }
    }
}

/// One reservation. Its size in memory matters, because each bid and each lease has a reservation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Reservation {
    units: Arc<Vec<ResourceUnit>>,
    params: Arc<SchedulerParamsById>,
    places: Box<[ReplicaGroup]>,
    claim: Claim,
    active: bool,
    /// True if the winning bid may offer other resources than this reservation.
    needs_recheck: bool,
}

impl Reservation {
    fn allocation(&self) -> Allocation {
        Allocation {
            units: self.units.to_vec(),
            params: SchedulerParamsById::new(),
            places: self.places.to_vec(),
        }
    }
}

impl Reservations {
    /// Creates empty reservations, without an inventory.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            pools: Pools::new(config),
            config: config.clone(),
            inventory: None,
            reservations: HashMap::default(),
            unplaced: BTreeSet::new(),
            unread: BTreeSet::new(),
            counted: HashSet::default(),
            shared: params::ParamsInterner::default(),
        }
    }

    /// Returns true after the first inventory update.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.inventory.is_some()
    }

    /// Replaces the inventory and applies all reservations again.
    ///
    /// Replicas are assigned to the nodes of their pods. Replicas on removed nodes are placed again. No
    /// reservation is lost: missing capacity is reported as overcommitted.
    pub fn update(&mut self, update: InventoryUpdate) {
        let usage = update.leased_ips.as_ref();
        // All claims are added again below.
        self.pools.recount(usage);
        // Without a new count, the last count applies.
        if let Some(usage) = usage {
            let confirmed = usage.confirmed.iter();
            self.counted = confirmed.map(|lease| lease.order.clone()).collect();
            for (order, reservation) in &mut self.reservations {
                reservation.claim.confirmed = self.counted.contains(order);
            }
        }
        let pods = update.placements.into_iter();
        let pods = pods.map(|placement| (placement.lease.order, placement.places));
        self.apply_reservations(update.inventory, pods);
    }

    /// Calculates the free capacity from scratch: the last inventory minus all reservations.
    pub fn rebuild(&mut self) {
        self.pools.recount(None);
        match self.inventory.take() {
            Some(inventory) => {
                let pods = inventory.pods.into_iter();
                let pods = pods.map(|(order, places)| (order, places.into_vec()));
                self.apply_reservations(inventory.base, pods);
            }
            None => {
                let reservations = self.reservations.values();
                reservations.for_each(|reservation| self.pools.take(reservation.claim));
            }
        }
    }

    /// Subtracts all reservations from an inventory. `pods` contains the nodes of the running pods for each
    /// order.
    fn apply_reservations(
        &mut self,
        base: Arc<dyn Inventory>,
        pods: impl Iterator<Item = (OrderId, Vec<ReplicaGroup>)>,
    ) {
        let metrics = base.metrics();
        let nodes: HashSet<&str, FxBuildHasher> = metrics.nodes.iter().map(|n| n.name.as_str()).collect();
        let pods = pods.map(|(order, places)| {
            let places = places.into_iter().filter(|place| nodes.contains(&*place.node));
            (order, places.collect())
        });
        let pods: Pods = pods.collect();
        let mut left = base.dup();
        self.unplaced.clear();
        for (order, reservation) in &mut self.reservations {
            let pods = pods.get(order).map_or(&[][..], |pods| pods);
            let on_known = |p: &ReplicaGroup| nodes.contains(&*p.node);
            // Without pods, a reservation stays on its nodes if all of them still exist.
            if !pods.is_empty() || !reservation.places.iter().all(on_known) {
                let mut places = pins::moved(&reservation.units, &reservation.places, pods);
                places.retain(on_known);
                reservation.places = places.into();
            }
            self.pools.take(reservation.claim);
            left.restore(&reservation.allocation());
            if pins::incomplete(&reservation.units, &reservation.places) {
                self.unplaced.insert(order.clone());
            }
        }
        let in_use = Utilization::from_metrics(&metrics);
        self.inventory = Some(InventoryState {
            base,
            left,
            in_use,
            pods,
        });
        self.place_all_missing();
    }

    /// Reserves the resources of an order, with overcommit applied. An existing reservation is returned
    /// unchanged.
    ///
    /// # Errors
    /// Returns the missing resource: capacity, external ports or leased IPs. Returns [`Decline::Unknown`]
    /// while the inventory, the IP usage or the resources of an existing lease
    /// ([`adopt_unread`](Self::adopt_unread)) are unknown. After an error, nothing is reserved.
    pub fn reserve(&mut self, order: &OrderId, spec: &GroupSpec) -> Result<Arc<Vec<ResourceUnit>>, Decline> {
        if let Some(reservation) = self.reservations.get(order) {
            return Ok(Arc::clone(&reservation.units));
        }
        // The pools are checked first: the check is cheap and needs no rollback.
        let claim = capacity::check(spec, &self.pools, &self.blocking_orders())?;
        let Some(inventory) = &mut self.inventory else {
            return Err(Decline::Unknown {
                message: "the capacity of the cluster is not known yet".to_owned(),
            });
        };
        let take = AdjustOptions::default();
        let allocation = capacity::place(spec, &self.config, &mut *inventory.left, take)?;
        self.pools.take(claim);
        let units = Arc::new(allocation.units);
        let reservation = Reservation {
            units: Arc::clone(&units),
            params: self.shared.intern(allocation.params),
            places: allocation.places.into(),
            claim,
            active: false,
            needs_recheck: false,
        };
        self.reservations.insert(order.clone(), reservation);
        Ok(units)
    }

    /// Returns an order with reserved GPUs and an unplaced replica.
    fn unplaced_gpu_order(&self) -> Option<&OrderId> {
        let owed = |order: &&OrderId| {
            let reservation = self.reservations.get(*order);
            reservation.is_some_and(|reservation| capacity::requests_gpus(&reservation.units))
        };
        self.unplaced.iter().find(owed)
    }

    fn blocking_orders(&self) -> capacity::BlockingOrders {
        capacity::BlockingOrders {
            unread: self.unread.first().cloned(),
            unplaced_gpus: self.unplaced_gpu_order().cloned(),
        }
    }

    /// Returns the reason why a reservation is no longer sufficient for a bid, or `None` if the reservation
    /// is sufficient.
    #[must_use]
    pub fn displaced(&self, order: &OrderId) -> Option<Decline> {
        let reservation = self.reservations.get(order)?;
        if let Some(order) = self.unread.first() {
            return Some(capacity::unread_lease(order));
        }
        if let Some(decline) = self.pools.check_overcommit(reservation.claim) {
            return Some(decline);
        }
        if self.unplaced.is_empty() {
            return None;
        }
        if self.unplaced.contains(order) {
            return Some(Decline::InsufficientCapacity {
                message:
                    "the replicas of the order no longer fit: the capacity changed since the reservation"
                        .to_owned(),
            });
        }
        let wants = capacity::requests_gpus(&reservation.units);
        let owed = self.unplaced_gpu_order().filter(|_| wants)?;
        Some(capacity::gpus_reserved_for(owed))
    }

    /// Reserves the resources of an order again after a restart. This method never fails. If capacity is
    /// missing, the pools or nodes are overcommitted.
    ///
    /// `offer` is the offer of the bid, with overcommit already applied. If `offer` is empty, the resources
    /// of `spec` are reserved. An existing reservation with units is not changed.
    pub fn adopt(&mut self, order: &OrderId, offer: &[ResourceUnit], spec: Option<&GroupSpec>) {
        self.unread.remove(order);
        // The reservation of a lease stays active.
        let mut active = false;
        if let Some(reservation) = self.reservations.get(order) {
            if !reservation.units.is_empty() || (offer.is_empty() && spec.is_none()) {
                return;
            }
            active = reservation.active;
            self.unreserve(order);
        }
        let units = if offer.is_empty() {
            spec.map_or_else(Vec::new, |s| committed_units(&self.config, s))
        } else {
            offer.to_vec()
        };
        let claim = Claim {
            confirmed: self.counted.contains(order),
            ..claim(&units)
        };
        // Running replicas stay on their nodes. Only the others are placed.
        let pods = self
            .inventory
            .as_ref()
            .and_then(|inventory| inventory.pods.get(order));
        let places = pods
            .map(|pods| pins::moved(&units, &[], pods))
            .unwrap_or_default();
        let reservation = Reservation {
            claim,
            params: self.shared.intern(params::fixed_params(&units)),
            units: Arc::new(units),
            places: places.into(),
            active,
            needs_recheck: false,
        };
        self.pools.take(reservation.claim);
        if let Some(inventory) = &mut self.inventory {
            inventory.left.restore(&reservation.allocation());
        }
        let incomplete = pins::incomplete(&reservation.units, &reservation.places);
        self.reservations.insert(order.clone(), reservation);
        if incomplete && self.inventory.is_some() {
            self.unplaced.insert(order.clone());
            self.place_missing(order);
        }
    }

    /// Adds a lease with unknown resources. No further reservations are possible until [`adopt`](Self::adopt)
    /// is called for the order.
    pub fn adopt_unread(&mut self, order: &OrderId) {
        self.adopt(order, &[], None);
        self.unread.insert(order.clone());
    }

    /// Replaces the resources of a reservation by `offer`, the resources in the bid on the chain. After a
    /// restart, the offer can differ from the reservation.
    pub fn apply_offer(&mut self, order: &OrderId, offer: &[ResourceUnit]) {
        let Some(reservation) = self.reservations.get_mut(order) else {
            return;
        };
        reservation.needs_recheck = false;
        if offer.is_empty() || params::matches_offer(&reservation.units, offer) {
            return;
        }
        if reservation.units.is_empty() {
            // The resources were unknown until now.
            return self.adopt(order, offer, None);
        }
        let active = reservation.active;
        self.unreserve(order);
        self.adopt(order, offer, None);
        if active {
            self.mark_active(order);
        }
    }

    /// Marks a reservation. The engine then compares the reserved units with the bid on the chain.
    pub fn recheck_offer(&mut self, order: &OrderId) {
        if let Some(reservation) = self.reservations.get_mut(order) {
            reservation.needs_recheck = true;
        }
    }

    /// Reverts [`recheck_offer`](Self::recheck_offer) after a block included the bid.
    pub fn confirm_offer(&mut self, order: &OrderId) {
        if let Some(reservation) = self.reservations.get_mut(order) {
            reservation.needs_recheck = false;
        }
    }

    /// Returns true if the reservation is known to match the offer of the bid.
    #[must_use]
    pub fn is_offer_known(&self, order: &OrderId) -> bool {
        let reservation = self.reservations.get(order);
        reservation.is_some_and(|h| !h.units.is_empty() && !h.needs_recheck)
    }

    /// Releases a reservation. The capacity is free immediately. Returns false if the order had no
    /// reservation.
    pub fn unreserve(&mut self, order: &OrderId) -> bool {
        self.unread.remove(order);
        let Some(reservation) = self.reservations.remove(order) else {
            return false;
        };
        self.unplaced.remove(order);
        // Without known units, no addresses are released, so the count stays.
        if reservation.claim.ips > 0 {
            self.counted.remove(order);
        }
        self.pools.release(reservation.claim);
        if let Some(inventory) = &mut self.inventory {
            inventory.left.release(&reservation.allocation());
        }
        // Free capacity is used first for reservations with unplaced replicas.
        self.place_all_missing();
        true
    }

    /// Returns the reserved units of an order, after overcommit. Each GPU unit has a concrete model.
    #[must_use]
    pub fn units(&self, order: &OrderId) -> Option<Arc<Vec<ResourceUnit>>> {
        self.reservations.get(order).map(|h| Arc::clone(&h.units))
    }

    /// Returns the scheduler parameters of a reservation.
    #[must_use]
    pub fn params(&self, order: &OrderId) -> Option<Arc<SchedulerParamsById>> {
        self.reservations.get(order).map(|h| Arc::clone(&h.params))
    }

    /// Merges the scheduler parameters of a running deployment into its reservation. Units are restricted to
    /// the GPU models in `params`. Returns false if the order has no reservation.
    pub fn set_params(&mut self, order: &OrderId, params: &SchedulerParamsById) -> bool {
        let Some(reservation) = self.reservations.get_mut(order) else {
            return false;
        };
        let mut params_promised = (*reservation.params).clone();
        for (id, params) in params.iter().filter(|(_, params)| params.is_some()) {
            params_promised.insert(*id, params.clone());
        }
        if params_promised == *reservation.params {
            return true;
        }
        let before = reservation.allocation();
        let mut units = before.units.clone();
        let changed = params::narrow(&mut units, &params_promised);
        reservation.params = self.shared.intern(params_promised);
        if changed {
            reservation.units = Arc::new(units);
            reservation.places = Box::default();
            if let Some(inventory) = &mut self.inventory {
                // Released exactly as reserved, so that the free capacity stays exact.
                inventory.left.release(&before);
                inventory.left.restore(&reservation.allocation());
                self.unplaced.insert(order.clone());
                self.place_missing(order);
            }
        }
        true
    }

    /// Marks the reservation as held by a lease. Returns false if the order has no reservation.
    pub fn mark_active(&mut self, order: &OrderId) -> bool {
        let reservation = self.reservations.get_mut(order);
        reservation.map(|h| h.active = true).is_some()
    }

    /// Returns true if the order has a reservation.
    #[must_use]
    pub fn contains(&self, order: &OrderId) -> bool {
        self.reservations.contains_key(order)
    }

    /// Returns the number of reservations of bids and leases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.reservations.len()
    }

    /// Returns true if there are no reservations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reservations.is_empty()
    }

    /// Returns the orders with a reservation, sorted.
    pub fn orders(&self) -> impl Iterator<Item = &OrderId> {
        let mut orders: Vec<_> = self.reservations.keys().collect();
        orders.sort_unstable();
        orders.into_iter()
    }

    fn place_all_missing(&mut self) {
        // A copy, because a placed order is removed from the set.
        for order in self.unplaced.clone() {
            self.place_missing(&order);
        }
    }

    /// Places as many unplaced replicas of a reservation as fit.
    fn place_missing(&mut self, order: &OrderId) {
        let (Some(inventory), Some(reservation)) = (&mut self.inventory, self.reservations.get_mut(order))
        else {
            return;
        };
        let before = reservation.allocation();
        let with_counts = |count: &dyn Fn(&ResourceUnit) -> u32| -> Vec<ResourceUnit> {
            let units = reservation.units.iter().cloned();
            units
                .map(|u| ResourceUnit {
                    count: count(&u),
                    ..u
                })
                .collect()
        };
        let placed = |u: &ResourceUnit| pins::placed(&reservation.places, u.resources.id);
        let pinned = Allocation {
            units: with_counts(&|u| placed(u).min(u.count)),
            ..before.clone()
        };
        let mut missing = with_counts(&|u| u.count.saturating_sub(placed(u)));
        missing.retain(|u| u.count > 0);
        // Placed replicas stay on their nodes. Only the others are placed.
        inventory.left.release(&before);
        inventory.left.restore(&pinned);
        let found = pins::find(&mut *inventory.left, &missing);
        let (mut units, mut places) = (before.units, before.places);
        let mut params_promised = (*reservation.params).clone();
        for allocation in &found {
            // Released here, because the whole reservation is restored below.
            inventory.left.release(allocation);
            for place in &allocation.places {
                pins::add(&mut places, place, place.replicas);
            }
            for (id, params) in &allocation.params {
                // Parameters promised to the tenant do not change. Only undetermined parameters are set.
                let open = params_promised.get(id).is_none_or(Option::is_none);
                if open {
                    params_promised.insert(*id, params.clone());
                }
            }
        }
        inventory.left.release(&pinned);
        params::narrow(&mut units, &params_promised);
        reservation.units = Arc::new(units);
        reservation.places = places.into();
        reservation.params = self.shared.intern(params_promised);
        inventory.left.restore(&reservation.allocation());
        if !pins::incomplete(&reservation.units, &reservation.places) {
            self.unplaced.remove(order);
        }
    }
}

fn claim(units: &[ResourceUnit]) -> Claim {
    let endpoints = units.iter().flat_map(|u| &u.resources.endpoints);
    let ports = endpoints.filter(|e| e.kind == EndpointKind::RandomPort).count();
    Claim {
        ports: u32::try_from(ports).unwrap_or(u32::MAX),
        ips: distinct_leased_ips(units),
        confirmed: false,
    }
}
