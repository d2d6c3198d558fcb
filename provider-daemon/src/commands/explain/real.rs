//! A real provider: what the chain says of it and its cluster has, by the settings it runs with. Nothing is written.

use super::{Desk, code, needed, orders};
use crate::args::{ExplainArgs, Output, RunArgs};
use crate::commands::chain::{addresses, given_chain_id, limits, roots};
use crate::commands::run::config;
use crate::dev::{Backend, Kubernetes};
use crate::plain::count;
use crate::run::Writers;
use crate::{say, secrets};
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::Config;
use akash_provider_core::bidding::{self, Decline, Verdict};
use akash_provider_core::chain::{BidFilter, ChainQuery, PageRequest};
use akash_provider_core::engine::reservations::Capacity;
use akash_provider_core::engine::{Engine, Input, Leadership};
use akash_provider_core::inventory::{InventorySource, InventoryUpdate};
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Address, AuditedAttributes, BidState, ChainEvent, Mono, Now, Order, OrderId, OrderState, Snapshot,
};
use akash_provider_k8s::cluster::LeadershipGate;
use anyhow::{Context, bail};
use futures::StreamExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A cluster is read by then: a thousand nodes take seconds.
const CLUSTER_LIMIT: Duration = Duration::from_secs(60);
/// Pages of an order's bids: the chain takes far fewer.
const BID_PAGES: usize = 16;

/// Explains an order of the chain, or every group of an SDL.
pub(super) async fn explain(args: &ExplainArgs, sdl: Option<&Sdl>, home: &Path) -> anyhow::Result<ExitCode> {
    let run = &args.run;
    // A fixed seed, so that asking twice gives the same price.
    let pricing = run.pricing.strategy(1).context("the prices, --bid-price-…")?;
    let chain_id = given_chain_id(&run.node).context("--chain-id is missing: say which chain this is for")?;
    let mut config = config(run, account(run, home)?, chain_id)?;
    let mut settings = ClientSettings::new(addresses(&run.node)?, chain_id);
    (settings.roots, settings.limits) = (roots(&run.node), limits(&run.node));
    // Without a key there is nothing to be written.
    let (chain, _) = AkashClient::start(settings, CancellationToken::new())?;
    let us = config.provider.clone();
    let snapshot = chain.snapshot(&us).await.context("reading the chain")?;
    let (backend, cluster) = cluster(run, &config).await?;
    config.leased_ips = backend.cluster().leased_ips().is_some();
    let update = first(&*backend.inventory()).await?;
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
    let mut desk = Desk {
        capacity: capacity(config, &snapshot, update)?,
        attributes: snapshot.provider.map(|record| record.attributes),
        params: snapshot.params,
        pricing,
        output: run.output,
    };
    if let Some(id) = &args.order {
        let order = open_order(&chain, id).await?;
        return Ok(code(explain_order(&mut desk, &chain, &us, &order).await?));
    }
    let mut all_bid = true;
    for order in orders(needed(sdl)?)? {
        let audited = audited(&chain, &us, &order).await?;
        all_bid &= desk.explain(&order, &audited, None).await?;
    }
    Ok(code(all_bid))
}

/// Whose provider it is. An address needs no key.
fn account(args: &RunArgs, home: &Path) -> anyhow::Result<Address> {
    let from = args.signer.from.as_deref().unwrap_or_default();
    match from.parse() {
        Ok(address) => Ok(address),
        Err(_) => Ok(secrets::signer(&args.signer, home)?.address().clone()),
    }
}

/// The cluster, and which it is.
async fn cluster(args: &RunArgs, config: &Config) -> anyhow::Result<(Backend, &'static str)> {
    if !args.cluster_k8s && args.kubernetes.kubeconfig.is_none() {
        let backend = Backend::in_memory(&args.cluster).await;
        return Ok((
            backend,
            "its cluster is that of the flags; name a real one with --kubeconfig",
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
        // A command that only looks cleans up nothing.
        LeadershipGate::new(false),
        &writers,
    );
    let kubernetes = connecting.await.context("the cluster")?;
    Ok((
        Backend::Kubernetes(Box::new(kubernetes)),
        "its cluster is a real one",
    ))
}

/// What the cluster has. What cannot be read at the moment is tried again until the limit.
async fn first(source: &dyn InventorySource) -> anyhow::Result<InventoryUpdate> {
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
    match tokio::time::timeout(CLUSTER_LIMIT, reading).await {
        Ok(Some(update)) => Ok(update),
        _ => match trouble {
            Some(error) => Err(error).context("reading what the cluster has"),
            None => bail!("the cluster did not say within {CLUSTER_LIMIT:?} what it has"),
        },
    }
}

fn open_bids(snapshot: &Snapshot) -> impl Iterator<Item = &OrderId> {
    let open = snapshot.bids.iter().filter(|bid| bid.state == BidState::Open);
    open.map(|bid| &bid.id.order)
}

/// What is left beside the leases and the open bids: the engine takes them over as it does at a start, and nothing that
/// it wants to do is done.
fn capacity(config: Config, snapshot: &Snapshot, update: InventoryUpdate) -> anyhow::Result<Capacity> {
    let mut known = snapshot.clone();
    // Orders without a bid of ours are looked at by the provider that runs; they hold nothing here.
    known
        .orders
        .retain(|order| open_bids(snapshot).any(|id| *id == order.id));
    let now = Now {
        mono: Mono(0),
        block_time: known.time,
    };
    let mut engine = Engine::new(config)?;
    let inputs = [
        // A standby writes nothing, so whatever the engine asks for can be dropped.
        Input::Leadership(Leadership::Standby),
        Input::Inventory(update),
        Input::Chain(ChainEvent::Resync(Arc::new(known))),
    ];
    for input in inputs {
        drop(engine.step(now, input));
    }
    engine.capacity().context("the cluster did not say what it has")
}

/// What those auditors have signed whom an order names.
async fn audited(chain: &AkashClient, us: &Address, order: &Order) -> anyhow::Result<Vec<AuditedAttributes>> {
    let mut audited = Vec::new();
    // Of more than that it is declined without anybody being asked.
    for auditor in bidding::auditors(&order.spec)
        .into_iter()
        .take(bidding::AUDITORS_MAX)
    {
        let signed = chain.auditor_attributes(auditor, us).await;
        audited.extend(signed.with_context(|| format!("asking what auditor {auditor} has signed"))?);
    }
    Ok(audited)
}

pub(super) async fn open_order(chain: &impl ChainQuery, id: &OrderId) -> anyhow::Result<Order> {
    let order = chain
        .order(id)
        .await
        .with_context(|| format!("reading order {id}"))?;
    let order = order.with_context(|| format!("the chain has no order {id}"))?;
    if order.state != OrderState::Open {
        bail!("order {id} is no longer open: nobody bids on it");
    }
    Ok(order)
}

async fn explain_order(
    desk: &mut Desk,
    chain: &AkashClient,
    us: &Address,
    order: &Order,
) -> anyhow::Result<bool> {
    let (others, ours) = bids(chain, us, &order.id).await?;
    if ours {
        let explanation = desk.capacity.explain(&order.spec);
        let bid = Err(Decline::AlreadyBid);
        return desk.tell(&order.spec, Verdict { bid, explanation });
    }
    let audited = audited(chain, us, order).await?;
    desk.explain(order, &audited, Some(others)).await
}

/// Bids of others that count, and whether there is one of ours.
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
            .context("counting the bids of the order")?;
        // A node that does not apply the filter answers with the bids on other orders too.
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
