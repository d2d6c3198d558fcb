//! Network policies of running leases block the addresses of new nodes. No pod is replaced.

use crate::world::{World, deployment, put, remove, run, service};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::cluster::LeadershipGate;
use akash_provider_k8s::infrastructure::{Infrastructure, InfrastructureWatch};
use akash_provider_k8s::labels;
use futures::FutureExt;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

const POLICY: &str = "akash-deployment-restrictions";

fn node(name: &str, address: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {
        "addresses": [{"type": "InternalIP", "address": address}],
    }})
}

async fn is_closed(world: &World, lease: &LeaseId, address: &str) -> bool {
    let policy = world.get("NetworkPolicy", &lease.namespace(), POLICY).await;
    policy.unwrap()["spec"].to_string().contains(address)
}

async fn rest(world: &World, lease: &LeaseId) -> Vec<String> {
    let ns = lease.namespace();
    let mut found = Vec::new();
    for (kind, field) in [
        ("Deployment", "/metadata/generation"),
        ("Service", "/metadata/resourceVersion"),
    ] {
        for object in world.list(kind, &ns).await {
            found.push(object.pointer(field).unwrap().to_string());
        }
    }
    found
}

async fn next(watch: &mut InfrastructureWatch) -> Infrastructure {
    let changed = timeout(Duration::from_secs(40), watch.changed()).await;
    changed.expect("the addresses change")
}

#[test]
fn new_node_is_closed_to_running_leases() {
    run("nodes", |world| {
        async move {
            let cluster = world.connect().await;
            let (applied, half, gone) = (world.lease(1, 1), world.lease(1, 2), world.lease(1, 3));
            for lease in [&applied, &half] {
                cluster
                    .deploy(&deployment(lease, vec![service("web")]))
                    .await
                    .unwrap();
            }
            // One lease is only recorded, and one is partly deployed.
            cluster
                .record(&deployment(&gone, vec![service("web")]))
                .await
                .unwrap();
            let unmarked = json!({"metadata": {"annotations": {labels::APPLIED: null}}});
            world.edit("Namespace", "", &half.namespace(), unmarked).await;
            let seen = || async {
                let view = cluster.state().lease(&half);
                let annotations = view
                    .namespace
                    .as_ref()
                    .and_then(|ns| ns.metadata.annotations.clone());
                annotations.is_some_and(|a| !a.contains_key(labels::APPLIED))
            };
            world.until("the edit is observed", seen).await;
            let before = rest(world, &applied).await;

            let mut watch = InfrastructureWatch::start(&world.client, Infrastructure::default());
            let addresses = next(&mut watch).await;
            cluster.close_infrastructure(&addresses).await.unwrap();
            let name = world.settings.manifest_namespace.clone();
            put(&world.admin, &node(&name, "203.0.113.77"), "api-tier").await;
            let address: IpAddr = "203.0.113.77".parse().unwrap();
            let mut found = next(&mut watch).await;
            while !found.nodes.contains(&address) {
                found = next(&mut watch).await;
            }
            assert!(!is_closed(world, &applied, "203.0.113.77/32").await);
            assert_eq!(cluster.close_infrastructure(&found).await.unwrap(), 1);
            assert!(is_closed(world, &applied, "203.0.113.77/32").await);
            assert!(
                !is_closed(world, &half, "203.0.113.77/32").await,
                "the deploy writes the policy"
            );
            assert!(world.get("Namespace", "", &gone.namespace()).await.is_none());
            assert_eq!(rest(world, &applied).await, before, "nothing else was written");

            let again = || async {
                world.take_calls();
                let closed = cluster.close_infrastructure(&found).await.unwrap();
                closed == 0 && world.take_calls().is_empty()
            };
            world.until("no work is left", again).await;
            let web = deployment(&applied, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            assert_eq!(world.take_writes(), [], "the recorded hash is correct");
            cluster
                .deploy(&deployment(&half, vec![service("web")]))
                .await
                .unwrap();
            assert!(is_closed(world, &half, "203.0.113.77/32").await);

            remove(world, "Node", &name).await;
            while found.nodes.contains(&address) {
                found = next(&mut watch).await;
            }
            let opened = cluster.close_infrastructure(&found).await.unwrap();
            assert_eq!(opened, 2);
            assert!(!is_closed(world, &applied, "203.0.113.77/32").await);
        }
        .boxed()
    });
}

/// Only the leader adds the address of a new node to the policies of leases.
#[test]
fn standby_does_not_update_policies_until_it_leads() {
    const ADDRESS: &str = "203.0.113.78";
    run("standby", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            let mut watch = InfrastructureWatch::start(&world.client, Infrastructure::default());
            let addresses = next(&mut watch).await;
            cluster.close_infrastructure(&addresses).await.unwrap();
            world.take_calls();

            let leading = LeadershipGate::new(false);
            let (follower, follows) = (cluster.clone(), leading.clone());
            let own = InfrastructureWatch::start(&world.client, addresses);
            let following = AbortOnDropHandle::new(tokio::spawn(async move {
                tokio::join!(
                    follower.follow_infrastructure(own, &follows),
                    follower.follow_leftovers(&follows)
                );
            }));
            let name = format!("{}-standby", world.settings.manifest_namespace);
            put(&world.admin, &node(&name, ADDRESS), "api-tier").await;
            let address: IpAddr = ADDRESS.parse().unwrap();
            while !next(&mut watch).await.nodes.contains(&address) {}
            // The standby has observed the node too by now, and would write within milliseconds.
            sleep(Duration::from_secs(1)).await;
            let mut calls = world.take_calls();
            calls.retain(|c| !c.path.contains("/nodes?") && !c.path.contains("/endpointslices?"));
            assert_eq!(calls, [], "a standby only watches");
            assert!(!is_closed(world, &lease, ADDRESS).await);
            leading.set(true);
            let closed = || is_closed(world, &lease, ADDRESS);
            world.until("the leader closes the node's address", closed).await;
            drop(following);
            remove(world, "Node", &name).await;
        }
        .boxed()
    });
}
