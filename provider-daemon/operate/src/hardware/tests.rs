//! Tests with simulated machines. Some of them have invalid data.

use super::*;
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

const NVIDIA: &str = "0x10de";
const DEVICES: &str = "sys/bus/pci/devices";

struct Made {
    folder: TempDir,
}

impl Made {
    fn new() -> Self {
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        made.file("proc/cpuinfo", "");
        made.file("proc/meminfo", "MemTotal:        2048 kB\n");
        made
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    /// Creates the kernel files of a device behind a bridge.
    fn device(&self, address: &str, vendor: &str, device: &str, class: &str) {
        let place = format!("sys/devices/pci0000:00/0000:00:03.0/{address}");
        for (file, text) in [
            ("vendor", vendor),
            ("device", device),
            ("class", class),
            ("revision", "0xa1"),
            ("subsystem_vendor", vendor),
            ("subsystem_device", "0x1533"),
        ] {
            self.file(&format!("{place}/{file}"), &format!("{text}\n"));
        }
        let to = format!("../../../devices/pci0000:00/0000:00:03.0/{address}");
        self.link(&format!("{DEVICES}/{address}"), &to);
    }

    fn card(&self, number: u32, address: &str) {
        let to = format!("../../devices/pci0000:00/0000:00:03.0/{address}/drm/card{number}");
        self.link(&format!("sys/class/drm/card{number}"), &to);
        self.link(&format!("sys/class/drm/card{number}-HDMI-A-1"), &to);
    }

    fn machine(&self) -> HostHardware {
        HostHardware::new(self.folder.path())
    }

    fn part(&self, part: HardwarePart) -> Value {
        self.machine().part(part).unwrap()
    }

    /// Returns the index, the address and the numbers `VENDOR:PRODUCT` of each GPU.
    fn cards(&self) -> Vec<(i64, String, String)> {
        let found = self.part(HardwarePart::Gpu);
        let cards = found["cards"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        cards
            .map(|card| {
                let pci = &card["pci"];
                let numbers = format!("{}:{}", text(&pci["vendor"]["id"]), text(&pci["product"]["id"]));
                (card["index"].as_i64().unwrap(), text(&card["address"]), numbers)
            })
            .collect()
    }
}

fn card(index: i64, address: &str, numbers: &str) -> (i64, String, String) {
    (index, address.to_owned(), numbers.to_owned())
}

#[test]
fn reports_no_cards_without_an_error() {
    let made = Made::new();
    made.device("0000:00:1f.0", "0x8086", "0x7a04", "0x060100");
    assert!(made.cards().is_empty());
    assert_eq!(
        made.part(HardwarePart::Pci)["Devices"].as_array().unwrap().len(),
        1
    );
    let empty = HostHardware::new(&made.at("nowhere"));
    assert_eq!(empty.part(HardwarePart::Gpu).unwrap(), json!({"cards": []}));
}

#[test]
fn lists_display_cards_and_compute_devices() {
    let made = Made::new();
    made.device("0000:3b:00.0", NVIDIA, "0x20B5", "0x030200");
    made.device("0000:3b:00.1", NVIDIA, "0x10f0", "0x040300");
    made.device("0000:5e:00.0", NVIDIA, "0x2684", "0x030000");
    made.device("0000:af:00.0", "0x1002", "0x740f", "0x120000");
    made.device("0000:01:00.0", "0x1a03", "0x2000", "0x030000");
    made.card(1, "0000:5e:00.0");
    made.card(0, "0000:01:00.0");
    // Virtual function of the first device.
    made.device("0000:3b:00.4", NVIDIA, "0x20b5", "0x030200");
    made.link(
        "sys/devices/pci0000:00/0000:00:03.0/0000:3b:00.4/physfn",
        "../0000:3b:00.0",
    );
    made.file(
        "sys/devices/pci0000:00/0000:00:03.0/0000:3b:00.0/numa_node",
        "1\n",
    );
    let expected = [
        card(0, "0000:01:00.0", "1a03:2000"),
        card(1, "0000:5e:00.0", "10de:2684"),
        card(-1, "0000:3b:00.0", "10de:20b5"),
        card(-1, "0000:af:00.0", "1002:740f"),
    ];
    assert_eq!(made.cards(), expected);
    let found = made.part(HardwarePart::Gpu);
    assert_eq!(found["cards"][2]["node"], json!({"id": 1}));
    assert_eq!(found["cards"][0].get("node"), None);
}

#[test]
fn reports_a_device_in_the_form_of_ghw_with_its_name() {
    let made = Made::new();
    made.device("0000:3b:00.0", NVIDIA, "0x20b5", "0x030200");
    let place = "sys/devices/pci0000:00/0000:00:03.0/0000:3b:00.0";
    made.link(&format!("{place}/driver"), "../../../../bus/pci/drivers/nvidia");
    made.link(
        &format!("{place}/iommu_group"),
        "../../../../kernel/iommu_groups/42",
    );
    let of = |made: &Made| made.part(HardwarePart::Pci)["Devices"][0].clone();
    assert_eq!(of(&made)["vendor"], json!({"id": "10de", "name": "unknown"}));
    made.file(
        "usr/share/misc/pci.ids",
        "# made up\n10de  NVIDIA Corporation\n\t20b5  GA100\n\t\t10de 1533  A100 80GB\n1002  AMD\n\t20b5  Other\n\
         C 03  Display controller\n\t02  3D controller\n\t\t00  Usual\nL 0409  English\n\t01  US\nnonsense\n",
    );
    let expected = json!({
        "driver": "nvidia", "address": "0000:3b:00.0", "parent_address": "0000:00:03.0",
        "vendor": {"id": "10de", "name": "NVIDIA Corporation"}, "product": {"id": "20b5", "name": "GA100"},
        "revision": "0xa1", "subsystem": {"id": "1533", "name": "A100 80GB"},
        "class": {"id": "03", "name": "Display controller"}, "subclass": {"id": "02", "name": "3D controller"},
        "programming_interface": {"id": "00", "name": "Usual"}, "iommu_group": "42",
    });
    assert_eq!(of(&made), expected);
}

#[test]
fn skips_devices_with_invalid_files() {
    let made = Made::new();
    made.device("0000:3b:00.0", NVIDIA, "0x20b5", "0x030200");
    for (address, vendor, device, class) in [
        ("0000:3c:00.0", "10de", "0x20b5", "0x030200"),
        ("0000:3d:00.0", "0x10deadbeef", "0x20b5", "0x030200"),
        ("0000:3e:00.0", NVIDIA, "\u{0}\u{7f}", "0x030200"),
        ("0000:3f:00.0", NVIDIA, "", "0x030200"),
        ("0000:40:00.0", NVIDIA, "0x20b5", "display"),
    ] {
        made.device(address, vendor, device, class);
    }
    // A file of ten megabytes, a link to itself, and names that are not addresses.
    made.device("0000:41:00.0", NVIDIA, "0x20b5", "0x030200");
    let long = made.at("sys/devices/pci0000:00/0000:00:03.0/0000:41:00.0/vendor");
    fs::write(long, "0x10de".repeat(1_800_000)).unwrap();
    made.link(&format!("{DEVICES}/0000:42:00.0"), "0000:42:00.0");
    made.link(&format!("{DEVICES}/..:..:....."), "../../../../../etc");
    made.link("sys/class/drm/card7", "card7");
    made.link("sys/class/drm/card8", "../../etc/passwd");
    made.link(
        "sys/class/drm/cardinal",
        "../../devices/pci0000:00/0000:3b:00.0/drm/cardinal",
    );
    assert_eq!(made.cards(), [card(-1, "0000:3b:00.0", "10de:20b5")]);
    assert_eq!(
        made.part(HardwarePart::Pci)["Devices"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn reports_unreadable_hardware_as_an_error() {
    let made = Made::new();
    made.device("0000:3b:00.0", NVIDIA, "0x20b5", "0x030200");
    made.device("0000:3c:00.0", NVIDIA, "0x2684", "0x030200");
    let none = |path: &str| fs::set_permissions(made.at(path), Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(made.folder.path(), Permissions::from_mode(0o755)).unwrap();
    none("sys/devices/pci0000:00/0000:00:03.0/0000:3c:00.0/vendor");
    let root = made.folder.path().to_owned();
    // Root can read all files, so a thread with another user ID reads them.
    let as_nobody = move || {
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
        HostHardware::new(&root).part(HardwarePart::Gpu)
    };
    let look = || std::thread::spawn(as_nobody.clone()).join().unwrap();
    assert_eq!(
        look().unwrap()["cards"].as_array().unwrap().len(),
        1,
        "the other device is reported"
    );
    none(DEVICES);
    let refused = look().unwrap_err();
    assert!(refused.starts_with("/sys/bus/pci/devices: "), "{refused}");
}

#[test]
fn counts_online_threads_by_processor_and_core() {
    let made = Made::new();
    let mut text = String::new();
    for thread in 0..6 {
        text.push_str(&format!(
            "processor\t: {thread}\nvendor_id\t: AuthenticAMD\nmodel name\t: EPYC 7: one\nflags\t\t: fpu vme\n\n"
        ));
        let place = format!("sys/devices/system/cpu/cpu{thread}");
        made.file(
            &format!("{place}/topology/physical_package_id"),
            &(thread / 4).to_string(),
        );
        made.file(&format!("{place}/topology/core_id"), &(thread % 2).to_string());
        if thread > 0 {
            made.file(
                &format!("{place}/online"),
                if thread == 5 { "0\n" } else { "1\n" },
            );
        }
    }
    made.file("sys/devices/system/cpu/cpufreq/boost", "1");
    made.file("proc/cpuinfo", &text);
    let found = made.part(HardwarePart::Cpu);
    let total = |name: &str| found[name].as_u64().unwrap();
    assert_eq!((total("total_cores"), total("total_threads")), (3, 5));
    let first = &found["processors"][0];
    assert_eq!(
        (&first["vendor"], &first["model"]),
        (&json!("AuthenticAMD"), &json!("EPYC 7: one"))
    );
    assert_eq!(first["capabilities"], json!(["fpu", "vme"]));
    let core =
        json!({"id": 1, "total_hardware_threads": 2, "total_threads": 2, "logical_processors": [1, 3]});
    assert_eq!(first["cores"][1], core);
    assert_eq!(found["processors"][1]["total_cores"], 1);
    made.file("proc/cpuinfo", &"x".repeat(17 << 20));
    let refused = made.machine().part(HardwarePart::Cpu).unwrap_err();
    assert!(refused.contains("longer than"), "{refused}");
}

#[test]
fn reports_memory_of_blocks_and_kernel() {
    let made = Made::new();
    made.file(
        "proc/meminfo",
        "MemTotal:       3145728 kB\nMemFree: 1 kB\nHugepagesize:    2048 kB\nHugetlb:     4096 kB\n",
    );
    assert_eq!(
        made.part(HardwarePart::Memory)["total_physical_bytes"],
        3_u64 << 30,
        "the usable memory"
    );
    made.file("sys/devices/system/memory/block_size_bytes", "40000000\n");
    for (block, state) in [
        (0, "online"),
        (1, "online"),
        (2, "offline"),
        (3, "online"),
        (4, "online"),
    ] {
        made.file(
            &format!("sys/devices/system/memory/memory{block}/state"),
            &format!("{state}\n"),
        );
    }
    made.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "2\n");
    made.file("sys/kernel/mm/hugepages/hugepages-huge/nr_hugepages", "2\n");
    let expected = json!({
        "total_physical_bytes": 4_u64 << 30, "total_usable_bytes": 3_u64 << 30,
        "supported_page_sizes": [2_097_152], "default_huge_page_size": 2_097_152, "total_huge_page_bytes": 4_194_304,
        "huge_page_amounts_by_size": {"2097152": {"total": 2, "free": 0, "surplus": 0, "reserved": 0}},
        "modules": null,
    });
    assert_eq!(made.part(HardwarePart::Memory), expected);
    made.file("proc/meminfo", "MemTotal: lots\n");
    let refused = made.machine().part(HardwarePart::Memory).unwrap_err();
    assert!(refused.contains("`MemTotal`"), "{refused}");
}

#[test]
fn limits_the_size_of_the_name_database() {
    let made = Made::new();
    made.device("0000:3b:00.0", NVIDIA, "0x20b5", "0x030200");
    made.file("usr/share/misc/pci.ids", &"x".repeat(DATABASE_MAX + 1));
    assert!(!made.machine().has_names(), "an invalid database has no names");
    made.file("usr/share/hwdata/pci.ids", "10de  NVIDIA\n");
    assert!(made.machine().has_names(), "the next path is used");
    let mut text = "10de  NVIDIA\n".to_owned();
    for number in 0..300_000 {
        text.push_str(&format!("\t{number:x}  p\n"));
    }
    let names = Names::read(&text);
    assert_eq!(names.name('v', &["10de"]), "NVIDIA");
    assert_eq!(names.name('v', &["10de", "493df"]), "unknown", "beyond the limit");
}

#[test]
fn reads_the_local_machine() {
    let machine = HostHardware::new(Path::new("/"));
    let all = machine.all();
    assert_eq!(all["errors"], Value::Null, "{all}");
    assert!(all["cpu"]["total_threads"].as_u64().unwrap() > 0);
    assert!(all["memory"]["total_usable_bytes"].as_u64().unwrap() > 0);
}
