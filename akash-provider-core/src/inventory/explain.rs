//! Explains in text for every node why a group fits or not.

use super::describe::{bytes, cores_of, wanted_gpus};
use super::gpu::GpuRequest;
use super::need::Need;
use super::node_inventory::NodeInventory;
use super::pack;
use super::{Explanation, NodeVerdict};
use crate::types::ResourceUnit;

/// Returns the missing resources for every unit and node.
pub(super) fn explain(inventory: &NodeInventory, units: &[ResourceUnit]) -> Explanation {
    // On a copy, so that the explanation reserves nothing.
    let fits = pack::fit(&mut inventory.clone(), units, true);
    let mut explanation = Explanation {
        fits: fits.is_ok(),
        ignored: inventory.layout.ignored().cloned().collect(),
        ..Explanation::default()
    };
    for unit in units {
        explain_unit(inventory, unit, &mut explanation);
    }
    // The message of the dry run is the last resort, because the findings above are more precise.
    match fits {
        Ok(allocation) => explanation.offers = allocation.units,
        Err(misfit) if explanation.cluster.is_empty() => explanation.cluster.push(misfit.message),
        Err(_) => {}
    }
    explanation
}

fn explain_unit(inventory: &NodeInventory, unit: &ResourceUnit, explanation: &mut Explanation) {
    let layout = &*inventory.layout;
    let need = Need::new(layout, unit);
    let id = unit.resources.id;
    let mut note = |text: String| explanation.cluster.push(format!("unit {id}: {text}"));
    if let Some((at, why)) = need.impossible {
        note(why.describe(&unit.resources.storage[at]));
    }
    for &(class, each) in &need.volumes {
        let free = inventory.storage[class];
        // In 128 bits, because 2^56 bytes for each of 2^32 replicas overflow 64 bits.
        let wanted = i128::from(each) * i128::from(unit.count);
        if i128::from(free) < wanted {
            let name = &layout.classes[class].name;
            note(format!(
                "storage class `{name}`: {} requested, {} free",
                bytes(i64::try_from(wanted).unwrap_or(i64::MAX)),
                bytes(free)
            ));
        }
    }
    let choices = need.choices(layout);
    if need.gpu > 0 && choices.is_empty() {
        note(format!("the cluster has no GPU {}", wanted_gpus(unit)));
    }
    if layout.nodes.is_empty() {
        note("the cluster has no nodes".to_owned());
    }
    for node in 0..layout.nodes.len() {
        let (replicas, want) = best(inventory, &need, &choices, node);
        // A volume that no node can mount excludes every node.
        let replicas = if need.impossible.is_some() { 0 } else { replicas };
        let replicas = replicas.min(i64::from(unit.count));
        let mut missing = Vec::new();
        if replicas < i64::from(unit.count) {
            missing = lacks(inventory, &need, unit, (node, replicas, want));
        }
        explanation.nodes.push(NodeVerdict {
            node: layout.nodes[node].name.clone(),
            unit: id,
            replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
            missing,
        });
    }
}

/// Returns the largest number of replicas that fits on a node, and the GPU choice for this number.
fn best<'a>(
    inventory: &NodeInventory,
    need: &Need,
    choices: &'a [GpuRequest],
    node: usize,
) -> (i64, Option<&'a GpuRequest>) {
    if need.gpu == 0 {
        return (need.room(inventory, node, None), None);
    }
    let mut best = (0, None);
    for want in choices {
        let room = need.room(inventory, node, Some(want));
        if room > best.0 {
            best = (room, Some(want));
        }
    }
    best
}

/// Returns the resources that a node lacks for one more replica.
fn lacks(
    inventory: &NodeInventory,
    need: &Need,
    unit: &ResourceUnit,
    (node, replicas, want): (usize, i64, Option<&GpuRequest>),
) -> Vec<String> {
    let layout = &*inventory.layout;
    let free = &inventory.free[node];
    let mut lacks = Vec::new();
    if let Some(reason) = &layout.nodes[node].closed {
        lacks.push(format!("the node accepts no new replicas: {reason}"));
    }
    let left = |have: i64, each: i64| have - each * replicas;
    let cpu = left(free.cpu, need.cpu);
    if cpu.max(0) < need.cpu {
        lacks.push(format!(
            "cpu: {} requested, {} free",
            cores_of(need.cpu),
            cores_of(cpu)
        ));
    }
    for (what, have, each) in [
        ("memory", free.memory, need.memory),
        ("ephemeral storage", free.ephemeral, need.ephemeral),
    ] {
        let left = left(have, each);
        if left.max(0) < each {
            lacks.push(format!("{what}: {} requested, {} free", bytes(each), bytes(left)));
        }
    }
    if need.gpu > 0 {
        let wants = want.map_or(need.wants.as_slice(), std::slice::from_ref);
        let mask = layout.mask(node, wants);
        let left = left(inventory.gpus_free(node, mask), need.gpu);
        let slots = &layout.slots[layout.nodes[node].slots.clone()];
        let kinds: Vec<_> = slots.iter().map(|s| layout.kinds[s.kind].describe()).collect();
        if kinds.is_empty() {
            lacks.push(format!("gpu: {} requested, the node has none", need.gpu));
        } else if mask == 0 {
            let wanted = wanted_gpus(unit);
            lacks.push(format!(
                "gpu: {wanted} requested, the node has {}",
                kinds.join(", ")
            ));
        } else if left < need.gpu {
            lacks.push(format!(
                "gpu: {} requested, {} of the requested kind free",
                need.gpu,
                left.max(0)
            ));
        }
    }
    for &(class, each) in &need.volumes {
        let name = &layout.classes[class].name;
        if layout.nodes[node].classes & (1 << class) == 0 {
            lacks.push(format!("storage class `{name}` is not offered by this node"));
        } else if left(inventory.storage[class], each).max(0) < each {
            lacks.push(format!(
                "storage class `{name}`: the pool of the cluster is exhausted"
            ));
        }
    }
    if let Some((at, why)) = need.impossible {
        lacks.push(why.describe(&unit.resources.storage[at]));
    }
    if lacks.is_empty() {
        lacks.push("no GPU model fits together with the other resources".to_owned());
    }
    lacks
}
