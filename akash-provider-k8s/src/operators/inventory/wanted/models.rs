//! Which models the devices of a node are, and who says so.

use super::super::database::{Database, Model, vendor_of};
use super::super::discovery::Cards;
use super::super::node::NodeView;
use super::{GPU_PREFIX, kept};
use crate::inventory::Vendor;
use crate::inventory::gpu::vendor_labels;
use std::collections::BTreeSet;

/// What is known of the devices of a vendor on a node.
pub(super) enum Known {
    /// So many of them are of each model; together they are all.
    Models(Vec<(Model, i64)>),
    /// Nothing: and why.
    Nothing(String),
    /// The labels do not say it, and who looks at the machine may know.
    Unsaid(String),
}

/// By the labels of a node: numbers of its devices on the bus, else the labels of the vendor's own tools.
pub(super) fn known(node: &NodeView, vendor: Vendor, count: i64, list: &Database) -> Known {
    let name = vendor.name();
    let by_tools = vendor_labels::known(&node.labels, vendor);
    let product = match vendor {
        Vendor::Nvidia => "nvidia.com/gpu.product",
        Vendor::Amd => "amd.com/gpu.product-name",
    };
    if by_tools.is_none() && node.labels.contains_key(product) {
        return Known::Nothing(format!(
            "{name} GPUs are shared or in parts, by label {product}: none is a whole one"
        ));
    }
    let on_bus = node
        .on_bus()
        .filter(|(maker, _)| vendor_of(maker) == Some(vendor));
    let mut numbers: BTreeSet<(&str, &str)> = on_bus
        .filter_map(|(maker, device)| Some((maker, device?)))
        .collect();
    if vendor == Vendor::Amd && numbers.is_empty() {
        numbers.extend(
            node.labels
                .get("amd.com/gpu.device-id")
                .map(|device| ("1002", device.as_str())),
        );
    }
    let is_labelled = !kept(node, &format!("{GPU_PREFIX}{name}.")).is_empty();
    // What the list says may be what the labels say: it is not known better before it was read.
    if list.is_empty() && is_labelled && !numbers.is_empty() {
        return Known::Nothing(UNREAD.to_owned());
    }
    let found: Option<Vec<&Model>> = numbers
        .iter()
        .map(|(maker, device)| list.model(maker, device))
        .collect();
    let models = distinct(found.unwrap_or_default());
    let all = |model: Model| Known::Models(vec![(model, count)]);
    match (models.as_slice(), by_tools) {
        ([only], _) => all((*only).clone()),
        // Of a device that the list lacks its maker's tools may know more.
        (_, Some((_, spec))) if models.len() < 2 => all(Model {
            name: spec.model,
            interface: spec.interface,
            memory_size: spec.memory_size,
        }),
        ([], _) if numbers.is_empty() => {
            Known::Unsaid(format!("nothing says which model the {name} GPUs are"))
        }
        ([], _) => {
            let numbers: Vec<_> = numbers
                .iter()
                .take(NUMBERS)
                .map(|(maker, device)| format!("{maker}:{device}"))
                .collect();
            Known::Nothing(format!(
                "nothing says which model the {name} GPUs are: the list of GPUs lacks {}",
                numbers.join(", ").escape_debug()
            ))
        }
        _ => Known::Unsaid(format!(
            "nothing says how many {name} GPUs are of which of {} models",
            models.len()
        )),
    }
}

/// Numbers of devices that are named.
const NUMBERS: usize = 8;
/// Why nothing is known before there is a list.
const UNREAD: &str = "the list of GPUs was not read yet";

/// By the cards that were seen on the machine. How many devices there are, Kubernetes says: cards say which models.
pub(super) fn found(cards: &Cards, vendor: Vendor, count: i64, list: &Database) -> Known {
    let name = vendor.name();
    if list.is_empty() {
        return Known::Nothing(UNREAD.to_owned());
    }
    let (seen, unreadable) = (cards.count(vendor), cards.unreadable(vendor));
    if seen < count {
        return Known::Nothing(format!(
            "{seen} {name} cards were seen, and there are {count} devices: they are shared or in parts, or not all were seen"
        ));
    }
    let looked_up = cards
        .of(vendor)
        .map(|(device, count)| (list.model(vendor_number(vendor), device), device, count));
    let mut models: Vec<(&Model, i64)> = Vec::new();
    for (model, device, count) in looked_up {
        let Some(model) = model else {
            return Known::Nothing(format!(
                "the list of GPUs lacks the {name} card {device}, which was seen"
            ));
        };
        match models.iter_mut().find(|(known, _)| *known == model) {
            Some((_, sum)) => *sum += count,
            None => models.push((model, count)),
        }
    }
    let owned = |(model, count): (&Model, i64)| (model.clone(), count);
    match models.as_slice() {
        _ if unreadable > 0 => {
            Known::Nothing(format!("{unreadable} {name} cards were seen that have no number"))
        }
        // More cards than devices: one may serve a display. All that are given out are of that model.
        [(only, _)] => Known::Models(vec![((*only).clone(), count)]),
        _ if seen == count => Known::Models(models.into_iter().map(owned).collect()),
        _ => Known::Nothing(format!(
            "{seen} {name} cards of {} models were seen, and nothing says which of them are the {count} devices",
            models.len()
        )),
    }
}

/// The number of a vendor on the bus.
const fn vendor_number(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "10de",
        Vendor::Amd => "1002",
    }
}

fn distinct(mut models: Vec<&Model>) -> Vec<&Model> {
    models.sort_unstable_by_key(|model| (&model.name, &model.interface, &model.memory_size));
    models.dedup();
    models
}
