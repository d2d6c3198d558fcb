//! Leases with damaged Manifest records. A list of leases always contains these leases, by lease id or by name.

use crate::world::{World, deployment, run, service};
use akash_provider_core::cluster::conformance::{self, Damage, DamageFn};
use akash_provider_core::cluster::{Cluster, Listing, RecordDefect};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::write_client::WriteClient;
use futures::FutureExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn spec(resources: Value) -> Value {
    let service = json!({"name": "web", "image": "x", "count": 1, "resources": resources});
    json!({"spec": {"group": {"services": [service]}}})
}

/// Returns the spec of a Manifest with an invalid memory size.
fn garbage() -> Value {
    spec(json!({"id": 1, "cpu": {"units": 1}, "gpu": {"units": 0}, "memory": {"size": "abc"}}))
}

fn remains(listing: &Listing, lease: &LeaseId) -> Option<(RecordDefect, String)> {
    let mut found = listing.unusable.iter().filter(|u| u.belongs_to(lease));
    let one = found.next().map(|u| (u.remains, u.problem.clone()));
    assert_eq!(found.next(), None, "{lease} is listed once");
    assert!(!listing.deployments.iter().any(|d| d.lease == *lease) || one.is_none());
    one
}

async fn seen(world: &World, cluster: &KubeCluster, lease: &LeaseId, wanted: RecordDefect) {
    let is_observed = || async {
        let listing = cluster.deployments().await.unwrap();
        remains(&listing, lease).is_some_and(|(found, _)| found == wanted)
    };
    world.until("the damage is observed", is_observed).await;
}

#[test]
fn damaged_records_are_reported_and_repaired_by_a_new_manifest() {
    run("damage", |world| {
        async move {
            let cluster = world.connect().await;
            let mut setup = conformance::Setup::new(world.settings.provider.clone());
            setup.timeout = Duration::from_secs(40);
            setup.poll_interval = Duration::from_millis(50);
            let own = &world.settings.manifest_namespace;
            let (first, second) = (Arc::clone(&cluster), Arc::clone(&cluster));
            let corrupt: DamageFn<'_> = Box::new(move |lease: LeaseId| {
                let cluster = Arc::clone(&first);
                async move {
                    world.edit("Manifest", own, &lease.namespace(), garbage()).await;
                    seen(world, &cluster, &lease, RecordDefect::Unreadable).await;
                }
                .boxed()
            });
            let delete: DamageFn<'_> = Box::new(move |lease: LeaseId| {
                let cluster = Arc::clone(&second);
                async move {
                    world.delete("Manifest", own, &lease.namespace()).await;
                    seen(world, &cluster, &lease, RecordDefect::Unrecorded).await;
                }
                .boxed()
            });
            let damage = Damage {
                corrupt,
                delete: Some(delete),
            };
            conformance::damaged_records_are_reported(&*cluster, &setup, &damage).await;
        }
        .boxed()
    });
}

/// Patch that damages a record. The next start reports the defect `remains` with the error text `says`.
struct Case {
    name: &'static str,
    kind: &'static str,
    patch: Value,
    remains: RecordDefect,
    says: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |name, kind, patch, remains, says| Case {
        name,
        kind,
        patch,
        remains,
        says,
    };
    let unlabelled = json!({"metadata": {"labels": {"akash.network": null}}});
    let anonymous: serde_json::Map<String, Value> = ["owner", "dseq", "gseq", "oseq", "provider"]
        .into_iter()
        .map(|part| (format!("akash.network/lease.id.{part}"), Value::Null))
        .collect();
    let mut spoiled = garbage();
    spoiled["metadata"] = json!({"labels": anonymous});
    vec![
        case(
            "a record without its label",
            "Manifest",
            unlabelled.clone(),
            RecordDefect::Unreadable,
            "is missing",
        ),
        case(
            "an invalid record without a lease id",
            "Manifest",
            spoiled,
            RecordDefect::Unreadable,
            "memory",
        ),
        case(
            "a record that names another provider",
            "Manifest",
            json!({"spec": {"lease_id": {"provider": "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh"}}}),
            RecordDefect::Unreadable,
            "another provider",
        ),
        case(
            "a record that names another lease",
            "Manifest",
            json!({"spec": {"lease_id": {"dseq": "77777"}}}),
            RecordDefect::Unreadable,
            "is not the name of lease",
        ),
        case(
            "a record of another chain",
            "Manifest",
            json!({"metadata": {"annotations": {"provider.akash.network/chain-id": "elsewhere"}}}),
            RecordDefect::Unreadable,
            "another chain",
        ),
    ]
}

#[test]
fn damaged_record_is_never_reported_as_absent() {
    run("unusable", |world| {
        async move {
            let own = world.settings.manifest_namespace.clone();
            let cluster = world.connect().await;
            let cases = cases();
            for (n, case) in cases.iter().enumerate() {
                let lease = world.lease(1, n as u64 + 1);
                cluster
                    .deploy(&deployment(&lease, vec![service("web")]))
                    .await
                    .unwrap();
                world
                    .edit(case.kind, &own, &lease.namespace(), case.patch.clone())
                    .await;
            }
            let bare = world.lease(1, 50);
            cluster
                .deploy(&deployment(&bare, vec![service("web")]))
                .await
                .unwrap();
            world.delete("Manifest", &own, &bare.namespace()).await;
            let unlabelled = json!({"metadata": {"labels": {"akash.network": null}}});
            world.edit("Namespace", "", &bare.namespace(), unlabelled).await;
            let listing = world.connect().await.deployments().await.unwrap();
            for (n, case) in cases.iter().enumerate() {
                let lease = world.lease(1, n as u64 + 1);
                let (found, problem) = remains(&listing, &lease).unwrap_or_else(|| panic!("{}", case.name));
                assert_eq!(found, case.remains, "{}", case.name);
                assert!(problem.contains(case.says), "{}: {problem}", case.name);
                assert!(problem.contains(&lease.namespace()), "{}: {problem}", case.name);
            }
            let (found, problem) = remains(&listing, &bare).unwrap();
            assert_eq!(found, RecordDefect::Unrecorded, "{problem}");
        }
        .boxed()
    });
}

#[test]
fn list_with_wrong_namespace_reports_workloads_without_records() {
    run("misplaced", |world: &World| {
        async move {
            let lease = world.lease(1, 1);
            let right = world.connect().await;
            right
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            let mut settings = world.settings.clone();
            settings.manifest_namespace = "default".to_owned();
            // The account of the test may not list in that namespace.
            let wrong =
                KubeCluster::connect(WriteClient::without_election(world.admin.clone()), settings).unwrap();
            let listing = wrong.deployments().await.unwrap();
            assert_eq!(listing.deployments, []);
            assert!(listing.place.contains("`default`"), "{}", listing.place);
            let (found, problem) = remains(&listing, &lease).unwrap();
            assert_eq!(found, RecordDefect::Unrecorded, "{problem}");
        }
        .boxed()
    });
}

#[test]
fn record_without_namespace_is_incomplete() {
    run("incomplete", |world: &World| {
        async move {
            let lease = world.lease(1, 1);
            let cluster = world.connect().await;
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            assert_eq!(cluster.deployments().await.unwrap().incomplete, []);
            world.delete("Namespace", "", &lease.namespace()).await;
            let is_observed = || async {
                let listing = cluster.deployments().await.unwrap();
                assert!(listing.deployments.contains(&web), "the record exists");
                listing.incomplete.contains(&lease)
            };
            world
                .until("the provider has observed the missing record", is_observed)
                .await;
            // The namespace may still be terminating when the watch has already removed it.
            let deployed = || async { cluster.deploy(&web).await.is_ok() };
            world.until("the lease is deployed again", deployed).await;
            assert_eq!(cluster.deployments().await.unwrap().incomplete, []);
        }
        .boxed()
    });
}

#[test]
fn missing_unwatched_object_makes_lease_incomplete() {
    run("gaps", |world: &World| {
        async move {
            let lease = world.lease(1, 1);
            let cluster = world.connect().await;
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            world
                .delete(
                    "ResourceQuota",
                    &lease.namespace(),
                    &first_quota(world, &lease).await,
                )
                .await;
            let listing = cluster.deployments().await.unwrap();
            assert_eq!(listing.incomplete, std::slice::from_ref(&lease));
            assert!(
                listing.remarks.iter().any(|r| r.contains("missing")),
                "{:?}",
                listing.remarks
            );
            cluster.deploy(&web).await.unwrap();
            assert_eq!(cluster.deployments().await.unwrap().incomplete, []);
        }
        .boxed()
    });
}

#[test]
fn edited_object_makes_lease_incomplete() {
    run("edited", |world: &World| {
        async move {
            let lease = world.lease(1, 1);
            let cluster = world.connect().await;
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            let replicas = serde_json::json!({"spec": {"replicas": 7}});
            world
                .edit("Deployment", &lease.namespace(), "web", replicas)
                .await;
            let cluster = &cluster;
            let is_seen = || async { cluster.deployments().await.unwrap().incomplete == [lease.clone()] };
            world.until("the edit is observed", is_seen).await;
            cluster.deploy(&web).await.unwrap();
            assert_eq!(cluster.deployments().await.unwrap().incomplete, []);
        }
        .boxed()
    });
}

async fn first_quota(world: &World, lease: &LeaseId) -> String {
    world.names("ResourceQuota", &lease.namespace()).await.remove(0)
}
