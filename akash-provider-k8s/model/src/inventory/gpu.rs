//! GPUs of a node: number, models and the source of the models.
//!
//! The inventory operator writes counters as labels with the prefix `akash.network/capabilities.gpu.vendor`, followed
//! by `.<vendor>.model.<model>` and an optional `.ram.<size>` or `.interface.<interface>`. Pods of leases are bound to
//! nodes by these labels. On a node without these labels, the labels of the vendor's tools only show which
//! `akash.network` label is missing.

use super::reason::GpuProblem;
use super::requests::Requests;
use super::vendor::{KINDS, Vendor, model_label};
use akash_provider_core::inventory::GpuSpec;
use std::collections::BTreeMap;

pub(crate) mod source_labels;
pub(crate) mod vendor_labels;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Devices {
    pub(crate) vendor: Vendor,
    pub(crate) capacity: i64,
    /// Number of healthy devices, which can be allocated.
    pub(crate) allocatable: i64,
    /// Device kinds in the labels.
    pub(crate) kinds: Vec<GpuSpec>,
}

/// Reads the GPUs of a node from its labels and its status. Calls `note` for GPUs that cannot be offered.
pub(crate) fn devices(
    labels: &BTreeMap<String, String>,
    amounts: impl Fn(Vendor) -> (i64, i64),
    note: &mut impl FnMut(GpuProblem),
) -> Vec<Devices> {
    let mut all = Vec::new();
    for vendor in Vendor::ALL {
        let (capacity, allocatable) = amounts(vendor);
        let kinds = kinds(labels, vendor, note);
        if capacity.max(allocatable) == 0 {
            continue;
        }
        if allocatable < capacity {
            let unhealthy = capacity - allocatable;
            note(GpuProblem::Unhealthy {
                vendor,
                unhealthy,
                capacity,
            });
        }
        if kinds.is_empty() {
            vendor_labels::report(labels, vendor, capacity, note);
        } else {
            let labelled: i64 = kinds.iter().map(|k| i64::from(k.count)).sum();
            if labelled < capacity {
                let unlabelled = capacity - labelled;
                note(GpuProblem::Unlabelled {
                    vendor,
                    unlabelled,
                    capacity,
                });
            }
        }
        all.push(Devices {
            vendor,
            capacity,
            allocatable,
            kinds,
        });
    }
    all
}

/// Device counts of one GPU model, from the labels of a node: in total, by memory size, by interface, and by
/// both.
#[derive(Debug, Default)]
struct ModelCounts<'a> {
    devices: u32,
    memory: Vec<(&'a str, u32)>,
    interface: Vec<(&'a str, u32)>,
    both: Vec<(&'a str, &'a str, u32)>,
}

fn kinds(
    labels: &BTreeMap<String, String>,
    vendor: Vendor,
    note: &mut impl FnMut(GpuProblem),
) -> Vec<GpuSpec> {
    let mut models: BTreeMap<&str, ModelCounts<'_>> = BTreeMap::new();
    let start = model_label(vendor, "");
    let ours = labels
        .range(start.clone()..)
        .take_while(|(k, _)| k.starts_with(&start));
    for (key, value) in ours {
        let Ok(count) = value.parse::<u32>() else {
            note(GpuProblem::InvalidCount {
                label: key.clone(),
                value: value.clone(),
            });
            continue;
        };
        let (name, attributes) = split(&key[start.len()..]);
        let model = models.entry(name).or_default();
        let get = |what: &str| attributes.iter().find(|(n, _)| *n == what).map(|(_, v)| *v);
        match (get("ram"), get("interface")) {
            (None, None) => model.devices = model.devices.max(count),
            (Some(ram), None) => model.memory.push((ram, count)),
            (None, Some(interface)) => model.interface.push((interface, count)),
            (Some(ram), Some(interface)) => model.both.push((ram, interface, count)),
        }
    }
    let mut kinds = Vec::new();
    for (name, model) in models {
        model.kinds(vendor, name, &mut kinds, note);
    }
    if kinds.len() > KINDS {
        note(GpuProblem::TooManyKinds(vendor));
        kinds.truncate(KINDS);
    }
    kinds
}

/// Splits a label suffix into model and attributes. Model names can contain dots, so only known attribute
/// names are split.
fn split(rest: &str) -> (&str, Vec<(&str, &str)>) {
    let at = |text: &str| {
        let found = [".ram.", ".interface."].map(|word| text.find(word).map(|at| (at, word)));
        found.into_iter().flatten().min()
    };
    let Some((end, mut word)) = at(rest) else {
        return (rest, Vec::new());
    };
    let mut attributes = Vec::new();
    let mut tail = &rest[end + word.len()..];
    loop {
        let next = at(tail);
        let value = next.map_or(tail, |(end, _)| &tail[..end]);
        attributes.push((word.trim_matches('.'), value));
        let Some((end, following)) = next else {
            return (&rest[..end], attributes);
        };
        tail = &tail[end + following.len()..];
        word = following;
    }
}

impl ModelCounts<'_> {
    /// Adds the device kinds of this model to `out`. The kinds omit memory size and interface if the labels
    /// do not show which sizes and interfaces belong together.
    fn kinds(
        mut self,
        vendor: Vendor,
        name: &str,
        out: &mut Vec<GpuSpec>,
        note: &mut impl FnMut(GpuProblem),
    ) {
        // Any client may write these labels, so their sum must not overflow.
        let sum = |counts: &mut dyn Iterator<Item = u32>| counts.fold(0, u32::saturating_add);
        let sums = [
            sum(&mut self.memory.iter().map(|m| m.1)),
            sum(&mut self.interface.iter().map(|i| i.1)),
            sum(&mut self.both.iter().map(|b| b.2)),
        ];
        // Only the counter of the model counts devices. Without it, the largest sum is the minimum number of devices.
        let total = if self.devices > 0 {
            self.devices
        } else {
            sums.into_iter().max().unwrap_or(0)
        };
        let mut kinds: Vec<(&str, &str, u32)> = Vec::new();
        if !self.both.is_empty() {
            kinds = std::mem::take(&mut self.both);
        } else if self.interface.len() > 1 && self.memory.len() > 1 {
            note(GpuProblem::UncombinedAttributes {
                vendor,
                model: name.to_owned(),
            });
        } else if self.interface.len() > 1 {
            let memory = self.memory.first().map_or("", |m| m.0);
            kinds.extend(
                self.interface
                    .iter()
                    .map(|(interface, n)| (memory, *interface, *n)),
            );
        } else {
            let interface = self.interface.first().map_or("", |i| i.0);
            kinds.extend(self.memory.iter().map(|(memory, n)| (*memory, interface, *n)));
            if kinds.is_empty() && !interface.is_empty() {
                kinds.push(("", interface, sums[1]));
            }
        }
        let mut left = total;
        for (memory, interface, count) in kinds {
            // Counters of sizes and interfaces never add devices to the counter of the model.
            let count = count.min(left);
            left -= count;
            out.push(GpuSpec::new(vendor.name(), name, memory, interface, count));
        }
        // The remaining devices are offered without attributes.
        if left > 0 {
            out.push(GpuSpec::new(vendor.name(), name, "", "", left));
        }
    }
}

/// Returns the GPUs of a node: the kinds, the number of usable devices, and the number of used devices of
/// unknown kind.
pub(crate) fn counted(devices: &[Devices], used: &Requests) -> (Vec<GpuSpec>, Option<u32>, u32) {
    let mut kinds = Vec::new();
    let (mut usable, mut unknown) = (0u32, 0u32);
    for vendor in devices {
        let used = clamp(used.gpus[vendor.vendor.index()]);
        let healthy = clamp(vendor.allocatable);
        let labelled = vendor
            .kinds
            .iter()
            .fold(0, |sum: u32, k| sum.saturating_add(k.count));
        // A device must be healthy and of a model that can be promised.
        usable = usable.saturating_add(healthy.min(labelled));
        // With one kind, other pods use devices of that kind.
        if let [only] = vendor.kinds.as_slice() {
            kinds.push(GpuSpec {
                count: only.count.min(healthy),
                allocated: used,
                ..only.clone()
            });
        } else {
            kinds.extend(vendor.kinds.iter().cloned());
            if !vendor.kinds.is_empty() {
                unknown = unknown.saturating_add(used);
            }
        }
    }
    let listed = kinds.iter().fold(0, |sum: u32, k| sum.saturating_add(k.count));
    // Set only if it is less, because the ledger otherwise adds up the kinds.
    (kinds, (usable < listed).then_some(usable), unknown)
}

fn clamp(amount: i64) -> u32 {
    // Above the size of any node, and low enough that sums do not overflow.
    u32::try_from(amount.clamp(0, i64::from(u16::MAX))).unwrap_or(0)
}

#[cfg(test)]
mod tests;
