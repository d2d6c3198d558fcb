//! What has our label and belongs to nothing: to be looked at, never a reason by itself to destroy anything.

use super::Kind;
use super::index::Index;
use akash_provider_core::types::LeaseId;
use std::fmt;

/// Why something is an orphan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It runs, and no Manifest says what it should be.
    NoManifest,
    /// It is declared for a lease that has neither a Manifest nor a namespace.
    NoLease,
    /// It cannot be read, or names no lease.
    Unreadable(String),
}

/// Something with our label that belongs to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Kind of the object, as it is watched.
    pub kind: Kind,
    /// Namespace of the lease, or of the object where it names none.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The lease, where it is ours.
    pub lease: Option<LeaseId>,
    /// Why it belongs to nothing.
    pub reason: Reason,
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, namespace, name) = (self.kind, &self.namespace, &self.name);
        write!(f, "{kind} {namespace}/{name}: ")?;
        match &self.reason {
            Reason::NoManifest => f.write_str("runs without a manifest"),
            Reason::NoLease => f.write_str("leads to a lease that is not there"),
            Reason::Unreadable(why) => f.write_str(why),
        }
    }
}

/// All of them, sorted.
pub(super) fn orphans(index: &Index) -> Vec<Orphan> {
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
        let manifest =
            view.manifest.is_some() || view.unreadable.contains_key(&(Kind::Manifests, home.clone()));
        // Whatever else there is belongs to that record.
        if manifest {
            continue;
        }
        if view.runs() {
            add(Kind::Namespaces, home, Reason::NoManifest);
            continue;
        }
        for name in view.hosts.keys() {
            add(Kind::Hosts, name, Reason::NoLease);
        }
        for name in view.ips.keys() {
            add(Kind::Ips, name, Reason::NoLease);
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
