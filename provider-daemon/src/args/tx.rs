//! Flags of `tx`.

pub mod tenant;

use super::query::{NodeArgs, QueryOutput};
use super::{SignerArgs, values};
use akash_provider_chain::gas::{Ceilings, Scope};
use akash_provider_core::types::{Address, Dec};
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use tenant::{DeploymentTx, EscrowTx, MarketTx};

/// Settings of `tx`.
#[derive(Debug, Args)]
pub struct TxArgs {
    /// How to print the outcome.
    #[arg(long, short, value_enum, default_value = "json", global = true)]
    pub output: QueryOutput,
    /// Do not ask before sending.
    #[arg(long, short, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub yes: bool,
    /// The fee.
    #[command(flatten)]
    pub gas: GasArgs,
    /// The transaction.
    #[command(flatten)]
    pub how: HowArgs,
    /// The key.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Nodes.
    #[command(flatten)]
    pub node: NodeArgs,
    /// What to send.
    #[command(subcommand)]
    pub command: TxCommand,
}

/// What a transaction costs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fee")]
pub struct GasArgs {
    /// Gas limit; `auto` asks a node what the transaction would use.
    #[arg(long, default_value = "auto", value_parser = gas, global = true)]
    pub gas: Gas,
    /// Price of a unit of gas; more is paid where the node asks for more.
    #[arg(long, value_name = "COIN", default_value = "0.025uakt", global = true)]
    pub gas_prices: String,
    /// Factor on what a node says that the transaction would use.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.2, value_parser = factor, global = true)]
    pub gas_adjustment: f64,
    /// The whole fee, instead of a price.
    #[arg(long, value_name = "COIN", global = true)]
    pub fees: Option<String>,
    /// Whose allowance pays the fee.
    #[arg(long, value_name = "ADDRESS", global = true)]
    pub fee_granter: Option<Address>,
    /// Most gas, whatever a node says: of a `bid`, `close`, `reclaim`, `withdraw`, `provider`, `certificate`, of a
    /// whole `transaction`, and of all in an `hour`; `tx` heeds the one of a transaction. The usual ones are ten
    /// times what is usual.
    #[arg(long, value_name = "KIND=GAS", value_delimiter = ',', value_parser = ceiling::<u64>, global = true)]
    pub gas_ceiling: Vec<(Scope, u64)>,
    /// Most that is paid for them, in the token of --gas-prices. The usual ones follow from the highest price.
    #[arg(long, value_name = "KIND=AMOUNT", value_delimiter = ',', value_parser = ceiling::<u128>, global = true)]
    pub fee_ceiling: Vec<(Scope, u128)>,
}

impl GasArgs {
    /// What is never paid, where no more than `price_max` is paid for a unit of gas.
    #[must_use]
    pub fn ceilings(&self, price_max: Dec) -> Ceilings {
        let mut ceilings = Ceilings::for_price(price_max);
        for (scope, gas) in &self.gas_ceiling {
            ceilings.change(*scope, |most| most.gas = *gas);
        }
        for (scope, fee) in &self.fee_ceiling {
            ceilings.change(*scope, |most| most.fee = *fee);
        }
        ceilings
    }
}

fn ceiling<T: FromStr<Err: Display>>(text: &str) -> Result<(Scope, T), String> {
    let (kind, most) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` names no amount; write it as bid=1000000"))?;
    let most = most
        .parse()
        .map_err(|e| format!("`{most}`: {e}; write a whole number"))?;
    Ok((kind.parse()?, most))
}

/// How a transaction is made and sent.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Transaction")]
pub struct HowArgs {
    /// When the command is done: `block` waits for a block, `sync` for the node's check, `async` for neither.
    #[arg(long, short, value_enum, default_value = "block", global = true)]
    pub broadcast_mode: BroadcastMode,
    /// Count with the account's sequence, and with this one; without it the transaction needs none.
    #[arg(long, short, value_name = "NUMBER", global = true)]
    pub sequence: Option<u64>,
    /// The last block that it may be in; it then counts with the account's sequence.
    #[arg(long, value_name = "HEIGHT", default_value_t = 0, global = true)]
    pub timeout_height: u64,
    /// A note that everybody can read.
    #[arg(long, value_name = "TEXT", default_value = "", global = true)]
    pub note: String,
    /// Number of the account, where no node is to be asked for it.
    #[arg(long, short, value_name = "NUMBER", global = true)]
    pub account_number: Option<u64>,
    /// Print the transaction without signing or sending it.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub generate_only: bool,
    /// Ask no node; only with --generate-only.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub offline: bool,
    /// Print the gas that the transaction would use, and send nothing.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub dry_run: bool,
    /// How it is signed; there is one way.
    #[arg(long, value_enum, default_value = "direct", global = true)]
    pub sign_mode: SignMode,
}

/// When a command is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BroadcastMode {
    /// With the block.
    Block,
    /// With the node's check.
    Sync,
    /// Likewise: a transaction that a node refuses is never worth a success.
    Async,
}

/// How a transaction is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SignMode {
    /// Its bytes.
    Direct,
}

/// A gas limit, or that a node is asked for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gas {
    /// As a node says.
    Auto,
    /// So many units of gas; nothing is simulated for it.
    Limit(u64),
}

fn gas(text: &str) -> Result<Gas, String> {
    if text == "auto" {
        return Ok(Gas::Auto);
    }
    let limit: u64 = text.parse().map_err(|e| format!("{e}; write auto or a number"))?;
    if limit == 0 {
        return Err("must be above zero, or auto".to_owned());
    }
    Ok(Gas::Limit(limit))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text
        .parse()
        .map_err(|e| format!("{e}; write a number such as 1.2"))?;
    if (1.0..=10.0).contains(&factor) {
        Ok(factor)
    } else {
        Err("must be from 1 to 10".to_owned())
    }
}

/// What to send.
#[derive(Debug, Subcommand)]
pub enum TxCommand {
    /// Make, publish or revoke the account's certificate.
    #[command(subcommand)]
    Cert(CertTx),
    /// Register the provider, or change its record.
    #[command(subcommand)]
    Provider(ProviderTx),
    /// Create, change or close a tenant's deployment.
    #[command(subcommand)]
    Deployment(DeploymentTx),
    /// Take bids on a tenant's orders.
    #[command(subcommand)]
    Market(MarketTx),
    /// Add money to a tenant's deployment.
    #[command(subcommand)]
    Escrow(EscrowTx),
}

/// About certificates.
#[derive(Debug, Subcommand)]
pub enum CertTx {
    /// Make a certificate, into the home folder.
    #[command(subcommand)]
    Generate(GenerateCert),
    /// Put the certificate on the chain.
    Publish {
        /// Whose: both are the same file.
        #[arg(value_enum)]
        role: Role,
    },
    /// Revoke the certificate on the chain, for good.
    Revoke {
        /// Whose: both are the same file.
        #[arg(value_enum)]
        role: Role,
        /// Another one than that in the home folder, by its serial in decimal.
        #[arg(long)]
        serial: Option<String>,
    },
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// A tenant's.
    Client,
    /// A provider's.
    Server,
}

/// A new certificate.
#[derive(Debug, Subcommand)]
pub enum GenerateCert {
    /// Make the certificate of a tenant.
    Client {
        /// Replace the one that is there.
        #[arg(long)]
        overwrite: bool,
    },
    /// Make the certificate of a provider, for its host names.
    Server {
        /// Host names of the provider, without scheme and port.
        #[arg(required = true)]
        domains: Vec<String>,
        /// Replace the one that is there.
        #[arg(long)]
        overwrite: bool,
    },
}

/// About the provider's record.
#[derive(Debug, Subcommand)]
pub enum ProviderTx {
    /// Register the provider of this account.
    Create {
        /// The `provider.yaml`: host, info and attributes of the provider.
        file: PathBuf,
    },
    /// Replace the record of the provider by that of the file.
    Update {
        /// The `provider.yaml`: host, info and attributes of the provider.
        file: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parsed(words: &[&str]) -> Result<GasArgs, String> {
        let all = [&["provider-daemon", "run"][..], words].concat();
        match Cli::try_parse_from(all).map_err(|e| e.to_string())?.command {
            Command::Run(args) => Ok(args.gas),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ceilings_are_set_one_by_one() {
        let price_max = Dec::from_scaled(500_000_000_000_000_000);
        let usual = parsed(&[]).unwrap().ceilings(price_max);
        assert_eq!(usual, Ceilings::for_price(price_max));
        let words = [
            "--gas-ceiling=bid=2000000,hour=5",
            "--fee-ceiling",
            "transaction=7",
        ];
        let set = parsed(&words).unwrap().ceilings(price_max);
        assert_eq!(set.get(Scope::Bid).gas, 2_000_000);
        assert_eq!(set.get(Scope::Bid).fee, usual.get(Scope::Bid).fee);
        assert_eq!(
            (set.get(Scope::Hour).gas, set.get(Scope::Transaction).fee),
            (5, 7)
        );
        assert_eq!(set.get(Scope::Close), usual.get(Scope::Close));
        for (bad, why) in [
            ("bids=1", "bid, close"),
            ("bid", "bid=1000000"),
            ("bid=-1", "whole number"),
        ] {
            let error = parsed(&["--gas-ceiling", bad]).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
