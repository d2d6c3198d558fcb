//! Flags of `tx`.

pub mod tenant;

use super::query::QueryOutput;
use super::{AuditLogArgs, NodeArgs, SignerArgs, values};
use akash_provider_chain::gas::{CeilingScope, Ceilings};
use akash_provider_cli::setting::HaRule;
use akash_provider_core::types::{Address, Dec};
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use tenant::{DeploymentTx, EscrowTx, MarketTx};

/// Arguments of `tx`.
#[derive(Debug, Args)]
pub struct TxArgs {
    /// Output format of the result
    #[arg(long, short, value_enum, default_value = "json", global = true)]
    pub output: QueryOutput,
    /// Send the transaction without confirmation
    #[arg(long, short, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub yes: bool,
    /// Fees.
    #[command(flatten)]
    pub gas: GasArgs,
    /// Transaction.
    #[command(flatten)]
    pub how: TransactionArgs,
    /// Audit log.
    #[command(flatten)]
    pub audit: AuditLogArgs,
    /// Signing key.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Nodes of the chain.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Transaction to send.
    #[command(subcommand)]
    pub command: TxCommand,
}

/// Fees of transactions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fee")]
pub struct GasArgs {
    /// Gas limit; `auto` simulates the transaction on a node
    #[arg(long, default_value = "auto", value_parser = gas, global = true)]
    #[arg(add = HaRule::NO_EFFECT)]
    pub gas: Gas,
    /// Price of one unit of gas; raised to the minimum of the node
    #[arg(long, value_name = "COIN", default_value = "0.025uakt", global = true)]
    #[arg(add = HaRule::Equal)]
    pub gas_prices: String,
    /// Factor by which the simulated gas is multiplied
    #[arg(long, value_name = "FACTOR", default_value_t = 1.2, value_parser = factor, global = true)]
    #[arg(add = HaRule::Equal)]
    pub gas_adjustment: f64,
    /// Total fee of a transaction, instead of a price by --gas-prices
    #[arg(long, value_name = "COIN", global = true)]
    #[arg(add = HaRule::NO_EFFECT)]
    pub fees: Option<String>,
    /// Account with a fee allowance that pays the fee
    #[arg(long, value_name = "ADDRESS", global = true)]
    #[arg(add = HaRule::Equal)]
    pub fee_granter: Option<Address>,
    /// Gas limits by kind of message, per transaction and per hour [default: ten times the usual gas]
    #[arg(long, value_name = "KIND=GAS", value_delimiter = ',', value_parser = ceiling::<u64>, global = true)]
    #[arg(add = HaRule::Equal)]
    pub gas_ceiling: Vec<(CeilingScope, u64)>,
    /// Fee limits by kind of message, in the token of --gas-prices [default: gas limits times the highest gas
    /// price]
    #[arg(long, value_name = "KIND=AMOUNT", value_delimiter = ',', value_parser = ceiling::<u128>, global = true)]
    #[arg(add = HaRule::Equal)]
    pub fee_ceiling: Vec<(CeilingScope, u128)>,
}

impl GasArgs {
    /// Returns the limits of gas and fees. `price_max` is the maximum price per unit of gas.
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

fn ceiling<T: FromStr<Err: Display>>(text: &str) -> Result<(CeilingScope, T), String> {
    let (kind, most) = text
        .split_once('=')
        .ok_or_else(|| format!("missing amount in `{text}`; expected KIND=AMOUNT, such as bid=1000000"))?;
    let most = most
        .parse()
        .map_err(|e| format!("invalid amount `{most}`: {e}; expected a whole number"))?;
    Ok((kind.parse()?, most))
}

/// Creation and broadcast of a transaction.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Transaction")]
pub struct TransactionArgs {
    /// Return after a block includes the transaction (block), or after the node has checked it (sync, async)
    #[arg(long, short, value_enum, default_value = "block", global = true)]
    pub broadcast_mode: BroadcastMode,
    /// Sequence number of the account [default: an unordered transaction, unless --timeout-height is set]
    #[arg(long, short, value_name = "NUMBER", global = true)]
    pub sequence: Option<u64>,
    /// Height of the last block that may include the transaction; 0 sets no limit
    #[arg(long, value_name = "HEIGHT", default_value_t = 0, global = true)]
    pub timeout_height: u64,
    /// Public note in the transaction
    #[arg(long, value_name = "TEXT", default_value = "", global = true)]
    pub note: String,
    /// Account number on the chain [default: queried from a node]
    #[arg(long, short, value_name = "NUMBER", global = true)]
    pub account_number: Option<u64>,
    /// Print the transaction without signing or sending it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub generate_only: bool,
    /// Do not query a node; requires --generate-only
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub offline: bool,
    /// Print the simulated gas without sending the transaction
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", global = true,
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub dry_run: bool,
    /// Signing mode; only `direct` is supported
    #[arg(long, value_enum, default_value = "direct", global = true)]
    pub sign_mode: SignMode,
}

/// Moment at which a command returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BroadcastMode {
    /// After the block that includes the transaction
    Block,
    /// After the check of the node
    Sync,
    /// Like sync, because a transaction that the node rejects must be reported
    Async,
}

/// Signing mode of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SignMode {
    /// Sign the encoded bytes
    Direct,
}

/// Gas limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gas {
    /// Gas that a simulation on a node reports, times `--gas-adjustment`.
    Auto,
    /// Fixed number of gas units, without a simulation.
    Limit(u64),
}

fn gas(text: &str) -> Result<Gas, String> {
    if text == "auto" {
        return Ok(Gas::Auto);
    }
    let limit: u64 = text
        .parse()
        .map_err(|e| format!("{e}; expected auto or a number"))?;
    if limit == 0 {
        return Err("must be greater than zero, or auto".to_owned());
    }
    Ok(Gas::Limit(limit))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text
        .parse()
        .map_err(|e| format!("{e}; expected a number such as 1.2"))?;
    if (1.0..=10.0).contains(&factor) {
        Ok(factor)
    } else {
        Err("must be from 1 to 10".to_owned())
    }
}

/// Transactions.
#[derive(Debug, Subcommand)]
pub enum TxCommand {
    /// Create, publish or revoke the certificate of the account
    #[command(subcommand)]
    Cert(CertTx),
    /// Register the provider, or update its record
    #[command(subcommand)]
    Provider(ProviderTx),
    /// Create, update or close a deployment of a tenant
    #[command(subcommand)]
    Deployment(DeploymentTx),
    /// Accept bids on the orders of a tenant
    #[command(subcommand)]
    Market(MarketTx),
    /// Deposit money for a deployment of a tenant
    #[command(subcommand)]
    Escrow(EscrowTx),
}

/// Actions on certificates.
#[derive(Debug, Subcommand)]
pub enum CertTx {
    /// Create a certificate in the home directory
    #[command(subcommand)]
    Generate(GenerateCert),
    /// Publish the certificate on the chain
    Publish {
        /// Owner of the certificate; client and server certificates use the same file
        #[arg(value_enum)]
        role: Role,
    },
    /// Permanently revoke the certificate on the chain
    Revoke {
        /// Owner of the certificate; client and server certificates use the same file
        #[arg(value_enum)]
        role: Role,
        /// Serial number of the certificate, in decimal [default: of the certificate in the home directory]
        #[arg(long)]
        serial: Option<String>,
    },
}

/// Owner of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Tenant
    Client,
    /// Provider
    Server,
}

/// Kinds of new certificates.
#[derive(Debug, Subcommand)]
pub enum GenerateCert {
    /// Create the certificate of a tenant
    Client {
        /// Replace an existing certificate
        #[arg(long)]
        overwrite: bool,
    },
    /// Create the certificate of a provider, for its host names
    Server {
        /// Host names of the provider, without scheme and port
        #[arg(required = true)]
        domains: Vec<String>,
        /// Replace an existing certificate
        #[arg(long)]
        overwrite: bool,
    },
}

/// Actions on the record of the provider.
#[derive(Debug, Subcommand)]
pub enum ProviderTx {
    /// Register the provider of this account
    Create {
        /// provider.yaml with the host, info and attributes of the provider
        file: PathBuf,
    },
    /// Replace the record of the provider with the record in the file
    Update {
        /// provider.yaml with the host, info and attributes of the provider
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
    fn sets_single_ceilings() {
        let price_max = Dec::from_scaled(500_000_000_000_000_000);
        let usual = parsed(&[]).unwrap().ceilings(price_max);
        assert_eq!(usual, Ceilings::for_price(price_max));
        let words = [
            "--gas-ceiling=bid=2000000,hour=5",
            "--fee-ceiling",
            "transaction=7",
        ];
        let set = parsed(&words).unwrap().ceilings(price_max);
        assert_eq!(set.get(CeilingScope::Bid).gas, 2_000_000);
        assert_eq!(set.get(CeilingScope::Bid).fee, usual.get(CeilingScope::Bid).fee);
        assert_eq!(
            (
                set.get(CeilingScope::Hour).gas,
                set.get(CeilingScope::Transaction).fee
            ),
            (5, 7)
        );
        assert_eq!(set.get(CeilingScope::Close), usual.get(CeilingScope::Close));
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
