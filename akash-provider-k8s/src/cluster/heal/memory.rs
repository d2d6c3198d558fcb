//! State of the repairs between two looks at a lease.

use super::super::differences::meta_of;
use super::super::is_as_new;
use crate::apply::item::Id;
use crate::crd::Manifest;
use crate::drift::Calm;
use crate::state::LeaseView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// State between two looks.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) calm: Calm<(String, Id)>,
    /// The same for the labels of namespaces.
    pub(super) labels: Calm<String>,
    /// Versions of repaired objects that their watches have not shown yet.
    pub(super) repaired: BTreeMap<String, BTreeMap<Id, Option<String>>>,
    /// Leases that are to be looked at again without a change.
    pub(super) later: BTreeMap<String, Instant>,
    /// Objects that were logged and are left alone.
    pub(super) logged: BTreeMap<String, BTreeSet<Id>>,
    /// The last record of each lease by which it was applied; shared with the cache until the record changes.
    pub(super) records: BTreeMap<String, Arc<Manifest>>,
}

impl Memory {
    /// Drops the stored state of a removed lease.
    pub(super) fn forget(&mut self, home: &str) {
        self.logged.remove(home);
        self.records.remove(home);
        self.repaired.remove(home);
    }

    /// True for an object that the watches show as it was before its last repair.
    pub(super) fn is_outdated(&mut self, home: &str, id: &Id, view: &LeaseView) -> bool {
        let Some(versions) = self.repaired.get_mut(home) else {
            return false;
        };
        let (Some(version), Some(meta)) = (versions.get(id), meta_of(view, id)) else {
            return false;
        };
        let is_outdated = !is_as_new(meta, version.as_deref());
        if !is_outdated {
            versions.remove(id);
        }
        is_outdated
    }

    /// Logs the objects that are left as others made them, each once until it is restored.
    pub(super) fn log(&mut self, home: &str, left: impl Iterator<Item = (Id, String)>) {
        let before = self.logged.remove(home).unwrap_or_default();
        let mut now = BTreeSet::new();
        for (object, reason) in left {
            if !before.contains(&object) {
                tracing::warn!(namespace = home, %object, reason, "it is not as it was applied, and left so until the next deploy");
            }
            now.insert(object);
        }
        if !now.is_empty() {
            self.logged.insert(home.to_owned(), now);
        }
    }
}
