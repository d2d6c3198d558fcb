//! Teardown deletes the objects of one lease only. The teardown is reported as done only when all of these objects are
//! deleted.

use crate::admission::{admit, forbid, refuse};
use crate::world::{deployment, run, service};
use akash_provider_core::cluster::{Cluster, HostnameDeclaration, Teardown};
use akash_provider_core::error::ErrorKind;
use akash_provider_k8s::labels;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use std::time::Duration;

#[test]
fn teardown_with_stuck_namespace_stays_in_progress() {
    run("stuck", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            world
                .edit(
                    "Namespace",
                    "",
                    &ns,
                    json!({"metadata": {"finalizers": ["somebody/holds"]}}),
                )
                .await;
            for _ in 0..10 {
                assert_eq!(
                    cluster.teardown_lease(&lease).await.unwrap(),
                    Teardown::InProgress
                );
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            assert_eq!(
                cluster.deployments().await.unwrap().deployments,
                std::slice::from_ref(&web),
                "the capacity stays reserved"
            );
            let error = cluster.deploy(&web).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.is_transient()),
                (ErrorKind::Conflict, true),
                "{error}"
            );
            let restarted = world.connect().await;
            assert_eq!(restarted.deployments().await.unwrap().deployments, [web]);
            assert_eq!(
                restarted.teardown_lease(&lease).await.unwrap(),
                Teardown::InProgress
            );
            world
                .edit("Namespace", "", &ns, json!({"metadata": {"finalizers": null}}))
                .await;
            world.remove(&restarted, &lease).await;
            assert_eq!(restarted.deployments().await.unwrap().deployments, []);
            assert!(world.get("Namespace", "", &ns).await.is_none());
        }
        .boxed()
    });
}

#[test]
fn teardown_deletes_only_objects_of_its_lease() {
    run("alone", |world| {
        async move {
            let cluster = world.connect().await;
            let hosts = cluster.hostnames().unwrap();
            let (goes, stays) = (world.lease(1, 1), world.lease(1, 2));
            let own = &world.settings.manifest_namespace;
            for (lease, hostname) in [(&goes, "goes.example"), (&stays, "stays.example")] {
                cluster
                    .deploy(&deployment(lease, vec![service("web")]))
                    .await
                    .unwrap();
                let name = HostnameDeclaration::new(hostname, "web", 80);
                hosts.declare_hostname(lease, &name).await.unwrap();
            }
            // The same lease id with another provider in its labels.
            let other = akash_provider_core::types::Address::from_bytes(&[77; 20])
                .unwrap()
                .to_string();
            let mut object = world.get("ProviderHost", own, "goes.example").await.unwrap();
            object["metadata"] = json!({
                "name": "other.example", "namespace": own, "labels": object["metadata"]["labels"],
            });
            object["metadata"]["labels"][labels::LEASE_PROVIDER] = json!(other);
            object["spec"]["provider"] = json!(other);
            object["spec"]["hostname"] = json!("other.example");
            crate::world::put(&world.admin, &object, "somebody").await;
            world.remove(&cluster, &goes).await;
            let mut names = world.names("ProviderHost", own).await;
            names.sort();
            assert_eq!(names, ["other.example", "stays.example"]);
            assert_eq!(world.names("Manifest", own).await, [stays.namespace()]);
            assert!(world.get("Namespace", "", &stays.namespace()).await.is_some());
            assert_eq!(cluster.teardown_lease(&goes).await.unwrap(), Teardown::Done);
        }
        .boxed()
    });
}

#[test]
fn teardown_does_not_delete_unlabelled_namespace() {
    run("not-ours", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            let oseq = json!({"metadata": {"labels": {labels::LEASE_OSEQ: "2"}}});
            world.edit("Namespace", "", &ns, oseq).await;
            let error = cluster.teardown_lease(&lease).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            let back = json!({"metadata": {
                "labels": {labels::LEASE_OSEQ: "1"}, "annotations": {labels::CHAIN_ID: "another-chain"},
            }});
            world.edit("Namespace", "", &ns, back).await;
            let error = cluster.teardown_lease(&lease).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            let namespace = world.get("Namespace", "", &ns).await.unwrap();
            assert!(namespace["metadata"]["deletionTimestamp"].is_null());
        }
        .boxed()
    });
}

#[test]
fn teardown_refused_by_admission_differs_from_missing_right() {
    run("refused-teardown", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            cluster
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            let of_provider = json!({"matchLabels": {
                labels::LEASE_PROVIDER: world.settings.provider.to_string(),
            }});
            refuse(world, ("", "v1", "namespaces"), "DELETE", &of_provider).await;
            let dry = DeleteParams {
                dry_run: true,
                ..DeleteParams::default()
            };
            let namespaces: Api<Namespace> = Api::all(world.client.clone());
            let in_force = || async { namespaces.delete(&ns, &dry).await.is_err() };
            world.until("the policy is in force", in_force).await;
            let error = cluster.teardown_lease(&lease).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("not today"), "{error}");
            admit(world).await;

            let name = format!("akash-provider-{}", world.settings.manifest_namespace);
            let roles: Api<ClusterRole> = Api::all(world.admin.clone());
            let mut role = roles.get(&name).await.unwrap();
            forbid(role.rules.as_mut(), "delete", "namespaces");
            roles.replace(&name, &PostParams::default(), &role).await.unwrap();
            let missing = || async {
                let error = namespaces.delete(&ns, &dry).await.err();
                error.is_some_and(|e| e.to_string().contains("cannot delete resource"))
            };
            world.until("the right is missing", missing).await;
            let error = cluster.teardown_lease(&lease).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert_eq!(
                cluster.deployments().await.unwrap().deployments.len(),
                1,
                "the record stays"
            );
        }
        .boxed()
    });
}
