use super::super::database::tests::LIST;
use super::super::node::MANAGER;
use super::super::rules::Pattern;
use super::*;
use kube::core::DynamicObject;
use proptest::prelude::*;

const GPU: &str = "akash.network/capabilities.gpu.vendor.";

fn node(change: impl FnOnce(&mut Value)) -> NodeView {
    let mut node = json!({
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "5", "labels": {"kubernetes.io/os": "linux"}},
        "spec": {},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    change(&mut node);
    NodeView::from_object(&serde_json::from_value::<DynamicObject>(node).unwrap())
}

fn gpu_node(count: &str, labels: Value) -> NodeView {
    node(|n| {
        n["status"]["capacity"]["nvidia.com/gpu"] = json!(count);
        n["metadata"]["labels"] = labels;
    })
}

fn rules() -> Rules {
    let mut rules = Rules::new(["beta2", "beta3"].map(str::to_owned)).unwrap();
    rules.exclude(Pattern::new("^master").unwrap()).unwrap();
    rules
}

fn list() -> Database {
    Database::read(LIST.as_bytes()).unwrap()
}

fn classes() -> BTreeSet<String> {
    ["beta2", "other"].map(str::to_owned).into()
}

fn of(view: &NodeView) -> DesiredLabels {
    wanted(view, &rules(), &classes(), &list(), None)
}

fn gpus(view: &NodeView) -> Vec<String> {
    let wanted = of(view);
    let ours = wanted.labels.iter();
    ours.filter_map(|(key, value)| Some(format!("{}={value}", key.strip_prefix(GPU)?)))
        .collect()
}

fn cards(numbers: &[(&str, &str)]) -> Cards {
    let card =
        |(maker, device): &(&str, &str)| json!({"pci": {"vendor": {"id": maker}, "product": {"id": device}}});
    let all: Vec<_> = numbers.iter().map(card).collect();
    Cards::read(json!({ "cards": all }).to_string().as_bytes()).unwrap()
}

const A100: (&str, &str) = ("10de", "20b5");
const A100_SXM: (&str, &str) = ("10de", "20b2");
const RTX: (&str, &str) = ("10de", "2684");
const MI210: (&str, &str) = ("1002", "740f");

/// Returns the abbreviated model labels and the notes for a node with these devices.
fn seen(numbers: &[(&str, &str)]) -> (String, String) {
    let node = gpu_node("2", json!({}));
    let wanted = wanted(&node, &rules(), &classes(), &list(), Some(&cards(numbers)));
    let start = format!("{GPU}nvidia.model.");
    let ours = wanted.labels.iter();
    let ours = ours.filter_map(|(key, value)| Some(format!("{}={value}", key.strip_prefix(&start)?)));
    (ours.collect::<Vec<_>>().join(" "), wanted.notes.join("; "))
}

#[test]
fn discovered_cards_name_models_and_not_numbers_of_devices() {
    let all = "a100=2 a100.interface.pcie=2 a100.ram.80Gi=2";
    let two =
        "a100=1 a100.interface.pcie=1 a100.ram.80Gi=1 rtx4090=1 rtx4090.interface.pcie=1 rtx4090.ram.24Gi=1";
    let mixed = "a100=2 a100.interface.pcie=1 a100.interface.sxm=1 a100.ram.80Gi=2";
    let others = [A100, MI210, A100, ("1a03", "2000")];
    assert_eq!(seen(&[A100, A100]), (all.to_owned(), String::new()));
    assert_eq!(seen(&[A100; 3]).0, all, "a surplus card for a display");
    assert_eq!(seen(&[A100; 200]).0, all, "a wrong number of cards");
    assert_eq!(seen(&others).0, all, "cards of other vendors");
    assert_eq!(seen(&[A100, RTX]), (two.to_owned(), String::new()));
    assert_eq!(seen(&[A100, A100_SXM]).0, mixed, "two variants of a model");
    // Labels have precedence over cards.
    let labelled = gpu_node("2", json!({"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}));
    let both = Some(cards(&[A100, A100]));
    let labels = wanted(&labelled, &rules(), &classes(), &list(), both.as_ref());
    let by_label = labels.labels.get(&format!("{GPU}nvidia.model.rtx4090"));
    assert_eq!(by_label.map(String::as_str), Some("2"));
}

#[test]
fn ambiguous_cards_set_no_label() {
    for (name, numbers, note) in [
        (
            "one too many",
            &[A100, RTX, RTX][..],
            "the models of the 2 devices are unknown",
        ),
        ("one too few", &[A100], "shared or partitioned"),
        ("none", &[], "0 nvidia cards were discovered"),
        (
            "of another vendor",
            &[MI210, MI210],
            "0 nvidia cards were discovered",
        ),
        (
            "an unknown device",
            &[A100, ("10de", "ffff")],
            "lacks the discovered nvidia card ffff",
        ),
        (
            "one without a number",
            &[A100, A100, ("10de", "?")],
            "have no device ID",
        ),
    ] {
        let (labels, notes) = seen(numbers);
        assert!(
            labels.is_empty() && notes.contains(note),
            "{name}: {labels} {notes}"
        );
    }
    let node = gpu_node("2", json!({}));
    let both = Some(cards(&[A100, A100]));
    let early = wanted(&node, &rules(), &classes(), &Database::default(), both.as_ref());
    assert!(
        early.notes.join("").contains("list of GPUs is pending"),
        "{early:?}"
    );
}

#[test]
fn only_nodes_without_model_labels_are_discovered() {
    let bus = |device: &str| {
        (
            format!("feature.node.kubernetes.io/pci-0302_10de{device}.present"),
            "true",
        )
    };
    let many = Labels::from([bus("_20b5"), bus("_2684")].map(|(key, value)| (key, value.to_owned())));
    for (name, view, is_looked_at) in [
        ("no label", gpu_node("2", json!({})), true),
        (
            "old labels only",
            gpu_node("2", json!({format!("{GPU}nvidia.model.t4"): "2"})),
            true,
        ),
        ("the vendor only", gpu_node("2", json!({bus("").0: "true"})), true),
        ("two models on the bus", gpu_node("2", json!(many)), true),
        (
            "its model on the bus",
            gpu_node("2", json!({bus("_20b5").0: "true"})),
            false,
        ),
        (
            "a device that the list lacks",
            gpu_node("2", json!({bus("_ffff").0: "true"})),
            false,
        ),
        (
            "its product",
            gpu_node("2", json!({"nvidia.com/gpu.product": "Tesla-T4"})),
            false,
        ),
        (
            "shared",
            gpu_node("2", json!({"nvidia.com/gpu.product": "Tesla-T4-SHARED"})),
            false,
        ),
        ("no devices", node(|_| ()), false),
        ("no available device", gpu_node("0", json!({})), false),
        ("absurdly many", gpu_node("257", json!({})), false),
        ("garbage for a number", gpu_node("many", json!({})), false),
        ("a negative number", gpu_node("-3", json!({})), false),
        (
            "cordoned",
            NodeView {
                is_cordoned: true,
                ..gpu_node("2", json!({}))
            },
            false,
        ),
        (
            "not ready",
            NodeView {
                is_ready: false,
                ..gpu_node("2", json!({}))
            },
            false,
        ),
        (
            "excluded",
            NodeView {
                name: "master-1".to_owned(),
                ..gpu_node("2", json!({}))
            },
            false,
        ),
    ] {
        assert_eq!(needs_discovery(&view, &rules(), &list()), is_looked_at, "{name}");
    }
}

#[test]
fn ready_node_gets_labels_of_offered_and_existing_classes() {
    let wanted = of(&node(|_| ()));
    let labels = Labels::from([
        ("akash.network".to_owned(), "true".to_owned()),
        (format!("{CLASS_LABEL}beta2"), "1".to_owned()),
    ]);
    assert_eq!((wanted.standing, wanted.labels), (OfferState::Offered, labels));
}

#[test]
fn unknown_properties_change_no_label() {
    let classed = node(|n| {
        n["metadata"]["labels"] = json!({
            "akash.network": "true", format!("{CLASS_LABEL}beta2"): "1", format!("{CLASS_LABEL}gone"): "1",
        });
    });
    let patched = patch(&classed, &of(&classed)).unwrap();
    let gone = json!({format!("{CLASS_LABEL}gone"): null});
    assert_eq!(
        patched["metadata"]["labels"], gone,
        "only a removed class loses its label"
    );
    for status in ["False", "Unknown"] {
        let mut away = classed.clone();
        away.is_ready = status == "True";
        let wanted = of(&away);
        assert_eq!(
            (wanted.standing, patch(&away, &wanted)),
            (OfferState::Unready, None),
            "{status}"
        );
    }
    // During a restart of the device plugin.
    let labels = json!({format!("{GPU}nvidia.model.a100"): "2", GPU_PRESENT: "true"});
    let restarting = gpu_node("0", labels.clone());
    assert_eq!(gpus(&restarting), ["nvidia.model.a100=2"]);
    assert!(of(&restarting).notes[0].contains("no nvidia GPU is available"));
    // Manual labels of an unknown model stay.
    assert_eq!(gpus(&gpu_node("2", labels.clone())), ["nvidia.model.a100=2"]);
    assert!(gpus(&gpu_node("2", json!({}))).is_empty());
    let unnamed = of(&gpu_node(
        "2",
        json!({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}),
    ));
    let missing = "pci-0302_10de.present has no device ID; set `deviceLabelFields";
    assert!(unnamed.notes[0].contains(missing), "{:?}", unnamed.notes);
    // A node without such devices.
    let bare = node(|n| n["metadata"]["labels"] = labels);
    assert!(gpus(&bare).is_empty());
}

#[test]
fn cordoned_or_excluded_node_loses_only_own_labels() {
    let labels = json!({
        "akash.network": "true", format!("{CLASS_LABEL}beta2"): "1", format!("{GPU}nvidia.model.a100"): "1",
        "akash.network/team": "blue", "akash.network/capabilities.other": "1", "kubernetes.io/os": "linux",
        GPU_PRESENT: "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    });
    let ours = json!({
        "akash.network": null, format!("{CLASS_LABEL}beta2"): null, format!("{GPU}nvidia.model.a100"): null,
    });
    let cordoned = node(|n| {
        n["metadata"]["labels"] = labels.clone();
        n["spec"]["unschedulable"] = json!(true);
    });
    let taken = patch(&cordoned, &of(&cordoned)).unwrap();
    assert_eq!(taken, json!({"metadata": {"uid": "u1", "labels": ours}}));
    let master = |managers: Value| {
        node(|n| {
            n["metadata"]["name"] = json!("master-1");
            n["metadata"]["labels"] = labels.clone();
            n["metadata"]["managedFields"] = managers;
        })
    };
    let field = json!({"f:metadata": {"f:labels": {format!("f:{GPU_PRESENT}"): {}}}});
    let by = |name: &str| json!({"manager": name, "operation": "Update", "fieldsV1": field});
    let of_others = master(json!([by(MANAGER), by("gpu-operator")]));
    assert_eq!(
        patch(&of_others, &of(&of_others)).unwrap()["metadata"]["labels"],
        ours
    );
    let alone = master(json!([by(MANAGER)]));
    let taken = patch(&alone, &of(&alone)).unwrap();
    assert_eq!(taken["metadata"]["labels"][GPU_PRESENT], Value::Null);
    assert!(
        taken["metadata"]["labels"]
            .as_object()
            .unwrap()
            .contains_key(GPU_PRESENT)
    );
    // On a cordoned node the label for the device plugin stays, so that running pods keep their devices.
    let still = NodeView {
        name: "n1".to_owned(),
        is_cordoned: true,
        ..alone
    };
    assert_eq!(patch(&still, &of(&still)).unwrap()["metadata"]["labels"], ours);
}

#[test]
fn models_come_from_pci_labels_or_vendor_tools() {
    let by_tools = gpu_node("4", json!({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}));
    let sxm = [
        "nvidia.model.a100=4",
        "nvidia.model.a100.interface.sxm=4",
        "nvidia.model.a100.ram.80Gi=4",
    ];
    assert_eq!(gpus(&by_tools), sxm);
    let pci = |device: &str| format!("feature.node.kubernetes.io/pci-0302_10de{device}.present");
    assert_eq!(gpus(&gpu_node("4", json!({pci("_20b2"): "true"}))), sxm);
    // PCI labels have precedence over a product name.
    let both = json!({pci("_20b5"): "true", "nvidia.com/gpu.product": "NVIDIA-A100-80GB"});
    let pcie = [
        "nvidia.model.a100=1",
        "nvidia.model.a100.interface.pcie=1",
        "nvidia.model.a100.ram.80Gi=1",
    ];
    assert_eq!(gpus(&gpu_node("1", both)), pcie);
    // A device that the list lacks, and a device without an ID.
    let unknown = json!({pci("_ffff"): "true", "nvidia.com/gpu.product": "NVIDIA-L4"});
    assert_eq!(gpus(&gpu_node("1", unknown)), ["nvidia.model.l4=1"]);
    assert!(gpus(&gpu_node("1", json!({pci(""): "true"}))).is_empty());
    // Two models with unknown numbers.
    let two = gpu_node("2", json!({pci("_20b5"): "true", pci("_2684"): "true"}));
    assert!(gpus(&two).is_empty() && of(&two).notes[0].contains("of 2 models"));
    // Partitioned GPUs.
    let shared = json!({pci("_20b5"): "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"});
    assert!(gpus(&gpu_node("7", shared)).is_empty());
    let amd = node(|n| {
        n["status"]["capacity"]["amd.com/gpu"] = json!("2");
        n["metadata"]["labels"] = json!({"amd.com/gpu.device-id": "740f"});
    });
    assert_eq!(gpus(&amd)[0], "amd.model.mi210=2");
    assert!(gpus(&gpu_node("257", json!({"nvidia.com/gpu.product": "NVIDIA-L4"}))).is_empty());
    assert!(gpus(&gpu_node("9e99", json!({"nvidia.com/gpu.product": "NVIDIA-L4"}))).is_empty());
}

#[test]
fn known_properties_of_a_model_are_retained() {
    let view = gpu_node(
        "1",
        json!({
            "nvidia.com/gpu.product": "NVIDIA-A100", format!("{GPU}nvidia.model.a100"): "1",
            format!("{GPU}nvidia.model.a100.interface.pcie"): "1", format!("{GPU}nvidia.model.t4"): "1",
        }),
    );
    assert_eq!(
        gpus(&view),
        ["nvidia.model.a100=1", "nvidia.model.a100.interface.pcie=1"]
    );
}

#[test]
fn labels_from_the_list_stay_until_the_list_is_read() {
    let pci = "feature.node.kubernetes.io/pci-0302_10de_20b5.present";
    let none = Database::default();
    let early = |labels: Value| wanted(&gpu_node("1", labels), &rules(), &classes(), &none, None).labels;
    let model = format!("{GPU}nvidia.model.a100");
    let there = early(json!({pci: "true", "nvidia.com/gpu.product": "NVIDIA-L4", model.clone(): "1"}));
    assert!(there.contains_key(&model) && !there.contains_key(&format!("{GPU}nvidia.model.l4")));
    // Without such labels the vendor's tools are used.
    let new = early(json!({pci: "true", "nvidia.com/gpu.product": "NVIDIA-L4"}));
    assert_eq!(new[&format!("{GPU}nvidia.model.l4")], "1");
}

#[test]
fn device_plugin_label_is_set_before_the_first_device() {
    let on_bus = node(|n| {
        n["metadata"]["labels"] = json!({"feature.node.kubernetes.io/pci-0302_10de.present": "true"});
    });
    assert_eq!(of(&on_bus).labels[GPU_PRESENT], "true");
    // The value of another client stays.
    let theirs = gpu_node("1", json!({GPU_PRESENT: "yes"}));
    let changes = patch(&theirs, &of(&theirs)).unwrap();
    assert_eq!(changes["metadata"]["labels"].get(GPU_PRESENT), None);
    assert!(!of(&node(|_| ())).labels.contains_key(GPU_PRESENT));
}

#[test]
fn invalid_label_keys_are_omitted() {
    let long = "a".repeat(60);
    let rules = Rules::new([long.clone(), "beta2".to_owned()]).unwrap();
    let there = BTreeSet::from([long, "beta2".to_owned()]);
    let wanted = wanted(&node(|_| ()), &rules, &there, &list(), None);
    assert!(wanted.labels.contains_key(&format!("{CLASS_LABEL}beta2")));
    assert!(
        wanted.notes[0].contains("not a valid label key"),
        "{:?}",
        wanted.notes
    );
    let odd = gpu_node("1", json!({"nvidia.com/gpu.product": "NVIDIA-.-"}));
    assert!(of(&odd).labels.keys().all(|key| is_key(key)));
}

prop_compose! {
    fn any_view()(
        ready in any::<bool>(), cordoned in any::<bool>(), ours in any::<bool>(),
        devices in [proptest::option::of(-1i64..300), proptest::option::of(-1i64..300)],
        name in prop::sample::select(vec!["n1", "master-1"]),
        labels in prop::collection::btree_map(prop::sample::select(vec![
            "akash.network", "akash.network/capabilities.storage.class.beta2",
            "akash.network/capabilities.storage.class.gone", "akash.network/team", GPU_PRESENT,
            "akash.network/capabilities.gpu.vendor.nvidia.model.a100",
            "akash.network/capabilities.gpu.vendor.amd.model.mi210.ram.64Gi", "nvidia.com/gpu.product",
            "amd.com/gpu.device-id", "feature.node.kubernetes.io/pci-0302_10de_20b5.present", "kubernetes.io/os",
        ]), prop::sample::select(vec!["true", "1", "2", "", "NVIDIA-A100-SXM4-80GB", "740f", "-", "..."]), 0..11),
    ) -> NodeView {
        let owned = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut view = NodeView { name: name.to_owned(), uid: "u".to_owned(), is_ready: ready, is_cordoned: cordoned,
            devices, labels: owned.collect(), ..NodeView::default() };
        view.gpu_present_is_ours = ours && view.labels.contains_key(GPU_PRESENT);
        view
    }
}

pub(in super::super) fn patched(view: &NodeView, patch: &Value) -> NodeView {
    let mut after = view.clone();
    for (key, value) in patch["metadata"]["labels"].as_object().unwrap() {
        match value.as_str() {
            Some(value) => drop(after.labels.insert(key.clone(), value.to_owned())),
            None => drop(after.labels.remove(key)),
        }
        after.gpu_present_is_ours |= key == GPU_PRESENT;
    }
    after.gpu_present_is_ours &= after.labels.contains_key(GPU_PRESENT);
    after
}

proptest! {
    #[test]
    fn one_write_suffices_and_changes_only_own_labels(view in any_view(), there in any::<bool>()) {
        let there = if there { classes() } else { BTreeSet::new() };
        let want = |view: &NodeView| wanted(view, &rules(), &there, &list(), None);
        let Some(change) = patch(&view, &want(&view)) else { return Ok(()) };
        for (key, value) in change["metadata"]["labels"].as_object().unwrap() {
            prop_assert!(is_ours(key) || key == GPU_PRESENT, "{}", key);
            prop_assert!(key != GPU_PRESENT || value == "true" || view.gpu_present_is_ours, "{}", change);
            prop_assert!(is_key(key) || value.is_null(), "{}", key);
            prop_assert!(view.is_ready || value.is_null() , "an unready node gets no label");
        }
        let after = patched(&view, &change);
        prop_assert_eq!(patch(&after, &want(&after)), None, "{}", change);
    }
}
