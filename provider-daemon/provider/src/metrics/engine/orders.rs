//! Orders and bids.

use super::super::convert::{number, seconds};
use super::super::{Histogram, Measure};
use super::{Values, by_name, by_pair};
use akash_provider_core::engine::OrderPhase;
use std::collections::BTreeMap;

/// Bucket bounds for the number of blocks between an order and its bid.
const BLOCK_BOUNDS: [u64; 8] = [0, 1, 2, 3, 5, 10, 20, 50];
const PHASES: [OrderPhase; 11] = [
    OrderPhase::Looking,
    OrderPhase::Judging,
    OrderPhase::Reserving,
    OrderPhase::Pricing,
    OrderPhase::Ready,
    OrderPhase::Unfunded,
    OrderPhase::Bidding,
    OrderPhase::Unsure,
    OrderPhase::Checking,
    OrderPhase::Open,
    OrderPhase::Closing,
];
const OUTCOMES: [&str; 7] = [
    "won",
    "lost",
    "order_closed",
    "closed",
    "timeout",
    "declined",
    "no_bid",
];
const RESULTS: [&str; 2] = ["success", "fail"];

pub(super) fn measures(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let phases = PHASES.map(|phase| {
        let orders = status.orders.iter().filter(|order| order.phase == phase);
        (phase.name(), orders.count())
    });
    let declines = status.declines.iter();
    let declines = declines.map(|(code, count)| (code.as_str(), *count)).collect();
    let histogram = |name, help| Measure::histogram(name, help);
    vec![
        Measure::gauge("akash_provider_orders", "Orders in progress by phase").counted("phase", phases),
        by_name(
            Measure::counter("akash_provider_orders_received", "Received orders by source"),
            "source",
            &["event", "snapshot", "bid"],
            &counts.orders,
        ),
        by_name(
            Measure::counter("akash_provider_order_evaluations", "Evaluated orders by result"),
            "result",
            &["accept", "decline", "fail"],
            &counts.evaluations,
        ),
        by_name(
            Measure::counter("akash_provider_order_outcomes", "Finished orders by outcome"),
            "outcome",
            &OUTCOMES,
            &counts.order_outcomes,
        ),
        by_name(
            Measure::counter("akash_provider_declines", "Declined orders by code"),
            "code",
            &[],
            &declines,
        ),
        by_pair(
            Measure::counter("akash_provider_reservations", "Opened and closed reservations"),
            ["action", "result"],
            [&["open", "close"], &RESULTS],
            &counts.reservations,
        ),
        by_pair(
            Measure::counter("akash_provider_bids", "Transactions that open or close bids"),
            ["action", "result"],
            [&["open", "close"], &["success", "fail", "unknown"]],
            &counts.bids,
        ),
        deposits(values),
        histogram(
            "akash_provider_bid_delay_blocks",
            "Blocks from the order to the bid",
        )
        .with_histogram([], blocks(&counts.bid_blocks)),
        histogram(
            "akash_provider_bid_delay_seconds",
            "Seconds from the order to the bid",
        )
        .with_histogram([], seconds(&counts.bid_delay)),
        histogram(
            "akash_provider_pricing_duration_seconds",
            "Duration of price calculations",
        )
        .with_histogram([], seconds(&counts.pricing)),
        histogram(
            "akash_provider_reservation_duration_seconds",
            "Duration of engine steps that reserve capacity and decide about a bid",
        )
        .with_histogram([], seconds(&counts.reserving_fine)),
    ]
}

fn deposits(values: &Values<'_>) -> Measure {
    let measure = Measure::counter(
        "akash_provider_bid_deposits",
        "Deposits of bids, in units of the denomination",
    );
    let counts = values.counts;
    let amounts = [
        ("locked", &counts.deposits_locked),
        ("returned", &counts.deposits_returned),
    ];
    amounts.into_iter().fold(measure, |measure, (action, by_denom)| {
        by_denom.iter().fold(measure, |measure, (denom, amount)| {
            let amount = u64::try_from(*amount).unwrap_or(u64::MAX);
            measure.with([("action", action), ("denom", &**denom)], number(amount))
        })
    })
}

fn blocks(counts: &BTreeMap<u64, u64>) -> Histogram {
    let bounds = BLOCK_BOUNDS
        .iter()
        .map(|bound| number(*bound))
        .chain([f64::INFINITY]);
    let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
    let mut sum = 0.0;
    for (blocks, count) in counts {
        let at = BLOCK_BOUNDS.partition_point(|bound| bound < blocks);
        if let Some((_, total)) = buckets.get_mut(at) {
            *total += count;
        }
        sum += number(*blocks) * number(*count);
    }
    Histogram::new(buckets, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_in_the_first_bucket_that_contains_them() {
        let counted = blocks(&[(0, 4), (1, 2), (4, 1), (1000, 3)].into());
        let inf = f64::INFINITY;
        let buckets = vec![
            (0.0, 4),
            (1.0, 2),
            (2.0, 0),
            (3.0, 0),
            (5.0, 1),
            (10.0, 0),
            (20.0, 0),
            (50.0, 0),
            (inf, 3),
        ];
        assert_eq!(counted, Histogram::new(buckets, 3006.0));
    }
}
