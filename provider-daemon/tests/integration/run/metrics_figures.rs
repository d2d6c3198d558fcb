//! Cost of a scrape with many leases. The benchmark runs the test with a release build and 1000 leases.

use crate::scrape::{get, scraped};
use crate::stage::{ADDRESS, Stage};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{BidId, Msg};
use std::time::{Duration, Instant};
use testbed::free_port;

/// Number of measured scrapes.
const SCRAPES: u32 = 20;

/// Creates leases of the provider on the chain.
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
        stage.chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
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
    println!("{{\"name\":\"metrics_scrape_1000_leases_ms\",\"value\":{median:.3},\"unit\":\"ms\"}}");
    println!("{{\"name\":\"metrics_scrape_kib\",\"value\":{kib:.1},\"unit\":\"KiB\"}}");
    assert!(kib <= 512.0, "{kib} KiB");
}
