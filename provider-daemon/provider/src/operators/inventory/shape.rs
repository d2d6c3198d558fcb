//! Cluster in the formats of the Go operator: JSON and protobuf.

use akash_provider_chain::proto::akash::inventory::v1 as wire;
use akash_provider_gateway::inventory::cluster;
use akash_provider_operators::inventory::ClusterReport;
use akash_provider_operators::inventory::database::Model;
use akash_provider_operators::inventory::discovery::Processor;
use serde::Serialize;
use serde_json::{Value, json};

pub(super) fn on_the_wire(report: &ClusterReport) -> wire::Cluster {
    let mut cluster = cluster(report.metrics());
    for node in &mut cluster.nodes {
        let cpu = node
            .resources
            .as_mut()
            .and_then(|resources| resources.cpu.as_mut());
        // Discovered processors have more properties than the labels of the node.
        if let (Some(cpu), Some(seen)) = (cpu, report.processors.get(&node.name)) {
            cpu.info = seen.iter().map(processor).collect();
        }
    }
    let gpus = cluster
        .nodes
        .iter_mut()
        .filter_map(|node| node.resources.as_mut()?.gpu.as_mut());
    for gpu in gpus {
        for device in &mut gpu.info {
            let model = Model {
                name: device.name.clone(),
                interface: device.interface.clone(),
                memory_size: device.memory_size.clone(),
            };
            let number = report.list.device(&device.vendor, &model);
            device.modelid = number.unwrap_or_default().to_owned();
        }
        // The liveness check of the Go operator's charts restarts an operator that reports devices without a model.
        // Devices of an unknown model cannot be ordered, are in the status, and do not appear after a restart.
        if let (true, Some(quantity)) = (gpu.info.is_empty(), &mut gpu.quantity) {
            quantity.capacity.clone_from(&quantity.allocatable);
        }
    }
    cluster
}

fn processor(seen: &Processor) -> wire::CpuInfo {
    wire::CpuInfo {
        id: seen.id.clone(),
        vendor: seen.vendor.clone(),
        model: seen.model.clone(),
        vcores: seen.threads,
    }
}

pub(super) fn in_json(cluster: &wire::Cluster, is_pretty: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct ClusterJson {
        nodes: Vec<Value>,
        storage: Vec<Value>,
    }
    let body = ClusterJson {
        nodes: cluster.nodes.iter().map(node).collect(),
        storage: cluster.storage.iter().map(storage).collect(),
    };
    let text = if is_pretty {
        serde_json::to_vec_pretty(&body)
    } else {
        serde_json::to_vec(&body)
    };
    // Plain data always serializes to JSON.
    text.unwrap_or_default()
}

fn node(node: &wire::Node) -> Value {
    let resources = node.resources.clone().unwrap_or_default();
    let cpu = resources.cpu.unwrap_or_default();
    let memory = resources.memory.unwrap_or_default();
    let gpu = resources.gpu.unwrap_or_default();
    let processors = cpu
        .info
        .iter()
        .map(|cpu| json!({"id": cpu.id, "vendor": cpu.vendor, "model": cpu.model, "vcores": cpu.vcores}));
    let modules = memory.info.iter().map(|module| {
        json!({"vendor": module.vendor, "type": module.r#type, "total_size": module.total_size, "speed": module.speed})
    });
    let devices = gpu.info.iter().map(|gpu| {
        json!({
            "vendor": gpu.vendor, "vendor_id": gpu.vendor_id, "name": gpu.name, "model_id": gpu.modelid,
            "interface": gpu.interface, "memory_size": gpu.memory_size,
        })
    });
    let classes = node
        .capabilities
        .as_ref()
        .map_or(&[][..], |able| &able.storage_classes[..]);
    json!({
        "name": node.name,
        "resources": {
            "cpu": {"quantity": pair(cpu.quantity.as_ref()), "info": list(processors)},
            "memory": {"quantity": pair(memory.quantity.as_ref()), "info": list(modules)},
            "gpu": {"quantity": pair(gpu.quantity.as_ref()), "info": list(devices)},
            "ephemeral_storage": pair(resources.ephemeral_storage.as_ref()),
            "volumes_attached": pair(resources.volumes_attached.as_ref()),
            "volumes_mounted": pair(resources.volumes_mounted.as_ref()),
        },
        "capabilities": {"storage_classes": classes},
    })
}

fn storage(storage: &wire::Storage) -> Value {
    let info = storage.info.clone().unwrap_or_default();
    json!({
        "quantity": pair(storage.quantity.as_ref()),
        "info": {"class": info.class, "iops": info.iops},
    })
}

/// Returns a JSON array, or `null` for an empty list as in the Go operator.
fn list(items: impl Iterator<Item = Value>) -> Value {
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        Value::Null
    } else {
        items.into()
    }
}

fn pair(pair: Option<&wire::ResourcePair>) -> Value {
    let pair = pair.cloned().unwrap_or_default();
    let quantity = |quantity: Option<
        akash_provider_chain::proto::k8s::io::apimachinery::pkg::api::resource::Quantity,
    >| { quantity.and_then(|quantity| quantity.string) };
    json!({
        "allocatable": quantity(pair.allocatable),
        "allocated": quantity(pair.allocated),
        "capacity": quantity(pair.capacity),
    })
}

#[cfg(test)]
mod tests;
