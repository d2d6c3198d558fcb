//! What the writer does, as values.

use super::Planner;
use akash_provider_core::types::DecCoin;

/// What tells one transaction of the account from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nonces {
    /// Their timeouts: they land in any order.
    #[default]
    Unordered,
    /// The account's sequence: the chain knows nothing better.
    Ordered,
}

/// What the writer does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriterStatus {
    /// Calls that wait to be sent.
    pub waiting: usize,
    /// Transactions under way, from the simulation to the outcome.
    pub in_flight: usize,
    /// What tells transactions apart.
    pub nonces: Nonces,
    /// What is paid per unit of gas; `None` before it is known.
    pub gas_price: Option<DecCoin>,
    /// What must be known first and is not, and why; or why a transaction waits that would cost too much.
    pub trouble: Option<String>,
    /// It has ended, and nothing is sent any more.
    pub is_stopped: bool,
}

impl Planner {
    /// What it does, counted at this moment.
    #[must_use]
    pub(crate) fn status(&self) -> WriterStatus {
        let (waiting, in_flight) = self.load();
        let prices = self.known.prices();
        let price = prices.and_then(|minimum| self.config.gas.price_at(minimum).ok());
        WriterStatus {
            waiting,
            in_flight,
            nonces: if self.sequencer.is_ordered() {
                Nonces::Ordered
            } else {
                Nonces::Unordered
            },
            gas_price: price.map(|price| DecCoin::new(&self.config.gas.denom, price)),
            trouble: self.known.why_not().or_else(|| self.held()).map(str::to_owned),
            is_stopped: self.stopped,
        }
    }

    /// Why a transaction waits that could be sent.
    fn held(&self) -> Option<&str> {
        self.flights.values().find_map(|flight| flight.held.as_deref())
    }
}
