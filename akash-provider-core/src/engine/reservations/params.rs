//! Scheduler parameters of reservations. Equal values share one allocation.

use crate::inventory::gpu::{GpuRequest, wants};
use crate::manifest::SchedulerParamsById;
use crate::types::ResourceUnit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of distinct values that [`ParamsInterner`] stores.
const SHARED_MAX: usize = 256;

/// Stores equal scheduler parameters only once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ParamsInterner {
    values: BTreeSet<Arc<SchedulerParamsById>>,
}

impl ParamsInterner {
    pub(super) fn intern(&mut self, params: SchedulerParamsById) -> Arc<SchedulerParamsById> {
        if let Some(existing) = self.values.get(&params) {
            return Arc::clone(existing);
        }
        if self.values.len() >= SHARED_MAX {
            // Values without other references belong to released reservations.
            self.values.retain(|p| Arc::strong_count(p) > 1);
        }
        let params = Arc::new(params);
        if self.values.len() < SHARED_MAX {
            self.values.insert(Arc::clone(&params));
        }
        params
    }
}

/// Returns the scheduler parameters by resource id; `None` for a unit that does not request exactly one GPU
/// model.
pub(super) fn fixed_params(units: &[ResourceUnit]) -> SchedulerParamsById {
    let of_unit = |unit: &ResourceUnit| {
        let gpu = &unit.resources.gpu;
        match wants(&gpu.attributes).as_slice() {
            [only] if gpu.units > 0 => only.to_params(),
            _ => None,
        }
    };
    units.iter().map(|u| (u.resources.id, of_unit(u))).collect()
}

/// Restricts the units to the GPU models in `params`. Returns true if a unit changed.
pub(super) fn narrow(units: &mut [ResourceUnit], params: &SchedulerParamsById) -> bool {
    let mut changed = false;
    for unit in units.iter_mut().filter(|u| u.resources.gpu.units > 0) {
        let promised = params.get(&unit.resources.id).and_then(Option::as_ref);
        if let Some(want) = promised.and_then(GpuRequest::from_params) {
            let attributes = vec![want.to_attribute()];
            changed |= unit.resources.gpu.attributes != attributes;
            unit.resources.gpu.attributes = attributes;
        }
    }
    changed
}

/// Returns true if the units satisfy an offer. GPU models are compared only if the offer names exactly one
/// model.
pub(super) fn matches_offer(units: &[ResourceUnit], offer: &[ResourceUnit]) -> bool {
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
