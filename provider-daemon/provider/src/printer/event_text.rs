//! Texts of events.

use akash_provider_core::cluster::Health;
use akash_provider_core::types::{DeploymentId, Event, LeaseId};
use anstyle::{AnsiColor, Style};

/// Text of an event, with the deployment.
pub(super) struct EventLine {
    pub(super) deployment: DeploymentId,
    pub(super) what: &'static str,
    pub(super) detail: String,
}

pub(super) fn style(event: &Event) -> Style {
    let colour = |colour: AnsiColor| colour.on_default();
    match event {
        Event::BidPlaced { .. } | Event::BidAdopted { .. } => colour(AnsiColor::Cyan),
        Event::LeaseWon { .. } | Event::LeaseAdopted { .. } | Event::Deployed { .. } => {
            colour(AnsiColor::Green)
        }
        Event::HealthChanged {
            health: Health::Good, ..
        } => colour(AnsiColor::Green),
        Event::HealthChanged { .. } => colour(AnsiColor::Yellow),
        Event::BidUnfunded { .. }
        | Event::ManifestRefused { .. }
        | Event::DeployFailed { .. }
        | Event::WithdrawFailed { .. }
        | Event::RecordUnusable { .. }
        | Event::LeaseEnding { .. } => colour(AnsiColor::Red),
        Event::OrderSeen { .. } | Event::OrderDeclined { .. } | Event::BidEnded { .. } => {
            Style::new().dimmed()
        }
        _ => Style::new(),
    }
}

/// Returns a short deployment ID: the first 12 characters of the owner, and the dseq.
pub(super) fn short(id: &DeploymentId) -> String {
    let owner: String = id.owner.as_str().chars().take(12).collect();
    format!("{owner}/{}", id.dseq)
}

/// Returns the text of an event; `None` for events without text.
pub(super) fn line(event: &Event) -> Option<EventLine> {
    let (deployment, what, detail) = match event {
        Event::OrderSeen { order } => (order.deployment(), "order seen", group(order.group.gseq)),
        Event::OrderDeclined { order, message, .. } => (order.deployment(), "declined", message.clone()),
        Event::BidsNotCounted { order, message } => (order.deployment(), "bids not counted", message.clone()),
        Event::BidUnfunded { order, message } => (order.deployment(), "waits for money", message.clone()),
        Event::BidPlaced { bid, price } => (
            bid.deployment(),
            "bid placed",
            format!("{}, {price} per block", group(bid.order.group.gseq)),
        ),
        Event::BidAdopted { bid, price } => (
            bid.deployment(),
            "bid adopted",
            format!("{}, {price} per block", group(bid.order.group.gseq)),
        ),
        Event::BidEnded { bid, outcome } => (
            bid.deployment(),
            "bid ended",
            format!("{}, {outcome}", group(bid.order.group.gseq)),
        ),
        Event::LeaseAdopted { lease, price } => (
            lease.deployment(),
            "lease adopted",
            format!("{}, {price} per block", group(lease.order.group.gseq)),
        ),
        Event::LeaseWon { lease, .. } => (lease.deployment(), "lease won", group(lease.order.group.gseq)),
        Event::ManifestReceived { deployment, hash } => {
            (deployment, "manifest", hash.chars().take(12).collect::<String>())
        }
        Event::ManifestRefused { deployment, message } => (deployment, "manifest refused", message.clone()),
        Event::Deployed { lease, generation } => (
            lease.deployment(),
            "deployed",
            format!("{}, version {generation}", group(lease.order.group.gseq)),
        ),
        Event::DeployFailed { lease, message } => (lease.deployment(), "deploy failed", message.clone()),
        Event::HealthChanged { lease, health } => {
            let (word, detail) = health_text(*health, lease);
            (lease.deployment(), word, detail)
        }
        Event::LeaseEnding { lease, reason } => (lease.deployment(), "ending", format!("{reason:?}")),
        Event::LeaseClosed { lease, .. } => (
            lease.deployment(),
            "lease closed",
            format!("{}, everything released", group(lease.order.group.gseq)),
        ),
        Event::Withdrawn { lease } => (lease.deployment(), "paid out", group(lease.order.group.gseq)),
        Event::WithdrawFailed { lease, message } => (lease.deployment(), "payout failed", message.clone()),
        Event::RecordUnusable { lease, problem } => (lease.deployment(), "record unusable", problem.clone()),
        Event::RecordUsable { lease } => (lease.deployment(), "record usable", group(lease.order.group.gseq)),
        Event::RecordsNotFound { .. }
        | Event::RecordsFound
        | Event::BalanceChecked { .. }
        | Event::BreakerTripped { .. }
        | Event::BreakerTrippedFor { .. }
        | Event::EndHeld { .. }
        | Event::BreakerReleased
        | Event::BreakerReleasedFor { .. }
        | Event::DriftFound { .. }
        | Event::Status { .. } => return None,
        // Events without text are in the log.
        _ => return None,
    };
    Some(EventLine {
        deployment: deployment.clone(),
        what,
        detail,
    })
}

fn health_text(health: Health, lease: &LeaseId) -> (&'static str, String) {
    let group = group(lease.order.group.gseq);
    match health {
        Health::Good => ("running", group),
        Health::Bad => ("unhealthy", group),
        Health::Unknown => ("health unknown", group),
        Health::Out(outage) => ("interrupted", format!("{group}, {}", outage.name())),
    }
}

fn group(gseq: u32) -> String {
    format!("group {gseq}")
}
