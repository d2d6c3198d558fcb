//! State of the chain that the planner needs before it sends: the newest block, the signing account, the gas
//! price.

use super::{PlannerAction, PlannerConfig, backoff};
use akash_provider_core::chain::{Account, SyncInfo};
use akash_provider_core::error::Failure;
use akash_provider_core::types::{BlockTime, DecCoin, Mono};

/// Newest known block (the tip). A block with a lower height and a later time proves that the tip is false,
/// and replaces the tip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tip {
    pub(super) height: u64,
    pub(super) time: BlockTime,
}

/// Value that the planner requires. If the value is unknown, `problem` is the reason and `retry_at` is the
/// time of the next query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RequiredValue<T> {
    value: Option<T>,
    is_pending: bool,
    retry_at: Mono,
    failures: u32,
    problem: String,
}

impl<T> Default for RequiredValue<T> {
    fn default() -> Self {
        Self {
            value: None,
            is_pending: false,
            retry_at: Mono::default(),
            failures: 0,
            problem: String::new(),
        }
    }
}

impl<T> RequiredValue<T> {
    /// Returns true if a query is due, and marks the query as pending.
    fn start_query(&mut self, now: Mono) -> bool {
        let ask = !self.is_pending && now >= self.retry_at;
        self.is_pending |= ask;
        ask
    }

    fn fail(&mut self, now: Mono, why: String) {
        self.is_pending = false;
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now.plus(backoff(self.failures));
        self.problem = why;
    }

    fn set(&mut self, value: T) {
        self.is_pending = false;
        self.failures = 0;
        self.problem.clear();
        self.value = Some(value);
    }
}

/// Chain values that the planner needs to send transactions, and the queries for these values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ChainState {
    tip: RequiredValue<Tip>,
    /// Time at which the tip was updated.
    tip_at: Mono,
    /// Height of the last tip. Remains set while `tip` has no value.
    highest: u64,
    /// True if this tip replaced a higher, false tip.
    is_lower: bool,
    account: RequiredValue<u64>,
    prices: RequiredValue<Vec<DecCoin>>,
}

impl ChainState {
    pub(super) fn tip(&self) -> Option<Tip> {
        self.tip.value
    }

    pub(super) fn height(&self) -> Option<u64> {
        self.tip.value.map(|tip| tip.height)
    }

    /// Returns the height of the tip if the height has decreased since the last call.
    pub(super) fn take_lower(&mut self) -> Option<u64> {
        std::mem::take(&mut self.is_lower).then_some(self.highest)
    }

    /// Returns the account number of the signing account, if known.
    pub(super) fn account(&self) -> Option<u64> {
        self.account.value
    }

    /// Returns the minimum gas prices of the node, if known.
    pub(super) fn prices(&self) -> Option<&[DecCoin]> {
        self.prices.value.as_deref()
    }

    /// Adds the queries that are due for the newest block, the account and the gas prices.
    pub(super) fn query_missing(&mut self, now: Mono, needs_sequence: bool, out: &mut Vec<PlannerAction>) {
        if self.tip.start_query(now) {
            out.push(PlannerAction::FetchBlock);
        }
        let learn = self.account.value.is_none() || needs_sequence;
        if learn && self.account.start_query(now) {
            out.push(PlannerAction::FetchAccount);
        }
        if self.prices.value.is_none() && self.prices.start_query(now) {
            out.push(PlannerAction::FetchPrices);
        }
    }

    /// Handles the result of [`PlannerAction::FetchBlock`].
    pub(super) fn block(&mut self, now: Mono, config: &PlannerConfig, response: Result<SyncInfo, Failure>) {
        let info = match response {
            Ok(info) if info.chain_id != config.chain_id => {
                let why = format!(
                    "the node belongs to chain `{}`, not `{}`",
                    info.chain_id, config.chain_id
                );
                return self.tip.fail(now, why);
            }
            Ok(info) if info.catching_up => {
                return self.tip.fail(now, "the node is catching up".to_owned());
            }
            Ok(info) => info,
            Err(error) => return self.tip.fail(now, error.message),
        };
        // A node behind a load balancer may lag, so the known block is retained.
        let new = Tip {
            height: info.height,
            time: info.time,
        };
        let best = self
            .tip
            .value
            // A lower block with a later time proves that the old block is false.
            .filter(|old| old.height >= new.height && old.time >= new.time)
            .unwrap_or(new);
        self.is_lower |= best.height < self.highest;
        self.highest = best.height;
        self.tip.set(best);
        self.tip_at = now;
        self.tip.retry_at = now.plus(config.poll);
    }

    /// Handles a block that the event follower reported as the newest block.
    pub(super) fn observe(&mut self, now: Mono, config: &PlannerConfig, block: SyncInfo) {
        // A block of a lagging subscription is no progress, and must not delay the next query.
        let is_progress = |tip: Tip| tip.height <= block.height || tip.time < block.time;
        if self.tip().is_none_or(is_progress) {
            // A pending query stays pending: its response arrives later.
            let is_pending = self.tip.is_pending;
            self.block(now, config, Ok(block));
            self.tip.is_pending = is_pending;
            self.tip.retry_at = now.plus(config.followed_poll);
        }
    }

    /// Handles the response to the account query: stores the account number, and returns the account
    /// sequence, if any.
    pub(super) fn set_account(
        &mut self,
        now: Mono,
        response: Result<Option<Account>, Failure>,
    ) -> Option<u64> {
        match response {
            Ok(Some(account)) => {
                self.account.set(account.number);
                return Some(account.sequence);
            }
            Ok(None) => {
                let why = "the signing account does not exist on the chain: send some tokens to its address";
                self.account.fail(now, why.to_owned());
            }
            Err(error) => self.account.fail(now, error.message),
        }
        None
    }

    pub(super) fn set_prices(&mut self, now: Mono, response: Result<Vec<DecCoin>, Failure>) {
        match response {
            Ok(prices) => self.prices.set(prices),
            Err(error) => self.prices.fail(now, error.message),
        }
    }

    /// Removes the tip if its last update is more than `oldest` ago. Transaction timeouts depend on the time
    /// of the tip.
    pub(super) fn clear_old_tip(&mut self, now: Mono, oldest: std::time::Duration) {
        if now.since(self.tip_at) > oldest {
            self.tip.value = None;
        }
    }

    /// Sets the time of the next query for the newest block to `now`.
    pub(super) fn request_tip(&mut self, now: Mono) {
        self.tip.retry_at = now;
    }

    pub(super) fn clear_account(&mut self) {
        self.account.value = None;
    }

    pub(super) fn clear_prices(&mut self) {
        self.prices.value = None;
    }

    /// Discards gas prices that the settings do not permit. The prices are queried again after a back-off.
    pub(super) fn refuse_prices(&mut self, now: Mono, why: String) {
        self.prices.value = None;
        self.prices.fail(now, why);
    }

    /// Returns why no transaction can be sent, or `None` if there is no problem.
    pub(super) fn problem(&self) -> Option<&str> {
        let needs = [&self.tip.problem, &self.account.problem, &self.prices.problem];
        needs.into_iter().map(String::as_str).find(|why| !why.is_empty())
    }

    /// Returns whether the queries of block, account and prices are pending.
    #[cfg(test)]
    pub(super) fn pending(&self) -> [bool; 3] {
        [
            self.tip.is_pending,
            self.account.is_pending,
            self.prices.is_pending,
        ]
    }
}
