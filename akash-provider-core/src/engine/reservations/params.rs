//! Scheduling facts, each kept once: most reservations have nothing special and share one value.

use crate::inventory::gpu::{Want, wants};
use crate::manifest::SchedulerParamsById;
use crate::types::ResourceUnit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Values kept for sharing; beyond it each reservation has its own.
const SHARED_LIMIT: usize = 256;

/// Keeps one copy of each value, for all reservations that have an equal one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Shared {
    known: BTreeSet<Arc<SchedulerParamsById>>,
}

impl Shared {
    pub(super) fn intern(&mut self, params: SchedulerParamsById) -> Arc<SchedulerParamsById> {
        if let Some(known) = self.known.get(&params) {
            return Arc::clone(known);
        }
        if self.known.len() >= SHARED_LIMIT {
            // Those that nobody else holds are of reservations that are gone.
            self.known.retain(|p| Arc::strong_count(p) > 1);
        }
        let params = Arc::new(params);
        if self.known.len() < SHARED_LIMIT {
            self.known.insert(Arc::clone(&params));
        }
        params
    }
}

/// The facts that units promise by themselves: a GPU attribute that names one model is a promise.
pub(super) fn promised(units: &[ResourceUnit]) -> SchedulerParamsById {
    let of_unit = |unit: &ResourceUnit| {
        let gpu = &unit.resources.gpu;
        match wants(&gpu.attributes).as_slice() {
            [only] if gpu.units > 0 => only.to_params(),
            _ => None,
        }
    };
    units.iter().map(|u| (u.resources.id, of_unit(u))).collect()
}

/// Narrows units to the GPUs that params promise. True when that changed something.
pub(super) fn narrow(units: &mut [ResourceUnit], params: &SchedulerParamsById) -> bool {
    let mut changed = false;
    for unit in units.iter_mut().filter(|u| u.resources.gpu.units > 0) {
        let promised = params.get(&unit.resources.id).and_then(Option::as_ref);
        if let Some(want) = promised.and_then(Want::of_params) {
            let attributes = vec![want.to_attribute()];
            changed |= unit.resources.gpu.attributes != attributes;
            unit.resources.gpu.attributes = attributes;
        }
    }
    changed
}

/// True when some units are what an offer promises. An offer that leaves the GPU open is kept by any.
pub(super) fn same_promise(units: &[ResourceUnit], offer: &[ResourceUnit]) -> bool {
    let same = |promised: &ResourceUnit| {
        let unit = units.iter().find(|u| u.resources.id == promised.resources.id);
        unit.is_some_and(|unit| {
            let (a, b) = (&unit.resources, &promised.resources);
            let open = b.gpu.attributes.len() != 1 || b.gpu.attributes.iter().any(|g| g.key.ends_with('*'));
            let gpus = open || a.gpu.attributes == b.gpu.attributes;
            let sizes =
                (a.cpu.units, a.memory.bytes, a.gpu.units) == (b.cpu.units, b.memory.bytes, b.gpu.units);
            unit.count == promised.count && sizes && gpus && a.storage == b.storage
        })
    };
    units.len() == offer.len() && offer.iter().all(same)
}
