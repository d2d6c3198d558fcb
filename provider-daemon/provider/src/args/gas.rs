//! Flags of the fees of transactions.

use akash_provider_chain::gas::{CeilingScope, Ceilings};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::setting::HaRule;
use akash_provider_core::types::{Address, Dec, Denom};
use anyhow::{Context, bail};
use clap::Args;
use std::fmt::Display;
use std::str::FromStr;

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
    pub gas_prices: String,
    /// Factor by which the simulated gas is multiplied
    #[arg(long, value_name = "FACTOR", default_value_t = 1.2, value_parser = factor, global = true)]
    pub gas_adjustment: f64,
    /// Total fee of a transaction, instead of a price by --gas-prices
    #[arg(long, value_name = "COIN", global = true)]
    #[arg(add = HaRule::NO_EFFECT)]
    pub fees: Option<String>,
    /// Account with a fee allowance that pays the fee
    #[arg(long, value_name = "ADDRESS", global = true)]
    pub fee_granter: Option<Address>,
    /// Gas limits by kind of message, per transaction and per hour [default: ten times the usual gas]
    #[arg(long, value_name = "KIND=GAS", value_delimiter = ',', value_parser = ceiling::<u64>, global = true)]
    pub gas_ceiling: Vec<(CeilingScope, u64)>,
    /// Fee limits by kind of message, in the token of --gas-prices [default: gas limits times the highest gas
    /// price]
    #[arg(long, value_name = "KIND=AMOUNT", value_delimiter = ',', value_parser = ceiling::<u128>, global = true)]
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

/// Parses a gas price such as `0.025uakt`.
///
/// # Errors
/// Returns an error if the text has no valid amount or no denomination.
pub fn gas_price(text: &str) -> anyhow::Result<(Denom, Dec)> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (amount, denom) = text.split_at(at);
    let wanted = || {
        WithHelp::new(
            format!("invalid value \"{text}\" for --gas-prices"),
            "expected an amount such as 0.025uakt",
        )
    };
    let is_amount = !amount.is_empty();
    let amount: Dec = amount.parse().with_context(wanted)?;
    if !is_amount || denom.is_empty() || amount < Dec::ZERO {
        bail!(wanted());
    }
    Ok((denom.into(), amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::run_line::RunLine;
    use crate::error::message_text;

    fn parsed(words: &[&str]) -> Result<GasArgs, String> {
        let args = RunLine::trial(words).map_err(|e| e.to_string())?;
        Ok(args.gas)
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

    #[test]
    fn parses_a_gas_price() {
        let (denom, price) = gas_price("0.025uakt").unwrap();
        assert_eq!(
            (&*denom, price.to_string().as_str()),
            ("uakt", "0.025000000000000000")
        );
        for bad in ["", "0.025", "uakt", "x0.025uakt", "-1uakt"] {
            assert!(
                message_text(&gas_price(bad).unwrap_err()).contains("0.025uakt"),
                "{bad}"
            );
        }
    }
}
