//! What is never paid, whatever a node says that things cost.
//!
//! A fee is gas times price, and both come from a node: one that lies, or somebody between, could name any gas at
//! all. So there are ceilings that no node moves: for each kind of message, for a transaction, and for an hour.
//!
//! The usual ones follow from what the network's transactions were seen to use, at most: a bid 125,000, a close
//! 252,000, the start of a reclamation 77,000, a withdrawal 277,000, a provider's record 78,000, a certificate
//! 99,000. Ten times that is room for an upgrade of the chain and for the longest offers and records. The fee of a
//! message may be four times its usual gas at the highest price that is paid at all.

use crate::signer::Price;
use akash_provider_core::types::{Dec, Msg};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// 10^18, the scale of a decimal.
const ONE: i128 = 1_000_000_000_000_000_000;
/// Room above what was seen to be used.
const GAS_ROOM: u64 = 10;
/// The same of the fee, at the highest price.
const FEE_ROOM: u64 = 4;
/// Gas of a transaction: twice what sixteen withdrawals use that share one.
const TRANSACTION_GAS: u64 = 10_000_000;
/// Gas whose fee at the highest price is that of a transaction.
const TRANSACTION_FEE_GAS: u64 = 6_000_000;
/// Gas of an hour: a thousand bids, as many closes and as many withdrawals, with their room.
const HOUR_GAS: u64 = 800_000_000;
/// Gas whose fee at the highest price is that of an hour: all of it at the usual price, a twentieth of the highest.
const HOUR_FEE_GAS: u64 = HOUR_GAS / 20;

/// What a ceiling is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The creation of a bid.
    Bid,
    /// The close of a bid or a lease.
    Close,
    /// The start of a reclamation.
    Reclaim,
    /// A withdrawal of what a lease has earned.
    Withdraw,
    /// The provider's record, created or updated.
    Provider,
    /// A certificate, published or revoked.
    Certificate,
    /// A transaction, whatever is in it.
    Transaction,
    /// All transactions of an hour.
    Hour,
}

impl Scope {
    /// All of them; an error about an unknown name lists them in this order.
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

    pub(super) const fn of(msg: &Msg) -> Self {
        match msg {
            Msg::CreateBid { .. } => Self::Bid,
            Msg::CloseBid { .. } => Self::Close,
            Msg::StartReclaim { .. } => Self::Reclaim,
            Msg::WithdrawLease { .. } => Self::Withdraw,
            Msg::CreateProvider(_) | Msg::UpdateProvider(_) => Self::Provider,
            Msg::CreateCertificate { .. } | Msg::RevokeCertificate { .. } => Self::Certificate,
        }
    }

    /// As it is written in settings.
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

    /// The most gas that such a message was seen to use.
    const fn seen(self) -> Option<u64> {
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

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` has no ceiling; write one of {names}")
        })
    }
}

/// The most of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Most {
    /// Units of gas; of what was paid the limits of the transactions, used or not.
    pub gas: u64,
    /// Fee, in the token that fees are paid in.
    pub fee: u128,
}

/// All ceilings, one for each scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ceilings {
    most: BTreeMap<Scope, Most>,
}

/// A transaction above a ceiling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {asked} is above the ceiling of {most} for {scope}: if that is what it costs, raise the ceiling, else \
     use another node"
)]
pub struct TooMuch {
    pub(super) what: &'static str,
    pub(super) asked: u128,
    pub(super) most: u128,
    pub(super) scope: String,
}

/// What `gas` costs at a price, up to the whole amount.
pub(super) fn cost(gas: u64, price: Dec) -> u128 {
    let scaled = price.checked_mul_int(i128::from(gas)).map(Dec::scaled);
    // What overflows is above every ceiling.
    scaled.map_or(u128::MAX, |scaled| {
        let whole = scaled / ONE + i128::from(scaled % ONE != 0);
        u128::try_from(whole).unwrap_or(0)
    })
}

impl Ceilings {
    /// The usual ones, where no more than `price_max` is paid for a unit of gas.
    #[must_use]
    pub fn at(price_max: Dec) -> Self {
        let usual = |scope: Scope| match (scope.seen(), scope) {
            (Some(seen), _) => Most {
                gas: GAS_ROOM * seen,
                fee: cost(FEE_ROOM * seen, price_max),
            },
            (None, Scope::Hour) => Most {
                gas: HOUR_GAS,
                fee: cost(HOUR_FEE_GAS, price_max),
            },
            (None, _) => Most {
                gas: TRANSACTION_GAS,
                fee: cost(TRANSACTION_FEE_GAS, price_max),
            },
        };
        Self {
            most: Scope::ALL.map(|scope| (scope, usual(scope))).into(),
        }
    }

    /// Changes the ceiling of one scope.
    pub fn change(&mut self, scope: Scope, change: impl FnOnce(&mut Most)) {
        if let Some(most) = self.most.get_mut(&scope) {
            change(most);
        }
    }

    /// The ceiling of one scope.
    #[must_use]
    pub fn of(&self, scope: Scope) -> Most {
        self.most.get(&scope).copied().unwrap_or(Most { gas: 0, fee: 0 })
    }

    /// The most gas and fee of a transaction with these messages.
    #[must_use]
    pub fn of_messages(&self, msgs: &[Msg]) -> Most {
        let whole = self.of(Scope::Transaction);
        // Saturating: what overflows is cut to the ceiling of a transaction.
        let each = || msgs.iter().map(|msg| self.of(Scope::of(msg)));
        Most {
            gas: whole.gas.min(each().fold(0, |sum, m| sum.saturating_add(m.gas))),
            fee: whole.fee.min(each().fold(0, |sum, m| sum.saturating_add(m.fee))),
        }
    }

    /// Whether a transaction that uses so much is too much by itself.
    ///
    /// # Errors
    /// When it is.
    pub fn judge_gas(&self, msgs: &[Msg], used: u64) -> Result<(), TooMuch> {
        let most = self.of_messages(msgs).gas;
        if used <= most {
            return Ok(());
        }
        Err(TooMuch {
            what: "its gas of",
            asked: used.into(),
            most: most.into(),
            scope: named(msgs),
        })
    }

    /// The same of its fee.
    ///
    /// # Errors
    /// When it is.
    pub fn judge_fee(&self, msgs: &[Msg], fee: u128) -> Result<(), TooMuch> {
        let most = self.of_messages(msgs).fee;
        if fee <= most {
            return Ok(());
        }
        Err(TooMuch {
            what: "its fee of",
            asked: fee,
            most,
            scope: named(msgs),
        })
    }

    /// A transaction whose messages are not known, by what it would use and pay.
    ///
    /// # Errors
    /// When that is too much for any.
    pub fn judge_any(&self, price: &Price) -> Result<(), TooMuch> {
        let most = self.of(Scope::Transaction);
        let too_much = |what, asked, most| TooMuch {
            what,
            asked,
            most,
            scope: Scope::Transaction.to_string(),
        };
        if price.gas_limit > most.gas {
            return Err(too_much("its gas of", price.gas_limit.into(), most.gas.into()));
        }
        if price.fee.amount > most.fee {
            return Err(too_much("its fee of", price.fee.amount, most.fee));
        }
        Ok(())
    }
}

pub(super) fn named(msgs: &[Msg]) -> String {
    match msgs {
        [one] => Scope::of(one).to_string(),
        _ => Scope::Transaction.to_string(),
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
    fn at_the_ceiling_it_is_paid_and_above_it_is_not() {
        let config = GasConfig::default();
        let ceilings = &config.ceilings;
        let one = [close(1)];
        assert!(ceilings.judge_gas(&one, 2_520_000).is_ok());
        let why = ceilings.judge_gas(&one, 2_520_001).unwrap_err().to_string();
        assert!(
            why.contains("2520001") && why.contains("2520000 for close"),
            "{why}"
        );
        // Four times 252,000 at 0.5.
        assert!(ceilings.judge_fee(&one, 504_000).is_ok());
        assert!(ceilings.judge_fee(&one, 504_001).is_err());
        // Many together stay below what one transaction may.
        let many: Vec<Msg> = (1..=16).map(close).collect();
        assert_eq!(ceilings.of_messages(&many).gas, 10_000_000);
        assert!(ceilings.judge_fee(&many, 3_000_001).is_err());
        // No price and no gas makes a fee so large that it passes for a small one.
        let fee = config.price(u64::MAX, Dec::from_scaled(i128::MAX)).fee.amount;
        assert!(ceilings.judge_fee(&one, fee).is_err(), "{fee}");
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for scope in Scope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
        }
        let unknown = "bids".parse::<Scope>().unwrap_err();
        assert!(
            unknown.contains("bid, close") && unknown.contains("hour"),
            "{unknown}"
        );
    }
}
