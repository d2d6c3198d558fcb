//! Amounts of money. Like on the chain, decimals are integers scaled by 10^18, never floats.

use bigdecimal::num_bigint::{BigInt, Sign};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Base denomination of a token, for example `uact`.
pub type Denom = Arc<str>;

/// Number of fractional digits of a [`Dec`].
pub const FRACTION_DIGITS: usize = 18;
const ONE: i128 = 1_000_000_000_000_000_000;

/// A decimal with exactly 18 fractional digits, as on the chain. The range is about ±1.7·10^20.
///
/// Arithmetic is checked and returns `None` on overflow. Sums and differences are exact. Products and
/// quotients are rounded to 18 digits, half to even.
///
/// ```
/// # use akash_provider_core::types::Dec;
/// let price: Dec = "12.5".parse().unwrap();
/// let factor = Dec::from_int(11).checked_div(Dec::from_int(10));
/// assert_eq!(factor.and_then(|factor| price.checked_mul(factor)), "13.75".parse().ok());
/// assert_eq!(price.checked_div(Dec::ZERO), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dec(i128);

/// Reason why a text is not a [`Dec`] or a coin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDecError {
    /// The text does not have the form `[-]digits[.digits]`. Exponents are not accepted.
    #[error("`{0}` is not a decimal number")]
    NotDecimal(String),
    /// The denomination is missing.
    #[error("`{0}` has no denomination, such as uakt")]
    NoDenom(String),
    /// The number has more than 18 fractional digits.
    #[error("`{0}` has more than 18 fractional digits")]
    TooPrecise(String),
    /// The number is too large.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

impl Dec {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Creates a decimal from an integer.
    #[must_use]
    pub fn from_int(value: i64) -> Self {
        Self(i128::from(value) * ONE)
    }

    /// Creates a decimal from an integer that is 10^18 times the decimal, as on the wire.
    #[must_use]
    pub const fn from_scaled(scaled: i128) -> Self {
        Self(scaled)
    }

    /// Returns an integer that is 10^18 times the decimal, as on the wire.
    #[must_use]
    pub const fn scaled(self) -> i128 {
        self.0
    }

    /// Returns the sum, or `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` on overflow.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Returns the product with an integer, or `None` on overflow.
    #[must_use]
    pub fn checked_mul_int(self, factor: i128) -> Option<Self> {
        self.0.checked_mul(factor).map(Self)
    }

    /// Returns the product, rounded to 18 digits (half to even, as on the chain); `None` on overflow.
    #[must_use]
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        rounded(BigInt::from(self.0) * other.0, BigInt::from(ONE))
    }

    /// Returns the quotient, rounded to 18 digits, half to even. Returns `None` on overflow and for a
    /// division by zero.
    #[must_use]
    pub fn checked_div(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        rounded(BigInt::from(self.0) * ONE, BigInt::from(other.0))
    }

    /// Returns the absolute value, or `None` for the smallest number.
    #[must_use]
    pub fn checked_abs(self) -> Option<Self> {
        self.0.checked_abs().map(Self)
    }

    /// Returns the quotient as an integer, truncated towards zero. Returns `None` on overflow or if `other`
    /// is zero.
    #[must_use]
    pub fn div_floor_int(self, other: Self) -> Option<i128> {
        self.0.checked_div(other.0)
    }

    /// Returns whether the number is less than zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Returns whether the number is exactly zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Formats the number without trailing zeros.
    #[must_use]
    pub fn to_plain(self) -> String {
        let text = self.to_string();
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Returns `dividend / divisor`, rounded to the nearest [`Dec`], half to even. The divisor must not be zero.
fn rounded(dividend: BigInt, divisor: BigInt) -> Option<Dec> {
    let (whole, rest) = (&dividend / &divisor, &dividend % &divisor);
    let twice = rest.magnitude() * 2_u32;
    // The lowest bit also determines the parity of negative numbers.
    let is_odd = whole.bit(0);
    let away = match twice.cmp(divisor.magnitude()) {
        Ordering::Less => false,
        Ordering::Equal => is_odd,
        Ordering::Greater => true,
    };
    // From the operands, because a quotient that is truncated to zero has no sign.
    let is_below = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    let step = match (away, is_below) {
        (false, _) => 0,
        (true, true) => -1,
        (true, false) => 1,
    };
    i128::try_from(whole + step).ok().map(Dec)
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
        let short = || text.chars().take(80).collect::<String>();
        let not_decimal = || ParseDecError::NotDecimal(short());
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
            return Err(ParseDecError::TooPrecise(short()));
        }
        let too_large = |_| ParseDecError::TooLarge(short());
        // The text padded to 18 digits, without its point, is the scaled integer. The sign is part of it,
        // because the smallest negative number has no positive counterpart.
        let sign = if negative { "-" } else { "" };
        let scaled = format!("{sign}{whole}{fraction:0<18}")
            .parse()
            .map_err(too_large)?;
        Ok(Self(scaled))
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

/// An amount of a token, in whole base units.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coin {
    /// Base denomination, for example `uact`.
    pub denom: Denom,
    /// Number of base units; a string in JSON.
    #[serde(with = "u128_text")]
    pub amount: u128,
}

/// A decimal amount of a token. All prices are amounts per block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecCoin {
    /// Base denomination. Amounts of different denominations are never added.
    pub denom: Denom,
    /// Amount with 18 fractional digits.
    pub amount: Dec,
}

impl DecCoin {
    /// Creates an amount of a token.
    #[must_use]
    pub fn new(denom: &Denom, amount: Dec) -> Self {
        Self {
            denom: Arc::clone(denom),
            amount,
        }
    }

    /// Returns the total price of a number of blocks, or `None` on overflow.
    #[must_use]
    pub fn for_blocks(&self, blocks: u64) -> Option<Dec> {
        self.amount.checked_mul_int(i128::from(blocks))
    }
}

impl Coin {
    /// Creates a whole amount of a token.
    #[must_use]
    pub fn new(denom: impl Into<Denom>, amount: u128) -> Self {
        let denom = denom.into();
        Self { denom, amount }
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
    use proptest::prelude::{
        Just, Strategy, any as every, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };

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
        let least = Dec(i128::MIN);
        assert_eq!(least.to_string().parse(), Ok(least), "the text can be parsed");
        let long = "9".repeat(60);
        assert!(matches!(long.parse::<Dec>(), Err(ParseDecError::TooLarge(_))));
        for bad in ["", ".", "1.", ".5", "--1", "1.2.3", " 1"] {
            assert!(bad.parse::<Dec>().is_err(), "{bad}");
        }
    }

    /// Generates small, large and random numbers, including the limits.
    fn any() -> impl Strategy<Value = Dec> {
        prop_oneof![
            every::<i128>().prop_map(Dec),
            (-1_000_000_000_i64..1_000_000_000).prop_map(Dec::from_int),
            (-ONE..ONE).prop_map(Dec),
            Just(Dec(i128::MAX)),
            Just(Dec(i128::MIN)),
            Just(Dec::ZERO),
        ]
    }

    /// Returns whether `got` is the nearest decimal: twice the rounding error is at most the divisor.
    fn is_nearest(got: Dec, dividend: &BigInt, divisor: &BigInt) -> bool {
        let off = BigInt::from(got.0) * divisor - dividend;
        off.magnitude() * 2_u32 <= *divisor.magnitude()
    }

    fn fits(dividend: &BigInt, divisor: &BigInt) -> bool {
        i128::try_from(dividend / divisor).is_ok()
    }

    proptest! {
        #[test]
        fn sums_and_differences_undo_each_other(a in any(), b in any()) {
            if let Some(sum) = a.checked_add(b) {
                prop_assert_eq!(sum.checked_sub(b), Some(a));
                prop_assert_eq!(b.checked_add(a), Some(sum));
            } else {
                prop_assert!(i128::try_from(BigInt::from(a.0) + b.0).is_err());
            }
        }

        #[test]
        fn products_are_rounded_to_the_nearest(a in any(), b in any()) {
            let (exact, one) = (BigInt::from(a.0) * b.0, BigInt::from(ONE));
            prop_assert_eq!(a.checked_mul(b), b.checked_mul(a));
            prop_assert_eq!(a.checked_mul(Dec::from_int(1)), Some(a));
            match a.checked_mul(b) {
                Some(product) => prop_assert!(is_nearest(product, &exact, &one)),
                None => prop_assert!(!fits(&exact, &one)),
            }
        }

        #[test]
        fn quotients_are_rounded_to_the_nearest(a in any(), b in any()) {
            prop_assert_eq!(a.checked_div(Dec::from_int(1)), Some(a));
            let (exact, divisor) = (BigInt::from(a.0) * ONE, BigInt::from(b.0));
            match a.checked_div(b) {
                Some(quotient) => prop_assert!(is_nearest(quotient, &exact, &divisor)),
                None => prop_assert!(b.is_zero() || !fits(&exact, &divisor)),
            }
        }
    }

    #[test]
    fn halves_are_rounded_to_even_as_on_the_chain() {
        let smallest = Dec(1);
        let half: Dec = "0.5".parse().unwrap();
        for (scaled, product) in [(1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2), (-5, -2)] {
            assert_eq!(Dec(scaled).checked_mul(half), Some(Dec(product)), "{scaled}");
            assert_eq!(
                Dec(scaled).checked_div(Dec::from_int(2)),
                Some(Dec(product)),
                "{scaled}"
            );
        }
        assert_eq!(
            Dec::from_int(2).checked_div(Dec::from_int(3)),
            "0.666666666666666667".parse().ok()
        );
        assert_eq!(Dec(i128::MAX).checked_mul(Dec::from_int(2)), None);
        assert_eq!(Dec(i128::MAX).checked_div(smallest), None);
        assert_eq!(Dec::from_int(1).checked_div(Dec::ZERO), None);
        assert_eq!(Dec(i128::MIN).checked_abs(), None);
        assert_eq!(Dec(-7).checked_abs(), Some(Dec(7)));
    }

    #[test]
    fn coins_parse() {
        assert_eq!("500000uakt".parse::<Coin>().unwrap().to_string(), "500000uakt");
        for bad in ["", "uakt", "5", "5 uakt", "-5uakt", "5.0uakt"] {
            assert!(bad.parse::<Coin>().is_err(), "{bad}");
        }
    }
}
