//! What the watches said, kind by kind.

use super::{Name, Place};
use crate::operators::change::Change;
use crate::operators::hostname::live::Live;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The objects of a kind, as far as they are known.
#[derive(Debug, Clone, PartialEq, Hash, Default)]
pub(super) enum Table {
    /// They were never listed.
    #[default]
    Unknown,
    /// The cluster has no such kind.
    Absent,
    /// By hostname and namespace.
    Known(BTreeMap<Name, BTreeMap<Name, Live>>),
}

impl Table {
    pub(super) const fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    const fn all(&self) -> Option<&BTreeMap<Name, BTreeMap<Name, Live>>> {
        match self {
            Self::Known(all) => Some(all),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// The hostnames that have an object of this kind.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.all().into_iter().flat_map(BTreeMap::keys)
    }

    /// Those of them that are in a range.
    pub(super) fn names_in(&self, range: (Bound<&str>, Bound<&str>)) -> impl Iterator<Item = &Name> {
        let all = self.all().into_iter();
        all.flat_map(move |all| all.range::<str, _>(range))
            .map(|(name, _)| name)
    }

    /// The objects of a hostname, by namespace.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = (&Name, &Live)> {
        self.all().and_then(|all| all.get(name)).into_iter().flatten()
    }

    pub(super) fn get(&self, name: &str, namespace: &str) -> Option<&Live> {
        self.all()?.get(name)?.get(namespace)
    }

    /// The cluster has no such kind; the names that had objects of it.
    pub(super) fn vanish(&mut self) -> BTreeSet<Name> {
        let names = self.names().cloned().collect();
        *self = Self::Absent;
        names
    }

    /// Takes a change; the names whose objects are other ones by then.
    pub(super) fn apply(&mut self, change: Change<Place, Live>) -> BTreeSet<Name> {
        match change {
            Change::Listed(all) => self.list(all),
            // Versions of one kind are in order, so that an event from before our own write changes nothing.
            Change::Put((namespace, name), live) => {
                let known = self.get(&name, &namespace).map_or(0, |known| known.version);
                if live.version < known {
                    return BTreeSet::new();
                }
                self.put(&name, &namespace, Some(live));
                BTreeSet::from([name])
            }
            Change::Gone((namespace, name), last) => {
                let known = self.get(&name, &namespace).map_or(0, |known| known.version);
                if last.version < known {
                    return BTreeSet::new();
                }
                self.put(&name, &namespace, None);
                BTreeSet::from([name])
            }
        }
    }

    fn list(&mut self, all: BTreeMap<Place, Live>) -> BTreeSet<Name> {
        let mut listed: BTreeMap<Name, BTreeMap<Name, Live>> = BTreeMap::new();
        for ((namespace, name), live) in all {
            listed.entry(name).or_default().insert(namespace, live);
        }
        let mut touched: BTreeSet<Name> = self.names().chain(listed.keys()).cloned().collect();
        // A list comes again after every outage, and must not make it everybody's turn.
        let before = self.all();
        touched.retain(|name| before.is_none_or(|before| before.get(name) != listed.get(name)));
        *self = Self::Known(listed);
        touched
    }

    /// Before the first list nothing counts, and that list has it too.
    pub(super) fn put(&mut self, name: &str, namespace: &str, live: Option<Live>) {
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

    /// The version of every object.
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
