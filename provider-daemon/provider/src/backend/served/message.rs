//! Checks of a message from an inventory operator, and its conversion. An invalid message is rejected as a whole,
//! because a part of it would show nodes as removed.

use akash_provider_chain::proto::akash::inventory::v1 as wire;
use akash_provider_chain::proto::k8s::io::apimachinery::pkg::api::resource::Quantity as Text;
use akash_provider_cli::values::dns_name;
use akash_provider_core::inventory::{ClusterSpec, GpuSpec, Hardware, NodeSpec, Quantity};
use akash_provider_k8s::inventory::{milli, whole};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of nodes; Kubernetes supports 5,000.
const NODES_MAX: usize = 10_000;
/// Maximum number of storage classes, in the cluster and of one node.
const CLASSES_MAX: usize = 64;
/// Maximum number of listed devices or processors of a node.
const DEVICES_MAX: usize = 1_024;
/// Maximum length of a text about a device, and of a quantity.
const TEXT_MAX: usize = 128;
/// Maximum length of an excerpt in an error message.
const EXCERPT_MAX: usize = 80;

/// Converts the cluster of an inventory operator. The used amounts include those of this provider's leases.
///
/// # Errors
/// Returns the reason why the message is invalid or too large.
pub(crate) fn cluster_spec(cluster: &wire::Cluster) -> Result<ClusterSpec, String> {
    limit("nodes", cluster.nodes.len(), NODES_MAX)?;
    limit("storage classes", cluster.storage.len(), CLASSES_MAX)?;
    let mut names = BTreeSet::new();
    let mut spec = ClusterSpec::default();
    for node in &cluster.nodes {
        let name = object_name(&node.name)?;
        let invalid = |why: String| format!("node {name}: {why}");
        if !names.insert(name) {
            return Err(invalid("listed twice".to_owned()));
        }
        spec.nodes.push(node_spec(node).map_err(invalid)?);
    }
    for storage in &cluster.storage {
        let class = storage.info.as_ref().map(|info| info.class.as_str());
        let class = object_name(class.unwrap_or_default())?;
        let amount =
            bytes(storage.quantity.as_ref()).map_err(|why| format!("storage class {class}: {why}"))?;
        if spec.storage.insert(class.to_owned(), amount).is_some() {
            return Err(format!("storage class {class}: listed twice"));
        }
    }
    Ok(spec)
}

fn node_spec(node: &wire::Node) -> Result<NodeSpec, String> {
    let resources = node.resources.as_ref().ok_or("no resources")?;
    let cpu = resources.cpu.as_ref().ok_or("no CPU")?;
    let memory = resources
        .memory
        .as_ref()
        .and_then(|memory| memory.quantity.as_ref());
    let none = wire::Gpu::default();
    let gpu = resources.gpu.as_ref().unwrap_or(&none);
    let classes = node
        .capabilities
        .as_ref()
        .map_or(&[][..], |able| &able.storage_classes[..]);
    limit("storage classes", classes.len(), CLASSES_MAX)?;
    let classes = classes.iter().map(|class| object_name(class).map(str::to_owned));
    let devices = match &gpu.quantity {
        None => Quantity::default(),
        devices => bytes(devices.as_ref())?,
    };
    let count = |devices: i64| u32::try_from(devices).unwrap_or(u32::MAX);
    Ok(NodeSpec {
        name: node.name.clone(),
        cpu: amounts(cpu.quantity.as_ref(), milli)?,
        memory: bytes(memory)?,
        ephemeral: bytes(resources.ephemeral_storage.as_ref())?,
        gpus: kinds(&gpu.info)?,
        gpu_allocatable: Some(count(devices.allocatable)),
        gpu_allocated: count(devices.allocated),
        storage_classes: classes.collect::<Result<_, _>>()?,
        hardware: hardware(cpu, memory, resources, gpu)?,
        ..NodeSpec::default()
    })
}

/// Groups equal devices.
fn kinds(devices: &[wire::GpuInfo]) -> Result<Vec<GpuSpec>, String> {
    limit("GPUs", devices.len(), DEVICES_MAX)?;
    let mut kinds: BTreeMap<_, u32> = BTreeMap::new();
    for device in devices {
        let kind = [
            &device.vendor,
            &device.name,
            &device.memory_size,
            &device.interface,
        ]
        .map(|text| word(text));
        let [vendor, model, memory, interface] = kind;
        *kinds.entry((vendor?, model?, memory?, interface?)).or_default() += 1;
    }
    let kinds = kinds.into_iter();
    let kinds = kinds.map(|((vendor, model, memory, interface), count)| {
        GpuSpec::new(vendor, model, memory, interface, count)
    });
    Ok(kinds.collect())
}

/// Returns the properties that reports show.
fn hardware(
    cpu: &wire::Cpu,
    memory: Option<&wire::ResourcePair>,
    resources: &wire::NodeResources,
    gpu: &wire::Gpu,
) -> Result<Hardware, String> {
    limit("processors", cpu.info.len(), DEVICES_MAX)?;
    let capacity = |pair: Option<&wire::ResourcePair>, parse: fn(&str) -> Option<i64>| {
        let text = pair.and_then(|pair| pair.capacity.as_ref()?.string.as_deref());
        text.filter(|text| text.len() <= TEXT_MAX).and_then(parse)
    };
    let vendor = cpu.info.first().map(|cpu| word(&cpu.vendor)).transpose()?;
    let gpus = capacity(gpu.quantity.as_ref(), whole).and_then(|count| u32::try_from(count).ok());
    Ok(Hardware {
        cpu: capacity(cpu.quantity.as_ref(), milli),
        memory: capacity(memory, whole),
        ephemeral: capacity(resources.ephemeral_storage.as_ref(), whole),
        gpus: gpus.filter(|count| *count > 0),
        cpu_vendor: vendor.filter(|vendor| !vendor.is_empty()).map(str::to_owned),
    })
}

fn bytes(pair: Option<&wire::ResourcePair>) -> Result<Quantity, String> {
    amounts(pair, whole)
}

fn amounts(pair: Option<&wire::ResourcePair>, parse: fn(&str) -> Option<i64>) -> Result<Quantity, String> {
    let pair = pair.ok_or("missing quantity")?;
    let amount = |quantity: &Option<Text>| {
        let text = quantity.as_ref().and_then(|quantity| quantity.string.as_deref());
        let text = text.ok_or("missing quantity")?;
        let amount = Some(text).filter(|text| text.len() <= TEXT_MAX).and_then(parse);
        amount.ok_or_else(|| format!("invalid quantity {:?}", excerpt(text)))
    };
    Ok(Quantity::used(
        amount(&pair.allocatable)?,
        amount(&pair.allocated)?,
    ))
}

fn limit(what: &str, count: usize, maximum: usize) -> Result<(), String> {
    match count <= maximum {
        true => Ok(()),
        false => Err(format!("{count} {what}, more than {maximum}")),
    }
}

fn object_name(text: &str) -> Result<&str, String> {
    match dns_name(text) {
        Ok(_) => Ok(text),
        Err(_) => Err(format!("invalid object name {:?}", excerpt(text))),
    }
}

/// Checks a vendor, a model or a size, which node labels can contain.
fn word(text: &str) -> Result<&str, String> {
    let is_plain = text.len() <= TEXT_MAX && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match is_plain {
        true => Ok(text),
        false => Err(format!("invalid text {:?}", excerpt(text))),
    }
}

/// Returns the start of a text of the operator.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(allocatable: &str, allocated: &str) -> Option<wire::ResourcePair> {
        let text = |text: &str| {
            Some(Text {
                string: Some(text.to_owned()),
            })
        };
        Some(wire::ResourcePair {
            allocatable: text(allocatable),
            allocated: text(allocated),
            capacity: text(allocatable),
            attributes: Vec::new(),
        })
    }

    fn cluster() -> wire::Cluster {
        let device = wire::GpuInfo {
            vendor: "nvidia".to_owned(),
            name: "a100".to_owned(),
            ..wire::GpuInfo::default()
        };
        let resources = wire::NodeResources {
            cpu: Some(wire::Cpu {
                quantity: pair("8", "1500m"),
                info: Vec::new(),
            }),
            memory: Some(wire::Memory {
                quantity: pair("16Gi", "1073741824"),
                info: Vec::new(),
            }),
            gpu: Some(wire::Gpu {
                quantity: pair("2", "1"),
                info: vec![device.clone(), device],
            }),
            ephemeral_storage: pair("100G", "0"),
            ..wire::NodeResources::default()
        };
        wire::Cluster {
            nodes: vec![wire::Node {
                name: "node1".to_owned(),
                resources: Some(resources),
                capabilities: Some(wire::NodeCapabilities {
                    storage_classes: vec!["beta2".to_owned()],
                }),
            }],
            storage: vec![wire::Storage {
                quantity: pair("1Ti", "1Gi"),
                info: Some(wire::StorageInfo {
                    class: "beta2".to_owned(),
                    iops: String::new(),
                }),
            }],
        }
    }

    #[test]
    fn message_of_an_operator_becomes_plain_data() {
        let spec = cluster_spec(&cluster()).unwrap();
        let node = &spec.nodes[0];
        assert_eq!(node.cpu, Quantity::used(8_000, 1_500));
        assert_eq!(node.memory, Quantity::used(16 << 30, 1 << 30));
        assert_eq!(node.ephemeral, Quantity::used(100_000_000_000, 0));
        assert_eq!(node.gpus, [GpuSpec::new("nvidia", "a100", "", "", 2)]);
        assert_eq!((node.gpu_allocatable, node.gpu_allocated), (Some(2), 1));
        assert_eq!(node.storage_classes, ["beta2"]);
        assert_eq!(spec.storage["beta2"], Quantity::used(1 << 40, 1 << 30));
    }

    #[test]
    fn message_with_an_invalid_part_is_rejected_as_a_whole() {
        type Change = fn(&mut wire::Cluster);
        let changes: [(Change, &str); 10] = [
            (|c| c.nodes[0].name = "a\nb".to_owned(), "invalid object name"),
            (|c| c.nodes.push(c.nodes[0].clone()), "listed twice"),
            (
                |c| c.nodes = vec![c.nodes[0].clone(); NODES_MAX + 1],
                "more than 10000",
            ),
            (|c| c.nodes[0].resources = None, "no resources"),
            (|c| resources(c).memory = None, "missing quantity"),
            (
                |c| resources(c).ephemeral_storage = pair("1x", "0"),
                "invalid quantity",
            ),
            (
                |c| resources(c).ephemeral_storage = pair(&"1".repeat(200), "0"),
                "invalid quantity",
            ),
            (
                |c| gpu(c).info = vec![wire::GpuInfo::default(); DEVICES_MAX + 1],
                "GPUs, more than",
            ),
            (|c| gpu(c).info[0].name = "\u{1b}[2J".to_owned(), "invalid text"),
            (|c| c.storage[0].info = None, "invalid object name"),
        ];
        for (change, problem) in changes {
            let mut cluster = cluster();
            change(&mut cluster);
            let error = cluster_spec(&cluster).unwrap_err();
            assert!(error.contains(problem) && error.len() < 300, "{problem}: {error}");
        }
    }

    fn resources(cluster: &mut wire::Cluster) -> &mut wire::NodeResources {
        cluster.nodes[0].resources.as_mut().unwrap()
    }

    fn gpu(cluster: &mut wire::Cluster) -> &mut wire::Gpu {
        resources(cluster).gpu.as_mut().unwrap()
    }
}
