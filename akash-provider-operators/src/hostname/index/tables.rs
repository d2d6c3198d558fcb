//! Listed objects, by kind.

use super::{Name, ObjectKey};
use crate::change::ObjectChange;
use crate::hostname::live::LiveObject;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Objects of one kind.
#[derive(Debug, Clone, PartialEq, Hash, Default)]
pub(super) enum ObjectTable {
    /// The kind was never listed.
    #[default]
    Unknown,
    /// The cluster does not serve the kind.
    Absent,
    /// Objects by hostname and namespace.
    Known(BTreeMap<Name, BTreeMap<Name, LiveObject>>),
}

impl ObjectTable {
    pub(super) const fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    const fn all(&self) -> Option<&BTreeMap<Name, BTreeMap<Name, LiveObject>>> {
        match self {
            Self::Known(all) => Some(all),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// Returns the hostnames with an object of this kind.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.all().into_iter().flat_map(BTreeMap::keys)
    }

    pub(super) fn names_in(&self, range: (Bound<&str>, Bound<&str>)) -> impl Iterator<Item = &Name> {
        let all = self.all().into_iter();
        all.flat_map(move |all| all.range::<str, _>(range))
            .map(|(name, _)| name)
    }

    /// Returns the objects of a hostname, each with its namespace.
    pub(super) fn objects_of(&self, name: &str) -> impl Iterator<Item = (&Name, &LiveObject)> {
        self.all().and_then(|all| all.get(name)).into_iter().flatten()
    }

    pub(super) fn get(&self, name: &str, namespace: &str) -> Option<&LiveObject> {
        self.all()?.get(name)?.get(namespace)
    }

    /// Marks the kind as not served. Returns the hostnames that had objects of the kind.
    pub(super) fn vanish(&mut self) -> BTreeSet<Name> {
        let names = self.names().cloned().collect();
        *self = Self::Absent;
        names
    }

    /// Applies a change and returns the hostnames with changed objects.
    pub(super) fn apply(&mut self, change: ObjectChange<ObjectKey, LiveObject>) -> BTreeSet<Name> {
        match change {
            ObjectChange::Listed(all) => self.list(all),
            // Versions of one kind are ordered, so an event from before the writer's own write is dropped.
            ObjectChange::Put((namespace, name), live) => {
                let version = self.get(&name, &namespace).map_or(0, |version| version.version);
                if live.version < version {
                    return BTreeSet::new();
                }
                self.put(&name, &namespace, Some(live));
                BTreeSet::from([name])
            }
            ObjectChange::Gone((namespace, name), last) => {
                let version = self.get(&name, &namespace).map_or(0, |version| version.version);
                if last.version < version {
                    return BTreeSet::new();
                }
                self.put(&name, &namespace, None);
                BTreeSet::from([name])
            }
        }
    }

    fn list(&mut self, all: BTreeMap<ObjectKey, LiveObject>) -> BTreeSet<Name> {
        let mut listed: BTreeMap<Name, BTreeMap<Name, LiveObject>> = BTreeMap::new();
        for ((namespace, name), live) in all {
            listed.entry(name).or_default().insert(namespace, live);
        }
        let mut touched: BTreeSet<Name> = self.names().chain(listed.keys()).cloned().collect();
        // A list is repeated after every outage, and reconciles only the hostnames that differ.
        let before = self.all();
        touched.retain(|name| before.is_none_or(|before| before.get(name) != listed.get(name)));
        *self = Self::Known(listed);
        touched
    }

    /// Inserts or removes an object. Has no effect before the first list.
    pub(super) fn put(&mut self, name: &str, namespace: &str, live: Option<LiveObject>) {
        let Self::Known(all) = self else {
            return;
        };
        let places = all.entry(name.to_owned()).or_default();
        match live {
            Some(live) => drop(places.insert(namespace.to_owned(), live)),
            None => drop(places.remove(namespace)),
        }
        if places.is_empty() {
            all.remove(name);
        }
    }

    #[cfg(test)]
    pub(super) fn versions(&mut self) -> impl Iterator<Item = &mut u64> {
        let all = match self {
            Self::Known(all) => Some(all),
            Self::Unknown | Self::Absent => None,
        };
        let places = all.into_iter().flat_map(BTreeMap::values_mut);
        places
            .flat_map(BTreeMap::values_mut)
            .map(|live| &mut live.version)
    }
}
