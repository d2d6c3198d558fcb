//! The ledger of reservations: what is promised or leased, counted once, on top of the capacity that is left.
//!
//! A reservation is made before a bid and lasts until the order is lost or the lease is torn down. It is
//! pinned: when capacity changes it is taken again at the same places, with the same promise; pods only say on
//! which node a replica is. Whatever the order of calls, the state equals a count from scratch
//! ([`Reservations::recount_matches`]).

use crate::bidding::Decline;
use crate::config::Config;
use crate::inventory::{AdjustOptions, Allocation, Inventory, InventoryUpdate, Place};
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

/// The ledger of reservations.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reservations {
    config: Config,
    known: Option<Known>,
    held: HashMap<OrderId, Held, FxBuildHasher>,
    /// Orders of which a replica is nowhere.
    homeless: BTreeSet<OrderId>,
    /// Leases of which it was not read yet what they hold: no bid of theirs is known.
    unread: BTreeSet<OrderId>,
    pools: Pools,
    /// Orders whose addresses the pool's last count has, and which were not given back since.
    counted: HashSet<OrderId, FxBuildHasher>,
    shared: params::Shared,
}

/// Capacity, once it is known.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    #[serde(with = "crate::inventory::written")]
    base: Arc<dyn Inventory>,
    /// The base less all that is held.
    #[serde(with = "crate::inventory::written")]
    left: Box<dyn Inventory>,
    /// Of the base: what there is, and what others use.
    in_use: Utilization,
    /// Nodes of the pods by order, on nodes of the base.
    #[serde(default)]
    pods: Pods,
}

type Pods = HashMap<OrderId, Box<[Place]>, FxBuildHasher>;

impl Clone for Known {
    fn clone(&self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            left: self.left.dup(),
            in_use: self.in_use.clone(),
            pods: self.pods.clone(),
        }
    }
}

/// One reservation, kept small.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Held {
    units: Arc<Vec<ResourceUnit>>,
    params: Arc<SchedulerParamsById>,
    places: Box<[Place]>,
    claim: Claim,
    active: bool,
    /// The bid that won may be another than the one this was made for. Mostly it is not: its own answer is late.
    doubted: bool,
}

impl Held {
    fn allocation(&self) -> Allocation {
        Allocation {
            units: self.units.to_vec(),
            params: SchedulerParamsById::new(),
            places: self.places.to_vec(),
        }
    }
}

impl Reservations {
    /// An empty ledger that does not know the capacity yet.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            pools: Pools::new(config),
            config: config.clone(),
            known: None,
            held: HashMap::default(),
            homeless: BTreeSet::new(),
            unread: BTreeSet::new(),
            counted: HashSet::default(),
            shared: params::Shared::default(),
        }
    }

    /// True once capacity is known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Takes a fresh view of the capacity. Every reservation is taken again at its places, which pods may have
    /// moved; what it was promised stays. Replicas on nodes that are gone look for another place with the same
    /// promise. Where there is too little, that shows as overcommitted, and nothing is lost.
    pub fn update(&mut self, update: InventoryUpdate) {
        let usage = update.leased_ips.as_ref();
        // The pools start from nothing here: every claim is taken again below.
        self.pools.recount(usage);
        // Without a new count the last one holds.
        if let Some(usage) = usage {
            let confirmed = usage.confirmed.iter();
            self.counted = confirmed.map(|lease| lease.order.clone()).collect();
        }
        let metrics = update.inventory.metrics();
        let nodes: HashSet<&str, FxBuildHasher> = metrics.nodes.iter().map(|n| n.name.as_str()).collect();
        let placements = update.placements.into_iter().map(|placement| {
            let places = placement.places.into_iter();
            let places = places.filter(|place| nodes.contains(&*place.node));
            (placement.lease.order, places.collect())
        });
        let pods: Pods = placements.collect();
        let mut left = update.inventory.dup();
        self.homeless.clear();
        for (order, held) in &mut self.held {
            let pods = pods.get(order).map_or(&[][..], |pods| pods);
            let on_known = |p: &Place| nodes.contains(&*p.node);
            // Without pods, and with all its nodes there, a reservation stays where it is.
            if !pods.is_empty() || !held.places.iter().all(on_known) {
                let mut places = pins::moved(&held.units, &held.places, pods);
                places.retain(on_known);
                held.places = places.into();
            }
            if usage.is_some() {
                held.claim.confirmed = self.counted.contains(order);
            }
            self.pools.take(held.claim);
            left.restore(&held.allocation());
            if pins::incomplete(&held.units, &held.places) {
                self.homeless.insert(order.clone());
            }
        }
        let base = update.inventory;
        let in_use = Utilization::of(&metrics);
        self.known = Some(Known {
            base,
            left,
            in_use,
            pods,
        });
        self.find_homes();
    }

    /// Reserves what an order asks for, commit levels applied. An order that holds a reservation keeps it.
    ///
    /// # Errors
    /// What is missing: capacity, external ports, leased IPs, or the knowledge of them, which also lacks while a
    /// lease is there whose bid was not read yet ([`adopt_unread`](Self::adopt_unread)). Nothing is taken then.
    pub fn reserve(&mut self, order: &OrderId, spec: &GroupSpec) -> Result<Arc<Vec<ResourceUnit>>, Decline> {
        if let Some(held) = self.held.get(order) {
            return Ok(Arc::clone(&held.units));
        }
        // The pools before the nodes: they are cheap to ask, and nothing has to be given back.
        let claim = capacity::check(spec, &self.pools, &self.first())?;
        let Some(known) = &mut self.known else {
            return Err(Decline::Unknown {
                message: "the capacity of the cluster is not known yet".to_owned(),
            });
        };
        let take = AdjustOptions::default();
        let allocation = capacity::place(spec, &self.config, &mut *known.left, take)?;
        self.pools.take(claim);
        let units = Arc::new(allocation.units);
        let held = Held {
            units: Arc::clone(&units),
            params: self.shared.intern(allocation.params),
            places: allocation.places.into(),
            claim,
            active: false,
            doubted: false,
        };
        self.held.insert(order.clone(), held);
        Ok(units)
    }

    /// The order that was promised GPUs and finds no place.
    fn gpus_owed_to(&self) -> Option<&OrderId> {
        let owed = |order: &&OrderId| {
            let held = self.held.get(*order);
            held.is_some_and(|held| capacity::wants_gpus(&held.units))
        };
        self.homeless.iter().find(owed)
    }

    fn first(&self) -> capacity::First {
        capacity::First {
            unread: self.unread.first().cloned(),
            owed_gpus: self.gpus_owed_to().cloned(),
        }
    }

    /// Why a reservation is no longer good for a bid: it has lost its place, or another promise came to light
    /// since that needs the GPUs, the ports or the addresses, or that was not read yet.
    #[must_use]
    pub fn displaced(&self, order: &OrderId) -> Option<Decline> {
        let held = self.held.get(order)?;
        if let Some(order) = self.unread.first() {
            return Some(capacity::not_read(order));
        }
        if let Some(decline) = self.pools.overdrawn(held.claim) {
            return Some(decline);
        }
        if self.homeless.is_empty() {
            return None;
        }
        if self.homeless.contains(order) {
            return Some(Decline::InsufficientCapacity {
                message: "its replicas have lost their place since it was reserved".to_owned(),
            });
        }
        let wants = capacity::wants_gpus(&held.units);
        let owed = self.gpus_owed_to().filter(|_| wants)?;
        Some(capacity::gpus_are_owed(owed))
    }

    /// Takes over a reservation that was made before a restart. `offer` is what the bid promised and is not
    /// divided again; where the bid says nothing, the group is reserved as `spec` has it. Never fails: what
    /// has no room shows as overcommitted. A reservation with units is left as it is.
    pub fn adopt(&mut self, order: &OrderId, offer: &[ResourceUnit], spec: Option<&GroupSpec>) {
        self.unread.remove(order);
        // What is a lease by now stays one.
        let mut active = false;
        if let Some(held) = self.held.get(order) {
            if !held.units.is_empty() || (offer.is_empty() && spec.is_none()) {
                return;
            }
            active = held.active;
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
        // Replicas that run have a place; only the rest looks for one.
        let pods = self.known.as_ref().and_then(|known| known.pods.get(order));
        let places = pods
            .map(|pods| pins::moved(&units, &[], pods))
            .unwrap_or_default();
        let held = Held {
            claim,
            params: self.shared.intern(params::promised(&units)),
            units: Arc::new(units),
            places: places.into(),
            active,
            doubted: false,
        };
        self.pools.take(held.claim);
        if let Some(known) = &mut self.known {
            known.left.restore(&held.allocation());
        }
        let incomplete = pins::incomplete(&held.units, &held.places);
        self.held.insert(order.clone(), held);
        if incomplete && self.known.is_some() {
            self.homeless.insert(order.clone());
            self.find_home(order);
        }
    }

    /// Takes over a lease of which nothing is known but that it is there. Until somebody has looked, which is
    /// [`adopt`](Self::adopt) whatever it finds, nothing is reserved for others.
    pub fn adopt_unread(&mut self, order: &OrderId) {
        self.adopt(order, &[], None);
        self.unread.insert(order.clone());
    }

    /// Makes a reservation what our bid promises, should that be another thing: a bid from before a restart may
    /// land after the order was reserved anew.
    pub fn keep_promise(&mut self, order: &OrderId, offer: &[ResourceUnit]) {
        let Some(held) = self.held.get_mut(order) else {
            return;
        };
        held.doubted = false;
        if offer.is_empty() || params::same_promise(&held.units, offer) {
            return;
        }
        if held.units.is_empty() {
            // It becomes known only now.
            return self.adopt(order, offer, None);
        }
        let active = held.active;
        self.unreserve(order);
        self.adopt(order, offer, None);
        if active {
            self.mark_active(order);
        }
    }

    /// Whether a bid promised what is reserved has to be looked up.
    pub fn recheck_offer(&mut self, order: &OrderId) {
        if let Some(held) = self.held.get_mut(order) {
            held.doubted = true;
        }
    }

    /// True when what is reserved is what was promised.
    #[must_use]
    pub fn is_promise_known(&self, order: &OrderId) -> bool {
        let held = self.held.get(order);
        held.is_some_and(|h| !h.units.is_empty() && !h.doubted)
    }

    /// Gives a reservation back; its capacity is free at once. False when there was none.
    pub fn unreserve(&mut self, order: &OrderId) -> bool {
        self.unread.remove(order);
        let Some(held) = self.held.remove(order) else {
            return false;
        };
        self.homeless.remove(order);
        // What gives no address back, as long as its units are not known, leaves the count as it is.
        if held.claim.ips > 0 {
            self.counted.remove(order);
        }
        self.pools.give_back(held.claim);
        if let Some(known) = &mut self.known {
            known.left.release(&held.allocation());
        }
        // What comes free goes first to those who were promised room and have none.
        self.find_homes();
        true
    }

    /// The units of a reservation: commit levels applied, GPU models concrete.
    #[must_use]
    pub fn units(&self, order: &OrderId) -> Option<Arc<Vec<ResourceUnit>>> {
        self.held.get(order).map(|h| Arc::clone(&h.units))
    }

    /// The scheduling facts of a reservation.
    #[must_use]
    pub fn params(&self, order: &OrderId) -> Option<Arc<SchedulerParamsById>> {
        self.held.get(order).map(|h| Arc::clone(&h.params))
    }

    /// Takes over the scheduling facts a deployment already runs with; what they do not say stays as promised.
    /// Units are narrowed to the GPUs they name, and where that is another promise than before, the replicas
    /// are placed again. False when there is no such reservation.
    pub fn set_params(&mut self, order: &OrderId, params: &SchedulerParamsById) -> bool {
        let Some(held) = self.held.get_mut(order) else {
            return false;
        };
        let mut promise = (*held.params).clone();
        for (id, params) in params.iter().filter(|(_, params)| params.is_some()) {
            promise.insert(*id, params.clone());
        }
        if promise == *held.params {
            return true;
        }
        let before = held.allocation();
        let mut units = before.units.clone();
        let changed = params::narrow(&mut units, &promise);
        held.params = self.shared.intern(promise);
        if changed {
            held.units = Arc::new(units);
            held.places = Box::default();
            if let Some(known) = &mut self.known {
                // Given back exactly as it was taken, or the ledger would drift.
                known.left.release(&before);
                known.left.restore(&held.allocation());
                self.homeless.insert(order.clone());
                self.find_home(order);
            }
        }
        true
    }

    /// A lease holds the reservation. False when there is none.
    pub fn mark_active(&mut self, order: &OrderId) -> bool {
        let held = self.held.get_mut(order);
        held.map(|h| h.active = true).is_some()
    }

    /// True when the order holds a reservation.
    #[must_use]
    pub fn contains(&self, order: &OrderId) -> bool {
        self.held.contains_key(order)
    }

    /// How many reservations are held, of bids and of leases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True when nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Orders that hold a reservation, sorted.
    pub fn orders(&self) -> impl Iterator<Item = &OrderId> {
        let mut orders: Vec<_> = self.held.keys().collect();
        orders.sort_unstable();
        orders.into_iter()
    }

    fn find_homes(&mut self) {
        // A copy, because who finds a place leaves the set.
        for order in self.homeless.clone() {
            self.find_home(&order);
        }
    }

    /// Places the replicas of a reservation that are nowhere, as far as there is room.
    fn find_home(&mut self, order: &OrderId) {
        let (Some(known), Some(held)) = (&mut self.known, self.held.get_mut(order)) else {
            return;
        };
        let before = held.allocation();
        let with_counts = |count: &dyn Fn(&ResourceUnit) -> u32| -> Vec<ResourceUnit> {
            let units = held.units.iter().cloned();
            units
                .map(|u| ResourceUnit {
                    count: count(&u),
                    ..u
                })
                .collect()
        };
        let placed = |u: &ResourceUnit| pins::placed(&held.places, u.resources.id);
        let pinned = Allocation {
            units: with_counts(&|u| placed(u).min(u.count)),
            ..before.clone()
        };
        let mut missing = with_counts(&|u| u.count.saturating_sub(placed(u)));
        missing.retain(|u| u.count > 0);
        // What has a place keeps it; only the rest looks for room.
        known.left.release(&before);
        known.left.restore(&pinned);
        let found = pins::find(&mut *known.left, &missing);
        let (mut units, mut places) = (before.units, before.places);
        let mut promise = (*held.params).clone();
        for allocation in &found {
            // Taken only to be found: below, all of it is taken as one.
            known.left.release(allocation);
            for place in &allocation.places {
                pins::add(&mut places, place, place.replicas);
            }
            for (id, params) in &allocation.params {
                // A promise stays as it was made; only what was left open is filled in.
                let open = promise.get(id).is_none_or(Option::is_none);
                if open {
                    promise.insert(*id, params.clone());
                }
            }
        }
        known.left.release(&pinned);
        params::narrow(&mut units, &promise);
        held.units = Arc::new(units);
        held.places = places.into();
        held.params = self.shared.intern(promise);
        known.left.restore(&held.allocation());
        if !pins::incomplete(&held.units, &held.places) {
            self.homeless.remove(order);
        }
    }
}

/// What some units take from the pools.
fn claim(units: &[ResourceUnit]) -> Claim {
    let endpoints = units.iter().flat_map(|u| &u.resources.endpoints);
    let ports = endpoints.filter(|e| e.kind == EndpointKind::RandomPort).count();
    Claim {
        ports: u32::try_from(ports).unwrap_or(u32::MAX),
        ips: distinct_leased_ips(units),
        confirmed: false,
    }
}
