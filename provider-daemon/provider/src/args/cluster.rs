//! Flags of the in-memory cluster, and the attributes of a provider with such a cluster.

use super::needs::Needs;
use super::values;
use akash_provider_core::inventory::{ClusterSpec, GpuSpec, NodeSpec};
use akash_provider_core::types::{Attribute, GroupSpec, Storage};
use akash_provider_k8s::inventory::CapacityOptions;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};

/// In-memory cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Number of nodes of the in-memory cluster
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(add = Needs::IN_MEMORY)]
    pub nodes: u32,
    /// CPU cores of each node, for example 16 or 500m
    #[arg(long, default_value = "16", value_parser = values::cores)]
    #[arg(add = Needs::IN_MEMORY)]
    pub node_cpu: i64,
    /// Memory of each node, for example 64Gi
    #[arg(long, default_value = "64Gi", value_parser = values::bytes)]
    #[arg(add = Needs::IN_MEMORY)]
    pub node_memory: i64,
    /// Ephemeral storage of each node, for example 512Gi
    #[arg(long, default_value = "512Gi", value_parser = values::bytes)]
    #[arg(add = Needs::IN_MEMORY)]
    pub node_storage: i64,
    /// GPUs of each node, as vendor/model[/memory[/interface]]=count; repeatable
    #[arg(long, value_parser = values::gpus)]
    #[arg(add = Needs::IN_MEMORY)]
    pub node_gpus: Vec<GpuSpec>,
    /// Size of a persistent storage class, as class=size; on Kubernetes, replaces the reported capacity;
    /// repeatable
    #[arg(long, value_parser = values::storage_class)]
    pub storage_class: Vec<(String, i64)>,
    /// Number of IP addresses for leases
    #[arg(long, default_value_t = 8)]
    pub leased_ips: u32,
    /// Number of node ports for services on random ports
    #[arg(long, default_value_t = 2768)]
    pub cluster_node_port_quantity: u32,
}

impl ClusterArgs {
    /// Returns the options for the inventory of a real cluster.
    #[must_use]
    pub fn inventory_options(&self) -> CapacityOptions {
        let mut options = CapacityOptions::default();
        options.storage.capacity = self.storage_class.iter().cloned().collect();
        options
    }

    /// Returns the description of the in-memory cluster.
    #[must_use]
    pub fn spec(&self) -> ClusterSpec {
        let node = |n: u32| {
            let mut node = NodeSpec::new(
                format!("node{n}"),
                self.node_cpu,
                self.node_memory,
                self.node_storage,
            );
            for gpu in &self.node_gpus {
                node = node.with_gpus(gpu.clone());
            }
            for (class, _) in &self.storage_class {
                node = node.with_class(class);
            }
            node
        };
        let mut spec = ClusterSpec::from_nodes((1..=self.nodes).map(node));
        for (class, bytes) in &self.storage_class {
            spec = spec.with_storage(class, *bytes);
        }
        spec
    }

    /// Returns `given` and the hardware attributes of the in-memory cluster.
    #[must_use]
    pub fn attributes(&self, given: &[Attribute]) -> Vec<Attribute> {
        let mut all: BTreeSet<Attribute> = given.iter().cloned().collect();
        for gpu in &self.node_gpus {
            let model = format!("capabilities/gpu/vendor/{}/model/{}", gpu.vendor, gpu.model);
            let interface = gpu.interface.to_ascii_lowercase();
            let interface = if interface.starts_with("sxm") {
                "sxm".to_owned()
            } else {
                interface
            };
            let ram = |base: &str| format!("{base}/ram/{}", gpu.memory_size);
            let bus = |base: &str| format!("{base}/interface/{interface}");
            let mut keys = vec![model.clone()];
            if !gpu.memory_size.is_empty() {
                keys.push(ram(&model));
            }
            if !interface.is_empty() {
                keys.extend(keys.clone().iter().map(|k| bus(k)));
            }
            all.extend(keys.into_iter().map(|key| Attribute::new(key, "true")));
        }
        let ram = [("class", "ram"), ("persistent", "false")];
        all.extend(ram.map(|(key, value)| Attribute::new(format!("capabilities/storage/1/{key}"), value)));
        for (number, (class, _)) in self.storage_class.iter().enumerate() {
            let base = format!("capabilities/storage/{}", number + 2);
            all.insert(Attribute::new(format!("{base}/class"), class));
            all.insert(Attribute::new(format!("{base}/persistent"), "true"));
        }
        all.into_iter().collect()
    }

    /// Increases the hardware until all `groups` fit together.
    pub fn grow_for(&mut self, groups: &[GroupSpec]) {
        let (mut gpus, mut classes) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
        let (mut cpu, mut memory, mut storage, mut ips) = (0u64, 0u64, 0u64, 0u32);
        for group in groups {
            ips = ips.saturating_add(group.leased_ips());
            for unit in &group.resources {
                let (r, count) = (&unit.resources, u64::from(unit.count));
                cpu = cpu.saturating_add(r.cpu.units.saturating_mul(count));
                memory = memory.saturating_add(r.memory.bytes.saturating_mul(count));
                for key in r.gpu.attributes.iter().map(|a| &a.key) {
                    *gpus.entry(key.clone()).or_default() += r.gpu.units.saturating_mul(count);
                }
                for volume in &r.storage {
                    let bytes = volume.bytes.saturating_mul(count);
                    match class_of(volume) {
                        Some(class) => *classes.entry(class.to_owned()).or_default() += bytes,
                        None if volume.is_ram() => memory = memory.saturating_add(bytes),
                        None => storage = storage.saturating_add(bytes),
                    }
                }
            }
        }
        let at_least =
            |have: &mut i64, want: u64| *have = (*have).max(i64::try_from(want).unwrap_or(i64::MAX));
        at_least(&mut self.node_cpu, cpu);
        at_least(&mut self.node_memory, memory);
        at_least(&mut self.node_storage, storage);
        self.nodes = self.nodes.max(1);
        self.leased_ips = self.leased_ips.max(ips);
        self.node_gpus
            .extend(gpus.iter().filter_map(|(key, count)| gpu_of(key, *count)));
        for (class, bytes) in classes {
            self.storage_class.retain(|(have, _)| *have != class);
            self.storage_class
                .push((class, i64::try_from(bytes).unwrap_or(i64::MAX)));
        }
    }
}

fn class_of(volume: &Storage) -> Option<&str> {
    volume.class().filter(|_| volume.is_persistent())
}

/// Returns the GPU that matches an attribute such as `vendor/nvidia/model/a100/ram/80Gi`.
fn gpu_of(key: &str, count: u64) -> Option<GpuSpec> {
    let parts: Vec<&str> = key.split('/').collect();
    let value = |name: &str| {
        parts
            .chunks_exact(2)
            .find(|p| p.first() == Some(&name))
            .and_then(|p| p.last())
    };
    let model = match *value("model")? {
        "*" => "any",
        model => model,
    };
    let memory = value("ram").copied().unwrap_or_default();
    let interface = value("interface").copied().unwrap_or_default();
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    Some(GpuSpec::new(value("vendor")?, model, memory, interface, count))
}
