//! Capacity that the provider derives from the API server: which objects it counts, which it ignores, and
//! with which delay.

#[path = "inventory/fixture.rs"]
mod fixture;

use akash_provider_core::inventory::Inventory;
use fixture::{GIB, run};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn pods_of_one_name_in_two_namespaces_count_and_finished_ones_do_not() {
    run("twins", |fixture| {
        Box::pin(async move {
            fixture.node("n1", json!({"cpu": "8", "memory": "16Gi"})).await;
            let mut capacity = fixture.follow();
            capacity
                .until("the node is offered", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
            for space in ["a", "b"] {
                fixture.space(space).await;
                fixture.pod(space, "web-0", "n1", "1500m", &json!({})).await;
            }
            capacity
                .until("both pods count", |c| c.cpu("n1") == Some((8_000, 5_000)))
                .await;
            fixture.phase("a", "web-0", "Succeeded").await;
            capacity
                .until("the resources of the finished pod are free", |c| {
                    c.cpu("n1") == Some((8_000, 6_500))
                })
                .await;
            fixture.delete_slowly("b", "web-0").await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            capacity
                .until("a terminating pod counts until it is deleted", |c| {
                    c.cpu("n1") == Some((8_000, 6_500))
                })
                .await;
            fixture.delete_now("b", "web-0").await;
            capacity
                .until("all resources are free", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
        })
    });
}

#[test]
fn change_is_reported_within_a_second() {
    run("soon", |fixture| {
        Box::pin(async move {
            fixture.node("n1", json!({"cpu": "8"})).await;
            fixture.space("a").await;
            let mut capacity = fixture.follow();
            capacity
                .until("the node is offered", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
            let mut soonest = Duration::MAX;
            for (at, name) in ["x", "y", "z"].into_iter().enumerate() {
                fixture.pod("a", name, "n1", "1", &json!({})).await;
                let began = Instant::now();
                let left = 7_000 - 1_000 * at as u64;
                capacity
                    .until("the change is reported", |c| c.cpu("n1") == Some((8_000, left)))
                    .await;
                soonest = soonest.min(began.elapsed());
            }
            // A busy machine may delay some of the measurements, but not all.
            assert!(soonest < Duration::from_secs(1), "{soonest:?}");
        })
    });
}

#[test]
fn unhealthy_device_is_not_offered_and_is_reported() {
    run("device", |fixture| {
        Box::pin(async move {
            let label = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";
            let devices = |healthy: u32| json!({"cpu": "8", "nvidia.com/gpu": healthy.to_string()});
            fixture.labelled_node("n1", devices(2), json!({label: "2"})).await;
            let mut capacity = fixture.follow();
            capacity
                .until("two GPUs are offered", |c| c.gpus("n1") == Some((2, 2)))
                .await;
            fixture
                .capacity("n1", json!({"nvidia.com/gpu": "2"}), devices(1))
                .await;
            capacity
                .until("one GPU is left", |c| c.gpus("n1") == Some((1, 1)))
                .await;
            let ignored = capacity.ignored();
            let n1 = fixture.named("n1");
            let line = format!("node `{n1}`: 1 of 2 nvidia GPUs are unhealthy");
            assert!(ignored.contains(&line), "{ignored:?}");
        })
    });
}

#[test]
fn unreachable_node_stays_listed_without_free_capacity() {
    run("away", |fixture| {
        Box::pin(async move {
            fixture.node("n1", json!({"cpu": "8"})).await;
            let mut capacity = fixture.follow();
            capacity
                .until("the node is offered", |c| c.cpu("n1") == Some((8_000, 8_000)))
                .await;
            fixture.ready("n1", "Unknown").await;
            capacity
                .until("no resources are free", |c| c.cpu("n1") == Some((8_000, 0)))
                .await;
            let n1 = fixture.named("n1");
            let line = format!("node `{n1}` accepts no new pods: unreachable");
            assert!(capacity.ignored().contains(&line), "{:?}", capacity.ignored());
            fixture.ready("n1", "True").await;
            capacity
                .until("the node is offered again", |c| {
                    c.cpu("n1") == Some((8_000, 8_000))
                })
                .await;
        })
    });
}

#[test]
fn pods_of_leases_count_as_placements_not_as_usage() {
    run("ours", |fixture| {
        Box::pin(async move {
            fixture.node("n1", json!({"cpu": "8"})).await;
            let (lease, space) = fixture.lease(7).await;
            let of_service = fixture.labels(&space, "web");
            fixture.pod_in(&space, "web-1", "n1", "1", &of_service).await;
            fixture.pod_in(&space, "stranger", "n1", "500m", &json!({})).await;
            let mut capacity = fixture.follow();
            capacity
                .until("only the foreign pod counts as usage", |c| {
                    c.cpu("n1") == Some((8_000, 7_500))
                })
                .await;
            let places = capacity.places(&lease);
            assert_eq!(places, [(7, fixture.named("n1"), 1)]);
            fixture.delete_record(&space).await;
            capacity
                .until("a pod without a record counts as usage", |c| {
                    c.cpu("n1") == Some((8_000, 6_500))
                })
                .await;
            assert!(capacity.places(&lease).is_empty());
        })
    });
}

#[test]
fn storage_is_offered_by_label_and_counted_by_drivers_and_volumes() {
    run("storage", |fixture| {
        Box::pin(async move {
            let class = fixture.named("beta3");
            fixture.class("beta3", "example.com/disk", false).await;
            let mut capacity = fixture.follow();
            let line = format!("storage class `{class}`: missing label akash.network=true");
            capacity
                .until("the class is reported", |c| c.ignored().contains(&line))
                .await;
            fixture.class("beta3", "example.com/disk", true).await;
            let line = format!("storage class `{class}` of example.com/disk: unknown size");
            capacity
                .until("the unknown size is reported", |c| c.ignored().contains(&line))
                .await;
            fixture.free_storage("beta3", "50Gi").await;
            capacity
                .until("the class is offered", |c| {
                    c.storage(&class) == Some((50 * GIB, 50 * GIB))
                })
                .await;
            fixture.volume("beta3", "10Gi").await;
            capacity
                .until("volumes of other owners count", |c| {
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
fn w25_no_capacity_is_offered_if_api_server_is_unavailable_at_start() {
    run("nobody", |fixture| {
        Box::pin(async move {
            let mut capacity = fixture.follow_unavailable();
            let problem = capacity.first().await.unwrap_err();
            assert!(
                problem.contains("cannot be watched"),
                "unknown capacity is not empty capacity: {problem}"
            );
        })
    });
}

impl fixture::Capacity {
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
        let ignored = update.map_or_else(Vec::new, |u| Inventory::explain(&*u.inventory, &[]).ignored);
        ignored.iter().map(ToString::to_string).collect()
    }
}
