//! What the provider says outwards: facts and retained statuses on the bus, and one log line per transition.
//!
//! The bus is never waited for by the loop: what is published goes through an [`Outlet`].

use super::Outlet;
use crate::bus::Bus;
use crate::engine::Status;
use crate::inventory::{Metrics, NodeMetrics, Pair};
use crate::types::{Event, Mono, Topic};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Statuses are looked at at most this often: fast enough for a person.
const STATUS_EVERY: Duration = Duration::from_millis(500);
/// And so that making them takes at most one part in so many of the loop's time.
const STATUS_SHARE: u32 = 50;

/// What the loop speaks to the bus through, without ever waiting for it.
#[derive(Debug)]
pub(crate) struct Observer {
    outlet: Outlet,
    /// Status bodies handed over last.
    published: BTreeMap<Topic, Value>,
    status_due: Option<Mono>,
    status_not_before: Mono,
}

impl Observer {
    pub(crate) fn start(bus: Arc<dyn Bus>) -> Self {
        Self {
            outlet: Outlet::start(bus),
            published: BTreeMap::new(),
            status_due: None,
            status_not_before: Mono(0),
        }
    }

    /// A fact: a log line, and off to the bus.
    pub(crate) fn fact(&mut self, event: Arc<Event>) {
        log(&event);
        self.outlet.hand_over(Topic::Facts, event);
    }

    /// Something happened, so statuses may have changed.
    pub(crate) fn touch(&mut self, now: Mono) {
        self.status_due
            .get_or_insert_with(|| now.max(self.status_not_before));
    }

    /// When statuses are to be looked at; `None` while nothing happens.
    pub(crate) const fn status_due(&self) -> Option<Mono> {
        self.status_due
    }

    /// Publishes the statuses that changed. `before` is when making `status` began.
    pub(crate) fn statuses(&mut self, status: &Status, before: Mono, now: Mono) {
        for (topic, body) in bodies(status) {
            if self.published.get(&topic) == Some(&body) {
                continue;
            }
            // Remembered only where it went out: one that found no room is tried again at the next look.
            if self
                .outlet
                .hand_over(topic, Arc::new(Event::Status { body: body.clone() }))
            {
                self.published.insert(topic, body);
            }
        }
        let cost = now.since(before);
        let pause = STATUS_EVERY.max(cost.saturating_mul(STATUS_SHARE));
        self.status_due = None;
        self.status_not_before = now.plus(pause);
    }

    /// Lets the publisher finish what waits, for at most `limit`.
    pub(crate) async fn finish(self, limit: Duration) {
        self.outlet.finish(limit).await;
    }
}

/// The body of each retained status that the engine knows of. Heights stay out: they would change every body
/// with every block.
fn bodies(status: &Status) -> [(Topic, Value); 7] {
    let capacity = &status.inventory.available;
    [
        (
            Topic::ClusterStatus,
            json!({
                "lifecycle": status.lifecycle,
                "leader": status.leader,
                "cluster_known": status.cluster_known,
                "leases": status.leases,
                "hostnames": status.hostnames,
                "breaker": status.breaker,
                "last_scan_findings": status.last_scan_findings,
            }),
        ),
        (
            Topic::BidengineStatus,
            json!({
                "chain_known": status.chain_known,
                "orders": status.orders,
                "declines": status.declines,
                "recent_declines": status.recent_declines,
            }),
        ),
        (
            Topic::ManifestStatus,
            json!({ "deployments": status.deployments }),
        ),
        (
            Topic::InventoryStatus,
            json!({
                "inventory_known": status.inventory_known,
                "active": status.inventory.active,
                "pending": status.inventory.pending,
                "external_ports_free": status.inventory.external_ports_free,
                "leased_ips": status.inventory.leased_ips,
            }),
        ),
        (Topic::InventoryCluster, cluster_capacity(capacity)),
        (Topic::InventoryNodes, json!({ "nodes": capacity.nodes })),
        (Topic::InventoryStorage, json!({ "storage": capacity.storage })),
    ]
}

/// The sums over all nodes; what one of them has without limit has none.
fn cluster_capacity(metrics: &Metrics) -> Value {
    let sum = |of: fn(&NodeMetrics) -> Pair| {
        metrics
            .nodes
            .iter()
            .map(of)
            .fold(Pair::default(), |sum, pair| Pair {
                allocatable: sum.allocatable.saturating_add(pair.allocatable),
                available: sum.available.saturating_add(pair.available),
            })
    };
    json!({
        "nodes": metrics.nodes.len(),
        "cpu": sum(|n| n.cpu),
        "gpu": sum(|n| n.gpu),
        "memory": sum(|n| n.memory),
        "storage_ephemeral": sum(|n| n.storage_ephemeral),
        "overcommitted_replicas": metrics.overcommitted_replicas,
        "ignored": metrics.ignored,
    })
}

/// One line per transition; what a tenant or operator would notice is `info`, what wants a look is `warn`.
fn log(event: &Event) {
    match event {
        Event::OrderSeen { order } => tracing::debug!(%order, "order seen"),
        Event::OrderDeclined {
            order,
            reason,
            message,
        } => tracing::info!(%order, %reason, "order declined: {message}"),
        Event::BidsNotCounted { order, message } => {
            tracing::warn!(%order, "its bids cannot be counted, it is bid on all the same: {message}");
        }
        Event::BidUnfunded { order, message } => {
            tracing::warn!(%order, "the bid waits for money: {message}; send some to the provider's account");
        }
        Event::BidPlaced { bid, price } => tracing::info!(%bid, %price, "bid placed"),
        Event::BidAdopted { bid, price } => tracing::info!(%bid, %price, "bid adopted"),
        Event::BidEnded { bid, outcome } => tracing::info!(%bid, outcome = outcome.name(), "bid ended"),
        Event::LeaseAdopted { lease, price } => tracing::info!(%lease, %price, "lease adopted"),
        Event::LeaseWon { lease, price } => tracing::info!(%lease, %price, "lease won"),
        Event::ManifestReceived { deployment, hash } => {
            tracing::info!(%deployment, hash, "manifest received");
        }
        Event::ManifestRefused { deployment, message } => {
            tracing::info!(%deployment, "manifest refused: {message}");
        }
        Event::Deployed { lease, generation } => tracing::info!(%lease, generation, "deployed"),
        Event::DeployFailed { lease, message } => tracing::warn!(%lease, "deploy failed: {message}"),
        Event::HealthChanged { lease, health } => {
            let (health, counted) = (health.name(), health.is_counted());
            tracing::info!(%lease, health, counted, "health changed");
        }
        Event::LeaseEnding { lease, reason } => tracing::info!(%lease, ?reason, "lease ending"),
        Event::LeaseClosed { lease, reason } => tracing::info!(%lease, ?reason, "lease closed"),
        Event::BalanceChecked {
            deployment,
            blocks_left,
        } => tracing::debug!(%deployment, ?blocks_left, "balance checked"),
        Event::Withdrawn { lease } => tracing::info!(%lease, "withdrawn"),
        Event::WithdrawFailed { lease, message } => tracing::warn!(%lease, "withdrawal failed: {message}"),
        Event::BreakerTripped { wanted } => tracing::warn!(wanted, "circuit breaker tripped"),
        Event::BreakerTrippedFor { owner, wanted } => tracing::warn!(
            %owner,
            wanted,
            "circuit breaker tripped for one owner: more of his leases were to be ended than is usual, and no more \
             of them end until it is released; those of others do"
        ),
        Event::EndHeld { lease, message } => {
            tracing::warn!(%lease, "end of lease held back by the circuit breaker: {message}");
        }
        Event::BreakerReleased => tracing::info!("circuit breaker released"),
        Event::BreakerReleasedFor { owner } => {
            tracing::info!(%owner, "circuit breaker released for one owner")
        }
        Event::RecordUnusable { lease, problem } => tracing::warn!(
            %lease,
            "the record of a lease cannot be used, and the lease is not ended for it: {problem}; \
             put the record right, or have the tenant send the manifest again"
        ),
        Event::RecordUsable { lease } => tracing::info!(%lease, "the record of a lease can be used again"),
        Event::RecordsNotFound { leases, place } => tracing::warn!(
            leases,
            "the chain has leases of this provider and no record of any is in {place}: nothing is ended until one \
             is found there; look at the namespace of manifests and at the cluster that is used, or release the \
             circuit breaker if they are really gone"
        ),
        Event::RecordsFound => tracing::info!("records of leases were found"),
        Event::DriftFound { findings } => {
            tracing::warn!(?findings, "chain, cluster and ledger differ");
        }
        Event::Status { .. } => tracing::trace!("status"),
    }
}

#[cfg(test)]
mod tests;
