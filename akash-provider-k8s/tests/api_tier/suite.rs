//! The conformance suite of the cluster port.
//!
//! No node runs here. A task marks pods as running. The parts of the suite that read from inside a pod run in
//! the node tier.

use crate::world::{World, run};
use akash_provider_core::cluster::{Cluster, conformance};
use akash_provider_core::types::Address;
use akash_provider_k8s::write_client::WriteClient;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

fn setup(world: &World) -> conformance::Setup {
    let mut setup = conformance::Setup::new(world.settings.provider.clone());
    setup.timeout = Duration::from_secs(40);
    setup.poll_interval = Duration::from_millis(50);
    setup.quiet_time = Duration::from_secs(2);
    // No node runs here, so no pod writes logs.
    setup.lines = 0;
    setup
}

#[test]
fn cluster_passes_conformance_suite_except_commands() {
    run("suite", |world| {
        async move {
            let mut settings = world.settings.clone();
            settings.leased_ips = true;
            settings.leased_ip_pool = 4;
            let cluster = world.connect_with(settings).await;
            let (cluster, setup) = (&*cluster as &dyn Cluster, setup(world));
            let pods = world.fake_kubelet();
            conformance::an_unknown_lease_is_not_found(cluster, &setup).await;
            conformance::a_recorded_deployment_is_listed(cluster, &setup).await;
            conformance::a_deployed_lease_becomes_healthy(cluster, &setup).await;
            conformance::a_newer_deployment_replaces_the_older(cluster, &setup).await;
            conformance::an_older_term_writes_nothing(cluster, &setup).await;
            conformance::a_repeated_deploy_changes_nothing(cluster, &setup).await;
            conformance::leases_are_independent(cluster, &setup).await;
            conformance::a_hostname_has_one_holder(cluster, &setup).await;
            conformance::an_address_moves_within_its_tenant(cluster, &setup).await;
            assert!(!cluster.version().await.unwrap().is_empty());
            pods.abort();
        }
        .boxed()
    });
}

#[test]
fn two_providers_on_one_cluster_do_not_interfere() {
    run("providers", |world| {
        async move {
            let mut settings = world.settings.clone();
            settings.provider = Address::from_bytes(&[6; 20]).unwrap();
            let mut their_setup = setup(world);
            their_setup.provider = settings.provider.clone();
            let pods = [world.fake_kubelet(), world.fake_kubelet_of(&settings.provider)];
            let (ours, theirs) = (world.connect().await, world.connect_with(settings).await);
            let (one, other) = (
                (&*ours as &dyn Cluster, &setup(world)),
                (&*theirs as &dyn Cluster, &their_setup),
            );
            conformance::providers_are_isolated(one, other).await;
            pods.iter().for_each(tokio::task::JoinHandle::abort);
        }
        .boxed()
    });
}

#[test]
fn streams_end_at_teardown_without_pods() {
    run("streams", |world| {
        async move {
            let cluster = world.connect().await;
            conformance::streams_exist_for_existing_services_only(&*cluster, &setup(world)).await;
            conformance::streams_end_at_teardown(&*cluster, &setup(world)).await;
        }
        .boxed()
    });
}

#[test]
fn a_restart_forgets_nothing() {
    run("restart", |world| {
        async move {
            let (client, settings) = (world.client.clone(), world.settings.clone());
            let open = move || -> BoxFuture<'static, Arc<dyn Cluster>> {
                let (client, settings) = (client.clone(), settings.clone());
                async move {
                    let cluster = akash_provider_k8s::cluster::KubeCluster::connect(
                        WriteClient::without_election(client),
                        settings,
                    )
                    .unwrap();
                    cluster as Arc<dyn Cluster>
                }
                .boxed()
            };
            conformance::a_restart_loses_no_lease(&open, &setup(world)).await;
        }
        .boxed()
    });
}
