//! How much of the cluster is in use, before and after what is to be priced.

use crate::inventory::{Metrics, Pair};
use crate::types::{Dec, ResourceUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Use of one resource of the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Used {
    /// What the nodes have; [`Pair::UNLIMITED`] where one has no limit.
    pub total: u64,
    /// In use without the order: by others than our leases, and reserved for bids and leases. It may be above `total`
    /// where capacity shrank under a reservation.
    pub before: u64,
    /// In use with the order.
    pub after: u64,
}

impl Used {
    /// Share of the total in use without the order: 0 for nothing, 1 for all of it, above 1 where there is too little.
    /// `None` where there is none of it, or no limit.
    #[must_use]
    pub fn share_before(self) -> Option<Dec> {
        self.share(self.before)
    }

    /// The same with the order.
    #[must_use]
    pub fn share_after(self) -> Option<Dec> {
        self.share(self.after)
    }

    fn share(self, used: u64) -> Option<Dec> {
        if self.total == Pair::UNLIMITED {
            return None;
        }
        // Whole numbers of 64 bits are too large for the decimals; their quotient is not.
        let scaled = |amount: u64| Dec::from_scaled(i128::from(amount));
        scaled(used).checked_div(scaled(self.total))
    }

    fn of(pair: Pair) -> Self {
        let used = pair.allocatable.saturating_sub(pair.available);
        Self {
            total: pair.allocatable,
            before: used,
            after: used,
        }
    }

    fn join(&mut self, other: Self) {
        // Saturating, so that one node without a limit leaves none for the whole.
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

/// Use of the whole cluster, by resource, before and after an order: as the provider's own ledger counts it, commit
/// levels applied.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Utilization {
    /// Milli-CPU; 1000 is one core.
    pub cpu: Used,
    /// Bytes, volumes in memory included.
    pub memory: Used,
    /// Bytes of ephemeral storage.
    pub storage: Used,
    /// Bytes of persistent storage, by class.
    pub persistent: BTreeMap<String, Used>,
    /// Whole GPU devices, of all kinds.
    pub gpu: Used,
}

impl Utilization {
    /// What a cluster has, and what is in use of it by others.
    pub(crate) fn of(metrics: &Metrics) -> Self {
        let mut all = Self::default();
        for node in &metrics.nodes {
            all.cpu.join(Used::of(node.cpu));
            all.memory.join(Used::of(node.memory));
            all.storage.join(Used::of(node.storage_ephemeral));
            all.gpu.join(Used::of(node.gpu));
        }
        let classes = metrics.storage.iter();
        all.persistent = classes
            .map(|(name, pair)| (name.clone(), Used::of(*pair)))
            .collect();
        all
    }

    /// The resource of which the largest share is in use with the order, among those that its units ask for, and that
    /// share. `None` where none of them has a share.
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

    /// Counts units that somebody holds.
    pub(crate) fn hold(&mut self, units: &[ResourceUnit]) {
        self.take(units, false);
    }

    /// Counts the units of the order.
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
        let used = Used {
            total: 8_000,
            before: 2_000,
            after: 9_000,
        };
        assert_eq!(used.share_before(), "0.25".parse().ok());
        assert_eq!(used.share_after(), "1.125".parse().ok());
        let large = Used {
            total: u64::MAX - 1,
            before: u64::MAX - 1,
            after: u64::MAX,
        };
        assert_eq!(large.share_before(), "1".parse().ok());
        let endless = Used {
            total: Pair::UNLIMITED,
            ..used
        };
        assert_eq!(
            (endless.share_before(), Used::default().share_after()),
            (None, None)
        );
    }
}
