//! A provider under constant load, with metrics, recording and order history, must not use more and more resources.
//!
//! The short form in the test command finds a leak of a descriptor or of 100 KiB per order. The campaign evaluates
//! slopes of the release build. A run of ten minutes with the debug build prints them:
//! `SOAK_SECONDS=600 cargo test -p provider-daemon --test integration run::soak:: -- --nocapture`.

use crate::http::curl;
use crate::run::load::Crowd;
use crate::run::served::Served;
use crate::scrape::get;
use crate::stage::Stage;
use akash_provider_core::types::Coin;
use std::fs;
use std::time::{Duration, Instant};
use testbed::free_port;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Interval between two orders.
const PAUSE: Duration = Duration::from_millis(200);
/// Minimum duration of a run with a slope check. In a shorter run, one buffer allocation looks like a slope.
const JUDGED_FROM: Duration = Duration::from_secs(1_800);
/// Warm-up time under load. Afterwards, the growth of each resource is limited.
const SETTLED: Duration = Duration::from_secs(600);
/// Maximum number of additional open descriptors after the load, for idle connections and files.
const IDLE_DESCRIPTORS: f64 = 40.0;
/// Maximum memory growth in the second half of a run, in KiB per order.
const ORDER_KIB: f64 = 100.0;
/// Maximum wait for the connections to close after the load.
const CLOSE_TIME: Duration = Duration::from_secs(10);
/// Resource, maximum, and maximum growth per minute after [`SETTLED`]. The maximum for descriptors is high,
/// because each pending request uses descriptors.
const BOUNDS: [(&str, f64, f64); 4] = [
    ("memory (KiB)", 400_000.0, 100.0),
    ("descriptors", 400.0, 1.0),
    ("threads", 64.0, 0.5),
    ("tasks", 4_000.0, 10.0),
];

/// Resource usage at one time, in the order of `BOUNDS`; `None` if unknown.
struct Sample {
    at: Duration,
    holds: [Option<f64>; 4],
}

fn sample(served: &Served, at: Duration) -> Sample {
    let about = fs::read_to_string(served.provider.about("status")).unwrap();
    let number = |name: &str| {
        let line = about.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let output = served.provider.output();
    let summary = output
        .lines()
        .rfind(|line| line.contains("\"event\":\"summary\""));
    let tasks = summary.and_then(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["tasks"].as_f64()
    });
    let files = fs::read_dir(served.provider.about("fd")).unwrap().count();
    Sample {
        at,
        holds: [number("VmRSS:"), Some(files as f64), number("Threads:"), tasks],
    }
}

/// Returns the growth per minute by least squares; `None` for fewer than three points.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let many = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let (x, y, xx, xy) = (sum(|p| p.0), sum(|p| p.1), sum(|p| p.0 * p.0), sum(|p| p.0 * p.1));
    let spread = many * xx - x * x;
    (spread > 0.0).then(|| 60.0 * (many * xy - x * y) / spread)
}

/// Returns the lowest point of each minute, because higher points include requests in progress.
fn lowest_by_minute(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let minute = |point: &(f64, f64)| point.0.div_euclid(60.0);
    let minutes = points.chunk_by(|a, b| minute(a).total_cmp(&minute(b)).is_eq());
    let lowest = minutes.filter_map(|points| points.iter().min_by(|a, b| a.1.total_cmp(&b.1)));
    lowest.copied().collect()
}

/// Returns leaked resources: descriptors open after the load, and memory that grows with each order.
fn leaks(before: &Sample, during: &[Sample], after: &Sample) -> Vec<String> {
    let (memory, descriptors) = (0, 1);
    // An unknown value is a finding.
    let added = |from: &Sample, to: &Sample, index: usize| {
        let values = to.holds[index].zip(from.holds[index]);
        values.map_or(f64::INFINITY, |(to, from)| to - from)
    };
    let remaining = added(before, after, descriptors);
    println!("soak: {remaining} descriptors more than before the load (limit {IDLE_DESCRIPTORS})");
    let (middle, last) = (&during[during.len() / 2], &during[during.len() - 1]);
    let orders = (last.at - middle.at).as_secs_f64() / PAUSE.as_secs_f64();
    let per_order = added(middle, last, memory) / orders.max(1.0);
    println!("soak: memory: {per_order:+.1} KiB per order of the second half (limit {ORDER_KIB} KiB)");
    let mut findings = Vec::new();
    if remaining > IDLE_DESCRIPTORS {
        findings.push(format!("descriptors: {remaining} more than before the load"));
    }
    if per_order > ORDER_KIB {
        findings.push(format!("memory: {per_order:+.1} KiB per order"));
    }
    findings
}

/// Prints the maximum of each resource, and its growth per minute after `settled`. Returns the resources
/// above their bounds. Growth is compared with its bound only if `has_slope` is true.
fn judge(samples: &[Sample], settled: Duration, has_slope: bool) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, (what, most, growth)) in BOUNDS.into_iter().enumerate() {
        let points = |from: Duration| -> Vec<(f64, f64)> {
            let later = samples.iter().filter(|sample| sample.at >= from);
            later
                .filter_map(|sample| Some((sample.at.as_secs_f64(), sample.holds[index]?)))
                .collect()
        };
        let all = points(Duration::ZERO);
        let highest = all.iter().map(|point| point.1).fold(0.0, f64::max);
        let fifths: Vec<f64> = all
            .chunks(all.len().div_ceil(5).max(1))
            .map(|part| part[0].1)
            .collect();
        let grows = slope(&lowest_by_minute(&points(settled)));
        let growth_text = grows.map_or_else(
            || "no slope".to_owned(),
            |grows| format!("{grows:+.2} per minute"),
        );
        println!(
            "soak: {what}: {fifths:?}, maximum {highest}, growth after {settled:?} {growth_text} (limits {most}, {growth} \
             per minute)"
        );
        if highest > most || (has_slope && grows.is_some_and(|grows| grows > growth)) {
            findings.push(format!("{what}: maximum {highest}, growth {growth_text}"));
        }
    }
    findings
}

#[test]
fn slope_is_that_of_the_line_and_needs_points() {
    let line: Vec<(f64, f64)> = (0..10)
        .map(|n| (f64::from(n), 5.0 + 2.0 * f64::from(n)))
        .collect();
    assert!((slope(&line).unwrap() - 120.0).abs() < 1e-9);
    assert_eq!(slope(&line[..2]), None);
    assert_eq!(slope(&[(1.0, 1.0); 5]), None, "all points at one time");
}

/// Returns a simulated run with one sample per second. `memory` is the growth in KiB per minute.
/// `descriptors` is the growth in descriptors per minute, without those of pending requests.
fn run(seconds: u32, memory: f64, descriptors: f64) -> Vec<Sample> {
    let sample = |second: u32| {
        let (minutes, pending) = (f64::from(second) / 60.0, f64::from(second % 20 * second / 100));
        Sample {
            at: Duration::from_secs(u64::from(second)),
            holds: [
                Some(1_000.0 + memory * minutes),
                Some(30.0 + (descriptors * minutes).floor() + pending),
                Some(8.0),
                None,
            ],
        }
    };
    (0..seconds).map(sample).collect()
}

#[test]
fn growth_beyond_its_bound_is_found() {
    let settled = Duration::from_secs(180);
    let judged = |memory, descriptors, has_slope| judge(&run(600, memory, descriptors), settled, has_slope);
    assert_eq!(judged(90.0, 0.5, true), [""; 0]);
    let found = judged(110.0, 0.0, true);
    assert!(found.len() == 1 && found[0].starts_with("memory"), "{found:?}");
    let found = judged(0.0, 1.5, true);
    assert!(
        found.len() == 1 && found[0].starts_with("descriptors"),
        "{found:?}"
    );
    assert_eq!(judged(110.0, 1.5, false), [""; 0], "too short for a slope");
    assert_eq!(judged(900_000.0, 0.0, false).len(), 1, "above its limit");
}

#[test]
fn leak_of_each_order_is_found_in_a_short_run() {
    // Orders per minute.
    let orders = 60.0 / PAUSE.as_secs_f64();
    let found = |memory, descriptors, is_finished: bool| {
        let during = run(20, memory * orders, descriptors * orders);
        let mut after = run(20, 0.0, descriptors * orders).remove(19);
        // The pending requests of the last second.
        after.holds[1] = after.holds[1].map(|files| files - if is_finished { 3.0 } else { -60.0 });
        leaks(&during[0], &during, &after)
    };
    assert_eq!(found(90.0, 0.0, true), [""; 0]);
    let memory = found(110.0, 0.0, true);
    assert!(memory.len() == 1 && memory[0].starts_with("memory"), "{memory:?}");
    let descriptors = found(0.0, 1.0, true);
    assert!(
        descriptors.len() == 1 && descriptors[0].starts_with("descriptors"),
        "{descriptors:?}"
    );
    assert_eq!(found(0.0, 0.0, false).len(), 1, "connections that stay open");
}

/// Waits at most `CLOSE_TIME` until few descriptors are open. Returns the last sample.
fn after_load(served: &Served, before: &Sample, began: Instant) -> Sample {
    let end = Instant::now() + CLOSE_TIME;
    loop {
        let after = sample(served, began.elapsed());
        let is_few = |(now, then)| now <= then + IDLE_DESCRIPTORS;
        if after.holds[1].zip(before.holds[1]).is_some_and(is_few) || Instant::now() >= end {
            return after;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn resource_usage_does_not_grow_with_load() {
    let seconds: u64 = std::env::var("SOAK_SECONDS").map_or(20, |text| text.parse().unwrap());
    let long = Duration::from_secs(seconds);
    let life = Duration::from_secs((seconds / 5).clamp(4, 120));
    let (stage, port) = (Stage::new("soak", true), free_port().unwrap());
    let (listener, record) = (
        format!("--metrics-listener=127.0.0.1:{port}"),
        format!("--record={}", stage.path("recording").display()),
    );
    let flags = [
        listener.as_str(),
        record.as_str(),
        "--metrics-per-lease",
        "--nodes=64",
        "--node-cpu=64",
        "--node-memory=256Gi",
        "--node-storage=16Ti",
        "--gas-ceiling=hour=1000000000000",
        "--fee-ceiling=hour=1000000000000",
    ];
    let served = Served::on(stage, FAST, &flags);
    served.stage.chain.market(|market| {
        let coin = |denom: &str| Coin::new(denom, 1_000_000_000_000_000);
        market.fund(served.tenant.address(), &coin("uact"));
    });
    if curl(&[&format!("{}/status", served.url)]).is_none() {
        return;
    }
    let before = sample(&served, Duration::ZERO);
    let mut crowd = Crowd::new(&served, life);
    let (began, mut next_sample) = (Instant::now(), Instant::now());
    let mut samples = Vec::new();
    crowd.lives(began, long, PAUSE, |served| {
        if next_sample <= Instant::now() {
            next_sample += Duration::from_secs(1).max(long / 600);
            let (head, _) = get(port, "text/plain").unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            samples.push(sample(served, began.elapsed()));
        }
    });
    crowd.reap(true);
    let after = after_load(&served, &before, began);
    let (ordered, (sent, failed)) = (crowd.ordered(), crowd.manifests());
    println!(
        "soak: {seconds} s, {ordered} orders, leases of {life:?}, {sent} manifests accepted, {failed} refused"
    );
    // A shorter run prints the growth after the first leases have ended.
    let settled = if long > SETTLED {
        SETTLED
    } else {
        life + Duration::from_secs(60)
    };
    let mut findings = judge(&samples, settled, long >= JUDGED_FROM);
    findings.extend(leaks(&before, &samples, &after));
    assert!(findings.is_empty(), "{findings:?}");
    assert!(
        failed * 100 <= sent && sent as u64 * 2 > ordered,
        "{sent} of {ordered} manifests, {failed} failed\n{}",
        served
            .provider
            .dump()
            .lines()
            .rev()
            .take(40)
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert!(!served.provider.dump().contains("panicked"));
}
