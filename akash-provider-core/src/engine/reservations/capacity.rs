//! Checks whether a group fits: for a reservation in the ledger, or against a copy of the free capacity.

use super::commit::committed_units;
use super::pools::{Claim, Pools};
use super::{Reservations, claim};
use crate::bidding::Decline;
use crate::config::Config;
use crate::inventory::{AdjustOptions, Allocation, Explanation, Inventory};
use crate::pricing::Utilization;
use crate::types::{GroupSpec, OrderId, ResourceUnit};

/// Copy of the free capacity at one point in time. Changes to the copy reserve nothing.
#[derive(Debug)]
pub struct Capacity {
    config: Config,
    pools: Pools,
    blocking: BlockingOrders,
    left: Box<dyn Inventory>,
    in_use: Utilization,
}

#[derive(Debug, Clone, Default)]
pub(super) struct BlockingOrders {
    /// A lease with unknown resources.
    pub(super) unread: Option<OrderId>,
    /// Order with reserved GPUs and an unplaced replica. This order blocks all new orders that request GPUs.
    pub(super) unplaced_gpus: Option<OrderId>,
}

impl Reservations {
    /// Returns a copy of the free capacity, or `None` before the first inventory update.
    #[must_use]
    pub fn capacity(&self) -> Option<Capacity> {
        let inventory = self.inventory.as_ref()?;
        Some(Capacity {
            config: self.config.clone(),
            pools: self.pools.clone(),
            blocking: self.blocking_orders(),
            left: inventory.left.dup(),
            in_use: self.in_use(None)?,
        })
    }
}

impl Capacity {
    /// Returns the configuration used for the checks.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the units that [`Reservations::reserve`] would reserve for a group, without reserving them.
    ///
    /// # Errors
    /// Returns the missing resource: capacity, external ports or leased IPs. Also fails while one of these
    /// amounts is unknown.
    pub fn fit(&mut self, spec: &GroupSpec) -> Result<Vec<ResourceUnit>, Decline> {
        let only_try = AdjustOptions { dry_run: true };
        check(spec, &self.pools, &self.blocking)?;
        Ok(place(spec, &self.config, &mut *self.left, only_try)?.units)
    }

    /// Returns the current utilization of the cluster, and the utilization with `units` added.
    #[must_use]
    pub fn utilization(&self, units: &[ResourceUnit]) -> Utilization {
        let mut in_use = self.in_use.clone();
        in_use.add(units);
        in_use
    }

    /// Explains why a group fits or does not fit: ports and addresses, then each node.
    #[must_use]
    pub fn explain(&self, spec: &GroupSpec) -> Explanation {
        let mut explanation = self.left.explain(&committed_units(&self.config, spec));
        // The inventory does not include ports and addresses.
        if let Err(decline) = check(spec, &self.pools, &self.blocking) {
            explanation.fits = false;
            explanation.offers.clear();
            explanation.cluster.push(decline.to_string());
        }
        explanation
    }
}

/// Returns the ports and addresses that a group needs. Fails if too few are free, or if another order blocks
/// the reservation. Does not check the nodes.
pub(super) fn check(spec: &GroupSpec, pools: &Pools, blocking: &BlockingOrders) -> Result<Claim, Decline> {
    if spec.resources.is_empty() {
        return Err(Decline::InvalidGroup {
            problem: "no resources requested".to_owned(),
        });
    }
    if let Some(order) = &blocking.unread {
        return Err(unread_lease(order));
    }
    let claim = claim(&spec.resources);
    pools.check(claim)?;
    match &blocking.unplaced_gpus {
        Some(order) if requests_gpus(&spec.resources) => Err(gpus_reserved_for(order)),
        _ => Ok(claim),
    }
}

/// Places the units of a group on nodes, with overcommit applied.
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

pub(super) fn requests_gpus(units: &[ResourceUnit]) -> bool {
    units.iter().any(|unit| unit.resources.gpu.units > 0)
}

/// Returns the reason to decline new orders while the resources of a lease are unknown. `order` is the order
/// of this lease.
pub(super) fn unread_lease(order: &OrderId) -> Decline {
    Decline::Unknown {
        message: format!("the reservation of lease {order} is not known before the next full scan"),
    }
}

/// Creates a [`Decline`] with this reason: the GPUs are reserved for unplaced replicas of `order`.
pub(super) fn gpus_reserved_for(order: &OrderId) -> Decline {
    Decline::InsufficientCapacity {
        message: format!("GPUs are reserved for order {order}, which has replicas without a node"),
    }
}
