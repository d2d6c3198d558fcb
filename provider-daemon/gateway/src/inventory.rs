//! Conversion of a cluster's capacity to the inventory message of the Akash network, for the gRPC status and for
//! clients of the inventory operator.

use akash_provider_chain::proto::akash::inventory::v1 as inventory;
use akash_provider_chain::proto::k8s::io::apimachinery::pkg::api::resource::Quantity;
use akash_provider_core::inventory::{GpuMetrics, Hardware, Metrics, NodeMetrics, Pair};

/// Maximum number of listed devices of one kind on one node.
const DEVICES_MAX: u32 = 64;

/// Converts the capacity of a cluster. A node has one entry for each GPU, up to 64 entries for one kind.
#[must_use]
pub fn cluster(metrics: &Metrics) -> inventory::Cluster {
    let storage = metrics.storage.iter().map(|(class, amount)| inventory::Storage {
        quantity: Some(pair(amount, bytes)),
        info: Some(inventory::StorageInfo {
            class: class.clone(),
            iops: String::new(),
        }),
    });
    inventory::Cluster {
        nodes: metrics.nodes.iter().map(node).collect(),
        storage: storage.collect(),
    }
}

fn node(node: &NodeMetrics) -> inventory::Node {
    let none = pair(&Pair::default(), bytes);
    let machine = &node.hardware;
    let of_machine = |has: Option<i64>| has.and_then(|n| u64::try_from(n).ok());
    inventory::Node {
        name: node.name.clone(),
        resources: Some(inventory::NodeResources {
            cpu: Some(inventory::Cpu {
                quantity: Some(pair_with_capacity(&node.cpu, of_machine(machine.cpu), cores)),
                info: processors(machine).into_iter().collect(),
            }),
            memory: Some(inventory::Memory {
                quantity: Some(pair_with_capacity(
                    &node.memory,
                    of_machine(machine.memory),
                    bytes,
                )),
                info: Vec::new(),
            }),
            gpu: Some(inventory::Gpu {
                quantity: Some(pair_with_capacity(&node.gpu, machine.gpus.map(u64::from), bytes)),
                info: node.gpus.iter().flat_map(devices).collect(),
            }),
            ephemeral_storage: Some(pair_with_capacity(
                &node.storage_ephemeral,
                of_machine(machine.ephemeral),
                bytes,
            )),
            volumes_attached: Some(none.clone()),
            volumes_mounted: Some(none),
        }),
        capabilities: Some(inventory::NodeCapabilities {
            storage_classes: node.storage_classes.clone(),
        }),
    }
}

/// Returns one entry for all processors of a node. Returns `None` if the vendor is unknown. The model is
/// always empty, because no Kubernetes object contains the model.
fn processors(machine: &Hardware) -> Option<inventory::CpuInfo> {
    let vendor = machine.cpu_vendor.clone()?;
    let cores = machine.cpu.unwrap_or(0) / 1000;
    Some(inventory::CpuInfo {
        id: "0".to_owned(),
        vendor,
        model: String::new(),
        vcores: u32::try_from(cores).unwrap_or(0),
    })
}

/// Returns one entry for each GPU, without PCI ids.
fn devices(kind: &GpuMetrics) -> impl Iterator<Item = inventory::GpuInfo> {
    let info = inventory::GpuInfo {
        vendor: kind.vendor.to_string(),
        name: kind.model.to_string(),
        interface: kind.interface.to_string(),
        memory_size: kind.memory_size.to_string(),
        ..inventory::GpuInfo::default()
    };
    // Real machines have fewer; an invalid count must not make a large message.
    std::iter::repeat_n(info, usize::try_from(kind.count.min(DEVICES_MAX)).unwrap_or(0))
}

/// Converts the amounts of a resource. The allocatable amount is used as the capacity.
pub(crate) fn pair(amount: &Pair, notation: fn(u64) -> String) -> inventory::ResourcePair {
    pair_with_capacity(amount, None, notation)
}

/// Converts the amount of a resource on a node to a protobuf message. `capacity` includes the amount reserved
/// for the system.
fn pair_with_capacity(
    amount: &Pair,
    capacity: Option<u64>,
    notation: fn(u64) -> String,
) -> inventory::ResourcePair {
    let quantity = |number| {
        Some(Quantity {
            string: Some(notation(number)),
        })
    };
    inventory::ResourcePair {
        allocatable: quantity(amount.allocatable),
        allocated: quantity(amount.allocatable.saturating_sub(amount.available)),
        attributes: Vec::new(),
        capacity: quantity(capacity.unwrap_or(amount.allocatable)),
    }
}

/// Formats a number of bytes. Numbers above `i64::MAX` become `i64::MAX`, because clients parse a signed
/// number.
pub(crate) fn bytes(number: u64) -> String {
    number.min(i64::MAX.unsigned_abs()).to_string()
}

/// Formats a multiple of 1000 millicores as cores, and any other amount as millicores.
pub(crate) fn cores(milli: u64) -> String {
    if milli.is_multiple_of(1000) {
        (milli / 1000).to_string()
    } else {
        format!("{milli}m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_use_the_notation_of_kubernetes() {
        let amount = Pair {
            allocatable: 2000,
            available: 1760,
        };
        let text = |q: Option<Quantity>| q.unwrap().string.unwrap();
        let amounts = pair(&amount, cores);
        assert_eq!(text(amounts.allocatable), "2");
        assert_eq!(text(amounts.allocated), "240m");
        assert_eq!(text(amounts.capacity), "2");
        assert_eq!(
            text(pair_with_capacity(&amount, Some(2500), cores).capacity),
            "2500m"
        );
        assert_eq!(bytes(u64::MAX), "9223372036854775807");
    }
}
