//! Connections that fail during an operation: the next attempt completes the operation, and no workload ever
//! runs without policies.

use crate::apply::decided;
use crate::world::{Fault, deployment, expose, run, run_alone, service};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::Credentials;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::labels;
use futures::FutureExt;
use serde_json::json;
use std::time::Duration;
use testbed::Component;

/// Maximum number of writes of each operation in these tests.
const WRITES_MAX: usize = 30;

#[test]
fn interrupted_deploy_is_completed_by_next_deploy() {
    run("half", |world| {
        async move {
            let cluster = world.connect().await;
            let wanted = world.lease(1, 90_000);
            let updated = |lease: &LeaseId| {
                let mut db = service("db");
                db.expose = vec![expose(80)];
                db.image = "redis:8".to_owned();
                deployment(lease, vec![service("web"), db])
            };
            cluster.deploy(&updated(&wanted)).await.unwrap();
            let wanted = decided(world, &wanted).await;
            let mut tried = 0;
            for fault in [Fault::Lost, Fault::Unanswered] {
                for passing in 0..WRITES_MAX {
                    tried += 1;
                    let lease = world.lease(1, 90_000 + tried);
                    let first = deployment(&lease, vec![service("web"), service("db")]);
                    // In every second round the lease already runs and the update is interrupted.
                    if passing % 2 == 1 {
                        cluster.deploy(&first).await.unwrap();
                    }
                    world.break_line(Some(fault(passing)));
                    let broken = cluster.deploy(&updated(&lease)).await;
                    world.break_line(None);
                    if let Err(error) = &broken {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    }
                    if world.get("Namespace", "", &lease.namespace()).await.is_some() {
                        let policies = world.names("NetworkPolicy", &lease.namespace()).await;
                        let workloads = world.names("Deployment", &lease.namespace()).await;
                        assert!(
                            workloads.is_empty() || policies.len() >= 2,
                            "{workloads:?} without {policies:?}"
                        );
                    }
                    let restarted = world.connect().await;
                    restarted.deploy(&updated(&lease)).await.unwrap();
                    assert_eq!(decided(world, &lease).await, wanted, "after {:?}", fault(passing));
                    if broken.is_ok() && passing % 2 == 0 {
                        assert!(passing > 8, "a first deploy makes more than {passing} writes");
                        break;
                    }
                }
            }
            println!("{tried} places");
        }
        .boxed()
    });
}

#[test]
fn revert_after_interrupted_update_restores_all_objects() {
    run("back", |world| {
        async move {
            let cluster = world.connect().await;
            let with = |lease: &LeaseId, password: &str| {
                let mut web = service("web");
                web.credentials = Some(Credentials {
                    host: "registry.example".to_owned(),
                    email: String::new(),
                    username: "me".to_owned(),
                    password: password.to_owned(),
                });
                // The update also opens a node port.
                web.expose.truncate(if password == "first" { 1 } else { 2 });
                deployment(lease, vec![web])
            };
            for passing in 0..11 {
                let lease = world.lease(1, 1 + passing as u64);
                cluster.deploy(&with(&lease, "first")).await.unwrap();
                let before = world
                    .get("Secret", &lease.namespace(), "docker-creds-web")
                    .await
                    .unwrap();
                world.break_line(Some(Fault::Unanswered(passing)));
                let _ = cluster.deploy(&with(&lease, "second")).await;
                world.break_line(None);
                let restarted = world.connect().await;
                restarted.deploy(&with(&lease, "first")).await.unwrap();
                let after = world
                    .get("Secret", &lease.namespace(), "docker-creds-web")
                    .await
                    .unwrap();
                assert_eq!(after["data"], before["data"], "after {passing} writes");
                let services = world.names("Service", &lease.namespace()).await;
                assert_eq!(services, ["web"], "after {passing} writes");
                let listed = restarted.deployments().await.unwrap().deployments;
                assert!(listed.contains(&with(&lease, "first")));
            }
        }
        .boxed()
    });
}

#[test]
fn interrupted_record_is_complete_or_absent() {
    run("half-record", |world| {
        async move {
            let cluster = world.connect().await;
            for (number, fault) in [Fault::Lost(0), Fault::Unanswered(0)].into_iter().enumerate() {
                let lease = world.lease(1, 1 + number as u64);
                let web = deployment(&lease, vec![service("web")]);
                world.break_line(Some(fault));
                let error = cluster.record(&web).await.unwrap_err();
                world.break_line(None);
                assert!(error.is_transient(), "{error}");
                cluster.record(&web).await.unwrap();
                assert!(cluster.deployments().await.unwrap().deployments.contains(&web));
            }
        }
        .boxed()
    });
}

/// After a pause of etcd, each call in flight must have its complete effect or no effect.
#[test]
fn paused_store_refuses_manifest_soon_without_partial_state() {
    run_alone("paused", |world, testbed| {
        async move {
            let cluster = world.connect().await;
            let running = world.lease(1, 1);
            cluster
                .deploy(&deployment(&running, vec![service("web")]))
                .await
                .unwrap();
            let late = world.lease(1, 2);
            let web = deployment(&late, vec![service("web")]);
            tokio::task::block_in_place(|| testbed.pause(Component::Etcd)).unwrap();
            let began = std::time::Instant::now();
            let refused = cluster.record(&web).await;
            let took = began.elapsed();
            let deployed = cluster.deploy(&web).await;
            tokio::task::block_in_place(|| testbed.resume(Component::Etcd)).unwrap();
            let error = refused.unwrap_err();
            assert!(error.is_transient(), "{error}");
            // Time limit of a call, plus reserve for a busy machine.
            assert!(
                took < world.settings.call_timeout + Duration::from_secs(10),
                "{took:?}"
            );
            assert!(deployed.unwrap_err().is_transient());
            let answers =
                || async { world.admin.apiserver_version().await.is_ok() && cluster.state().is_known() };
            world.until("the API server responds again", answers).await;
            assert!(world.get("Namespace", "", &late.namespace()).await.is_none());
            let own = world.settings.manifest_namespace.clone();
            assert_eq!(world.names("Secret", &own).await, [""; 0]);
            let deployments = cluster.deployments().await.unwrap().deployments;
            assert!(
                deployments.iter().filter(|d| d.lease == late).all(|d| *d == web),
                "{deployments:?}"
            );
            let taken = || async { cluster.record(&web).await.is_ok() };
            world.until("the manifest is accepted", taken).await;
            assert!(cluster.deployments().await.unwrap().deployments.contains(&web));
            assert!(
                world
                    .get("Deployment", &running.namespace(), "web")
                    .await
                    .is_some()
            );
            world.remove(&cluster, &late).await;
            // Controllers that timed out would leave the namespaces of other tests behind.
            tokio::task::block_in_place(|| testbed.restart_controllers()).unwrap();
        }
        .boxed()
    });
}

#[test]
fn refused_policy_stops_deploy_before_any_pod() {
    run("policy", |world| {
        async move {
            let cluster = world.connect().await;
            let name = world.settings.manifest_namespace.clone();
            let refuse = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {"resourceRules": [{
                        "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["networkpolicies"],
                    }]},
                    "validations": [{"expression": "false", "message": "no policies today"}],
                },
            });
            let binding = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": name},
                "spec": {
                    "policyName": name, "validationActions": ["Deny"],
                    "matchResources": {"namespaceSelector": {"matchLabels": {
                        labels::LEASE_PROVIDER: world.settings.provider.to_string(),
                    }}},
                },
            });
            for object in [&refuse, &binding] {
                crate::world::put(&world.admin, object, "somebody").await;
            }
            let mut refused = None;
            // An admission policy takes effect after a moment.
            for number in 0..40 {
                let lease = world.lease(1, number);
                let answer = cluster.deploy(&deployment(&lease, vec![service("web")])).await;
                if let Err(error) = answer {
                    refused = Some((lease, error));
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            }
            let (lease, error) = refused.expect("the policy takes effect");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("no policies today"), "{error}");
            for kind in ["Deployment", "StatefulSet", "Pod", "Service"] {
                assert_eq!(world.names(kind, &lease.namespace()).await, [""; 0], "{kind}");
            }
            crate::world::remove(world, "ValidatingAdmissionPolicyBinding", &name).await;
            crate::world::remove(world, "ValidatingAdmissionPolicy", &name).await;
            let deploy = || async {
                cluster
                    .deploy(&deployment(&lease, vec![service("web")]))
                    .await
                    .is_ok()
            };
            world.until("the lease is deployed", deploy).await;
        }
        .boxed()
    });
}
