//! Log messages about resources that the cluster has but does not offer.

use crate::inventory::{IgnoredResource, InventoryUpdate};
use std::collections::BTreeSet;

/// Maximum number of logged lines per change.
const LOGGED: usize = 20;

/// Ignored resources of the last inventory update.
#[derive(Debug, Default)]
pub(super) struct IgnoredResources(BTreeSet<IgnoredResource>);

impl IgnoredResources {
    /// Logs resources that became ignored or are no longer ignored.
    pub(super) fn follow(&mut self, update: &InventoryUpdate) {
        let (came, went) = self.change(update.inventory.metrics().ignored);
        for ignored in came.iter().take(LOGGED) {
            tracing::warn!(
                resource = ignored.reason(),
                help = ignored.help(),
                "provider does not offer this cluster resource to tenants"
            );
        }
        for ignored in went.iter().take(LOGGED) {
            tracing::info!(
                resource = ignored.reason(),
                "provider offers this cluster resource to tenants again"
            );
        }
        let more = came.len().max(went.len()).saturating_sub(LOGGED);
        if more > 0 {
            tracing::warn!(
                count = more,
                "more cluster resources changed than are logged; run `provider-daemon capacity` to list all resources that are not offered"
            );
        }
    }

    /// Replaces the stored resources, and returns the added and the removed resources.
    fn change(&mut self, resources: Vec<IgnoredResource>) -> (Vec<IgnoredResource>, Vec<IgnoredResource>) {
        let now = BTreeSet::from_iter(resources);
        let came = now.difference(&self.0).cloned().collect();
        let went = self.0.difference(&now).cloned().collect();
        self.0 = now;
        (came, went)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::IgnoredKind;

    #[test]
    fn an_ignored_resource_is_logged_when_added_and_removed() {
        let resource = |reason: &&str| IgnoredResource::new(IgnoredKind::Node, *reason, "");
        let lines = |reasons: &[&str]| reasons.iter().map(resource).collect::<Vec<_>>();
        let mut ignored = IgnoredResources::default();
        assert_eq!(
            ignored.change(lines(&["a", "b"])),
            (lines(&["a", "b"]), lines(&[]))
        );
        assert_eq!(ignored.change(lines(&["b", "a"])), (lines(&[]), lines(&[])));
        assert_eq!(ignored.change(lines(&["b", "c"])), (lines(&["c"]), lines(&["a"])));
        assert_eq!(ignored.change(lines(&[])), (lines(&[]), lines(&["b", "c"])));
    }
}
