//! The program is killed at random times and restarted, until all leases are deployed or closed.

use crate::daemon::{Daemon, Scratch};
use crate::fixture::{Stage, closed_by_tenants, eventually, number};
use crate::tenant::web;
use akash_provider_cli::flags::Output;
use akash_provider_core::cluster::Health;
use akash_provider_dev::{MarketFile, World};
use akash_provider_service::printer::Printer;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Maximum time between start and kill, in milliseconds.
const LONGEST_MS: u64 = 3_000;

#[test]
fn kills_at_any_time_do_not_change_the_result() {
    let Some(stage) = Stage::take() else { return };
    let kills = number("K8S_KILLS", 10);
    let seed = number("K8S_SEED", 1);
    let mut random = seed;
    let (mut killed, mut lives) = (0, 0);
    while killed < kills {
        lives += 1;
        let scratch = Scratch::new(&format!("life-{lives}"));
        let state = scratch.path("state");
        killed += kill_after_manifest(&stage, &scratch);
        loop {
            let mut daemon = Daemon::start(&stage, &scratch, &state, &["--once", "--block-time=500ms"]);
            if killed == kills {
                daemon.end();
                break;
            }
            let at = Instant::now() + Duration::from_millis(next(&mut random) % LONGEST_MS);
            while Instant::now() < at && daemon.has_ended().is_none() {
                sleep(Duration::from_millis(1));
            }
            if daemon.has_ended().is_some() {
                daemon.end();
                break;
            }
            daemon.kill();
            killed += 1;
        }
        assert_eq!(stage.labelled(), "", "namespaces that are left");
        let records = [
            "get",
            "manifests.akash.network",
            "--namespace=lease",
            "--output=name",
        ];
        assert_eq!(
            stage.testbed.kubectl(&records).unwrap(),
            "",
            "records that are left"
        );
        closed_by_tenants(&MarketFile::open(&state).unwrap().market().unwrap());
    }
    println!("killed {killed} times in {lives} leases, seed {seed}: no object of a lease remains");
}

/// Kills the program after the program has reported the manifest. Asserts that the next start deploys the
/// manifest.
fn kill_after_manifest(stage: &Stage, scratch: &Scratch) -> u64 {
    let state = scratch.path("state");
    let mut daemon = Daemon::start(stage, scratch, &state, &["--once", "--block-time=500ms"]);
    let began = Instant::now();
    while !daemon.output().contains(" manifest ") {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "no manifest:\n{}",
            daemon.output()
        );
        sleep(Duration::from_millis(1));
    }
    daemon.kill();
    // Without a tenant that could send the manifest again.
    let args = stage.args(&["--state", state.to_str().unwrap()]);
    let sdl = akash_provider_core::sdl::parse(&web("daemon")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (printer, shutdown) = (Arc::new(Printer::new(Output::Text)), CancellationToken::new());
        let sdls = [(String::new(), sdl)];
        let world = World::start(&args, &sdls, &printer, shutdown.clone(), CancellationToken::new()).await;
        let world = world.unwrap();
        let runs = || async { world.status().leases.iter().any(|l| l.health == Health::Good) };
        eventually("the accepted manifest runs", runs).await;
        shutdown.cancel();
        world.stop().await.unwrap();
    });
    1
}

/// Returns the next random number (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
