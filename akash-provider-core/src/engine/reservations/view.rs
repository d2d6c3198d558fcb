//! Read access to the ledger: status, utilization and consistency check.

use super::pools::Pools;
use super::{Reservation, Reservations, pins};
use crate::engine::status::{InventoryStatus, ReservationStatus};
use crate::inventory::Metrics;
use crate::pricing::Utilization;
use crate::types::{OrderId, ResourceUnit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Reservations {
    /// Returns all reservations and the free capacity.
    #[must_use]
    pub fn status(&self) -> InventoryStatus {
        let of = |active: bool| {
            let orders = self
                .orders()
                .filter(move |o| self.reservations[*o].active == active);
            orders
                .map(|o| summary(o, &self.reservations[o].units))
                .collect::<Vec<_>>()
        };
        let reservations = |active: bool| self.reservations.values().filter(move |r| r.active == active);
        let ports = |active| {
            reservations(active).fold(0_u32, |sum, reservation| {
                sum.saturating_add(reservation.claim.ports)
            })
        };
        let endpoints = |active| {
            let units = reservations(active).flat_map(|reservation| reservation.units.iter());
            let endpoints = units.map(|unit| unit.resources.endpoints.len()).sum::<usize>();
            u32::try_from(endpoints).unwrap_or(u32::MAX)
        };
        InventoryStatus {
            active: of(true),
            pending: of(false),
            available: self.available(),
            external_ports_free: self.pools.ports_free(),
            external_ports_active: ports(true),
            external_ports_pending: ports(false),
            endpoints_active: endpoints(true),
            endpoints_pending: endpoints(false),
            leased_ips: self.pools.ips(),
        }
    }

    /// Returns the utilization of the cluster without and with the reservation of an order. Returns `None` if
    /// the inventory is unknown or the order has no reservation.
    #[must_use]
    pub fn utilization(&self, order: &OrderId) -> Option<Utilization> {
        let units = Arc::clone(&self.reservations.get(order)?.units);
        let mut in_use = self.in_use(Some(order))?;
        in_use.add(&units);
        Some(in_use)
    }

    pub(super) fn in_use(&self, without: Option<&OrderId>) -> Option<Utilization> {
        let mut in_use = self.inventory.as_ref()?.in_use.clone();
        for (_, reservation) in self
            .reservations
            .iter()
            .filter(|(order, _)| Some(*order) != without)
        {
            in_use.hold(&reservation.units);
        }
        Some(in_use)
    }

    /// Returns the free capacity. Empty before the first inventory update.
    #[must_use]
    pub fn available(&self) -> Metrics {
        self.inventory
            .as_ref()
            .map_or_else(Metrics::default, |k| k.left.metrics())
    }

    /// Recomputes all reservations, and returns whether the result equals the stored reservations. A
    /// difference indicates a defect.
    #[must_use]
    pub fn recount_matches(&self) -> bool {
        let mut pools = Pools::new(&self.config);
        for reservation in self.reservations.values() {
            pools.take(reservation.claim);
        }
        let Some(inventory) = &self.inventory else {
            return pools.taken() == self.pools.taken();
        };
        // In both directions: the base minus all reservations, and the free capacity plus all reservations.
        let (mut left, mut back) = (inventory.base.dup(), inventory.left.dup());
        for reservation in self.reservations.values() {
            left.restore(&reservation.allocation());
            back.release(&reservation.allocation());
        }
        let unplaced = |(_, h): &(&OrderId, &Reservation)| pins::incomplete(&h.units, &h.places);
        let unplaced: BTreeSet<_> = self
            .reservations
            .iter()
            .filter(unplaced)
            .map(|(o, _)| o)
            .collect();
        pools.taken() == self.pools.taken()
            && left.metrics() == inventory.left.metrics()
            && back.metrics() == inventory.base.metrics()
            && self.unplaced.iter().eq(unplaced)
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
