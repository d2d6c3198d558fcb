//! Money. Amounts are the chain's decimals: integers scaled by 10^18, never floats.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A token's base denomination, for example `uact`.
pub type Denom = Arc<str>;

/// Fractional digits of a [`Dec`].
pub const FRACTION_DIGITS: usize = 18;
const ONE: i128 = 1_000_000_000_000_000_000;

/// A decimal with exactly 18 fractional digits, as the chain computes with (±1.7·10^20).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dec(i128);

/// Why a text is not a [`Dec`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDecError {
    /// Not `[-]digits[.digits]`; exponents are not accepted.
    #[error("`{0}` is not a decimal number")]
    NotDecimal(String),
    /// An amount of nothing.
    #[error("`{0}` names no denomination")]
    NoDenom(String),
    /// More than 18 digits after the point.
    #[error("`{0}` has more than 18 fractional digits")]
    TooPrecise(String),
    /// Beyond what a price can be.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

impl Dec {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// A whole number; saturates at the largest.
    #[must_use]
    pub fn from_int(value: i64) -> Self {
        Self(i128::from(value) * ONE)
    }

    /// From the integer scaled by 10^18, as it is on the wire.
    #[must_use]
    pub const fn from_scaled(scaled: i128) -> Self {
        Self(scaled)
    }

    /// The integer scaled by 10^18, as it is on the wire.
    #[must_use]
    pub const fn scaled(self) -> i128 {
        self.0
    }

    /// Sum; `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Difference; `None` on overflow.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Product with a whole number; `None` on overflow.
    #[must_use]
    pub fn checked_mul_int(self, factor: i128) -> Option<Self> {
        self.0.checked_mul(factor).map(Self)
    }

    /// How often `other` fits, towards zero; `None` when `other` is zero.
    #[must_use]
    pub fn div_floor_int(self, other: Self) -> Option<i128> {
        self.0.checked_div(other.0)
    }

    /// True below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// True at zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Text without trailing zeros, for people.
    #[must_use]
    pub fn to_plain(self) -> String {
        let text = self.to_string();
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl fmt::Display for Dec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let abs = self.0.unsigned_abs();
        let one = ONE.unsigned_abs();
        write!(f, "{sign}{}.{:018}", abs / one, abs % one)
    }
}

impl FromStr for Dec {
    type Err = ParseDecError;

    fn from_str(text: &str) -> Result<Self, ParseDecError> {
        let shown = || text.chars().take(80).collect::<String>();
        let not_decimal = || ParseDecError::NotDecimal(shown());
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || digits.ends_with('.') {
            return Err(not_decimal());
        }
        if fraction.len() > FRACTION_DIGITS {
            return Err(ParseDecError::TooPrecise(shown()));
        }
        let too_large = |_| ParseDecError::TooLarge(shown());
        let scaled: i128 = format!("{whole}{fraction:0<18}").parse().map_err(too_large)?;
        Ok(Self(if negative { -scaled } else { scaled }))
    }
}

impl Serialize for Dec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Dec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A whole amount of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coin {
    /// Base denomination.
    pub denom: Denom,
    /// Whole units; text in JSON.
    #[serde(with = "u128_text")]
    pub amount: u128,
}

/// A decimal amount of a token; prices are per block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DecCoin {
    /// Base denomination.
    pub denom: Denom,
    /// Amount with 18 fractional digits.
    pub amount: Dec,
}

impl DecCoin {
    /// An amount of a token.
    #[must_use]
    pub fn new(denom: &Denom, amount: Dec) -> Self {
        Self {
            denom: Arc::clone(denom),
            amount,
        }
    }
}

impl fmt::Display for Coin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.amount, self.denom)
    }
}

impl fmt::Display for DecCoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.amount.to_plain(), self.denom)
    }
}

impl FromStr for Coin {
    type Err = ParseDecError;

    fn from_str(text: &str) -> Result<Self, ParseDecError> {
        let beginning = || text.chars().take(80).collect();
        let not = || ParseDecError::NotDecimal(beginning());
        let at = text.find(|c: char| !c.is_ascii_digit());
        let at = at.ok_or_else(|| match text.is_empty() {
            true => not(),
            false => ParseDecError::NoDenom(beginning()),
        })?;
        let (amount, denom) = text.split_at(at);
        let valid = denom.starts_with(|c: char| c.is_ascii_alphabetic())
            && denom
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"/:._-".contains(&b));
        if !valid {
            return Err(not());
        }
        Ok(Self {
            denom: denom.into(),
            amount: amount.parse().map_err(|_| not())?,
        })
    }
}

mod u128_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_limited() {
        let d: Dec = "15.06608".parse().unwrap();
        assert_eq!(d.to_string(), "15.066080000000000000");
        assert_eq!(d.to_plain(), "15.06608");
        assert_eq!(
            "-0.5".parse::<Dec>().unwrap().to_string(),
            "-0.500000000000000000"
        );
        assert!(matches!(
            "1.0000000000000000001".parse::<Dec>(),
            Err(ParseDecError::TooPrecise(_))
        ));
        assert!(matches!("1e3".parse::<Dec>(), Err(ParseDecError::NotDecimal(_))));
        let long = "9".repeat(60);
        assert!(matches!(long.parse::<Dec>(), Err(ParseDecError::TooLarge(_))));
        for bad in ["", ".", "1.", ".5", "--1", "1.2.3", " 1"] {
            assert!(bad.parse::<Dec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn coins_parse() {
        assert_eq!("500000uakt".parse::<Coin>().unwrap().to_string(), "500000uakt");
        for bad in ["", "uakt", "5", "5 uakt", "-5uakt", "5.0uakt"] {
            assert!(bad.parse::<Coin>().is_err(), "{bad}");
        }
    }
}
