//! `devnet`: the embedded market served as a node, and tenants on such a network.

use crate::MarketFile;
use crate::args::devnet::{BidSelection, DevnetAct, DevnetArgs, ServeArgs, TenantArgs, TenantCommand};
use akash_provider_chain::convert::tenant_to_any;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{EndpointLimits, Reader};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::sdl::read_sdl;
use akash_provider_core::chain::{ChainQuery, MemoryChain};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::types::{Address, BidId, BlockTime, DeploymentId, OrderId};
use akash_provider_devnet::keys::Keys;
use akash_provider_devnet::wallet::{Wallet, allowance};
use akash_provider_devnet::{Devnet, DevnetConfig};
use akash_provider_service::bids::{open_bids, open_orders};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};

const WORKLOADS: &str = "workloads are simulated, unless the provider has --cluster-k8s or --kubeconfig";

/// Serves a development network until the process is stopped, or acts as a tenant.
///
/// # Errors
/// Returns an error if an address is in use, a file is invalid, or the node rejects a transaction.
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
        .context("the system clock is before 1970")?;
    Ok(BlockTime(i64::try_from(since.as_millis())?))
}

/// Restores the chain from the state file and continues at the current time, or creates a new chain.
fn chain(args: &ServeArgs) -> anyhow::Result<MemoryChain> {
    let state = args.state.as_deref().map(MarketFile::open).transpose()?;
    let stored = state.as_ref().and_then(MarketFile::market);
    let chain = match stored {
        Some(market) => MemoryChain::with_market(market),
        None => MemoryChain::new(MarketConfig::new(args.chain_id.clone(), now()?)),
    };
    let behind = now()?.0 - chain.market(|m| m.time()).0;
    // The time of the chain never decreases, even if the clock was set back.
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
            // Only for new accounts: a restored chain contains the initial balances.
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
    // Installed before the servers start, so that a signal during the start causes an orderly shutdown.
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

fn introduce(args: &ServeArgs, devnet: &Devnet, keys: &Keys, accounts: &[(String, Address)]) {
    let chain_id = devnet.chain().market(|m| m.chain_id().to_owned());
    let (rpc, grpc, folder) = (devnet.rpc_url(), devnet.grpc_url(), keys.folder().display());
    let block = humantime::format_duration(args.block_time);
    let mut text = format!(
        "chain     {chain_id}, a block every {block}\nJSON-RPC  {rpc}\ngRPC      {grpc}\n\
         keyring   {folder} (backend test: not encrypted)\n"
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
        "\n{WORKLOADS}\nto run a provider and a tenant, use another terminal:\n"
    ));
    for line in &next {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str("all steps are in docs/first-steps.md; press Ctrl-C to stop the network\n");
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
        Output::Text => akash_provider_cli::output::say(text),
        Output::Json => akash_provider_cli::output::say(&format!("{object}\n")),
    }
}

/// Tenant, with the node that receives its transactions.
struct DevnetTenant<'a> {
    args: &'a TenantArgs,
    reader: Reader,
    wallet: Wallet,
}

async fn tenant(args: &TenantArgs) -> anyhow::Result<()> {
    let key = Keys::open_existing(args.keyring_dir.as_deref())?.private_key(&args.from)?;
    let reader = Reader::new(Endpoints::new(
        &args.node,
        &args.chain_id,
        EndpointLimits::default(),
    )?);
    let wallet = Wallet::new(Arc::new(reader.clone()), key);
    let tenant = DevnetTenant { args, reader, wallet };
    match &args.command {
        TenantCommand::Deploy { sdl, dseq, deposit } => {
            let sdl = read_sdl(sdl)?;
            // The height of the latest block, as in the Go tools.
            let newest = ChainQuery::sync_info(&tenant.reader).await?.height;
            let id = tenant.id(dseq.unwrap_or(newest));
            let create = TenantMsg::create_deployment(id.clone(), &sdl, deposit.clone());
            tenant.send(&[create], "deployed", &id, &[]).await
        }
        TenantCommand::Accept { what } => {
            let (id, bids) = tenant.selected_bids(what).await?;
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

impl DevnetTenant<'_> {
    fn id(&self, dseq: u64) -> DeploymentId {
        DeploymentId::new(self.wallet.address().clone(), dseq)
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

    async fn selected_bids(&self, what: &BidSelection) -> anyhow::Result<(DeploymentId, Vec<BidId>)> {
        let dseq = match what {
            BidSelection::Bid(bid) => return Ok((bid.deployment().clone(), vec![bid.as_ref().clone()])),
            BidSelection::Deployment(dseq) => *dseq,
        };
        let id = self.id(dseq);
        let mut bids = Vec::new();
        for order in open_orders(&self.reader, &id).await? {
            bids.push(self.cheapest(&order).await?);
        }
        if bids.is_empty() {
            bail!(WithHelp::new(
                format!("deployment {dseq} has no open order"),
                "check the number of the deployment; an order is open until its lease is created"
            ));
        }
        Ok((id, bids))
    }

    async fn cheapest(&self, order: &OrderId) -> anyhow::Result<BidId> {
        let bids = open_bids(&self.reader, order).await?;
        let cheapest = bids.into_iter().next();
        let cheapest = cheapest.with_context(|| {
            WithHelp::new(
                format!("order {order} has no open bid yet"),
                "wait for a bid, and run the command again",
            )
        })?;
        Ok(cheapest.id)
    }
}
