//! The embedded example on a custom chain. At its end, the example reads the events from the ledger.

use akash_provider_core::Error;
use akash_provider_core::chain::{ChainClient, ChainTx};
use akash_provider_core::market::{TenantMsg, network_params};
use akash_provider_core::types::{BlockTime, Coin, Msg, ProviderRecord, TxOutcome};
use example_embedded::{
    BLOCK, CHAIN_ID, DENOM, Failed, Network, PROVIDER, Play, ProviderBackends, SDL, TENANT,
};
use example_own_chain::{Genesis, OwnChain};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Real time between two blocks. The block time advances faster.
const PAUSE: Duration = Duration::from_millis(10);

/// [`OwnChain`] in the example scenario, with automatic blocks.
#[derive(Debug)]
struct LedgerNetwork(OwnChain);

#[async_trait::async_trait]
impl Network for LedgerNetwork {
    fn client(&self) -> Arc<dyn ChainClient> {
        Arc::new(self.0.clone())
    }

    async fn tenant(&self, msg: TenantMsg) -> Result<(), Error> {
        let height = self.0.tenant(msg).await?;
        println!("block {height} contains the message of the tenant");
        Ok(())
    }

    fn block(&self) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let path = std::env::temp_dir().join(format!("ledger-{}.jsonl", std::process::id()));
    let played = play(&path).await;
    std::fs::remove_file(&path)?;
    played
}

async fn play(path: &Path) -> Result<(), Failed> {
    let chain = OwnChain::open(path, &genesis()?)?;
    for damage in chain.damages() {
        eprintln!("{damage}");
    }
    let ticker = tokio::spawn(chain.clone().tick(PAUSE, BLOCK, |error| eprintln!("{error}")));
    register(&chain).await?;
    let ports = ProviderBackends {
        network: Arc::new(LedgerNetwork(chain)),
        ..ProviderBackends::memory()?
    };
    let play = Play::start(ports, SDL).await?;
    play.order().await?;
    play.run().await?;
    let earned = play.close().await?;
    assert!(earned.amount > 0, "a lease that ran has earnings");
    play.stop().await?;
    ticker.abort();

    let story = story(path)?;
    println!("{}", story.join(" → "));
    let milestones = [
        "create_provider",
        "create_deployment",
        "create_bid",
        "create_lease",
        "close_deployment",
    ];
    let mut messages = story.iter();
    for milestone in milestones {
        assert!(
            messages.any(|msg| msg == milestone),
            "{milestone} is missing or out of order: {story:?}"
        );
    }
    Ok(())
}

fn genesis() -> Result<Genesis, Failed> {
    let coin = Coin::new(DENOM, 100_000_000);
    Ok(Genesis {
        chain_id: CHAIN_ID.to_owned(),
        time: BlockTime(1_700_000_000_000),
        params: network_params(),
        money: vec![(PROVIDER.parse()?, coin.clone()), (TENANT.parse()?, coin)],
    })
}

async fn register(chain: &OwnChain) -> Result<(), Failed> {
    let record = ProviderRecord {
        owner: PROVIDER.parse()?,
        host_uri: "https://provider.example.com:8443".to_owned(),
        info: Default::default(),
        attributes: Vec::new(),
    };
    match chain.broadcast_msgs(vec![Msg::CreateProvider(record)]).await? {
        TxOutcome::Committed { .. } => Ok(()),
        other => Err(format!("the provider is not registered: {other:?}").into()),
    }
}

/// Returns the names of the messages in the ledger file. Parses the lines as plain JSON, to show that other
/// programs can read the file.
fn story(path: &Path) -> Result<Vec<String>, Failed> {
    let mut names = Vec::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        for tx in line["block"]["txs"].as_array().into_iter().flatten() {
            let of_provider = tx["provider"].as_array().into_iter().flatten();
            let all = of_provider.chain(tx.get("tenant"));
            names.extend(all.filter_map(|msg| msg["msg"].as_str()).map(str::to_owned));
        }
    }
    Ok(names)
}
