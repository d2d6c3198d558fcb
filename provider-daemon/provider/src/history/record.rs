//! Record of one order.

use akash_provider_cli::plain;
use akash_provider_core::pricing::policy::Line;
use akash_provider_core::types::{Address, CloseReason, DecCoin, DeclineCode, GroupSpec, OrderId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of steps of a record. A longer record retains its first 32 and its latest 32 steps.
const STEPS_MAX: usize = 64;
/// Maximum length of a text in a record, in characters.
const TEXT_MAX: usize = 400;
/// Maximum number of GPU models, and of storage classes, in a record.
const NAMES_MAX: usize = 16;

/// Outcome of an order for this provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryOutcome {
    /// The provider has not decided yet, or its bid is open.
    #[default]
    Waiting,
    /// The provider did not bid.
    Declined,
    /// The bid won a lease.
    Won,
    /// Another provider got the lease.
    Lost,
    /// The order or the bid was closed.
    Closed,
    /// The tenant did not accept the bid in time.
    TimedOut,
}

impl HistoryOutcome {
    /// Returns the name, for output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Declined => "declined",
            Self::Won => "won",
            Self::Lost => "lost",
            Self::Closed => "closed",
            Self::TimedOut => "timed out",
        }
    }
}

/// Block height and time of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moment {
    /// Height of the block that contains the fact. If the fact is not on the chain, height of the newest
    /// block.
    pub height: u64,
    /// Time on the provider's clock, in milliseconds since the Unix epoch.
    pub time: u64,
}

/// Resources that an order requests, and its maximum price.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Requested {
    /// Millicores of all replicas.
    pub cpu: u64,
    /// Memory of all replicas, in bytes.
    pub memory: u64,
    /// Bytes of all volumes, by storage class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<String, u64>,
    /// Number of GPUs of all replicas.
    #[serde(default)]
    pub gpus: u64,
    /// GPU models that the tenant accepts, such as `nvidia/a100`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// Number of leased IPs.
    #[serde(default)]
    pub ips: u32,
    /// Number of endpoints with a random external port.
    #[serde(default)]
    pub ports: u32,
    /// Maximum price of the tenant per block, for the whole group.
    pub maximum: Option<DecCoin>,
}

/// Reason why the provider did not bid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDecline {
    /// Machine-readable reason.
    pub code: DeclineCode,
    /// Reason as text, with the compared values.
    pub message: String,
}

/// Lease of another provider on the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Winner {
    /// Account of the other provider.
    pub provider: Address,
    /// Price per block in the bid of the winner.
    pub price: DecCoin,
}

/// Step in the life cycle of an order or of its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderStep {
    /// Block and time of the step.
    #[serde(flatten)]
    pub at: Moment,
    /// Name of the step, such as `bid_placed`.
    pub step: String,
    /// Details as text for a person; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// End of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEnd {
    /// Block and time of the end of the lease.
    #[serde(flatten)]
    pub at: Moment,
    /// Close reason on the chain; `None` if unknown.
    pub reason: Option<CloseReason>,
}

/// Everything known about one order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// ID of the order.
    pub order: OrderId,
    /// Block and time at which the provider received the order.
    pub seen: Moment,
    /// Outcome until now.
    pub outcome: HistoryOutcome,
    /// Requested resources; `None` if the group is unknown.
    #[serde(default)]
    pub requested: Option<Requested>,
    /// Price per block: the calculated price until the bid, then the price of the bid.
    #[serde(default)]
    pub price: Option<DecCoin>,
    /// Components of the price, if the strategy explains its prices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub price_lines: Vec<Line>,
    /// Last reason not to bid.
    #[serde(default)]
    pub decline: Option<RecordedDecline>,
    /// Other provider that got the lease.
    #[serde(default)]
    pub winner: Option<Winner>,
    /// Block and time at which the lease was won.
    #[serde(default)]
    pub won: Option<Moment>,
    /// End of the lease.
    #[serde(default)]
    pub end: Option<LeaseEnd>,
    /// Earnings of the lease until the end of the lease, or until the newest block. The escrow account may
    /// have contained less. Computed when the record is read, not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accrued: Option<DecCoin>,
    /// Steps in the order of their occurrence.
    pub steps: Vec<OrderStep>,
    /// Number of steps that were removed because of the limit per record.
    #[serde(default)]
    pub omitted: u32,
}

impl OrderRecord {
    pub(super) fn new(order: OrderId, seen: Moment) -> Self {
        Self {
            order,
            seen,
            outcome: HistoryOutcome::default(),
            requested: None,
            price: None,
            price_lines: Vec::new(),
            decline: None,
            winner: None,
            won: None,
            end: None,
            accrued: None,
            steps: Vec::new(),
            omitted: 0,
        }
    }

    /// Adds a step. A repetition of the last step is not added.
    pub(super) fn add_step(&mut self, at: Moment, step: &str, detail: impl Into<String>) {
        let detail = cut(detail.into());
        let is_repeated = |last: &OrderStep| last.step == step && last.detail == detail;
        if self.steps.last().is_some_and(is_repeated) {
            return;
        }
        if self.steps.len() >= STEPS_MAX {
            self.steps.remove(STEPS_MAX / 2);
            self.omitted += 1;
        }
        let step = step.to_owned();
        self.steps.push(OrderStep { at, step, detail });
    }

    /// Returns the earnings of the lease until its end, or until `height` if the lease has not ended. Returns
    /// `None` without a lease.
    pub(super) fn accrued_at(&self, height: u64) -> Option<DecCoin> {
        let (price, won) = (self.price.as_ref()?, self.won?);
        let end = self.end.as_ref().map_or(height, |end| end.at.height);
        let amount = price.for_blocks(end.saturating_sub(won.height))?;
        Some(DecCoin::new(&price.denom, amount))
    }

    /// Returns true if the record has a lease that has not ended.
    pub(super) fn has_lease(&self) -> bool {
        self.outcome == HistoryOutcome::Won && self.end.is_none()
    }

    /// Returns this provider's price and the winner's price, if the winner was cheaper. The prices must have
    /// the same denomination.
    pub(super) fn cheaper_winner(&self) -> Option<(&DecCoin, &DecCoin)> {
        let (price, winner) = (self.price.as_ref()?, &self.winner.as_ref()?.price);
        let is_cheaper = price.denom == winner.denom && winner.amount < price.amount;
        is_cheaper.then_some((price, winner))
    }
}

impl Requested {
    /// Returns the requested resources of a group, summed over all units and replicas.
    pub(super) fn from_group(group: &GroupSpec) -> Self {
        let mut requested = Self {
            ips: group.leased_ips(),
            ports: group.external_ports(),
            maximum: group.max_price(),
            ..Self::default()
        };
        for unit in &group.resources {
            let (count, resources) = (u64::from(unit.count), &unit.resources);
            let add = |sum: &mut u64, amount: u64| {
                *sum = sum.saturating_add(amount.saturating_mul(count));
            };
            add(&mut requested.cpu, resources.cpu.units);
            add(&mut requested.memory, resources.memory.bytes);
            add(&mut requested.gpus, resources.gpu.units);
            for volume in &resources.storage {
                let class = volume.class().unwrap_or("ephemeral");
                if requested.storage.len() < NAMES_MAX || requested.storage.contains_key(class) {
                    let sum = requested.storage.entry(cut(class.to_owned())).or_default();
                    add(sum, volume.bytes);
                }
            }
            let models = resources
                .gpu
                .attributes
                .iter()
                .filter(|_| resources.gpu.units > 0);
            for model in models.map(|attribute| model_name(&attribute.key)) {
                if requested.gpu_models.len() < NAMES_MAX && !requested.gpu_models.contains(&model) {
                    requested.gpu_models.push(model);
                }
            }
        }
        requested
    }
}

/// Shortens `vendor/nvidia/model/a100/ram/80Gi` to `nvidia/a100/80Gi`.
fn model_name(key: &str) -> String {
    let parts = key
        .split('/')
        .filter(|part| !matches!(*part, "vendor" | "model" | "ram" | "interface"));
    cut(parts.collect::<Vec<_>>().join("/"))
}

/// Truncates a text to [`TEXT_MAX`] characters and marks the truncation with `…`.
pub(crate) fn cut(text: String) -> String {
    plain::cut(text, TEXT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_texts_are_bounded() {
        let order = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1"
            .parse()
            .unwrap();
        let mut record = OrderRecord::new(order, Moment::default());
        for height in 0..1000 {
            let at = Moment { height, time: 0 };
            record.add_step(at, "health", format!("{height} {}", "x".repeat(1000)));
            record.add_step(at, "health", format!("{height} {}", "x".repeat(1000)));
        }
        assert_eq!((record.steps.len(), record.omitted), (STEPS_MAX, 936));
        assert_eq!(record.steps[0].at.height, 0);
        assert_eq!(record.steps[STEPS_MAX - 1].at.height, 999);
        assert!(
            record
                .steps
                .iter()
                .all(|step| step.detail.chars().count() == TEXT_MAX + 1)
        );
        assert_eq!(
            model_name("vendor/nvidia/model/a100/ram/80Gi"),
            "nvidia/a100/80Gi"
        );
    }
}
