//! Cost of a scrape with many leases, time of `doctor`, and memory of an idle provider. The benchmark runs the tests
//! with a release build, 1000 leases and `FIGURES_SECONDS`.

use crate::run::doctor::{Results, installation};
use crate::scrape::{get, scraped};
use crate::stage::{ADDRESS, Stage};
use akash_provider_core::types::{BidId, Msg};
use serde_json::json;
use std::time::{Duration, Instant};
use testbed::free_port;

/// Block time of the Akash network, used to measure the memory of an idle provider.
const NETWORK: Duration = Duration::from_secs(6);
const SCRAPES: u32 = 20;

fn print(name: &str, value: f64, unit: &str) {
    println!("{}", json!({ "name": name, "value": value, "unit": unit }));
}

fn lease(stage: &Stage, leases: u64) {
    for dseq in 1..=leases {
        let id = stage.order(dseq);
        let bid: BidId = format!("{id}/1/1/{ADDRESS}").parse().unwrap();
        stage.chain.market(|market| {
            let spec = market
                .orders()
                .find(|order| order.id == bid.order)
                .unwrap()
                .spec
                .clone();
            let create = Msg::CreateBid {
                id: bid.clone(),
                price: spec.max_price().unwrap(),
                deposit: "500000uact".parse().unwrap(),
                resources_offer: spec.resources.clone(),
                reclamation_window: None,
            };
            market.execute(&create).unwrap();
        });
        stage.accept(bid);
    }
}

#[test]
fn measures_cost_of_a_scrape() {
    let leases = std::env::var("FIGURES_LEASES").map_or(20, |text| text.parse().unwrap());
    let mut stage = Stage::new("metrics-figures", true);
    lease(&stage, leases);
    stage.start_node(Some(Duration::from_secs(1)));
    let port = free_port().unwrap();
    let listener = format!("--metrics-listener=127.0.0.1:{port}");
    let provider = stage.provider("provider", &[&listener]);
    scraped(port, &provider, "adopted leases", |values| {
        values.get("akash_provider_leases_adopted_total") == Some(&(leases as f64))
    });
    let mut durations = Vec::new();
    let mut bytes = 0;
    for _ in 0..SCRAPES {
        // Longer than the lifetime of a cached text.
        std::thread::sleep(Duration::from_millis(1100));
        let begun = Instant::now();
        let (_, body) = get(port, "text/plain").unwrap();
        durations.push(begun.elapsed());
        bytes = body.len();
        if leases < 100 && durations.len() == 2 {
            break;
        }
    }
    durations.sort_unstable();
    let median = durations[durations.len() / 2].as_secs_f64() * 1000.0;
    let kib = bytes as f64 / 1024.0;
    print("metrics_scrape_1000_leases_ms", median, "ms");
    print("metrics_scrape_kib", kib, "KiB");
    assert!(kib <= 512.0, "{kib} KiB");
}

#[test]
fn measures_time_of_doctor() {
    let stage = installation("doctor-figures");
    let begun = Instant::now();
    let results = Results::new(&stage, &[]);
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(results.report()["failures"], 0, "{}", results.report());
    print("doctor_s", seconds, "s");
    assert!(seconds <= 5.0, "{seconds} s");
}

/// Returns the value of `name` in a process's `status` file, in MiB.
fn memory(status: &str, name: &str) -> f64 {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

#[test]
fn measures_memory_of_an_idle_provider() {
    let seconds = std::env::var("FIGURES_SECONDS").map_or(1, |text| text.parse().unwrap());
    let mut stage = Stage::new("idle-figures", true);
    let block = if seconds > 1 {
        NETWORK
    } else {
        Duration::from_millis(200)
    };
    stage.start_node(Some(block));
    let port = free_port().unwrap();
    let (listener, record) = (
        format!("--metrics-listener=127.0.0.1:{port}"),
        format!("--record={}", stage.path("recording").display()),
    );
    let flags = [
        listener.as_str(),
        record.as_str(),
        "--metrics-per-lease",
        "--gateway-listen-address=127.0.0.1:0",
        "--order-history=168h",
    ];
    let provider = stage.provider("provider", &flags);
    let idle = Instant::now() + Duration::from_secs(seconds);
    scraped(port, &provider, "a provider that records", |values| {
        values.get("akash_provider_recording_active") == Some(&1.0)
            && values.get("akash_provider_part_running{part=\"gateway\"}") == Some(&1.0)
    });
    while Instant::now() < idle {
        // Prometheus scrapes every 15 s.
        get(port, "text/plain").unwrap();
        std::thread::sleep(Duration::from_secs(seconds.min(15)));
    }
    let status = std::fs::read_to_string(provider.about("status")).unwrap();
    let (all, private) = (memory(&status, "VmRSS:"), memory(&status, "RssAnon:"));
    print("idle_memory_mib", all, "MiB");
    // Without the pages of the program file, which the kernel shares between processes and can drop.
    print("idle_private_memory_mib", private, "MiB");
    assert!(private > 1.0 && private < all, "{private} of {all} MiB");
}
