//! `dev`: the life cycle of leases in an embedded market.

use crate::args::DevArgs;
use crate::load::{self, OrderGenerator};
use crate::remedy::remedy;
use crate::{CapacityQueue, DeploymentResult, DevGateway, SimulatedTenant, TenantTotals, World, processes};
use akash_provider_cli::flags::Output;
use akash_provider_cli::plain::count;
use akash_provider_cli::sdl::read_sdl;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_service::backend::remove_leftovers;
use akash_provider_service::printer::{Printer, explanation_text};
use akash_provider_service::signals::on_signals;
use akash_provider_service::trial;
use anyhow::{Context, bail};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Number of the tenant account that deploys the SDL files.
const GIVEN: u32 = 0;
/// Maximum time to wait until closed leases are removed from the cluster.
const SETTLE: Duration = Duration::from_secs(20);

/// Runs the embedded market until it is stopped, or until all SDLs are finished.
///
/// # Errors
/// Returns an error if an SDL or a setting is invalid, or if the provider fails.
pub fn run(args: &DevArgs) -> anyhow::Result<ExitCode> {
    let sdls = sdls(args)?;
    if args.processes {
        processes::check(args, &sdls)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(live(args, sdls));
    // A thread that hangs in a call must not block the exit.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

fn sdls(args: &DevArgs) -> anyhow::Result<Vec<(String, Sdl)>> {
    if args.sdl.is_empty() && args.orders == 0 {
        let sample = if args.processes {
            processes::sample()?
        } else {
            sdl::parse(trial::SAMPLE).context("invalid built-in SDL")?
        };
        return Ok(vec![("sample".to_owned(), sample)]);
    }
    args.sdl
        .iter()
        .map(|path| Ok((name_of(path), read_sdl(path)?)))
        .collect()
}

/// Returns the name of an SDL file without the extension. If this name is `input`, returns the name of the
/// directory.
fn name_of(path: &Path) -> String {
    let part = |p: Option<&std::ffi::OsStr>| p.map(|s| s.to_string_lossy().into_owned());
    let stem = part(path.file_stem()).unwrap_or_default();
    let folder = part(path.parent().and_then(Path::file_name));
    if stem == "input" {
        folder.unwrap_or(stem)
    } else {
        stem
    }
}

async fn live(args: &DevArgs, sdls: Vec<(String, Sdl)>) -> anyhow::Result<ExitCode> {
    let printer = Arc::new(Printer::new(args.output));
    if let (Some(chain), Some(kubeconfig)) = (&args.remove_leftovers_of, &args.kubernetes.kubeconfig) {
        let removed = remove_leftovers(kubeconfig, &args.kubernetes, chain).await?;
        for line in &removed {
            printer.note(&format!("removed {line}"));
        }
        printer.note(&format!("removed {} of {chain}", count(removed.len(), "object")));
        return Ok(ExitCode::SUCCESS);
    }
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    // Installed first, so that Ctrl-C during the start causes an orderly shutdown.
    let signals = tokio::spawn(on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?);
    let world = World::start(args, &sdls, &printer, shutdown.clone(), abort).await?;
    let world = Arc::new(world);
    if printer.is_text() {
        let block = humantime::format_duration(args.block_time);
        printer.note(&format!(
            "provider {} on chain `{}`, a block every {block}",
            world.provider,
            world.chain.market(|m| m.chain_id().to_owned())
        ));
        printer.note("press Ctrl-C to shut down, twice to abort");
    }
    if let Some((are, notice)) = world.notice() {
        tell_workloads(&printer, are, notice);
    }
    let gateway = DevGateway::start(args, &world, &printer, shutdown.clone()).await?;
    let played = play(args, &sdls, &world, &printer, &shutdown).await?;
    let code = if args.once {
        finish(args, &sdls, &world, &printer, &played).await?
    } else {
        if !shutdown.is_cancelled() {
            summary(args, &printer, &played);
            printer.note("serving; press Ctrl-C to stop");
        } else if args.orders > 0 {
            totals(args, &printer, &played);
        }
        shutdown.cancelled().await;
        ExitCode::SUCCESS
    };
    shutdown.cancel();
    if let Some(gateway) = gateway {
        gateway.stop().await?;
    }
    let Ok(world) = Arc::try_unwrap(world) else {
        bail!("cannot stop the simulated chain, because a simulated tenant still uses it")
    };
    world.stop().await?;
    signals.abort();
    Ok(code)
}

/// Prints `notice`, which explains how workloads run. `are` is the kind of workload in the JSON event, such
/// as `simulated`.
fn tell_workloads(printer: &Printer, are: &str, notice: &str) {
    if printer.is_text() {
        printer.note(&format!("{notice}\n"));
    }
    printer.object(json!({ "event": "workloads", "are": are, "text": notice }));
}

async fn play(
    args: &DevArgs,
    sdls: &[(String, Sdl)],
    world: &Arc<World>,
    printer: &Arc<Printer>,
    shutdown: &CancellationToken,
) -> anyhow::Result<Vec<DeploymentResult>> {
    let mut playing = JoinSet::new();
    for (index, sdl) in sdls.iter().enumerate() {
        let tenant = SimulatedTenant::new(world, printer, GIVEN, index as u64 + 1, sdl.clone())?;
        playing.spawn(tenant.play(args.once));
    }
    let mut orders = OrderGenerator::new(args.seed);
    let pause = Duration::from_secs_f64(1.0 / args.rate);
    let mut next = tokio::time::Instant::now();
    let mut to_make = args.orders;
    let (mut outcomes, queue) = (Vec::new(), Arc::new(CapacityQueue::default()));
    while to_make > 0 || !playing.is_empty() {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep_until(next), if to_make > 0 => {
                let number = args.orders - to_make + 1;
                to_make -= 1;
                // The planned time is the base, so that a slow start does not lower the rate.
                next += pause;
                let tenant = SimulatedTenant::new(world, printer, number, 1, orders.make()?)?;
                // Generated tenants are not collected, so that memory stays constant in a long run.
                playing.spawn(tenant.with_queue(&queue).play(true));
            }
            Some(outcome) = playing.join_next(), if !playing.is_empty() => outcomes.push(outcome?),
        }
    }
    // Tenants that still run at a shutdown are aborted and release the market.
    playing.shutdown().await;
    for outcome in outcomes
        .iter_mut()
        .filter(|outcome: &&mut DeploymentResult| outcome.declined)
    {
        let given = sdls.iter().find(|(name, _)| *name == outcome.name);
        let groups = given.map(|(_, sdl)| sdl.groups.as_slice()).unwrap_or_default();
        outcome.remedy = outcome.reason.map(|reason| remedy(args, groups, reason));
    }
    // Tenants end in any order. Sorting makes the output of two runs comparable.
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(outcomes)
}

async fn finish(
    args: &DevArgs,
    sdls: &[(String, Sdl)],
    world: &Arc<World>,
    printer: &Printer,
    played: &[DeploymentResult],
) -> anyhow::Result<ExitCode> {
    let deadline = Instant::now() + SETTLE;
    let mut left = world.leftovers().await;
    // Objects of leases that were just closed are released with a delay.
    while !left.is_empty() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
        left = world.leftovers().await;
    }
    summary(args, printer, played);
    for outcome in played.iter().filter(|o| o.declined) {
        let Some((_, sdl)) = sdls.iter().find(|(name, _)| *name == outcome.name) else {
            continue;
        };
        for group in &sdl.groups {
            if let (Some(explanation), Output::Text) = (world.handle.explain(group).await?, args.output) {
                printer.note(&format!("\n{}, group {}, by node:", outcome.name, group.name));
                printer.note(explanation_text(&explanation).trim_end());
            }
        }
    }
    let expected = sdls.len() + args.orders as usize;
    let failed = played.iter().filter(|o| o.problem.is_some()).count();
    let missing = expected.saturating_sub(played.len());
    for line in &left {
        printer.note(&format!("left over: {line}"));
    }
    let good = left.is_empty() && failed == 0 && missing == 0;
    printer.object(json!({
        "event": "finished", "served": played.len() - failed, "failed": failed, "not_played": missing,
        "left_over": left, "ok": good,
    }));
    if printer.is_text() {
        let served = played.len() - failed;
        printer.note(&format!(
            "\n{served} of {expected} served, {} left over",
            left.len()
        ));
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns true for a generated tenant. Generated tenants are shown in the totals, but not as single lines.
fn is_generated(outcome: &DeploymentResult) -> bool {
    outcome.name.starts_with(load::PREFIX)
}

fn totals(args: &DevArgs, printer: &Printer, played: &[DeploymentResult]) {
    let totals =
        TenantTotals::from_outcomes(args.orders, played.iter().filter(|outcome| is_generated(outcome)));
    if printer.is_text() {
        printer.note(&format!("\n{}", totals.text()));
    }
    printer.object(totals.json());
}

fn summary(args: &DevArgs, printer: &Printer, played: &[DeploymentResult]) {
    if played.is_empty() {
        return;
    }
    if printer.is_text() && !played.iter().all(is_generated) {
        printer.note(&format!(
            "\n{:<22} {:>9} {:>9}  {}",
            "SDL", "to bid", "to run", "price per block, or reason"
        ));
    }
    let seconds =
        |d: Option<Duration>| d.map_or_else(|| "-".to_owned(), |d| format!("{:.2}s", d.as_secs_f64()));
    for outcome in played {
        let prices: Vec<String> = outcome.prices.iter().map(ToString::to_string).collect();
        let last = outcome.problem.clone().unwrap_or_else(|| prices.join(", "));
        let with_fix = |remedy: &String| format!("{last}; fix: {remedy}");
        let last = outcome.remedy.as_ref().map_or_else(|| last.clone(), with_fix);
        if printer.is_text() && !is_generated(outcome) {
            let (bid, run) = (seconds(outcome.to_bid), seconds(outcome.to_run));
            printer.note(&format!("{:<22} {bid:>9} {run:>9}  {last}", outcome.name));
        }
        let ms = |d: Option<Duration>| d.map(|d| d.as_millis() as u64);
        printer.object(json!({
            "event": "summary", "name": outcome.name, "to_bid_ms": ms(outcome.to_bid),
            "to_run_ms": ms(outcome.to_run), "prices": outcome.prices, "declined": outcome.declined,
            "problem": outcome.problem, "reason": outcome.reason, "waited_ms": ms(outcome.waited), "mend": outcome.remedy,
        }));
    }
    if args.orders > 0 {
        totals(args, printer, played);
    }
}
