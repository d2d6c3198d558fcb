//! `devnet`: the embedded market served as a node, and tenants who act on one.

use super::bids::{open_bids, open_orders};
use super::read_sdl;
use crate::args::Output;
use crate::args::devnet::{Accepted, DevnetAct, DevnetArgs, ServeArgs, TenantArgs, TenantCommand};
use crate::dev::StateFile;
use crate::dev::tenant::create_deployment;
use akash_provider_chain::convert::tenant_to_any;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{Limits, Reader};
use akash_provider_core::chain::{ChainQuery, MemoryChain};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::types::{Address, BidId, BlockTime, DeploymentId, OrderId};
use akash_provider_devnet::keys::Keys;
use akash_provider_devnet::wallet::{Wallet, allowance};
use akash_provider_devnet::{Devnet, DevnetConfig};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};

/// What people would take for more than it is.
const WORKLOADS: &str =
    "what a provider runs on it is simulated, unless that has --cluster-k8s or --kubeconfig";

/// Serves a development network until it is stopped, or acts on one.
///
/// # Errors
/// An address is taken, a file is none of ours, or the node refuses what a tenant does.
pub fn run(args: &DevnetArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = match &args.act {
        None => runtime.block_on(serve(&args.serve)),
        Some(DevnetAct::Tenant(args)) => runtime.block_on(tenant(args)),
    };
    runtime.shutdown_timeout(Duration::from_secs(1));
    result.map(|()| ExitCode::SUCCESS)
}

fn now() -> anyhow::Result<BlockTime> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970")?;
    Ok(BlockTime(i64::try_from(since.as_millis())?))
}

/// The chain of the state file, or a new one. A chain that stood still goes on at the present time.
fn chain(args: &ServeArgs) -> anyhow::Result<MemoryChain> {
    let state = args.state.as_deref().map(StateFile::open).transpose()?;
    let kept = state.as_ref().and_then(StateFile::market);
    let chain = match kept {
        Some(market) => MemoryChain::with_market(market),
        None => MemoryChain::new(MarketConfig::new(args.chain_id.clone(), now()?)),
    };
    let behind = now()?.0 - chain.market(|m| m.time()).0;
    // A clock that was set back leaves the chain where it is: its time never goes backwards.
    if let Ok(millis @ 1..) = u64::try_from(behind) {
        chain.advance(Duration::from_millis(millis));
    }
    if let Some(state) = &state {
        state.follow(&chain);
    }
    Ok(chain)
}

async fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let keys = Keys::open(args.keyring_dir.as_deref())?;
    let accounts = keys.accounts()?;
    let chain = chain(args)?;
    chain.market(|market| {
        for (_, address) in &accounts {
            // Only once: a chain from a state file has given it before.
            if market.account(address).is_none() {
                for coin in allowance() {
                    market.fund(address, &coin);
                }
            }
        }
        for (address, coin) in &args.fund {
            market.fund(address, coin);
        }
    });
    // Heard before anything is served, so that a signal at the start ends it in order too.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut config = DevnetConfig::new(chain);
    config.block_time = Some(args.block_time);
    config.listen_rpc = args.listen_rpc;
    config.listen_grpc = args.listen_grpc;
    let devnet = Devnet::start(config).await?;
    introduce(args, &devnet, &keys, &accounts);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    devnet.stop().await;
    Ok(())
}

/// Says where it is, whose accounts there are, and what to do next.
fn introduce(args: &ServeArgs, devnet: &Devnet, keys: &Keys, accounts: &[(String, Address)]) {
    let chain_id = devnet.chain().market(|m| m.chain_id().to_owned());
    let (rpc, grpc, folder) = (devnet.rpc_url(), devnet.grpc_url(), keys.folder().display());
    let block = humantime::format_duration(args.block_time);
    let mut text = format!(
        "chain     {chain_id}, a block every {block}\nJSON-RPC  {rpc}\ngRPC      {grpc}\n\
         keyring   {folder} (backend test: anybody can read it)\n"
    );
    for (name, address) in accounts {
        text.push_str(&format!("{name:<9} {address}\n"));
    }
    let next = [
        format!(
            "export AKASH_NODE={rpc} AKASH_CHAIN_ID={chain_id} AKASH_KEYRING_BACKEND=test AKASH_KEYRING_DIR='{folder}'"
        ),
        "provider-daemon tx provider create provider.yaml --from provider".to_owned(),
        "provider-daemon run --from provider --certificate-domain localhost --bid-price-cpu-scale 0.001"
            .to_owned(),
        "provider-daemon tx deployment create my-app.yaml --from tenant".to_owned(),
    ];
    text.push_str(&format!(
        "\nit is a chain alone: {WORKLOADS}\nin another terminal, be its provider and then its tenant:\n"
    ));
    for line in &next {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str("every step to a served tenant is in docs/first-steps.md; Ctrl-C stops the network\n");
    let named = accounts
        .iter()
        .map(|(name, address)| (name.clone(), json!(address.as_str())));
    let object = json!({
        "event": "devnet", "chain_id": chain_id, "rpc": rpc, "grpc": grpc, "keys": folder.to_string(),
        "accounts": Value::Object(named.collect()), "workloads": WORKLOADS, "next": next,
    });
    print(args.output, &text, &object);
}

fn print(output: Output, text: &str, object: &Value) {
    match output {
        Output::Text => crate::say(text),
        Output::Json => crate::say(&format!("{object}\n")),
    }
}

/// A tenant and the node it acts on.
struct Tenant<'a> {
    args: &'a TenantArgs,
    reader: Reader,
    wallet: Wallet,
}

async fn tenant(args: &TenantArgs) -> anyhow::Result<()> {
    let key = Keys::open_existing(args.keyring_dir.as_deref())?.private_key(&args.from)?;
    let reader = Reader::new(Endpoints::new(&args.node, &args.chain_id, Limits::default())?);
    let wallet = Wallet::new(Arc::new(reader.clone()), key);
    let tenant = Tenant { args, reader, wallet };
    match &args.command {
        TenantCommand::Deploy { sdl, dseq, deposit } => {
            let sdl = read_sdl(sdl)?;
            // The newest height, as the network's tools number deployments.
            let newest = ChainQuery::sync_info(&tenant.reader).await?.height;
            let id = tenant.id(dseq.unwrap_or(newest));
            let create = create_deployment(id.clone(), &sdl, deposit.clone());
            tenant.send(&[create], "deployed", &id, &[]).await
        }
        TenantCommand::Accept { what } => {
            let (id, bids) = tenant.accepted(what).await?;
            let taken: Vec<TenantMsg> = bids
                .iter()
                .map(|bid| TenantMsg::CreateLease { bid: bid.clone() })
                .collect();
            tenant.send(&taken, "accepted", &id, &bids).await
        }
        TenantCommand::Update { dseq, sdl } => {
            let (id, hash) = (tenant.id(*dseq), read_sdl(sdl)?.hash);
            let update = TenantMsg::UpdateDeployment { id: id.clone(), hash };
            tenant.send(&[update], "updated", &id, &[]).await
        }
        TenantCommand::Close { dseq } => {
            let id = tenant.id(*dseq);
            let close = TenantMsg::CloseDeployment { id: id.clone() };
            tenant.send(&[close], "closed", &id, &[]).await
        }
        TenantCommand::Deposit { dseq, coin } => {
            let id = tenant.id(*dseq);
            let deposit = TenantMsg::Deposit {
                deployment: id.clone(),
                coin: coin.clone(),
            };
            tenant.send(&[deposit], "deposited", &id, &[]).await
        }
    }
}

impl Tenant<'_> {
    fn id(&self, dseq: u64) -> DeploymentId {
        DeploymentId {
            owner: self.wallet.address().clone(),
            dseq,
        }
    }

    async fn send(
        &self,
        msgs: &[TenantMsg],
        what: &str,
        id: &DeploymentId,
        bids: &[BidId],
    ) -> anyhow::Result<()> {
        let messages = msgs.iter().filter_map(tenant_to_any).collect();
        let height = self.wallet.send(messages).await?;
        let mut text = format!("{what} {} in block {height}\n", id.dseq);
        for bid in bids {
            text.push_str(&format!("{bid}\n"));
        }
        let bids: Vec<String> = bids.iter().map(ToString::to_string).collect();
        let object = json!({
            "event": what, "deployment": id.to_string(), "dseq": id.dseq, "height": height, "bids": bids,
        });
        print(self.args.output, &text, &object);
        Ok(())
    }

    /// The bids to take, and their deployment.
    async fn accepted(&self, what: &Accepted) -> anyhow::Result<(DeploymentId, Vec<BidId>)> {
        let dseq = match what {
            Accepted::Bid(bid) => return Ok((bid.deployment().clone(), vec![bid.as_ref().clone()])),
            Accepted::Deployment(dseq) => *dseq,
        };
        let id = self.id(dseq);
        let mut bids = Vec::new();
        for order in open_orders(&self.reader, &id).await? {
            bids.push(self.cheapest(&order).await?);
        }
        if bids.is_empty() {
            bail!("deployment {dseq} has no open order");
        }
        Ok((id, bids))
    }

    async fn cheapest(&self, order: &OrderId) -> anyhow::Result<BidId> {
        let bids = open_bids(&self.reader, order).await?;
        let cheapest = bids.into_iter().next();
        let cheapest = cheapest.with_context(|| format!("order {order} has no open bid yet"))?;
        Ok(cheapest.id)
    }
}
