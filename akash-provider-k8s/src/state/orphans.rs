//! Objects with the label `akash.network=true` that belong to no lease. They are reported, and never deleted only
//! because they are orphans.

use super::CachedKind;
use super::index::LeaseIndex;
use akash_provider_core::types::LeaseId;
use std::fmt;

/// Reason why an object is an orphan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The lease has a namespace or workloads, but no Manifest.
    NoManifest,
    /// The lease of the ProviderHost or ProviderLeasedIP record has no Manifest and no namespace.
    NoLease,
    /// The object cannot be decoded, or does not identify a lease.
    Unreadable(String),
}

/// Object with the label `akash.network=true` that belongs to no lease or is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// Kind of the object.
    pub kind: CachedKind,
    /// Namespace of the lease, or of the object if the object names no lease.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Lease to which the object refers. `None` if the lease is unknown or belongs to another provider.
    pub lease: Option<LeaseId>,
    /// Reason why the object is an orphan.
    pub reason: Reason,
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, namespace, name) = (self.kind, &self.namespace, &self.name);
        write!(f, "{kind} {namespace}/{name}: ")?;
        match &self.reason {
            Reason::NoManifest => f.write_str("runs without a manifest"),
            Reason::NoLease => f.write_str("names a lease that does not exist"),
            Reason::Unreadable(why) => f.write_str(why),
        }
    }
}

/// Returns all orphans, sorted.
pub(super) fn orphans(index: &LeaseIndex) -> Vec<Orphan> {
    let mut found = Vec::new();
    for (home, entry) in &index.leases {
        let view = &entry.view;
        let mut add = |kind, name: &str, reason| {
            found.push(Orphan {
                kind,
                namespace: home.clone(),
                name: name.to_owned(),
                lease: entry.lease.clone(),
                reason,
            });
        };
        for ((kind, name), why) in &view.unreadable {
            add(*kind, name, Reason::Unreadable(why.clone()));
        }
        let manifest = view.manifest.is_some()
            || view
                .unreadable
                .contains_key(&(CachedKind::Manifests, home.clone()));
        // Other objects belong to that record.
        if manifest {
            continue;
        }
        if view.runs() {
            add(CachedKind::Namespaces, home, Reason::NoManifest);
            continue;
        }
        for name in view.hosts.keys() {
            add(CachedKind::Hosts, name, Reason::NoLease);
        }
        for name in view.ips.keys() {
            add(CachedKind::Ips, name, Reason::NoLease);
        }
    }
    for ((kind, namespace, name), why) in &index.strays {
        found.push(Orphan {
            kind: *kind,
            namespace: namespace.clone().unwrap_or_default(),
            name: name.clone(),
            lease: None,
            reason: Reason::Unreadable(why.clone()),
        });
    }
    found.sort_by(|a, b| (a.kind, &a.namespace, &a.name).cmp(&(b.kind, &b.namespace, &b.name)));
    found
}
