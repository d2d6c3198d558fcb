//! Runs the program with a real Redis server and a publisher. The program must print the won leases.

use akash_provider_core::bus::Bus;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::{Dec, DecCoin, Event, LeaseId, Topic};
use akash_provider_redis::{Location, RedisBus};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

const LEASE: &str =
    "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

#[tokio::test]
async fn won_lease_is_printed() -> Result<(), Box<dyn Error>> {
    let port = testbed::free_port()?;
    let folder = tempfile::tempdir()?;
    let words = ["--port", &port.to_string(), "--save", ""].map(str::to_owned);
    let Some(_redis) = testbed::Redis::start("redis-server", port, folder.path(), &words)? else {
        return Ok(());
    };
    let url = format!("redis://127.0.0.1:{port}");
    let mut watcher = Command::new(env!("CARGO_BIN_EXE_example-watch_bus"))
        .arg(&url)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = watcher.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(lines).lines();
    assert_eq!(lines.next().transpose()?.as_deref(), Some("watching"));
    let lease: LeaseId = LEASE.parse()?;
    let price = DecCoin::new(&"uact".into(), Dec::from_int(3));
    let bus = RedisBus::new(url.parse::<Location>()?, LeadershipGate::new(true));
    bus.publish(Topic::Facts, Arc::new(Event::LeaseWon { lease, price }))
        .await?;
    assert_eq!(lines.next().transpose()?, Some(format!("won {LEASE} for 3uact")));
    watcher.kill()?;
    watcher.wait()?;
    Ok(())
}
