//! Facts about orders, and their effect on a record.

use super::record::{HistoryOutcome, LeaseEnd, Moment, OrderRecord, RecordedDecline, Requested, Winner, cut};
use akash_provider_core::cluster::{Health, Outage};
use akash_provider_core::pricing::policy::Line;
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::types::{
    Address, BidOutcome, CloseReason, Dec, DecCoin, DeploymentId, Event, GroupSpec, OrderId,
};
use std::sync::Arc;

/// Maximum difference between a price and the sum of its rounded components.
const ROUNDING: Dec = Dec::from_scaled(1_000_000);

/// Fact that the order history records, with its time.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) subject: FactSubject,
    pub(super) at: Moment,
    pub(super) kind: FactKind,
}

/// Orders that a fact concerns.
#[derive(Debug)]
pub(super) enum FactSubject {
    Order(OrderId),
    /// All orders with a lease in this deployment.
    Deployment(DeploymentId),
}

#[derive(Debug)]
pub(super) enum FactKind {
    /// Event of the provider.
    Event(Arc<Event>),
    /// Group of the order, as on the chain.
    Group(Arc<GroupSpec>),
    /// Request and result (per block) of a price calculation.
    Price(Box<PriceRequest>, DecCoin),
    /// Provider and price per block of a lease that another provider got.
    OtherLease(Address, DecCoin),
    /// The lease of this provider was closed on the chain.
    LeaseEnded(CloseReason),
    /// The order was closed on the chain.
    OrderClosed,
}

impl Fact {
    /// Returns the fact in an event, or `None` if the event concerns no order.
    pub(super) fn from_event(event: &Arc<Event>, at: Moment) -> Option<Self> {
        let subject = match &**event {
            Event::OrderSeen { order }
            | Event::OrderDeclined { order, .. }
            | Event::BidsNotCounted { order, .. }
            | Event::BidUnfunded { order, .. } => FactSubject::Order(order.clone()),
            Event::BidPlaced { bid, .. } | Event::BidAdopted { bid, .. } | Event::BidEnded { bid, .. } => {
                FactSubject::Order(bid.order.clone())
            }
            Event::LeaseAdopted { lease, .. }
            | Event::LeaseWon { lease, .. }
            | Event::Deployed { lease, .. }
            | Event::DeployFailed { lease, .. }
            | Event::HealthChanged { lease, .. }
            | Event::LeaseEnding { lease, .. }
            | Event::LeaseClosed { lease, .. }
            | Event::Withdrawn { lease }
            | Event::WithdrawFailed { lease, .. }
            | Event::EndHeld { lease, .. }
            | Event::RecordUnusable { lease, .. }
            | Event::RecordUsable { lease } => FactSubject::Order(lease.order.clone()),
            Event::ManifestReceived { deployment, .. } | Event::ManifestRefused { deployment, .. } => {
                FactSubject::Deployment(deployment.clone())
            }
            _ => return None,
        };
        let kind = FactKind::Event(Arc::clone(event));
        Some(Self { subject, at, kind })
    }

    /// Returns true if the fact creates the record of an order. Before the record exists, facts of other
    /// kinds are ignored.
    pub(super) fn creates_record(&self) -> bool {
        let FactKind::Event(event) = &self.kind else {
            return false;
        };
        matches!(
            **event,
            Event::OrderSeen { .. }
                | Event::OrderDeclined { .. }
                | Event::BidPlaced { .. }
                | Event::BidAdopted { .. }
                | Event::LeaseWon { .. }
                | Event::LeaseAdopted { .. }
        )
    }

    pub(super) fn apply(self, record: &mut OrderRecord, pricing: &dyn PricingStrategy) {
        let at = self.at;
        match self.kind {
            FactKind::Event(event) => apply_event(record, at, &event),
            FactKind::Group(group) => record.requested = Some(Requested::from_group(&group)),
            FactKind::Price(request, price) => {
                record.requested = Some(Requested::from_group(&request.group));
                record.price_lines = lines_of(&request, &price, pricing);
                record.price = Some(price);
            }
            FactKind::OtherLease(provider, price) => {
                record.add_step(
                    at,
                    "lease_of_another_provider",
                    format!("{provider} for {price} per block"),
                );
                record.winner = Some(Winner { provider, price });
                // For an order with a bid of this provider, the end of the bid follows.
                if record.outcome == HistoryOutcome::Waiting {
                    record.outcome = HistoryOutcome::Closed;
                }
            }
            // The event of the provider follows after the removal of the workload.
            FactKind::LeaseEnded(reason) if record.has_lease() => {
                let reason = Some(reason);
                record.end = Some(LeaseEnd { at, reason });
            }
            FactKind::LeaseEnded(_) => {}
            FactKind::OrderClosed => {
                // The end of a lease is a separate event.
                if record.outcome == HistoryOutcome::Waiting {
                    record.add_step(at, "order_closed", "");
                    record.outcome = HistoryOutcome::Closed;
                }
            }
        }
    }
}

/// Returns the components of a price. Empty if the strategy does not explain its prices, or if its prices
/// have changed.
fn lines_of(request: &PriceRequest, price: &DecCoin, pricing: &dyn PricingStrategy) -> Vec<Line> {
    let lines = pricing.price_lines(request).unwrap_or_default();
    let sum = lines
        .iter()
        .try_fold(Dec::ZERO, |sum, line| sum.checked_add(line.amount));
    let difference = sum
        .and_then(|sum| sum.checked_sub(price.amount))
        .and_then(Dec::checked_abs);
    if difference.is_some_and(|difference| difference <= ROUNDING) {
        lines
    } else {
        Vec::new()
    }
}

fn apply_event(record: &mut OrderRecord, at: Moment, event: &Event) {
    match event {
        Event::OrderSeen { .. } => {
            if record.steps.is_empty() {
                record.add_step(at, "order_seen", "");
            }
        }
        Event::OrderDeclined { reason, message, .. } => {
            record.add_step(at, "declined", format!("{reason}: {message}"));
            let message = cut(message.clone());
            record.decline = Some(RecordedDecline {
                code: *reason,
                message,
            });
            if record.outcome == HistoryOutcome::Waiting {
                record.outcome = HistoryOutcome::Declined;
            }
        }
        Event::BidPlaced { price, .. } | Event::BidAdopted { price, .. } => {
            let is_new = matches!(event, Event::BidPlaced { .. });
            let step = if is_new { "bid_placed" } else { "bid_adopted" };
            record.add_step(at, step, format!("{price} per block"));
            record.price = Some(price.clone());
            if !record.has_lease() {
                record.outcome = HistoryOutcome::Waiting;
            }
        }
        Event::BidEnded { outcome, .. } => {
            record.add_step(at, "bid_ended", outcome.name().replace('_', " "));
            record.outcome = match outcome {
                BidOutcome::Lost => HistoryOutcome::Lost,
                BidOutcome::Timeout => HistoryOutcome::TimedOut,
                _ => HistoryOutcome::Closed,
            };
        }
        Event::LeaseWon { price, .. } | Event::LeaseAdopted { price, .. } => {
            let is_new = matches!(event, Event::LeaseWon { .. });
            let step = if is_new { "lease_won" } else { "lease_adopted" };
            record.add_step(at, step, format!("{price} per block"));
            record.price = Some(price.clone());
            record.outcome = HistoryOutcome::Won;
            record.won.get_or_insert(at);
        }
        Event::LeaseClosed { reason, .. } => {
            record.add_step(at, "lease_closed", reason.map(reason_text).unwrap_or_default());
            let end = record.end.get_or_insert(LeaseEnd { at, reason: None });
            end.reason = reason.or(end.reason);
        }
        _ => {
            let (step, detail) = simple_step(event);
            record.add_step(at, step, detail);
        }
    }
}

/// Returns the name and the details of a step. The event of this step changes nothing else in the record.
fn simple_step(event: &Event) -> (&'static str, String) {
    match event {
        Event::BidsNotCounted { message, .. } => ("bids_not_counted", message.clone()),
        Event::BidUnfunded { message, .. } => ("waiting_for_funds", message.clone()),
        Event::ManifestReceived { hash, .. } => ("manifest_received", hash.chars().take(12).collect()),
        Event::ManifestRefused { message, .. } => ("manifest_refused", message.clone()),
        Event::Deployed { generation, .. } => ("deployed", format!("version {generation}")),
        Event::DeployFailed { message, .. } => ("deploy_failed", message.clone()),
        Event::HealthChanged { health, .. } => match health {
            Health::Good => ("running", String::new()),
            Health::Bad => ("unhealthy", String::new()),
            Health::Unknown => ("health_unknown", String::new()),
            Health::Out(Outage::Starting) => ("starting", String::new()),
            Health::Out(outage) => ("interrupted", outage.name().to_owned()),
        },
        Event::LeaseEnding { reason, .. } => ("closing_lease", reason_text(*reason)),
        Event::Withdrawn { .. } => ("withdrawn", String::new()),
        Event::WithdrawFailed { message, .. } => ("withdrawal_failed", message.clone()),
        Event::EndHeld { message, .. } => ("close_held", message.clone()),
        Event::RecordUnusable { problem, .. } => ("record_unusable", problem.clone()),
        Event::RecordUsable { .. } => ("record_usable", String::new()),
        other => ("event", format!("{other:?}")),
    }
}

/// Returns the name of a close reason, with spaces instead of underscores.
pub(super) fn reason_text(reason: CloseReason) -> String {
    match reason {
        CloseReason::Other(_) => format!("{reason:?}"),
        reason => reason.name().replace('_', " "),
    }
}
