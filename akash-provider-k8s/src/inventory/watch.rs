//! Objects of one kind into the count, and how their watch fares.

use super::facts::{Change, Fact, Key, Kind};
use super::source::Shared;
use crate::state::follow::{Report, Sink};
use crate::state::reading::LeftOut;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::Instant;

/// What is kept of an object; `None` when it counts nothing.
pub(super) type Read<T> = Box<dyn Fn(&T) -> Option<Fact> + Send>;

/// What of a node is not counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeParts;

impl LeftOut for NodeParts {
    const PATHS: &'static [&'static [&'static str]] = &[
        &["metadata", "annotations"],
        &["metadata", "managedFields"],
        &["status", "images"],
        &["status", "volumesAttached"],
        &["status", "volumesInUse"],
    ];
}

/// What of a pod takes nothing of its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodParts;

impl LeftOut for PodParts {
    const PATHS: &'static [&'static [&'static str]] = &[
        &["metadata", "annotations"],
        &["metadata", "managedFields"],
        &["metadata", "ownerReferences"],
        &["spec", "affinity"],
        &["spec", "imagePullSecrets"],
        &["spec", "securityContext"],
        &["spec", "tolerations"],
        &["spec", "containers", "args"],
        &["spec", "containers", "command"],
        &["spec", "containers", "env"],
        &["spec", "containers", "envFrom"],
        &["spec", "containers", "lifecycle"],
        &["spec", "containers", "livenessProbe"],
        &["spec", "containers", "ports"],
        &["spec", "containers", "readinessProbe"],
        &["spec", "containers", "securityContext"],
        &["spec", "containers", "startupProbe"],
        &["spec", "containers", "volumeMounts"],
        &["spec", "initContainers", "args"],
        &["spec", "initContainers", "command"],
        &["spec", "initContainers", "env"],
        &["spec", "initContainers", "envFrom"],
        &["spec", "initContainers", "lifecycle"],
        &["spec", "initContainers", "livenessProbe"],
        &["spec", "initContainers", "ports"],
        &["spec", "initContainers", "readinessProbe"],
        &["spec", "initContainers", "securityContext"],
        &["spec", "initContainers", "startupProbe"],
        &["spec", "initContainers", "volumeMounts"],
        &["status", "ephemeralContainerStatuses"],
    ];
}

/// Where the objects of one kind go: read, counted and dropped.
pub(super) struct Intake<T> {
    kind: Kind,
    shared: Arc<Shared>,
    read: Read<T>,
    /// What the list under way has so far.
    listed: HashSet<Key>,
    /// The namespace of the object before: a list has one after the other.
    namespace: Arc<str>,
}

impl<T: kube::Resource> Intake<T> {
    pub(super) fn new(kind: Kind, shared: &Arc<Shared>, read: Read<T>) -> Self {
        Self {
            kind,
            shared: Arc::clone(shared),
            read,
            listed: HashSet::new(),
            namespace: Arc::default(),
        }
    }

    fn change(&mut self, object: &T) -> Change {
        let meta = object.meta();
        match (self.read)(object) {
            Some(fact) => Change::Set(self.key(meta), fact),
            // It may have counted before, as a pod that is over did.
            None => self.gone(meta),
        }
    }

    fn gone(&mut self, meta: &ObjectMeta) -> Change {
        Change::Gone(self.kind, self.key(meta), meta.uid.as_deref().map(Into::into))
    }

    /// Manifests are all in one namespace; their name is the namespace of their lease.
    fn key(&mut self, meta: &ObjectMeta) -> Key {
        let namespace = match self.kind {
            Kind::Lease => "",
            _ => meta.namespace.as_deref().unwrap_or_default(),
        };
        if *self.namespace != *namespace {
            self.namespace = namespace.into();
        }
        Key {
            namespace: Arc::clone(&self.namespace),
            name: meta.name.as_deref().unwrap_or_default().into(),
        }
    }
}

impl<T: kube::Resource + Send> Sink<T> for Intake<T> {
    fn begin(&mut self) {
        // A list that broke off says nothing of what there is.
        self.listed.clear();
    }

    /// What a list has is there, whatever was before; what it lacks counts on until the list is complete.
    fn page(&mut self, objects: Vec<T>) {
        let mut changes = Vec::with_capacity(objects.len());
        for object in objects {
            let change = self.change(&object);
            // What counts nothing is left out, so that the end of the list forgets it as well.
            if let Change::Set(key, _) = &change {
                self.listed.insert(key.clone());
            }
            changes.push(change);
        }
        self.shared.apply(changes);
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.shared.apply([Change::Only(self.kind, listed)]);
    }

    fn applied(&mut self, object: T) {
        let change = self.change(&object);
        self.shared.apply([change]);
    }

    fn deleted(&mut self, object: T) {
        let change = self.gone(object.meta());
        self.shared.apply([change]);
    }
}

/// How the watch of one kind fares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Watch {
    /// Everything was listed once.
    pub(super) synced: bool,
    /// The cluster has no such kind.
    pub(super) absent: bool,
    /// It does not work: why.
    pub(super) down: Option<String>,
}

/// Tells how the watch of one kind fares.
pub(super) struct Reporter {
    pub(super) kind: Kind,
    pub(super) shared: Arc<Shared>,
}

impl Report for Reporter {
    fn name(&self) -> &'static str {
        self.kind.plural()
    }

    fn listed(&self) {
        self.shared.fares(self.kind, |watch| {
            *watch = Watch {
                synced: true,
                ..Watch::default()
            };
        });
    }

    fn works(&self) {
        self.shared.fares(self.kind, |watch| watch.down = None);
    }

    fn may_be_absent(&self) -> bool {
        !self.kind.is_essential()
    }

    fn absent(&self, error: String) -> bool {
        let mut news = false;
        self.shared.fares(self.kind, |watch| {
            news = !watch.absent;
            watch.absent = true;
            watch.down = Some(error);
        });
        news
    }

    fn failed(&self, error: String, _: Instant) -> bool {
        let mut news = false;
        self.shared.fares(self.kind, |watch| {
            news = watch.down.is_none();
            // Whether the kind is there is open again.
            watch.absent = false;
            // The first error of an outage tells more than those that follow.
            watch.down.get_or_insert(error);
        });
        news
    }
}
