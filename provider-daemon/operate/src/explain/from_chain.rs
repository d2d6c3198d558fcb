//! Explanation from the chain, the cluster and the settings of a provider. Nothing is written.

use super::{ExplainedProvider, code, needed, orders};
use crate::args::ExplainArgs;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::node::{addresses, limits, required_chain_id, roots};
use akash_provider_cli::output::say;
use akash_provider_cli::plain::count;
use akash_provider_cli::secrets;
use akash_provider_core::Config;
use akash_provider_core::bidding::{self, Decline, OrderVerdict};
use akash_provider_core::chain::{BidFilter, ChainQuery, PageRequest};
use akash_provider_core::engine::reservations::Capacity;
use akash_provider_core::engine::{Engine, Input, Leadership};
use akash_provider_core::inventory::{InventorySource, InventoryUpdate};
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Address, AuditedAttributes, BidState, ChainEvent, Mono, Now, Order, OrderId, OrderState, Snapshot,
};
use akash_provider_k8s::cluster::LeadershipGate;
use akash_provider_service::args::RunArgs;
use akash_provider_service::backend::{Backend, Kubernetes};
use akash_provider_service::run::config::{config, invalid_prices};
use akash_provider_service::writers::Writers;
use anyhow::{Context, bail};
use futures::StreamExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Maximum time to wait for the first inventory update.
const CLUSTER_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of pages of bids that are read for one order.
const BID_PAGES: usize = 16;

/// Explains every group of an SDL, or the order in `--order`.
pub(super) async fn explain(args: &ExplainArgs, sdl: Option<&Sdl>, home: &Path) -> anyhow::Result<ExitCode> {
    let run = &args.run;
    // A fixed seed, so that repeated commands print the same price.
    let pricing = run.pricing.strategy(1).map_err(invalid_prices)?;
    let chain_id = required_chain_id(&run.node)?;
    let mut config = config(run, account(run, home)?, chain_id)?;
    let mut settings = ClientSettings::new(addresses(&run.node)?, chain_id);
    (settings.roots, settings.limits) = (roots(&run.node), limits(&run.node));
    // Without a key the client cannot send transactions.
    let (chain, _) = AkashClient::start(settings, CancellationToken::new())?;
    let us = config.provider.clone();
    let snapshot = chain.snapshot(&us).await.context("cannot read the chain")?;
    let (backend, cluster) = cluster(run, &config).await?;
    config.leased_ips = backend.cluster().leased_ips().is_some();
    let update = first(&*backend.inventory(), CLUSTER_LIMIT).await?;
    if run.output == Output::Text {
        let (height, leases, bids) = (
            snapshot.height,
            count(snapshot.leases.len(), "lease"),
            count(open_bids(&snapshot).count(), "open bid"),
        );
        say(&format!(
            "provider {us} at height {height}: {leases} and {bids} counted; {cluster}\n"
        ));
    }
    let mut provider = ExplainedProvider {
        capacity: capacity(config, &snapshot, update)?,
        attributes: snapshot.provider.map(|record| record.attributes),
        params: snapshot.params,
        pricing,
        output: run.output,
    };
    if let Some(id) = &args.order {
        let order = open_order(&chain, id).await?;
        return Ok(code(explain_order(&mut provider, &chain, &us, &order).await?));
    }
    let mut all_bid = true;
    for order in orders(needed(sdl)?)? {
        let audited = audited(&chain, &us, &order).await?;
        all_bid &= provider.explain(&order, &audited, None).await?;
    }
    Ok(code(all_bid))
}

/// Returns the provider's account in `--from`. For a name, the key must be readable; for an address, no
/// keyring is opened.
fn account(args: &RunArgs, home: &Path) -> anyhow::Result<Address> {
    let from = args.signer.from.as_deref().unwrap_or_default();
    match from.parse() {
        Ok(address) => Ok(address),
        Err(_) => Ok(secrets::signer(&args.signer, home)?.address().clone()),
    }
}

/// Connects to the configured Kubernetes cluster, or creates an in-memory cluster from the flags. Also
/// returns a description of the cluster for the output.
async fn cluster(args: &RunArgs, config: &Config) -> anyhow::Result<(Backend, &'static str)> {
    if !args.cluster_k8s && args.kubernetes.kubeconfig.is_none() {
        let backend = Backend::in_memory(&args.cluster).await;
        return Ok((
            backend,
            "in-memory cluster of the flags (use --kubeconfig for a real one)",
        ));
    }
    let options = args.cluster.inventory_options();
    let writers = Writers::read_only();
    let connecting = Kubernetes::adopt(
        args.kubernetes.kubeconfig.as_deref(),
        &args.kubernetes,
        config.provider.clone(),
        &config.chain_id,
        &options,
        // A read-only command deletes nothing.
        LeadershipGate::new(false),
        &writers,
    );
    let kubernetes = connecting.await.context("cannot connect to the cluster")?;
    Ok((Backend::Kubernetes(Box::new(kubernetes)), "Kubernetes cluster"))
}

/// Returns the first inventory update. Retries temporary failures for at most `limit`.
pub(crate) async fn first(source: &dyn InventorySource, limit: Duration) -> anyhow::Result<InventoryUpdate> {
    let mut trouble = None;
    let reading = async {
        let mut updates = source.watch();
        while let Some(update) = updates.next().await {
            match update {
                Ok(update) => return Some(update),
                Err(error) => trouble = Some(error),
            }
        }
        None
    };
    match tokio::time::timeout(limit, reading).await {
        Ok(Some(update)) => Ok(update),
        _ => match trouble {
            Some(error) => Err(error).context("cannot read the inventory of the cluster"),
            None => bail!(WithHelp::new(
                format!("cannot read the inventory of the cluster within {limit:?}"),
                "check that the nodes of the cluster are ready; `doctor` checks the cluster"
            )),
        },
    }
}

fn open_bids(snapshot: &Snapshot) -> impl Iterator<Item = &OrderId> {
    let open = snapshot.bids.iter().filter(|bid| bid.state == BidState::Open);
    open.map(|bid| &bid.id.order)
}

/// Returns the capacity that leases and open bids do not use. A temporary engine adopts the leases and bids;
/// its commands are not executed.
fn capacity(config: Config, snapshot: &Snapshot, update: InventoryUpdate) -> anyhow::Result<Capacity> {
    let mut empty = snapshot.clone();
    // Orders without a bid of this provider reserve nothing.
    empty
        .orders
        .retain(|order| open_bids(snapshot).any(|id| *id == order.id));
    let now = Now {
        mono: Mono(0),
        block_time: empty.time,
    };
    let mut engine = Engine::new(config)?;
    let inputs = [
        // A standby writes nothing, so all commands of the engine can be discarded.
        Input::Leadership(Leadership::Standby),
        Input::Inventory(update),
        Input::Chain(ChainEvent::Resync(Arc::new(empty))),
    ];
    for input in inputs {
        drop(engine.step(now, input));
    }
    engine.capacity().with_context(|| {
        WithHelp::new(
            "cannot read the inventory of the cluster",
            "check that the nodes of the cluster are ready; `doctor` checks the cluster",
        )
    })
}

async fn audited(chain: &AkashClient, us: &Address, order: &Order) -> anyhow::Result<Vec<AuditedAttributes>> {
    let mut audited = Vec::new();
    // An order with more auditors is declined without a query.
    for auditor in bidding::auditors(&order.spec)
        .into_iter()
        .take(bidding::AUDITORS_MAX)
    {
        let signed = chain.auditor_attributes(auditor, us).await;
        audited.extend(
            signed.with_context(|| format!("cannot query the attributes signed by auditor {auditor}"))?,
        );
    }
    Ok(audited)
}

pub(super) async fn open_order(chain: &impl ChainQuery, id: &OrderId) -> anyhow::Result<Order> {
    let order = chain
        .order(id)
        .await
        .with_context(|| format!("cannot query order {id}"))?;
    let order = order.with_context(|| {
        WithHelp::new(
            format!("no order {id} on the chain"),
            "check --order, --node and --chain-id; `query orders --state open` lists open orders",
        )
    })?;
    if order.state != OrderState::Open {
        bail!(WithHelp::new(
            format!("order {id} is not open"),
            "select an open order; `query orders --state open` lists them"
        ));
    }
    Ok(order)
}

async fn explain_order(
    provider: &mut ExplainedProvider,
    chain: &AkashClient,
    us: &Address,
    order: &Order,
) -> anyhow::Result<bool> {
    let (others, ours) = bids(chain, us, &order.id).await?;
    if ours {
        let explanation = provider.capacity.explain(&order.spec);
        let bid = Err(Decline::AlreadyBid);
        return provider.print_verdict(&order.spec, OrderVerdict { bid, explanation });
    }
    let audited = audited(chain, us, order).await?;
    provider.explain(order, &audited, Some(others)).await
}

/// Returns the number of bids of other providers on an order. Lost bids do not count. The second value is
/// true if this provider has a bid in any state.
pub(super) async fn bids(
    chain: &impl ChainQuery,
    us: &Address,
    order: &OrderId,
) -> anyhow::Result<(u32, bool)> {
    let filter = BidFilter {
        order: Some(order.clone()),
        ..BidFilter::default()
    };
    let (mut others, mut ours, mut page) = (0, false, PageRequest::default());
    for _ in 0..BID_PAGES {
        let answer = chain
            .bids(&filter, page)
            .await
            .context("cannot query the bids on the order")?;
        // A node without the filter also returns bids on other orders.
        for bid in answer.items.iter().filter(|bid| bid.id.order == *order) {
            ours |= bid.id.provider == *us;
            others += u32::from(bid.id.provider != *us && bid.state != BidState::Lost);
        }
        let Some(key) = answer.next else { break };
        page = PageRequest {
            key: Some(key),
            ..PageRequest::default()
        };
    }
    Ok((others, ours))
}
