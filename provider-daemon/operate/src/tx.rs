//! `tx`: signs and sends transactions, and prints their results.

mod cert;
mod deployment;
mod lease;
mod market;
mod provider;
mod send;

use crate::args::TxArgs;
use crate::args::tx::tenant::{EscrowTx, MarketTx};
use crate::args::tx::{BroadcastMode, TxCommand};
use akash_provider_chain::Reader;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::endpoints_with_chain_id;
use akash_provider_cli::secrets;
use akash_provider_core::types::{Address, DeploymentId};
use akash_provider_service::audit::AuditSettings;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;

/// Creates, signs and sends one transaction. The exit code is 1 if the chain rejects the transaction.
///
/// # Errors
/// Returns an error if nothing was sent, or if the result is unknown; the error text states which.
pub fn run(args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    if args.how.offline && !args.how.generate_only {
        bail!(WithHelp::new(
            "--offline requires --generate-only, because sending needs a node",
            "add --generate-only, or remove --offline"
        ));
    }
    match &args.command {
        TxCommand::Cert(command) => cert::run(command, args, home),
        TxCommand::Provider(command) => provider::run(command, args, home),
        TxCommand::Deployment(command) => deployment::run(command, args, home),
        TxCommand::Market(MarketTx::Bid(command)) => market::close_bid(command, args, home),
        TxCommand::Market(MarketTx::Lease(command)) => lease::run(command, args, home),
        TxCommand::Escrow(EscrowTx::Deposit(command)) => deployment::deposit(command, args, home),
    }
}

struct TxAccount {
    address: Address,
    /// Key of the account; `None` if the command signs nothing.
    key: Option<PrivateKey>,
    /// Audit log; `None` if disabled.
    log: Option<AuditSettings>,
}

impl TxAccount {
    /// Returns the account of `--from`. With an address and `--generate-only`, no keyring is opened.
    fn from_args(args: &TxArgs, home: &Path) -> anyhow::Result<Self> {
        let from = args.signer.from.as_deref().unwrap_or_default();
        let log = args.audit.settings(home);
        // Without a signature no passphrase is needed.
        if args.how.generate_only
            && let Ok(address) = from.parse()
        {
            return Ok(Self {
                address,
                key: None,
                log,
            });
        }
        let key = secrets::signer(&args.signer, home)?;
        Ok(Self {
            address: key.address().clone(),
            key: Some(key),
            log,
        })
    }

    fn key(&self) -> anyhow::Result<&PrivateKey> {
        self.key.as_ref().with_context(|| {
            WithHelp::new(
                "missing signing key: --from is an address, which --generate-only does not look up in the keyring",
                "set --from to the name of a key, or remove --generate-only",
            )
        })
    }

    /// Returns the ID of a deployment of this account. Fails if `--owner` is another account.
    fn deployment(&self, dseq: u64, owner: Option<&Address>) -> anyhow::Result<DeploymentId> {
        Ok(DeploymentId::new(self.own("--owner", owner)?, dseq))
    }

    /// Returns the account. Fails if the flag names another account.
    fn own(&self, flag: &str, given: Option<&Address>) -> anyhow::Result<Address> {
        if let Some(other) = given.filter(|other| **other != self.address) {
            bail!(WithHelp::new(
                format!(
                    "{flag} {other} differs from the account of the key, {}",
                    self.address
                ),
                format!("remove {flag}, or select that key with --from")
            ));
        }
        Ok(self.address.clone())
    }
}

/// Returns the reader for queries before the transaction; `None` with `--offline`.
fn node(args: &TxArgs) -> anyhow::Result<Option<Reader>> {
    match args.how.offline {
        true => Ok(None),
        false => Ok(Some(Reader::new(endpoints_with_chain_id(&args.node)?))),
    }
}

fn waits_for_block(args: &TxArgs) -> bool {
    !args.how.generate_only && !args.how.dry_run && args.how.broadcast_mode == BroadcastMode::Block
}
