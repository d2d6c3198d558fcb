//! `devnet` on the command line. The network runs in one process, and each command of the tenant in another.

use akash_provider_chain::convert::to_any;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{EndpointLimits, Reader};
use akash_provider_core::chain::{ChainQuery, LeaseFilter, PageRequest};
use akash_provider_core::types::{
    BidId, Coin, DeploymentId, LeaseState, Msg, OrderId, OrderState, ProviderInfo, ProviderRecord,
};
use akash_provider_devnet::keys::Keys;
use akash_provider_devnet::wallet::Wallet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const SDL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");

#[test]
fn address_in_use_is_reported_with_its_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [
        ("--listen-rpc", "--listen-grpc"),
        ("--listen-grpc", "--listen-rpc"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
            .args(["devnet", flag, &address, other, "127.0.0.1:0"])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            format!(
                "error: {flag} {address}: another program uses this address: stop it, or set another address\n"
            )
        );
    }
}

/// A running network. Dropping the value stops the network.
struct Served {
    child: Child,
    about: Value,
}

#[test]
fn suggested_next_commands_work() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let served = Served::start(&home, &folder.path().join("market.state"));
    let next: Vec<&str> = served.about["next"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l.as_str().unwrap())
        .collect();
    let workloads = served.about["workloads"].as_str().unwrap();
    assert!(workloads.contains("are simulated"), "{workloads}");
    let (export, commands) = next.split_first().unwrap();
    let deploy = commands
        .iter()
        .find(|line| line.contains("tx deployment create my-app.yaml"))
        .unwrap();
    let line = format!("{export}\n{} --yes", deploy.replace("my-app.yaml", SDL));
    let program = Path::new(env!("CARGO_BIN_EXE_provider-daemon")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("PATH", path)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && stderr.contains("to accept a bid, run"),
        "{line}\n{stderr}"
    );
    // The printed settings also work for its tenant.
    let sdl = format!("{export}\nprovider-daemon devnet tenant deploy {SDL} --dseq 9000 --output json");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &sdl])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Tenant commands create no keys.
    let empty = folder.path().join("empty");
    let (success, why) = served.try_tenant(&empty, &["close", "1"]);
    assert!(
        !success && why.contains("--keyring-dir") && !empty.exists(),
        "{why}"
    );
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Served {
    fn start(home: &Path, state: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
            .args([
                "devnet",
                "--listen-rpc",
                "127.0.0.1:0",
                "--listen-grpc",
                "127.0.0.1:0",
            ])
            .args(["--block-time", "100ms", "--output", "json", "--keyring-dir"])
            .arg(home)
            .arg("--state")
            .arg(state)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let about = serde_json::from_str(&line).unwrap();
        Self { child, about }
    }

    fn rpc(&self) -> &str {
        self.about["rpc"].as_str().unwrap()
    }

    fn tenant(&self, home: &Path, args: &[&str]) -> Value {
        let (output, text) = self.try_tenant(home, args);
        assert!(output, "{args:?}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    fn try_tenant(&self, home: &Path, args: &[&str]) -> (bool, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
            .args(["devnet", "tenant"])
            .args(args)
            .args(["--output", "json", "--node", self.rpc(), "--keyring-dir"])
            .arg(home)
            .output()
            .unwrap();
        let stream = if output.status.success() {
            output.stdout
        } else {
            output.stderr
        };
        (output.status.success(), String::from_utf8(stream).unwrap())
    }

    fn end(mut self) {
        kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            Signal::SIGTERM,
        )
        .unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

async fn register(provider: &Wallet) {
    let record = ProviderRecord {
        owner: provider.address().clone(),
        host_uri: "https://provider.example:8443".to_owned(),
        attributes: Vec::new(),
        info: ProviderInfo::default(),
    };
    let any = to_any(&Msg::CreateProvider(record));
    provider.send(vec![any]).await.unwrap();
}

/// Places a bid at the order's maximum price.
async fn bid_on(provider: &Wallet, reader: &Reader, order: &OrderId) -> BidId {
    let found = reader.order(order).await.unwrap().unwrap();
    let id = order.clone().bid(provider.address().clone());
    let msg = Msg::CreateBid {
        id: id.clone(),
        price: found.spec.max_price().unwrap(),
        deposit: Coin::new("uact", 500_000),
        resources_offer: found.spec.resources.clone(),
        reclamation_window: None,
    };
    provider.send(vec![to_any(&msg)]).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_commands_order_accept_pay_update_and_close() {
    let folder = tempfile::tempdir().unwrap();
    let (home, state) = (folder.path().join("home"), folder.path().join("market.state"));
    let served = Served::start(&home, &state);
    let keys = Keys::open(Some(&home)).unwrap();
    let us = keys.private_key("provider").unwrap();
    assert_eq!(served.about["accounts"]["provider"], us.address().as_str());
    let reader = Reader::new(Endpoints::new(&[served.rpc()], "devnet", EndpointLimits::default()).unwrap());
    let provider = Wallet::new(Arc::new(reader.clone()), us);
    register(&provider).await;

    let deployed = served.tenant(&home, &["deploy", SDL, "--dseq", "7"]);
    assert_eq!(deployed["dseq"], 7);
    let id: DeploymentId = deployed["deployment"].as_str().unwrap().parse().unwrap();
    let (success, why) = served.try_tenant(&home, &["accept", "7"]);
    assert!(!success && why.contains("has no open bid yet"), "{why}");
    let order = id.clone().group(1).order(1);
    let bid = bid_on(&provider, &reader, &order).await;
    let accepted = served.tenant(&home, &["accept", "7"]);
    assert_eq!(accepted["bids"][0], bid.to_string());
    let lease = reader.lease(&bid).await.unwrap().value.unwrap().lease;
    assert_eq!(lease.state, LeaseState::Active);

    let before = reader.deployment(&id).await.unwrap().unwrap();
    served.tenant(&home, &["deposit", "7", "3000000uact"]);
    let after = reader.deployment(&id).await.unwrap().unwrap();
    assert!(after.escrow.funds["uact"] > before.escrow.funds["uact"]);
    let changed = folder.path().join("changed.yaml");
    let text = std::fs::read_to_string(SDL)
        .unwrap()
        .replace("nginx:1.27", "nginx:1.28");
    std::fs::write(&changed, text).unwrap();
    served.tenant(&home, &["update", "7", changed.to_str().unwrap()]);
    let updated = reader.deployment(&id).await.unwrap().unwrap();
    assert_ne!(updated.deployment.hash, before.deployment.hash);
    served.end();

    // The chain continues at its previous state.
    let served = Served::start(&home, &state);
    let reader = Reader::new(Endpoints::new(&[served.rpc()], "devnet", EndpointLimits::default()).unwrap());
    let lease = reader.lease(&bid).await.unwrap().value.unwrap().lease;
    assert_eq!(lease.state, LeaseState::Active);
    served.tenant(&home, &["close", "7"]);
    let order = reader.order(&order).await.unwrap().unwrap();
    assert_eq!(order.state, OrderState::Closed);
    let filter = LeaseFilter {
        state: Some(LeaseState::Active),
        ..LeaseFilter::default()
    };
    let live = reader.leases(&filter, PageRequest::default()).await.unwrap();
    assert_eq!(live.items, []);
    let (success, why) = served.try_tenant(&home, &["close", "7"]);
    assert!(!success && why.contains("Deployment closed"), "{why}");
    served.end();
}

#[test]
fn embedded_market_is_the_same_over_rpc() {
    let output = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
        .args([
            "dev",
            "--once",
            "--accept-any",
            "--wire",
            "--block-time",
            "300ms",
            "--output",
            "json",
            SDL,
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}\n{errors}");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let summary = lines.into_iter().find(|line| line["event"] == "summary").unwrap();
    assert_eq!(summary["problem"], Value::Null, "{summary}");
    assert_ne!(summary["to_run_ms"], Value::Null, "{summary}");
}
