//! The durable record: epochs, names, passwords, garbage.

use crate::admission::{admit, forbid, refuse};
use crate::world::{Fault, World, deployment, run, service, with_login};
use akash_provider_core::cluster::{Cluster, Teardown, WorkloadSpec};
use akash_provider_core::error::ErrorKind;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::adopt::Finding;
use akash_provider_k8s::crd::Manifest;
use akash_provider_k8s::labels;
use futures::FutureExt;
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use std::time::Duration;

#[test]
fn an_older_epoch_writes_nothing_any_more() {
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
            // Also where its caches know nothing of the newer write.
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
fn the_services_of_a_lease_keep_their_names() {
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
fn what_kubernetes_would_refuse_is_refused_before_anything_is_written() {
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
            assert_eq!(world.take_calls(), [], "a lease of another provider");
        }
        .boxed()
    });
}

#[test]
fn passwords_are_kept_apart_and_come_back_after_a_restart() {
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
fn passwords_go_into_the_record_for_the_way_back_and_out_of_it_again() {
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
            // A start, as the engine makes one: what is recorded is deployed.
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
                "and it is not lost"
            );
        }
        .boxed()
    });
}

#[test]
fn garbage_is_reported_and_neither_deleted_nor_in_the_way() {
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
            assert!(api.get_opt(&broken.namespace()).await.unwrap().is_some(), "it is not deleted");
            assert!(world.get("ProviderHost", &own, "stray.example").await.is_some());
            let mended = deployment(&broken, vec![service("web")]);
            restarted.record(&mended).await.unwrap();
            assert!(restarted.deployments().await.unwrap().deployments.contains(&mended), "a new manifest mends it");
        }
        .boxed()
    });
}

/// A service with a login at a registry.
fn private(lease: &LeaseId, password: &str) -> WorkloadSpec {
    deployment(lease, vec![with_login(service("web"), password)])
}

fn secret_of(lease: &LeaseId) -> String {
    format!("{}-registry", lease.namespace())
}

/// The Secrets of passwords that are there.
async fn kept_passwords(world: &World) -> Vec<String> {
    let mut names = world.names("Secret", &world.settings.manifest_namespace).await;
    names.retain(|name| name.ends_with("-registry"));
    names.sort();
    names
}

/// The API server answers both with 403. Neither leaves passwords behind.
#[test]
fn a_record_that_admission_refuses_is_told_from_a_right_that_is_missing() {
    run("refused-record", |world| {
        async move {
            let cluster = world.connect().await;
            let mut bad = private(&world.lease(1, 1), "hunter2");
            std::sync::Arc::make_mut(&mut bad.group).services[0].image = "no such:image:name".to_owned();
            let error = cluster.record(&bad).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert_eq!(
                kept_passwords(world).await,
                [""; 0],
                "of a manifest that makes no sense"
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
            // An admission policy takes effect a moment after it was made.
            for number in 0..40 {
                let probe = deployment(&world.lease(2, number), vec![service("web")]);
                last = cluster.record(&probe).await.err();
                if last.is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            assert!(last.is_some(), "the policy never took effect");
            let lease = world.lease(3, 1);
            for answer in [
                cluster.record(&private(&lease, "hunter2")).await,
                cluster.deploy(&private(&lease, "hunter2")).await,
            ] {
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                assert!(error.to_string().contains("not today"), "{error}");
                assert_eq!(
                    kept_passwords(world).await,
                    [""; 0],
                    "of a record that was refused"
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
                assert_ne!(kind, None, "it is not recorded without the right");
                kind == Some(ErrorKind::Denied)
            };
            world
                .until("the right is missing, and that is said", denied)
                .await;
            assert_eq!(kept_passwords(world).await, [""; 0]);
        }
        .boxed()
    });
}

#[test]
fn passwords_of_a_record_that_never_came_go_with_their_lease() {
    run("half-passwords", |world| {
        async move {
            let cluster = world.connect().await;
            for fault in [Fault::Lost(1), Fault::Unanswered(0)] {
                let lease = world.lease(1, 1);
                world.break_line(Some(fault));
                let error = cluster.record(&private(&lease, "hunter2")).await.unwrap_err();
                world.break_line(None);
                assert!(error.is_transient(), "{error}");
                // It may yet be sent again, and whether it arrived is not known in any case.
                assert_eq!(
                    kept_passwords(world).await,
                    [secret_of(&lease)],
                    "after {fault:?}"
                );
                // Nobody remembers what was written before a restart.
                let restarted = world.connect().await;
                assert_eq!(restarted.teardown_lease(&lease).await.unwrap(), Teardown::Done);
                assert_eq!(kept_passwords(world).await, [""; 0], "after {fault:?}");
            }
        }
        .boxed()
    });
}

#[test]
fn passwords_without_a_record_are_collected_once_they_are_given_up() {
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
            assert_eq!(cluster.collect_passwords().await.unwrap(), 0, "they are young");
            for lease in [&broken, &recorded, &foreign] {
                let old = json!({"metadata": {"annotations": {labels::UPDATED_AT: "2020-01-01T00:00:00Z"}}});
                world.edit("Secret", &own, &secret_of(lease), old).await;
            }
            let other = json!({"metadata": {"annotations": {labels::CHAIN_ID: "another-chain"}}});
            world.edit("Secret", &own, &secret_of(&foreign), other).await;
            assert_eq!(cluster.collect_passwords().await.unwrap(), 1);
            let mut left = [secret_of(&recorded), secret_of(&foreign)];
            left.sort();
            assert_eq!(kept_passwords(world).await, left);
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

/// A Secret has no epoch: who is too late must not reach it.
#[test]
fn an_older_epoch_leaves_the_passwords_alone() {
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
