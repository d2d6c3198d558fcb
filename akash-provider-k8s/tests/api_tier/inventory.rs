//! Capacity as the API server tells it: what counts, what does not, and how soon.

#[path = "inventory/corner.rs"]
mod corner;

use akash_provider_core::inventory::Inventory;
use corner::{GIB, run};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn pods_of_one_name_in_two_namespaces_count_and_finished_ones_do_not() {
    run("twins", |corner| {
        Box::pin(async move {
            corner.node("n1", json!({"cpu": "8", "memory": "16Gi"})).await;
            let mut capacity = corner.follow();
            capacity
                .until("the node is offered", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
            for space in ["a", "b"] {
                corner.space(space).await;
                corner.pod(space, "web-0", "n1", "1500m", &json!({})).await;
            }
            capacity
                .until("both count", |c| c.cpu("n1") == Some((8_000, 5_000)))
                .await;
            corner.phase("a", "web-0", "Succeeded").await;
            capacity
                .until("the finished one is free", |c| {
                    c.cpu("n1") == Some((8_000, 6_500))
                })
                .await;
            corner.delete_slowly("b", "web-0").await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            capacity
                .until("it counts until it is gone", |c| {
                    c.cpu("n1") == Some((8_000, 6_500))
                })
                .await;
            corner.delete_now("b", "web-0").await;
            capacity
                .until("all is free", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
        })
    });
}

#[test]
fn a_change_is_told_within_a_second() {
    run("soon", |corner| {
        Box::pin(async move {
            corner.node("n1", json!({"cpu": "8"})).await;
            corner.space("a").await;
            let mut capacity = corner.follow();
            capacity
                .until("the node is offered", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
            let mut soonest = Duration::MAX;
            for (at, name) in ["x", "y", "z"].into_iter().enumerate() {
                corner.pod("a", name, "n1", "1", &json!({})).await;
                let began = Instant::now();
                let left = 7_000 - 1_000 * at as u64;
                capacity
                    .until("it is told", |c| c.cpu("n1") == Some((8_000, left)))
                    .await;
                soonest = soonest.min(began.elapsed());
            }
            // The machine may be busy, but not each time.
            assert!(soonest < Duration::from_secs(1), "{soonest:?}");
        })
    });
}

#[test]
fn an_unhealthy_device_is_not_offered_and_said() {
    run("device", |corner| {
        Box::pin(async move {
            let label = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";
            let devices = |healthy: u32| json!({"cpu": "8", "nvidia.com/gpu": healthy.to_string()});
            corner.labelled_node("n1", devices(2), json!({label: "2"})).await;
            let mut capacity = corner.follow();
            capacity
                .until("two are offered", |c| c.gpus("n1") == Some((2, 2)))
                .await;
            corner
                .capacity("n1", json!({"nvidia.com/gpu": "2"}), devices(1))
                .await;
            capacity
                .until("one is left", |c| c.gpus("n1") == Some((1, 1)))
                .await;
            let said = capacity.ignored();
            let n1 = corner.named("n1");
            let line = format!("node `{n1}`: 1 of 2 nvidia GPUs are unhealthy");
            assert!(said.contains(&line), "{said:?}");
        })
    });
}

#[test]
fn a_node_that_is_away_keeps_its_place_and_takes_nothing_new() {
    run("away", |corner| {
        Box::pin(async move {
            corner.node("n1", json!({"cpu": "8"})).await;
            let mut capacity = corner.follow();
            capacity
                .until("the node is offered", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
            corner.ready("n1", "Unknown").await;
            capacity
                .until("nothing is free", |c| c.cpu("n1") == Some((8_000, 0)))
                .await;
            let n1 = corner.named("n1");
            let line = format!("node `{n1}` accepts no new pods: unreachable");
            assert!(capacity.ignored().contains(&line), "{:?}", capacity.ignored());
            corner.ready("n1", "True").await;
            capacity
                .until("it is back", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
        })
    });
}

#[test]
fn pods_of_our_leases_are_placements_and_not_use() {
    run("ours", |corner| {
        Box::pin(async move {
            corner.node("n1", json!({"cpu": "8"})).await;
            let (lease, space) = corner.lease(7).await;
            let of_service = corner.labels(&space, "web");
            corner.pod_in(&space, "web-1", "n1", "1", &of_service).await;
            corner.pod_in(&space, "stranger", "n1", "500m", &json!({})).await;
            let mut capacity = corner.follow();
            capacity
                .until("only the stranger is use", |c| {
                    c.cpu("n1") == Some((8_000, 7_500))
                })
                .await;
            let places = capacity.places(&lease);
            assert_eq!(places, [(7, corner.named("n1"), 1)]);
            corner.forget(&space).await;
            capacity
                .until("without a record it is use", |c| {
                    c.cpu("n1") == Some((8_000, 6_500))
                })
                .await;
            assert!(capacity.places(&lease).is_empty());
        })
    });
}

#[test]
fn storage_is_offered_by_label_and_counted_by_what_drivers_and_volumes_say() {
    run("storage", |corner| {
        Box::pin(async move {
            let class = corner.named("beta3");
            corner.class("beta3", "example.com/disk", false).await;
            let mut capacity = corner.follow();
            let line = format!("storage class `{class}`: missing label akash.network=true");
            capacity
                .until("it is named", |c| c.ignored().contains(&line))
                .await;
            corner.class("beta3", "example.com/disk", true).await;
            let line = format!("storage class `{class}` of example.com/disk: unknown size");
            capacity
                .until("its size is asked for", |c| c.ignored().contains(&line))
                .await;
            corner.free_storage("beta3", "50Gi").await;
            capacity
                .until("it is offered", |c| {
                    c.storage(&class) == Some((50 * GIB, 50 * GIB))
                })
                .await;
            corner.volume("beta3", "10Gi").await;
            capacity
                .until("others' volumes count", |c| {
                    c.storage(&class) == Some((60 * GIB, 50 * GIB))
                })
                .await;
            let line = format!(
                "storage class `{class}`: no node has the label akash.network/capabilities.storage.class.{class}"
            );
            assert!(capacity.ignored().contains(&line), "{:?}", capacity.ignored());
        })
    });
}

#[test]
fn w25_nothing_is_offered_when_the_api_server_is_away_at_the_start() {
    run("nobody", |corner| {
        Box::pin(async move {
            let mut capacity = corner.follow_nobody();
            let told = capacity.first().await.unwrap_err();
            assert!(told.contains("cannot be watched"), "unknown is not empty: {told}");
        })
    });
}

impl corner::Capacity {
    /// Milli-CPU that could be used, and is free.
    fn cpu(&self, node: &str) -> Option<(u64, u64)> {
        let node = self.node(node)?;
        Some((node.cpu.allocatable, node.cpu.available))
    }

    fn gpus(&self, node: &str) -> Option<(u64, u64)> {
        let node = self.node(node)?;
        Some((node.gpu.allocatable, node.gpu.available))
    }

    fn storage(&self, class: &str) -> Option<(u64, u64)> {
        let pool = *self.update()?.inventory.metrics().storage.get(class)?;
        Some((pool.allocatable, pool.available))
    }

    fn ignored(&self) -> Vec<String> {
        let update = self.update();
        update.map_or_else(Vec::new, |u| Inventory::explain(&*u.inventory, &[]).ignored)
    }
}
