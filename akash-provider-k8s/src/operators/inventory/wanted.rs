//! Which labels a node is to have: a function of what is known, without a clock or a network.
//!
//! What is not known changes nothing. A node that is not ready keeps its labels, and so does a vendor's devices of which
//! nobody says the model: Kubernetes puts nothing on such a node anyway, and labels that somebody set are worth more than
//! none.

use super::database::{Database, Model, interface, vendor_of};
use super::discovery::Cards;
use super::node::{GPU_PRESENT, NodeView, is_ours};
use super::rules::Rules;
use crate::inventory::Vendor;
use crate::inventory::gpu::PREFIX as GPU_PREFIX;
use crate::inventory::node::CLASS_LABEL;
use crate::labels::{self, Labels};
use models::Known;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

mod models;

/// Devices that one machine may have; more is a mistake of whoever counts them.
pub const DEVICES_MAX: i64 = 256;
/// Longest part of a label's key behind the slash, as the API server has it.
const KEY_MAX: usize = 63;

/// What is to become of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is offered.
    Offered,
    /// The rules leave it out: it has none of our labels.
    Excluded,
    /// Somebody has cordoned it: it has none of our labels but that of the device plugin.
    Cordoned,
    /// It is not ready: its labels stay as they are.
    Unready,
}

/// The labels a node is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What is to become of the node.
    pub standing: Standing,
    /// Ours, and [`GPU_PRESENT`] where we want it.
    pub labels: Labels,
    /// What could not be said in labels, and why.
    pub notes: Vec<String>,
}

/// The labels that a node is to have. `classes` are those of the cluster that may be offered, `found` is what a pod of
/// ours has seen on this machine.
#[must_use]
pub fn wanted(
    node: &NodeView,
    rules: &Rules,
    classes: &BTreeSet<String>,
    list: &Database,
    found: Option<&Cards>,
) -> Wanted {
    let mut wanted = Wanted {
        standing: standing(node, rules),
        labels: Labels::new(),
        notes: Vec::new(),
    };
    match wanted.standing {
        Standing::Excluded => return wanted,
        // The device plugin hangs on this one: without it what still runs there loses its devices.
        Standing::Cordoned => {
            wanted.labels = kept(node, GPU_PRESENT);
            return wanted;
        }
        Standing::Unready => {
            wanted.labels = kept(node, "");
            return wanted;
        }
        Standing::Offered => {}
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

/// True for a node that is offered and has devices of which no label says the model.
pub(super) fn is_unsaid(node: &NodeView, rules: &Rules, list: &Database) -> bool {
    let mut vendors = Vendor::ALL.into_iter().zip(node.devices);
    standing(node, rules) == Standing::Offered
        && vendors.any(|(vendor, devices)| {
            let count = devices.filter(|count| (1..=DEVICES_MAX).contains(count));
            count.is_some_and(|count| matches!(models::known(node, vendor, count, list), Known::Unsaid(_)))
        })
}

fn standing(node: &NodeView, rules: &Rules) -> Standing {
    if rules.excludes(&node.name) {
        Standing::Excluded
    } else if node.is_cordoned {
        Standing::Cordoned
    } else if node.is_ready {
        Standing::Offered
    } else {
        Standing::Unready
    }
}

/// Labels of ours with such a start, as the node has them.
fn kept(node: &NodeView, start: &str) -> Labels {
    let there = node.labels.iter();
    let there = there.filter(|(key, _)| is_ours(key) && key.starts_with(start));
    let mut kept: Labels = there.map(|(key, value)| (key.clone(), value.clone())).collect();
    if GPU_PRESENT.starts_with(start) && node.gpu_present_is_ours {
        kept.insert(GPU_PRESENT.to_owned(), "true".to_owned());
    }
    kept
}

impl Wanted {
    fn set(&mut self, key: String, value: impl Into<String>) {
        // The API server refuses the labels of a node as a whole where one of them makes no sense.
        if is_key(&key) {
            self.labels.insert(key, value.into());
        } else {
            self.notes.push(format!(
                "`{}` can be no label: it is left out",
                key.escape_debug()
            ));
        }
    }

    /// The device plugin is put on nodes with this label alone, and the devices come with it: so it is there before them,
    /// and while they are away.
    fn gpu_present(&mut self, node: &NodeView) {
        let named = node.devices[Vendor::Nvidia as usize].is_some();
        let mut on_bus = node.on_bus();
        if named
            || node.gpu_present_is_ours
            || on_bus.any(|(maker, _)| vendor_of(maker) == Some(Vendor::Nvidia))
        {
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
        let start = format!("{GPU_PREFIX}{}.", vendor.name());
        let there = kept(node, &start);
        let Some(count) = devices else {
            // The kubelet does not name the resource at all. While a device plugin restarts it has it with none.
            return;
        };
        let known = match count {
            0 => Known::Nothing(format!("no {} GPU answers at the moment", vendor.name())),
            count if count > DEVICES_MAX => Known::Nothing(format!(
                "{count} {} GPUs are more than a machine has",
                vendor.name()
            )),
            count => match (models::known(node, vendor, count, list), found) {
                (Known::Unsaid(_), Some(found)) => models::found(found, vendor, count, list),
                (known, _) => known,
            },
        };
        match known {
            Known::Models(models) => self.models(&start, &models, &there),
            Known::Nothing(why) | Known::Unsaid(why) if there.is_empty() => self.notes.push(why),
            Known::Nothing(why) | Known::Unsaid(why) => {
                self.notes
                    .push(format!("{why}; the labels that say so stay as they are"));
                self.labels.extend(there);
            }
        }
    }

    /// Counters of models, of their memory and of their interfaces.
    fn models(&mut self, start: &str, models: &[(Model, i64)], there: &Labels) {
        // Two kinds of one model share its counter.
        let mut counters: BTreeMap<String, i64> = BTreeMap::new();
        for (model, count) in models {
            let key = format!("{start}model.{}", model.name);
            let part = |what: &str, value: &str| {
                if !value.is_empty() {
                    return vec![format!("{key}.{what}.{value}")];
                }
                // What is not known now was known to whoever wrote the label: pods of leases are bound by it.
                let start = format!("{key}.{what}.");
                let known = there.keys().filter(|key| key.starts_with(&start));
                known.cloned().collect()
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

/// The patch that gives a node its labels, and touches no other; `None` where it has them.
#[must_use]
pub fn patch(node: &NodeView, wanted: &Wanted) -> Option<Value> {
    let mut changes = Map::new();
    for (key, value) in &wanted.labels {
        // Of theirs only the presence is wanted: what they say of it stays.
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
    // With its identity: another node that has got the name is not written.
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": node.uid, "labels": changes}}))
}

/// What the API server takes for the key of a label, for keys with a prefix of ours and the one without.
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
