//! The network's own TypeScript SDK as a tenant: its transactions land here, and it reads what ours did.
//!
//! It is installed once into the user's cache, in the versions of `testbed/interop/package-lock.json`.

use super::calls::get;
use super::driver::{CHAIN_ID, bid, chain, key};
use akash_provider_chain::convert::to_any;
use akash_provider_chain::keyring::{DEFAULT_PATH, generate_mnemonic, key_of_mnemonic};
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::ChainEvents;
use akash_provider_core::types::{BidId, ChainEvent, DeploymentId, GroupId, LeaseState, Msg, OrderId};
use data_encoding::{BASE64, HEXLOWER};
use futures::StreamExt;
use provider_daemon::devnet::wallet::{Wallet, allowance};
use provider_daemon::devnet::{Devnet, DevnetConfig};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const SDL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testbed/interop");
const FILES: [&str; 3] = ["package.json", "package-lock.json", "chain.mjs"];
const DSEQ: u64 = 77;
/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder with the SDK and the script; says why there is none.
fn installed() -> Option<PathBuf> {
    let skip = |why: &str| {
        println!("skipped: the TypeScript SDK cannot be had: {why}");
        None
    };
    let runs = |program: &str| {
        Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|o| o.status.success())
    };
    if !runs("node") || !runs("npm") {
        return skip("node and npm are not both installed");
    }
    let mut hash = Sha256::new();
    for file in FILES {
        hash.update(std::fs::read(Path::new(SOURCE).join(file)).unwrap());
    }
    let name = HEXLOWER.encode(&hash.finalize()[..8]);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let Some(cache) = cache else {
        return skip("there is no home directory");
    };
    let folder = cache.join("akash-provider").join("interop").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    let parent = folder.parent().unwrap();
    std::fs::create_dir_all(parent).unwrap();
    // Whole or not at all: whoever is first puts it into its place.
    let scratch = tempfile::tempdir_in(parent).unwrap();
    for file in FILES {
        std::fs::copy(Path::new(SOURCE).join(file), scratch.path().join(file)).unwrap();
    }
    let install = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    if !install.status.success() {
        return skip(&String::from_utf8_lossy(&install.stderr));
    }
    let moved = std::fs::rename(scratch.path(), &folder);
    assert!(moved.is_ok() || folder.is_dir(), "{moved:?}");
    Some(folder)
}

/// Lets the tenant do something; what it saw.
async fn tenant(folder: &Path, asked: Value) -> Value {
    let folder = folder.to_owned();
    let run = move || {
        let output = Command::new("node")
            .arg("chain.mjs")
            .arg(asked.to_string())
            .current_dir(folder)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_networks_typescript_sdk_and_we_understand_each_other() {
    let Some(folder) = installed() else { return };
    let mnemonic = generate_mnemonic().unwrap();
    let owner = key_of_mnemonic(&mnemonic, &"".into(), DEFAULT_PATH).unwrap();
    let chain = chain();
    chain.market(|market| {
        for coin in allowance() {
            market.fund(owner.address(), &coin);
        }
    });
    let devnet = Devnet::start(DevnetConfig {
        block_time: Some(Duration::from_millis(300)),
        ..DevnetConfig::new(chain)
    })
    .await
    .unwrap();
    let mut settings = ClientSettings::new(vec![devnet.rpc_url()], CHAIN_ID);
    settings.key = Some(key(2));
    let stop = CancellationToken::new();
    let (client, task) = AkashClient::start(settings, stop.clone()).unwrap();
    let task = tokio::spawn(task);
    let mut events = client.subscribe(key(2).address());
    let grpc = devnet.grpc_url().replace("grpc://", "http://");
    let ask = |act: &str, hash: &str| {
        json!({
            "act": act, "rpc": devnet.rpc_url(), "grpc": grpc, "mnemonic": mnemonic.expose_secret(),
            "sdl": SDL, "dseq": DSEQ.to_string(), "hash": hash,
        })
    };

    // Its transaction lands, and the market has what our own reading of the SDL says.
    let deployed = tenant(&folder, ask("deploy", "")).await;
    assert_eq!(deployed["address"], owner.address().as_str());
    assert_eq!(deployed["sent"]["code"], 0, "{deployed}");
    let id = DeploymentId {
        owner: owner.address().clone(),
        dseq: DSEQ,
    };
    let record = devnet.chain().market(|m| m.deployment(&id)).unwrap();
    let sdl = akash_provider_core::sdl::parse(&std::fs::read_to_string(SDL).unwrap()).unwrap();
    assert_eq!(record.deployment.hash, sdl.hash);
    assert_eq!(deployed["hash"], BASE64.encode(&sdl.hash));
    assert_eq!(*record.groups[0].spec, sdl.groups[0]);
    // It reads our answers.
    let found = &deployed["found"]["deployment"];
    assert_eq!(
        (&found["id"]["dseq"], &found["hash"]),
        (&json!("77"), &json!(BASE64.encode(&sdl.hash)))
    );
    assert_eq!(
        deployed["found"]["groups"][0]["groupSpec"]["name"],
        sdl.groups[0].name
    );
    assert_eq!(deployed["found"]["escrowAccount"]["id"]["xid"], id.to_string());

    // Our client hears of it, and our bid can be read by the SDK.
    let order = OrderId {
        group: GroupId {
            deployment: id,
            gseq: 1,
        },
        oseq: 1,
    };
    let ordered = async {
        while let Some(event) = events.next().await {
            if matches!(event.unwrap(), ChainEvent::OrderCreated { id } if id == order) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, ordered).await.unwrap();
    let bid_id = BidId {
        order,
        provider: key(2).address().clone(),
    };
    let Msg::CreateBid {
        id,
        price,
        deposit,
        reclamation_window,
        ..
    } = bid(&bid_id)
    else {
        unreachable!()
    };
    let msg = Msg::CreateBid {
        id,
        price,
        deposit,
        resources_offer: sdl.groups[0].resources.clone(),
        reclamation_window,
    };
    let any = to_any(&msg);
    let api = client.reader().clone();
    let provider = Wallet::new(Arc::new(api), key(2));
    let sent = provider.submit(vec![any.clone()]).await.unwrap();
    provider.wait(&sent).await.unwrap();
    let accepted = tenant(&folder, ask("accept", &sent.hash.to_string())).await;
    let theirs = &accepted["bids"][0]["bid"];
    assert_eq!(theirs["id"]["provider"], key(2).address().as_str());
    let amount: f64 = theirs["price"]["amount"].as_str().unwrap().parse().unwrap();
    assert!((amount - 40.0).abs() < f64::EPSILON, "{theirs}");
    assert_eq!(
        accepted["provider"]["provider"]["hostUri"],
        "https://provider.example:8443"
    );
    let message = &accepted["theirs"]["tx"]["body"]["messages"][0];
    assert_eq!(message["typeUrl"], any.type_url);
    assert_eq!(message["value"], BASE64.encode(&any.value), "{message}");
    let kinds: Vec<&str> = accepted["theirs"]["txResponse"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["type"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"akash.market.v1.EventBidCreated"), "{kinds:?}");
    assert_eq!(accepted["sent"]["code"], 0, "{accepted}");
    let leased = devnet.chain().market(|m| m.lease(&bid_id)).unwrap();
    assert_eq!(leased.lease.state, LeaseState::Active);
    assert_eq!(accepted["leases"]["leases"].as_array().unwrap().len(), 1);
    // And our follower reads what its transaction did.
    let won = async {
        while let Some(event) = events.next().await {
            if matches!(event.unwrap(), ChainEvent::LeaseCreated { id, .. } if id == bid_id) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, won).await.unwrap();
    let hash = accepted["sent"]["transactionHash"].as_str().unwrap();
    let (_, landed) = get(&devnet.rpc_url(), &format!("/tx?hash=0x{hash}")).await;
    assert_eq!(landed["result"]["tx_result"]["code"], 0);
    stop.cancel();
    task.await.unwrap();
    devnet.stop().await;
}
