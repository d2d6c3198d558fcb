//! A cluster as the network's inventory has it on the wire: in the provider's status, and of whoever counts.

use akash_provider_chain::proto::akash::inventory::v1 as inventory;
use akash_provider_chain::proto::k8s::io::apimachinery::pkg::api::resource::Quantity;
use akash_provider_core::inventory::{GpuMetrics, Hardware, Metrics, NodeMetrics, Pair};

/// Devices of one kind that are listed.
const DEVICES_MAX: u32 = 64;

/// A cluster on the wire: quantities as Kubernetes writes them, a line for each device, at most 64 of one kind.
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
                quantity: Some(of(&node.cpu, of_machine(machine.cpu), cores)),
                info: processors(machine).into_iter().collect(),
            }),
            memory: Some(inventory::Memory {
                quantity: Some(of(&node.memory, of_machine(machine.memory), bytes)),
                info: Vec::new(),
            }),
            gpu: Some(inventory::Gpu {
                quantity: Some(of(&node.gpu, machine.gpus.map(u64::from), bytes)),
                info: node.gpus.iter().flat_map(devices).collect(),
            }),
            ephemeral_storage: Some(of(&node.storage_ephemeral, of_machine(machine.ephemeral), bytes)),
            volumes_attached: Some(none.clone()),
            volumes_mounted: Some(none),
        }),
        capabilities: Some(inventory::NodeCapabilities {
            storage_classes: node.storage_classes.clone(),
        }),
    }
}

/// The processors of a node as one, as today's inventory counts them where they are equal; nothing where nobody
/// says who made them. The name of their model is in no object of the cluster.
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

/// A line for each device. The numbers of vendor and model are not known here, their names are.
fn devices(kind: &GpuMetrics) -> impl Iterator<Item = inventory::GpuInfo> {
    let info = inventory::GpuInfo {
        vendor: kind.vendor.to_string(),
        name: kind.model.to_string(),
        interface: kind.interface.to_string(),
        memory_size: kind.memory_size.to_string(),
        ..inventory::GpuInfo::default()
    };
    // More are on no board; a number that makes no sense makes no long answer.
    std::iter::repeat_n(info, usize::try_from(kind.count.min(DEVICES_MAX)).unwrap_or(0))
}

/// Where nobody says what there is in all, it is what can be used.
pub(crate) fn pair(amount: &Pair, shown: fn(u64) -> String) -> inventory::ResourcePair {
    of(amount, None, shown)
}

/// An amount of a machine that has so much in all, what it keeps for itself included.
fn of(amount: &Pair, capacity: Option<u64>, shown: fn(u64) -> String) -> inventory::ResourcePair {
    let quantity = |number| {
        Some(Quantity {
            string: Some(shown(number)),
        })
    };
    inventory::ResourcePair {
        allocatable: quantity(amount.allocatable),
        allocated: quantity(amount.allocatable.saturating_sub(amount.available)),
        attributes: Vec::new(),
        capacity: quantity(capacity.unwrap_or(amount.allocatable)),
    }
}

/// What the network reads as a signed number.
pub(crate) fn bytes(number: u64) -> String {
    number.min(i64::MAX.unsigned_abs()).to_string()
}

/// Thousandths of a core, or whole ones.
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
    fn amounts_are_written_as_kubernetes_writes_them() {
        let amount = Pair {
            allocatable: 2000,
            available: 1760,
        };
        let text = |q: Option<Quantity>| q.unwrap().string.unwrap();
        let shown = pair(&amount, cores);
        assert_eq!(text(shown.allocatable), "2");
        assert_eq!(text(shown.allocated), "240m");
        assert_eq!(text(shown.capacity), "2");
        assert_eq!(text(of(&amount, Some(2500), cores).capacity), "2500m");
        assert_eq!(bytes(u64::MAX), "9223372036854775807");
    }
}
