//! The Manifest record: epochs, hostnames, passwords and invalid records.

use crate::admission::{admit, forbid, refuse};
use crate::world::{Fault, World, deployment, run, service, with_login};
use akash_provider_core::cluster::{Cluster, Teardown, WorkloadSpec};
use akash_provider_core::error::ErrorKind;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::adopt::Finding;
use akash_provider_k8s::labels;
use akash_provider_kube_model::crd::Manifest;
use futures::FutureExt;
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use std::time::Duration;

#[test]
fn older_epoch_cannot_write() {
    run("epoch", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let mut newer = deployment(&lease, vec![service("web")]);
            newer.epoch = 5;
            cluster.record(&newer).await.unwrap();
            let mut older = deployment(&lease, vec![service("web")]);
            older.epoch = 4;
            for refused in [cluster.record(&older).await, cluster.deploy(&older).await] {
                let error = refused.unwrap_err();
                assert_eq!(
                    (error.kind(), error.is_transient()),
                    (ErrorKind::Conflict, false),
                    "{error}"
                );
            }
            // The older epoch is also refused without the newer write in the cache.
            let blind = world.connect().await;
            newer.epoch = 6;
            cluster.record(&newer).await.unwrap();
            older.epoch = 5;
            assert_eq!(
                blind.record(&older).await.unwrap_err().kind(),
                ErrorKind::Conflict
            );
            assert_eq!(cluster.deployments().await.unwrap().deployments, [newer]);
        }
        .boxed()
    });
}

#[test]
fn services_of_a_lease_retain_their_names() {
    run("names", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            cluster
                .record(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            for other in [vec![service("api")], vec![service("web"), service("db")]] {
                let error = cluster.record(&deployment(&lease, other)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            }
        }
        .boxed()
    });
}

#[test]
fn invalid_manifest_is_refused_before_any_write() {
    run("invalid", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let mut web = service("web");
            web.image = "no such:image:name".to_owned();
            world.take_calls();
            let bad = deployment(&lease, vec![web]);
            for refused in [cluster.record(&bad).await, cluster.deploy(&bad).await] {
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid);
                assert!(error.to_string().contains("image"), "{error}");
            }
            assert_eq!(world.take_calls(), []);
            let mut others = deployment(&lease, vec![service("web")]);
            others.lease.provider = lease.owner().clone();
            assert_eq!(
                cluster.record(&others).await.unwrap_err().kind(),
                ErrorKind::Invalid
            );
            assert_eq!(world.take_calls(), [], "no call for a lease of another provider");
        }
        .boxed()
    });
}

#[test]
fn passwords_are_stored_separately_and_restored_after_restart() {
    run("passwords", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let private = private(&lease, "hunter2");
            cluster.deploy(&private).await.unwrap();
            let own = &world.settings.manifest_namespace;
            let record = world.get("Manifest", own, &lease.namespace()).await.unwrap();
            assert!(!record.to_string().contains("hunter2"), "{record}");
            let restarted = world.connect().await;
            assert_eq!(
                restarted.deployments().await.unwrap().deployments,
                std::slice::from_ref(&private)
            );
            let third = world.connect().await;
            let group = third.manifest_group(&lease).await.unwrap();
            assert_eq!(group.as_ref(), Some(&private.group));
            world.take_calls();
            restarted.deploy(&private).await.unwrap();
            assert_eq!(world.take_writes(), [], "an unchanged password is not written");
            restarted
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            let secrets = world.names("Secret", own).await;
            assert!(!secrets.iter().any(|s| s.ends_with("-registry")), "{secrets:?}");
            assert_eq!(world.names("Secret", &lease.namespace()).await, [""; 0]);
        }
        .boxed()
    });
}

#[test]
fn passwords_move_into_the_record_for_the_go_provider_and_back() {
    run("hand-back", |world| {
        async move {
            let lease = world.lease(1, 1);
            let private = private(&lease, "hunter2");
            world.connect().await.deploy(&private).await.unwrap();
            let own = world.settings.manifest_namespace.clone();
            let look = || async {
                let record = world.get("Manifest", &own, &lease.namespace()).await.unwrap();
                let web = world.get("Deployment", &lease.namespace(), "web").await.unwrap();
                let password = &record["spec"]["group"]["services"][0]["credentials"]["password"];
                let password = password.as_str().unwrap_or_default().to_owned();
                (password, web["metadata"]["generation"].clone())
            };
            let (password, generation) = look().await;
            assert_eq!(password, "");
            // A start deploys the recorded manifest, as the engine does.
            for (plain, expected) in [(true, "hunter2"), (false, "")] {
                let mut settings = world.settings.clone();
                settings.plain_registry_passwords = plain;
                let restarted = world.connect_with(settings).await;
                let recorded = restarted.deployments().await.unwrap().deployments;
                assert_eq!(recorded, std::slice::from_ref(&private));
                restarted.deploy(&recorded[0]).await.unwrap();
                assert_eq!(
                    look().await,
                    (expected.to_owned(), generation.clone()),
                    "no pod is replaced"
                );
            }
            let last = world.connect().await;
            assert_eq!(
                last.deployments().await.unwrap().deployments,
                [private],
                "the password is not lost"
            );
        }
        .boxed()
    });
}

#[test]
fn invalid_records_are_reported_and_not_deleted() {
    run("garbage", |world| {
        async move {
            let own = world.settings.manifest_namespace.clone();
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            let broken = world.lease(1, 2);
            cluster.record(&deployment(&broken, vec![service("web")])).await.unwrap();
            let nonsense = json!({"spec": {"group": {"services": [
                {"name": "web", "image": "x", "count": 1, "resources": {
                    "id": 1, "cpu": {"units": 1}, "gpu": {"units": 0}, "memory": {"size": "a lot"},
                }},
            ]}}});
            world.edit("Manifest", &own, &broken.namespace(), nonsense).await;
            let stray = json!({
                "apiVersion": "akash.network/v2beta2", "kind": "ProviderHost",
                "metadata": {"name": "stray.example", "namespace": own, "labels": {"akash.network": "true"}},
                "spec": {
                    "owner": "nobody", "provider": world.settings.provider.to_string(), "hostname": "stray.example",
                    "dseq": 1, "gseq": 1, "oseq": 1, "service_name": "web", "external_port": 80,
                },
            });
            crate::world::put(&world.admin, &stray, "somebody").await;
            let restarted = world.connect().await;
            let listed = restarted.deployments().await.unwrap().deployments;
            assert_eq!(listed, std::slice::from_ref(&web));
            let findings = restarted.findings().await.unwrap();
            println!("{}", findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
            assert!(findings.iter().any(|f| matches!(f, Finding::Unreadable { problem, .. } if problem.contains("size"))));
            assert!(findings.iter().any(|f| f.to_string().contains("stray.example")));
            restarted.deploy(&web).await.unwrap();
            assert_eq!(restarted.hostnames().unwrap().all_hostnames().await.unwrap(), []);
            let api: Api<Manifest> = Api::namespaced(world.admin.clone(), &own);
            assert!(api.get_opt(&broken.namespace()).await.unwrap().is_some(), "the invalid record is not deleted");
            assert!(world.get("ProviderHost", &own, "stray.example").await.is_some());
            let repaired = deployment(&broken, vec![service("web")]);
            restarted.record(&repaired).await.unwrap();
            assert!(restarted.deployments().await.unwrap().deployments.contains(&repaired), "a new manifest replaces the invalid record");
        }
        .boxed()
    });
}

/// A service with a login for a registry.
fn private(lease: &LeaseId, password: &str) -> WorkloadSpec {
    deployment(lease, vec![with_login(service("web"), password)])
}

fn secret_of(lease: &LeaseId) -> String {
    format!("{}-registry", lease.namespace())
}

/// Returns the names of the Secrets with stored passwords.
async fn stored_passwords(world: &World) -> Vec<String> {
    let mut names = world.names("Secret", &world.settings.manifest_namespace).await;
    names.retain(|name| name.ends_with("-registry"));
    names.sort();
    names
}

/// HTTP status 403 means a missing right or a refusal by admission. No Secret may remain.
#[test]
fn record_refused_by_admission_differs_from_missing_right() {
    run("refused-record", |world| {
        async move {
            let cluster = world.connect().await;
            let mut bad = private(&world.lease(1, 1), "hunter2");
            std::sync::Arc::make_mut(&mut bad.group).services[0].image = "no such:image:name".to_owned();
            let error = cluster.record(&bad).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert_eq!(
                stored_passwords(world).await,
                [""; 0],
                "passwords of an invalid manifest"
            );

            let own = world.settings.manifest_namespace.clone();
            let of_own = json!({"matchLabels": {"kubernetes.io/metadata.name": own}});
            refuse(
                world,
                ("akash.network", "v2beta2", "manifests"),
                "CREATE",
                &of_own,
            )
            .await;
            let mut last = None;
            // An admission policy takes effect after a moment.
            for number in 0..40 {
                let probe = deployment(&world.lease(2, number), vec![service("web")]);
                last = cluster.record(&probe).await.err();
                if last.is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            assert!(last.is_some(), "the admission policy did not take effect in time");
            let lease = world.lease(3, 1);
            for answer in [
                cluster.record(&private(&lease, "hunter2")).await,
                cluster.deploy(&private(&lease, "hunter2")).await,
            ] {
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                assert!(error.to_string().contains("not today"), "{error}");
                assert_eq!(
                    stored_passwords(world).await,
                    [""; 0],
                    "passwords of a refused record"
                );
            }
            admit(world).await;

            let roles: Api<Role> = Api::namespaced(world.admin.clone(), &own);
            let mut role = roles.get("akash-provider").await.unwrap();
            forbid(role.rules.as_mut(), "create", "manifests");
            roles
                .replace("akash-provider", &PostParams::default(), &role)
                .await
                .unwrap();
            let denied = || async {
                let answer = cluster.record(&private(&lease, "hunter2")).await;
                let kind = answer.err().map(|error| error.kind());
                assert_ne!(kind, None, "the record is written without the right");
                kind == Some(ErrorKind::Denied)
            };
            world.until("the missing right is reported", denied).await;
            assert_eq!(stored_passwords(world).await, [""; 0]);
        }
        .boxed()
    });
}

#[test]
fn passwords_without_record_are_deleted_with_their_lease() {
    run("half-passwords", |world| {
        async move {
            let cluster = world.connect().await;
            for fault in [Fault::Lost(1), Fault::Unanswered(0)] {
                let lease = world.lease(1, 1);
                world.break_line(Some(fault));
                let error = cluster.record(&private(&lease, "hunter2")).await.unwrap_err();
                world.break_line(None);
                assert!(error.is_transient(), "{error}");
                // The record may be sent again, and its outcome is unknown.
                assert_eq!(
                    stored_passwords(world).await,
                    [secret_of(&lease)],
                    "after {fault:?}"
                );
                // A restart does not know the earlier write.
                let restarted = world.connect().await;
                assert_eq!(restarted.teardown_lease(&lease).await.unwrap(), Teardown::Done);
                assert_eq!(stored_passwords(world).await, [""; 0], "after {fault:?}");
            }
        }
        .boxed()
    });
}

#[test]
fn passwords_without_record_are_collected_after_a_delay() {
    run("collect", |world| {
        async move {
            let own = world.settings.manifest_namespace.clone();
            let cluster = world.connect().await;
            let (broken, recorded, foreign) = (world.lease(1, 1), world.lease(1, 2), world.lease(1, 3));
            cluster.record(&private(&recorded, "kept")).await.unwrap();
            for lease in [&broken, &foreign] {
                world.break_line(Some(Fault::Lost(1)));
                cluster.record(&private(lease, "hunter2")).await.unwrap_err();
                world.break_line(None);
            }
            assert_eq!(
                cluster.collect_passwords().await.unwrap(),
                0,
                "recent passwords are retained"
            );
            for lease in [&broken, &recorded, &foreign] {
                let old = json!({"metadata": {"annotations": {labels::UPDATED_AT: "2020-01-01T00:00:00Z"}}});
                world.edit("Secret", &own, &secret_of(lease), old).await;
            }
            let other = json!({"metadata": {"annotations": {labels::CHAIN_ID: "another-chain"}}});
            world.edit("Secret", &own, &secret_of(&foreign), other).await;
            assert_eq!(cluster.collect_passwords().await.unwrap(), 1);
            let mut left = [secret_of(&recorded), secret_of(&foreign)];
            left.sort();
            assert_eq!(stored_passwords(world).await, left);
            assert_eq!(cluster.collect_passwords().await.unwrap(), 0);
            cluster.record(&private(&broken, "hunter2")).await.unwrap();
            let restarted = world.connect().await;
            let mut listed = restarted.deployments().await.unwrap().deployments;
            listed.sort_by_key(|d| d.lease.clone());
            assert_eq!(listed, [private(&broken, "hunter2"), private(&recorded, "kept")]);
        }
        .boxed()
    });
}

/// Secrets contain no epoch, so a writer with an older epoch must fail before it writes a Secret.
#[test]
fn older_epoch_cannot_change_passwords() {
    run("epoch-passwords", |world| {
        async move {
            let (old, new) = (world.connect().await, world.connect().await);
            let lease = world.lease(1, 1);
            let of = |epoch: u64, password: &str| WorkloadSpec {
                epoch,
                ..private(&lease, password)
            };
            new.record(&of(5, "first")).await.unwrap();
            for epoch in 6..12 {
                new.record(&of(epoch, &format!("of {epoch}"))).await.unwrap();
                let error = old.record(&of(epoch - 1, "late")).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                let listed = world.connect().await.deployments().await.unwrap().deployments;
                assert_eq!(listed, [of(epoch, &format!("of {epoch}"))]);
            }
        }
        .boxed()
    });
}
