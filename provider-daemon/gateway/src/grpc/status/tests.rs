use super::*;
use akash_provider_chain::proto::akash::inventory::v1::{CpuInfo, GpuInfo};
use akash_provider_core::inventory::{GpuMetrics, Hardware, NodeMetrics};
use prost::Message;
use testbed::recordings;

fn reservation(at: u32, storage: &[(&str, u64)], amounts: [u64; 4]) -> ReservationStatus {
    let order = format!("akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/{at}/1/1");
    let [cpu, memory, gpu, storage_ephemeral] = amounts;
    ReservationStatus {
        order: order.parse().unwrap(),
        cpu,
        gpu,
        memory,
        storage_ephemeral,
        storage: storage.iter().map(|(c, n)| ((*c).to_owned(), *n)).collect(),
    }
}

fn recorded_cluster() -> Status {
    let amount = |allocatable: u64, allocated: u64| Pair {
        allocatable,
        available: allocatable - allocated,
    };
    let gpus = GpuMetrics {
        vendor: "nvidia".into(),
        model: "a100".into(),
        memory_size: "80Gi".into(),
        interface: "pcie".into(),
        count: 2,
        available: 0,
    };
    let node = NodeMetrics {
        name: "node1".into(),
        cpu: amount(2000, 240),
        gpu: amount(2, 2),
        memory: amount(25_171_652_608, 369_098_752),
        storage_ephemeral: amount(243_497_856_212, 503_316_480),
        gpus: vec![gpus],
        storage_classes: vec!["beta2".into()],
        hardware: Hardware {
            cpu: Some(2000),
            memory: Some(25_276_510_208),
            ephemeral: Some(270_553_174_016),
            gpus: Some(2),
            cpu_vendor: Some("AuthenticAMD".to_owned()),
        },
    };
    let mut status = Status::default();
    status.inventory_known = true;
    status.inventory.available.nodes.push(node);
    let beta2 = amount(243_497_856_212, 268_435_456);
    status
        .inventory
        .available
        .storage
        .insert("beta2".to_owned(), beta2);
    let volumes = [("beta2", 268_435_456), ("ram", 33_554_432)];
    status.inventory.pending = vec![
        reservation(1, &volumes, [50, 117_440_512, 0, 218_103_808]),
        reservation(2, &[], [0; 4]),
        reservation(3, &[], [0; 4]),
    ];
    status.inventory.active = vec![reservation(4, &[], [170, 184_549_376, 2, 251_658_240])];
    status
        .inventory
        .active
        .extend((5..10).map(|at| reservation(at, &[], [0; 4])));
    status
}

#[test]
fn inventory_message_equals_the_recorded_one_except_unknown_fields() {
    let folder = recordings::folder("peer/grpc");
    let frame = std::fs::read(folder.join("GetStatus.frame")).unwrap();
    let recorded = wire::Status::decode(&frame[5..]).unwrap();
    let mut recorded = recorded.cluster.unwrap().inventory.unwrap();
    let node = &mut recorded.cluster.as_mut().unwrap().nodes[0];
    let resources = node.resources.as_mut().unwrap();
    let cpu: &mut CpuInfo = &mut resources.cpu.as_mut().unwrap().info[0];
    assert_eq!(
        std::mem::take(&mut cpu.model),
        "AMD EPYC",
        "no object has the name"
    );
    for device in &mut resources.gpu.as_mut().unwrap().info {
        let device: &mut GpuInfo = device;
        assert_eq!(
            std::mem::take(&mut device.modelid),
            "20b5",
            "no label has the number"
        );
        device.interface.make_ascii_lowercase();
    }
    assert_eq!(capacity(&recorded_cluster()), recorded);
}

#[test]
fn node_without_hardware_facts_reports_allocatable_as_capacity_and_no_processors() {
    let mut status = recorded_cluster();
    status.inventory.available.nodes[0].hardware = Hardware::default();
    let node = capacity(&status).cluster.unwrap().nodes.remove(0);
    let cpu = node.resources.unwrap().cpu.unwrap();
    assert!(cpu.info.is_empty());
    let quantity = cpu.quantity.unwrap();
    assert_eq!(quantity.capacity, quantity.allocatable);
}
