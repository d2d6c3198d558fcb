//! Pure index of the hostname operator: receives watch events and returns the work for each hostname.
//!
//! At most one ProviderHost record declares a hostname, so a hostname routes to at most one lease. A list is
//! used only when it is complete. No work is done before ProviderHosts, Manifests and the routes of the
//! configured mode were listed, and no object of an unlisted kind is deleted. The operator may delete an
//! object only if two conditions hold: the labels of the object name a lease of a provider that has records
//! in this cluster, and the object is in the namespace of that lease.
//!
//! Objects that a route references are written before the route and deleted after it. A route of the other
//! mode is deleted when the route of the configured mode is accepted or, for a new Ingress without a reported
//! status, after the handover time.

mod tables;
mod wanted;

use super::certificate::Issuer;
use super::facts::{DecodedRecord, Exposes, Host};
use super::live::{Acceptance, LiveObject};
use super::object_kind::ObjectKind;
use super::route::Mode;
use crate::change::changed;
use akash_provider_core::engine::hostnames::HostnameLedger;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_core::types::{Address, LeaseId};
use akash_provider_kube_kernel::audit::MissingRecord;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tables::ObjectTable;

pub use crate::change::ObjectChange;

/// Hostname or namespace of an object.
type Name = String;
/// Namespace and hostname of an object.
pub type ObjectKey = (Name, Name);

/// Change from a watch or from the writer.
#[derive(Debug, Clone, PartialEq, Hash)]
pub enum HostnameEvent {
    /// Change of ProviderHosts, by hostname.
    Hosts(ObjectChange<Name, DecodedRecord<Host>>),
    /// Change of Manifests. The key of a Manifest is the namespace of its lease.
    Manifests(ObjectChange<Name, DecodedRecord<Exposes>>),
    /// Change of the objects of a kind. The key is the namespace and the hostname of the object.
    Objects(ObjectKind, ObjectChange<ObjectKey, LiveObject>),
    /// The cluster does not serve this kind.
    Absent(ObjectKind),
    /// The writer deleted an object of this kind. Contains the namespace and hostname of the object, and the
    /// UID.
    Deleted(ObjectKind, ObjectKey, String),
}

/// Rules for the objects that the operator creates for hostnames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RoutePlan {
    /// Kind of the routes that the operator creates, with the settings for this kind.
    pub mode: Mode,
    /// Issuer of certificates; `None` for no certificates. Only Ingresses reference certificates.
    pub issuer: Option<Issuer>,
    /// Whether to keep existing routes of the other mode (Ingresses in Gateway API mode, HTTPRoutes in
    /// Ingress mode).
    pub keep_other_routes: bool,
    /// Hostnames for which the operator creates no new route. Existing routes remain.
    pub blocked: HostnameLedger,
    /// Rule that selects the hostnames with a required proof; `None` if no hostname requires a proof.
    pub proof: Option<ProofRule>,
}

/// Rule that selects the hostnames that require a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofRule {
    /// Domain of automatic hostnames (`--deployment-ingress-domain`). Hostnames in this domain need no proof.
    pub own_domain: String,
}

impl From<Mode> for RoutePlan {
    fn from(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

/// Observed objects of the cluster. The index determines the work for each hostname.
#[derive(Debug, Clone)]
pub struct HostnameIndex {
    plan: RoutePlan,
    hosts: Option<BTreeMap<Name, DecodedRecord<Host>>>,
    manifests: Option<BTreeMap<Name, DecodedRecord<Exposes>>>,
    objects: BTreeMap<ObjectKind, ObjectTable>,
    /// Providers that have, or had, ProviderHost records in this cluster.
    providers: BTreeSet<Address>,
    /// Hostnames with a ProviderHost record that was removed after the operator started.
    removed: BTreeSet<Name>,
}

/// Work for a hostname; empty if the objects are in the desired state.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostnameWork {
    /// Filter of the route. The operator writes the filter before the route.
    pub filter: Option<HostnameWrite>,
    /// Route to write.
    pub write: Option<HostnameWrite>,
    /// Certificate to request after the write of the route.
    pub certificate: Option<HostnameWrite>,
    /// Objects to delete after the write of the route, even if this write failed.
    pub deletes: Vec<Delete>,
    /// HTTPRoutes that stay until the handover time has elapsed.
    pub held: Vec<Delete>,
    /// Reason why the hostname has no route.
    pub problem: Option<String>,
    /// Missing record that causes all `deletes`. `None` if the deletions have another cause.
    pub missing: Option<MissingRecord>,
    /// True if the required TXT record of the hostname was removed from DNS, which causes all `deletes`.
    pub is_withdrawn: bool,
}

/// Object to write.
#[derive(Debug, Clone, PartialEq)]
pub struct HostnameWrite {
    /// Kind of the object.
    pub sort: ObjectKind,
    /// Namespace of the lease and of the object.
    pub namespace: Name,
    /// Complete object to apply.
    pub body: Value,
    /// UID of the existing object; `None` for a new object.
    pub uid: Option<String>,
    /// True if the object has a surplus field of another client. To remove this field, the operator first
    /// takes over the fields of the object.
    pub take_over: bool,
    /// Merge patch that removes fields of other clients. If set, the operator sends this patch, and does not
    /// apply the object.
    pub patch: Option<Value>,
    /// Path of the first field that differs; empty for a new object.
    pub at: String,
}

/// Object to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// Kind of the object.
    pub sort: ObjectKind,
    /// Namespace of the object.
    pub namespace: Name,
    /// UID of the object.
    pub uid: String,
}

impl HostnameWork {
    /// Returns true if there is nothing to write or to delete now.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.writes().next().is_none() && self.deletes.is_empty()
    }

    /// Returns the objects to write, in order.
    pub fn writes(&self) -> impl Iterator<Item = &HostnameWrite> {
        [&self.filter, &self.write, &self.certificate]
            .into_iter()
            .flatten()
    }
}

impl HostnameIndex {
    /// Creates an index without state. No work is done before the initial lists.
    #[must_use]
    pub fn new(plan: impl Into<RoutePlan>) -> Self {
        Self {
            plan: plan.into(),
            hosts: None,
            manifests: None,
            objects: ObjectKind::ALL.map(|sort| (sort, ObjectTable::default())).into(),
            providers: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }

    /// Returns the kind of the operator's routes, and the settings for this kind.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.plan.mode
    }

    /// Returns the rules for the objects that the operator creates for hostnames.
    #[must_use]
    pub const fn plan(&self) -> &RoutePlan {
        &self.plan
    }

    /// Returns true after every required kind was listed.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.hosts.is_some() && self.manifests.is_some() && self.table(self.mode().sort()).is_known()
    }

    /// Applies an event and returns the hostnames to reconcile.
    pub fn apply(&mut self, event: HostnameEvent) -> BTreeSet<Name> {
        match event {
            HostnameEvent::Hosts(change) => self.apply_hosts(change),
            HostnameEvent::Manifests(change) => self.apply_manifests(change),
            HostnameEvent::Objects(sort, change) => self.apply_objects(sort, change),
            HostnameEvent::Absent(sort) => match self.objects.entry(sort).or_default() {
                ObjectTable::Absent => BTreeSet::new(),
                table => {
                    table.vanish();
                    self.names()
                }
            },
            HostnameEvent::Deleted(sort, (namespace, name), uid) => {
                // An object that was created again under the name has another UID.
                if self
                    .live(sort, &name, &namespace)
                    .is_some_and(|live| live.uid == uid)
                {
                    self.objects.entry(sort).or_default().put(&name, &namespace, None);
                }
                BTreeSet::from([name])
            }
        }
    }

    /// Returns all hostnames that have a ProviderHost record or an object.
    #[must_use]
    pub fn names(&self) -> BTreeSet<Name> {
        let declared = self.hosts.iter().flat_map(BTreeMap::keys);
        let made = self.objects.values().flat_map(ObjectTable::names);
        declared.chain(made).cloned().collect()
    }

    /// Returns at most `limit` hostnames that follow `after` in alphabetical order.
    #[must_use]
    pub fn names_after<'a>(&'a self, after: Option<&str>, limit: usize) -> BTreeSet<&'a Name> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (start, Bound::Unbounded);
        // The first names of the union are among the first names of each table.
        let declared = self.hosts.iter().flat_map(|all| all.range::<str, _>(range));
        let mut names: BTreeSet<&Name> = declared.map(|(name, _)| name).take(limit).collect();
        for table in self.objects.values() {
            names.extend(table.names_in(range).take(limit));
        }
        while names.len() > limit {
            names.pop_last();
        }
        names
    }

    /// Returns true for a hostname that has a ProviderHost record or an object.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.host(name).is_some()
            || self
                .objects
                .values()
                .any(|table| table.objects_of(name).next().is_some())
    }

    /// Returns the number of ProviderHost records, valid or not.
    #[must_use]
    pub fn declared(&self) -> usize {
        self.hosts.as_ref().map_or(0, BTreeMap::len)
    }

    /// Returns the decoded ProviderHost record of a hostname, or `None` without a record.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&DecodedRecord<Host>> {
        self.hosts.as_ref()?.get(name)
    }

    /// Returns the route of a hostname in a namespace.
    #[must_use]
    pub fn route(&self, name: &str, namespace: &str) -> Option<&LiveObject> {
        self.live(self.mode().sort(), name, namespace)
    }

    /// Returns an object of a hostname in a namespace.
    #[must_use]
    pub fn live(&self, sort: ObjectKind, name: &str, namespace: &str) -> Option<&LiveObject> {
        self.table(sort).get(name, namespace)
    }

    /// Returns the namespaces with an old route of the hostname: an Ingress in Gateway API mode, or an
    /// HTTPRoute in Ingress mode. Contains only routes that the operator is permitted to delete.
    pub fn other_routes(&self, name: &str) -> impl Iterator<Item = &Name> {
        let routes = self.table(self.mode().other()).objects_of(name);
        let ours = routes.filter(|(namespace, live)| self.is_ours(namespace, live));
        ours.map(|(namespace, _)| namespace)
    }

    /// Returns why the proxy does not apply the tenant's options, or `None` if the proxy applies the options.
    #[must_use]
    pub fn options_problem(&self, name: &str, namespace: &str) -> Option<String> {
        if !self.mode().has_filters() {
            return None;
        }
        match (self.table(ObjectKind::Filter), self.live(ObjectKind::Filter, name, namespace)) {
            (ObjectTable::Absent, _) => Some("the cluster does not serve SnippetsFilters; the limits of the proxy apply".to_owned()),
            (ObjectTable::Unknown, _) => Some("the list of SnippetsFilters is pending".to_owned()),
            (_, None) => Some("the SnippetsFilter is not written yet".to_owned()),
            (_, Some(live)) => match &live.accepted {
                Acceptance::Yes => None,
                Acceptance::No(why) => Some(format!("the SnippetsFilter is not accepted: {why}")),
                Acceptance::Unknown => Some(
                    "no controller has accepted the SnippetsFilter; NGINX Gateway Fabric requires --snippets-filters"
                        .to_owned(),
                ),
            },
        }
    }

    /// Returns the work for a hostname.
    #[must_use]
    pub fn work(&self, name: &str) -> HostnameWork {
        if !self.is_known() {
            return HostnameWork::default();
        }
        match self.host(name) {
            None => self.without_host(name),
            // The declaration is unknown, so existing objects are unchanged.
            Some(Err(problem)) => HostnameWork {
                problem: Some(format!("invalid ProviderHost: {problem}")),
                ..HostnameWork::default()
            },
            Some(Ok(host)) => self.with_host(name, host),
        }
    }

    fn without_host(&self, name: &str) -> HostnameWork {
        let goes = self.ours(name).filter(|(sort, place, _)| {
            // A route is deleted before the objects that it references.
            sort.is_route() || self.live(sort.route(), name, place).is_none()
        });
        let deletes: Vec<_> = goes
            .map(|(sort, place, live)| delete(sort, place, live))
            .collect();
        let foreign = self
            .routes_of(name)
            .any(|(_, place, live)| !self.is_ours(place, live));
        let has_reason = self.removed.contains(name)
            || deletes
                .iter()
                .all(|gone| self.has_given_up(&gone.namespace, name));
        let problem = foreign.then(|| {
            "the route belongs to a provider that has no records in this cluster; delete the route with the tool that created it".to_owned()
        });
        HostnameWork {
            missing: (!deletes.is_empty()).then(|| MissingRecord {
                key: name.to_owned(),
                has_reason,
            }),
            deletes,
            problem,
            ..HostnameWork::default()
        }
    }

    fn with_host(&self, name: &str, host: &Host) -> HostnameWork {
        let mut work = match self.wanted(name, host) {
            Ok(work) => work,
            Err(problem) => HostnameWork {
                problem: Some(problem),
                ..HostnameWork::default()
            },
        };
        let is_settled = work.problem.is_none() && work.write.is_none();
        let is_withdrawn = self.is_withdrawn(name, host);
        work.is_withdrawn = is_withdrawn;
        let serves = self.route(name, &host.namespace).map(|live| &live.accepted);
        for (sort, place, live) in self.ours(name) {
            let is_here = *place == host.namespace;
            let gone = delete(sort, place, live);
            if is_withdrawn && sort.is_route() {
                work.deletes.push(gone);
            } else if !sort.is_route() {
                if self.is_left_over(sort, name, place, is_here && !is_withdrawn, is_settled) {
                    work.deletes.push(gone);
                }
            } else if live.lease.as_ref().map(LeaseId::owner) != Some(host.lease.owner()) {
                // The route of another tenant must not serve this hostname.
                work.deletes.push(gone);
            } else if sort == self.mode().sort() {
                // A route of the same tenant serves until the new route can be written.
                if !is_here && work.problem.is_none() {
                    work.deletes.push(gone);
                }
            } else if is_settled && !self.plan.keep_other_routes {
                match serves {
                    Some(Acceptance::Yes) => work.deletes.push(gone),
                    Some(Acceptance::Unknown) if sort == ObjectKind::HttpRoute => work.held.push(gone),
                    _ => {}
                }
            }
        }
        work
    }

    /// Returns true if the Manifest of a namespace exists and does not contain the hostname any more.
    fn has_given_up(&self, namespace: &str, name: &str) -> bool {
        let manifest = self.manifests.as_ref().and_then(|all| all.get(namespace));
        matches!(manifest, Some(Ok(exposes)) if !exposes.names(name))
    }

    /// Returns true for an object that no route references.
    fn is_left_over(
        &self,
        sort: ObjectKind,
        name: &str,
        place: &str,
        is_here: bool,
        is_settled: bool,
    ) -> bool {
        let is_wanted = is_here && self.plan.wants(sort);
        match self.live(sort.route(), name, place) {
            None => !is_wanted,
            // A route without a problem or a pending write references only desired objects.
            Some(_) => is_here && is_settled && sort.route() == self.mode().sort() && !is_wanted,
        }
    }

    fn options(&self, host: &Host) -> Result<&HttpOptions, String> {
        let manifests = self.manifests.as_ref();
        let exposes = match manifests.and_then(|all| all.get(&host.namespace)) {
            None => return Err(format!("lease {} has no Manifest", host.lease)),
            Some(Err(problem)) => return Err(format!("invalid Manifest of the lease: {problem}")),
            Some(Ok(exposes)) => exposes,
        };
        let key = (host.service.clone(), host.port);
        exposes.options.get(&key).ok_or_else(|| {
            let (service, port) = key;
            format!("the lease exposes no service `{service}` globally on port {port}")
        })
    }

    fn table(&self, sort: ObjectKind) -> &ObjectTable {
        // The map holds all kinds from the start.
        self.objects.get(&sort).unwrap_or(&ObjectTable::Unknown)
    }

    /// Returns all objects of a hostname, routes first.
    fn objects_of(&self, name: &str) -> impl Iterator<Item = (ObjectKind, &Name, &LiveObject)> {
        let of = |sort| {
            self.table(sort)
                .objects_of(name)
                .map(move |(place, live)| (sort, place, live))
        };
        ObjectKind::ALL.into_iter().flat_map(of)
    }

    fn routes_of(&self, name: &str) -> impl Iterator<Item = (ObjectKind, &Name, &LiveObject)> {
        self.objects_of(name).filter(|(sort, ..)| sort.is_route())
    }

    /// Returns the objects of a hostname. Only objects that the operator may delete are included.
    fn ours(&self, name: &str) -> impl Iterator<Item = (ObjectKind, &Name, &LiveObject)> {
        self.objects_of(name)
            .filter(|(_, place, live)| self.is_ours(place, live) && !live.is_going)
    }

    fn is_ours(&self, namespace: &str, live: &LiveObject) -> bool {
        let lease = live.lease.as_ref();
        lease.is_some_and(|lease| self.providers.contains(&lease.provider) && lease.namespace() == namespace)
    }

    fn apply_hosts(&mut self, change: ObjectChange<Name, DecodedRecord<Host>>) -> BTreeSet<Name> {
        let facts = change.values().filter_map(|fact| fact.as_ref().ok());
        let providers: Vec<_> = facts.map(|host| host.lease.provider.clone()).collect();
        // Providers are never removed: the last record of a provider may be deleted before its routes.
        self.providers.extend(providers);
        let was_listed = self.hosts.is_some();
        let names = changed(&mut self.hosts, change);
        for name in &names {
            if self.host(name).is_some() {
                self.removed.remove(name);
            } else if was_listed {
                self.removed.insert(name.clone());
            }
        }
        names
    }

    /// Drops from `removed` all hostnames that are not in `names`.
    pub(super) fn prune(&mut self, names: &BTreeSet<Name>) {
        self.removed.retain(|name| names.contains(name));
    }

    fn apply_manifests(&mut self, change: ObjectChange<Name, DecodedRecord<Exposes>>) -> BTreeSet<Name> {
        let facts = change.values().filter_map(|fact| fact.as_ref().ok());
        let providers: Vec<_> = facts.map(|exposes| exposes.lease.provider.clone()).collect();
        self.providers.extend(providers);
        let leases = changed(&mut self.manifests, change);
        let hosts = self.hosts.iter().flatten();
        let of_them =
            hosts.filter(|(_, host)| host.as_ref().is_ok_and(|host| leases.contains(&host.namespace)));
        of_them.map(|(name, _)| name.clone()).collect()
    }

    fn apply_objects(
        &mut self,
        sort: ObjectKind,
        change: ObjectChange<ObjectKey, LiveObject>,
    ) -> BTreeSet<Name> {
        let table = self.objects.entry(sort).or_default();
        let was_known = table.is_known();
        let touched = table.apply(change);
        // Hostnames without an object of a newly served kind may now need one.
        if !was_known && self.table(sort).is_known() && self.plan.wants(sort) {
            return self.names();
        }
        touched
    }
}

fn delete(sort: ObjectKind, namespace: &str, live: &LiveObject) -> Delete {
    Delete {
        sort,
        namespace: namespace.to_owned(),
        uid: live.uid.clone(),
    }
}

#[cfg(test)]
mod tests;
