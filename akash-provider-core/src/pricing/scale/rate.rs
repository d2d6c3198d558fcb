//! Exact products of prices and quantities: in 128-bit integers if possible, otherwise in decimals of any
//! length.

use super::ScaleError;
use crate::types::price::{Dec, FRACTION_DIGITS};
use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode, Zero};

/// Maximum number of digits of a price on each side of the decimal point.
const MAX_DIGITS: i64 = 40;
/// Number of fractional digits when bytes are converted to MiB, as in the Go provider.
const MIB_DIGITS: u32 = 16;
const MIB_BITS: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Number of millicores, endpoints, IPs or GPUs, with a price per unit.
    Whole(u128),
    /// Number of bytes, with a price per MiB.
    Bytes(u128),
}

impl Quantity {
    fn quick(self) -> Option<Fixed> {
        let bytes = match self {
            Self::Whole(mantissa) => return Some(Fixed { mantissa, digits: 0 }),
            Self::Bytes(bytes) => bytes,
        };
        // Whole MiB need no rounding and keep the numbers small.
        if bytes.trailing_zeros() >= MIB_BITS {
            return Some(Fixed {
                mantissa: bytes >> MIB_BITS,
                digits: 0,
            });
        }
        let scaled = bytes.checked_mul(10_u128.pow(MIB_DIGITS))?;
        let half = 1 << (MIB_BITS - 1);
        Some(Fixed {
            mantissa: scaled.checked_add(half)? >> MIB_BITS,
            digits: MIB_DIGITS,
        })
    }

    fn exact(self) -> BigDecimal {
        match self {
            Self::Whole(n) => BigDecimal::from(BigInt::from(n)),
            Self::Bytes(bytes) => {
                let scaled = BigInt::from(bytes) * BigInt::from(10_u128.pow(MIB_DIGITS));
                let half = BigInt::from(1_u32 << (MIB_BITS - 1));
                BigDecimal::new((scaled + half) >> MIB_BITS, i64::from(MIB_DIGITS))
            }
        }
    }
}

/// A non-negative price.
#[derive(Debug, Clone)]
pub(super) struct Rate {
    exact: BigDecimal,
    quick: Option<Fixed>,
}

impl Rate {
    /// Creates a price. `what` returns the name of the resource for an error.
    ///
    /// # Errors
    /// Returns an error when the price is negative or has too many digits.
    pub(super) fn new(price: BigDecimal, what: impl Fn() -> String) -> Result<Self, ScaleError> {
        if price.is_zero() {
            return Ok(Self {
                exact: BigDecimal::zero(),
                quick: Some(Fixed {
                    mantissa: 0,
                    digits: 0,
                }),
            });
        }
        let point = price.fractional_digit_count();
        let sane = -MAX_DIGITS..=MAX_DIGITS;
        let whole = i64::try_from(price.digits())
            .ok()
            .and_then(|digits| digits.checked_sub(point));
        if !sane.contains(&point) || !whole.is_some_and(|w| sane.contains(&w)) {
            return Err(ScaleError::OutOfRange { what: what() });
        }
        let exact = price.normalized();
        if exact < BigDecimal::zero() {
            return Err(ScaleError::Negative {
                what: what(),
                value: exact.to_plain_string(),
            });
        }
        let quick = Fixed::from_decimal(&exact);
        Ok(Self { exact, quick })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.exact.is_zero()
    }

    pub(super) fn exceeds(&self, other: &Self) -> bool {
        self.exact > other.exact
    }
}

/// Returns the sum of price × quantity, or `None` if 128-bit arithmetic overflows. Rounds only the sum: half
/// up, to 18 digits.
pub(super) fn quick_sum<'a>(terms: impl Iterator<Item = (&'a Rate, Quantity)>) -> Option<Dec> {
    let mut sum = Fixed {
        mantissa: 0,
        digits: 0,
    };
    for (rate, quantity) in terms {
        sum = sum.checked_add(rate.quick?.checked_mul(quantity.quick()?)?)?;
    }
    sum.round()
}

/// Returns the sum of price × quantity, computed with decimals of any length. Returns `None` if the sum is
/// out of the range of [`Dec`].
pub(super) fn exact_sum<'a>(terms: impl Iterator<Item = (&'a Rate, Quantity)>) -> Option<Dec> {
    let mut sum = BigDecimal::zero();
    for (rate, quantity) in terms {
        sum += &rate.exact * quantity.exact();
    }
    let digits = i64::try_from(FRACTION_DIGITS).ok()?;
    let (scaled, _) = sum
        .with_scale_round(digits, RoundingMode::HalfUp)
        .into_bigint_and_scale();
    i128::try_from(scaled).ok().map(Dec::from_scaled)
}

/// Decimal number: `mantissa / 10^digits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fixed {
    mantissa: u128,
    digits: u32,
}

impl Fixed {
    fn from_decimal(value: &BigDecimal) -> Option<Self> {
        let (mantissa, point) = value.as_bigint_and_scale();
        let mantissa = u128::try_from(mantissa.as_ref()).ok()?;
        if let Ok(digits) = u32::try_from(point) {
            return Some(Self { mantissa, digits });
        }
        let zeros = u32::try_from(point.checked_neg()?).ok()?;
        Some(Self {
            mantissa: mantissa.checked_mul(power_of_ten(zeros)?)?,
            digits: 0,
        })
    }

    fn checked_mul(self, other: Self) -> Option<Self> {
        Some(Self {
            mantissa: self.mantissa.checked_mul(other.mantissa)?,
            digits: self.digits.checked_add(other.digits)?,
        })
    }

    fn checked_add(self, other: Self) -> Option<Self> {
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let digits = self.digits.max(other.digits);
        let mantissa = self.to_digits(digits)?.checked_add(other.to_digits(digits)?)?;
        Some(Self { mantissa, digits })
    }

    fn to_digits(self, digits: u32) -> Option<u128> {
        self.mantissa
            .checked_mul(power_of_ten(digits.checked_sub(self.digits)?)?)
    }

    fn round(self) -> Option<Dec> {
        let wanted = u32::try_from(FRACTION_DIGITS).ok()?;
        let scaled = match self.digits.checked_sub(wanted) {
            None | Some(0) => self.to_digits(wanted)?,
            Some(surplus) => {
                let unit = power_of_ten(surplus)?;
                let half_up = u128::from(self.mantissa % unit >= unit / 2);
                self.mantissa / unit + half_up
            }
        };
        i128::try_from(scaled).ok().map(Dec::from_scaled)
    }
}

fn power_of_ten(exponent: u32) -> Option<u128> {
    10_u128.checked_pow(exponent)
}
