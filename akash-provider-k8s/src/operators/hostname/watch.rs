//! Records and routes into the index, and how their watches fare.
//!
//! Objects are read one by one from what the API server sends, so that one which makes no sense is a fact like any
//! other and ends no list.

use super::facts::{self, Exposes, Fact, Host};
use super::index::{Change, Event, Place};
use super::live::Live;
use super::route::Mode;
use super::shared::{Kind, Shared};
use super::sort::Sort;
use crate::crd::{Manifest, ProviderHost};
use crate::labels;
use crate::state::follow::{Follower, Report, Sink};
use crate::state::{WatchConfig, WatchState};
use akash_provider_core::manifest::with_star;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

type Read<K, V> = Box<dyn Fn(&DynamicObject) -> (K, V) + Send>;
type Say<K, V> = Box<dyn Fn(Change<K, V>) -> Event + Send>;

/// Begins to watch hosts, manifests and what is made of them, with a task for each.
pub(super) fn start(
    client: &Client,
    namespace: &str,
    mode: &Mode,
    shared: &Arc<Shared>,
    config: WatchConfig,
) -> Vec<AbortOnDropHandle<()>> {
    let records = |resource: ApiResource| Api::namespaced_with(client.clone(), namespace, &resource);
    // Everything goes by the hostname, also where the object has another name.
    let hosts: Read<String, Fact<Host>> =
        Box::new(move |object| (with_star(&named(object)), facts::host(object)));
    let manifests: Read<String, Fact<Exposes>> =
        Box::new(move |object| (named(object), facts::manifest(object)));
    let follow = |kind, api, selector| (kind, api, selector, mode.sort(), Arc::clone(shared));
    let mut tasks = vec![
        spawn(
            // No selector: a record without its labels declares a name all the same.
            follow(Kind::Hosts, records(ApiResource::erase::<ProviderHost>(&())), ""),
            hosts,
            Box::new(Event::Hosts),
            config,
        ),
        spawn(
            follow(Kind::Manifests, records(ApiResource::erase::<Manifest>(&())), ""),
            manifests,
            Box::new(Event::Manifests),
            config,
        ),
    ];
    tasks.extend(Sort::ALL.map(|sort| {
        let mode = mode.clone();
        let read: Read<Place, Live> = Box::new(move |object| {
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            let place = (namespace, with_star(&named(object)));
            (place, Live::of(object, sort, &mode))
        });
        let api = Api::all_with(client.clone(), &sort.resource());
        // Objects without the label are of no lease.
        let follow = follow(Kind::Objects(sort), api, labels::SELECTOR);
        spawn(
            follow,
            read,
            Box::new(move |change| Event::Objects(sort, change)),
            config,
        )
    }));
    tasks
}

fn named(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

fn spawn<K, V>(
    (kind, api, labels, routes, shared): (Kind, Api<DynamicObject>, &'static str, Sort, Arc<Shared>),
    read: Read<K, V>,
    event: Say<K, V>,
    watch_config: WatchConfig,
) -> AbortOnDropHandle<()>
where
    K: Ord + Send + 'static,
    V: Send + 'static,
{
    let follower = Follower {
        api,
        labels,
        fields: "",
        sink: Intake {
            shared: Arc::clone(&shared),
            read,
            event,
            listed: BTreeMap::new(),
        },
        report: Fares { kind, routes, shared },
        watch_config,
    };
    AbortOnDropHandle::new(tokio::spawn(follower.run()))
}

/// Where the objects of one kind go.
struct Intake<K, V> {
    shared: Arc<Shared>,
    read: Read<K, V>,
    event: Say<K, V>,
    /// What the list under way has so far; it counts when it is complete.
    listed: BTreeMap<K, V>,
}

impl<K, V> Intake<K, V> {
    fn tell(&self, change: Change<K, V>) {
        self.shared.apply((self.event)(change));
    }
}

impl<K: Ord + Send, V: Send> Sink<DynamicObject> for Intake<K, V> {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn page(&mut self, objects: Vec<DynamicObject>) {
        let read = &self.read;
        self.listed.extend(objects.iter().map(read));
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.tell(Change::Listed(listed));
    }

    fn applied(&mut self, object: DynamicObject) {
        let (key, value) = (self.read)(&object);
        self.tell(Change::Put(key, value));
    }

    fn deleted(&mut self, object: DynamicObject) {
        let (key, value) = (self.read)(&object);
        self.tell(Change::Gone(key, value));
    }
}

/// How one watch fares.
struct Fares {
    kind: Kind,
    /// Kind of the routes of the mode, without which there is nothing to do.
    routes: Sort,
    shared: Arc<Shared>,
}

impl Fares {
    fn change<R>(&self, change: impl FnOnce(&mut WatchState) -> R) -> R {
        change(self.shared.inner().watches.entry(self.kind).or_default())
    }
}

impl Report for Fares {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Hosts => "providerhosts.akash.network",
            Kind::Manifests => "manifests.akash.network",
            Kind::Objects(Sort::Ingress) => "ingresses.networking.k8s.io",
            Kind::Objects(Sort::HttpRoute) => "httproutes.gateway.networking.k8s.io",
            Kind::Objects(Sort::Filter) => "snippetsfilters.gateway.nginx.org",
            Kind::Objects(Sort::Certificate) => "certificates.cert-manager.io",
        }
    }

    fn listed(&self) {
        self.change(WatchState::listed);
    }

    fn starts(&self) {
        self.change(|watch| watch.starts += 1);
    }

    fn works(&self) {
        self.change(|watch| watch.down_since = None);
    }

    fn expired(&self) {
        self.change(|watch| watch.failures += 1);
    }

    fn may_be_absent(&self) -> bool {
        matches!(self.kind, Kind::Objects(sort) if sort != self.routes)
    }

    fn absent(&self, error: String) -> bool {
        if self.may_be_absent()
            && let Kind::Objects(sort) = self.kind
        {
            self.shared.apply(Event::Absent(sort));
        }
        self.change(|watch| {
            watch.failed(error, Instant::now());
            let awaited = "the cluster does not serve this kind".to_owned();
            watch.awaited.replace(awaited).is_none()
        })
    }

    fn failed(&self, error: String, since: Instant) -> bool {
        self.change(|watch| watch.failed(error, since))
    }
}
