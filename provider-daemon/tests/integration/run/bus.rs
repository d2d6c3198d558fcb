//! Events on Redis. The provider works with and without the server.

use crate::stage::Stage;
use nix::sys::signal::Signal;
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));

const PASSWORD: [&str; 2] = ["--requirepass", "hunter2"];

#[test]
fn events_are_read_by_another_process_and_dead_bus_ends_no_lease() {
    let mut stage = Stage::new("bus", true);
    let port = testbed::free_port().unwrap();
    let Some(server) = stage.redis(port, &PASSWORD) else {
        return;
    };
    stage.start_node(FAST);
    let password = stage.path("password");
    std::fs::write(&password, "hunter2\n").unwrap();
    let url = format!("redis://127.0.0.1:{port}");
    let bus = ["--bus", &url, "--bus-password-file", password.to_str().unwrap()];
    let tail = stage.running("tail", &[&["bus", "tail", "--output=json"], &bus[..]].concat());
    let mut provider = stage.provider("provider", &bus);
    provider.says("ready: bidding");
    assert!(
        provider
            .output()
            .contains(&format!("publishing events to {url}/0"))
    );
    let id = stage.order(1);
    let bid = stage.bid(&id, &provider);
    tail.says("\"event\":\"bid_placed\"");
    tail.says("\"topic\":\"akash.provider.bidengine.status\"");
    let facts = tail.output();
    let facts = facts
        .lines()
        .filter(|line| line.contains("\"topic\":\"akash.provider.facts\""));
    let facts: Vec<_> = facts
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .collect();
    assert_eq!(facts[0]["event"]["event"], "order_seen", "{facts:?}");
    drop(server);
    stage.accept(bid.id);
    provider.says("lease won");
    let Some(_server) = stage.redis(port, &PASSWORD) else {
        return;
    };
    // Retained events are published again, and the reader is notified of the loss.
    tail.says("{\"lost\":null}");
    let args = [
        "bus",
        "tail",
        "akash.provider.cluster.status",
        "--last",
        "--output=json",
    ];
    let last = stage.running("last", &[&args[..], &bus[..]].concat());
    last.says("\"leases\":[{");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    assert!(!provider.dump().contains("hunter2"));
}

#[test]
fn invalid_bus_is_refused_with_its_flag() {
    let stage = Stage::new("no-bus", true);
    for (args, expected) in [
        (&["--bus=http://x"][..], "unknown scheme `http`"),
        (
            &["--bus=redis://x", "--bus-password-file=/none"],
            "--bus-password-file: cannot read /none",
        ),
        (&["--bus-prefix=x"], "--bus <URL>"),
    ] {
        let (code, _, err) = stage.ran(&[&["bus", "tail"], args].concat());
        assert_ne!(code, 0);
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    let (_, _, err) = stage.ran(&["bus", "tail", "nonsense", "--bus=redis://x"]);
    assert!(
        err.contains("expected one of akash.provider.cluster.status"),
        "{err}"
    );
    let (code, _, err) = stage.ran(&["bus", "tail"]);
    assert_eq!(code, 1);
    assert!(err.contains("missing --bus"), "{err}");
}
