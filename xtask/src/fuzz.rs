//! `cargo xtask campaign fuzz`: what strangers send the gateway, guided by coverage where that can be had.
//!
//! The targets are programs of `provider-daemon/gateway/fuzz`. They are built with the flags that `cargo fuzz` gives, so that
//! nothing has to be installed, and without a sanitizer, so that the pinned toolchain does: there is no unsafe code
//! here that one would watch.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::process::Process;
use crate::workspace::Workspace;

/// Seconds for each target, where `FUZZ_SECONDS` does not say it.
const SECONDS: u64 = 600;
/// More than that, and it hangs: reading the largest input takes milliseconds.
const SECONDS_FOR_ONE: u64 = 10;
/// Longest input: larger ones are cut by limits before anything reads them.
const BYTES_MAX: u64 = 64 * 1024;
/// Memory that no input of that length explains.
const MIB_MAX: u64 = 2048;
/// Coverage in counters, with comparisons, as libFuzzer reads it.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";
/// Where the crate lies.
const CRATE: &str = "provider-daemon/gateway/fuzz";

/// Ten minutes, or `FUZZ_SECONDS`, for each target, as many side by side as there are cores; without coverage where the programs cannot
/// be built, and a word about why.
pub(crate) fn run(workspace: &Workspace, seed: u64) -> Result<()> {
    let seconds = seconds()?;
    match build(workspace) {
        Ok(programs) => guided(workspace, &programs, seconds, seed),
        Err(error) => {
            eprintln!("skipped: fuzzing guided by coverage: {error}; inputs are changed at random instead");
            seeded(workspace, seconds, seed)
        }
    }
}

fn seconds() -> Result<u64> {
    let Ok(given) = std::env::var("FUZZ_SECONDS") else {
        return Ok(SECONDS);
    };
    let wrong = |error| Error::new(format!("FUZZ_SECONDS=`{given}`: {error}; write it as 600"));
    given.parse().map_err(wrong)
}

/// A target and its program.
type Program = (String, std::path::PathBuf);

fn build(workspace: &Workspace) -> Result<Vec<Program>> {
    let host = host(workspace)?;
    let target = workspace.target.join("fuzz");
    let manifest = workspace.root.join(CRATE).join("Cargo.toml");
    // With a target, the flags are for the programs alone and not for what runs while they are built.
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
    let said = Process::new("rustc", &workspace.root)
        .args(["-vV"])
        .quiet()
        .lines()?;
    let host = said.iter().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| Error::new("rustc names no host".to_owned()))
}

/// The names of the corpora, one for each target.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root.join(CRATE).join("corpus");
    let unreadable = |error| Error::new(format!("{}: {error}", folder.display()));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
        names.push(
            entry
                .map_err(unreadable)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    Ok(names)
}

fn guided(workspace: &Workspace, programs: &[Program], seconds: u64, seed: u64) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failures = Vec::new();
    for together in programs.chunks(cores) {
        let outcomes = std::thread::scope(|scope| {
            let running: Vec<_> = together
                .iter()
                .map(|program| scope.spawn(move || tried(workspace, program, seconds, seed)))
                .collect();
            let joined = running.into_iter().map(|one| {
                let gone = |_| Err(Error::new("a thread ended badly".to_owned()));
                one.join().unwrap_or_else(gone)
            });
            joined.collect::<Vec<_>>()
        });
        let failed = outcomes.into_iter().filter_map(Result::err);
        failures.extend(failed.map(|error| error.to_string()));
    }
    Error::from_findings("targets that broke a rule", &failures)
}

/// Runs a target. What it finds on its way is kept below `target`, and what breaks a rule too.
fn tried(workspace: &Workspace, (name, program): &Program, seconds: u64, seed: u64) -> Result<()> {
    let found = workspace.scratch(&format!("fuzz/corpus/{name}"))?;
    let broken = workspace.scratch(&format!("fuzz/broken/{name}"))?;
    let corpus = workspace.root.join(CRATE).join("corpus").join(name);
    let flags = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={SECONDS_FOR_ONE}"),
        format!("-max_len={BYTES_MAX}"),
        format!("-rss_limit_mb={MIB_MAX}"),
        // libFuzzer knows seeds of 32 bits.
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

/// The long form of the test `fuzz`, in release: the more inputs the better.
fn seeded(workspace: &Workspace, seconds: u64, seed: u64) -> Result<()> {
    let tests = workspace
        .cargo(&["test", "--locked", "--release", "-p", "akash-provider-gateway"])
        .args(["--features", "fuzzing", "--test", "fuzz", "--no-fail-fast"])
        .args(["--", "--nocapture"])
        .env("FUZZ_SECONDS", seconds.to_string())
        .env("FUZZ_SEED", seed.to_string());
    tests.follow().map(drop)
}
