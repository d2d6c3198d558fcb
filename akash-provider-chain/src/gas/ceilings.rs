//! Upper limits of gas and fees.
//!
//! The fee is the gas multiplied by the gas price, and both values come from a node. A malicious node or
//! proxy could report any value. For this reason, fixed ceilings apply to each type of message, to each
//! transaction, and to one hour.
//!
//! The default ceilings are based on the maximum gas of transactions on the Akash network: bid 125,000, close
//! 252,000, start of a reclamation 77,000, withdrawal 277,000, provider record 78,000, certificate 99,000.
//! The gas ceiling of a message is 10 times the maximum of its type, which allows for upgrades of the chain
//! and for large offers and records. The fee ceiling of a message is the fee for 4 times this maximum, at the
//! maximum gas price.

use crate::signer::TxFee;
use akash_provider_core::types::{Dec, Msg};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// 10^18, the scale of a decimal.
const ONE: i128 = 1_000_000_000_000_000_000;
/// Gas ceiling of a message, as a multiple of the maximum gas observed on the Akash network.
const GAS_FACTOR: u64 = 10;
/// Fee ceiling of a message: `FEE_FACTOR × maximum observed gas × maximum gas price`.
const FEE_FACTOR: u64 = 4;
/// Gas ceiling of a transaction: more than twice the gas of 16 withdrawals.
const TRANSACTION_GAS: u64 = 10_000_000;
/// The fee ceiling of a transaction is the fee for this gas at the maximum gas price.
const TRANSACTION_FEE_GAS: u64 = 6_000_000;
/// Gas ceiling of one hour: the gas of 1000 bids, 1000 closes and 1000 withdrawals, with a margin.
const HOUR_GAS: u64 = 800_000_000;
/// Gas that the default hourly fee ceiling pays for at the maximum gas price. At the default gas price, the
/// ceiling pays for [`HOUR_GAS`].
const HOUR_FEE_GAS: u64 = HOUR_GAS / 20;

/// Messages or transactions to which a ceiling applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CeilingScope {
    /// Message that creates a bid.
    Bid,
    /// Message that closes a bid or a lease.
    Close,
    /// Message that starts a reclamation.
    Reclaim,
    /// Message that withdraws the earnings of a lease.
    Withdraw,
    /// Message that creates or updates the provider record.
    Provider,
    /// Message that publishes or revokes a certificate.
    Certificate,
    /// One transaction, with any messages.
    Transaction,
    /// All transactions of one hour.
    Hour,
}

impl CeilingScope {
    /// All scopes, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Bid,
        Self::Close,
        Self::Reclaim,
        Self::Withdraw,
        Self::Provider,
        Self::Certificate,
        Self::Transaction,
        Self::Hour,
    ];

    pub(super) const fn for_message(msg: &Msg) -> Self {
        match msg {
            Msg::CreateBid { .. } => Self::Bid,
            Msg::CloseBid { .. } => Self::Close,
            Msg::StartReclaim { .. } => Self::Reclaim,
            Msg::WithdrawLease { .. } => Self::Withdraw,
            Msg::CreateProvider(_) | Msg::UpdateProvider(_) => Self::Provider,
            Msg::CreateCertificate { .. } | Msg::RevokeCertificate { .. } => Self::Certificate,
        }
    }

    /// Returns the name of the scope in the configuration file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bid => "bid",
            Self::Close => "close",
            Self::Reclaim => "reclaim",
            Self::Withdraw => "withdraw",
            Self::Provider => "provider",
            Self::Certificate => "certificate",
            Self::Transaction => "transaction",
            Self::Hour => "hour",
        }
    }

    /// Returns the gas of the most expensive message of this type on the Akash network. Returns `None` for
    /// [`Self::Transaction`] and [`Self::Hour`].
    const fn observed_gas(self) -> Option<u64> {
        match self {
            Self::Bid => Some(125_000),
            Self::Close => Some(252_000),
            Self::Reclaim => Some(77_000),
            Self::Withdraw => Some(277_000),
            Self::Provider => Some(78_000),
            Self::Certificate => Some(99_000),
            Self::Transaction | Self::Hour => None,
        }
    }
}

impl fmt::Display for CeilingScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CeilingScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown ceiling `{text}`, expected one of {names}")
        })
    }
}

/// Total gas and total fee of some transactions, or a ceiling for these totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cost {
    /// Total gas limit, in units of gas.
    pub gas: u64,
    /// Fee, in the fee denomination.
    pub fee: u128,
}

/// Ceilings of all scopes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ceilings {
    most: BTreeMap<CeilingScope, Cost>,
}

/// The gas or the fee of a transaction exceeds a ceiling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {asked} is above the ceiling of {most} for {scope}: if the cost is correct, raise the ceiling with \
     --{what}-ceiling, otherwise use another node"
)]
pub struct CeilingError {
    pub(super) what: &'static str,
    pub(super) asked: u128,
    pub(super) most: u128,
    pub(super) scope: String,
}

/// Returns the fee of `gas` units at a price, rounded up.
pub(super) fn cost(gas: u64, price: Dec) -> u128 {
    let scaled = price.checked_mul_int(i128::from(gas)).map(Dec::scaled);
    // A fee that overflows exceeds every ceiling.
    scaled.map_or(u128::MAX, |scaled| {
        let whole = scaled / ONE + i128::from(scaled % ONE != 0);
        u128::try_from(whole).unwrap_or(0)
    })
}

impl Ceilings {
    /// Returns the default ceilings for a maximum price of one unit of gas.
    #[must_use]
    pub fn for_price(price_max: Dec) -> Self {
        let usual = |scope: CeilingScope| match (scope.observed_gas(), scope) {
            (Some(observed_gas), _) => Cost {
                gas: GAS_FACTOR * observed_gas,
                fee: cost(FEE_FACTOR * observed_gas, price_max),
            },
            (None, CeilingScope::Hour) => Cost {
                gas: HOUR_GAS,
                fee: cost(HOUR_FEE_GAS, price_max),
            },
            (None, _) => Cost {
                gas: TRANSACTION_GAS,
                fee: cost(TRANSACTION_FEE_GAS, price_max),
            },
        };
        Self {
            most: CeilingScope::ALL.map(|scope| (scope, usual(scope))).into(),
        }
    }

    /// Changes the ceiling of one scope.
    pub fn change(&mut self, scope: CeilingScope, change: impl FnOnce(&mut Cost)) {
        if let Some(most) = self.most.get_mut(&scope) {
            change(most);
        }
    }

    /// Returns the ceiling of one scope.
    #[must_use]
    pub fn get(&self, scope: CeilingScope) -> Cost {
        self.most.get(&scope).copied().unwrap_or(Cost { gas: 0, fee: 0 })
    }

    /// Returns the ceiling of a transaction with these messages.
    #[must_use]
    pub fn for_messages(&self, msgs: &[Msg]) -> Cost {
        let whole = self.get(CeilingScope::Transaction);
        // The sum saturates, and is then limited to the ceiling of a transaction.
        let each = || msgs.iter().map(|msg| self.get(CeilingScope::for_message(msg)));
        Cost {
            gas: whole.gas.min(each().fold(0, |sum, m| sum.saturating_add(m.gas))),
            fee: whole.fee.min(each().fold(0, |sum, m| sum.saturating_add(m.fee))),
        }
    }

    /// Checks that the gas of a transaction does not exceed the ceiling of its messages.
    ///
    /// # Errors
    /// Returns an error if the gas exceeds the ceiling.
    pub fn check_gas(&self, msgs: &[Msg], used: u64) -> Result<(), CeilingError> {
        let most = self.for_messages(msgs).gas;
        if used <= most {
            return Ok(());
        }
        Err(CeilingError {
            what: "gas",
            asked: used.into(),
            most: most.into(),
            scope: scope_name(msgs),
        })
    }

    /// Checks that the fee of a transaction does not exceed the ceiling of its messages.
    ///
    /// # Errors
    /// Returns an error if the fee exceeds the ceiling.
    pub fn check_fee(&self, msgs: &[Msg], fee: u128) -> Result<(), CeilingError> {
        let most = self.for_messages(msgs).fee;
        if fee <= most {
            return Ok(());
        }
        Err(CeilingError {
            what: "fee",
            asked: fee,
            most,
            scope: scope_name(msgs),
        })
    }

    /// Checks that gas limit and fee do not exceed the ceiling of one transaction. Used if the messages of the
    /// transaction are unknown.
    ///
    /// # Errors
    /// Returns an error if the gas limit or the fee exceeds the ceiling.
    pub fn check_price(&self, price: &TxFee) -> Result<(), CeilingError> {
        let most = self.get(CeilingScope::Transaction);
        let too_much = |what, asked, most| CeilingError {
            what,
            asked,
            most,
            scope: CeilingScope::Transaction.to_string(),
        };
        if price.gas_limit > most.gas {
            return Err(too_much("gas", price.gas_limit.into(), most.gas.into()));
        }
        if price.fee.amount > most.fee {
            return Err(too_much("fee", price.fee.amount, most.fee));
        }
        Ok(())
    }
}

pub(super) fn scope_name(msgs: &[Msg]) -> String {
    match msgs {
        [one] => CeilingScope::for_message(one).to_string(),
        _ => CeilingScope::Transaction.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gas::GasConfig;

    fn close(dseq: u64) -> Msg {
        let id = format!(
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/{dseq}/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
        );
        Msg::CloseBid {
            id: id.parse().unwrap(),
            reason: akash_provider_core::types::CloseReason::Unspecified,
        }
    }

    #[test]
    fn cost_at_the_ceiling_is_accepted_and_above_refused() {
        let config = GasConfig::default();
        let ceilings = &config.ceilings;
        let one = [close(1)];
        assert!(ceilings.check_gas(&one, 2_520_000).is_ok());
        let why = ceilings.check_gas(&one, 2_520_001).unwrap_err().to_string();
        assert!(
            why.contains("2520001") && why.contains("2520000 for close"),
            "{why}"
        );
        // 4 times 252,000 gas at the price 0.5.
        assert!(ceilings.check_fee(&one, 504_000).is_ok());
        assert!(ceilings.check_fee(&one, 504_001).is_err());
        // The ceiling of a transaction limits the sum of its messages.
        let many: Vec<Msg> = (1..=16).map(close).collect();
        assert_eq!(ceilings.for_messages(&many).gas, 10_000_000);
        assert!(ceilings.check_fee(&many, 3_000_001).is_err());
        // No price and no gas limit overflows to a small fee.
        let fee = config.price(u64::MAX, Dec::from_scaled(i128::MAX)).fee.amount;
        assert!(ceilings.check_fee(&one, fee).is_err(), "{fee}");
    }

    #[test]
    fn scope_names_parse() {
        for scope in CeilingScope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
        }
        let unknown = "bids".parse::<CeilingScope>().unwrap_err();
        assert!(
            unknown.contains("bid, close") && unknown.contains("hour"),
            "{unknown}"
        );
    }
}
