//! Changes of one kind of objects, as a watch tells them, and tables that follow them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

/// A change of one kind.
#[derive(Debug, Clone, PartialEq, Hash)]
pub enum Change<K, V> {
    /// Everything there is: a list that is complete.
    Listed(BTreeMap<K, V>),
    /// One that is new or changed.
    Put(K, V),
    /// One that is gone, as it was last.
    Gone(K, V),
}

impl<K, V> Change<K, V> {
    /// The values that it brings.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        let (all, one) = match self {
            Self::Listed(all) => (Some(all), None),
            Self::Put(_, value) => (None, Some(value)),
            Self::Gone(..) => (None, None),
        };
        all.into_iter().flat_map(BTreeMap::values).chain(one)
    }
}

/// Changes a table; the keys whose value is another one by then. Before its first list an event tells nothing: the
/// list does.
pub(super) fn changed<V: PartialEq>(
    table: &mut Option<BTreeMap<String, V>>,
    change: Change<String, V>,
) -> BTreeSet<String> {
    match change {
        Change::Listed(all) => {
            let before = table.take().unwrap_or_default();
            // A list comes again after every outage, and must not make it everybody's turn.
            let keys = before.keys().chain(all.keys());
            let touched = keys
                .filter(|key| before.get(*key) != all.get(*key))
                .cloned()
                .collect();
            *table = Some(all);
            touched
        }
        Change::Put(key, value) => {
            let Some(table) = table else {
                // Before the first list nothing counts, and that list has it too.
                return BTreeSet::new();
            };
            table.insert(key.clone(), value);
            BTreeSet::from([key])
        }
        Change::Gone(key, _) => {
            if let Some(table) = table {
                table.remove(&key);
            }
            BTreeSet::from([key])
        }
    }
}

/// The version of an object; 0 where it is no number, which counts as the oldest.
#[must_use]
pub fn version_of(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    // Where versions are no numbers all are equal, and no event is dropped as an old one.
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}
