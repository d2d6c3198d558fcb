//! Metrics of a provider with a running lease, compared with the chain and with the requests of the test.

use crate::http::curl;
use crate::run::served::Served;
use crate::scrape::{Values, get, parse, scraped};
use crate::stage::{ADDRESS, Stage, until};
use akash_provider_chain::cert;
use akash_provider_core::market::Market;
use akash_provider_core::types::Address;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, UNIX_EPOCH};
use testbed::free_port;

/// Initial balance of the account.
const FUNDS: u128 = 1_000_000_000_000;
/// Address without a node.
const DOWN: &str = "http://127.0.0.1:1";

fn scrape(port: u16) -> Values {
    parse(&get(port, "text/plain").unwrap().1)
}

/// Returns the sum of the values that the metric `name` has for this label.
fn sum(scrape: &Values, name: &str, label: &str) -> f64 {
    let found = scrape
        .iter()
        .filter(|(key, _)| key.starts_with(&format!("{name}{{")) && key.contains(label));
    found.map(|(_, value)| value).sum()
}

#[test]
fn metrics_equal_requests_transactions_and_faults() {
    let stage = Stage::new("metrics", true);
    let nodes = format!("{},{DOWN}", stage.url());
    let port = free_port().unwrap();
    let listener = format!("--metrics-listener=127.0.0.1:{port}");
    let flags = [listener.as_str(), "--node", &nodes];
    let served = Served::on(stage, Some(Duration::from_millis(250)), &flags);
    assert!(served.has_printed(&format!("\"url\":\"http://127.0.0.1:{port}/metrics\"")));
    check_requests(&served, port);
    check_connections(&served, port);
    let values = scrape(port);
    check_transactions(&served, &values);
    check_endpoints(&served, &values);
    let value = |name: &str| values.get(name).copied();
    let at = served.stage.chain.market(|market| market.height()) as f64;
    let reported = format!(
        "akash_provider_chain_endpoint_height{{endpoint=\"{}\"}}",
        served.stage.url()
    );
    scraped(port, &served.provider, "the height of the chain", |values| {
        values["akash_provider_chain_height"] >= at && values[&reported] >= at
    });
    assert_eq!(value("akash_provider_part_running{part=\"gateway\"}"), Some(1.0));
    assert_eq!(value("akash_provider_leader"), Some(1.0));
    let is_size = || {
        let size = std::fs::metadata(served.stage.path("state.redb")).unwrap().len();
        scrape(port).get("akash_provider_state_bytes") == Some(&(size as f64))
    };
    until("the size of the state", || served.provider.dump(), is_size);
    let account: Address = ADDRESS.parse().unwrap();
    let certificate = |market: &mut Market| market.certificates(&account)[0].cert.clone();
    let certificate = served.stage.chain.market(certificate);
    let expiry = cert::read(&certificate).unwrap().not_after.as_secs();
    assert_eq!(
        value("akash_provider_gateway_certificate_expiry_timestamp_seconds"),
        Some(expiry as f64)
    );
}

/// Sends tenant requests, and asserts that the metrics count each request once.
fn check_requests(served: &Served, port: u16) {
    let status = "akash_provider_gateway_requests_total{route=\"/lease/{dseq}/{gseq}/{oseq}/status\",\
                  method=\"GET\",status=\"200\",grpc_status=\"0\"}";
    let count = || scrape(port).get(status).copied().unwrap_or_default();
    let before = count();
    for _ in 0..3 {
        let (code, out, err) = served.tenants(&["lease-status", "--dseq", "9"]);
        assert_eq!(code, 0, "{out}{err}");
    }
    // A scrape may return a text that was computed before the requests.
    let is_counted = || count() - before >= 3.0;
    until("three requests", || served.provider.dump(), is_counted);
    let values = scrape(port);
    assert_eq!(values.get(status), Some(&(before + 3.0)));
    let sent = "manifest\",method=\"PUT\",status=\"200\"";
    assert_eq!(sum(&values, "akash_provider_gateway_requests_total", sent), 1.0);
    // Each command has one connection.
    let accepted = "akash_provider_gateway_accepted_connections_total{port=\"rest\"}";
    assert_eq!(values.get(accepted), Some(&4.0));
}

/// Opens a stream and connections that fail, and asserts that the metrics count them.
fn check_connections(served: &Served, port: u16) {
    let reached = |what: &str, expected: &[(&str, f64)]| {
        scraped(port, &served.provider, what, |values| {
            expected
                .iter()
                .all(|(name, count)| values.get(&format!("akash_provider_gateway_{name}")) == Some(count))
        })
    };
    let key = served.stage.path("tenant");
    let words = [
        "lease-logs",
        "--follow",
        "--dseq",
        "9",
        "--provider",
        ADDRESS,
        "--provider-url",
        &served.url,
        "--key-file",
        key.to_str().unwrap(),
    ];
    let mut logs = served.stage.running("logs", &words);
    let open = [
        ("streams{kind=\"logs\"}", 1.0),
        ("connections{port=\"rest\"}", 1.0),
        ("opened_streams_total{kind=\"logs\"}", 1.0),
    ];
    reached("an open stream", &open);
    logs.kill();
    let mut plain = TcpStream::connect(served.url.trim_start_matches("https://")).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let status = format!("{}/lease/9/1/1/status", served.url);
    let refused = curl(&["--header", "Authorization: Bearer none", &status]);
    let refusals = f64::from(u8::from(refused.is_some()));
    let ended = [
        ("streams{kind=\"logs\"}", 0.0),
        ("connections{port=\"rest\"}", 0.0),
        ("failed_handshakes_total{port=\"rest\"}", 1.0),
        ("accepted_connections_total{port=\"rest\"}", 6.0 + refusals),
    ];
    let values = reached("ended connections", &ended);
    assert_eq!(
        sum(
            &values,
            "akash_provider_gateway_rejected_credentials_total",
            "reason"
        ),
        refusals
    );
    assert_eq!(
        values["akash_provider_gateway_request_duration_seconds_count"],
        sum(&values, "akash_provider_gateway_requests_total", "route")
    );
    for name in [
        "over_budget_total",
        "displaced_connections_total{port=\"rest\"}",
        "delayed_connections_total{port=\"rest\"}",
        "refused_streams_total{kind=\"logs\"}",
    ] {
        assert_eq!(values[&format!("akash_provider_gateway_{name}")], 0.0, "{name}");
    }
}

/// Asserts that the metrics of transactions and balances match the chain.
fn check_transactions(served: &Served, values: &Values) {
    let account: Address = ADDRESS.parse().unwrap();
    let (certificates, uakt) = served.stage.chain.market(|market| {
        let uakt = market.account_mut(&account).coins["uakt"];
        (market.certificates(&account).len(), uakt)
    });
    let value = |name: &str| values.get(name).copied();
    let committed = |message: &str| {
        value(&format!(
            "akash_provider_tx_messages_total{{message=\"{message}\",outcome=\"committed\"}}"
        ))
    };
    assert_eq!(committed("MsgCreateBid"), Some(1.0), "{values:?}");
    assert_eq!(committed("MsgCreateCertificate"), Some(certificates as f64));
    let included = value("akash_provider_tx_included_total");
    assert_eq!(included, Some(1.0 + certificates as f64));
    let fees = value("akash_provider_tx_fees_total{denom=\"uakt\"}");
    // The account pays only fees in this denomination.
    assert_eq!(fees, Some((FUNDS - uakt) as f64));
    let balance = value("akash_provider_balance{denom=\"uakt\"}");
    assert_eq!(balance, Some(uakt as f64));
}

/// Asserts the metrics of two chain endpoints: a running node, and an address without a node (`DOWN`).
fn check_endpoints(served: &Served, values: &Values) {
    let live = served.stage.url();
    let value = |name: &str, url: &str| {
        let sample = format!("akash_provider_chain_endpoint_{name}{{endpoint=\"{url}\"}}");
        values.get(&sample).copied()
    };
    assert_eq!((value("up", &live), value("up", DOWN)), (Some(1.0), Some(0.0)));
    assert_eq!(value("lag_blocks", &live), Some(0.0));
    for of in ["queries", "blocks"] {
        let selected = |url: &str| {
            let label = format!("endpoint=\"{url}\",use=\"{of}\"");
            sum(values, "akash_provider_chain_endpoint_selected", &label)
        };
        assert_eq!((selected(&live), selected(DOWN)), (1.0, 0.0), "{of}");
    }
    let latency = value("latency_seconds", &live).unwrap();
    assert!(latency > 0.0 && latency < 5.0, "{latency}");
    let requests = |url: &str| {
        let label = format!("endpoint=\"{url}\"");
        sum(
            values,
            "akash_provider_chain_request_duration_seconds_count",
            &label,
        )
    };
    assert!(requests(&live) >= 1.0 && requests(DOWN) == 0.0, "{values:?}");
    for name in ["websocket_up", "websockets_total"] {
        assert_eq!(values[&format!("akash_provider_chain_{name}")], 1.0, "{name}");
    }
    let time = served
        .stage
        .chain
        .market(|market| market.time().0 as f64 / 1000.0);
    let age = UNIX_EPOCH.elapsed().unwrap().as_secs_f64() - time;
    // Blocks since the scrape reduce the age.
    let known = values["akash_provider_chain_block_age_seconds"];
    assert!((known - age).abs() < 60.0, "{known} of {age}");
    // On a busy machine, a node may also count as behind for a moment.
    let not_connected = |url: &str| {
        let label = format!("endpoint=\"{url}\",error=\"not_connected\"");
        sum(values, "akash_provider_chain_errors_total", &label)
    };
    assert!(
        not_connected(DOWN) >= 1.0 && not_connected(&live) == 0.0,
        "{values:?}"
    );
}
