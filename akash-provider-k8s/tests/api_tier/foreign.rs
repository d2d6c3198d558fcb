//! Leases of another chain in the same cluster.

use crate::world::{deployment, run, service};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::ErrorKind;
use akash_provider_k8s::adopt::foreign_leases;
use futures::FutureExt;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn leases_of_another_chain_are_reported_and_not_written() {
    run("chain", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            cluster
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            let own = &world.settings.manifest_namespace;
            let is_ours = |name: &str| name.contains(&lease.namespace());
            let found = foreign_leases(&world.admin, "another-chain", own, LIMIT)
                .await
                .unwrap();
            let ours: Vec<_> = found.iter().filter(|f| is_ours(&f.name)).collect();
            assert_eq!(
                ours.iter().map(|f| f.kind).collect::<Vec<_>>(),
                ["Namespace", "Manifest"]
            );
            assert!(ours.iter().all(|f| f.chain_id.as_deref() == Some("api-tier")));
            let found = foreign_leases(&world.admin, "api-tier", own, LIMIT)
                .await
                .unwrap();
            assert!(!found.iter().any(|f| is_ours(&f.name)), "{found:?}");
            let nameless = foreign_leases(&world.admin, "", own, LIMIT).await;
            assert_eq!(nameless.unwrap_err().kind(), ErrorKind::Invalid);

            let mut settings = world.settings.clone();
            settings.chain_id = "another-chain".to_owned();
            let another = world.connect_with(settings).await;
            world.take_calls();
            assert_eq!(another.deployments().await.unwrap().deployments, []);
            let error = another
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            let error = another.teardown_lease(&lease).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(world.take_calls().iter().all(|c| c.method == "GET"), "no write");
        }
        .boxed()
    });
}
