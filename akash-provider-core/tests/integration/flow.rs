//! One order from creation to close on memory backends, and short scenarios in which the flow is interrupted.
//!
//! The clock is paused: the time advances when all tasks wait, so simulated minutes take no time.

#![cfg(feature = "runtime")]
#![expect(
    clippy::disallowed_methods,
    reason = "a failed test panics with the reason; the provider runs as a task of the test"
)]

mod world;

use akash_provider_core::ErrorKind;
use akash_provider_core::cluster::{Health, Operation, Outage};
use akash_provider_core::engine::{OrderPhase, RefusalKind};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{BidState, Event};
use world::{World, with_greeting};

/// Events that the bus must publish, in this order.
const MILESTONES: [&str; 9] = [
    "order_seen",
    "bid_placed",
    "lease_won",
    "manifest_received",
    "deployed",
    "manifest_refused",
    "manifest_received",
    "deployed",
    "lease_closed",
];

#[tokio::test(start_paused = true)]
async fn order_from_bid_to_release() {
    let world = World::new();
    let (tenant, lease) = (world.tenant("web.example.com"), world.lease(1));
    world.cluster.set_start_ticks(1);
    let facts = world.subscribe().await;
    let provider = world.start().await;

    // A tenant orders a web server. The provider reserves capacity and bids.
    world.act(tenant.create());
    let status = provider
        .until("a bid", |s| s.orders.iter().any(|o| o.phase == OrderPhase::Open))
        .await;
    assert_eq!(status.inventory.pending.len(), 1);
    assert_eq!(world.bid(&lease).state, BidState::Open);

    // The tenant takes the bid. No workload runs before the manifest arrives.
    world.act(TenantMsg::CreateLease { bid: lease.clone() });
    let status = provider.until("the lease", |s| s.leases.len() == 1).await;
    assert_eq!(
        (status.inventory.active.len(), status.inventory.pending.len()),
        (1, 0)
    );
    assert!(world.cluster.contents().is_empty());

    // The reply to the submission confirms that the manifest is durable. The deploy follows, then health.
    tenant.submit(&provider).await.unwrap();
    assert!(world.cluster.contents().recorded.contains_key(&lease));
    let status = provider
        .until("the deployment", |s| s.leases[0].generation == Some(1))
        .await;
    assert_eq!(status.leases[0].health, Health::Out(Outage::Starting));
    world.cluster.tick();
    provider
        .until("health", |s| s.leases[0].health == Health::Good)
        .await;
    let contents = world.cluster.contents();
    assert_eq!(contents.hostnames.get("web.example.com"), Some(&lease));

    // The tenant changes the greeting: first on the chain, then with the manifest.
    let tenant = with_greeting(tenant, "bonjour");
    let refused = tenant.submit(&provider).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::VersionMismatch);
    world.act(tenant.update());
    provider.pass(1).await;
    tenant.submit(&provider).await.unwrap();
    provider
        .until("the update", |s| s.leases[0].generation == Some(2))
        .await;
    let env = world.cluster.contents().running[&lease].group.services[0]
        .env
        .clone();
    assert_eq!(env, Some(vec!["GREETING=bonjour".to_owned()]));
    world.cluster.tick();
    provider
        .until("health", |s| s.leases[0].health == Health::Good)
        .await;

    // The tenant closes the deployment. No state remains, and the usage is paid.
    let before = world.balance();
    world.act(tenant.close());
    let status = provider.until("the end", |s| s.leases.is_empty()).await;
    assert!(world.cluster.contents().is_empty());
    assert!(status.inventory.active.is_empty() && status.hostnames.is_empty());
    assert!(world.balance() >= before, "{} < {before}", world.balance());
    assert_eq!(status.unexpected_inputs, 0);
    provider.stop().await;

    assert_eq!(facts.milestones().await, MILESTONES);
}

#[tokio::test(start_paused = true)]
async fn open_bid_survives_shutdown_and_is_adopted_at_next_start() {
    let world = World::new();
    let (tenant, lease) = (world.tenant("web.example.com"), world.lease(1));
    let provider = world.start().await;
    world.act(tenant.create());
    provider
        .until("a bid", |s| s.orders.iter().any(|o| o.phase == OrderPhase::Open))
        .await;
    provider.stop().await;
    assert_eq!(world.bid(&lease).state, BidState::Open);

    let facts = world.subscribe().await;
    let provider = world.start().await;
    let status = provider
        .until("the bid again", |s| {
            s.orders.iter().any(|o| o.phase == OrderPhase::Open)
        })
        .await;
    assert_eq!(
        status.inventory.pending.len(),
        1,
        "the capacity is reserved again"
    );
    world.act(TenantMsg::CreateLease { bid: lease.clone() });
    provider.until("the lease", |s| s.leases.len() == 1).await;
    tenant.submit(&provider).await.unwrap();
    provider
        .until("health", |s| s.leases[0].health == Health::Good)
        .await;
    provider.stop().await;
    assert!(
        world.cluster.contents().running.contains_key(&lease),
        "a shutdown deletes no workload"
    );
    let names = facts.names().await;
    assert!(
        names.contains(&"bid_adopted".to_owned()) && !names.contains(&"bid_placed".to_owned()),
        "{names:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn workload_survives_shutdown_and_is_adopted_at_next_start() {
    let world = World::new();
    let (provider, tenant) = world.leased().await;
    let lease = world.lease(1);
    tenant.submit(&provider).await.unwrap();
    provider
        .until("health", |s| s.leases[0].health == Health::Good)
        .await;
    provider.stop().await;
    let before = world.cluster.contents();

    let provider = world.start().await;
    let status = provider
        .until("the lease", |s| s.leases.iter().any(|l| l.health == Health::Good))
        .await;
    assert_eq!(status.hostnames.get("web.example.com"), Some(&lease));
    assert_eq!(status.inventory.active.len(), 1);
    provider.pass(5).await;
    assert_eq!(world.cluster.contents(), before);
    provider.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unavailable_cluster_leaves_no_partial_state() {
    let world = World::new();
    let (provider, tenant) = world.leased().await;
    world
        .cluster
        .fail_next(Operation::Record, u32::MAX, ErrorKind::Unavailable);
    let refused = tenant.submit(&provider).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable);
    let status = provider.handle.status().await;
    assert_eq!(status.deployments[0].manifest, None);
    assert!(status.hostnames.is_empty(), "the hostname is free");
    assert!(world.cluster.contents().is_empty());
    assert_eq!(status.leases[0].generation, None);

    world.cluster.restore(Operation::Record);
    tenant.submit(&provider).await.unwrap();
    provider
        .until("health", |s| s.leases[0].health == Health::Good)
        .await;
    provider.stop().await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_manifests_are_accepted_and_deployed_in_order() {
    let world = World::new();
    let (provider, tenant) = world.leased().await;
    let other = with_greeting(tenant.clone(), "bonjour");
    let answers = tokio::join!(
        tenant.submit(&provider),
        other.submit(&provider),
        tenant.submit(&provider)
    );
    assert_eq!(answers.0, Ok(()));
    assert_eq!(answers.1.unwrap_err().kind, RefusalKind::VersionMismatch);
    assert_eq!(answers.2, Ok(()), "repeating the manifest succeeds");
    provider
        .until("health", |s| s.leases[0].health == Health::Good)
        .await;
    let lease = world.lease(1);
    assert_eq!(
        world.cluster.contents().running[&lease].group.services[0].env,
        tenant.env()
    );
    assert_eq!(
        world.cluster.calls(&lease).overlaps,
        0,
        "one call per lease at a time"
    );
    provider.stop().await;
}

#[tokio::test(start_paused = true)]
async fn manifest_without_lease_is_refused() {
    let world = World::new();
    let (provider, tenant) = world.leased().await;
    // One deployment that another provider won, and one that does not exist.
    let theirs = world.other_tenant("shop.example.com");
    world.act(theirs.create());
    world.let_other_provider_win(&theirs);
    provider.pass(3).await;
    let nobodys = world.tenant("web.example.com").numbered(7);
    for stranger in [&theirs, &nobodys] {
        let refused = stranger.submit(&provider).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NoLease, "{refused}");
    }
    assert!(world.cluster.contents().is_empty());
    tenant.submit(&provider).await.unwrap();
    provider
        .until("health", |s| s.leases[0].health == Health::Good)
        .await;
    assert_eq!(world.cluster.contents().recorded.len(), 1);
    provider.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lease_without_manifest_ends_after_deadline() {
    let world = World::new();
    let facts = world.subscribe().await;
    let (provider, _) = world.leased().await;
    let status = provider.until("the end", |s| s.leases.is_empty()).await;
    assert!(status.inventory.active.is_empty());
    provider.stop().await;
    let ending = |fact: &Event| matches!(fact, Event::LeaseEnding { .. });
    assert!(facts.all().await.iter().any(|fact| ending(fact)));
}
