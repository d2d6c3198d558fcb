//! What `dev` and `run` print: one line per transition, for people or as JSON.

use crate::args::Output;
use crate::{plain, say};
use akash_provider_core::bus::{Bus, Delivery, LocalBus};
use akash_provider_core::types::{DeploymentId, Event, LeaseId, Topic};
use futures::StreamExt;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Prints events as they come.
#[derive(Debug)]
pub struct Printer {
    output: Output,
    started: Instant,
    names: Mutex<BTreeMap<DeploymentId, (String, Instant)>>,
    /// Leases that run with their newest manifest and that nobody has closed: only there is bad health news.
    settled: Mutex<BTreeSet<LeaseId>>,
}

/// A transition in words.
struct Line {
    deployment: DeploymentId,
    what: &'static str,
    detail: String,
}

impl Printer {
    /// Starts the clock.
    #[must_use]
    pub fn new(output: Output) -> Self {
        Self {
            output,
            started: Instant::now(),
            names: Mutex::default(),
            settled: Mutex::default(),
        }
    }

    /// From now on this deployment is known by a name, and its time counts.
    pub fn name(&self, id: &DeploymentId, name: &str) {
        if let Ok(mut names) = self.names.lock() {
            names.insert(id.clone(), (name.to_owned(), Instant::now()));
        }
    }

    /// One event of the provider.
    pub fn event(&self, event: &Event) {
        let Some(line) = line(event) else { return };
        if !self.is_news(event) && self.is_text() {
            return;
        }
        let body = serde_json::to_value(event).unwrap_or(Value::Null);
        self.print(&line.deployment, line.what, &line.detail, body);
    }

    /// A workload that starts, or that its tenant has closed, is unhealthy and that is as it must be.
    fn is_news(&self, event: &Event) -> bool {
        match event {
            Event::ManifestReceived { deployment, .. } => self.unsettle(deployment),
            Event::HealthChanged { lease, health } if health == "good" => {
                if let Ok(mut settled) = self.settled.lock() {
                    settled.insert(lease.clone());
                }
            }
            Event::HealthChanged { lease, .. } => {
                return self.settled.lock().is_ok_and(|mut all| all.remove(lease));
            }
            // Every other fact is news of its own.
            _ => {}
        }
        true
    }

    fn unsettle(&self, id: &DeploymentId) {
        if let Ok(mut settled) = self.settled.lock() {
            settled.retain(|lease| lease.deployment() != id);
        }
    }

    /// A tenant closes its deployment.
    pub fn closing(&self, id: &DeploymentId) {
        self.unsettle(id);
        self.tenant(id, "closed", "by the tenant");
    }

    /// One thing a tenant did.
    pub fn tenant(&self, id: &DeploymentId, what: &'static str, detail: &str) {
        self.print(
            id,
            what,
            detail,
            json!({ "event": what.replace(' ', "_"), "detail": detail }),
        );
    }

    /// A line that belongs to no deployment.
    pub fn note(&self, text: &str) {
        match self.output {
            Output::Text => say(&format!("{text}\n")),
            Output::Json => {
                let note = json!({ "event": "note", "at_ms": self.at_ms(), "text": text });
                say(&format!("{note}\n"));
            }
        }
    }

    /// A JSON object of its own; nothing for people.
    pub fn object(&self, value: &Value) {
        if self.output == Output::Json {
            say(&format!("{value}\n"));
        }
    }

    /// True when it prints for people.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.output == Output::Text
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn print(&self, id: &DeploymentId, what: &str, detail: &str, mut body: Value) {
        let named = self.names.lock().ok().and_then(|names| names.get(id).cloned());
        let (name, since) = named.unwrap_or_else(|| (short(id), self.started));
        let since = since.elapsed();
        match self.output {
            Output::Text => {
                let since = since.as_secs_f64();
                let (name, detail) = (plain::line(&name), plain::line(detail));
                let line = format!("{since:>8.2}s  {name:<22} {what:<17} {detail}");
                say(&format!("{}\n", line.trim_end()));
            }
            Output::Json => {
                if let Some(object) = body.as_object_mut() {
                    object.insert("at_ms".to_owned(), json!(self.at_ms()));
                    object.insert("since_order_ms".to_owned(), json!(since.as_millis() as u64));
                    object.insert("name".to_owned(), json!(name));
                    object.insert("deployment".to_owned(), json!(id.to_string()));
                }
                say(&format!("{body}\n"));
            }
        }
    }
}

/// Prints the provider's facts as they come.
///
/// # Errors
/// The bus takes no more subscribers.
pub async fn print_facts(
    bus: &LocalBus,
    printer: &Arc<Printer>,
    background: &CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    let mut facts = bus.subscribe(&[Topic::Facts]).await?;
    let (printer, background) = (Arc::clone(printer), background.clone());
    Ok(tokio::spawn(async move {
        loop {
            let delivery = tokio::select! {
                biased;
                delivery = facts.next() => delivery,
                () = background.cancelled() => None,
            };
            match delivery {
                Some(Delivery::Event { event, .. }) => printer.event(&event),
                Some(Delivery::Lagged(lost)) => {
                    printer.note(&format!("{lost} lines were skipped: too many at once"))
                }
                None => return,
            }
        }
    }))
}

/// A deployment that has no name: the beginning of its owner, and its number.
fn short(id: &DeploymentId) -> String {
    let owner: String = id.owner.as_str().chars().take(12).collect();
    format!("{owner}/{}", id.dseq)
}

fn line(event: &Event) -> Option<Line> {
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
        Event::LeaseWon { lease, .. } => (lease.deployment(), "lease won", group(lease.order.group.gseq)),
        Event::ManifestReceived { deployment, hash } => {
            (deployment, "manifest", hash.chars().take(12).collect::<String>())
        }
        Event::Deployed { lease, generation } => (
            lease.deployment(),
            "deployed",
            format!("{}, version {generation}", group(lease.order.group.gseq)),
        ),
        Event::DeployFailed { lease, message } => (lease.deployment(), "deploy failed", message.clone()),
        Event::HealthChanged { lease, health } => {
            let word = match health.as_str() {
                "good" => "running",
                "bad" => "unhealthy",
                _ => "health unknown",
            };
            (lease.deployment(), word, group(lease.order.group.gseq))
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
        | Event::BreakerReleased
        | Event::BreakerReleasedFor { .. }
        | Event::DriftFound { .. }
        | Event::Status { .. } => return None,
    };
    Some(Line {
        deployment: deployment.clone(),
        what,
        detail,
    })
}

fn group(gseq: u32) -> String {
    format!("group {gseq}")
}
