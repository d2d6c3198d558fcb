//! Sinks and reports of the capacity watches.

use super::facts::{FactChange, InventoryKind, NamespacedName, ObjectFacts};
use super::shared::{CapacityTracker, WatchHealth};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::watch::{ObjectParts, Sink, WatchObserver};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::Instant;

/// Function that decodes the counted fields of an object; `None` for an object that is not counted.
pub(super) type FactsDecoder<T> = Box<dyn Fn(&T) -> Option<ObjectFacts> + Send>;

/// Fields of a node that are dropped before decoding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeParts;

impl ObjectParts for NodeParts {
    const PATHS: &'static [&'static [&'static str]] = &[
        &["metadata", "annotations"],
        &["metadata", "managedFields"],
        &["status", "images"],
        &["status", "volumesAttached"],
        &["status", "volumesInUse"],
    ];
}

/// Fields of a pod that determine its requests and its lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodParts;

impl ObjectParts for PodParts {
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

pub(super) struct CountSink<T> {
    kind: InventoryKind,
    shared: Arc<CapacityTracker>,
    read: FactsDecoder<T>,
    /// Keys of the current list.
    listed: HashSet<NamespacedName>,
    /// Namespace of the last object, so that consecutive objects share the allocation.
    namespace: Arc<str>,
}

impl<T: kube::Resource> CountSink<T> {
    pub(super) fn new(kind: InventoryKind, shared: &Arc<CapacityTracker>, read: FactsDecoder<T>) -> Self {
        Self {
            kind,
            shared: Arc::clone(shared),
            read,
            listed: HashSet::new(),
            namespace: Arc::default(),
        }
    }

    fn change(&mut self, object: &T) -> FactChange {
        let meta = object.meta();
        match (self.read)(object) {
            Some(fact) => FactChange::Set(self.key(meta), fact),
            // The object may have counted before, as a pod before its end.
            None => self.gone(meta),
        }
    }

    fn gone(&mut self, meta: &ObjectMeta) -> FactChange {
        FactChange::Gone(self.kind, self.key(meta), meta.uid.as_deref().map(Into::into))
    }

    /// Returns the key of an object. For a Manifest: an empty namespace, and the lease namespace as the name.
    fn key(&mut self, meta: &ObjectMeta) -> NamespacedName {
        let namespace = match self.kind {
            InventoryKind::Lease => "",
            _ => meta.namespace.as_deref().unwrap_or_default(),
        };
        if *self.namespace != *namespace {
            self.namespace = namespace.into();
        }
        NamespacedName {
            namespace: Arc::clone(&self.namespace),
            name: meta.name.as_deref().unwrap_or_default().into(),
        }
    }
}

impl<T: kube::Resource + Send> Sink<T> for CountSink<T> {
    fn begin(&mut self) {
        // An interrupted list proves nothing.
        self.listed.clear();
    }

    /// Applies all objects of a page. Objects that are missing in the list are removed after the last page.
    fn page(&mut self, objects: Vec<T>) {
        let mut changes = Vec::with_capacity(objects.len());
        for object in objects {
            let change = self.change(&object);
            // Objects that do not count are omitted, so that the end of the list removes them.
            if let FactChange::Set(key, _) = &change {
                self.listed.insert(key.clone());
            }
            changes.push(change);
        }
        self.shared.received(self.kind, changes);
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.shared
            .received(self.kind, [FactChange::Only(self.kind, listed)]);
    }

    fn applied(&mut self, object: T) {
        let change = self.change(&object);
        self.shared.received(self.kind, [change]);
    }

    fn deleted(&mut self, object: T) {
        let change = self.gone(object.meta());
        self.shared.received(self.kind, [change]);
    }
}

/// Writes the results of one watch to its [`WatchHealth`] state.
pub(super) struct Reporter {
    pub(super) kind: InventoryKind,
    pub(super) shared: Arc<CapacityTracker>,
}

impl WatchObserver for Reporter {
    fn name(&self) -> &'static str {
        self.kind.plural()
    }

    fn listed(&self) {
        self.shared.update_watch(self.kind, |watch| {
            *watch = WatchHealth {
                synced: true,
                counts: watch.counts,
                ..WatchHealth::default()
            };
        });
    }

    fn starts(&self) {
        self.shared.count(self.kind, |counts| counts.starts += 1);
    }

    fn expired(&self) {
        self.shared.count(self.kind, |counts| counts.failures += 1);
    }

    fn works(&self) {
        self.shared.update_watch(self.kind, |watch| watch.down = None);
    }

    fn may_be_absent(&self) -> bool {
        !self.kind.is_essential()
    }

    fn absent(&self, error: String) -> bool {
        self.shared.count(self.kind, |counts| counts.failures += 1);
        let mut is_new = false;
        self.shared.update_watch(self.kind, |watch| {
            is_new = !watch.absent;
            watch.absent = true;
            watch.down = Some(error);
        });
        is_new
    }

    fn failed(&self, error: String, _: Instant) -> bool {
        self.shared.count(self.kind, |counts| counts.failures += 1);
        let mut is_new = false;
        self.shared.update_watch(self.kind, |watch| {
            is_new = watch.down.is_none();
            // The kind may exist again.
            watch.absent = false;
            // The first error of an outage is the most specific one.
            watch.down.get_or_insert(error);
        });
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::PodFacts;
    use akash_provider_kube_kernel::watch::Pruned;
    use k8s_openapi::api::core::v1::Pod;
    use serde::Deserialize;
    use serde_json::{Value, json};

    /// Returns a pod of a lease. The pod has every counted field, was resized and is being deleted.
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
        PodFacts::from_object(&Pod::deserialize(pod).unwrap())
    }

    fn read(pod: &Value) -> Value {
        serde_json::from_str::<Pruned<PodParts>>(&pod.to_string())
            .unwrap()
            .0
    }

    /// Returns six variants of [`pod`] in which the counted amounts come from different fields.
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
    fn pruned_pod_has_all_counted_fields() {
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
    fn every_field_of_a_pruned_pod_counts() {
        // The watch requires the name and the version.
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

    #[test]
    fn number_of_paths_is_within_the_limit() {
        fn check<P: ObjectParts>() {
            assert!(P::PATHS.len() <= 64);
            assert!(P::PATHS.iter().all(|path| !path.is_empty()));
        }
        check::<PodParts>();
        check::<NodeParts>();
    }
}
