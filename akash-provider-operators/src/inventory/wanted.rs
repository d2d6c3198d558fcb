//! Desired labels of a node. The computation is pure.
//!
//! Unknown properties change no label. The labels of a node that is not ready are unchanged, because Kubernetes
//! schedules no pod on such a node. The labels of devices with an unknown model are also unchanged, because existing
//! labels are better than none.

use super::database::{Database, Model, interface};
use super::discovery::Cards;
use super::node::{GPU_PRESENT, NodeView, is_ours};
use super::rules::Rules;
use akash_provider_kube_kernel::labels::CLASS_LABEL;
use akash_provider_kube_kernel::labels::{self, Labels};
use akash_provider_kube_model::inventory::{Vendor, pci_gpus};
use models::GpuModels;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

mod models;

/// Maximum number of devices of one node; a higher number is an error of the kubelet or of the discovery pod.
pub(crate) const DEVICES_MAX: i64 = 256;
/// Maximum length of the name part of a label key.
const KEY_MAX: usize = 63;

/// Whether a node is offered, and if not, the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OfferState {
    /// The node is offered.
    Offered,
    /// The rules exclude the node; the operator removes all its own labels from the node.
    Excluded,
    /// The node is cordoned. The operator removes its own labels, except `nvidia.com/gpu.present`.
    Cordoned,
    /// The node is not ready. The labels of the node are unchanged.
    Unready,
}

/// Desired labels of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DesiredLabels {
    /// Whether the node is offered, and if not, the reason.
    pub standing: OfferState,
    /// Labels that this operator writes, including [`GPU_PRESENT`] if desired.
    pub labels: Labels,
    /// Devices and storage classes that the labels omit, each with the reason.
    pub notes: Vec<String>,
}

/// Computes the desired labels of a node. `classes` are the storage classes with the label
/// `akash.network=true`; `found` are the discovered cards.
pub(crate) fn wanted(
    node: &NodeView,
    rules: &Rules,
    classes: &BTreeSet<String>,
    list: &Database,
    found: Option<&Cards>,
) -> DesiredLabels {
    let mut wanted = DesiredLabels {
        standing: standing(node, rules),
        labels: Labels::new(),
        notes: Vec::new(),
    };
    match wanted.standing {
        OfferState::Excluded => return wanted,
        // The device plugin requires this label: without it, running pods lose their devices.
        OfferState::Cordoned => {
            wanted.labels = existing(node, GPU_PRESENT);
            return wanted;
        }
        OfferState::Unready => {
            wanted.labels = existing(node, "");
            return wanted;
        }
        OfferState::Offered => {}
    }
    wanted.set(labels::MANAGED.to_owned(), "true");
    let offered = rules.classes_of(&node.name);
    for class in offered.filter(|class| classes.contains(*class)) {
        wanted.set(format!("{CLASS_LABEL}{class}"), "1");
    }
    wanted.gpu_present(node);
    for (vendor, devices) in Vendor::ALL.into_iter().zip(node.devices) {
        wanted.devices(node, vendor, devices, list, found);
    }
    wanted
}

/// Returns true if discovery may find missing device models of an offered node.
pub(super) fn needs_discovery(node: &NodeView, rules: &Rules, list: &Database) -> bool {
    let mut vendors = Vendor::ALL.into_iter().zip(node.devices);
    standing(node, rules) == OfferState::Offered
        && vendors.any(|(vendor, devices)| {
            let count = devices.filter(|count| (1..=DEVICES_MAX).contains(count));
            count.is_some_and(|count| {
                matches!(
                    models::gpu_models(node, vendor, count, list),
                    GpuModels::Undiscovered(_)
                )
            })
        })
}

fn standing(node: &NodeView, rules: &Rules) -> OfferState {
    if rules.excludes(&node.name) {
        OfferState::Excluded
    } else if node.is_cordoned {
        OfferState::Cordoned
    } else if node.is_ready {
        OfferState::Offered
    } else {
        OfferState::Unready
    }
}

/// Returns the labels that this operator has set on the node. Includes only keys that start with `start`.
fn existing(node: &NodeView, start: &str) -> Labels {
    let there = node.labels.iter();
    let there = there.filter(|(key, _)| is_ours(key) && key.starts_with(start));
    let mut labels: Labels = there.map(|(key, value)| (key.clone(), value.clone())).collect();
    if GPU_PRESENT.starts_with(start) && node.gpu_present_is_ours {
        labels.insert(GPU_PRESENT.to_owned(), "true".to_owned());
    }
    labels
}

impl DesiredLabels {
    fn set(&mut self, key: String, value: impl Into<String>) {
        // The API server refuses all labels of a node if one key is invalid.
        if is_key(&key) {
            self.labels.insert(key, value.into());
        } else {
            self.notes.push(format!(
                "`{}` is not a valid label key and is omitted",
                key.escape_debug()
            ));
        }
    }

    /// Sets the label that enables the NVIDIA device plugin. A node without the plugin reports no devices, so
    /// PCI labels are sufficient to set the label.
    fn gpu_present(&mut self, node: &NodeView) {
        let named = node.devices[Vendor::Nvidia as usize].is_some();
        let is_on_bus = pci_gpus(&node.labels).any(|gpu| gpu.maker == Vendor::Nvidia.pci_id());
        if named || node.gpu_present_is_ours || is_on_bus {
            self.labels.insert(GPU_PRESENT.to_owned(), "true".to_owned());
        }
    }

    fn devices(
        &mut self,
        node: &NodeView,
        vendor: Vendor,
        devices: Option<i64>,
        list: &Database,
        found: Option<&Cards>,
    ) {
        let start = vendor.label_prefix();
        let there = existing(node, &start);
        let Some(count) = devices else {
            // The node lacks the resource. During a restart of the device plugin the resource exists with a count of
            // 0.
            return;
        };
        let models = match count {
            0 => GpuModels::Unknown(format!("no {} GPU is available at the moment", vendor.name())),
            count if count > DEVICES_MAX => GpuModels::Unknown(format!(
                "{count} {} GPUs exceed the limit of a node",
                vendor.name()
            )),
            count => match (models::gpu_models(node, vendor, count, list), found) {
                (GpuModels::Undiscovered(_), Some(found)) => models::found(found, vendor, count, list),
                (models, _) => models,
            },
        };
        match models {
            GpuModels::Models(models) => self.models(&start, &models, &there),
            GpuModels::Unknown(why) | GpuModels::Undiscovered(why) if there.is_empty() => {
                self.notes.push(why)
            }
            GpuModels::Unknown(why) | GpuModels::Undiscovered(why) => {
                self.notes
                    .push(format!("{why}; the existing labels are unchanged"));
                self.labels.extend(there);
            }
        }
    }

    /// Sets labels with the number of devices: one label for each model, memory size and interface.
    fn models(&mut self, start: &str, models: &[(Model, i64)], there: &Labels) {
        // Variants of a model share its counter.
        let mut counters: BTreeMap<String, i64> = BTreeMap::new();
        for (model, count) in models {
            let key = format!("{start}model.{}", model.name);
            let part = |what: &str, value: &str| {
                if !value.is_empty() {
                    return vec![format!("{key}.{what}.{value}")];
                }
                // A previous label may state an unknown property, and pods of leases are bound by it.
                let start = format!("{key}.{what}.");
                let names = there.keys().filter(|key| key.starts_with(&start));
                names.cloned().collect()
            };
            let parts = [
                part("ram", &model.memory_size),
                part("interface", &interface(&model.interface)),
            ];
            let keys = parts.into_iter().flatten().chain([key]);
            for key in keys {
                *counters.entry(key).or_default() += count;
            }
        }
        for (key, count) in counters {
            self.set(key, count.to_string());
        }
    }
}

/// Returns the patch that sets the desired labels, or `None` if the node already has them. Labels of other clients are
/// unchanged.
pub(crate) fn patch(node: &NodeView, wanted: &DesiredLabels) -> Option<Value> {
    let mut changes = Map::new();
    for (key, value) in &wanted.labels {
        // Of this label only the presence matters; its value is unchanged.
        let is_there = match node.labels.get(key) {
            Some(there) => there == value || key == GPU_PRESENT,
            None => false,
        };
        if !is_there {
            changes.insert(key.clone(), json!(value));
        }
    }
    for key in node.labels.keys().filter(|key| !wanted.labels.contains_key(*key)) {
        if is_ours(key) || (key == GPU_PRESENT && node.gpu_present_is_ours) {
            changes.insert(key.clone(), Value::Null);
        }
    }
    // The UID prevents a write to a new node with the same name.
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": node.uid, "labels": changes}}))
}

/// Returns true if the part of the label key after the `/` is valid.
fn is_key(key: &str) -> bool {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.len() <= KEY_MAX
        && ends(name.bytes().next())
        && ends(name.bytes().last())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
pub(super) mod tests;
