//! Random prices in the lower part of a range by memory. For tests of a whole network, not for production.

use super::{MAX_PRICE, PriceError, PriceRequest, price_of};
use crate::types::DecCoin;
use crate::types::price::Dec;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum price of a GiB of memory, in base units per block.
const MIN_PER_GIB: u128 = 50;
const GIB_BITS: u32 = 30;
/// At the highest random price, 2^`BYTES_PER_UNIT_BITS` bytes of memory cost one base unit.
const BYTES_PER_UNIT_BITS: u32 = 10;
/// Number of possible prices for each base unit of the price range. Adjacent prices differ by 10^-6 base
/// units, so 10,000 prices cover 1 % of a base unit. All prices are in the lowest 1 % of the range.
const STEPS_PER_UNIT: i128 = 10_000;
const STEP_SCALED: i128 = 1_000_000_000_000;

/// Random prices. The same seed produces the same prices.
#[derive(Debug)]
pub struct RandomRange {
    state: AtomicU64,
}

impl RandomRange {
    /// Creates the strategy from a seed. Use a random seed for unpredictable prices.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
        }
    }

    /// Returns the price of one order. The price can exceed the maximum of the tenant.
    ///
    /// # Errors
    /// Returns [`PriceError`] when the group has no maximum price, or requests so much memory that the price exceeds
    /// 10^18.
    pub fn price(&self, request: &PriceRequest) -> Result<DecCoin, PriceError> {
        let maximum = request.maximum()?;
        let memory: u128 = request
            .group
            .resources
            .iter()
            .map(|u| u128::from(u.resources.memory.bytes) * u128::from(u.count))
            .sum();
        let low = whole(memory.saturating_mul(MIN_PER_GIB) >> GIB_BITS)?;
        // A value above the maximum of the tenant is reduced to the maximum, so it cannot be too large.
        let high = whole(memory >> BYTES_PER_UNIT_BITS)
            .unwrap_or(maximum.amount)
            .min(maximum.amount);
        let one_for_zero = |d: Dec| if d.is_zero() { Dec::from_int(1) } else { d };
        let (low, high) = (one_for_zero(low), one_for_zero(high));
        if low == high {
            return price_of(&maximum.denom, high);
        }
        let range = high
            .checked_sub(low)
            .and_then(|range| range.checked_mul_int(STEPS_PER_UNIT));
        let steps = match range {
            Some(range) => u64::try_from(range.scaled() / Dec::from_int(1).scaled())
                .unwrap_or(0)
                .max(1),
            None if high > low => u64::MAX,
            None => 1,
        };
        let step = Dec::from_scaled(i128::from(self.below(steps)) * STEP_SCALED);
        price_of(&maximum.denom, low.checked_add(step).ok_or(PriceError::TooLarge)?)
    }

    /// Returns a pseudo-random number from 0 to `limit - 1`, computed with SplitMix64.
    fn below(&self, limit: u64) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        // Relaxed ordering is sufficient: each caller gets a different number, and no other data depends on
        // it.
        let mut bits = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let spread = (u128::from(bits) * u128::from(limit)) >> u64::BITS;
        u64::try_from(spread).unwrap_or(0)
    }
}

fn whole(value: u128) -> Result<Dec, PriceError> {
    let fits = i64::try_from(value).ok().filter(|v| *v <= MAX_PRICE);
    fits.map(Dec::from_int).ok_or(PriceError::TooLarge)
}

#[cfg(feature = "runtime")]
#[async_trait::async_trait]
impl super::PricingStrategy for RandomRange {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, crate::error::Error> {
        self.price(request).map_err(|e| e.into_error("price at random"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pricing::fixtures::{dec, request, request_with};

    /// Returns the lowest and the highest of 2000 random prices.
    fn range(bytes: u64, maximum: &str) -> (Dec, Dec) {
        let random = RandomRange::new(7);
        let request = request_with(|u| {
            u.resources.memory.bytes = bytes;
            u.price.amount = dec(maximum);
        });
        let prices: Vec<Dec> = (0..2000)
            .map(|_| random.price(&request).unwrap().amount)
            .collect();
        (*prices.iter().min().unwrap(), *prices.iter().max().unwrap())
    }

    #[test]
    fn prices_lie_in_the_lowest_hundredth_of_the_range() {
        let (low, high) = range(2 << 30, "1000");
        assert!(low >= dec("100") && low < dec("100.1"), "{low}");
        assert!(high < dec("109") && high > dec("108.9"), "{high}");
        let (low, high) = range(1 << 30, "1000000000000000000");
        assert!(low >= dec("50") && low < dec("150"), "{low}");
        assert!(high < dec("10535.26") && high > dec("10400"), "{high}");
        assert_eq!(
            range(512 << 20, "23"),
            (dec("25"), dec("25")),
            "a price above the maximum is returned, and the caller declines it"
        );
    }

    #[test]
    fn a_range_of_one_point_is_its_price() {
        assert_eq!(range(512 << 20, "25"), (dec("25"), dec("25")));
        assert_eq!(range(1, "1000"), (dec("1"), dec("1")), "zero becomes one");
        assert_eq!(range(1 << 20, "0"), (dec("1"), dec("1")), "zero becomes one");
    }

    #[test]
    fn the_same_seed_gives_the_same_prices() {
        let request = request_with(|u| {
            u.resources.memory.bytes = 8 << 30;
            u.price.amount = dec("100000");
        });
        let prices = |seed| {
            let random = RandomRange::new(seed);
            (0..20)
                .map(|_| random.price(&request).unwrap().amount)
                .collect::<Vec<_>>()
        };
        assert_eq!(prices(1), prices(1));
        assert_ne!(prices(1), prices(2));
    }

    #[test]
    fn absurd_memory_is_an_error() {
        let random = RandomRange::new(7);
        let absurd = request_with(|u| {
            (u.resources.memory.bytes, u.count) = (u64::MAX, u32::MAX);
            u.price.amount = dec("1");
        });
        assert_eq!(random.price(&absurd).unwrap_err(), PriceError::TooLarge);
        assert_eq!(
            random.price(&request(Vec::new())).unwrap_err(),
            PriceError::NoMaximum
        );
        let large = request_with(|u| {
            (u.resources.memory.bytes, u.count) = (u64::MAX, 1 << 20);
            u.price.amount = dec("100000000000000");
        });
        assert!(random.price(&large).is_ok());
    }
}
