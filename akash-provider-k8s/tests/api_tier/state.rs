//! The watches on a real API server: a start with many leases, and no further calls after the start.

use crate::world::{World, put, run};
use akash_provider_core::cluster::{ClusterChange, Health, Outage};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::labels;
use akash_provider_k8s::state::ObjectCache;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Number of leases at the start of the watches, unless `AKASH_TEST_LEASES` is set.
const LEASES: u64 = 50;

fn labels_of(lease: &LeaseId) -> Value {
    let mut all = labels::selector(&lease.namespace());
    all.extend(labels::lease(lease));
    json!(all)
}

/// Returns the objects of a lease of the Go provider. The lease is healthy, because it has no replicas.
fn objects(world: &World, lease: &LeaseId) -> [Value; 3] {
    let (home, all) = (lease.namespace(), labels_of(lease));
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home, "labels": all}});
    let resources = json!({
        "id": 1, "cpu": {"units": 10}, "gpu": {"units": 0}, "memory": {"size": "1048576"}, "storage": [],
    });
    let service = json!({
        "name": "web", "image": "localhost/busybox:1", "count": 0, "resources": resources, "expose": [],
        "params": null, "credentials": null,
    });
    let manifest = json!({
        "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
        "metadata": {"name": home, "namespace": world.settings.manifest_namespace, "labels": all},
        "spec": {
            "lease_id": {
                "owner": lease.owner().to_string(), "dseq": lease.deployment().dseq.to_string(), "gseq": 1,
                "oseq": 1, "provider": lease.provider.to_string(),
            },
            "group": {"name": "dc", "services": [service]},
        },
    });
    let selector = labels::service_selector(&home, "web");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": home, "labels": selector},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": selector},
                "spec": {"containers": [{"name": "web", "image": "localhost/busybox:1"}]},
            },
        },
    });
    [namespace, manifest, deployment]
}

async fn fill(world: &World, leases: &[LeaseId]) {
    let each = futures::stream::iter(leases);
    each.for_each_concurrent(16, |lease| async move {
        for object in objects(world, lease) {
            put(&world.admin, &object, "provider-services").await;
        }
    })
    .await;
}

async fn ready(world: &World) -> (ObjectCache, Duration) {
    let began = Instant::now();
    let state = ObjectCache::start(&world.client, &world.settings);
    let ready = timeout(Duration::from_secs(60), state.ready()).await;
    ready.unwrap_or_else(|_| panic!("not ready: {:?}", state.watches()));
    (state, began.elapsed())
}

#[test]
fn existing_leases_are_listed_once_at_start() {
    run("state-start", |world| {
        async move {
            let count = std::env::var("AKASH_TEST_LEASES").map_or(LEASES, |n| n.parse().unwrap());
            let leases: Vec<_> = (1..=count).map(|dseq| world.lease(1, dseq)).collect();
            fill(world, &leases).await;
            let (state, took) = ready(world).await;
            println!("{count} leases, ready in {took:?}");
            assert!(took <= Duration::from_secs(3), "{took:?}");
            assert_eq!(state.leases().len(), leases.len());
            let good = || leases.iter().all(|lease| state.health(lease) == Health::Good);
            world.until("all leases are healthy", || async { good() }).await;
            // Calls of watches that start at this moment belong to the start.
            sleep(Duration::from_secs(1)).await;
            world.take_calls();
            for lease in &leases {
                state.lease_status(lease).unwrap();
            }
            sleep(Duration::from_secs(5)).await;
            let calls = world.take_calls();
            assert!(calls.is_empty(), "{calls:?}");
        }
        .boxed()
    });
}

#[test]
fn health_follows_workload_and_own_writes() {
    run("state-health", |world| {
        async move {
            let lease = world.lease(1, 1);
            fill(world, std::slice::from_ref(&lease)).await;
            let (state, _) = ready(world).await;
            let mut changes = state.changes();
            let mut become_ = async |wanted: Health| {
                let seen = async {
                    while let Some(change) = changes.next().await {
                        let health = match change.unwrap() {
                            ClusterChange::Snapshot { health } => health.get(&lease).copied(),
                            ClusterChange::Health { lease: of, health } if of == lease => Some(health),
                            _ => None,
                        };
                        if health == Some(wanted) {
                            return;
                        }
                    }
                };
                assert!(
                    timeout(Duration::from_secs(20), seen).await.is_ok(),
                    "never {wanted:?}"
                );
            };
            become_(Health::Good).await;
            let api: Api<Deployment> = Api::namespaced(world.admin.clone(), &lease.namespace());
            // Without a node no replica becomes ready.
            let more = json!({"spec": {"replicas": 2}});
            let hold = state.hold(&lease);
            become_(Health::Unknown).await;
            let written = api
                .patch("web", &PatchParams::default(), &Patch::Merge(&more))
                .await
                .unwrap();
            state.wrote(&written);
            drop(hold);
            timeout(Duration::from_secs(10), state.settled(&lease))
                .await
                .unwrap();
            let seen = state.lease(&lease).deployments["web"].metadata.generation;
            assert!(seen >= written.metadata.generation, "{seen:?}");
            assert_eq!(state.service_status(&lease, "web").unwrap().total, 2);
            become_(Health::Good).await;
            api.delete("web", &kube::api::DeleteParams::default())
                .await
                .unwrap();
            become_(Health::Out(Outage::Missing)).await;
        }
        .boxed()
    });
}

#[test]
fn unreadable_objects_are_reported_as_unknown() {
    run("state-denied", |world| {
        async move {
            let mut settings = world.settings.clone();
            settings.manifest_namespace = "no-such-namespace".to_owned();
            // The account may not list in this namespace.
            let state = ObjectCache::start(&world.client, &settings);
            world
                .until("the missing right is reported", || async {
                    let watches = state.watches();
                    watches
                        .values()
                        .any(|w| w.last_error.as_deref().is_some_and(|e| e.contains("forbidden")))
                })
                .await;
            assert!(!state.is_known());
            let mut changes = state.changes();
            assert_eq!(changes.next().await.unwrap().unwrap(), ClusterChange::Lost);
        }
        .boxed()
    });
}
