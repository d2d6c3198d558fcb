//! `cargo xtask campaign fuzz`: fuzzes the gateway, guided by coverage if possible.
//!
//! The targets are programs of `provider-daemon/gateway/fuzz`. They are built with the flags of `cargo fuzz`,
//! so that `cargo fuzz` need not be installed. They are built without a sanitizer, so that the pinned
//! toolchain suffices. A sanitizer would only check unsafe blocks, and the code has none.

use anyhow::{Context, Result, anyhow};
use std::path::Path;
use std::time::Duration;

use crate::error::from_findings;
use crate::process::Process;
use crate::workspace::{Workspace, entries};

/// Default duration per target, in seconds; overridden by `FUZZ_SECONDS`.
const SECONDS: u64 = 600;
/// Time limit per input, in seconds.
const SECONDS_FOR_ONE: u64 = 10;
/// Maximum length of an input, in bytes.
const BYTES_MAX: u64 = 64 * 1024;
/// Memory limit, in MiB.
const MIB_MAX: u64 = 2048;
/// Compiler flags for libFuzzer's coverage counters and traced comparisons.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";
/// Folder of the crate with the fuzz targets.
const CRATE: &str = "provider-daemon/gateway/fuzz";

/// Runs each target for ten minutes or `FUZZ_SECONDS`, on all cores. If the fuzz programs cannot be built,
/// mutates inputs randomly.
pub(crate) fn run(workspace: &Workspace, seed: u64) -> Result<()> {
    let seconds = seconds()?;
    match build(workspace) {
        Ok(programs) => guided(workspace, &programs, seconds, seed),
        Err(error) => {
            eprintln!("skipped: coverage-guided fuzzing ({error:#}); inputs are mutated randomly");
            seeded(workspace, seconds, seed)
        }
    }
}

fn seconds() -> Result<u64> {
    let Ok(given) = std::env::var("FUZZ_SECONDS") else {
        return Ok(SECONDS);
    };
    let wrong = |error| {
        anyhow!("invalid FUZZ_SECONDS `{given}`: {error}; expected a number of seconds, for example 600")
    };
    given.parse().map_err(wrong)
}

type Program = (String, std::path::PathBuf);

fn build(workspace: &Workspace) -> Result<Vec<Program>> {
    let host = host(workspace)?;
    let target = workspace.target.join("fuzz");
    let manifest = workspace.root.join(CRATE).join("Cargo.toml");
    // With `--target`, the flags do not apply to build scripts.
    workspace
        .cargo(&["build", "--locked", "--release", "--target", &host])
        .args([
            Path::new("--manifest-path"),
            &manifest,
            Path::new("--target-dir"),
            &target,
        ])
        .env("RUSTFLAGS", FLAGS)
        .run()?;
    let folder = target.join(host).join("release");
    let names = targets(workspace)?;
    Ok(names
        .into_iter()
        .map(|name| (name.clone(), folder.join(name)))
        .collect())
}

fn host(workspace: &Workspace) -> Result<String> {
    let lines = Process::new("rustc", &workspace.root)
        .args(["-vV"])
        .quiet()
        .lines()?;
    let host = lines.iter().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .context("cannot read the host from `rustc -vV`")
}

/// Returns the names of the fuzz targets, which are the names of the corpus folders.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root.join(CRATE).join("corpus");
    let name = |path: std::path::PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    Ok(entries(&folder)?.into_iter().filter_map(name).collect())
}

fn guided(workspace: &Workspace, programs: &[Program], seconds: u64, seed: u64) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failures = Vec::new();
    for together in programs.chunks(cores) {
        let outcomes = std::thread::scope(|scope| {
            let running: Vec<_> = together
                .iter()
                .map(|program| scope.spawn(move || run_target(workspace, program, seconds, seed)))
                .collect();
            let joined = running.into_iter().map(|one| {
                let gone = |_| Err(anyhow!("a thread panicked"));
                one.join().unwrap_or_else(gone)
            });
            joined.collect::<Vec<_>>()
        });
        let failed = outcomes.into_iter().filter_map(Result::err);
        failures.extend(failed.map(|error| format!("{error:#}")));
    }
    from_findings("targets with a failure", &failures)
}

/// Runs a target. Stores new inputs and failures below `target`.
fn run_target(workspace: &Workspace, (name, program): &Program, seconds: u64, seed: u64) -> Result<()> {
    let found = workspace.scratch(&format!("fuzz/corpus/{name}"))?;
    let broken = workspace.scratch(&format!("fuzz/broken/{name}"))?;
    let corpus = workspace.root.join(CRATE).join("corpus").join(name);
    let flags = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={SECONDS_FOR_ONE}"),
        format!("-max_len={BYTES_MAX}"),
        format!("-rss_limit_mb={MIB_MAX}"),
        // libFuzzer accepts 32-bit seeds.
        format!("-seed={}", seed & u64::from(u32::MAX)),
        format!("-artifact_prefix={}/", broken.display()),
        "-print_final_stats=1".to_owned(),
    ];
    let limit = Duration::from_secs(seconds.saturating_mul(2));
    Process::new(program, &workspace.root)
        .args(flags)
        .args([found, corpus])
        .limit(limit)
        .run()
}

/// Runs the test `fuzz` for this duration. A release build tries more inputs.
fn seeded(workspace: &Workspace, seconds: u64, seed: u64) -> Result<()> {
    let tests = workspace
        .cargo(&["test", "--locked", "--release", "-p", "akash-provider-gateway"])
        .args(["--features", "fuzzing", "--test", "fuzz", "--no-fail-fast"])
        .args(["--", "--nocapture"])
        .env("FUZZ_SECONDS", seconds.to_string())
        .env("FUZZ_SEED", seed.to_string());
    tests.follow().map(drop)
}
