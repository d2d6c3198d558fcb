use super::source_labels::UnnamedGpu;
use super::*;

const BASE: &str = "akash.network/capabilities.gpu.vendor";

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let full = |key: &str| {
        if key.contains('/') {
            key.to_owned()
        } else {
            format!("{BASE}.{key}")
        }
    };
    pairs.iter().map(|(k, v)| (full(k), (*v).to_owned())).collect()
}

fn read(pairs: &[(&str, &str)], nvidia: (i64, i64)) -> (Vec<Devices>, Vec<String>) {
    let mut notes = Vec::new();
    let amounts = |vendor| if vendor == Vendor::Nvidia { nvidia } else { (0, 0) };
    let devices = devices(&labels(pairs), amounts, &mut |problem| {
        notes.push(problem.to_string())
    });
    (devices, notes)
}

fn described(kinds: &[GpuSpec]) -> Vec<String> {
    let one = |k: &GpuSpec| format!("{}x {} {} {}", k.count, k.model, k.memory_size, k.interface);
    kinds.iter().map(|k| one(k).trim_end().to_owned()).collect()
}

#[test]
fn label_counters_become_device_kinds() {
    for (pairs, expected) in [
        (vec![("nvidia.model.t4", "4")], vec!["4x t4"]),
        (
            vec![
                ("nvidia.model.a100", "8"),
                ("nvidia.model.a100.ram.80Gi", "8"),
                ("nvidia.model.a100.interface.sxm", "8"),
            ],
            vec!["8x a100 80Gi sxm"],
        ),
        (
            vec![
                ("nvidia.model.a100", "8"),
                ("nvidia.model.a100.ram.80Gi", "6"),
                ("nvidia.model.a100.ram.40Gi", "2"),
                ("nvidia.model.a100.interface.pcie", "8"),
            ],
            vec!["2x a100 40Gi pcie", "6x a100 80Gi pcie"],
        ),
        (
            vec![
                ("nvidia.model.a100", "3"),
                ("nvidia.model.a100.interface.pcie", "1"),
                ("nvidia.model.a100.interface.sxm", "2"),
            ],
            vec!["1x a100  pcie", "2x a100  sxm"],
        ),
        (
            vec![
                ("nvidia.model.a100", "2"),
                ("nvidia.model.a100.ram.80Gi.interface.sxm", "1"),
                ("nvidia.model.a100.ram.40Gi.interface.pcie", "1"),
            ],
            vec!["1x a100 40Gi pcie", "1x a100 80Gi sxm"],
        ),
        (
            vec![("nvidia.model.a100", "2"), ("nvidia.model.a100.ram.80Gi", "1")],
            vec!["1x a100 80Gi", "1x a100"],
        ),
        (
            vec![("nvidia.model.h100", "1"), ("nvidia.model.a100", "1")],
            vec!["1x a100", "1x h100"],
        ),
        (vec![("nvidia.model.a100.ram.80Gi", "2")], vec!["2x a100 80Gi"]),
    ] {
        let (devices, _) = read(&pairs, (8, 8));
        assert_eq!(described(&devices[0].kinds), expected, "{pairs:?}");
    }
}

#[test]
fn uncombined_sizes_and_interfaces_are_not_promised() {
    let pairs = [
        ("nvidia.model.a100", "2"),
        ("nvidia.model.a100.ram.80Gi", "1"),
        ("nvidia.model.a100.ram.40Gi", "1"),
        ("nvidia.model.a100.interface.sxm", "1"),
        ("nvidia.model.a100.interface.pcie", "1"),
    ];
    let (devices, notes) = read(&pairs, (2, 2));
    assert_eq!(described(&devices[0].kinds), ["2x a100"]);
    assert!(notes[0].contains("the node offers neither of them"), "{notes:?}");
}

#[test]
fn devices_without_a_model_label_are_reported_and_not_offered() {
    let (devices, notes) = read(&[], (4, 4));
    assert!(devices[0].kinds.is_empty());
    assert!(
        notes[0].starts_with("4 nvidia GPUs of unknown model"),
        "{notes:?}"
    );
    let (_, notes) = read(&[("nvidia.model.t4", "3")], (4, 4));
    assert_eq!(notes, ["1 of 4 nvidia GPUs have no model label"]);
    let (devices, notes) = read(&[("nvidia.model.t4", "many")], (4, 4));
    assert!(devices[0].kinds.is_empty());
    assert!(notes[0].contains("invalid number of devices `many`"), "{notes:?}");
}

#[test]
fn missing_label_of_an_unnamed_gpu_is_reported_with_a_remedy() {
    const PCI: &str = "feature.node.kubernetes.io/pci-";
    let unnamed = |labels: &[(&str, &str)], vendor| {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        UnnamedGpu::new(&labels.collect(), vendor)
    };
    let (class, id) = (
        format!("{PCI}0302_10de.present"),
        format!("{PCI}0302_10de_20b5.present"),
    );
    let (audio, other) = (
        format!("{PCI}0403_10de_20b5.present"),
        format!("{PCI}0302_1002_740f.present"),
    );
    for (labels, vendor, reason, help) in [
        (
            vec![(audio.as_str(), "true"), (other.as_str(), "true")],
            Vendor::Nvidia,
            "missing label feature.node.kubernetes.io/pci-CLASS_10de_DEVICE.present or nvidia.com/gpu.product",
            "GPU Feature Discovery of NVIDIA",
        ),
        (
            vec![(class.as_str(), "true")],
            Vendor::Nvidia,
            "pci-0302_10de.present has no device ID",
            "deviceLabelFields",
        ),
        (
            vec![(class.as_str(), "true"), (id.as_str(), "true")],
            Vendor::Nvidia,
            "only label feature.node.kubernetes.io/pci-0302_10de_20b5",
            "list of GPUs",
        ),
        (
            vec![("nvidia.com/gpu.product", "NVIDIA-A100-SHARED")],
            Vendor::Nvidia,
            "shared or partitioned",
            "time-slicing",
        ),
        (
            vec![],
            Vendor::Amd,
            "_1002_DEVICE.present or amd.com/gpu.product-name",
            "node labeller of AMD",
        ),
        (
            vec![("amd.com/gpu.device-id", "740f")],
            Vendor::Amd,
            "only label amd.com/gpu.device-id",
            "list of GPUs",
        ),
    ] {
        let unnamed = unnamed(&labels, vendor);
        assert!(unnamed.to_string().contains(reason), "{labels:?}: {unnamed}");
        assert!(unnamed.help().contains(help), "{labels:?}: {}", unnamed.help());
    }
}

#[test]
fn vendor_labels_only_show_which_label_is_missing() {
    let pairs = [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("nvidia.com/gpu.memory", "81920"),
    ];
    let (devices, notes) = read(&pairs, (2, 2));
    assert!(devices[0].kinds.is_empty(), "no pod would be bound to the node");
    assert_eq!(
        notes,
        [format!(
            "2 nvidia GPUs `a100` are known only by label nvidia.com/gpu.product; pods are bound by label \
             {BASE}.nvidia.model.a100, which the node lacks"
        )]
    );
    let mut both = pairs.to_vec();
    both.push(("nvidia.model.t4", "2"));
    assert_eq!(
        described(&read(&both, (2, 2)).0[0].kinds),
        ["2x t4"],
        "labels of the network have precedence"
    );
}

fn using(nvidia: i64) -> Requests {
    Requests {
        gpus: [nvidia, 0],
        ..Requests::default()
    }
}

#[test]
fn unhealthy_device_lowers_the_number_of_the_only_kind() {
    let (devices, notes) = read(&[("nvidia.model.t4", "4")], (4, 3));
    let (kinds, allocatable, unknown) = counted(&devices, &using(1));
    assert_eq!(
        (kinds[0].count, kinds[0].allocated, allocatable, unknown),
        (3, 1, None, 0)
    );
    assert_eq!(notes, ["1 of 4 nvidia GPUs are unhealthy"]);
}

#[test]
fn unhealthy_device_among_several_kinds_may_be_of_any_kind() {
    let (devices, _) = read(&[("nvidia.model.t4", "2"), ("nvidia.model.a100", "2")], (4, 3));
    let (kinds, allocatable, unknown) = counted(&devices, &using(1));
    assert_eq!(kinds.iter().map(|k| k.count).sum::<u32>(), 4);
    assert_eq!(
        (allocatable, unknown),
        (Some(3), 1),
        "the kind of the used device is unknown"
    );
}

#[test]
fn vendors_on_a_node_are_counted_separately() {
    let labels = labels(&[("nvidia.model.t4", "1"), ("amd.model.mi300x", "2")]);
    let amounts = |vendor| if vendor == Vendor::Nvidia { (1, 1) } else { (2, 2) };
    let devices = devices(&labels, amounts, &mut |_| ());
    let used = Requests {
        gpus: [1, 0],
        ..Requests::default()
    };
    let (kinds, allocatable, unknown) = counted(&devices, &used);
    let amounts: Vec<_> = kinds
        .iter()
        .map(|k| (k.vendor.as_str(), k.count, k.allocated))
        .collect();
    assert_eq!(amounts, [("nvidia", 1, 1), ("amd", 2, 0)]);
    assert_eq!((allocatable, unknown), (None, 0));
}

#[test]
fn huge_counters_do_not_overflow() {
    let pairs = [
        ("nvidia.model.t4", "4294967295"),
        ("nvidia.model.a100.ram.1Gi", "4294967295"),
    ];
    let (devices, _) = read(&pairs, (i64::MAX, i64::MAX));
    let (kinds, allocatable, _) = counted(&devices, &using(i64::MAX));
    assert_eq!(kinds.len(), 2);
    assert_eq!(allocatable, Some(u32::from(u16::MAX)));
}
