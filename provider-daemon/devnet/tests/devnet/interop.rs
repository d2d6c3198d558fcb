//! Interoperability with the TypeScript SDK of Akash as a tenant: its transactions and queries on the
//! development network.
//!
//! The SDK is installed once into the user's cache, in the versions of `testbed/interop/package-lock.json`.

use super::driver::{CHAIN_ID, bid, chain, key};
use akash_provider_chain::convert::to_any;
use akash_provider_chain::keyring::{DEFAULT_PATH, derive_key, generate_mnemonic};
use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::ChainEvents;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::error::Error;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{Address, BidId, ChainEvent, Dec, DeploymentId, LeaseState, Msg, OrderId};
use akash_provider_devnet::wallet::{Wallet, allowance};
use akash_provider_devnet::{Devnet, DevnetConfig};
use data_encoding::BASE64;
use futures::StreamExt;
use futures::stream::BoxStream;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const SDL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../samples/web.yaml");
const DSEQ: u64 = 77;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the folder with the TypeScript SDK and the tenant script. Without the SDK, prints the reason and
/// returns `None`.
fn installed() -> Option<PathBuf> {
    let found = testbed::clients::node();
    found
        .inspect_err(|why| println!("skipped: the TypeScript SDK is not available: {why}"))
        .ok()
}

/// Development network with two clients: a tenant script with a chain account, and [`AkashClient`].
struct Sides {
    folder: PathBuf,
    mnemonic: SecretString,
    owner: Address,
    devnet: Devnet,
    client: AkashClient,
    events: BoxStream<'static, Result<ChainEvent, Error>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Sides {
    async fn start(folder: PathBuf) -> Self {
        let mnemonic = generate_mnemonic().unwrap();
        let owner = derive_key(&mnemonic, &"".into(), DEFAULT_PATH).unwrap();
        let chain = chain();
        chain.market(|market| {
            for coin in allowance() {
                market.fund(owner.address(), &coin);
            }
        });
        let mut config = DevnetConfig::new(chain);
        config.block_time = Some(Duration::from_millis(300));
        let devnet = Devnet::start(config).await.unwrap();
        let mut settings = ClientSettings::new(vec![devnet.rpc_url()], CHAIN_ID);
        settings.signer = Some(TxSigner::new(key(2), LeadershipGate::new(true)));
        let stop = CancellationToken::new();
        let (client, task) = AkashClient::start(settings, stop.clone()).unwrap();
        Self {
            folder,
            mnemonic,
            owner: owner.address().clone(),
            devnet,
            events: client.subscribe(key(2).address()),
            client,
            stop,
            task: tokio::spawn(task),
        }
    }

    /// Runs the tenant script with the action `act`. Returns the printed JSON value.
    async fn tenant(&self, act: &str, hash: &str) -> Value {
        let grpc = self.devnet.grpc_url().replace("grpc://", "http://");
        let asked = json!({
            "act": act, "rpc": self.devnet.rpc_url(), "grpc": grpc, "sdl": SDL, "hash": hash,
            "mnemonic": self.mnemonic.expose_secret(), "dseq": DSEQ.to_string(),
        });
        let folder = self.folder.clone();
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

    async fn hears(&mut self, wanted: impl Fn(&ChainEvent) -> bool) {
        let receiving = async {
            while let Some(event) = self.events.next().await {
                if wanted(&event.unwrap()) {
                    return;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, receiving).await.unwrap();
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        self.devnet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_sdk_of_the_network_interoperates() {
    let Some(folder) = installed() else { return };
    let mut sides = Sides::start(folder).await;
    let order = sdk_orders(&mut sides).await;
    let bid = order.bid(key(2).address().clone());
    sdk_accepts_bid(&mut sides, &bid).await;
    sides.stop().await;
}

async fn sdk_orders(sides: &mut Sides) -> OrderId {
    let deployed = sides.tenant("deploy", "").await;
    assert_eq!(deployed["address"], sides.owner.as_str());
    assert_eq!(deployed["sent"]["code"], 0, "{deployed}");
    let id = DeploymentId::new(sides.owner.clone(), DSEQ);
    // The market has the group of this project's SDL parser.
    let record = sides.devnet.chain().market(|m| m.deployment(&id)).unwrap();
    let sdl = our_sdl();
    assert_eq!(record.deployment.hash, sdl.hash);
    assert_eq!(*record.groups[0].spec, sdl.groups[0]);
    // The SDK reads the responses.
    let hash = BASE64.encode(&sdl.hash);
    let found = &deployed["found"];
    assert_eq!(deployed["hash"], hash);
    assert_eq!(found["deployment"]["id"]["dseq"], "77");
    assert_eq!(found["deployment"]["hash"], hash);
    assert_eq!(found["groups"][0]["groupSpec"]["name"], sdl.groups[0].name);
    assert_eq!(found["escrowAccount"]["id"]["xid"], id.to_string());
    let order = id.group(1).order(1);
    let wanted = ChainEvent::OrderCreated { id: order.clone() };
    sides.hears(|event| *event == wanted).await;
    order
}

fn our_sdl() -> Sdl {
    akash_provider_core::sdl::parse(&std::fs::read_to_string(SDL).unwrap()).unwrap()
}

async fn sdk_accepts_bid(sides: &mut Sides, bid_id: &BidId) {
    let mut msg = bid(bid_id);
    if let Msg::CreateBid { resources_offer, .. } = &mut msg {
        resources_offer.clone_from(&our_sdl().groups[0].resources);
    }
    let any = to_any(&msg);
    let provider = Wallet::new(Arc::new(sides.client.reader().clone()), key(2));
    let sent = provider.submit(vec![any.clone()]).await.unwrap();
    provider.wait(&sent).await.unwrap();
    let accepted = sides.tenant("accept", &sent.hash.to_string()).await;
    let theirs = &accepted["bids"][0]["bid"];
    assert_eq!(theirs["id"]["provider"], key(2).address().as_str());
    let amount: Dec = theirs["price"]["amount"].as_str().unwrap().parse().unwrap();
    assert_eq!(amount, Dec::from_int(40), "{theirs}");
    let provider = &accepted["provider"]["provider"];
    assert_eq!(provider["hostUri"], "https://provider.example:8443");
    let message = &accepted["theirs"]["tx"]["body"]["messages"][0];
    assert_eq!(message["typeUrl"], any.type_url);
    assert_eq!(message["value"], BASE64.encode(&any.value), "{message}");
    let events = accepted["theirs"]["txResponse"]["events"].as_array().unwrap();
    let created = |event: &Value| event["type"] == "akash.market.v1.EventBidCreated";
    assert!(events.iter().any(created), "{events:?}");
    assert_eq!(accepted["sent"]["code"], 0, "{accepted}");
    assert_eq!(accepted["leases"]["leases"].as_array().unwrap().len(), 1);
    let leased = sides.devnet.chain().market(|m| m.lease(bid_id)).unwrap();
    assert_eq!(leased.lease.state, LeaseState::Active);
    // The client receives the events of the SDK's transaction.
    sides
        .hears(|event| matches!(event, ChainEvent::LeaseCreated { id, .. } if id == bid_id))
        .await;
}
