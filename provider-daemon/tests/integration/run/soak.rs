//! A provider under constant load, with metrics, recording and order history, must not use more and more resources.
//!
//! The short form in the test command checks only that the load is served. The campaign evaluates slopes:
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
/// Minimum duration of a run in which slopes are evaluated. In a shorter run, a single allocation of a buffer
/// looks like a slope.
const JUDGED_FROM: Duration = Duration::from_secs(1_800);
/// Time after which memory must not grow.
const SETTLED: Duration = Duration::from_secs(600);
/// Resource, maximum value, and maximum growth per minute after [`SETTLED`].
const BOUNDS: [(&str, f64, f64); 4] = [
    ("memory (KiB)", 400_000.0, 100.0),
    ("descriptors", 200.0, 1.0),
    ("threads", 64.0, 0.5),
    ("tasks", 4_000.0, 10.0),
];

/// Resource usage at one point in time, in the order of `BOUNDS`; `None` for an unknown value.
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

/// Growth per minute by least squares, or `None` for fewer than three points.
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

/// Prints the maximum and the slope of each resource. Returns the resources that exceed their bounds.
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
        let grows = slope(&points(settled));
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

#[test]
fn growth_beyond_its_bound_is_found() {
    let run = |growth: f64| -> Vec<Sample> {
        let sample = |second: u32| Sample {
            at: Duration::from_secs(u64::from(second)),
            holds: [
                Some(1_000.0 + growth * f64::from(second) / 60.0),
                Some(30.0),
                Some(8.0),
                None,
            ],
        };
        (0..600).map(sample).collect()
    };
    let settled = Duration::from_secs(180);
    assert!(judge(&run(90.0), settled, true).is_empty());
    let found = judge(&run(110.0), settled, true);
    assert!(found.len() == 1 && found[0].starts_with("memory"), "{found:?}");
    assert!(
        judge(&run(110.0), settled, false).is_empty(),
        "too short for a slope"
    );
    assert_eq!(judge(&run(900_000.0), settled, false).len(), 1, "above its limit");
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
        let coin = |denom: &str| Coin {
            denom: denom.into(),
            amount: 1_000_000_000_000_000,
        };
        market.fund(served.tenant.address(), &coin("uact"));
    });
    if curl(&[&format!("{}/status", served.url)]).is_none() {
        return;
    }
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
    let findings = judge(&samples, settled, long >= JUDGED_FROM);
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
