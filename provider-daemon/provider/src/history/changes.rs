//! Changes of price or capacity that would have won or admitted recorded orders.
//!
//! Each change is calculated from the recorded numbers of the orders. Of all price reductions, the one with
//! the highest product is listed: the number of orders that it would have won, multiplied by the price after
//! the reduction. A small reduction for many orders is therefore preferred to a large reduction for a few
//! more orders.

use super::record::{HistoryOutcome, OrderRecord};
use akash_provider_cli::plain::count;
use akash_provider_core::types::quantity::cores;
use akash_provider_core::types::{Dec, DecCoin, DeclineCode};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const CHANGES_MAX: usize = 3;
/// Maximum number of distinct entries in `Causes::missing`. Further entries are ignored.
const CAUSES_MAX: usize = 10_000;
/// 100 %, in hundredths of a percent.
const SCALE: i64 = 10_000;

/// A change of price or capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestedChange {
    /// Cause: `lost_by_price`, or the code of the declines.
    pub cause: String,
    /// Number of orders with this cause.
    pub affected: usize,
    /// Number of orders that the change would have won or admitted.
    pub orders: usize,
    /// Description of the change, with its numbers.
    pub text: String,
}

#[derive(Debug, Default)]
pub(super) struct Causes {
    /// For each order that was lost by price: the price reduction that would have matched the winner's price,
    /// in hundredths of a percent.
    lost: Vec<i64>,
    /// For each order with a price above the tenant's maximum: the price reduction that would have matched
    /// the maximum, in hundredths of a percent.
    too_high: Vec<i64>,
    /// Number of declined orders, for each pair of decline code and missing resource.
    missing: BTreeMap<(DeclineCode, String), usize>,
    /// CPU (millicores), memory (bytes) and storage (bytes) of each order that was declined for missing
    /// capacity. Orders with GPUs are not included.
    capacity: Vec<(u64, u64, u64)>,
}

impl Causes {
    pub(super) fn add(&mut self, record: &OrderRecord) {
        match record.outcome {
            HistoryOutcome::Lost => {
                if let Some((price, winner)) = record.cheaper_winner() {
                    self.lost.extend(reduction(price, winner));
                }
            }
            HistoryOutcome::Declined => self.add_declined(record),
            _ => {}
        }
    }

    fn add_declined(&mut self, record: &OrderRecord) {
        let Some(decline) = &record.decline else {
            return;
        };
        let requested = record.requested.as_ref();
        match decline.code {
            DeclineCode::PriceTooHigh => {
                let maximum = requested.and_then(|requested| requested.maximum.as_ref());
                if let (Some(price), Some(maximum)) = (&record.price, maximum) {
                    self.too_high.extend(reduction(price, maximum));
                }
            }
            DeclineCode::InsufficientCapacity => {
                let Some(requested) = requested else { return };
                // A GPU is nearly always the missing resource of an order with GPUs.
                if requested.gpus > 0 {
                    let models = models(&requested.gpu_models);
                    return self.add_missing(decline.code, format!("GPU {models}"));
                }
                let storage = requested
                    .storage
                    .values()
                    .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
                self.capacity.push((requested.cpu, requested.memory, storage));
            }
            DeclineCode::Gpu => {
                let wanted = requested.map(|requested| models(&requested.gpu_models));
                self.add_missing(decline.code, format!("GPU {}", wanted.unwrap_or_default()));
            }
            DeclineCode::Storage => {
                let classes = requested.map(|requested| {
                    let classes = requested.storage.keys().filter(|class| *class != "ephemeral");
                    classes.cloned().collect::<Vec<_>>().join(" and ")
                });
                self.add_missing(
                    decline.code,
                    format!("storage class {}", classes.unwrap_or_default()),
                );
            }
            DeclineCode::NoLeasedIps | DeclineCode::LeasedIpsExhausted => {
                self.add_missing(decline.code, "leased IP addresses".to_owned());
            }
            DeclineCode::ExternalPortsExhausted => {
                self.add_missing(decline.code, "external ports".to_owned());
            }
            DeclineCode::Price => self.add_missing(decline.code, decline.message.clone()),
            _ => {}
        }
    }

    fn add_missing(&mut self, code: DeclineCode, what: String) {
        let key = (code, what);
        if self.missing.len() < CAUSES_MAX || self.missing.contains_key(&key) {
            *self.missing.entry(key).or_default() += 1;
        }
    }

    /// Returns possible changes of price or capacity. The first change would have gained the most orders.
    pub(super) fn changes(self) -> Vec<SuggestedChange> {
        let mut changes: Vec<SuggestedChange> = Vec::new();
        changes.extend(price_change(
            "lost_by_price",
            self.lost,
            |affected, percent, orders| {
                format!(
                    "lost {} by price: a price {percent} % lower would have matched the winner of {orders}",
                    count(affected, "order")
                )
            },
        ));
        let code = DeclineCode::PriceTooHigh.as_str();
        changes.extend(price_change(code, self.too_high, |affected, percent, orders| {
            format!(
                "declined {} with a price above the tenant's maximum: a price {percent} % lower would have admitted {orders}",
                count(affected, "order")
            )
        }));
        changes.extend(capacity_change(self.capacity));
        changes.extend(self.missing.into_iter().map(|((code, what), orders)| {
            let declined = format!("declined {}", count(orders, "order"));
            let text = match code {
                DeclineCode::Price => format!("{declined} without a price: {what}"),
                DeclineCode::InsufficientCapacity => {
                    format!("{declined} for {what}: more free capacity would have admitted up to {orders}")
                }
                DeclineCode::LeasedIpsExhausted | DeclineCode::ExternalPortsExhausted => {
                    format!(
                        "{declined} without free {what}: a larger pool would have admitted up to {orders}"
                    )
                }
                _ => format!("{declined} for {what}: offering it would have admitted up to {orders}"),
            };
            SuggestedChange {
                cause: code.to_string(),
                affected: orders,
                orders,
                text,
            }
        }));
        changes.sort_by_key(|change| Reverse(change.orders));
        changes.truncate(CHANGES_MAX);
        changes
    }
}

fn models(models: &[String]) -> String {
    if models.is_empty() {
        "of any model".to_owned()
    } else {
        models.join(" or ")
    }
}

/// Returns the reduction from `price` to `target` in hundredths of a percent, rounded up. `None` if the price
/// is not above the target, or the denominations differ.
fn reduction(price: &DecCoin, target: &DecCoin) -> Option<i64> {
    if price.denom != target.denom || target.amount >= price.amount {
        return None;
    }
    let difference = price.amount.checked_sub(target.amount)?;
    let share = difference
        .checked_mul_int(i128::from(SCALE))?
        .checked_div(price.amount)?;
    let whole = share.div_floor_int(Dec::from_int(1))?;
    let is_exact = Dec::from_int(1).checked_mul_int(whole)? == share;
    i64::try_from(whole).ok()?.checked_add(i64::from(!is_exact))
}

/// Returns the price reduction with the highest product of two values: the number of admitted orders, and the
/// reduced price. `reductions` contains the smallest sufficient reduction for each order.
fn price_change(
    cause: &str,
    mut reductions: Vec<i64>,
    text: impl Fn(usize, String, usize) -> String,
) -> Option<SuggestedChange> {
    reductions.sort_unstable();
    let candidates = reductions
        .iter()
        .enumerate()
        .filter(|(_, reduction)| **reduction < SCALE);
    // The same reduction admits all orders before it, so the last of equal candidates counts.
    let best = candidates.max_by_key(|(at, reduction)| {
        let orders = i64::try_from(at + 1).unwrap_or(i64::MAX);
        orders.saturating_mul(SCALE - **reduction)
    });
    let (at, reduction) = best?;
    let percent = format!("{}.{:02}", reduction / 100, reduction % 100);
    let percent = percent.trim_end_matches('0').trim_end_matches('.').to_owned();
    Some(SuggestedChange {
        cause: cause.to_owned(),
        affected: reductions.len(),
        orders: at + 1,
        text: text(reductions.len(), percent, at + 1),
    })
}

/// Returns the additional capacity that is sufficient for each of the smallest 75 % of the orders, one at a
/// time.
fn capacity_change(mut orders: Vec<(u64, u64, u64)>) -> Option<SuggestedChange> {
    if orders.is_empty() {
        return None;
    }
    orders.sort_unstable();
    let affected = orders.len();
    orders.truncate((affected * 3).div_ceil(4));
    let most = |of: fn(&(u64, u64, u64)) -> u64| orders.iter().map(of).max().unwrap_or_default();
    let (cpu, memory, storage) = (most(|o| o.0), most(|o| o.1), most(|o| o.2));
    Some(SuggestedChange {
        cause: DeclineCode::InsufficientCapacity.to_string(),
        affected,
        orders: orders.len(),
        text: format!(
            "declined {} for missing capacity: {} more free CPU, {} memory and {} storage would have admitted {}, one at a time",
            count(affected, "order"),
            cores(u128::from(cpu)),
            size(memory),
            size(storage),
            orders.len()
        ),
    })
}

/// Formats bytes with a binary unit, rounded up to a tenth.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["Ki", "Mi", "Gi", "Ti", "Pi"];
    let mut unit = (1_u128 << 10, "Ki");
    for (at, name) in (1..).zip(UNITS) {
        let factor = 1_u128 << (10 * at);
        if u128::from(bytes) >= factor {
            unit = (factor, name);
        }
    }
    let tenths = (u128::from(bytes) * 10).div_ceil(unit.0);
    let text = format!("{}.{}", tenths / 10, tenths % 10);
    format!("{}{}", text.trim_end_matches(".0"), unit.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coin(amount: &str) -> DecCoin {
        DecCoin::new(&"uact".into(), amount.parse().unwrap())
    }

    #[test]
    fn a_reduction_is_rounded_up() {
        assert_eq!(reduction(&coin("100"), &coin("88")), Some(1200));
        assert_eq!(reduction(&coin("3"), &coin("2")), Some(3334));
        assert_eq!(reduction(&coin("3"), &coin("3")), None);
        assert_eq!(reduction(&coin("0"), &coin("0")), None);
    }

    #[test]
    fn a_small_reduction_for_many_orders_is_preferred() {
        // 30 orders within 12 %, 11 that need 80 %.
        let reductions = (1..=30).map(|n| n * 40).chain([8000; 11]).collect();
        let change = price_change("x", reductions, |all, percent, won| {
            format!("{all} {percent} {won}")
        });
        assert_eq!(change.unwrap().text, "41 12 30");
        assert!(price_change("x", Vec::new(), |_, _, _| String::new()).is_none());
    }

    #[test]
    fn capacity_of_three_quarters_is_named() {
        let gib = 1 << 30;
        let change = capacity_change(vec![
            (500, gib, gib),
            (1000, gib, 2 * gib),
            (64_000, 99 * gib, gib),
            (2000, 1, 1),
        ]);
        let change = change.unwrap();
        assert_eq!((change.affected, change.orders), (4, 3));
        assert!(
            change
                .text
                .contains("2 more free CPU, 1Gi memory and 2Gi storage"),
            "{}",
            change.text
        );
        assert_eq!(
            (size(0), size(1536), size(u64::MAX)),
            ("0Ki".into(), "1.5Ki".into(), "16384Pi".into())
        );
    }
}
