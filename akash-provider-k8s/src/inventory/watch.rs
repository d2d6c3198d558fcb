//! Objects of one kind into the count, and how their watch fares.

use super::facts::{Change, Fact, Key, Kind};
use super::source::Shared;
use crate::labels;
use crate::state::follow::{Report, Sink};
use crate::state::reading::Parts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::Instant;

/// What is kept of an object; `None` when it counts nothing.
pub(super) type Read<T> = Box<dyn Fn(&T) -> Option<Fact> + Send>;

/// What of a node is not counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeParts;

impl Parts for NodeParts {
    const PATHS: &'static [&'static [&'static str]] = &[
        &["metadata", "annotations"],
        &["metadata", "managedFields"],
        &["status", "images"],
        &["status", "volumesAttached"],
        &["status", "volumesInUse"],
    ];
}

/// What of a pod says what it takes of its node, and whose it is: the fields of [`super::PodFacts`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodParts;

impl Parts for PodParts {
    const PATHS: &'static [&'static [&'static str]] = &[
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "uid"],
        &["metadata", "resourceVersion"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "labels", labels::MANAGED],
        &["metadata", "labels", labels::NAMESPACE],
        &["metadata", "labels", labels::SERVICE],
        &["spec", "nodeName"],
        &["spec", "overhead"],
        &["spec", "resources", "requests"],
        &["spec", "containers", "name"],
        &["spec", "containers", "resources", "requests"],
        &["spec", "initContainers", "name"],
        &["spec", "initContainers", "resources", "requests"],
        &["spec", "initContainers", "restartPolicy"],
        &["spec", "volumes", "emptyDir"],
        &["status", "phase"],
        &["status", "conditions", "type"],
        &["status", "conditions", "reason"],
        &["status", "containerStatuses", "name"],
        &["status", "containerStatuses", "resources", "requests"],
        &["status", "containerStatuses", "allocatedResources"],
        &["status", "initContainerStatuses", "name"],
        &["status", "initContainerStatuses", "resources", "requests"],
        &["status", "initContainerStatuses", "allocatedResources"],
    ];
    const ARE_READ: bool = true;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::PodFacts;
    use crate::state::reading::Pruned;
    use k8s_openapi::api::core::v1::Pod;
    use serde::Deserialize;
    use serde_json::{Value, json};

    /// A pod of which everything counts that may: while it is resized, of our lease, being ended.
    fn pod() -> Value {
        let amounts = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "9"}});
        json!({
            "metadata": {
                "name": "web-0", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "generation": 3,
                "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"a": "b"},
                "labels": {
                    labels::MANAGED: "true", labels::NAMESPACE: "ns", labels::SERVICE: "web", "other": "label",
                },
            },
            "spec": {
                "nodeName": "n1", "overhead": {"cpu": "3m"}, "resources": {"requests": {"memory": "5Gi"}},
                "containers": [{"name": "web", "image": "i", "resources": amounts("100m", "1Gi")}],
                "initContainers": [
                    {"name": "side", "restartPolicy": "Always", "resources": amounts("20m", "1Mi")},
                    {"name": "start", "resources": amounts("120m", "1Ki")},
                ],
                "volumes": [{"name": "ram", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
                "containerStatuses": [{
                    "name": "web", "ready": true, "resources": amounts("170m", "1Gi"), "allocatedResources": {"cpu": "160m"},
                }],
                "initContainerStatuses": [{
                    "name": "side", "resources": amounts("50m", "1Mi"), "allocatedResources": {"cpu": "40m"},
                }],
            },
        })
    }

    fn facts(pod: &Value) -> Option<PodFacts> {
        PodFacts::of(&Pod::deserialize(pod).unwrap())
    }

    fn read(pod: &Value) -> Value {
        serde_json::from_str::<Pruned<PodParts>>(&pod.to_string())
            .unwrap()
            .0
    }

    /// The same pod in other states, of which other fields decide.
    fn pods() -> [Value; 6] {
        let (mut starting, mut growing, mut over) = (pod(), pod(), pod());
        starting["spec"]["initContainers"][1]["resources"]["requests"]["cpu"] = json!("900m");
        growing["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("8");
        let mut granted = pod();
        granted["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] = json!("300m");
        granted["status"]["initContainerStatuses"][0]["allocatedResources"]["cpu"] = json!("300m");
        let mut infeasible = growing.clone();
        infeasible["status"]["conditions"][0]["reason"] = json!("Infeasible");
        over["status"]["phase"] = json!("Succeeded");
        [pod(), starting, growing, granted, infeasible, over]
    }

    #[test]
    fn what_is_read_of_a_pod_says_all_that_counts() {
        for whole in pods() {
            assert_eq!(facts(&read(&whole)), facts(&whole));
        }
        let part = read(&pod());
        assert!(facts(&part).unwrap().requests.cpu > 0);
        assert_eq!(
            part["spec"]["containers"][0],
            json!({"name": "web", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}})
        );
    }

    #[test]
    fn everything_that_is_read_of_a_pod_counts() {
        // What a pod is called, and its version, whoever follows the watch needs.
        let others = [&["metadata", "name"][..], &["metadata", "resourceVersion"]];
        for path in PodParts::PATHS.iter().filter(|path| !others.contains(path)) {
            let counts = |pod: &Value| facts(&without(read(pod), path)) != facts(pod);
            assert!(pods().iter().any(counts), "{path:?}");
        }
    }

    fn without(mut object: Value, path: &[&str]) -> Value {
        fn remove(at: &mut Value, path: &[&str]) {
            match (at, path) {
                (Value::Array(items), path) => items.iter_mut().for_each(|item| remove(item, path)),
                (Value::Object(fields), [last]) => drop(fields.remove(*last)),
                (Value::Object(fields), [first, rest @ ..]) => {
                    if let Some(next) = fields.get_mut(*first) {
                        remove(next, rest);
                    }
                }
                _ => {}
            }
        }
        remove(&mut object, path);
        object
    }
}
