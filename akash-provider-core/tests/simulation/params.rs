//! Market parameters that change during a history. An order gets a bid as soon as the parameters allow one.

use crate::ids::PROVIDER;
use crate::invariants::SettledCheck;
use crate::money::coin;
use crate::oracle::{Checked, ensure};
use crate::world::World;
use akash_provider_core::bidding;
use akash_provider_core::engine::OrderPhase;
use akash_provider_core::engine::status::OrderStatus;
use akash_provider_core::market::{Market, network_params};
use akash_provider_core::types::{BidId, BidState, Msg, Order, OrderState};
use std::time::Duration;

/// Decline reasons of the provider: capacity, price or settings.
const OUR_OWN: [&str; 12] = [
    "no_leased_ips",
    "insufficient_capacity",
    "leased_ips_exhausted",
    "external_ports_exhausted",
    "price",
    "price_too_high",
    "not_for_us",
    "gpu",
    "invalid_group",
    "too_large",
    "too_many_volumes",
    "too_many_auditors",
];

impl World {
    pub(crate) fn parameters_change(&mut self) {
        let mut params = self.chain.market.params().clone();
        let hours = |h: u64| Duration::from_secs(h * 3600);
        match self.feature_random.below(4) {
            0 => {
                let usual = network_params().bid_min_deposits;
                let all = [
                    usual,
                    vec![coin("uact", 500_001)],
                    vec![coin("uakt", 500_000)],
                    vec![coin("uact", 1), coin("uakt", 5_000_000)],
                    Vec::new(),
                ];
                params.bid_min_deposits = all[self.feature_random.index(all.len())].clone();
            }
            1 => params.order_max_bids = [20, 0, 1, u32::MAX][self.feature_random.index(4)],
            2 => {
                let (min, max) = [(1, 720), (2, 720), (0, 0), (720, 1)][self.feature_random.index(4)];
                params.min_reclamation_window = hours(min);
                params.max_reclamation_window = hours(max);
            }
            _ => params = network_params(),
        }
        self.trace.line(|| format!("{params:?}"));
        self.chain.set_params(params);
    }

    /// Reverts the market parameters in some histories.
    pub(crate) fn parameters_at_the_end(&mut self) {
        if self.features.votes > 0 && self.feature_random.percent(60) {
            self.chain.set_params(network_params());
        }
    }
}

impl SettledCheck<'_> {
    /// Checks each open order without a bid: the provider declined the order because of capacity, price or
    /// settings, or the chain refuses a bid.
    pub(crate) fn what_can_be_bid_is_bid(&self) -> Checked {
        let mut market: Option<Market> = None;
        for order in self.market.orders().filter(|o| o.state == OrderState::Open) {
            let id = order.id.clone().bid(PROVIDER.clone());
            // An order that waits for funds has no bid.
            let in_hand = |o: &OrderStatus| o.order == order.id && o.phase != OrderPhase::Unfunded;
            let in_hand = self.status.orders.iter().any(in_hand);
            if in_hand || self.market.bid(&id).is_some() {
                continue;
            }
            let mut declines = self.status.recent_declines.iter().rev();
            let decline = declines.find(|d| d.order == order.id);
            if decline.is_some_and(|d| OUR_OWN.contains(&d.reason.as_str())) {
                continue;
            }
            let market = market.get_or_insert_with(|| self.market.clone());
            let taken = self.is_taken(market, id, order);
            ensure("what_can_be_bid_is_bid", !taken, || {
                format!("{}: {decline:?}", order.id)
            })?;
        }
        Ok(())
    }

    fn is_taken(&self, market: &mut Market, id: BidId, order: &Order) -> bool {
        let Some(price) = order.spec.max_price() else {
            return false;
        };
        let mut deposits = bidding::deposits(self.config, Some(self.market.params()));
        let is_taken = deposits.any(|deposit| {
            let bid = Msg::CreateBid {
                id: id.clone(),
                price: price.clone(),
                deposit: deposit.clone(),
                resources_offer: Vec::new(),
                reclamation_window: self.config.reclamation_window,
            };
            market.execute(&bid).is_ok()
        });
        is_taken && market.bid(&id).is_some_and(|b| b.state == BidState::Open)
    }
}
