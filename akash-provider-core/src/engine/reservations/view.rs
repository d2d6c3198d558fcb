//! What the ledger says of itself.

use super::pools::Pools;
use super::{Held, Reservations, pins};
use crate::engine::status::{InventoryStatus, ReservationStatus};
use crate::inventory::Metrics;
use crate::pricing::Utilization;
use crate::types::{OrderId, ResourceUnit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Reservations {
    /// Everything that is held and what is left.
    #[must_use]
    pub fn status(&self) -> InventoryStatus {
        let of = |active: bool| {
            let orders = self.orders().filter(move |o| self.held[*o].active == active);
            orders
                .map(|o| summary(o, &self.held[o].units))
                .collect::<Vec<_>>()
        };
        InventoryStatus {
            active: of(true),
            pending: of(false),
            available: self.available(),
            external_ports_free: self.pools.ports_free(),
            leased_ips: self.pools.ips(),
        }
    }

    /// How much of the cluster is in use without an order and with what it holds; `None` while capacity is not known, or
    /// where the order holds nothing.
    #[must_use]
    pub fn utilization(&self, order: &OrderId) -> Option<Utilization> {
        let units = Arc::clone(&self.held.get(order)?.units);
        let mut in_use = self.in_use(Some(order))?;
        in_use.add(&units);
        Some(in_use)
    }

    /// What is in use, but for what one order holds.
    pub(super) fn in_use(&self, without: Option<&OrderId>) -> Option<Utilization> {
        let mut in_use = self.known.as_ref()?.in_use.clone();
        for (_, held) in self.held.iter().filter(|(order, _)| Some(*order) != without) {
            in_use.hold(&held.units);
        }
        Some(in_use)
    }

    /// What is left; empty while capacity is not known.
    #[must_use]
    pub fn available(&self) -> Metrics {
        self.known
            .as_ref()
            .map_or_else(Metrics::default, |k| k.left.metrics())
    }

    /// Counts everything from scratch and says whether the ledger agrees; false is a defect.
    #[must_use]
    pub fn recount_matches(&self) -> bool {
        let mut pools = Pools::new(&self.config);
        for held in self.held.values() {
            pools.take(held.claim);
        }
        let Some(known) = &self.known else {
            return pools.taken() == self.pools.taken();
        };
        // Both ways: the base less everything held, and what is left with everything given back.
        let (mut left, mut back) = (known.base.dup(), known.left.dup());
        for held in self.held.values() {
            left.restore(&held.allocation());
            back.release(&held.allocation());
        }
        let homeless = |(_, h): &(&OrderId, &Held)| pins::incomplete(&h.units, &h.places);
        let homeless: BTreeSet<_> = self.held.iter().filter(homeless).map(|(o, _)| o).collect();
        pools.taken() == self.pools.taken()
            && left.metrics() == known.left.metrics()
            && back.metrics() == known.base.metrics()
            && self.homeless.iter().eq(homeless)
    }
}

fn summary(order: &OrderId, units: &[ResourceUnit]) -> ReservationStatus {
    let mut sum = ReservationStatus {
        order: order.clone(),
        cpu: 0,
        gpu: 0,
        memory: 0,
        storage_ephemeral: 0,
        storage: BTreeMap::new(),
    };
    let add = |to: &mut u64, each: u64, unit: &ResourceUnit| {
        *to = to.saturating_add(each.saturating_mul(u64::from(unit.count)));
    };
    for unit in units {
        add(&mut sum.cpu, unit.resources.cpu.units, unit);
        add(&mut sum.gpu, unit.resources.gpu.units, unit);
        add(&mut sum.memory, unit.resources.memory.bytes, unit);
        let ephemeral = unit.resources.ephemeral_bytes().unwrap_or(u64::MAX);
        add(&mut sum.storage_ephemeral, ephemeral, unit);
        let others = unit.resources.storage.iter();
        for volume in others.filter(|v| v.is_persistent() || v.is_ram()) {
            let to = match volume.class() {
                Some(class) => sum.storage.entry(class.to_owned()).or_default(),
                None => &mut sum.storage_ephemeral,
            };
            add(to, volume.bytes, unit);
        }
    }
    sum
}
