//! The pure index: what the watches say goes in, what is to be done about each hostname comes out. It has no clock
//! and no network.
//!
//! A name is declared by one record at most, so that it leads to one lease or to none at every moment. A list counts
//! when it is complete; until hosts, manifests and the routes of the mode were listed once, nothing is to be done, and
//! nothing is deleted of a kind that was not. An object is ours to delete when its labels name a lease of a provider
//! whose records are here and it lies in that lease's namespace.
//!
//! What a route refers to is written before it and goes after it. Routes of the other mode go when this one serves.

mod tables;
mod wanted;

use super::certificate::Issuer;
use super::facts::{Exposes, Fact, Host};
use super::live::{Accepted, Live};
use super::route::Mode;
use super::sort::Sort;
use crate::operators::change::changed;
use crate::operators::guard::MissingRecord;
use akash_provider_core::engine::hostnames::HostnameLedger;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_core::types::Address;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tables::Table;

pub use crate::operators::change::Change;

/// A name or a namespace, as an object's metadata have it.
type Name = String;
/// Namespace and hostname of an object.
pub type Place = (Name, Name);

/// What a watch says.
#[derive(Debug, Clone, PartialEq, Hash)]
pub enum Event {
    /// Of the records of hostnames, by hostname.
    Hosts(Change<Name, Fact<Host>>),
    /// Of the manifests, by the namespace of their lease.
    Manifests(Change<Name, Fact<Exposes>>),
    /// Of the objects of a kind, by namespace and hostname.
    Objects(Sort, Change<Place, Live>),
    /// The cluster has no such kind.
    Absent(Sort),
    /// An object of this kind, place and identity was deleted by us.
    Deleted(Sort, Place, String),
}

/// What is made of hostnames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// How hostnames become routes.
    pub mode: Mode,
    /// Who signs certificates; `None` for none. Only Ingresses refer to them.
    pub issuer: Option<Issuer>,
    /// Routes of the other mode stay.
    pub keep_other_routes: bool,
    /// Names that get no route, whoever declared them; who has one keeps it.
    pub blocked: HostnameLedger,
    /// Names that get a route only when their owner has proved that they are theirs.
    pub proof: Option<ProofRule>,
}

/// Which names need a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofRule {
    /// The domain of automatic names (`--deployment-ingress-domain`), which are the provider's own and need none.
    pub own_domain: String,
}

impl From<Mode> for Plan {
    fn from(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

/// What the cluster has, and what is to be done about it.
#[derive(Debug, Clone)]
pub struct Index {
    plan: Plan,
    hosts: Option<BTreeMap<Name, Fact<Host>>>,
    manifests: Option<BTreeMap<Name, Fact<Exposes>>>,
    objects: BTreeMap<Sort, Table>,
    /// Providers whose records are or were here.
    providers: BTreeSet<Address>,
    /// Names with a record that was removed after the start.
    removed: BTreeSet<Name>,
}

/// What is to be done about a hostname. Nothing where everything is as it is to be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// What the route refers to, which is written before it.
    pub filter: Option<Write>,
    /// The route that is to be written.
    pub write: Option<Write>,
    /// The certificate that is to be asked for, after the route.
    pub certificate: Option<Write>,
    /// Objects that are to go, once the route is written or could not be.
    pub deletes: Vec<Delete>,
    /// Routes of the other mode that are to go when this route had time to be taken over by its controller, which does
    /// not say so.
    pub held: Vec<Delete>,
    /// What keeps the name from its route.
    pub problem: Option<String>,
    /// The missing record, if its absence is the only reason for `deletes`.
    pub missing: Option<MissingRecord>,
}

/// An object that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// What it is.
    pub sort: Sort,
    /// Namespace of the lease, where it is.
    pub namespace: Name,
    /// The whole object, as it is applied.
    pub body: Value,
    /// Identity of the object that is there.
    pub uid: Option<String>,
    /// What another provider's operator wrote has to become ours first.
    pub take_over: bool,
    /// Merge patch that removes what others added, in place of an apply.
    pub patch: Option<Value>,
    /// The first field that differs; empty for an object that is new.
    pub at: String,
}

/// An object that is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// What it is.
    pub sort: Sort,
    /// Namespace that it is in.
    pub namespace: Name,
    /// Identity of the object.
    pub uid: String,
}

impl Work {
    /// True when there is nothing to do now.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.writes().next().is_none() && self.deletes.is_empty()
    }

    /// What is to be written, in order.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        [&self.filter, &self.write, &self.certificate]
            .into_iter()
            .flatten()
    }
}

impl Index {
    /// An index that knows nothing yet, and of which nothing is to be done.
    #[must_use]
    pub fn new(plan: impl Into<Plan>) -> Self {
        Self {
            plan: plan.into(),
            hosts: None,
            manifests: None,
            objects: Sort::ALL.map(|sort| (sort, Table::default())).into(),
            providers: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }

    /// How hostnames become routes.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.plan.mode
    }

    /// What is made of hostnames.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// True once everything was listed without which nothing is to be done.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.hosts.is_some() && self.manifests.is_some() && self.table(self.mode().sort()).is_known()
    }

    /// Takes an event; the names of which something may have to be done anew, once everything is known.
    pub fn apply(&mut self, event: Event) -> BTreeSet<Name> {
        match event {
            Event::Hosts(change) => self.apply_hosts(change),
            Event::Manifests(change) => self.apply_manifests(change),
            Event::Objects(sort, change) => self.apply_objects(sort, change),
            Event::Absent(sort) => match self.objects.entry(sort).or_default() {
                Table::Absent => BTreeSet::new(),
                table => {
                    table.vanish();
                    self.names()
                }
            },
            Event::Deleted(sort, (namespace, name), uid) => {
                // One that was made anew under the name is another one, and stays.
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

    /// All names that are declared or have an object.
    #[must_use]
    pub fn names(&self) -> BTreeSet<Name> {
        let declared = self.hosts.iter().flat_map(BTreeMap::keys);
        let made = self.objects.values().flat_map(Table::names);
        declared.chain(made).cloned().collect()
    }

    /// The first of them after one, in order, so many at most; of all names no more are looked at.
    #[must_use]
    pub fn names_after<'a>(&'a self, after: Option<&str>, limit: usize) -> BTreeSet<&'a Name> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (start, Bound::Unbounded);
        // The first of all are among the first of each.
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

    /// True for a name that is declared or has an object.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.host(name).is_some() || self.objects.values().any(|table| table.of(name).next().is_some())
    }

    /// Number of records, readable or not.
    #[must_use]
    pub fn declared(&self) -> usize {
        self.hosts.as_ref().map_or(0, BTreeMap::len)
    }

    /// Where a name is declared to lead.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&Fact<Host>> {
        self.hosts.as_ref()?.get(name)
    }

    /// The route of a name in a namespace.
    #[must_use]
    pub fn route(&self, name: &str, namespace: &str) -> Option<&Live> {
        self.live(self.mode().sort(), name, namespace)
    }

    /// An object of a name in a namespace.
    #[must_use]
    pub fn live(&self, sort: Sort, name: &str, namespace: &str) -> Option<&Live> {
        self.table(sort).get(name, namespace)
    }

    /// Namespaces in which a name has a route of the other mode that is ours to delete.
    pub fn other_routes(&self, name: &str) -> impl Iterator<Item = &Name> {
        let routes = self.table(self.mode().other()).of(name);
        let ours = routes.filter(|(namespace, live)| self.is_ours(namespace, live));
        ours.map(|(namespace, _)| namespace)
    }

    /// What keeps a tenant's options from the proxy of a route; `None` where nothing does.
    #[must_use]
    pub fn options_problem(&self, name: &str, namespace: &str) -> Option<String> {
        if !self.mode().has_filters() {
            return None;
        }
        match (self.table(Sort::Filter), self.live(Sort::Filter, name, namespace)) {
            (Table::Absent, _) => Some("the cluster has no SnippetsFilters; the proxy's own limits hold".to_owned()),
            (Table::Unknown, _) => Some("SnippetsFilters are not listed yet".to_owned()),
            (_, None) => Some("it has no SnippetsFilter yet".to_owned()),
            (_, Some(live)) => match &live.accepted {
                Accepted::Yes => None,
                Accepted::No(why) => Some(format!("its SnippetsFilter is not accepted: {why}")),
                Accepted::Unsaid => Some(
                    "no controller has accepted its SnippetsFilter yet; NGINX Gateway Fabric does with --snippets-filters"
                        .to_owned(),
                ),
            },
        }
    }

    /// What is to be done about a name.
    #[must_use]
    pub fn work(&self, name: &str) -> Work {
        if !self.is_known() {
            return Work::default();
        }
        match self.host(name) {
            None => self.without_host(name),
            // What it was to say is unknown, so that what is there stays.
            Some(Err(problem)) => Work {
                problem: Some(format!("its ProviderHost makes no sense: {problem}")),
                ..Work::default()
            },
            Some(Ok(host)) => self.with_host(name, host),
        }
    }

    /// The record is gone: it is in no complete list, or a watch said so.
    fn without_host(&self, name: &str) -> Work {
        let goes = self.ours(name).filter(|(sort, place, _)| {
            // What a route refers to goes after it.
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
            "it has a route of a lease whose provider has no record here; whoever made it has to delete it".to_owned()
        });
        Work {
            missing: (!deletes.is_empty()).then(|| MissingRecord {
                key: name.to_owned(),
                has_reason,
            }),
            deletes,
            problem,
            ..Work::default()
        }
    }

    fn with_host(&self, name: &str, host: &Host) -> Work {
        let mut work = match self.wanted(name, host) {
            Ok(work) => work,
            Err(problem) => Work {
                problem: Some(problem),
                ..Work::default()
            },
        };
        let is_settled = work.problem.is_none() && work.write.is_none();
        let is_withdrawn = self.is_withdrawn(name, host);
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
            } else if owner(live) != Some(host_owner(host)) {
                // Another tenant's must not lead on.
                work.deletes.push(gone);
            } else if sort == self.mode().sort() {
                // One of the same tenant leads on until the new one can be written.
                if !is_here && work.problem.is_none() {
                    work.deletes.push(gone);
                }
            } else if is_settled && !self.plan.keep_other_routes {
                match serves {
                    Some(Accepted::Yes) => work.deletes.push(gone),
                    Some(Accepted::Unsaid) if sort == Sort::HttpRoute => work.held.push(gone),
                    _ => {}
                }
            }
        }
        work
    }

    /// True if the Manifest of a namespace is there and does not name a hostname.
    fn has_given_up(&self, namespace: &str, name: &str) -> bool {
        let manifest = self.manifests.as_ref().and_then(|all| all.get(namespace));
        matches!(manifest, Some(Ok(exposes)) if !exposes.names(name))
    }

    /// True for what no route refers to any more.
    fn is_left_over(&self, sort: Sort, name: &str, place: &str, is_here: bool, is_settled: bool) -> bool {
        let is_wanted = is_here && self.plan.wants(sort);
        match self.live(sort.route(), name, place) {
            None => !is_wanted,
            // One that is as wanted refers only to what is wanted.
            Some(_) => is_here && is_settled && sort.route() == self.mode().sort() && !is_wanted,
        }
    }

    fn options(&self, host: &Host) -> Result<&HttpOptions, String> {
        let manifests = self.manifests.as_ref();
        let exposes = match manifests.and_then(|all| all.get(&host.namespace)) {
            None => return Err(format!("its lease {} has no Manifest", host.lease)),
            Some(Err(problem)) => return Err(format!("the Manifest of its lease makes no sense: {problem}")),
            Some(Ok(exposes)) => exposes,
        };
        let key = (host.service.clone(), host.port);
        exposes.options.get(&key).ok_or_else(|| {
            let (service, port) = key;
            format!("its lease has no service `{service}` that everybody reaches at port {port}")
        })
    }

    fn table(&self, sort: Sort) -> &Table {
        // All kinds are there from the beginning.
        self.objects.get(&sort).unwrap_or(&Table::Unknown)
    }

    /// All objects of a name, routes first.
    fn objects_of(&self, name: &str) -> impl Iterator<Item = (Sort, &Name, &Live)> {
        let of = |sort| {
            self.table(sort)
                .of(name)
                .map(move |(place, live)| (sort, place, live))
        };
        Sort::ALL.into_iter().flat_map(of)
    }

    fn routes_of(&self, name: &str) -> impl Iterator<Item = (Sort, &Name, &Live)> {
        self.objects_of(name).filter(|(sort, ..)| sort.is_route())
    }

    /// The objects of a name that we may delete.
    fn ours(&self, name: &str) -> impl Iterator<Item = (Sort, &Name, &Live)> {
        self.objects_of(name)
            .filter(|(_, place, live)| self.is_ours(place, live) && !live.is_going)
    }

    fn is_ours(&self, namespace: &str, live: &Live) -> bool {
        let lease = live.lease.as_ref();
        lease.is_some_and(|lease| self.providers.contains(&lease.provider) && lease.namespace() == namespace)
    }

    fn apply_hosts(&mut self, change: Change<Name, Fact<Host>>) -> BTreeSet<Name> {
        let facts = change.values().filter_map(|fact| fact.as_ref().ok());
        let providers: Vec<_> = facts.map(|host| host.lease.provider.clone()).collect();
        // Never taken out: the last record of a provider may go before its routes do.
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

    /// Removes stored names that are not declared and have no object.
    pub(super) fn prune(&mut self, names: &BTreeSet<Name>) {
        self.removed.retain(|name| names.contains(name));
    }

    fn apply_manifests(&mut self, change: Change<Name, Fact<Exposes>>) -> BTreeSet<Name> {
        let facts = change.values().filter_map(|fact| fact.as_ref().ok());
        let providers: Vec<_> = facts.map(|exposes| exposes.lease.provider.clone()).collect();
        self.providers.extend(providers);
        let leases = changed(&mut self.manifests, change);
        let hosts = self.hosts.iter().flatten();
        let of_them =
            hosts.filter(|(_, host)| host.as_ref().is_ok_and(|host| leases.contains(&host.namespace)));
        of_them.map(|(name, _)| name.clone()).collect()
    }

    fn apply_objects(&mut self, sort: Sort, change: Change<Place, Live>) -> BTreeSet<Name> {
        let table = self.objects.entry(sort).or_default();
        let was_known = table.is_known();
        let touched = table.apply(change);
        // A kind that can be written from now on is wanted of names that have none of it.
        if !was_known && self.table(sort).is_known() && self.plan.wants(sort) {
            return self.names();
        }
        touched
    }
}

fn owner(live: &Live) -> Option<&Address> {
    live.lease
        .as_ref()
        .map(|lease| &lease.order.group.deployment.owner)
}

const fn host_owner(host: &Host) -> &Address {
    &host.lease.order.group.deployment.owner
}

fn delete(sort: Sort, namespace: &str, live: &Live) -> Delete {
    Delete {
        sort,
        namespace: namespace.to_owned(),
        uid: live.uid.clone(),
    }
}

#[cfg(test)]
mod tests;
