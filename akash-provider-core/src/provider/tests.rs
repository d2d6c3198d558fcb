use super::*;
use crate::engine::{Leadership, Lifecycle};
use crate::error::chain_text;
use crate::runtime::fakes::{self, FakeBus, FakeChain, FakeCluster, FakeInventory, FakePricing};
use crate::types::ChainEvent;
use std::sync::Arc;
use std::time::Duration;

fn full() -> ProviderBuilder {
    without("nothing")
}

/// Returns a builder on which every required method except `method` was called.
fn without(method: &str) -> ProviderBuilder {
    let chain = FakeChain::default();
    let snapshot = fakes::snapshot(1_000);
    *chain.events.lock().unwrap() = [vec![Ok(ChainEvent::Resync(Arc::new(snapshot)))]].into();
    let cluster = FakeCluster {
        facets: true,
        ..FakeCluster::default()
    };
    let health = std::collections::BTreeMap::new();
    let change = crate::cluster::ClusterChange::Snapshot { health };
    *cluster.changes.lock().unwrap() = [vec![Ok(change)]].into();
    let inventory = FakeInventory::default();
    *inventory.0.lock().unwrap() = [vec![Ok(fakes::capacity())]].into();
    let builder = Provider::builder();
    let given = |name: &str| name != method;
    let builder = if given("config") {
        builder.config(fakes::config())
    } else {
        builder
    };
    let builder = if given("cluster") {
        builder.cluster(Arc::new(cluster))
    } else {
        builder
    };
    let builder = if given("chain") {
        builder.chain(Arc::new(chain))
    } else {
        builder
    };
    let builder = if given("bus") {
        builder.bus(Arc::new(FakeBus::default()))
    } else {
        builder
    };
    let pricing = Arc::new(FakePricing::default());
    let builder = if given("pricing") {
        builder.pricing(pricing)
    } else {
        builder
    };
    if given("inventory") {
        builder.inventory(Arc::new(inventory))
    } else {
        builder
    }
}

#[test]
fn a_missing_part_is_named_with_its_builder_method() {
    for method in ["config", "cluster", "chain", "bus", "pricing", "inventory"] {
        let error = without(method).build().unwrap_err();
        assert!(error.to_string().contains(&format!("`.{method}(…)`")), "{error}");
    }
}

#[test]
fn invalid_settings_are_named_with_the_remedy() {
    let mut config = fakes::config();
    config.cluster_ready_timeout = Duration::ZERO;
    let error = full().config(config).build().unwrap_err();
    let text = chain_text(&error);
    assert!(
        text.contains("cluster_ready_timeout") && text.contains("above zero"),
        "{text}"
    );
}

#[test]
fn the_cluster_determines_leased_ips_and_hostnames() {
    let (provider, _) = full().build().unwrap();
    let config = &provider.parts.config;
    assert!(config.leased_ips && config.hostnames);
    let mut config = fakes::config();
    config.leased_ips = true;
    let plain = Arc::new(FakeCluster::default());
    let (provider, _) = full().config(config).cluster(plain).build().unwrap();
    let config = &provider.parts.config;
    assert!(!config.leased_ips && !config.hostnames);
}

#[test]
fn a_provider_leads_by_default() {
    let (provider, _) = full().build().unwrap();
    assert_eq!(provider.parts.leadership, Leadership::Leader { epoch: 0 });
    let (provider, _) = full().leadership(Leadership::Standby).build().unwrap();
    assert_eq!(provider.parts.leadership, Leadership::Standby);
}

#[tokio::test(start_paused = true)]
async fn a_provider_runs_and_stops_on_the_first_signal() {
    let (provider, handle) = full().build().unwrap();
    let shutdown = CancellationToken::new();
    let asking = async {
        handle.wait_ready().await.unwrap();
        assert_eq!(handle.status().await.lifecycle, Lifecycle::Running);
        shutdown.cancel();
    };
    let (ended, ()) = tokio::join!(provider.run(shutdown.clone()), asking);
    ended.unwrap();
    assert_eq!(handle.lifecycle(), Lifecycle::Done);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_returned_at_once_before_the_provider_runs() {
    let config = crate::config::Config {
        breaker_tripped: true,
        ..fakes::config()
    };
    let (provider, handle) = full().config(config).build().unwrap();
    let at_once = tokio::time::timeout(Duration::from_nanos(1), handle.status());
    let status = at_once
        .await
        .expect("the status is returned before the provider runs");
    assert_eq!(status.lifecycle, Lifecycle::Init);
    assert!(status.breaker.tripped, "the status of the build");
    assert!(handle.try_status().await.is_some());
    drop(provider);
    assert_eq!(handle.status().await.lifecycle, Lifecycle::Done);
}

#[tokio::test(start_paused = true)]
async fn each_status_request_is_counted_once() {
    let (provider, handle) = full().build().unwrap();
    let shutdown = CancellationToken::new();
    let asking = async {
        handle.wait_ready().await.unwrap();
        let before = handle.statistics().status_requests;
        for _ in 0..7 {
            handle.status().await;
        }
        assert_eq!(handle.statistics().status_requests - before, 7);
        shutdown.cancel();
    };
    let (ended, ()) = tokio::join!(provider.run(shutdown.clone()), asking);
    ended.unwrap();
}
