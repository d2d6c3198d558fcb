//! Log messages about resources that the cluster has but does not offer.

use crate::inventory::InventoryUpdate;
use std::collections::BTreeSet;

/// Maximum number of logged lines per change. The status has all lines.
const LOGGED: usize = 20;

/// Ignored resources of the last update.
#[derive(Debug, Default)]
pub(super) struct IgnoredResources(BTreeSet<String>);

impl IgnoredResources {
    /// Logs resources that became ignored or are no longer ignored.
    pub(super) fn follow(&mut self, update: &InventoryUpdate) {
        let (came, went) = self.change(update.inventory.metrics().ignored);
        for line in came.iter().take(LOGGED) {
            tracing::warn!(resource = line, "cluster resource not offered");
        }
        for line in went.iter().take(LOGGED) {
            tracing::info!(resource = line, "cluster resource offered again");
        }
        let more = came.len().max(went.len()).saturating_sub(LOGGED);
        if more > 0 {
            tracing::warn!(
                count = more,
                "more cluster resources changed than logged; the status lists all resources that are not offered"
            );
        }
    }

    /// Returns the added and the removed lines.
    fn change(&mut self, lines: Vec<String>) -> (Vec<String>, Vec<String>) {
        let now = BTreeSet::from_iter(lines);
        let came = now.difference(&self.0).cloned().collect();
        let went = self.0.difference(&now).cloned().collect();
        self.0 = now;
        (came, went)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_resource_is_logged_when_added_and_removed() {
        let lines = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
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
