//! GPU models of the devices of a node, and their sources.

use super::super::database::{Database, Model};
use super::super::discovery::Cards;
use super::super::node::NodeView;
use super::existing;
use akash_provider_kube_model::inventory::{AMD_DEVICE_ID, UnnamedGpu, Vendor, gpu_of_vendor, pci_gpus};
use std::collections::BTreeSet;

/// Models of the devices of one vendor on a node.
pub(super) enum GpuModels {
    /// Number of devices of each model. The sum is the number of all devices.
    Models(Vec<(Model, i64)>),
    /// The models are unknown. Contains the reason.
    Unknown(String),
    /// Reason why the labels do not name the models. Discovery can possibly find the models.
    Undiscovered(String),
}

/// Returns the GPU models of a vendor, from the labels of a node. Labels with PCI device IDs take precedence
/// over the labels of the vendor's tools.
pub(super) fn gpu_models(node: &NodeView, vendor: Vendor, count: i64, list: &Database) -> GpuModels {
    let name = vendor.name();
    let by_tools = gpu_of_vendor(&node.labels, vendor);
    let unnamed = UnnamedGpu::new(&node.labels, vendor);
    if matches!(unnamed, UnnamedGpu::Shared(_)) {
        return GpuModels::Unknown(unknown(vendor, &unnamed));
    }
    let on_bus = pci_gpus(&node.labels).filter(|gpu| gpu.maker == vendor.pci_id());
    let mut numbers: BTreeSet<(&str, &str)> =
        on_bus.filter_map(|gpu| Some((gpu.maker, gpu.device?))).collect();
    if vendor == Vendor::Amd && numbers.is_empty() {
        numbers.extend(
            node.labels
                .get(AMD_DEVICE_ID)
                .map(|device| (vendor.pci_id(), device.as_str())),
        );
    }
    let is_labelled = !existing(node, &vendor.label_prefix()).is_empty();
    // Existing labels may come from the list, so they stay until the list is read.
    if list.is_empty() && is_labelled && !numbers.is_empty() {
        return GpuModels::Unknown(UNREAD.to_owned());
    }
    let found: Option<Vec<&Model>> = numbers
        .iter()
        .map(|(maker, device)| list.model(maker, device))
        .collect();
    let models = distinct(found.unwrap_or_default());
    let all = |model: Model| GpuModels::Models(vec![(model, count)]);
    match (models.as_slice(), by_tools) {
        ([only], _) => all((*only).clone()),
        // Tools of the vendor may name a device that the list lacks.
        (_, Some((_, spec))) if models.len() < 2 => all(Model {
            name: spec.model,
            interface: spec.interface,
            memory_size: spec.memory_size,
        }),
        ([], _) if numbers.is_empty() => GpuModels::Undiscovered(unknown(vendor, &unnamed)),
        ([], _) => {
            let numbers: Vec<_> = numbers
                .iter()
                .take(NUMBERS)
                .map(|(maker, device)| format!("{maker}:{device}"))
                .collect();
            GpuModels::Unknown(format!(
                "the model of the {name} GPUs is unknown: the list of GPUs lacks {}",
                numbers.join(", ").escape_debug()
            ))
        }
        _ => GpuModels::Undiscovered(format!(
            "the node has {name} GPUs of {} models; set label {}model.MODEL to the number of GPUs for each model, or \
             use hardware discovery",
            models.len(),
            vendor.label_prefix()
        )),
    }
}

fn unknown(vendor: Vendor, unnamed: &UnnamedGpu) -> String {
    let (name, help) = (vendor.name(), unnamed.help());
    format!("the model of the {name} GPUs is unknown: {unnamed}; {help}")
}

/// Maximum number of device IDs in a message about unknown models.
const NUMBERS: usize = 8;
/// Reason why models are unknown before the list of GPUs is read.
const UNREAD: &str = "the list of GPUs is pending";

/// Returns the GPU models of a vendor from the discovered cards. `count` is the number of devices that the
/// kubelet reports.
pub(super) fn found(cards: &Cards, vendor: Vendor, count: i64, list: &Database) -> GpuModels {
    let name = vendor.name();
    if list.is_empty() {
        return GpuModels::Unknown(UNREAD.to_owned());
    }
    let (seen, unreadable) = (cards.count(vendor), cards.unreadable(vendor));
    if seen < count {
        return GpuModels::Unknown(format!(
            "{seen} {name} cards were discovered for {count} devices: GPUs are shared or partitioned, or cards are missing"
        ));
    }
    let looked_up = cards
        .by_vendor(vendor)
        .map(|(device, count)| (list.model(vendor.pci_id(), device), device, count));
    let mut models: Vec<(&Model, i64)> = Vec::new();
    for (model, device, count) in looked_up {
        let Some(model) = model else {
            return GpuModels::Unknown(format!(
                "the list of GPUs lacks the discovered {name} card {device}"
            ));
        };
        match models.iter_mut().find(|(listed, _)| *listed == model) {
            Some((_, sum)) => *sum += count,
            None => models.push((model, count)),
        }
    }
    let owned = |(model, count): (&Model, i64)| (model.clone(), count);
    match models.as_slice() {
        _ if unreadable > 0 => {
            GpuModels::Unknown(format!("{unreadable} discovered {name} cards have no device ID"))
        }
        // A surplus card may serve a display. All devices have this model.
        [(only, _)] => GpuModels::Models(vec![((*only).clone(), count)]),
        _ if seen == count => GpuModels::Models(models.into_iter().map(owned).collect()),
        _ => GpuModels::Unknown(format!(
            "{seen} {name} cards of {} models were discovered, and the models of the {count} devices are unknown",
            models.len()
        )),
    }
}

fn distinct(mut models: Vec<&Model>) -> Vec<&Model> {
    models.sort_unstable_by_key(|model| (&model.name, &model.interface, &model.memory_size));
    models.dedup();
    models
}
