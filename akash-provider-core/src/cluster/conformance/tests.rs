mod mistakes;

use super::*;
use crate::cluster::{Facets, MemoryCluster, Operation};
use crate::error::ErrorKind;
use futures::FutureExt;

fn setup() -> Setup {
    let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
    Setup::new(provider.parse().unwrap())
}

/// A cluster in which every replica starts with three log lines.
fn talking() -> MemoryCluster {
    let cluster = MemoryCluster::default();
    cluster.set_start_lines(["listening", "ready", "served /"]);
    cluster
}

#[tokio::test]
async fn the_memory_cluster_conforms_and_is_left_empty() {
    let cluster = talking();
    suite(&cluster, &setup()).await;
    assert!(cluster.contents().is_empty(), "{:?}", cluster.contents());
    let overlaps = cluster.all_calls().values().map(|c| c.overlaps).sum::<u64>();
    assert_eq!(overlaps, 0);
}

#[tokio::test]
async fn slow_teardowns_conform() {
    let cluster = talking();
    cluster.set_teardown_delay(3);
    suite(&cluster, &setup()).await;
}

#[tokio::test]
async fn a_cluster_without_facets_conforms() {
    let none = Facets {
        hostnames: false,
        leased_ips: None,
        shell: false,
    };
    let cluster = MemoryCluster::new(none);
    cluster.set_start_lines(["one", "two", "three"]);
    suite(&cluster, &setup()).await;
    assert!(cluster.shell().is_none() && cluster.hostnames().is_none() && cluster.leased_ips().is_none());
}

#[tokio::test]
async fn pointers_to_a_cluster_conform() {
    let shared: Arc<dyn Cluster> = Arc::new(talking());
    suite(&shared, &setup()).await;
    suite(&(Box::new(talking()) as Box<dyn Cluster>), &setup()).await;
}

#[tokio::test]
async fn a_new_client_of_the_memory_cluster_lists_all_workloads() {
    let cluster = MemoryCluster::default();
    let open = move || {
        let client: Arc<dyn Cluster> = Arc::new(cluster.clone());
        async move { client }.boxed()
    };
    a_restart_loses_no_lease(&open, &setup()).await;
}

#[tokio::test]
#[should_panic(expected = "a recorded deployment is listed")]
async fn a_cluster_that_loses_records_does_not_conform() {
    let cluster = MemoryCluster::default();
    cluster.fail_next(Operation::Record, 1, ErrorKind::Unavailable);
    suite(&cluster, &setup()).await;
}

#[tokio::test]
#[should_panic(expected = "a deployed lease becomes healthy")]
async fn a_cluster_without_health_reports_does_not_conform() {
    let cluster = MemoryCluster::default();
    cluster.lose_watch();
    let mut setup = setup();
    setup.timeout = Duration::from_millis(20);
    a_deployed_lease_becomes_healthy(&cluster, &setup).await;
}

fn damage(cluster: &MemoryCluster) -> Damage<'static> {
    let (spoiled, lost) = (cluster.clone(), cluster.clone());
    Damage {
        corrupt: Box::new(move |lease| {
            assert!(spoiled.corrupt_record(&lease, "`proto: SCTP` is no protocol"));
            async {}.boxed()
        }),
        delete: Some(Box::new(move |lease| {
            assert!(lost.delete_record(&lease));
            async {}.boxed()
        })),
    }
}

#[tokio::test]
async fn the_memory_cluster_reports_damaged_records() {
    let cluster = MemoryCluster::default();
    let damage = damage(&cluster);
    damaged_records_are_reported(&cluster, &setup(), &damage).await;
    assert!(cluster.contents().is_empty(), "{:?}", cluster.contents());
}

#[tokio::test]
#[should_panic(expected = "is reported once")]
async fn a_cluster_that_omits_damaged_records_does_not_conform() {
    let cluster = MemoryCluster::default();
    let gone = cluster.clone();
    let damage = Damage {
        corrupt: Box::new(move |lease| {
            let gone = gone.clone();
            async move { drop(gone.teardown_lease(&lease).await) }.boxed()
        }),
        delete: None,
    };
    damaged_records_are_reported(&cluster, &setup(), &damage).await;
}

fn outage(cluster: &MemoryCluster) -> Outage<'static> {
    let (lost, back) = (cluster.clone(), cluster.clone());
    Outage {
        start: Box::new(move || {
            lost.lose_watch();
            async {}.boxed()
        }),
        end: Box::new(move || {
            back.restore_watch();
            async {}.boxed()
        }),
    }
}

#[tokio::test]
async fn the_memory_cluster_reports_no_health_during_an_outage() {
    let cluster = talking();
    a_lost_watch_reports_no_health(&cluster, &setup(), &outage(&cluster)).await;
    assert!(cluster.contents().is_empty(), "{:?}", cluster.contents());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a lost watch reports no health: `changes` was expected to report `Lost`")]
async fn a_cluster_that_hides_an_outage_does_not_conform() {
    let (cluster, other) = (talking(), MemoryCluster::default());
    a_lost_watch_reports_no_health(&cluster, &setup(), &outage(&other)).await;
}
