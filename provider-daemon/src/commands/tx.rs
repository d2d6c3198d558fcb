//! `tx`: signs and sends transactions, and says what came of them.

mod cert;
mod deployment;
mod lease;
pub mod provider;
mod send;

pub(crate) use send::gas_price;

use crate::args::TxArgs;
use crate::args::tx::tenant::{EscrowTx, MarketTx};
use crate::args::tx::{BroadcastMode, TxCommand};
use crate::commands::chain::named;
use crate::secrets;
use akash_provider_chain::Reader;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::{Address, DeploymentId};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;

/// Makes, signs and sends one transaction.
///
/// # Errors
/// Nothing was sent, or it is not known what came of it; the text says which. A transaction that the chain
/// refused is printed, and the exit code is 1.
pub fn run(args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    if args.how.offline && !args.how.generate_only {
        bail!("--offline asks no node, and sending needs one: add --generate-only, or leave it out");
    }
    match &args.command {
        TxCommand::Cert(command) => cert::run(command, args, home),
        TxCommand::Provider(command) => provider::run(command, args, home),
        TxCommand::Deployment(command) => deployment::run(command, args, home),
        TxCommand::Market(MarketTx::Lease(command)) => lease::run(command, args, home),
        TxCommand::Escrow(EscrowTx::Deposit(command)) => deployment::deposit(command, args, home),
    }
}

/// Whose transaction it is.
struct Author {
    address: Address,
    /// `None` where nothing is signed.
    key: Option<PrivateKey>,
}

impl Author {
    /// The one of `--from`; without a keyring where the address is enough.
    fn of(args: &TxArgs, home: &Path) -> anyhow::Result<Self> {
        let from = args.signer.from.as_deref().unwrap_or_default();
        // Nothing is signed, so nobody has to type a passphrase.
        if args.how.generate_only
            && let Ok(address) = from.parse()
        {
            return Ok(Self { address, key: None });
        }
        let key = secrets::signer(&args.signer, home)?;
        Ok(Self {
            address: key.address().clone(),
            key: Some(key),
        })
    }

    fn key(&self) -> anyhow::Result<&PrivateKey> {
        self.key.as_ref().context("there is no key to sign with")
    }

    /// A deployment of this account; `--owner` may say so too.
    fn deployment(&self, dseq: u64, owner: Option<&Address>) -> anyhow::Result<DeploymentId> {
        if let Some(other) = owner.filter(|other| **other != self.address) {
            bail!(
                "--owner {other} is not the account of the key, {}: leave it out, or name that account's key with --from",
                self.address
            );
        }
        Ok(DeploymentId {
            owner: self.address.clone(),
            dseq,
        })
    }
}

/// Who is asked before something is sent; `None` where no node is to be asked.
fn node(args: &TxArgs) -> anyhow::Result<Option<Reader>> {
    match args.how.offline {
        true => Ok(None),
        false => Ok(Some(Reader::new(named(&args.node)?))),
    }
}

/// True when what is sent is in a block once it has succeeded.
fn lands(args: &TxArgs) -> bool {
    !args.how.generate_only && !args.how.dry_run && args.how.broadcast_mode == BroadcastMode::Block
}
