//! Parts of the cluster die while leases come, change and go.

use crate::corner::{Corner, eventually, get, outage, run, run_with};
use crate::tenant::{Leased, Tenant, web};
use akash_provider_core::cluster::{Health, Outage};
use akash_provider_core::engine::RefusalKind;
use akash_provider_core::manifest::Manifest;
use futures::FutureExt;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testbed::{Cluster, Component};
use tokio::task::block_in_place;
use tokio::time::sleep;

/// A tenant is answered within it, whatever is down: the time of one call (4 s), and what a busy machine adds.
const ANSWER: Duration = Duration::from_secs(15);
/// The node is believed to be well for longer.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn parts_die_and_no_lease_is_lost() {
    run(&[&web("all")], |corner| {
        async move {
            let watched = Tenant::new(corner, 1, &web("watched")).run().await;
            let mut all = control_plane(corner, Component::ApiServer, 10, &watched).await;
            all.extend(control_plane(corner, Component::Etcd, 20, &watched).await);
            all.push(node(corner, Component::Containerd, 30, &watched).await);
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

/// In the campaign the kubelet is away for ten times the limit.
#[test]
fn a_paused_kubelet_ends_no_lease() {
    run_with(&["--unhealthy-limit=60s"], &[&web("all")], |corner| {
        async move {
            let watched = Tenant::new(corner, 1, &web("watched")).run();
            let failing = Tenant::new(corner, 2, &failing()).lease();
            let (watched, failing) = tokio::join!(watched, failing);
            failing.send().await.unwrap();
            eventually("the clock runs", || async {
                failing.unhealthy() > Duration::from_secs(1)
            })
            .await;
            let stopped = while_paused(corner, &watched, &failing).await;
            watched.runs().await;
            eventually("the clock goes on", || async { failing.unhealthy() > stopped }).await;
            watched.close();
            failing.close();
            tokio::join!(watched.gone(), failing.gone());
        }
        .boxed()
    });
}

/// Returns the unhealthy time at which the clock of the failing lease stands still.
async fn while_paused(corner: &Corner, watched: &Leased<'_>, failing: &Leased<'_>) -> Duration {
    const AWAY: Option<Health> = Some(Health::Out(Outage::NodeAway));
    let away = Away::begin(corner, Component::Kubelet);
    let (began, mut reasons) = (Instant::now(), BTreeSet::new());
    eventually("the clock stops", || async { failing.health() == AWAY }).await;
    let (stopped, took) = (failing.unhealthy(), began.elapsed());
    answers(watched);
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

/// A part that is away. A test that fails meanwhile brings it back: others come after it.
struct Away<'a> {
    testbed: &'a Cluster,
    part: Option<Component>,
}

impl<'a> Away<'a> {
    /// A part stops: etcd and the kubelet are paused, all others are killed.
    fn begin(corner: &'a Corner, part: Component) -> Self {
        let testbed = &corner.testbed;
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
        self.mend().unwrap();
    }

    fn mend(&mut self) -> testbed::Result<()> {
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

impl Drop for Away<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.mend() {
            println!("{error}");
        }
    }
}

/// One lease runs, one is deployed, one updated and one closed when it happens, and one tenant comes meanwhile.
async fn control_plane<'a>(
    corner: &'a Corner,
    part: Component,
    number: u32,
    watched: &Leased<'_>,
) -> Vec<Leased<'a>> {
    let tenant = |n: u32| Tenant::new(corner, number + n, &web("first"));
    let (mut updated, closed) = tokio::join!(tenant(1).run(), tenant(2).run());
    let (deployed, late) = tokio::join!(tenant(3).lease(), tenant(4).lease());
    second(&mut updated.manifest);
    updated.tell_chain();
    let (first, second) = tokio::join!(deployed.send(), updated.send());
    first.unwrap();
    second.unwrap();
    closed.close();
    let away = Away::begin(corner, part);
    let began = Instant::now();
    refused(&late, began).await;
    answers(watched);
    while began.elapsed() < outage() {
        assert_ne!(watched.health(), Some(Health::Bad), "unknown is not bad");
        sleep(Duration::from_millis(200)).await;
    }
    away.end();
    let down = began.elapsed();
    if part == Component::ApiServer {
        let kept = [late.records(), late.namespaces()];
        assert_eq!(kept, ["", ""], "of a manifest that was refused");
    }
    tokio::join!(watched.runs(), updated.runs(), deployed.runs(), closed.gone());
    println!(
        "{part} away for {:.1}s: settled {:.1}s after it",
        down.as_secs_f64(),
        (began.elapsed() - down).as_secs_f64()
    );
    late.send().await.unwrap();
    late.runs().await;
    vec![updated, deployed, late]
}

/// One lease runs when it happens, and one is deployed meanwhile.
async fn node<'a>(corner: &'a Corner, part: Component, number: u32, watched: &Leased<'_>) -> Leased<'a> {
    let meanwhile = Tenant::new(corner, number, &web("meanwhile")).lease().await;
    let away = Away::begin(corner, part);
    meanwhile.send().await.unwrap();
    answers(watched);
    let began = Instant::now();
    while began.elapsed() < outage() {
        let health = watched.health();
        assert_ne!(
            health,
            Some(Health::Bad),
            "a node that is away is not the tenant's failure"
        );
        sleep(Duration::from_millis(200)).await;
    }
    away.end();
    watched.runs().await;
    meanwhile.runs().await;
    answers(watched);
    println!("{part} away for {}s: both leases run", outage().as_secs());
    meanwhile
}

/// While the cluster cannot keep a manifest, it is refused, soon, and as something to try again.
async fn refused(late: &Leased<'_>, began: Instant) {
    let refusal = late.send().await.unwrap_err();
    let took = began.elapsed();
    println!("refused after {:.2}s: {}", took.as_secs_f64(), refusal.message);
    assert_eq!(refusal.kind, RefusalKind::Unavailable, "{refusal:?}");
    assert!(took < ANSWER, "{took:?}");
}

fn second(manifest: &mut Manifest) {
    let services = manifest.groups.iter_mut().flat_map(|g| &mut g.services);
    for service in services {
        service.env.get_or_insert_default().push("SECOND=1".to_owned());
    }
}

/// Its pods serve whoever asks, also when nobody looks after them.
fn answers(watched: &Leased<'_>) {
    let began = Instant::now();
    let address = &watched.address;
    let mut said = block_in_place(|| get(address, 80));
    while said.is_err() && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(100));
        said = block_in_place(|| get(address, 80));
    }
    assert!(said.is_ok(), "{address}: {said:?}");
}
