//! Tests that the same orders fit into a cluster according to two inventories: the inventory in a message of
//! the Go operator, and the inventory that this provider counts.
//!
//! The Go provider uses the message to decide whether an order fits. This provider uses its own inventory.
//! The message was recorded from a network connection.

use super::*;
use crate::backend::served::cluster_spec;
use crate::operators::inventory::tests::of_objects;
use akash_provider_core::inventory::conformance::{unit, with_gpus};
use akash_provider_core::inventory::{AdjustOptions, Inventory, InventorySource, NodeInventory};
use akash_provider_core::types::ResourceUnit;
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use futures::StreamExt;

const MIB: u64 = 1 << 20;

fn read(cluster: &wire::Cluster) -> NodeInventory {
    NodeInventory::new(&cluster_spec(cluster).unwrap())
}

/// Returns resource groups with sizes near the free capacity of the recorded node, and groups with GPUs.
fn groups() -> Vec<Vec<ResourceUnit>> {
    let keys = [
        "vendor/nvidia/model/a100",
        "vendor/nvidia/model/a100/ram/80Gi",
        "vendor/nvidia/model/a100/ram/40Gi",
        "vendor/nvidia/model/a100/interface/pcie",
        "vendor/nvidia/model/a100/interface/sxm",
        "vendor/nvidia/model/*",
        "vendor/nvidia/model/h100",
        "vendor/amd/model/*",
    ];
    let mut groups = Vec::new();
    for cpu in [10, 880, 881, 1760, 1761, 2000, 2001] {
        for memory in [MIB, 12_401_276_928, 24_802_553_856, 24_802_553_857] {
            for storage in [MIB, 242_994_540_908, 242_994_540_909] {
                for count in [1, 2, 3] {
                    groups.push(vec![unit(1, cpu, memory, storage, count)]);
                }
            }
        }
    }
    for key in keys {
        for gpus in [1, 2, 3] {
            for count in [1, 2] {
                let one = with_gpus(unit(1, 100, MIB, MIB, count), gpus, &[key]);
                groups.push(vec![one.clone(), unit(2, 700, MIB, MIB, 1)]);
                groups.push(vec![unit(2, 1700, MIB, MIB, 1), one]);
            }
        }
    }
    groups
}

/// Returns the adjusted units of each group (`None` if the group does not fit), and the number of groups that
/// fit.
fn fits(inventory: &dyn Inventory) -> (Vec<Option<Vec<ResourceUnit>>>, usize) {
    let fit = |group: Vec<ResourceUnit>| {
        let taken = inventory.dup().adjust(&group, AdjustOptions::default());
        taken.ok().map(|taken| taken.units)
    };
    let fits: Vec<_> = groups().into_iter().map(fit).collect();
    let count = fits.iter().flatten().count();
    (fits, count)
}

/// Returns this provider's inventory of the recorded node. If `requests` is set, a pod with these requests
/// runs on the node.
async fn counted_by_us(requests: Option<Value>) -> Arc<dyn Inventory> {
    let pods = requests.into_iter().map(|requests| {
        json!({
            "metadata": {"name": "all", "namespace": "n", "uid": "p1", "resourceVersion": "1"},
            "spec": {"nodeName": "node1", "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": "Running"},
        })
    });
    let client = of_objects(vec![recorded_node()], pods.collect());
    let inventory = KubeInventory::start_whole(&client, &CapacityOptions::default());
    inventory.watch().next().await.unwrap().unwrap().inventory
}

#[tokio::test(start_paused = true)]
async fn inventory_fits_the_same_orders_as_the_go_operator() {
    let mut theirs = recorded();
    let used = json!({"cpu": "240m", "memory": "369098752", "ephemeral-storage": "503316480", "nvidia.com/gpu": "2"});
    let ours = counted_by_us(Some(used)).await;
    let (of_theirs, some) = fits(&read(&theirs));
    assert!(some > 0 && some < of_theirs.len(), "{some} fit");
    assert_eq!(fits(&*ours).0, of_theirs);
    // The same node without pods, with free GPUs.
    let has = theirs.nodes[0].resources.as_mut().unwrap();
    let pairs = [
        has.cpu.as_mut().and_then(|cpu| cpu.quantity.as_mut()),
        has.memory.as_mut().and_then(|memory| memory.quantity.as_mut()),
        has.gpu.as_mut().and_then(|gpu| gpu.quantity.as_mut()),
        has.ephemeral_storage.as_mut(),
    ];
    for pair in pairs.into_iter().flatten() {
        pair.allocated.as_mut().unwrap().string = Some("0".to_owned());
    }
    let ours = counted_by_us(None).await;
    let (of_theirs, more) = fits(&read(&theirs));
    assert!(more > some, "{more} and {some} fit");
    assert_eq!(fits(&*ours).0, of_theirs);
}
