//! Components of the cluster fail while leases are created, updated and closed.

use crate::fixture::{MarketFixture, eventually, get, outage, run, run_with};
use crate::tenant::{Tenant, TenantLease, web};
use akash_provider_core::cluster::{Health, Outage};
use akash_provider_core::engine::RefusalKind;
use akash_provider_core::manifest::Manifest;
use futures::FutureExt;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testbed::{Component, Testbed};
use tokio::task::block_in_place;
use tokio::time::sleep;

/// Maximum response time for a tenant during an outage.
const ANSWER: Duration = Duration::from_secs(15);
/// Maximum response time of a pod during an outage.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn stopped_components_lose_no_lease() {
    run(&[&web("all")], |fixture| {
        async move {
            let watched = Tenant::new(fixture, 1, &web("watched")).run().await;
            let mut all = control_plane(fixture, Component::ApiServer, 10, &watched).await;
            all.extend(control_plane(fixture, Component::Etcd, 20, &watched).await);
            all.push(node(fixture, Component::Containerd, 30, &watched).await);
            all.push(watched);
            for lease in &all {
                lease.close();
            }
            for lease in &all {
                lease.gone().await;
            }
        }
        .boxed()
    });
}

/// A tenant's program that exits at once.
fn failing() -> String {
    web("failing").replace("mkdir -p /www;", "exit 1;")
}

/// In the campaign `kubelet`, the pause is ten times the unhealthy limit.
#[test]
fn paused_kubelet_ends_no_lease() {
    run_with(&["--unhealthy-limit=60s"], &[&web("all")], |fixture| {
        async move {
            let watched = Tenant::new(fixture, 1, &web("watched")).run();
            let failing = Tenant::new(fixture, 2, &failing()).lease();
            let (watched, failing) = tokio::join!(watched, failing);
            failing.send().await.unwrap();
            eventually("the unhealthy time increases", || async {
                failing.unhealthy() > Duration::from_secs(1)
            })
            .await;
            let stopped = while_paused(fixture, &watched, &failing).await;
            watched.runs().await;
            eventually("the unhealthy time increases again", || async {
                failing.unhealthy() > stopped
            })
            .await;
            watched.close();
            failing.close();
            tokio::join!(watched.gone(), failing.gone());
        }
        .boxed()
    });
}

/// Pauses the kubelet. Asserts that the unhealthy time of the failing lease stops increasing, and returns
/// this time.
async fn while_paused(
    fixture: &MarketFixture,
    watched: &TenantLease<'_>,
    failing: &TenantLease<'_>,
) -> Duration {
    const AWAY: Option<Health> = Some(Health::Out(Outage::NodeAway));
    let away = StoppedComponent::begin(fixture, Component::Kubelet);
    let (began, mut reasons) = (Instant::now(), BTreeSet::new());
    eventually("the unhealthy time stops increasing", || async {
        failing.health() == AWAY
    })
    .await;
    let (stopped, took) = (failing.unhealthy(), began.elapsed());
    assert_served(watched);
    while began.elapsed() < outage() {
        for lease in [watched, failing] {
            let health = lease.health().unwrap();
            assert!(!health.is_counted(), "a silent node is not the tenant's failure");
            reasons.insert(health.name());
        }
        assert_eq!(failing.unhealthy(), stopped);
        sleep(Duration::from_millis(200)).await;
    }
    away.end();
    println!(
        "kubelet paused for {}s: the clock stood still at {stopped:.1?}, {took:.1?} after the pause; health: {reasons:?}",
        outage().as_secs()
    );
    stopped
}

/// Stopped component, restored for the next test when the value is dropped.
struct StoppedComponent<'a> {
    testbed: &'a Testbed,
    part: Option<Component>,
}

impl<'a> StoppedComponent<'a> {
    /// Suspends etcd or the kubelet, or kills any other component.
    fn begin(fixture: &'a MarketFixture, part: Component) -> Self {
        let testbed = &fixture.testbed;
        block_in_place(|| match part {
            Component::Etcd | Component::Kubelet => testbed.pause(part),
            _ => testbed.kill(part),
        })
        .unwrap();
        Self {
            testbed,
            part: Some(part),
        }
    }

    fn end(mut self) {
        self.restore().unwrap();
    }

    fn restore(&mut self) -> testbed::Result<()> {
        let Some(part) = self.part.take() else {
            return Ok(());
        };
        block_in_place(|| {
            match part {
                Component::Etcd | Component::Kubelet => self.testbed.resume(part),
                _ => self.testbed.start(part),
            }?;
            match part {
                Component::Etcd | Component::ApiServer => self.testbed.restart_controllers(),
                _ => Ok(()),
            }
        })
    }
}

impl Drop for StoppedComponent<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            println!("{error}");
        }
    }
}

/// Stops a control plane component while leases are deployed, updated and closed. Asserts that a new manifest
/// is accepted only after the outage.
async fn control_plane<'a>(
    fixture: &'a MarketFixture,
    part: Component,
    number: u32,
    watched: &TenantLease<'_>,
) -> Vec<TenantLease<'a>> {
    let tenant = |n: u32| Tenant::new(fixture, number + n, &web("first"));
    let (mut updated, closed) = tokio::join!(tenant(1).run(), tenant(2).run());
    let (deployed, late) = tokio::join!(tenant(3).lease(), tenant(4).lease());
    second(&mut updated.manifest);
    updated.update_chain();
    let (first, second) = tokio::join!(deployed.send(), updated.send());
    first.unwrap();
    second.unwrap();
    closed.close();
    let away = StoppedComponent::begin(fixture, part);
    let began = Instant::now();
    refused(&late, began).await;
    assert_served(watched);
    while began.elapsed() < outage() {
        assert_ne!(
            watched.health(),
            Some(Health::Bad),
            "unknown health must not count as unhealthy"
        );
        sleep(Duration::from_millis(200)).await;
    }
    away.end();
    let down = began.elapsed();
    if part == Component::ApiServer {
        let objects = [late.records(), late.namespaces()];
        assert_eq!(objects, ["", ""], "objects of a refused manifest");
    }
    tokio::join!(watched.runs(), updated.runs(), deployed.runs(), closed.gone());
    println!(
        "{part} stopped for {:.1} s: all work was done {:.1} s later",
        down.as_secs_f64(),
        (began.elapsed() - down).as_secs_f64()
    );
    late.send().await.unwrap();
    late.runs().await;
    vec![updated, deployed, late]
}

/// Stops a node component while one lease runs and another is being deployed.
async fn node<'a>(
    fixture: &'a MarketFixture,
    part: Component,
    number: u32,
    watched: &TenantLease<'_>,
) -> TenantLease<'a> {
    let meanwhile = Tenant::new(fixture, number, &web("meanwhile")).lease().await;
    let away = StoppedComponent::begin(fixture, part);
    meanwhile.send().await.unwrap();
    assert_served(watched);
    let began = Instant::now();
    while began.elapsed() < outage() {
        let health = watched.health();
        assert_ne!(
            health,
            Some(Health::Bad),
            "a silent node is not the tenant's failure"
        );
        sleep(Duration::from_millis(200)).await;
    }
    away.end();
    watched.runs().await;
    meanwhile.runs().await;
    assert_served(watched);
    println!("{part} stopped for {}s: both leases run", outage().as_secs());
    meanwhile
}

/// Asserts that a manifest is refused within `ANSWER` with a temporary error.
async fn refused(late: &TenantLease<'_>, began: Instant) {
    let refusal = late.send().await.unwrap_err();
    let took = began.elapsed();
    println!(
        "the manifest was refused after {:.2} s: {}",
        took.as_secs_f64(),
        refusal.message
    );
    assert_eq!(refusal.kind, RefusalKind::Unavailable, "{refusal:?}");
    assert!(took < ANSWER, "{took:?}");
}

fn second(manifest: &mut Manifest) {
    let services = manifest.groups.iter_mut().flat_map(|g| &mut g.services);
    for service in services {
        service.env.get_or_insert_default().push("SECOND=1".to_owned());
    }
}

fn assert_served(watched: &TenantLease<'_>) {
    let began = Instant::now();
    let address = &watched.address;
    let mut body = block_in_place(|| get(address, 80));
    while body.is_err() && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(100));
        body = block_in_place(|| get(address, 80));
    }
    assert!(body.is_ok(), "{address}: {body:?}");
}
