//! Utilization of the cluster before and after an order.

use crate::inventory::{Metrics, Pair};
use crate::types::{Dec, ResourceUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Utilization of one resource of the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Total amount of all nodes; [`Pair::UNLIMITED`] if a node has no limit.
    pub total: u64,
    /// Amount in use before the order is placed: the usage of other workloads, plus the reservations for bids
    /// and leases. The amount can exceed `total`.
    pub before: u64,
    /// Amount in use, including the order.
    pub after: u64,
}

impl ResourceUsage {
    /// Returns the used share without the order, from 0 to 1, or above 1 if the resource is overcommitted.
    /// Returns `None` if the total is zero or unlimited.
    #[must_use]
    pub fn share_before(self) -> Option<Dec> {
        self.share(self.before)
    }

    /// Returns the used share including the order. The range and the meaning of `None` are the same as in
    /// [`share_before`](Self::share_before).
    #[must_use]
    pub fn share_after(self) -> Option<Dec> {
        self.share(self.after)
    }

    fn share(self, used: u64) -> Option<Dec> {
        if self.total == Pair::UNLIMITED {
            return None;
        }
        // 64-bit integers exceed the range of the decimals, their quotient does not.
        let scaled = |amount: u64| Dec::from_scaled(i128::from(amount));
        scaled(used).checked_div(scaled(self.total))
    }

    fn from_pair(pair: Pair) -> Self {
        let used = pair.allocatable.saturating_sub(pair.available);
        Self {
            total: pair.allocatable,
            before: used,
            after: used,
        }
    }

    fn join(&mut self, other: Self) {
        // Saturating, so that one unlimited node makes the total unlimited.
        self.total = self.total.saturating_add(other.total);
        self.before = self.before.saturating_add(other.before);
        self.after = self.after.saturating_add(other.after);
    }

    fn take(&mut self, amount: u64, is_order: bool) {
        self.after = self.after.saturating_add(amount);
        if !is_order {
            self.before = self.before.saturating_add(amount);
        }
    }
}

/// Utilization of the whole cluster by resource, before and after an order. The amounts take overcommit into
/// account.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Utilization {
    /// CPU in millicores.
    pub cpu: ResourceUsage,
    /// Memory in bytes, including volumes in memory.
    pub memory: ResourceUsage,
    /// Ephemeral storage in bytes.
    pub storage: ResourceUsage,
    /// Persistent storage in bytes, by class.
    pub persistent: BTreeMap<String, ResourceUsage>,
    /// Whole GPU devices of all kinds.
    pub gpu: ResourceUsage,
}

impl Utilization {
    /// Creates the utilization of a cluster from metrics. No order is included, so `before` and `after` are
    /// equal.
    pub(crate) fn from_metrics(metrics: &Metrics) -> Self {
        let mut all = Self::default();
        for node in &metrics.nodes {
            all.cpu.join(ResourceUsage::from_pair(node.cpu));
            all.memory.join(ResourceUsage::from_pair(node.memory));
            all.storage.join(ResourceUsage::from_pair(node.storage_ephemeral));
            all.gpu.join(ResourceUsage::from_pair(node.gpu));
        }
        let classes = metrics.storage.iter();
        all.persistent = classes
            .map(|(name, pair)| (name.clone(), ResourceUsage::from_pair(*pair)))
            .collect();
        all
    }

    /// Returns the name and the used share of the scarcest requested resource. The share includes the order.
    /// Returns `None` if no requested resource has a share.
    #[must_use]
    pub fn scarcest(&self, units: &[ResourceUnit]) -> Option<(String, Dec)> {
        let asks = |of: fn(&ResourceUnit) -> u64| units.iter().any(|unit| of(unit) > 0);
        let plain = [
            ("CPU", self.cpu, asks(|unit| unit.resources.cpu.units)),
            ("memory", self.memory, asks(|unit| unit.resources.memory.bytes)),
            ("GPU", self.gpu, asks(|unit| unit.resources.gpu.units)),
        ];
        let plain = plain.into_iter().filter(|(.., is_asked)| *is_asked);
        let plain = plain.map(|(name, used, _)| (name.to_owned(), used));
        let volumes = units.iter().flat_map(|unit| &unit.resources.storage);
        let volumes = volumes.filter_map(|volume| match volume.class().filter(|_| volume.is_persistent()) {
            Some(class) => Some((format!("storage of class {class}"), *self.persistent.get(class)?)),
            None if volume.is_ram() => None,
            None => Some(("ephemeral storage".to_owned(), self.storage)),
        });
        let shares = plain
            .chain(volumes)
            .filter_map(|(name, used)| Some((name, used.share_after()?)));
        shares.reduce(|most, next| if next.1 > most.1 { next } else { most })
    }

    /// Adds the reserved units of other orders to both amounts, [`before`](ResourceUsage::before) and
    /// [`after`](ResourceUsage::after).
    pub(crate) fn hold(&mut self, units: &[ResourceUnit]) {
        self.take(units, false);
    }

    /// Adds the units of the order to [`after`](ResourceUsage::after).
    pub(crate) fn add(&mut self, units: &[ResourceUnit]) {
        self.take(units, true);
    }

    fn take(&mut self, units: &[ResourceUnit], is_order: bool) {
        for unit in units {
            let all = |each: u64| each.saturating_mul(u64::from(unit.count));
            let resources = &unit.resources;
            self.cpu.take(all(resources.cpu.units), is_order);
            self.memory.take(all(resources.memory.bytes), is_order);
            self.gpu.take(all(resources.gpu.units), is_order);
            let ephemeral = resources.ephemeral_bytes().unwrap_or(u64::MAX);
            self.storage.take(all(ephemeral), is_order);
            let others = resources.storage.iter();
            for volume in others.filter(|v| v.is_persistent() || v.is_ram()) {
                let of = match volume.class().filter(|_| volume.is_persistent()) {
                    Some(class) => self.persistent.entry(class.to_owned()).or_default(),
                    None if volume.is_ram() => &mut self.memory,
                    None => &mut self.storage,
                };
                of.take(all(volume.bytes), is_order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_total() {
        let used = ResourceUsage {
            total: 8_000,
            before: 2_000,
            after: 9_000,
        };
        assert_eq!(used.share_before(), "0.25".parse().ok());
        assert_eq!(used.share_after(), "1.125".parse().ok());
        let large = ResourceUsage {
            total: u64::MAX - 1,
            before: u64::MAX - 1,
            after: u64::MAX,
        };
        assert_eq!(large.share_before(), "1".parse().ok());
        let endless = ResourceUsage {
            total: Pair::UNLIMITED,
            ..used
        };
        assert_eq!(
            (endless.share_before(), ResourceUsage::default().share_after()),
            (None, None)
        );
    }
}
