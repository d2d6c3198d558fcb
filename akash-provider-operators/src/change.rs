//! Changes of the objects of one kind, and tables that apply them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

/// Change of the objects of one kind.
#[derive(Debug, Clone, PartialEq, Hash)]
pub enum ObjectChange<K, V> {
    /// Complete list of the objects.
    Listed(BTreeMap<K, V>),
    /// New or changed object.
    Put(K, V),
    /// Deleted object, with its key and its last value.
    Gone(K, V),
}

impl<K, V> ObjectChange<K, V> {
    /// Returns the values of a list, the value of a changed object, or nothing for a deletion.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        let (all, one) = match self {
            Self::Listed(all) => (Some(all), None),
            Self::Put(_, value) => (None, Some(value)),
            Self::Gone(..) => (None, None),
        };
        all.into_iter().flat_map(BTreeMap::values).chain(one)
    }
}

/// Applies a change and returns the keys of changed values. Changes before the first list are ignored.
pub(super) fn changed<V: PartialEq>(
    table: &mut Option<BTreeMap<String, V>>,
    change: ObjectChange<String, V>,
) -> BTreeSet<String> {
    match change {
        ObjectChange::Listed(all) => {
            let before = table.take().unwrap_or_default();
            // A list is repeated after every outage, and reconciles only the keys that differ.
            let keys = before.keys().chain(all.keys());
            let touched = keys
                .filter(|key| before.get(*key) != all.get(*key))
                .cloned()
                .collect();
            *table = Some(all);
            touched
        }
        ObjectChange::Put(key, value) => {
            let Some(table) = table else {
                // The first list contains this object too.
                return BTreeSet::new();
            };
            table.insert(key.clone(), value);
            BTreeSet::from([key])
        }
        ObjectChange::Gone(key, _) => {
            if let Some(table) = table {
                table.remove(&key);
            }
            BTreeSet::from([key])
        }
    }
}

/// Returns the resource version of an object, or 0 for a version that is not a number.
#[must_use]
pub fn version_of(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    // With 0 for all objects, no event is dropped as outdated.
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}
