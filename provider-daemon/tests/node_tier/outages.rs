//! Parts of the cluster die while leases come, change and go.

use crate::corner::{Corner, get, outage, run};
use crate::tenant::{Leased, Tenant, web};
use akash_provider_core::cluster::Health;
use akash_provider_core::engine::RefusalKind;
use akash_provider_core::manifest::Manifest;
use futures::FutureExt;
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
            all.push(node(corner, Component::Kubelet, 30, &watched).await);
            all.push(node(corner, Component::Containerd, 40, &watched).await);
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

/// A part that is away. A test that fails meanwhile brings it back: others come after it.
struct Away<'a> {
    testbed: &'a Cluster,
    part: Option<Component>,
}

impl<'a> Away<'a> {
    /// A part stops: etcd in its tracks, all others as in a crash.
    fn begin(corner: &'a Corner, part: Component) -> Self {
        let testbed = &corner.testbed;
        block_in_place(|| match part {
            Component::Etcd => testbed.pause(part),
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
                Component::Etcd => self.testbed.resume(part),
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
