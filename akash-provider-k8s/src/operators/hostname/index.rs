//! The pure index: what the watches say goes in, what is to be done about each hostname comes out. It has no clock
//! and no network.
//!
//! A name is declared by one record at most, so that it leads to one lease or to none at every moment. A list counts
//! when it is complete; until hosts, manifests and routes were listed once, nothing is to be done. A route is ours to
//! delete when its labels name a lease of a provider whose records are here and it lies in that lease's namespace.

use super::facts::{Exposes, Fact, Host};
use super::live::Live;
use super::route::Mode;
use crate::operators::change::changed;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_core::types::Address;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub use crate::operators::change::Change;

/// A name or a namespace, as an object's metadata have it.
type Name = String;
/// Namespace and name of a route.
pub type Place = (Name, Name);

/// What a watch says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Of the records of hostnames, by hostname.
    Hosts(Change<Name, Fact<Host>>),
    /// Of the manifests, by the namespace of their lease.
    Manifests(Change<Name, Fact<Exposes>>),
    /// Of the routes, by namespace and hostname.
    Routes(Change<Place, Live>),
    /// A route of this place and identity was deleted by us.
    RouteDeleted(Place, String),
}

/// What the cluster has, and what is to be done about it.
#[derive(Debug, Clone)]
pub struct Index {
    mode: Mode,
    hosts: Option<BTreeMap<Name, Fact<Host>>>,
    manifests: Option<BTreeMap<Name, Fact<Exposes>>>,
    routes: Option<BTreeMap<Name, BTreeMap<Name, Live>>>,
    /// Providers whose records are or were here.
    providers: BTreeSet<Address>,
}

/// What is to be done about a hostname. Nothing where everything is as it is to be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// The route that is to be written.
    pub write: Option<Write>,
    /// Routes that are to go, once the other is written or could not be.
    pub deletes: Vec<Delete>,
    /// What keeps the name from its route.
    pub problem: Option<String>,
}

/// A route that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// Namespace of the lease, where the route is.
    pub namespace: Name,
    /// The whole object, as it is applied.
    pub body: Value,
    /// Identity of the object that is there.
    pub uid: Option<String>,
    /// What another provider's operator wrote has to become ours first.
    pub take_over: bool,
    /// The first field that differs; empty for a route that is new.
    pub at: String,
}

/// A route that is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// Namespace that the route is in.
    pub namespace: Name,
    /// Identity of the object.
    pub uid: String,
}

impl Work {
    /// True when there is nothing to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.write.is_none() && self.deletes.is_empty()
    }
}

impl Index {
    /// An index that knows nothing yet, and of which nothing is to be done.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            hosts: None,
            manifests: None,
            routes: None,
            providers: BTreeSet::new(),
        }
    }

    /// How hostnames become routes.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// True once everything was listed.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.hosts.is_some() && self.manifests.is_some() && self.routes.is_some()
    }

    /// Takes an event; the names of which something may have to be done anew.
    pub fn apply(&mut self, event: Event) -> BTreeSet<Name> {
        let was_known = self.is_known();
        let touched = match event {
            Event::Hosts(change) => self.apply_hosts(change),
            Event::Manifests(change) => self.apply_manifests(change),
            Event::Routes(change) => self.apply_routes(change),
            Event::RouteDeleted((namespace, name), uid) => {
                // A route that was made anew under the name is another one, and stays.
                let there = self.live(&name, &namespace).is_some_and(|live| live.uid == uid);
                if there {
                    self.put_route(&name, &namespace, None);
                }
                BTreeSet::from([name])
            }
        };
        // Until everything was listed nothing is to be done; the last list makes it everybody's turn.
        match (was_known, self.is_known()) {
            (_, false) => BTreeSet::new(),
            (false, true) => self.names(),
            (true, true) => touched,
        }
    }

    /// All names that are declared or have a route.
    #[must_use]
    pub fn names(&self) -> BTreeSet<Name> {
        let declared = self.hosts.iter().flat_map(BTreeMap::keys);
        let routed = self.routes.iter().flat_map(BTreeMap::keys);
        declared.chain(routed).cloned().collect()
    }

    /// Where a name is declared to lead.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&Fact<Host>> {
        self.hosts.as_ref()?.get(name)
    }

    /// The route of a name in a namespace.
    #[must_use]
    pub fn live(&self, name: &str, namespace: &str) -> Option<&Live> {
        self.routes.as_ref()?.get(name)?.get(namespace)
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
        let deletes = self.ours(name).map(|(place, live)| delete(place, live)).collect();
        let foreign = self
            .routes_of(name)
            .any(|(place, live)| !self.is_ours(place, live));
        let problem = foreign.then(|| {
            "it has a route of a lease whose provider has no record here; whoever made it has to delete it".to_owned()
        });
        Work {
            write: None,
            deletes,
            problem,
        }
    }

    fn with_host(&self, name: &str, host: &Host) -> Work {
        let elsewhere = self.ours(name).filter(|(place, _)| **place != host.namespace);
        let write = self
            .options(host)
            .and_then(|options| self.write(name, host, options));
        match write {
            Ok(write) => Work {
                write,
                deletes: elsewhere.map(|(place, live)| delete(place, live)).collect(),
                problem: None,
            },
            Err(problem) => {
                // A route of the same tenant leads on until the new one can be written; another tenant's must not.
                let others = elsewhere.filter(|(_, live)| owner(live) != Some(host_owner(host)));
                Work {
                    write: None,
                    deletes: others.map(|(place, live)| delete(place, live)).collect(),
                    problem: Some(problem),
                }
            }
        }
    }

    /// `None` when the route is there as wanted.
    fn write(&self, name: &str, host: &Host, options: &HttpOptions) -> Result<Option<Write>, String> {
        let body = self.mode.render(name, host, options);
        let namespace = host.namespace.clone();
        let Some(live) = self.live(name, &namespace) else {
            let write = Write {
                namespace,
                body,
                uid: None,
                take_over: false,
                at: String::new(),
            };
            return Ok(Some(write));
        };
        if live.lease.as_ref() != Some(&host.lease) {
            return Err(format!(
                "a route of that name in namespace {namespace} says that it is of another lease; it is not touched"
            ));
        }
        if live.is_going {
            return Err("its route is just being deleted; it is made again when that is gone".to_owned());
        }
        Ok(live.differs(&body).map(|difference| Write {
            namespace,
            body,
            uid: Some(live.uid.clone()),
            take_over: difference.is_surplus,
            at: difference.at,
        }))
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

    fn routes_of(&self, name: &str) -> impl Iterator<Item = (&Name, &Live)> {
        let routes = self.routes.as_ref();
        routes.and_then(|all| all.get(name)).into_iter().flatten()
    }

    /// The routes of a name that we may delete.
    fn ours(&self, name: &str) -> impl Iterator<Item = (&Name, &Live)> {
        self.routes_of(name)
            .filter(|(place, live)| self.is_ours(place, live) && !live.is_going)
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
        changed(&mut self.hosts, change)
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

    fn apply_routes(&mut self, change: Change<Place, Live>) -> BTreeSet<Name> {
        match change {
            Change::Listed(all) => {
                let mut touched: BTreeSet<Name> =
                    self.routes.iter().flat_map(BTreeMap::keys).cloned().collect();
                let mut routes: BTreeMap<Name, BTreeMap<Name, Live>> = BTreeMap::new();
                for ((namespace, name), live) in all {
                    routes.entry(name).or_default().insert(namespace, live);
                }
                touched.extend(routes.keys().cloned());
                let before = self.routes.take();
                let same = |name: &Name| {
                    before
                        .as_ref()
                        .is_some_and(|all| all.get(name) == routes.get(name))
                };
                touched.retain(|name| !same(name));
                self.routes = Some(routes);
                touched
            }
            // Versions of one kind are in order, so that an event from before our own write changes nothing.
            Change::Put((namespace, name), live) => {
                let known = self.live(&name, &namespace).map_or(0, |known| known.version);
                if live.version < known {
                    return BTreeSet::new();
                }
                self.put_route(&name, &namespace, Some(live));
                BTreeSet::from([name])
            }
            Change::Gone((namespace, name), last) => {
                let known = self.live(&name, &namespace).map_or(0, |known| known.version);
                if last.version < known {
                    return BTreeSet::new();
                }
                self.put_route(&name, &namespace, None);
                BTreeSet::from([name])
            }
        }
    }

    fn put_route(&mut self, name: &str, namespace: &str, live: Option<Live>) {
        let Some(routes) = &mut self.routes else {
            return;
        };
        let places = routes.entry(name.to_owned()).or_default();
        match live {
            Some(live) => drop(places.insert(namespace.to_owned(), live)),
            None => drop(places.remove(namespace)),
        }
        if places.is_empty() {
            routes.remove(name);
        }
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

fn delete(namespace: &str, live: &Live) -> Delete {
    Delete {
        namespace: namespace.to_owned(),
        uid: live.uid.clone(),
    }
}

#[cfg(test)]
mod tests;
