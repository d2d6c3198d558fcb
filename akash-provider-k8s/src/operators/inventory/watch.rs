//! Nodes and storage classes into what is known of them, and how their watches fare.

use super::node::NodeView;
use super::shared::{Inner, Kind, Shared};
use crate::labels;
use crate::state::follow::{Follower, Report, Sink};
use crate::state::object::FromObject;
use crate::state::{WatchConfig, WatchState};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, Client, Resource};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// What a kind is to the labels.
trait Told:
    Resource<DynamicType = (), Scope = ClusterResourceScope> + FromObject + Clone + Debug + Send + 'static
{
    const KIND: Kind;
    type Fact: Send;
    fn read(&self) -> (String, Self::Fact);
    fn all(inner: &mut Inner, listed: BTreeMap<String, Self::Fact>);
    fn put(inner: &mut Inner, name: String, fact: Self::Fact);
    fn gone(inner: &mut Inner, name: &str);
}

impl Told for Node {
    const KIND: Kind = Kind::Nodes;
    type Fact = NodeView;

    fn read(&self) -> (String, NodeView) {
        let view = NodeView::of(self);
        (view.name.clone(), view)
    }

    fn all(inner: &mut Inner, listed: BTreeMap<String, NodeView>) {
        inner.nodes.retain(|name, _| listed.contains_key(name));
        for view in listed.into_values() {
            inner.put(view);
        }
        inner.are_known = true;
    }

    fn put(inner: &mut Inner, _: String, view: NodeView) {
        inner.put(view);
    }

    fn gone(inner: &mut Inner, name: &str) {
        inner.nodes.remove(name);
    }
}

impl Told for StorageClass {
    const KIND: Kind = Kind::Classes;
    /// It has the network's label.
    type Fact = bool;

    fn read(&self) -> (String, bool) {
        let labels = self.metadata.labels.as_ref();
        let offered = labels
            .and_then(|labels| labels.get(labels::MANAGED))
            .is_some_and(|value| value == "true");
        (self.metadata.name.clone().unwrap_or_default(), offered)
    }

    fn all(inner: &mut Inner, listed: BTreeMap<String, bool>) {
        inner.classes = Some(listed);
        inner.look_again();
    }

    fn put(inner: &mut Inner, name: String, offered: bool) {
        if let Some(classes) = &mut inner.classes {
            classes.insert(name, offered);
            inner.look_again();
        }
    }

    fn gone(inner: &mut Inner, name: &str) {
        if let Some(classes) = &mut inner.classes {
            classes.remove(name);
            inner.look_again();
        }
    }
}

/// Begins to watch, with a task for each kind.
pub(super) fn start(
    client: &Client,
    shared: &Arc<Shared>,
    config: WatchConfig,
) -> [AbortOnDropHandle<()>; 2] {
    [
        follow::<Node>(client, shared, config),
        follow::<StorageClass>(client, shared, config),
    ]
}

fn follow<T: Told>(
    client: &Client,
    shared: &Arc<Shared>,
    watch_config: WatchConfig,
) -> AbortOnDropHandle<()> {
    let follower = Follower {
        api: Api::<T>::all(client.clone()),
        labels: "",
        fields: "",
        sink: Intake::<T> {
            shared: Arc::clone(shared),
            listed: BTreeMap::new(),
        },
        report: Fares {
            kind: T::KIND,
            shared: Arc::clone(shared),
        },
        watch_config,
    };
    AbortOnDropHandle::new(tokio::spawn(follower.run()))
}

/// Where the objects of one kind go.
struct Intake<T: Told> {
    shared: Arc<Shared>,
    /// What the list under way has so far; it counts when it is complete.
    listed: BTreeMap<String, T::Fact>,
}

impl<T: Told> Sink<T> for Intake<T> {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn page(&mut self, objects: Vec<T>) {
        self.listed.extend(objects.iter().map(T::read));
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.shared.change(|inner| T::all(inner, listed));
    }

    fn applied(&mut self, object: T) {
        let (name, fact) = object.read();
        self.shared.change(|inner| T::put(inner, name, fact));
    }

    fn deleted(&mut self, object: T) {
        let (name, _) = object.read();
        self.shared.change(|inner| T::gone(inner, &name));
    }
}

/// How one watch fares.
struct Fares {
    kind: Kind,
    shared: Arc<Shared>,
}

impl Fares {
    fn change<R>(&self, change: impl FnOnce(&mut WatchState) -> R) -> R {
        change(self.shared.inner().watches.entry(self.kind).or_default())
    }
}

impl Report for Fares {
    fn name(&self) -> &'static str {
        self.kind.name()
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
        false
    }

    fn absent(&self, error: String) -> bool {
        self.change(|watch| watch.failed(error, Instant::now()))
    }

    fn failed(&self, error: String, since: Instant) -> bool {
        self.change(|watch| watch.failed(error, since))
    }
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Classes => "storageclasses",
        }
    }
}
