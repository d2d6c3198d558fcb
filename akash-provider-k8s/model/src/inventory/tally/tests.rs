use super::*;
use crate::settings::KubeSettings;
use akash_provider_core::inventory::{ClusterSpec, NodeSpec};
use akash_provider_core::types::LeaseId;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::DynamicObject;
use proptest::prelude::*;
use recount::recount;
use serde_json::{Value, json};

mod recount;

const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
const OWNER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";

pub(super) fn lease_id(dseq: u64) -> LeaseId {
    format!("{OWNER}/{dseq}/1/1/{PROVIDER}").parse().unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(name: &str, change: impl FnOnce(&mut Value)) -> FactChange {
    let mut object = json!({
        "metadata": {"name": name, "labels": {
            "akash.network": "true", "akash.network/capabilities.storage.class.local": "1",
        }},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    change(&mut object);
    let object: Node = read(object);
    FactChange::Set(
        NamespacedName::new("", name),
        ObjectFacts::Node(NodeFacts::from_object(&object).unwrap()),
    )
}

pub(super) fn pod(
    namespace: &str,
    name: &str,
    node: &str,
    cpu: &str,
    change: impl FnOnce(&mut Value),
) -> FactChange {
    let mut object = json!({
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "labels": {
            "akash.network": "true", "akash.network/namespace": namespace,
            "akash.network/manifest-service": "web",
        }},
        "spec": {"nodeName": node, "containers": [
            {"name": "web", "resources": {"requests": {"cpu": cpu, "memory": "1Gi", "ephemeral-storage": "1Gi"}}},
        ]},
    });
    change(&mut object);
    let object: Pod = read(object);
    let key = NamespacedName::new(namespace, name);
    match PodFacts::from_object(&object) {
        Some(facts) => FactChange::Set(key, ObjectFacts::Pod(facts)),
        None => FactChange::Gone(InventoryKind::Pod, key, object.metadata.uid.map(Into::into)),
    }
}

pub(super) fn lease(dseq: u64, unit: u32) -> FactChange {
    let lease = lease_id(dseq);
    let name = lease.namespace();
    let manifest: DynamicObject = read(json!({
        "apiVersion": "akash.network/v2beta2", "kind": "Manifest", "metadata": {"name": name},
        "spec": {
            "lease_id": {"owner": OWNER, "dseq": dseq.to_string(), "gseq": 1, "oseq": 1, "provider": PROVIDER},
            "group": {"name": "g", "services": [{
                "name": "web", "image": "i", "count": 1,
                "resources": {"id": unit, "cpu": {"units": 1}, "gpu": {"units": 0}, "memory": {"size": "1"}},
            }]},
        },
    }));
    let facts = LeaseFacts::from_object(&manifest, &KubeSettings::new(PROVIDER.parse().unwrap()));
    FactChange::Set(
        NamespacedName::new("", &name),
        ObjectFacts::Lease(facts.unwrap().unwrap()),
    )
}

fn class(name: &str, provisioner: &str, offered: bool) -> FactChange {
    let object: StorageClass = read(json!({
        "metadata": {"name": name, "labels": {"akash.network": offered.to_string()}}, "provisioner": provisioner,
    }));
    FactChange::Set(
        NamespacedName::new("", name),
        ObjectFacts::Class(ClassFacts::from_object(&object)),
    )
}

pub(super) fn volume(name: &str, class: &str, gib: u32, claim: &str, node: &str) -> FactChange {
    let object: PersistentVolume = read(json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": "rancher.io/local-path"}},
        "spec": {
            "storageClassName": class, "capacity": {"storage": format!("{gib}Gi")},
            "claimRef": {"namespace": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]},
            ]}},
        },
    }));
    FactChange::Set(
        NamespacedName::new("", name),
        ObjectFacts::Volume(VolumeFacts::from_object(&object).unwrap()),
    )
}

pub(super) fn gone(kind: InventoryKind, namespace: &str, name: &str) -> FactChange {
    FactChange::Gone(kind, NamespacedName::new(namespace, name), None)
}

fn tally(changes: impl IntoIterator<Item = FactChange>) -> Tally {
    let mut tally = Tally::new(StorageOptions::default());
    for change in changes {
        tally.apply(change);
    }
    tally.snapshot();
    tally
}

fn reasons(tally: &Tally) -> Vec<String> {
    tally.spec().ignored.iter().map(ToString::to_string).collect()
}

pub(super) fn spec_of(tally: &Tally, name: &str) -> NodeSpec {
    let found = tally.spec().nodes.into_iter().find(|n| n.name == name);
    found.unwrap_or_else(|| panic!("no node {name}"))
}

pub(super) fn cpu_used(tally: &Tally, name: &str) -> i64 {
    spec_of(tally, name).cpu.allocated
}

#[test]
fn pods_with_one_name_in_two_namespaces_both_count() {
    let mut tally = tally([
        node("n1", |_| ()),
        pod("a", "web-0", "n1", "1500m", |_| ()),
        pod("b", "web-0", "n1", "700m", |_| ()),
    ]);
    assert_eq!(cpu_used(&tally, "n1"), 2_200);
    tally.apply(gone(InventoryKind::Pod, "a", "web-0"));
    assert_eq!(cpu_used(&tally, "n1"), 700, "exact to the millicore");
    tally.apply(gone(InventoryKind::Pod, "b", "web-0"));
    assert_eq!(cpu_used(&tally, "n1"), 0);
}

#[test]
fn finished_pods_do_not_count_and_deleted_pods_count_until_removal() {
    let running = || pod("a", "job", "n1", "1", |_| ());
    let mut tally = tally([node("n1", |_| ()), running()]);
    tally.apply(pod("a", "job", "n1", "1", |p| {
        p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }));
    assert_eq!(cpu_used(&tally, "n1"), 1_000);
    for phase in ["Succeeded", "Failed"] {
        tally.apply(running());
        tally.apply(pod("a", "job", "n1", "1", |p| {
            p["status"] = json!({"phase": phase})
        }));
        assert_eq!(cpu_used(&tally, "n1"), 0, "{phase}");
    }
}

#[test]
fn deletion_of_an_old_pod_does_not_remove_a_new_pod_with_its_name() {
    let mut tally = tally([node("n1", |_| ()), pod("a", "web-0", "n1", "1", |_| ())]);
    tally.apply(FactChange::Gone(
        InventoryKind::Pod,
        NamespacedName::new("a", "web-0"),
        Some("older".into()),
    ));
    assert_eq!(cpu_used(&tally, "n1"), 1_000);
    tally.apply(FactChange::Gone(
        InventoryKind::Pod,
        NamespacedName::new("a", "web-0"),
        Some("u".into()),
    ));
    assert_eq!(cpu_used(&tally, "n1"), 0);
}

#[test]
fn pods_of_own_leases_count_only_as_placements() {
    let namespace = lease_id(1).namespace();
    let mut tally = tally([
        node("n1", |_| ()),
        node("n2", |_| ()),
        lease(1, 7),
        pod(&namespace, "web-0", "n1", "1", |_| ()),
        pod(&namespace, "web-1", "n1", "1", |p| {
            p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
        }),
        pod(&namespace, "web-2", "n2", "1", |_| ()),
        pod(&namespace, "helper", "n2", "300m", |p| {
            p["metadata"]["labels"] = json!({})
        }),
    ]);
    assert_eq!(
        (cpu_used(&tally, "n1"), cpu_used(&tally, "n2")),
        (0, 300),
        "the reservation counts the pods"
    );
    let placements = tally.snapshot().placements;
    assert_eq!(placements.len(), 1);
    assert_eq!(placements[0].lease, lease_id(1));
    let places: Vec<_> = placements[0]
        .places
        .iter()
        .map(|p| (p.unit, &*p.node, p.replicas))
        .collect();
    assert_eq!(
        places,
        [(7, "n1", 1), (7, "n2", 1), (7, "n1", 1)],
        "deleted pods come last"
    );
    tally.apply(gone(InventoryKind::Lease, "", &namespace));
    assert_eq!(
        cpu_used(&tally, "n1"),
        2_000,
        "without a Manifest the pods count as use"
    );
    assert!(tally.snapshot().placements.is_empty());
}

#[test]
fn unreachable_node_stays_and_accepts_no_new_pods() {
    let unready = |n: &mut Value| n["status"]["conditions"][0]["status"] = json!("Unknown");
    let mut tally = tally([node("n1", |_| ()), pod("a", "x", "n1", "1", |_| ())]);
    tally.apply(node("n1", unready));
    tally.snapshot();
    let spec = spec_of(&tally, "n1");
    assert_eq!(spec.closed.as_deref(), Some("unreachable"));
    assert_eq!((spec.cpu.allocatable, spec.cpu.allocated), (4_000, 1_000));
    assert_eq!(reasons(&tally), ["node `n1` accepts no new pods: unreachable"]);
    tally.apply(node("n1", |_| ()));
    tally.snapshot();
    assert_eq!(spec_of(&tally, "n1").closed, None);
    assert!(tally.spec().ignored.is_empty());
}

#[test]
fn node_without_the_label_is_listed_only_with_own_pods() {
    let bare = |n: &mut Value| n["metadata"]["labels"] = json!({});
    let namespace = lease_id(1).namespace();
    let mut tally = tally([
        node("n1", bare),
        lease(1, 1),
        pod(&namespace, "web-0", "n1", "1", |_| ()),
    ]);
    assert!(spec_of(&tally, "n1").closed.unwrap().contains("missing label"));
    tally.apply(gone(InventoryKind::Pod, &namespace, "web-0"));
    tally.snapshot();
    assert!(tally.spec().nodes.is_empty());
    assert_eq!(reasons(&tally), ["node `n1`: missing label akash.network=true"]);
}

#[test]
fn node_at_its_pod_limit_is_full() {
    let two = |n: &mut Value| n["status"]["allocatable"]["pods"] = json!("2");
    let mut tally = tally([node("n1", two), pod("a", "x", "n1", "1m", |_| ())]);
    assert_eq!(spec_of(&tally, "n1").closed, None);
    tally.apply(pod("a", "y", "n1", "1m", |_| ()));
    tally.snapshot();
    assert!(
        reasons(&tally)[0].contains("pod limit reached (2)"),
        "{:?}",
        reasons(&tally)
    );
}

#[test]
fn local_path_volumes_use_the_disk_of_their_node() {
    let namespace = lease_id(1).namespace();
    let tally = tally([
        node("n1", |_| ()),
        node("n2", |_| ()),
        class("local", "rancher.io/local-path", true),
        lease(1, 1),
        volume("v1", "local", 10, &namespace, "n1"),
        volume("v2", "local", 5, "others", "n1"),
        pod("a", "x", "n2", "1", |_| ()),
        pod(&namespace, "web-0", "n2", "1", |_| ()),
    ]);
    assert_eq!(
        spec_of(&tally, "n1").ephemeral.allocated,
        15 << 30,
        "volumes of all users"
    );
    let pool = tally.spec().storage["local"];
    assert_eq!(
        (pool.allocatable, pool.allocated),
        (200 << 30, 7 << 30),
        "own volumes by their reservation"
    );
}

#[test]
fn resources_that_are_not_offered_are_reported() {
    let mut tally = tally([
        node("n1", |n| n["spec"] = json!({"unschedulable": true})),
        node("n2", |n| n["metadata"]["labels"] = json!({})),
        class("beta3", "ceph", false),
        class("manual", "kubernetes.io/no-provisioner", true),
        FactChange::Set(
            NamespacedName::new("", "bad"),
            ObjectFacts::BadLease("Manifest `bad`: invalid spec".to_owned()),
        ),
    ]);
    tally.trouble(InventoryKind::Capacity, Some("forbidden".to_owned()));
    let explanation = akash_provider_core::inventory::Inventory::explain(&*tally.snapshot().inventory, &[]);
    let ignored: Vec<_> = explanation.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(
        ignored,
        [
            "csistoragecapacities cannot be read: forbidden",
            "storage class `beta3`: missing label akash.network=true",
            "storage class `manual`: no node has the label akash.network/capabilities.storage.class.manual",
            "Manifest `bad`: invalid spec",
            "node `n1` accepts no new pods: cordoned",
            "node `n2`: missing label akash.network=true",
        ]
    );
    let counted = tally.ignored_resources();
    let numbers = [
        counted.unreadable_kinds,
        counted.storage_classes,
        counted.unreadable_manifests,
        counted.closed_nodes,
        counted.unlabelled_nodes,
    ];
    assert_eq!(numbers, [1, 2, 1, 1, 1]);
}

#[test]
fn list_of_ignored_resources_is_limited() {
    let bare = |n: &mut Value| n["metadata"]["labels"] = json!({});
    let tally = tally((0..300).map(|i| node(&format!("n{i:03}"), bare)));
    let ignored = reasons(&tally);
    assert_eq!(ignored.len(), 201);
    assert_eq!(ignored[200], "and 100 more");
}

#[test]
fn object_missing_in_a_list_is_removed() {
    let mut tally = tally([
        node("n1", |_| ()),
        node("n2", |_| ()),
        pod("a", "x", "n1", "1", |_| ()),
        pod("a", "y", "n1", "1", |_| ()),
    ]);
    tally.apply(FactChange::Only(
        InventoryKind::Pod,
        [NamespacedName::new("a", "y")].into(),
    ));
    tally.apply(FactChange::Only(
        InventoryKind::Node,
        [NamespacedName::new("", "n1")].into(),
    ));
    assert_eq!(cpu_used(&tally, "n1"), 1_000);
    assert_eq!(tally.spec().nodes.len(), 1);
}

#[test]
fn equal_objects_are_no_change() {
    let changes = || {
        [
            node("n1", |_| ()),
            lease(1, 1),
            pod("a", "x", "n1", "1", |_| ()),
            class("c", "p", true),
        ]
    };
    let mut tally = tally(changes());
    for change in changes() {
        tally.apply(change);
    }
    tally.apply(gone(InventoryKind::Pod, "a", "nobody"));
    assert!(!tally.is_dirty());
}

/// Generates a change in a cluster with few objects, so that changes often affect the same object.
fn any_change() -> impl Strategy<Value = FactChange> {
    let nodes = (0usize..3, 0u8..6).prop_map(|(n, how)| {
        let name = format!("n{n}");
        match how {
            0 => gone(InventoryKind::Node, "", &name),
            1 => node(&name, |n| n["metadata"]["labels"] = json!({})),
            2 => node(&name, |n| n["spec"] = json!({"unschedulable": true})),
            3 => node(&name, |n| {
                let label = "akash.network/capabilities.gpu.vendor.nvidia.model.t4";
                n["metadata"]["labels"][label] = json!("2");
                n["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
                n["status"]["capacity"] = json!({"nvidia.com/gpu": "2"});
            }),
            4 => node(&name, |n| n["status"]["allocatable"]["pods"] = json!("2")),
            _ => node(&name, |_| ()),
        }
    });
    let spaces = || {
        (0u64..3).prop_map(|s| {
            if s == 0 {
                "others".to_owned()
            } else {
                lease_id(s).namespace()
            }
        })
    };
    let pods = (spaces(), 0u8..3, 0u8..3, 0u8..6, 0i64..3_000).prop_map(|(space, name, on, how, cpu)| {
        let (name, on) = (format!("web-{name}"), format!("n{on}"));
        match how {
            0 => gone(InventoryKind::Pod, &space, &name),
            1 => pod(&space, &name, &on, "1", |p| {
                p["status"] = json!({"phase": "Succeeded"})
            }),
            2 => pod(&space, &name, &on, "1", |p| p["metadata"]["labels"] = json!({})),
            3 => pod(&space, &name, &on, "1", |p| {
                p["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("1");
            }),
            _ => pod(&space, &name, &on, &format!("{cpu}m"), |_| ()),
        }
    });
    let leases = (1u64..3, 0u32..3).prop_map(|(dseq, unit)| match unit {
        0 => gone(InventoryKind::Lease, "", &lease_id(dseq).namespace()),
        _ => lease(dseq, unit),
    });
    let classes = (0u8..4).prop_map(|how| match how {
        0 => gone(InventoryKind::Class, "", "local"),
        1 => class("local", "rancher.io/local-path", false),
        2 => class("local", "kubernetes.io/no-provisioner", true),
        _ => class("local", "rancher.io/local-path", true),
    });
    let volumes = (spaces(), 0u8..2, 0u8..3, 0u32..5).prop_map(|(space, name, on, gib)| match gib {
        0 => gone(InventoryKind::Volume, "", &format!("v{name}")),
        _ => volume(&format!("v{name}"), "local", gib, &space, &format!("n{on}")),
    });
    let lists = (0usize..4, 0u8..3).prop_map(|(kind, keep)| {
        let keep: HashSet<NamespacedName> = [
            NamespacedName::new("", &format!("n{keep}")),
            NamespacedName::new("others", &format!("web-{keep}")),
        ]
        .into();
        FactChange::Only(
            [
                InventoryKind::Node,
                InventoryKind::Pod,
                InventoryKind::Lease,
                InventoryKind::Volume,
            ][kind],
            keep,
        )
    });
    prop_oneof![4 => nodes, 8 => pods, 3 => leases, 1 => classes, 2 => volumes, 1 => lists]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn any_sequence_of_changes_equals_a_recount(
        changes in prop::collection::vec((any_change(), any::<bool>()), 0..60),
    ) {
        let mut tally = Tally::new(StorageOptions::default());
        let mut objects = BTreeMap::new();
        for (change, look) in changes {
            recount::remember(&mut objects, &change);
            tally.apply(change);
            if look {
                tally.snapshot();
            }
        }
        let snapshot = tally.snapshot();
        let (mut spec, placements) = recount(&objects);
        let mut counted = tally.spec();
        prop_assert_eq!(&*snapshot.inventory, &NodeInventory::new(&counted), "revised in place");
        prop_assert_eq!(snapshot.placements, placements);
        let fresh = tally_of(&objects);
        prop_assert_eq!(&counted.ignored, &fresh.spec().ignored);
        prop_assert_eq!(&counted.storage, &fresh.spec().storage);
        spec.storage.clear();
        counted.storage.clear();
        counted.ignored.clear();
        prop_assert_eq!(counted, spec);
    }
}

fn tally_of(objects: &BTreeMap<(InventoryKind, NamespacedName), ObjectFacts>) -> Tally {
    tally(
        objects
            .iter()
            .map(|((_, key), fact)| FactChange::Set(key.clone(), fact.clone())),
    )
}

#[test]
fn pods_of_a_node_share_the_string_of_its_name() {
    let mut tally = Tally::new(StorageOptions::default());
    for number in 0..3 {
        let object = serde_json::from_value(serde_json::json!({
            "metadata": {"name": format!("p{number}"), "namespace": "ns", "uid": "u"},
            "spec": {"nodeName": "n1", "containers": []},
        }));
        let facts = PodFacts::from_object(&object.unwrap()).unwrap();
        tally.apply(FactChange::Set(
            NamespacedName::new("ns", &format!("p{number}")),
            ObjectFacts::Pod(facts),
        ));
    }
    let (name, _) = tally.nodes.first_key_value().unwrap();
    // The three pods and the node.
    assert_eq!(
        Arc::strong_count(name),
        4 + usize::from(tally.dirty.nodes.contains(name))
    );
}
