//! Status of the transaction writer.

use super::Planner;
use akash_provider_core::types::DecCoin;

/// Type of nonce in the transactions of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nonces {
    /// The nonce is a timeout. Blocks can include the transactions in any order.
    #[default]
    Unordered,
    /// Account sequences. Used on chains that do not support unordered transactions.
    Ordered,
}

/// Status of the transaction writer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriterStatus {
    /// Number of queued calls.
    pub waiting: usize,
    /// Number of transactions in flight, from the simulation to the outcome.
    pub in_flight: usize,
    /// Current type of nonce.
    pub nonces: Nonces,
    /// Gas price that the writer pays; `None` while the price is unknown.
    pub gas_price: Option<DecCoin>,
    /// Reason why transactions cannot be sent. `None` if transactions can be sent.
    pub problem: Option<String>,
    /// The writer is stopped and sends nothing more.
    pub is_stopped: bool,
}

impl Planner {
    pub(crate) fn status(&self) -> WriterStatus {
        let (waiting, in_flight) = self.load();
        let prices = self.chain.prices();
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
            problem: self
                .chain
                .problem()
                .or_else(|| self.delay_reason())
                .map(str::to_owned),
            is_stopped: self.stopped,
        }
    }

    fn delay_reason(&self) -> Option<&str> {
        self.flights
            .values()
            .find_map(|flight| flight.delay_reason.as_deref())
    }
}
