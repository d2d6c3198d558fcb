//! Measures fail-overs, and the resources of an instance with a thousand leases. Prints one JSON object per
//! line: `{"name", "value", "unit"}`. `cargo xtask bench ha` runs it with the release build.

use crate::ha_campaign::crowd::{Tenant, bids, send};
use crate::ha_campaign::{LargeNode, World, leads};
use crate::stage::{Running, until};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl;
use akash_provider_core::types::{Coin, DeploymentId};
use nix::sys::signal::Signal;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use testbed::{Testbed, Tier};

/// Number of concurrent manifest requests of the tenant.
const AT_ONCE: usize = 4;
/// Duration of the idle measurement in the full benchmark, in seconds.
const WHOLE: u64 = 60;
const TICKS: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(600);

/// Size of the measurement: large if `FIGURES_SECONDS` is set, otherwise small.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    leases: u64,
    takeovers: usize,
    /// Duration of the idle measurement.
    rest: Duration,
    lease: Duration,
}

impl Numbers {
    fn read() -> Self {
        let is_whole = std::env::var_os("FIGURES_SECONDS").is_some();
        let pick = |small, whole| if is_whole { whole } else { small };
        Self {
            leases: pick(3, 1_000),
            takeovers: if is_whole { 3 } else { 1 },
            rest: Duration::from_secs(pick(1, WHOLE)),
            // The larger value is the default election lease.
            lease: Duration::from_secs(pick(3, 12)),
        }
    }
}

fn print(name: &str, value: f64, unit: &str) {
    println!("{}", json!({"name": name, "value": value, "unit": unit}));
}

/// Returns the resident memory of a process, in MiB.
fn mib(one: &Running) -> f64 {
    let status = std::fs::read_to_string(one.about("status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn cpu_seconds(one: &Running) -> f64 {
    let stat = std::fs::read_to_string(one.about("stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|field| field.parse::<f64>().unwrap()).sum::<f64>() / TICKS
}

fn settled(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}: not reached within the limit");
        sleep(Duration::from_millis(100));
    }
}

fn is_ready(one: &Running) -> bool {
    one.output().contains("\"is_ready\":true")
}

fn leased(world: &World<'_>, tenant: &Tenant, leases: u64) {
    let ids: Vec<DeploymentId> = (1..=leases)
        .map(|dseq| {
            let sdl = sdl::parse(include_str!("../../samples/web.yaml")).unwrap();
            let id = DeploymentId::new(tenant.key.address().clone(), dseq);
            let created = tenant.chain.tenant(TenantMsg::CreateDeployment {
                id: id.clone(),
                groups: sdl.groups,
                hash: sdl.hash,
                deposit: Coin::new("uact", 5_000_000),
                reclamation_min_window: None,
            });
            created.unwrap();
            id
        })
        .collect();
    for id in &ids {
        settled("the order has a bid", || !bids(&tenant.chain, id).is_empty());
        let bid = bids(&tenant.chain, id).remove(0).id;
        tenant.chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
    }
    let next = AtomicU64::new(1);
    scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let dseq = next.fetch_add(1, Ordering::SeqCst);
                    if dseq > leases {
                        return;
                    }
                    settled("a gateway accepts the manifest", || {
                        (0..2).any(|who| send(tenant, who, dseq).is_ok())
                    });
                }
            });
        }
    });
    settled("all leases are deployed", || {
        world.deployed().len() as u64 == leases
    });
}

#[test]
fn figures_of_takeovers_and_of_leases() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let numbers = Numbers::read();
    let _node = LargeNode::new(&cluster);
    let mut world = World::new(&cluster, numbers.lease, false);
    let mut first = world.start(0, 0);
    until("one instance is the leader", || first.dump(), || leads(&first));
    let (mut stops, mut kills): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut standby_mib = 0.0f64;
    for turn in 0..numbers.takeovers * 2 {
        let who = 1 - turn % 2;
        let second = world.start(who, 0);
        second.says("this instance is a standby");
        sleep(numbers.rest.min(Duration::from_secs(3)));
        standby_mib = standby_mib.max(mib(&second));
        let begun = Instant::now();
        let took = if turn < numbers.takeovers {
            &mut kills
        } else {
            &mut stops
        };
        match turn < numbers.takeovers {
            true => first.kill(),
            false => first.signal(Signal::SIGTERM),
        }
        until(
            "the other instance is the leader",
            || second.dump(),
            || leads(&second),
        );
        took.push(begun.elapsed().as_secs_f64());
        first.ended().unwrap_or_default();
        first = second;
    }
    print("takeover_kill_s", kills.into_iter().fold(0.0, f64::max), "s");
    print("takeover_stop_s", stops.into_iter().fold(0.0, f64::max), "s");
    print("standby_idle_mib", standby_mib, "MiB");
    leased(&world, &world.tenant(), numbers.leases);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.ended(), Some(0), "{}", first.dump());
    let begun = Instant::now();
    let again = world.start(0, 0);
    settled("the restarted instance is ready", || is_ready(&again));
    print(
        "start_ready_1000_leases_ms",
        begun.elapsed().as_secs_f64() * 1e3,
        "ms",
    );
    // By then, the work of the start is done.
    sleep(numbers.rest / 2);
    let before = cpu_seconds(&again);
    sleep(numbers.rest);
    let percent = (cpu_seconds(&again) - before) / numbers.rest.as_secs_f64() * 100.0;
    print("cpu_idle_1000_leases_percent", percent, "% of a core");
    print("rss_1000_leases_mib", mib(&again), "MiB");
    assert!(leads(&again), "{}", again.dump());
}
