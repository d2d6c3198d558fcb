//! Divisible resources (CPU, memory and storage) are not sold beyond the capacity.
//!
//! The node of each replica is internal to the engine, so a comparison of sums is not enough. If a node
//! shrinks or pods fill the node, the resources of a replica may be missing on that node while other nodes
//! still have free capacity. The missing amount is the sum of held and free resources above the capacity. The
//! amount may grow if capacity shrinks, if pods move, or if a bid of a previous process appears. A new
//! reservation must never increase the amount.

use crate::oracle::{Checked, ensure};
use crate::world::World;
use akash_provider_core::Config;
use akash_provider_core::engine::status::ReservationStatus;
use akash_provider_core::engine::{Call, Completion, Effect, Input, OrderPhase, Status};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec, Quantity};
use akash_provider_core::inventory::{Metrics, NodeMetrics};
use akash_provider_core::pricing::{PriceRequest, ResourceUsage};
use akash_provider_core::types::{ChainEvent, OrderId, ResourceUnit};
use std::collections::{BTreeMap, BTreeSet};

/// Classes of persistent storage.
pub(crate) const CLASSES: [&str; 2] = ["beta2", "beta3"];
const KINDS: usize = 3 + CLASSES.len();

/// Amounts of resources: CPU in millicores, then bytes of memory, ephemeral storage and each storage class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amounts([i64; KINDS]);

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

impl Amounts {
    fn plus(self, other: Self) -> Self {
        let mut sum = self.0;
        for (sum, more) in sum.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
        Self(sum)
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self(other.0.map(i64::saturating_neg)))
    }

    fn at_least_none(self) -> Self {
        Self(self.0.map(|amount| amount.max(0)))
    }

    fn is_within(self, limit: Self) -> bool {
        self.0.iter().zip(limit.0).all(|(amount, limit)| *amount <= limit)
    }

    fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), Self::plus)
    }

    pub(crate) fn from_units(units: &[ResourceUnit]) -> Self {
        let of_unit = |unit: &ResourceUnit| {
            let resources = &unit.resources;
            let mut each = [0; KINDS];
            each[0] = signed(resources.cpu.units);
            each[1] = signed(resources.memory.bytes);
            for volume in &resources.storage {
                let class = volume.class().filter(|_| volume.is_persistent());
                let at = class.and_then(|c| CLASSES.iter().position(|name| *name == c));
                let at = match at {
                    Some(at) => 3 + at,
                    None if volume.is_ram() => 1,
                    None => 2,
                };
                each[at] += signed(volume.bytes);
            }
            Self(each.map(|amount| amount.saturating_mul(i64::from(unit.count))))
        };
        Self::sum(units.iter().map(of_unit))
    }

    pub(crate) fn from_reservation(reservation: &ReservationStatus) -> Self {
        let class = |name: &str| signed(reservation.storage.get(name).copied().unwrap_or(0));
        let mut amounts = [0; KINDS];
        amounts[0] = signed(reservation.cpu);
        amounts[1] = signed(reservation.memory).saturating_add(class("ram"));
        amounts[2] = signed(reservation.storage_ephemeral);
        for (amount, name) in amounts[3..].iter_mut().zip(CLASSES) {
            *amount = class(name);
        }
        Self(amounts)
    }

    fn of_node(node: &NodeMetrics) -> Self {
        let mut free = [0; KINDS];
        free[0] = signed(node.cpu.available);
        free[1] = signed(node.memory.available);
        free[2] = signed(node.storage_ephemeral.available);
        Self(free)
    }

    fn free(metrics: &Metrics) -> Self {
        let mut free = Self::sum(metrics.nodes.iter().map(Self::of_node));
        for (free, name) in free.0[3..].iter_mut().zip(CLASSES) {
            *free = metrics.storage.get(name).map_or(0, |pair| signed(pair.available));
        }
        free
    }
}

/// The capacity in the last inventory update of an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capacity {
    /// Amounts by node name.
    nodes: BTreeMap<String, Amounts>,
    total: Amounts,
}

impl Capacity {
    pub(crate) fn from_cluster(cluster: &ClusterSpec) -> Self {
        let rest = |q: &Quantity| (q.allocatable - q.allocated).max(0);
        let node = |spec: &NodeSpec| {
            let mut each = [0; KINDS];
            each[0] = rest(&spec.cpu);
            each[1] = rest(&spec.memory);
            each[2] = rest(&spec.ephemeral);
            (spec.name.clone(), Amounts(each))
        };
        let nodes: BTreeMap<_, _> = cluster.nodes.iter().map(node).collect();
        let mut total = Amounts::sum(nodes.values().copied());
        for (total, name) in total.0[3..].iter_mut().zip(CLASSES) {
            *total = cluster.storage.get(name).map_or(0, rest);
        }
        Self { nodes, total }
    }
}

/// Reason to check the reservations again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An inventory update.
    Capacity,
    /// The engine processed data that can contain bids and leases of a previous process.
    Promises,
    Other,
}

impl Cause {
    pub(crate) fn from_input(input: &Input) -> Self {
        match input {
            Input::Inventory(_) => Self::Capacity,
            Input::Chain(ChainEvent::Resync(_))
            | Input::Completed(
                _,
                Completion::Snapshot(Ok(_)) | Completion::Workloads(Ok(_)) | Completion::Bid(Ok(_)),
            ) => Self::Promises,
            _ => Self::Other,
        }
    }
}

/// Reservations of the engine at the last check.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reservations {
    pub(crate) capacity: Option<Capacity>,
    reserved: BTreeMap<OrderId, Amounts>,
    /// Amounts by which the reserved and free resources exceed the capacity.
    missing: Amounts,
}

impl Reservations {
    pub(crate) fn look(&mut self, cause: Cause, status: &Status) -> Checked {
        let inventory = &status.inventory;
        let Some(capacity) = self.capacity.as_ref().filter(|_| status.inventory_known) else {
            return Ok(());
        };
        for node in &inventory.available.nodes {
            let free = Amounts::of_node(node);
            let there = capacity.nodes.get(&node.name).copied().unwrap_or_default();
            ensure("what_is_free_is_there", free.is_within(there), || {
                format!("{}: {free:?} of {there:?}", node.name)
            })?;
        }
        let all = inventory.active.iter().chain(&inventory.pending);
        // A promise that appears may include GPUs of other nodes.
        let moved = all.clone().filter(|r| r.gpu > 0 && cause == Cause::Promises);
        let moved: BTreeSet<&OrderId> = moved.map(|r| &r.order).collect();
        let reserved: BTreeMap<OrderId, Amounts> = all
            .map(|r| (r.order.clone(), Amounts::from_reservation(r)))
            .collect();
        let free = Amounts::free(&inventory.available);
        let total = Amounts::sum(reserved.values().copied());
        let missing = free.plus(total).minus(capacity.total);
        let pricing = status.orders.iter().filter(|o| o.phase == OrderPhase::Pricing);
        let fresh: Vec<&OrderId> = pricing
            .map(|o| &o.order)
            .filter(|o| !self.reserved.contains_key(o))
            .collect();
        let not_fresh = reserved.iter().filter(|(order, _)| !fresh.contains(order));
        let limit = match cause {
            Cause::Capacity => Amounts::sum(not_fresh.map(|(_, amounts)| *amounts)),
            Cause::Promises | Cause::Other => {
                let came = not_fresh.map(|(order, amounts)| {
                    // Another promise is placed again, and a replica may not fit completely.
                    let same = |before: &&Amounts| cause != Cause::Promises || *before == amounts;
                    let before = self.reserved.get(order).filter(same);
                    let before = before.filter(|_| !moved.contains(order));
                    before.map_or(*amounts, |before| amounts.minus(*before).at_least_none())
                });
                self.missing.plus(Amounts::sum(came))
            }
        };
        let judged = cause != Cause::Promises || !fresh.is_empty();
        ensure("nothing_is_oversold", !judged || missing.is_within(limit), || {
            format!(
                "{total:?} held and {free:?} free of {:?}: {missing:?} are missing, {limit:?} may be; new {fresh:?}",
                capacity.total
            )
        })?;
        (self.reserved, self.missing) = (reserved, missing);
        Ok(())
    }
}

/// Returns the amount that the engine reserves for a requested `value`, with an overcommit of `percent`
/// percent.
fn committed(value: u64, percent: u32) -> u64 {
    let part = u128::from(value) * 1_000 / u128::from(100 + percent);
    let rounded = u64::try_from((part + 5) / 10).unwrap_or(u64::MAX);
    rounded.max(u64::from(value > 0))
}

/// Checks that the reserved amounts equal the requested amounts divided by the overcommit factors.
fn reserved_equals_request(config: &Config, request: &PriceRequest) -> Checked {
    let mut asked = request.group.resources.clone();
    for resources in asked.iter_mut().map(|u| &mut u.resources) {
        resources.cpu.units = committed(resources.cpu.units, config.overcommit_cpu_percent);
        resources.memory.bytes = committed(resources.memory.bytes, config.overcommit_memory_percent);
        for volume in &mut resources.storage {
            volume.bytes = committed(volume.bytes, config.overcommit_storage_percent);
        }
    }
    let reserved = request.allocated.as_deref().map_or(&[][..], Vec::as_slice);
    let (asked, reserved) = (Amounts::from_units(&asked), Amounts::from_units(reserved));
    ensure("reserved_equals_request", asked == reserved, || {
        format!("{asked:?} to be reserved, but {reserved:?} are reserved")
    })
}

/// Checks that the usage in a price request grows by exactly the reserved amount.
fn usage_grows_by_reservation(request: &PriceRequest) -> Checked {
    let Some(used) = &request.utilization else {
        return ensure("a_price_is_told_what_is_in_use", false, || format!("{request:?}"));
    };
    let step = |of: ResourceUsage| signed(of.after).saturating_sub(signed(of.before));
    let mut steps = [step(used.cpu), step(used.memory), step(used.storage), 0, 0];
    for (of, name) in steps[3..].iter_mut().zip(CLASSES) {
        *of = used.persistent.get(name).copied().map_or(0, step);
    }
    let reserved = request.allocated.as_deref().map_or(&[][..], Vec::as_slice);
    let (added, reserved) = (Amounts(steps), Amounts::from_units(reserved));
    ensure("usage_grows_by_reservation", added == reserved, || {
        format!("{added:?} added, {reserved:?} reserved")
    })
}

impl World {
    /// Checks the reservations after an engine step.
    pub(crate) fn sold(&mut self, cause: Cause, effects: &[Effect]) -> Checked {
        let mut asked = false;
        for effect in effects {
            match effect {
                Effect::Call(_, Call::CalculatePrice(request)) => {
                    asked = true;
                    reserved_equals_request(&self.config, request)?;
                    usage_grows_by_reservation(request)?;
                }
                Effect::Call(_, Call::CountBids(_)) => asked = true,
                _ => {}
            }
        }
        if cause == Cause::Other && !asked {
            return Ok(());
        }
        let status = self.engine.status(self.now());
        self.model.sales.look(cause, &status)
    }
}
