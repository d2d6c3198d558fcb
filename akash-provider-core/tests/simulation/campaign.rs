//! Runs many seeds in threads, reports failures and prints the figures.

use crate::history;
use crate::oracle::Violation;
use crate::replay::Trace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Regression seeds that run first: one per line, `#` starts a comment.
const REGRESSIONS: &str = include_str!("seeds.txt");
/// Maximum number of listed seeds per violated rule, in addition to the first seed.
const NAMED_MAX: usize = 10;
/// Number of seeds of an ordinary test run.
const SEEDS: u64 = 300;
/// Number of histories that an ordinary test run records and replays.
const TAPES: u64 = 20;

fn number(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return otherwise;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
}

fn regressions() -> impl Iterator<Item = u64> {
    let lines = REGRESSIONS
        .lines()
        .map(|l| l.split('#').next().unwrap_or("").trim());
    lines.filter(|l| !l.is_empty()).map(|l| l.parse().unwrap())
}

/// Runs the seeds that the environment variables select.
pub(crate) fn run() {
    let first = number("SIM_SEED", 1);
    let count = number("SIM_SEEDS", SEEDS);
    let seeds: Vec<u64> = regressions().chain(first..first + count).collect();
    #[expect(
        clippy::disallowed_methods,
        reason = "the speed of histories is a reported figure"
    )]
    let start = Instant::now();
    let (ran, seen) = histories(&seeds, &Trace::default());
    figures(ran, start.elapsed().as_secs_f64(), &seen);
}

/// Records histories, replays each recording, and compares the effects.
pub(crate) fn tapes() {
    let first = number("SIM_SEED", 1);
    let seeds: Vec<u64> = (first..first + number("SIM_TAPES", TAPES)).collect();
    let (ran, _) = histories(&seeds, &Trace::taped());
    println!(r#"{{"name": "sim_taped_histories", "value": {ran}, "unit": "histories"}}"#);
}

/// Runs the histories of these seeds. Returns the number of histories, and the number of observations by
/// name.
fn histories(seeds: &[u64], trace: &Trace) -> (u64, BTreeMap<&'static str, u64>) {
    let threads = number("SIM_THREADS", 1).max(1);
    let (next, ran) = (AtomicU64::new(0), AtomicU64::new(0));
    let failures: Mutex<BTreeMap<u64, Violation>> = Mutex::default();
    let seen: Mutex<BTreeMap<&'static str, u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
                    let Some(seed) = seeds.get(index) else { return };
                    let (trace, result) = history::run(*seed, trace.clone());
                    if let Err(broken) = result {
                        failures.lock().unwrap().insert(*seed, broken);
                    }
                    for (what, n) in trace.seen {
                        *seen.lock().unwrap().entry(what).or_default() += n;
                    }
                    ran.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let ran = ran.into_inner();
    report(&failures.into_inner().unwrap(), ran, trace.is_taped);
    (ran, seen.into_inner().unwrap())
}

fn figures(ran: u64, seconds: f64, seen: &BTreeMap<&'static str, u64>) {
    let line = |name: &str, value: f64, unit: &str| {
        println!(r#"{{"name": "{name}", "value": {value:.0}, "unit": "{unit}"}}"#);
    };
    #[expect(clippy::cast_precision_loss, reason = "the number of seeds is below 2^53")]
    let (ran, per) = (ran as f64, |n: u64| n as f64);
    line("sim_histories", ran, "histories");
    line("sim_histories_per_s", ran / seconds.max(0.001), "histories/s");
    for (what, n) in seen {
        line(&format!("sim_seen_{what}"), per(*n), "looks");
    }
}

fn report(failures: &BTreeMap<u64, Violation>, ran: u64, is_taped: bool) {
    if failures.is_empty() {
        return;
    }
    // One seed per rule with its log. The others are listed.
    let mut rules: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (seed, broken) in failures {
        rules.entry(broken.rule).or_default().push(*seed);
    }
    for (rule, seeds) in &rules {
        let Some((seed, others)) = seeds.split_first() else {
            continue;
        };
        println!("seed {seed} breaks {rule}: {}", failures[seed].what);
        println!("    {}", log(*seed, is_taped));
        println!("    cargo xtask sim --seed {seed} --seeds 1");
        if !others.is_empty() {
            let some = &others[..others.len().min(NAMED_MAX)];
            println!("    as do {} more: {some:?}", others.len());
        }
    }
    panic!("{} of {ran} histories break a rule", failures.len());
}

/// Repeats a seed and writes every event to a log file.
fn log(seed: u64, is_taped: bool) -> String {
    let replay_engine = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/sim");
    let folder = std::env::var_os("SIM_LOG_DIR").map_or_else(replay_engine, PathBuf::from);
    let mut trace = Trace::in_words();
    trace.is_taped = is_taped;
    let (trace, result) = history::run(seed, trace);
    let path = folder.join(format!("{seed}.log"));
    let text = format!("seed {seed}\n{}{result:?}\n", trace.words());
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text));
    match written {
        Ok(()) => format!("event log: {}", path.display()),
        Err(error) => format!("event log {}: {error}", path.display()),
    }
}

/// Repeats the history of a log file and reports the first line that differs.
pub(crate) fn replay(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let head = text.lines().next().and_then(|l| l.strip_prefix("seed "));
    let seed: u64 = head
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| panic!("{}: the first line is not `seed N`", file.display()));
    let (trace, result) = history::run(seed, Trace::in_words());
    println!("{}", trace.words());
    let then = text.lines().skip(1);
    let parts = then.zip(trace.words().lines()).enumerate();
    let other = parts.into_iter().find(|(_, (then, now))| then != now);
    if let Some((line, (then, _))) = other {
        println!("differs from line {} of the log: {then}", line + 2);
    }
    if let Err(broken) = result {
        panic!("seed {seed} breaks {}: {}", broken.rule, broken.what);
    }
}
