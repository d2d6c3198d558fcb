//! `tx deployment` and `tx escrow`: what a tenant orders, and what pays for it.

use super::send::send;
use super::{Author, lands, node};
use crate::args::TxArgs;
use crate::args::tx::tenant::{CreateArgs, DeploymentArgs, DeploymentTx, DepositTx};
use crate::commands::chain::block_on;
use crate::commands::read_sdl;
use crate::dev::tenant::create_deployment;
use crate::plain::count;
use akash_provider_chain::Reader;
use akash_provider_chain::convert::tenant_to_any;
use akash_provider_chain::proto::akash::deployment::v1beta4::QueryParamsRequest;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{Coin, Denom, DeploymentId, DeploymentRecord, GroupSpec};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(command: &DeploymentTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    match command {
        DeploymentTx::Create(what) => {
            // Before the key: nobody should type a passphrase for a file that is wrong.
            let sdl = read_sdl(&what.sdl)?;
            block_on(create(what, &sdl, args, &Author::of(args, home)?))
        }
        DeploymentTx::Update { sdl: path, which } => {
            let sdl = read_sdl(path)?;
            block_on(update(which, path, &sdl, args, &Author::of(args, home)?))
        }
        DeploymentTx::Close { which } => block_on(close(which, args, &Author::of(args, home)?)),
    }
}

async fn create(what: &CreateArgs, sdl: &Sdl, args: &TxArgs, author: &Author) -> anyhow::Result<ExitCode> {
    let node = node(args)?;
    let denom = price_denom(&what.sdl, sdl)?;
    if let Some(given) = what.deposit.as_ref().filter(|given| given.denom != denom) {
        bail!(
            "--deposit {given}: the prices of {} are in {denom}, and the chain takes a deposit in the same token: write \
             it as {}{denom}",
            what.sdl.display(),
            given.amount
        );
    }
    let dseq = match (what.dseq, &node) {
        (Some(dseq), _) => dseq,
        // The newest height, as the network's tools number deployments.
        (None, Some(node)) => ChainQuery::sync_info(node).await?.height,
        (None, None) => {
            bail!("--offline asks no node for the height: give the number of the deployment with --dseq")
        }
    };
    let id = author.deployment(dseq, what.owner.as_ref())?;
    let deposit = match (&what.deposit, &node) {
        (given, Some(node)) => {
            // Asked first, because the chain's own refusal names no mend.
            if node.deployment(&id).await?.is_some() {
                bail!("deployment {id} is there already: give another number with --dseq, or leave it out");
            }
            let least = least_deposit(node, &denom).await?;
            let deposit = given.clone().unwrap_or_else(|| least.clone());
            if deposit.amount < least.amount {
                bail!(
                    "--deposit {deposit} is below {least}, the least that the chain takes: give that, or more"
                );
            }
            check_balance(node, author, &deposit).await?;
            deposit
        }
        (Some(given), None) => given.clone(),
        (None, None) => {
            bail!("--offline asks no node for the least deposit: give it with --deposit, as 5000000{denom}")
        }
    };
    eprintln!("deployment {id}, with a deposit of {deposit}");
    let code = tell(args, author, create_deployment(id, sdl, deposit)).await?;
    if lands(args) && code == ExitCode::SUCCESS {
        eprintln!("next, take a bid: provider-daemon tx market lease create --dseq {dseq} --wait");
    }
    Ok(code)
}

async fn update(
    which: &DeploymentArgs,
    path: &Path,
    sdl: &Sdl,
    args: &TxArgs,
    author: &Author,
) -> anyhow::Result<ExitCode> {
    let id = author.deployment(which.dseq, which.owner.as_ref())?;
    if let Some(node) = node(args)? {
        let record = open_deployment(&node, &id).await?;
        check_groups(path, sdl, &record)?;
        // The chain refuses an update that changes nothing.
        if record.deployment.hash == sdl.hash {
            eprintln!("deployment {id} has the manifest of {} already", path.display());
            return Ok(ExitCode::SUCCESS);
        }
    }
    let update = TenantMsg::UpdateDeployment { id, hash: sdl.hash };
    let code = tell(args, author, update).await?;
    if lands(args) && code == ExitCode::SUCCESS {
        let (path, dseq) = (path.display(), which.dseq);
        eprintln!("next, send the manifest: provider-daemon send-manifest {path} --dseq {dseq}");
    }
    Ok(code)
}

async fn close(which: &DeploymentArgs, args: &TxArgs, author: &Author) -> anyhow::Result<ExitCode> {
    let id = author.deployment(which.dseq, which.owner.as_ref())?;
    if let Some(node) = node(args)?
        && !deployment(&node, &id).await?.deployment.active
    {
        eprintln!("deployment {id} is closed already");
        return Ok(ExitCode::SUCCESS);
    }
    tell(args, author, TenantMsg::CloseDeployment { id }).await
}

/// `tx escrow deposit`: where a node may be asked, only to a deployment that is open, and with money that is there.
pub(super) fn deposit(command: &DepositTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let DepositTx::Deployment { amount, which } = command;
    let author = Author::of(args, home)?;
    let deployment = author.deployment(which.dseq, which.owner.as_ref())?;
    block_on(async {
        if let Some(node) = node(args)? {
            open_deployment(&node, &deployment).await?;
            check_balance(&node, &author, amount).await?;
        }
        let coin = amount.clone();
        tell(args, &author, TenantMsg::Deposit { deployment, coin }).await
    })
}

async fn tell(args: &TxArgs, author: &Author, msg: TenantMsg) -> anyhow::Result<ExitCode> {
    let message = tenant_to_any(&msg).context("the network has no such message")?;
    send(args, author, vec![message]).await
}

/// A deployment as the chain has it.
pub(super) async fn deployment(node: &Reader, id: &DeploymentId) -> anyhow::Result<DeploymentRecord> {
    let record = node.deployment(id).await?;
    record.with_context(|| {
        format!(
            "deployment {id} is not on the chain: look at --dseq and --from; `query deployment list --owner {}` shows \
             what there is",
            id.owner
        )
    })
}

/// The same where it is not over.
pub(super) async fn open_deployment(node: &Reader, id: &DeploymentId) -> anyhow::Result<DeploymentRecord> {
    let record = deployment(node, id).await?;
    if !record.deployment.active {
        bail!("deployment {id} is closed, for good: make another one with `tx deployment create`");
    }
    Ok(record)
}

/// The token of the prices.
fn price_denom(path: &Path, sdl: &Sdl) -> anyhow::Result<Denom> {
    let unit = sdl.groups.iter().flat_map(|group| &group.resources).next();
    let unit = unit.with_context(|| format!("{}: deploys no service", path.display()))?;
    Ok(unit.price.denom.clone())
}

async fn least_deposit(node: &Reader, denom: &Denom) -> anyhow::Result<Coin> {
    let (answer, _) = node.endpoints().query(&QueryParamsRequest {}, None).await?;
    let least = answer.params.unwrap_or_default().min_deposits;
    let found = least.iter().find(|coin| *coin.denom == **denom);
    let Some(found) = found else {
        let taken: Vec<&str> = least.iter().map(|coin| coin.denom.as_str()).collect();
        bail!(
            "the chain takes no deposits in {denom}: price the SDL in one of its tokens, {}",
            taken.join(", ")
        );
    };
    let amount = found
        .amount
        .parse()
        .context("the chain's least deposit is no number")?;
    Ok(Coin {
        denom: denom.clone(),
        amount,
    })
}

async fn check_balance(node: &Reader, author: &Author, wanted: &Coin) -> anyhow::Result<()> {
    let has = node.balance(&author.address, &wanted.denom).await?;
    if has.amount < wanted.amount {
        bail!(
            "{} has {has}, and the deposit takes {wanted}: send that account some, or give a smaller deposit",
            author.address
        );
    }
    Ok(())
}

/// An update changes the manifest; what was ordered stays.
fn check_groups(path: &Path, sdl: &Sdl, record: &DeploymentRecord) -> anyhow::Result<()> {
    let mend = "an update changes images, commands and environments alone; for other resources, prices or places close \
                the deployment and create another one";
    let mut wanted: Vec<&GroupSpec> = sdl.groups.iter().collect();
    // The chain has its groups by name.
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    let path = path.display();
    if wanted.len() != record.groups.len() {
        bail!(
            "{path}: has {}, and deployment {} has {} on the chain: {mend}",
            count(wanted.len(), "group"),
            record.deployment.id,
            record.groups.len()
        );
    }
    let mut pairs = wanted.iter().zip(&record.groups);
    if let Some((other, there)) = pairs.find(|(spec, there)| ***spec != *there.spec) {
        bail!(
            "{path}: group `{}` is not as group `{}` of deployment {} on the chain: {mend}",
            other.name,
            there.spec.name,
            record.deployment.id
        );
    }
    Ok(())
}
