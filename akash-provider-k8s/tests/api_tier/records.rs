//! The durable record: epochs, names, passwords, garbage.

use crate::world::{deployment, run, service};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::Credentials;
use akash_provider_k8s::adopt::Finding;
use akash_provider_k8s::crd::Manifest;
use futures::FutureExt;
use kube::Api;
use serde_json::json;

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
            assert_eq!(cluster.deployments().await.unwrap(), [newer]);
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
            let mut web = service("web");
            web.credentials = Some(Credentials {
                host: "registry.example".to_owned(),
                email: String::new(),
                username: "me".to_owned(),
                password: "hunter2".to_owned(),
            });
            let private = deployment(&lease, vec![web]);
            cluster.deploy(&private).await.unwrap();
            let own = &world.settings.manifest_namespace;
            let record = world.get("Manifest", own, &lease.namespace()).await.unwrap();
            assert!(!record.to_string().contains("hunter2"), "{record}");
            let restarted = world.connect().await;
            assert_eq!(
                restarted.deployments().await.unwrap(),
                std::slice::from_ref(&private)
            );
            let third = world.connect().await;
            let group = third.manifest_group(&lease).await.unwrap();
            assert_eq!(group.as_ref(), Some(&private.group));
            world.take_calls();
            restarted.deploy(&private).await.unwrap();
            assert_eq!(world.take_calls(), [], "an unchanged password is not written");
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
            let listed = restarted.deployments().await.unwrap();
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
            assert!(restarted.deployments().await.unwrap().contains(&mended), "a new manifest mends it");
        }
        .boxed()
    });
}
