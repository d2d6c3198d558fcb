//! Metrics of a provider that has bid, won, lost, declined, withdrawn and torn down.

use crate::run::metrics_names;
use crate::run::metrics_page::{OPEN_METRICS, check_documentation, kubernetes_scrape};
use crate::run::metrics_table::{check_ended, check_files, check_process, check_running, check_withdrawn};
use crate::run::metrics_values::{
    assert_close, check, check_capacity, check_money, check_scans, check_status_requests,
};
use crate::run::served::Served;
use crate::scrape::{Values, get, parse, scraped};
use crate::stage::{ADDRESS, Stage};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, Attribute, BidId, Coin, DeploymentId, Msg, ProviderRecord};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testbed::free_port;

/// Flags that determine the expected values of the metrics.
const FLAGS: [&str; 13] = [
    "--metrics-per-lease",
    "--lease-funds-monitor-interval=1m",
    "--withdrawal-period=1m",
    "--nodes=3",
    "--node-cpu=8",
    "--node-memory=16Gi",
    "--node-storage=32Gi",
    "--node-gpus=nvidia/a100=2",
    "--storage-class=beta2=100Gi",
    "--cluster-node-port-quantity=100",
    "--leased-ips=3",
    "--breaker-floor=4",
    "--order-history=168h",
];
/// Number of manifests sent for the lease.
const MANIFESTS: f64 = 2.0;
const FAST: Option<Duration> = Some(Duration::from_millis(200));

/// Creates an order from the sample SDL, with the first text of each pair replaced by the second.
fn order(served: &Served, dseq: u64, changes: &[(&str, &str)]) -> DeploymentId {
    let text = include_str!("../../../samples/web.yaml").to_owned();
    let change = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    let text = changes.iter().fold(text, change);
    served.stage.order_from(served.tenant.address(), dseq, &text)
}

fn bid_of(served: &Served, id: &DeploymentId) -> BidId {
    let bid: BidId = format!("{id}/1/1/{ADDRESS}").parse().unwrap();
    served.until("a bid", || {
        served.stage.chain.market(|market| market.bid(&bid).is_some())
    });
    bid
}

/// Lets another provider win an order on which this provider bids.
fn lose(served: &Served, dseq: u64) {
    let id = order(served, dseq, &[]);
    let own = bid_of(served, &id);
    let competitor: Address = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
    let bid = BidId {
        provider: competitor.clone(),
        ..own.clone()
    };
    served.stage.chain.market(|market| {
        let coin: Coin = "900000000uact".parse().unwrap();
        market.fund(&competitor, &coin);
        market
            .execute(&Msg::CreateProvider(ProviderRecord {
                owner: competitor.clone(),
                host_uri: "https://provider.example:8443".to_owned(),
                attributes: Vec::new(),
                info: Default::default(),
            }))
            .unwrap();
        let spec = market
            .orders()
            .find(|order| order.id == own.order)
            .unwrap()
            .spec
            .clone();
        let create = Msg::CreateBid {
            id: bid.clone(),
            price: market.bid(&own).unwrap().price.clone(),
            deposit: "500000uact".parse().unwrap(),
            resources_offer: spec.resources.clone(),
            reclamation_window: None,
        };
        market.execute(&create).unwrap();
    });
    served.stage.chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
}

/// Sends the manifest again, and waits until it is deployed.
fn send_again(served: &Served, port: u16) {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
    let (code, out, err) = served.tenants(&["send-manifest", sample, "--dseq", "9"]);
    assert_eq!(code, 0, "{out}{err}");
    scraped(port, &served.provider, "the second deploy", |values| {
        values.get("provider_deployment{action=\"deploy\",result=\"success\"}") == Some(&MANIFESTS)
    });
}

/// Creates an order with one external port and two GPUs. Checks the reservation of the bid.
fn bid_with_port(served: &Served, port: u16) -> DeploymentId {
    let gpus =
        "units: 500m }\n        gpu: { units: 1, attributes: { vendor: { nvidia: [{ model: a100 }] } } }";
    let id = order(served, 23, &[("port: 80", "port: 9000"), ("units: 500m }", gpus)]);
    bid_of(served, &id);
    // A scrape can be a second old, and then has no bid on this order.
    let values = scraped(port, &served.provider, "one open order", |values| {
        values.get("provider_bid{action=\"open\",result=\"success\"}") == Some(&3.0)
            && values.get("provider_order_manager") == Some(&1.0)
            && values.get("akash_provider_orders{phase=\"open\"}") == Some(&1.0)
    });
    // The sample has two replicas of 500m and 512Mi, and the lease has a reservation too.
    let pending = [
        ("cpu", 1000.0),
        ("memory", f64::from(2 * (512 << 20))),
        ("endpoints", 1.0),
        ("gpu", 2.0),
    ];
    for (quantity, amount) in pending {
        let sample = format!(
            "provider_inventory_reservations_total{{classification=\"pending\",quantity=\"{quantity}\"}}"
        );
        check(&values, &[(&sample, amount)]);
    }
    check(
        &values,
        &[
            (
                "provider_inventory_reservations_total{classification=\"none\",quantity=\"quantity\"}",
                2.0,
            ),
            ("provider_inventory_available_total{quantity=\"endpoints\"}", 99.0),
            ("akash_provider_capacity_external_ports{state=\"pending\"}", 1.0),
            (
                "akash_provider_capacity_external_ports{state=\"available\"}",
                99.0,
            ),
            ("akash_provider_capacity_gpus{state=\"pending\"}", 2.0),
            (
                "akash_provider_capacity_gpu_devices_reserved{vendor=\"nvidia\",model=\"a100\"}",
                2.0,
            ),
        ],
    );
    id
}

fn events(served: &Served, name: &str) -> f64 {
    let name = format!("\"event\":\"{name}\"");
    served
        .provider
        .output()
        .lines()
        .filter(|line| line.contains(&name))
        .count() as f64
}

fn check_lease(served: &Served, port: u16) {
    let values = scraped(port, &served.provider, "a running lease", |values| {
        values.get("akash_provider_leases{phase=\"running\"}") == Some(&1.0)
    });
    check_running(served, &values);
    // The sample has two replicas of 500m and 512Mi.
    let memory = f64::from(2 * (512 << 20));
    check(
        &values,
        &[
            (
                "provider_inventory_reservations_total{classification=\"active\",quantity=\"cpu\"}",
                1000.0,
            ),
            (
                "provider_inventory_reservations_total{classification=\"active\",quantity=\"memory\"}",
                memory,
            ),
            (
                "provider_inventory_reservations_total{classification=\"none\",quantity=\"allocated\"}",
                1.0,
            ),
            (
                "provider_inventory_reservations_total{classification=\"active\",quantity=\"endpoints\"}",
                1.0,
            ),
            (
                "provider_inventory_reservations_total{classification=\"active\",quantity=\"storage-ephemeral\"}",
                0.0,
            ),
            ("akash_provider_capacity_cpu_cores{state=\"active\"}", 1.0),
            (
                "akash_provider_capacity_ephemeral_storage_bytes{state=\"active\"}",
                2.0 * f64::from(1 << 30),
            ),
            ("provider_deployment_manager", 1.0),
            ("provider_manifest_manager", 1.0),
            ("provider_order_watchdog", 1.0),
            ("akash_provider_manifest_deadlines", 0.0),
        ],
    );
    let cores = |quantity: &str| values[&format!("provider_inventory_{quantity}_total{{quantity=\"cpu\"}}")];
    assert_eq!(cores("allocatable") - cores("available"), 1.0);
    let price = served.stage.chain.market(|market| {
        let lease = market.leases().next().unwrap();
        lease.lease.price.amount.to_plain().parse::<f64>().unwrap()
    });
    let (balance, deposit) = served.stage.chain.market(|market| {
        let lease = market.leases().next().unwrap();
        let deposit = market.bid_deposit(&lease.lease.id).unwrap().coin.amount as f64;
        let balance = market.account_mut(&ADDRESS.parse().unwrap()).coins["uact"] as f64;
        (balance, deposit)
    });
    check(
        &values,
        &[
            ("akash_provider_revenue_per_block{denom=\"uact\"}", price),
            (
                "akash_provider_bid_deposits_total{action=\"locked\",denom=\"uact\"}",
                deposit,
            ),
        ],
    );
    // The balance pays one deposit per hour, because spending is averaged over an hour at least.
    let runway = values["akash_provider_balance_runway_seconds{denom=\"uact\"}"];
    let known = values["akash_provider_balance{denom=\"uact\"}"];
    assert_close(runway, known * 3600.0 / deposit);
    assert!(known == balance || known == balance + deposit, "{known}");
    assert!(!values.contains_key("akash_provider_balance_runway_seconds{denom=\"other\"}"));
}

/// Checks the order metrics that the Go provider also has.
fn check_orders(values: &Values, bids: f64, leases: f64) {
    check(
        values,
        &[
            ("provider_order_handler{action=\"start\"}", 6.0),
            ("provider_order_handler{action=\"stop\"}", 6.0),
            ("provider_bid{action=\"open\",result=\"success\"}", bids),
            ("provider_bid{action=\"open\",result=\"fail\"}", 0.0),
            ("provider_bid{action=\"close\",result=\"success\"}", 1.0),
            ("provider_bid{action=\"close\",result=\"fail\"}", 0.0),
            ("provider_reservation{action=\"open\",result=\"success\"}", 0.0),
            ("provider_reservation{action=\"open\",result=\"fail\"}", 0.0),
            ("provider_reservation{action=\"close\",result=\"success\"}", 0.0),
            ("provider_reservation{action=\"close\",result=\"fail\"}", 0.0),
            ("provider_should_bid{result=\"accept\"}", 5.0),
            ("provider_should_bid{result=\"decline\"}", 1.0),
            ("provider_should_bid{result=\"fail\"}", 0.0),
            ("provider_order_complete{result=\"lease-won\"}", leases),
            ("provider_order_complete{result=\"lease-lost\"}", 1.0),
            ("provider_order_complete{result=\"order-closed\"}", 1.0),
            ("provider_order_complete{result=\"bid-timeout\"}", 1.0),
            ("provider_order_complete{result=\"bid-closed-external\"}", 0.0),
        ],
    );
}

/// Checks the deployment metrics that the Go provider also has.
fn check_deployments(served: &Served, values: &Values, bids: f64) {
    let events = |name| events(served, name);
    check(
        values,
        &[
            (
                "provider_deployment{action=\"reserve-hostnames\",result=\"success\"}",
                MANIFESTS,
            ),
            (
                "provider_deployment{action=\"reserve-hostnames\",result=\"err\"}",
                0.0,
            ),
            (
                "provider_deployment{action=\"deploy\",result=\"success\"}",
                MANIFESTS,
            ),
            (
                "provider_deployment_monitor{action=\"start\"}",
                events("deployed"),
            ),
            // Each version after the first one stops a monitor, and the teardown counts as two stops.
            (
                "provider_deployment_monitor{action=\"stop\"}",
                events("deployed") + 1.0,
            ),
            ("provider_deployment_monitor_health{state=\"failed\"}", 0.0),
            (
                "provider_inventory_requests{action=\"reserve\",result=\"create\"}",
                bids,
            ),
            (
                "provider_inventory_requests{action=\"reserve\",result=\"insufficient-capacity\"}",
                1.0,
            ),
            (
                "provider_inventory_requests{action=\"unreserve\",result=\"destroyed\"}",
                bids,
            ),
            (
                "provider_inventory_requests{action=\"lookup\",result=\"found\"}",
                MANIFESTS,
            ),
            (
                "provider_inventory_reservations_total{classification=\"none\",quantity=\"quantity\"}",
                0.0,
            ),
            (
                "provider_deployment{action=\"deploy\",result=\"fail\"}",
                events("deploy_failed"),
            ),
            ("provider_deployment{action=\"teardown\",result=\"success\"}", 1.0),
            ("provider_deployment{action=\"teardown\",result=\"fail\"}", 0.0),
            (
                "provider_inventory_requests{action=\"lookup\",result=\"not-found\"}",
                0.0,
            ),
            (
                "provider_inventory_requests{action=\"unreserve\",result=\"not-found\"}",
                0.0,
            ),
            (
                "provider_inventory_requests{action=\"status\",result=\"error\"}",
                0.0,
            ),
        ],
    );
    check_durations(values, bids);
}

/// Checks the durations, and the gauges that must be zero because there is no lease.
fn check_durations(values: &Values, bids: f64) {
    check(
        values,
        &[
            ("provider_manifest_manager", 0.0),
            ("provider_order_watchdog", 0.0),
            // Each accepted order is reserved once.
            ("provider_reservation_duration_count", 5.0),
            ("provider_reservation_duration_bucket{le=\"+Inf\"}", 5.0),
            ("provider_bid_pricing_duration_count", bids),
            ("provider_bid_pricing_duration_bucket{le=\"150000\"}", bids),
            ("provider_bid_pricing_duration_bucket{le=\"7.68e+07\"}", bids),
            ("provider_deployment_manager", 0.0),
        ],
    );
}

/// Checks the metrics that only this provider has.
fn check_new_names(served: &Served, values: &Values, bids: f64) {
    let events = |name| events(served, name);
    check(
        values,
        &[
            (
                "akash_provider_reservations_total{action=\"open\",result=\"success\"}",
                bids,
            ),
            (
                "akash_provider_reservations_total{action=\"close\",result=\"success\"}",
                bids,
            ),
            (
                "akash_provider_declines_total{code=\"insufficient_capacity\"}",
                1.0,
            ),
            ("akash_provider_declines_total{code=\"attributes\"}", 1.0),
            ("akash_provider_bid_delay_blocks_count", bids),
            (
                "akash_provider_withdrawals_total{result=\"success\"}",
                events("withdrawn"),
            ),
            ("akash_provider_leases_closed_total", 1.0),
            ("akash_provider_manifests_total{result=\"accepted\"}", MANIFESTS),
            ("akash_provider_metrics_dropped_series{reason=\"limit\"}", 0.0),
            ("akash_provider_unpublished_events_total", 0.0),
            (
                "akash_provider_engine_block_lag_seconds_count",
                values["akash_provider_engine_blocks_total"],
            ),
        ],
    );
}

fn own_lease(served: &Served) -> DeploymentId {
    served.stage.chain.market(|market| {
        let own = |provider: &Address| provider.as_str() == ADDRESS;
        let lease = market
            .leases()
            .find(|lease| own(&lease.lease.id.provider))
            .unwrap();
        lease.lease.id.deployment().clone()
    })
}

fn check_end(served: &Served, port: u16) {
    let values = scraped(port, &served.provider, "the end of all orders", |values| {
        values.get("provider_deployment{action=\"teardown\",result=\"success\"}") >= Some(&1.0)
            && values.get("provider_order_manager") == Some(&0.0)
    });
    let (bids, leases) = served.stage.chain.market(|market| {
        let own = |provider: &Address| provider.as_str() == ADDRESS;
        let bids = market.bids().filter(|bid| own(&bid.id.provider)).count();
        let leases = market
            .leases()
            .filter(|lease| own(&lease.lease.id.provider))
            .count();
        (bids as f64, leases as f64)
    });
    assert_eq!((bids, leases), (4.0, 1.0));
    check_orders(&values, bids, leases);
    check_deployments(served, &values, bids);
    check_new_names(served, &values, bids);
    check_ended(served, &values, [bids, MANIFESTS, events(served, "withdrawn")]);
    let health = |name: &str| {
        let name = format!("\"health\":\"{name}\"");
        served.provider.output().matches(&name).count() as f64
    };
    let (good, unknown, bad) = (health("good"), health("unknown"), health("bad"));
    // A workload that starts is not healthy either.
    let unhealthy = events(served, "health_changed") - good;
    check(
        &values,
        &[
            ("provider_deployment_monitor_health{state=\"up\"}", good),
            ("provider_deployment_monitor_health{state=\"down\"}", unhealthy),
            ("provider_deployment_monitor_health{state=\"err\"}", unknown),
            ("akash_provider_health_changes_total{health=\"bad\"}", bad),
        ],
    );
    metrics_names::check(&values);
    check_capacity(&values);
    check_money(served, &values);
    check_scans(served, port);
    check_status_requests(served, port);
    let height = served.stage.chain.market(|market| market.height());
    let processed = values["akash_provider_engine_height"];
    assert!(
        (1.0..=height as f64).contains(&processed),
        "{processed} of {height}"
    );
}

/// Starts a provider that offers GPUs, and creates its first lease.
fn start(port: u16) -> Served {
    let listener = format!("--metrics-listener=127.0.0.1:{port}");
    let stage = Stage::new("metrics-engine", true);
    stage.chain.market(|market| {
        let mut record = market.provider(&ADDRESS.parse().unwrap()).unwrap().clone();
        record.attributes = vec![Attribute {
            key: "capabilities/gpu/vendor/nvidia/model/a100".to_owned(),
            value: "true".to_owned(),
        }];
        market.execute(&Msg::UpdateProvider(record)).unwrap();
    });
    let record = format!("--record={}", stage.path("recording").display());
    let flags = [&[listener.as_str(), &record], &FLAGS[..]].concat();
    Served::on(stage, FAST, &flags)
}

#[test]
fn metrics_agree_with_the_chain_and_the_events() {
    let port = free_port().unwrap();
    let served = start(port);
    // A frequent scraper must not disturb the provider.
    let stop = Arc::new(AtomicBool::new(false));
    let scraper = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut scrapes = 0;
            while !stop.load(Ordering::Relaxed) {
                scrapes += u32::from(get(port, OPEN_METRICS).is_some_and(|(head, _)| head.contains(" 200 ")));
                std::thread::sleep(Duration::from_millis(100));
            }
            scrapes
        })
    };
    check_lease(&served, port);
    send_again(&served, port);
    order(&served, 20, &[("units: 500m", "units: 300")]);
    order(
        &served,
        21,
        &[(
            "    anywhere:\n      pricing:",
            "    anywhere:\n      attributes: { region: mars }\n      pricing:",
        )],
    );
    lose(&served, 22);
    let closed = bid_with_port(&served, port);
    // No lease uses this bid, so that the provider closes the bid after five minutes.
    let unused = order(&served, 24, &[]);
    bid_of(&served, &unused);
    let placed = || events(&served, "bid_placed") == 4.0;
    served.until("four bids", placed);
    served
        .stage
        .chain
        .tenant(TenantMsg::CloseDeployment { id: closed })
        .unwrap();
    // The next withdrawal is due after one minute of block time.
    served.stage.chain.advance(Duration::from_secs(400));
    served.until("the close of the unused bid", || {
        served.has_printed("\"outcome\":\"timeout\"")
    });
    served.until("a withdrawal", || served.has_printed("\"event\":\"withdrawn\""));
    scraped(port, &served.provider, "a counted withdrawal", |values| {
        values.get("akash_provider_withdrawals_total{result=\"success\"}") >= Some(&1.0)
    });
    check_withdrawn(&served, port);
    let lease = own_lease(&served);
    let (head, open) = get(port, OPEN_METRICS).unwrap();
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    check_documentation(&format!("{open}{}", kubernetes_scrape()));
    served
        .stage
        .chain
        .tenant(TenantMsg::CloseDeployment { id: lease })
        .unwrap();
    served.until("the end of the lease", || {
        served.has_printed("\"event\":\"lease_closed\"")
    });
    check_end(&served, port);
    check_files(&served, port);
    check_process(&served, port);
    stop.store(true, Ordering::Relaxed);
    assert!(scraper.join().unwrap() > 10);
    let (head, plain) = get(port, "*/*").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(plain.contains("# TYPE provider_bid counter\n"), "{plain}");
    assert!(parse(&plain).len() > 200);
}
