//! `tx market lease create`: accepts bids.

use super::deployment::open_deployment;
use super::send::send;
use super::{TxAccount, market, node, waits_for_block};
use crate::args::TxArgs;
use crate::args::tx::tenant::{LeaseCreateArgs, LeaseTx};
use akash_provider_chain::Reader;
use akash_provider_chain::convert::tenant_to_any;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::block_on;
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{BidId, DeploymentId, OrderId};
use akash_provider_service::audit::this_process;
use akash_provider_service::bids::{open_bids, open_orders};
use anyhow::bail;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Interval between two queries for bids.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn run(command: &LeaseTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    match command {
        LeaseTx::Create(what) => block_on(create(what, args, &TxAccount::from_args(args, home)?)),
        LeaseTx::Withdraw(which) => market::withdraw(which, args, home),
        LeaseTx::Close(which) => market::close_lease(which, args, home),
    }
}

async fn create(what: &LeaseCreateArgs, args: &TxArgs, account: &TxAccount) -> anyhow::Result<ExitCode> {
    let id = account.deployment(what.which.dseq, what.which.owner.as_ref())?;
    let bids = match node(args)? {
        Some(node) => wait(&node, what, &id).await?,
        None => vec![named(what, id)?],
    };
    for bid in &bids {
        eprintln!("accepting bid {bid}");
    }
    let kind = ActKind::Command {
        name: "lease_create",
        destroys: false,
    };
    let ids: Vec<String> = bids.iter().map(ToString::to_string).collect();
    let act = Act::new(kind, this_process(), ids.join(", "));
    // One transaction, so that either all groups get a lease or none.
    let taken = bids.into_iter().map(|bid| TenantMsg::CreateLease { bid });
    let messages = taken.filter_map(|msg| tenant_to_any(&msg)).collect();
    let code = send(args, account, messages, act).await?;
    if waits_for_block(args) && code == ExitCode::SUCCESS {
        let dseq = what.which.dseq;
        eprintln!(
            "to send the manifest to the provider, run: provider-daemon send-manifest SDL --dseq \
                   {dseq}"
        );
    }
    Ok(code)
}

/// Returns the bid ID in the flags, without a query.
fn named(what: &LeaseCreateArgs, deployment: DeploymentId) -> anyhow::Result<BidId> {
    let Some(provider) = what.provider.clone() else {
        bail!(WithHelp::new(
            "--offline requires --provider",
            "add --provider with the address of the provider"
        ))
    };
    Ok(deployment
        .group(what.gseq.unwrap_or(1))
        .order(what.oseq.unwrap_or(1))
        .bid(provider))
}

/// Returns the bids to accept. With `--wait`, waits until every order has a bid.
async fn wait(node: &Reader, what: &LeaseCreateArgs, id: &DeploymentId) -> anyhow::Result<Vec<BidId>> {
    let deadline = Instant::now() + what.wait.unwrap_or_default();
    let mut is_printed = false;
    loop {
        match chosen(node, what, id).await? {
            Ok(bids) => return Ok(bids),
            // Without `--wait` the deadline has passed, so there is a single attempt.
            Err(why) if Instant::now() >= deadline => match what.wait {
                None => bail!(WithHelp::new(why, "add --wait to wait until a provider bids")),
                Some(limit) => bail!(WithHelp::new(
                    format!("{why} after {}", humantime::format_duration(limit)),
                    "wait longer, or offer a higher price with `tx deployment create`"
                )),
            },
            Err(why) if !is_printed => {
                is_printed = true;
                eprintln!("waiting: {why}");
            }
            Err(_) => {}
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the cheapest matching bid on every selected order. If an order has no matching bid, returns the
/// reason.
async fn chosen(
    node: &Reader,
    what: &LeaseCreateArgs,
    id: &DeploymentId,
) -> anyhow::Result<Result<Vec<BidId>, String>> {
    let mut bids = Vec::new();
    for order in orders(node, what, id).await? {
        let open = open_bids(node, &order).await?;
        let wanted = |of: &BidId| what.provider.as_ref().is_none_or(|p| *p == of.provider);
        match open.iter().find(|bid| wanted(&bid.id)) {
            Some(bid) => bids.push(bid.id.clone()),
            None => return Ok(Err(missing(what, &order, open.into_iter().map(|bid| bid.id)))),
        }
    }
    Ok(Ok(bids))
}

fn missing(what: &LeaseCreateArgs, order: &OrderId, open: impl Iterator<Item = BidId>) -> String {
    let others: Vec<String> = open.map(|bid| bid.provider.to_string()).collect();
    match &what.provider {
        Some(provider) if !others.is_empty() => format!(
            "order {order} has no open bid of {provider}; open bids: {}",
            others.join(", ")
        ),
        Some(provider) => format!("order {order} has no open bid of {provider} yet"),
        None => format!("order {order} has no open bid yet"),
    }
}

/// Returns the open orders that the flags select. Fails if no order matches.
async fn orders(node: &Reader, what: &LeaseCreateArgs, id: &DeploymentId) -> anyhow::Result<Vec<OrderId>> {
    let record = open_deployment(node, id).await?;
    // With a provider the first order is the default, as in the Go tools.
    let first = what.provider.as_ref().map(|_| 1);
    let is = |given: Option<u32>, has: u32| given.or(first).is_none_or(|given| given == has);
    let mut orders = open_orders(node, id).await?;
    orders.retain(|order| is(what.gseq, order.group.gseq) && is(what.oseq, order.oseq));
    if !orders.is_empty() {
        return Ok(orders);
    }
    if record.leases.is_empty() {
        bail!(WithHelp::new(
            format!("deployment {id} has no open order that matches --gseq and --oseq"),
            format!(
                "list orders with `query orders --owner {} --dseq {}`",
                id.owner, id.dseq
            )
        ));
    }
    let leases: Vec<String> = record.leases.iter().map(|lease| lease.id.to_string()).collect();
    bail!(WithHelp::new(
        format!(
            "deployment {id} has no open order that matches --gseq and --oseq; the deployment already has the leases {}",
            leases.join(", ")
        ),
        "send the manifest with `send-manifest`"
    ))
}
