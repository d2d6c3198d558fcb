//! Whether a group has room: the ledger asks and takes what fits, a copy is asked and takes nothing.

use super::commit::committed_units;
use super::pools::{Claim, Pools};
use super::{Reservations, claim};
use crate::bidding::Decline;
use crate::config::Config;
use crate::inventory::{AdjustOptions, Allocation, Explanation, Inventory};
use crate::pricing::Utilization;
use crate::types::{GroupSpec, OrderId, ResourceUnit};

/// What is left at one moment. It is a copy: whoever has it may take its time elsewhere, and nothing is reserved.
#[derive(Debug)]
pub struct Capacity {
    config: Config,
    pools: Pools,
    first: First,
    left: Box<dyn Inventory>,
    in_use: Utilization,
}

/// The orders that come before a new one.
#[derive(Debug, Clone, Default)]
pub(super) struct First {
    /// A lease of which it was not read yet what it holds.
    pub(super) unread: Option<OrderId>,
    /// One that was promised GPUs and finds no place.
    pub(super) owed_gpus: Option<OrderId>,
}

impl Reservations {
    /// What is left now; `None` while capacity is not known.
    #[must_use]
    pub fn capacity(&self) -> Option<Capacity> {
        let known = self.known.as_ref()?;
        Some(Capacity {
            config: self.config.clone(),
            pools: self.pools.clone(),
            first: self.first(),
            left: known.left.dup(),
            in_use: self.in_use(None)?,
        })
    }
}

impl Capacity {
    /// The settings it is judged by.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What would be reserved for a group: what [`Reservations::reserve`] would answer.
    ///
    /// # Errors
    /// What is missing: room on the nodes, external ports, leased IPs, or the knowledge of them.
    pub fn fit(&mut self, spec: &GroupSpec) -> Result<Vec<ResourceUnit>, Decline> {
        let only_try = AdjustOptions { dry_run: true };
        check(spec, &self.pools, &self.first)?;
        Ok(place(spec, &self.config, &mut *self.left, only_try)?.units)
    }

    /// How much of the cluster is in use now, and would be with these units.
    #[must_use]
    pub fn utilization(&self, units: &[ResourceUnit]) -> Utilization {
        let mut in_use = self.in_use.clone();
        in_use.add(units);
        in_use
    }

    /// Why a group would or would not fit: ports and addresses, then node by node.
    #[must_use]
    pub fn explain(&self, spec: &GroupSpec) -> Explanation {
        let mut explanation = self.left.explain(&committed_units(&self.config, spec));
        // The nodes know nothing of ports and addresses.
        if let Err(decline) = check(spec, &self.pools, &self.first) {
            explanation.fits = false;
            explanation.offers.clear();
            explanation.cluster.push(decline.to_string());
        }
        explanation
    }
}

/// What a group takes from the pools, when nothing but the nodes can speak against it.
pub(super) fn check(spec: &GroupSpec, pools: &Pools, first: &First) -> Result<Claim, Decline> {
    if spec.resources.is_empty() {
        return Err(Decline::InvalidGroup {
            problem: "it asks for no resources".to_owned(),
        });
    }
    if let Some(order) = &first.unread {
        return Err(not_read(order));
    }
    let claim = claim(&spec.resources);
    pools.check(claim)?;
    match &first.owed_gpus {
        Some(order) if wants_gpus(&spec.resources) => Err(gpus_are_owed(order)),
        _ => Ok(claim),
    }
}

/// Places the units of a group, commit levels applied.
pub(super) fn place(
    spec: &GroupSpec,
    config: &Config,
    left: &mut dyn Inventory,
    options: AdjustOptions,
) -> Result<Allocation, Decline> {
    let fits = left.adjust(&committed_units(config, spec), options);
    fits.map_err(|misfit| Decline::InsufficientCapacity {
        message: misfit.to_string(),
    })
}

pub(super) fn wants_gpus(units: &[ResourceUnit]) -> bool {
    units.iter().any(|unit| unit.resources.gpu.units > 0)
}

/// Nothing is for sale while it is not known what is left of it.
pub(super) fn not_read(order: &OrderId) -> Decline {
    Decline::Unknown {
        message: format!("what the lease of {order} holds is not known before the next full scan"),
    }
}

/// GPUs are not for sale while a reservation that was promised some finds no place.
pub(super) fn gpus_are_owed(order: &OrderId) -> Decline {
    Decline::InsufficientCapacity {
        message: format!("GPUs are owed to {order}, which finds no place for all its replicas"),
    }
}
