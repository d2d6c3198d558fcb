//! Comparison with the Go provider: objects rendered from an SDL against objects recorded on a real cluster.
//!
//! The recordings are in the folder `testbed`.

mod differences;
mod recordings;

use akash_provider_k8s::labels;
use akash_provider_k8s::settings::Isolation;
use akash_provider_kube_model::crd::{Manifest, ProviderHost, convert};
use akash_provider_kube_model::objects::{self, LeaseObjects, PriorState};
use akash_provider_operators::hostname::facts;
use akash_provider_operators::hostname::index::{HostnameEvent, HostnameIndex, HostnameWork, ObjectChange};
use akash_provider_operators::hostname::live::LiveObject;
use akash_provider_operators::hostname::object_kind::ObjectKind;
use akash_provider_operators::hostname::route::Mode;
use differences::Difference;
use kube::core::DynamicObject;
use recordings::Recording;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn render(recording: &Recording, isolation: Isolation) -> LeaseObjects {
    let prior = PriorState {
        manifest_version: recording.manifest_version(),
        isolation,
        unchanged: BTreeMap::new(),
    };
    objects::render(&recording.deployment(), &recording.settings(), &prior).unwrap()
}

fn by_name(objects: &LeaseObjects) -> BTreeMap<String, Value> {
    fn list<T: serde::Serialize>(objects: impl IntoIterator<Item = T>) -> Vec<Value> {
        let objects = objects.into_iter();
        objects
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }
    let mut all = list([&objects.namespace]);
    all.extend(list(&objects.policies));
    all.extend(list(&objects.quota));
    all.extend(list(&objects.service_accounts));
    all.extend(list(&objects.roles));
    all.extend(list(&objects.role_bindings));
    all.extend(list(&objects.secrets));
    all.extend(list(&objects.deployments));
    all.extend(list(&objects.stateful_sets));
    all.extend(list(&objects.services));
    all.into_iter()
        .map(|object| (recordings::key(&object), object))
        .collect()
}

/// Compares the recorded with the rendered objects. Returns the intended differences that occurred.
fn compare(recording: &Recording, isolation: Isolation) -> BTreeSet<Difference> {
    let mut needed = BTreeSet::new();
    let mut ours = by_name(&render(recording, isolation));
    let mut theirs = recording.objects();
    differences::even_out(isolation, &mut ours, &mut theirs, &mut needed);
    let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs), "{}", recording.name);
    for (name, theirs) in &theirs {
        assert_eq!(
            serde_json::to_string_pretty(&ours[name]).unwrap(),
            serde_json::to_string_pretty(theirs).unwrap(),
            "{}: {name}",
            recording.name
        );
    }
    needed
}

#[test]
fn legacy_objects_equal_recorded_objects_except_for_known_faults() {
    let mut needed = BTreeSet::new();
    for recording in recordings::running() {
        needed.extend(compare(&recording, Isolation::Legacy));
    }
    if !needed.is_empty() {
        assert_eq!(
            needed,
            differences::of(Isolation::Legacy),
            "listed differences that do not occur"
        );
    }
}

#[test]
fn objects_equal_recorded_objects_except_for_listed_differences() {
    let mut needed = BTreeSet::new();
    for recording in recordings::running() {
        needed.extend(compare(&recording, Isolation::Baseline));
    }
    if !needed.is_empty() {
        assert_eq!(
            needed,
            differences::of(Isolation::Baseline),
            "listed differences that do not occur"
        );
    }
}

#[test]
fn unmountable_volume_is_refused_before_the_deploy() {
    for recording in recordings::all()
        .into_iter()
        .filter(|r| r.name == "storage-ephemeral-mount-fails")
    {
        let refusal = objects::check(&recording.deployment(), &recording.settings()).unwrap_err();
        assert_eq!(
            (refusal.service.as_str(), refusal.field.as_str()),
            ("side", "params.storage[0].name")
        );
    }
}

#[test]
fn manifest_objects_are_read_and_written_as_recorded() {
    for recording in recordings::all() {
        let recorded = recording.manifest();
        let typed: Manifest = convert::decode("Manifest", &recorded).unwrap();
        assert_eq!(
            serde_json::to_value(&typed).unwrap(),
            recorded,
            "{}: decoded and encoded",
            recording.name
        );
        let read = convert::from_manifest(&typed).unwrap();
        assert_eq!(
            (read.remarks, read.chain_id),
            (Vec::new(), None),
            "{}",
            recording.name
        );
        let written = convert::to_manifest(&read.deployment, &recording.settings()).unwrap();
        assert_eq!(
            serde_json::to_value(&written.spec).unwrap(),
            recorded["spec"],
            "{}: read and written",
            recording.name
        );
        assert_eq!(
            serde_json::to_value(&written.metadata.labels).unwrap(),
            recorded["metadata"]["labels"],
            "{}",
            recording.name
        );
        let from_sdl = convert::to_manifest(&recording.deployment(), &recording.settings()).unwrap();
        assert_eq!(
            serde_json::to_value(&from_sdl.spec).unwrap(),
            recorded["spec"],
            "{}: from its SDL",
            recording.name
        );
    }
}

#[test]
fn declared_hostnames_are_read_and_written_as_recorded() {
    for recording in recordings::running() {
        for recorded in recording.list("providerhosts") {
            let typed: ProviderHost = convert::decode("ProviderHost", &recorded).unwrap();
            assert_eq!(
                serde_json::to_value(&typed).unwrap(),
                recorded,
                "{}",
                recording.name
            );
        }
    }
}

#[test]
fn routes_equal_recorded_routes() {
    for recording in recordings::running() {
        let deployment = recording.deployment();
        let theirs: BTreeMap<_, _> = recording
            .list("ingresses")
            .into_iter()
            .map(|object| (recordings::key(&object), recordings::plain(object)))
            .collect();
        let ours: BTreeMap<_, _> = deployment
            .hostnames
            .iter()
            .map(|host| {
                let options = akash_provider_core::cluster::http_options(&deployment.group, host).unwrap();
                let ingress = objects::ingress(&deployment.lease, host, options);
                let value = serde_json::to_value(ingress).unwrap();
                (recordings::key(&value), recordings::plain(value))
            })
            .collect();
        assert_eq!(
            serde_json::to_string_pretty(&ours).unwrap(),
            serde_json::to_string_pretty(&theirs).unwrap(),
            "{}",
            recording.name
        );
    }
}

/// The hostname operator writes and deletes nothing, and reports no error.
#[test]
fn recorded_routes_are_adopted_without_a_write() {
    for recording in recordings::running() {
        let mut index = HostnameIndex::new(Mode::default());
        let object = |value: serde_json::Value| serde_json::from_value::<DynamicObject>(value).unwrap();
        let name = |object: &DynamicObject| object.metadata.name.clone().unwrap();
        let hosts = recording.list("providerhosts").into_iter().map(object);
        let hosts: BTreeMap<_, _> = hosts.map(|host| (name(&host), facts::host(&host))).collect();
        let names: Vec<String> = hosts.keys().cloned().collect();
        index.apply(HostnameEvent::Hosts(ObjectChange::Listed(hosts)));
        let manifest = object(recording.manifest());
        let manifests = BTreeMap::from([(name(&manifest), facts::manifest(&manifest))]);
        index.apply(HostnameEvent::Manifests(ObjectChange::Listed(manifests)));
        let routes = recording.list("ingresses").into_iter().map(object).map(|route| {
            let place = (route.metadata.namespace.clone().unwrap(), name(&route));
            (
                place,
                LiveObject::new(&route, ObjectKind::Ingress, &Mode::default()),
            )
        });
        index.apply(HostnameEvent::Objects(
            ObjectKind::Ingress,
            ObjectChange::Listed(routes.collect()),
        ));
        index.apply(HostnameEvent::Objects(
            ObjectKind::HttpRoute,
            ObjectChange::Listed(BTreeMap::new()),
        ));
        index.apply(HostnameEvent::Absent(ObjectKind::Filter));
        index.apply(HostnameEvent::Objects(
            ObjectKind::Certificate,
            ObjectChange::Listed(BTreeMap::new()),
        ));
        for host in &names {
            assert_eq!(
                index.work(host),
                HostnameWork::default(),
                "{}: {host}",
                recording.name
            );
        }
        assert_eq!(
            index.names().into_iter().collect::<Vec<_>>(),
            names,
            "{}",
            recording.name
        );
    }
}

fn has(object: &Value, pointer: &str, key: &str, value: &str) {
    let found = object.pointer(pointer).and_then(|labels| labels.get(key));
    assert_eq!(
        found.and_then(Value::as_str),
        Some(value),
        "{key} in {pointer} of {}",
        recordings::key(object)
    );
}

#[test]
fn objects_have_labels_and_names_used_by_the_go_provider() {
    for recording in recordings::running() {
        let deployment = recording.deployment();
        let all = by_name(&render(&recording, Isolation::Baseline));
        let namespace = deployment.lease.namespace();
        let version = recording.manifest_version();
        for object in all.values() {
            has(object, "/metadata/labels", labels::MANAGED, "true");
            has(object, "/metadata/labels", labels::NAMESPACE, &namespace);
            has(object, "/metadata/labels", labels::MANIFEST_VERSION, &version);
        }
        for (key, value) in labels::lease(&deployment.lease) {
            has(
                &all[&format!("Namespace/{namespace}")],
                "/metadata/labels",
                &key,
                &value,
            );
        }
        for service in &deployment.group.services {
            assert_selectors(&all, &namespace, &service.name);
        }
    }
}

/// Asserts that a service has one workload, and that all selectors use the Akash labels.
fn assert_selectors(all: &BTreeMap<String, Value>, namespace: &str, service: &str) {
    let found = |kinds: [&str; 2], suffix: &str| {
        let names = kinds.map(|kind| format!("{kind}/{service}{suffix}"));
        names
            .into_iter()
            .filter_map(|name| all.get(&name))
            .collect::<Vec<_>>()
    };
    let workloads = found(["Deployment", "StatefulSet"], "");
    assert_eq!(workloads.len(), 1, "{service}");
    let ports = found(["Service", "Service"], "")
        .into_iter()
        .chain(found(["Service", "Service"], "-np"));
    let ports: Vec<_> = ports.collect();
    assert!(!ports.is_empty(), "{service}");
    let of_workloads = [
        "/metadata/labels",
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ];
    let of_ports = ["/metadata/labels", "/spec/selector"];
    let pairs = workloads
        .iter()
        .flat_map(|object| of_workloads.map(|pointer| (object, pointer)))
        .chain(
            ports
                .iter()
                .flat_map(|object| of_ports.map(|pointer| (object, pointer))),
        );
    for (object, pointer) in pairs {
        has(object, pointer, labels::MANAGED, "true");
        has(object, pointer, labels::NAMESPACE, namespace);
        has(object, pointer, labels::SERVICE, service);
    }
}
