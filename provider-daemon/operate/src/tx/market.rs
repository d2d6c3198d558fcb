//! `tx market bid close`, `tx market lease withdraw` and `tx market lease close`.

use super::deployment::send_message;
use super::send::send;
use super::{TxAccount, node};
use crate::args::TxArgs;
use crate::args::tx::tenant::{BidArgs, BidTx};
use akash_provider_chain::convert::to_any;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::block_on;
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, BidId, BidState, CloseReason, DeploymentId, Msg};
use akash_provider_service::audit::this_process;
use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;

/// Account that signs for a bid or a lease.
#[derive(Clone, Copy)]
enum Signer {
    Tenant,
    Provider,
}

/// Runs `tx market bid close`. A closed or lost bid sends no transaction.
pub(super) fn close_bid(command: &BidTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let BidTx::Close { which, reason } = command;
    let account = TxAccount::from_args(args, home)?;
    let id = which.id(&account, Signer::Provider)?;
    block_on(async {
        if let Some(node) = node(args)? {
            let bid = node.bid(&id).await?.value.with_context(|| missing("bid", &id))?;
            match bid.state {
                BidState::Open => {}
                BidState::Active => eprintln!("bid {id} won the order: closing the bid closes the lease"),
                BidState::Lost | BidState::Closed => return Ok(unchanged("bid", &id)),
            }
        }
        let (reason, act) = (CloseReason::Other(*reason), act("bid_close", true, &id));
        send(args, &account, vec![to_any(&Msg::CloseBid { id, reason })], act).await
    })
}

/// Runs `tx market lease withdraw`. A closed lease sends no transaction, because its close has settled it.
pub(super) fn withdraw(which: &BidArgs, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let account = TxAccount::from_args(args, home)?;
    let id = which.id(&account, Signer::Provider)?;
    block_on(async {
        if !is_live(&id, args).await? {
            return Ok(unchanged("lease", &id));
        }
        let act = act("lease_withdraw", false, &id);
        send(args, &account, vec![to_any(&Msg::WithdrawLease { id })], act).await
    })
}

/// Runs `tx market lease close`. A closed lease sends no transaction.
pub(super) fn close_lease(which: &BidArgs, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let account = TxAccount::from_args(args, home)?;
    let id = which.id(&account, Signer::Tenant)?;
    block_on(async {
        if !is_live(&id, args).await? {
            return Ok(unchanged("lease", &id));
        }
        let act = act("lease_close", true, &id);
        send_message(args, &account, TenantMsg::CloseLease { id }, act).await
    })
}

impl BidArgs {
    /// Returns the ID in the flags. The account of the key is the default of the signing account.
    fn id(&self, account: &TxAccount, signer: Signer) -> anyhow::Result<BidId> {
        let (owner, provider) = match signer {
            Signer::Tenant => (
                account.own("--owner", self.owner.as_ref())?,
                other("--provider", self.provider.as_ref())?,
            ),
            Signer::Provider => (
                other("--owner", self.owner.as_ref())?,
                account.own("--provider", self.provider.as_ref())?,
            ),
        };
        let order = DeploymentId::new(owner, self.dseq)
            .group(self.gseq)
            .order(self.oseq);
        Ok(order.bid(provider))
    }
}

/// Returns the other account of a bid, which the flag must name.
fn other(flag: &str, given: Option<&Address>) -> anyhow::Result<Address> {
    given.cloned().with_context(|| {
        WithHelp::new(
            format!("missing {flag}"),
            format!("add {flag} with the address; `query market lease list` lists leases with both accounts"),
        )
    })
}

/// Returns whether a lease is active or reclaiming, or true with `--offline`.
async fn is_live(id: &BidId, args: &TxArgs) -> anyhow::Result<bool> {
    let Some(node) = node(args)? else {
        return Ok(true);
    };
    let record = node
        .lease(id)
        .await?
        .value
        .with_context(|| missing("lease", id))?;
    Ok(record.lease.state.is_live())
}

fn missing(what: &str, id: &BidId) -> WithHelp {
    let owner = &id.order.group.deployment.owner;
    WithHelp::new(
        format!("no {what} {id} on the chain"),
        format!(
            "check the flags; `query market {what} list --owner {owner}` lists each {what} of the tenant"
        ),
    )
}

fn unchanged(what: &str, id: &BidId) -> ExitCode {
    eprintln!("{what} {id} is already closed, no transaction sent");
    ExitCode::SUCCESS
}

fn act(name: &'static str, destroys: bool, id: &BidId) -> Act {
    Act::new(
        ActKind::Command { name, destroys },
        this_process(),
        id.to_string(),
    )
}
