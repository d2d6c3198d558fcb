//! Metrics of a provider with a running lease, compared with the chain and with the requests of the test.

use crate::run::served::Served;
use crate::stage::{ADDRESS, Stage, until};
use akash_provider_chain::cert;
use akash_provider_core::market::Market;
use akash_provider_core::types::Address;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Initial balance of the account.
const FUNDS: u128 = 1_000_000_000_000;
/// Address without a node.
const DOWN: &str = "http://127.0.0.1:1";

/// Values of one scrape, by metric name with labels.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    fn new(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            // A metric without labels has empty braces.
            Some((name.trim_end_matches("{}").to_owned(), value.parse().ok()?))
        });
        Self(samples.collect())
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Returns the sum of the metric `name` over all samples with this label.
    fn sum(&self, name: &str, label: &str) -> f64 {
        let values = self.0.iter();
        let found = values.filter(|(key, _)| key.starts_with(&format!("{name}{{")) && key.contains(label));
        found.map(|(_, value)| value).sum()
    }
}

fn address(served: &Served) -> String {
    let output = served.provider.output();
    let line = output.lines().find(|line| line.contains("\"event\":\"metrics\""));
    let event: Value = serde_json::from_str(line.unwrap()).unwrap();
    let url = event["url"].as_str().unwrap();
    let address = url.strip_prefix("http://");
    address
        .and_then(|url| url.strip_suffix("/metrics"))
        .unwrap()
        .to_owned()
}

#[test]
fn metrics_equal_requests_transactions_and_faults() {
    let stage = Stage::new("metrics", true);
    let nodes = format!("{},{DOWN}", stage.url());
    let flags = ["--metrics-listener=127.0.0.1:0", "--node", &nodes];
    let served = Served::on(stage, Some(Duration::from_millis(250)), &flags);
    let address = address(&served);
    check_requests(&served, &address);
    let scrape = Scrape::new(&address);
    check_transactions(&served, &scrape);
    check_endpoints(&served, &scrape);
    let height = || Scrape::new(&address).get("akash_provider_chain_height").unwrap();
    let at = served.stage.chain.market(|market| market.height()) as f64;
    until(
        "the height of the chain",
        || served.provider.dump(),
        || height() >= at,
    );
    assert_eq!(
        scrape.get("akash_provider_part_running{part=\"gateway\"}"),
        Some(1.0)
    );
    assert_eq!(scrape.get("akash_provider_leader"), Some(1.0));
    let is_size = || {
        let size = std::fs::metadata(served.stage.path("state.redb")).unwrap().len();
        Scrape::new(&address).get("akash_provider_state_bytes") == Some(size as f64)
    };
    until("the size of the state", || served.provider.dump(), is_size);
    let account: Address = ADDRESS.parse().unwrap();
    let certificate = |market: &mut Market| market.certificates(&account)[0].cert.clone();
    let certificate = served.stage.chain.market(certificate);
    let expiry = cert::read(&certificate).unwrap().not_after.as_secs();
    assert_eq!(
        scrape.get("akash_provider_gateway_certificate_expiry_timestamp_seconds"),
        Some(expiry as f64)
    );
}

/// Sends tenant requests, and asserts that the metrics count each request once.
fn check_requests(served: &Served, address: &str) {
    let status = "akash_provider_gateway_requests_total{route=\"/lease/{dseq}/{gseq}/{oseq}/status\",\
                  method=\"GET\",status=\"200\",grpc_status=\"0\"}";
    let count = || Scrape::new(address).get(status).unwrap_or(0.0);
    let before = count();
    for _ in 0..3 {
        let (code, out, err) = served.tenants(&["lease-status", "--dseq", "9"]);
        assert_eq!(code, 0, "{out}{err}");
    }
    // A scrape may return a text that was computed before the requests.
    let is_counted = || count() - before >= 3.0;
    until("three requests", || served.provider.dump(), is_counted);
    let scrape = Scrape::new(address);
    assert_eq!(scrape.get(status), Some(before + 3.0));
    let sent = "manifest\",method=\"PUT\",status=\"200\"";
    assert_eq!(scrape.sum("akash_provider_gateway_requests_total", sent), 1.0);
}

/// Asserts that the metrics of transactions and balances match the chain.
fn check_transactions(served: &Served, scrape: &Scrape) {
    let account: Address = ADDRESS.parse().unwrap();
    let (certificates, uakt) = served.stage.chain.market(|market| {
        let uakt = market.account_mut(&account).coins["uakt"];
        (market.certificates(&account).len(), uakt)
    });
    let committed = |message: &str| {
        scrape.get(&format!(
            "akash_provider_tx_messages_total{{message=\"{message}\",outcome=\"committed\"}}"
        ))
    };
    assert_eq!(committed("MsgCreateBid"), Some(1.0), "{:?}", scrape.0);
    assert_eq!(committed("MsgCreateCertificate"), Some(certificates as f64));
    let included = scrape.get("akash_provider_tx_included_total");
    assert_eq!(included, Some(1.0 + certificates as f64));
    let fees = scrape.get("akash_provider_tx_fees_total{denom=\"uakt\"}");
    // The account pays only fees in this denomination.
    assert_eq!(fees, Some((FUNDS - uakt) as f64));
    let balance = scrape.get("akash_provider_balance{denom=\"uakt\"}");
    assert_eq!(balance, Some(uakt as f64));
}

/// Asserts the metrics of a running chain endpoint and of one without a node (`DOWN`).
fn check_endpoints(served: &Served, scrape: &Scrape) {
    let live = served.stage.url();
    let value = |name: &str, url: &str| {
        scrape.get(&format!(
            "akash_provider_chain_endpoint_{name}{{endpoint=\"{url}\"}}"
        ))
    };
    assert_eq!((value("up", &live), value("up", DOWN)), (Some(1.0), Some(0.0)));
    assert_eq!(value("lag_blocks", &live), Some(0.0));
    // On a busy machine, a node may also count as behind for a moment.
    let not_connected = |url: &str| {
        let label = format!("endpoint=\"{url}\",error=\"not_connected\"");
        scrape.sum("akash_provider_chain_errors_total", &label)
    };
    assert!(
        not_connected(DOWN) >= 1.0 && not_connected(&live) == 0.0,
        "{:?}",
        scrape.0
    );
}
