//! Counts the capacity from scratch, for comparison with the incremental sums.

use super::*;
use crate::inventory::node::Used;
use crate::inventory::requests::Requests;

pub(super) type Objects = BTreeMap<(InventoryKind, NamespacedName), ObjectFacts>;

/// Applies a change to `objects`, a model of the objects in the API server.
pub(super) fn remember(objects: &mut Objects, change: &FactChange) {
    match change {
        FactChange::Set(key, fact) => {
            let kind = match fact {
                ObjectFacts::Node(_) => InventoryKind::Node,
                ObjectFacts::Pod(_) => InventoryKind::Pod,
                ObjectFacts::Lease(_) | ObjectFacts::BadLease(_) => InventoryKind::Lease,
                ObjectFacts::Class(_) => InventoryKind::Class,
                ObjectFacts::Volume(_) => InventoryKind::Volume,
                ObjectFacts::Capacity(_) => InventoryKind::Capacity,
                ObjectFacts::CephCluster(_) => InventoryKind::CephCluster,
                ObjectFacts::CephPool(_) => InventoryKind::CephPool,
                ObjectFacts::Balancer(_) => InventoryKind::Balancer,
                ObjectFacts::AddressPool(_) => InventoryKind::AddressPool,
            };
            objects.insert((kind, key.clone()), fact.clone());
        }
        FactChange::Gone(kind, key, _) => {
            objects.remove(&(*kind, key.clone()));
        }
        FactChange::Only(kind, keys) => objects.retain(|(k, key), _| k != kind || keys.contains(key)),
    }
}

fn lease_of<'a>(objects: &'a Objects, namespace: &str) -> Option<&'a LeaseFacts> {
    match objects.get(&(InventoryKind::Lease, NamespacedName::new("", namespace)))? {
        ObjectFacts::Lease(lease) => Some(lease),
        _ => None,
    }
}

fn unit_of(objects: &Objects, namespace: &str, pod: &PodFacts) -> Option<u32> {
    let lease = lease_of(objects, namespace)?;
    lease.units.get(pod.service.as_ref()?).copied()
}

/// Returns the nodes and the placements, counted without a [`Tally`]. Storage is not counted.
pub(super) fn recount(objects: &Objects) -> (ClusterSpec, Vec<Placement>) {
    let pods = || {
        objects.iter().filter_map(|((_, key), fact)| match fact {
            ObjectFacts::Pod(pod) => Some((key, pod)),
            _ => None,
        })
    };
    let mut spec = ClusterSpec::default();
    for fact in objects.values() {
        let ObjectFacts::Node(node) = fact else { continue };
        let mut used = Used::default();
        let mut others = Requests::default();
        let mut ours = 0;
        for (key, pod) in pods().filter(|(_, pod)| pod.node == node.name) {
            used.pods += 1;
            match unit_of(objects, &key.namespace, pod) {
                Some(_) => ours += 1,
                None => others += pod.requests,
            }
        }
        used.others = others;
        for fact in objects.values() {
            if let ObjectFacts::Volume(volume) = fact
                && volume.node.as_ref() == Some(&node.name)
            {
                used.volumes += volume.bytes;
            }
        }
        if node.offered || ours > 0 {
            spec.nodes.push(node.spec(&used));
        }
    }
    let mut placements = Vec::new();
    for ((_, key), fact) in objects {
        let ObjectFacts::Lease(lease) = fact else { continue };
        let mut places: Vec<(bool, ReplicaGroup)> = Vec::new();
        for (pod_key, pod) in pods().filter(|(pod_key, _)| pod_key.namespace == key.name) {
            let Some(unit) = unit_of(objects, &pod_key.namespace, pod) else {
                continue;
            };
            let same = |(going, p): &&mut (bool, ReplicaGroup)| {
                (*going, p.unit, &p.node) == (pod.going, unit, &pod.node)
            };
            match places.iter_mut().find(same) {
                Some((_, place)) => place.replicas += 1,
                None => places.push((
                    pod.going,
                    ReplicaGroup {
                        unit,
                        node: pod.node.clone(),
                        replicas: 1,
                    },
                )),
            }
        }
        places.sort();
        if !places.is_empty() {
            let places = places.into_iter().map(|(_, place)| place).collect();
            placements.push(Placement {
                lease: lease.lease.clone(),
                places,
            });
        }
    }
    (spec, placements)
}
