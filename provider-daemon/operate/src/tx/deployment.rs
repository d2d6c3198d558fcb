//! `tx deployment` and `tx escrow`: deployments of a tenant, and their deposits.

use super::send::send;
use super::{TxAccount, node, waits_for_block};
use crate::args::TxArgs;
use crate::args::tx::tenant::{CreateArgs, DeploymentArgs, DeploymentTx, DepositTx};
use akash_provider_chain::Reader;
use akash_provider_chain::convert::tenant_to_any;
use akash_provider_chain::proto::akash::deployment::v1beta4::QueryParamsRequest;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::block_on;
use akash_provider_cli::plain::count;
use akash_provider_cli::sdl::read_sdl;
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{Coin, Denom, DeploymentId, DeploymentRecord, GroupSpec};
use akash_provider_service::audit::this_process;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(command: &DeploymentTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    match command {
        DeploymentTx::Create(what) => {
            // Read before the key: an invalid file must not cause a passphrase prompt.
            let sdl = read_sdl(&what.sdl)?;
            block_on(create(what, &sdl, args, &TxAccount::from_args(args, home)?))
        }
        DeploymentTx::Update { sdl: path, which } => {
            let sdl = read_sdl(path)?;
            block_on(update(
                which,
                path,
                &sdl,
                args,
                &TxAccount::from_args(args, home)?,
            ))
        }
        DeploymentTx::Close { which } => block_on(close(which, args, &TxAccount::from_args(args, home)?)),
    }
}

async fn create(
    what: &CreateArgs,
    sdl: &Sdl,
    args: &TxArgs,
    account: &TxAccount,
) -> anyhow::Result<ExitCode> {
    let node = node(args)?;
    let denom = price_denom(&what.sdl, sdl)?;
    if let Some(given) = what.deposit.as_ref().filter(|given| given.denom != denom) {
        bail!(WithHelp::new(
            format!(
                "--deposit {given}: the deposit must be in {denom}, the token of the prices in {}",
                what.sdl.display()
            ),
            format!("use --deposit {}{denom}", given.amount)
        ));
    }
    let dseq = match (what.dseq, &node) {
        (Some(dseq), _) => dseq,
        // The height of the latest block, as in the Go tools.
        (None, Some(node)) => ChainQuery::sync_info(node).await?.height,
        (None, None) => {
            bail!(WithHelp::new(
                "--offline requires --dseq",
                "add --dseq with an unused number, such as the height of the latest block"
            ))
        }
    };
    let id = account.deployment(dseq, what.owner.as_ref())?;
    let deposit = match (&what.deposit, &node) {
        (given, Some(node)) => {
            // Queried first, because the error of the chain has no remedy.
            if node.deployment(&id).await?.is_some() {
                bail!(WithHelp::new(
                    format!("deployment {id} exists"),
                    "choose another --dseq, or remove the flag"
                ));
            }
            let least = least_deposit(node, &denom).await?;
            let deposit = given.clone().unwrap_or_else(|| least.clone());
            if deposit.amount < least.amount {
                bail!(WithHelp::new(
                    format!("--deposit {deposit} is below the minimum of the chain, {least}"),
                    format!("use --deposit {least}")
                ));
            }
            check_balance(node, account, &deposit).await?;
            deposit
        }
        (Some(given), None) => given.clone(),
        (None, None) => {
            bail!(WithHelp::new(
                "--offline requires --deposit",
                format!("add --deposit with an amount such as 5000000{denom}")
            ))
        }
    };
    eprintln!("creating deployment {id} with a deposit of {deposit}");
    let act = act("deployment_create", &id, Some(&deposit));
    let code = send_message(args, account, TenantMsg::create_deployment(id, sdl, deposit), act).await?;
    if waits_for_block(args) && code == ExitCode::SUCCESS {
        eprintln!("to accept a bid, run: provider-daemon tx market lease create --dseq {dseq} --wait");
    }
    Ok(code)
}

async fn update(
    which: &DeploymentArgs,
    path: &Path,
    sdl: &Sdl,
    args: &TxArgs,
    account: &TxAccount,
) -> anyhow::Result<ExitCode> {
    let id = account.deployment(which.dseq, which.owner.as_ref())?;
    if let Some(node) = node(args)? {
        let record = open_deployment(&node, &id).await?;
        check_groups(path, sdl, &record)?;
        // The chain rejects an update without changes.
        if record.deployment.hash == sdl.hash {
            eprintln!(
                "deployment {id} already has the manifest of {}, no transaction sent",
                path.display()
            );
            return Ok(ExitCode::SUCCESS);
        }
    }
    let act = act("deployment_update", &id, None);
    let update = TenantMsg::UpdateDeployment { id, hash: sdl.hash };
    let code = send_message(args, account, update, act).await?;
    if waits_for_block(args) && code == ExitCode::SUCCESS {
        let (path, dseq) = (path.display(), which.dseq);
        eprintln!(
            "to send the manifest to the provider, run: provider-daemon send-manifest {path} --dseq \
                   {dseq}"
        );
    }
    Ok(code)
}

async fn close(which: &DeploymentArgs, args: &TxArgs, account: &TxAccount) -> anyhow::Result<ExitCode> {
    let id = account.deployment(which.dseq, which.owner.as_ref())?;
    if let Some(node) = node(args)?
        && !deployment(&node, &id).await?.deployment.active
    {
        eprintln!("deployment {id} is already closed, no transaction sent");
        return Ok(ExitCode::SUCCESS);
    }
    let act = Act {
        kind: ActKind::Command {
            name: "deployment_close",
            destroys: true,
        },
        ..act("deployment_close", &id, None)
    };
    send_message(args, account, TenantMsg::CloseDeployment { id }, act).await
}

fn act(name: &'static str, id: &DeploymentId, deposit: Option<&Coin>) -> Act {
    let kind = ActKind::Command {
        name,
        destroys: false,
    };
    let mut act = Act::new(kind, this_process(), id.to_string());
    act.evidence.deposit = deposit.cloned();
    act
}

/// Runs `tx escrow deposit`. Without `--offline`, first checks the deployment and the balance.
pub(super) fn deposit(command: &DepositTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let DepositTx::Deployment { amount, which } = command;
    let account = TxAccount::from_args(args, home)?;
    let deployment = account.deployment(which.dseq, which.owner.as_ref())?;
    block_on(async {
        if let Some(node) = node(args)? {
            open_deployment(&node, &deployment).await?;
            check_balance(&node, &account, amount).await?;
        }
        let (coin, act) = (amount.clone(), act("deposit", &deployment, Some(amount)));
        send_message(args, &account, TenantMsg::Deposit { deployment, coin }, act).await
    })
}

pub(super) async fn send_message(
    args: &TxArgs,
    account: &TxAccount,
    msg: TenantMsg,
    act: Act,
) -> anyhow::Result<ExitCode> {
    let message = tenant_to_any(&msg)
        .context("cannot create the transaction: the chain has no message for this action")?;
    send(args, account, vec![message], act).await
}

pub(super) async fn deployment(node: &Reader, id: &DeploymentId) -> anyhow::Result<DeploymentRecord> {
    let record = node.deployment(id).await?;
    record.with_context(|| {
        WithHelp::new(
            format!("no deployment {id} on the chain"),
            format!(
                "check --dseq and --from; `query deployment list --owner {}` lists the deployments",
                id.owner
            ),
        )
    })
}

/// Queries a deployment. Fails if the deployment is closed.
pub(super) async fn open_deployment(node: &Reader, id: &DeploymentId) -> anyhow::Result<DeploymentRecord> {
    let record = deployment(node, id).await?;
    if !record.deployment.active {
        bail!(WithHelp::new(
            format!("deployment {id} is closed"),
            "create a new deployment with `tx deployment create`"
        ));
    }
    Ok(record)
}

fn price_denom(path: &Path, sdl: &Sdl) -> anyhow::Result<Denom> {
    let unit = sdl.groups.iter().flat_map(|group| &group.resources).next();
    let unit = unit.with_context(|| format!("{}: the SDL deploys no service", path.display()))?;
    Ok(unit.price.denom.clone())
}

async fn least_deposit(node: &Reader, denom: &Denom) -> anyhow::Result<Coin> {
    let (answer, _) = node.endpoints().query(&QueryParamsRequest {}, None).await?;
    let least = answer.params.unwrap_or_default().min_deposits;
    let found = least.iter().find(|coin| *coin.denom == **denom);
    let Some(found) = found else {
        let taken: Vec<&str> = least.iter().map(|coin| coin.denom.as_str()).collect();
        bail!(WithHelp::new(
            format!("the chain accepts no deposits in {denom}"),
            format!("use prices in {}", taken.join(", "))
        ));
    };
    let amount = found
        .amount
        .parse()
        .context("the node returned an invalid minimum deposit")?;
    Ok(Coin::new(denom.clone(), amount))
}

async fn check_balance(node: &Reader, account: &TxAccount, wanted: &Coin) -> anyhow::Result<()> {
    let has = node.balance(&account.address, &wanted.denom).await?;
    if has.amount < wanted.amount {
        bail!(WithHelp::new(
            format!(
                "account {} has {has}, less than the deposit of {wanted}",
                account.address
            ),
            "add funds, or use a smaller deposit"
        ));
    }
    Ok(())
}

/// Remedy for an update that the chain does not allow.
const CLOSE_FIRST: &str = "an update can change images, commands and environments only; for other resources, prices or \
                           placements close the deployment and create a new one";

/// Checks that the SDL of an update has the same groups as the deployment.
fn check_groups(path: &Path, sdl: &Sdl, record: &DeploymentRecord) -> anyhow::Result<()> {
    let mut wanted: Vec<&GroupSpec> = sdl.groups.iter().collect();
    // The groups on the chain are sorted by name.
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    let path = path.display();
    if wanted.len() != record.groups.len() {
        bail!(WithHelp::new(
            format!(
                "{path}: {}, but deployment {} has {} on the chain",
                count(wanted.len(), "group"),
                record.deployment.id,
                record.groups.len()
            ),
            CLOSE_FIRST
        ));
    }
    let mut pairs = wanted.iter().zip(&record.groups);
    if let Some((other, there)) = pairs.find(|(spec, there)| ***spec != *there.spec) {
        bail!(WithHelp::new(
            format!(
                "{path}: group `{}` differs from group `{}` of deployment {} on the chain",
                other.name, there.spec.name, record.deployment.id
            ),
            CLOSE_FIRST
        ));
    }
    Ok(())
}
