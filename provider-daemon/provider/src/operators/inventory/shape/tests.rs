//! Comparison with a recorded response of the Go operator.

use super::super::tests::{counted, of_nodes, process, recorded_node};
use super::*;
use akash_provider_chain::proto::akash::provider::v1::Status;
use akash_provider_operators::inventory::database::Database;
use akash_provider_operators::inventory::rules::Rules;
use prost::Message;
use std::sync::Arc;

mod fits;

const LIST: &str =
    r#"{"10de": {"devices": {"20b5": {"name": "a100", "interface": "PCIe", "memory_size": "80Gi"}}}}"#;

fn recorded() -> wire::Cluster {
    let frame = testbed::recordings::folder("peer/grpc").join("GetStatus.frame");
    let status = Status::decode(&std::fs::read(frame).unwrap()[5..]).unwrap();
    status.cluster.unwrap().inventory.unwrap().cluster.unwrap()
}

#[tokio::test(start_paused = true)]
async fn recorded_node_matches_the_go_operator() {
    let mut recorded = recorded();
    let process = process(&of_nodes(vec![recorded_node()]), Rules::default());
    let mut report = (*counted(&process).await).clone();
    report.list = Arc::new(Database::read(LIST.as_bytes()).unwrap());
    let seen =
        br#"{"processors": [{"id": 0, "total_threads": 2, "vendor": "AuthenticAMD", "model": "AMD EPYC"}]}"#;
    let seen = Processor::read(seen).unwrap();
    report.processors = Arc::new([(recorded.nodes[0].name.clone(), seen)].into());
    let mut ours = on_the_wire(&report);
    // Allocated resources and the class have no objects in this test.
    for cluster in [&mut recorded, &mut ours] {
        cluster.storage.clear();
        let node = &mut cluster.nodes[0];
        node.capabilities = None;
        let resources = node.resources.as_mut().unwrap();
        let (cpu, gpu) = (resources.cpu.as_mut().unwrap(), resources.gpu.as_mut().unwrap());
        for device in &mut gpu.info {
            device.interface.make_ascii_lowercase();
        }
        let pairs = [
            cpu.quantity.as_mut(),
            gpu.quantity.as_mut(),
            resources.memory.as_mut().unwrap().quantity.as_mut(),
            resources.ephemeral_storage.as_mut(),
        ];
        pairs.into_iter().flatten().for_each(|pair| pair.allocated = None);
    }
    assert_eq!(ours, recorded);
}

#[tokio::test(start_paused = true)]
async fn devices_of_an_unknown_model_pass_the_liveness_check() {
    let mut node = recorded_node();
    let labels = node["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|key, _| !key.starts_with("akash.network/capabilities"));
    let process = process(&of_nodes(vec![node]), Rules::default());
    let report = counted(&process).await;
    let text = in_json(&on_the_wire(&report), false);
    let value: Value = serde_json::from_slice(&text).unwrap();
    let gpu = &value["nodes"][0]["resources"]["gpu"];
    assert_eq!(
        (&gpu["quantity"]["capacity"], &gpu["info"]),
        (&json!("0"), &Value::Null)
    );
    let ignored = process.operator.status().ignored.join("\n");
    assert!(ignored.contains("2 nvidia GPUs of unknown model"), "{ignored}");
}

#[test]
fn json_keys_match_the_go_operator() {
    let quantity = |text: &str| {
        Some(
            akash_provider_chain::proto::k8s::io::apimachinery::pkg::api::resource::Quantity {
                string: Some(text.to_owned()),
            },
        )
    };
    let pair = Some(wire::ResourcePair {
        allocatable: quantity("2"),
        allocated: quantity("240m"),
        capacity: quantity("3"),
        attributes: Vec::new(),
    });
    let gpu = wire::Gpu {
        quantity: pair.clone(),
        info: vec![wire::GpuInfo {
            vendor: "nvidia".into(),
            modelid: "20b5".into(),
            ..wire::GpuInfo::default()
        }],
    };
    let resources = wire::NodeResources {
        gpu: Some(gpu),
        ..wire::NodeResources::default()
    };
    let cluster = wire::Cluster {
        nodes: vec![wire::Node {
            name: "n".into(),
            resources: Some(resources),
            capabilities: None,
        }],
        storage: vec![wire::Storage {
            quantity: pair,
            info: Some(wire::StorageInfo {
                class: "beta2".into(),
                iops: String::new(),
            }),
        }],
    };
    let value: Value = serde_json::from_slice(&in_json(&cluster, false)).unwrap();
    let keys = |at: &str| {
        let object = value.pointer(at).unwrap().as_object().unwrap();
        object.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    for (at, expected) in [
        ("", "nodes storage"),
        ("/nodes/0", "capabilities name resources"),
        ("/nodes/0/capabilities", "storage_classes"),
        (
            "/nodes/0/resources",
            "cpu ephemeral_storage gpu memory volumes_attached volumes_mounted",
        ),
        ("/nodes/0/resources/gpu", "info quantity"),
        (
            "/nodes/0/resources/gpu/quantity",
            "allocatable allocated capacity",
        ),
        (
            "/nodes/0/resources/gpu/info/0",
            "interface memory_size model_id name vendor vendor_id",
        ),
        ("/storage/0", "info quantity"),
        ("/storage/0/info", "class iops"),
    ] {
        assert_eq!(keys(at), expected, "{at}");
    }
    assert_eq!(value["storage"][0]["quantity"]["allocated"], "240m");
}
