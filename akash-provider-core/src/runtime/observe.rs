//! Published events: facts and retained statuses on the bus, and one log line per transition.
//!
//! The loop never waits for the bus: events are published through a [`PublishQueue`].

use super::{LostFacts, PublishQueue};
use crate::bus::Bus;
use crate::engine::Status;
use crate::inventory::{IgnoredResource, Metrics, NodeMetrics, Pair};
use crate::types::{Event, Mono, Topic};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Minimum interval between status updates.
const STATUS_EVERY: Duration = Duration::from_millis(500);
/// Minimum pause after a status update, as a multiple of the duration of the update.
const STATUS_SHARE: u32 = 50;

/// Publisher of events to the bus and to the log. Only the method `finish` waits for the bus.
#[derive(Debug)]
pub(crate) struct Observer {
    outlet: PublishQueue,
    /// Last published status of each topic.
    published: BTreeMap<Topic, Value>,
    status_due: Option<Mono>,
    status_not_before: Mono,
}

impl Observer {
    pub(crate) fn start(bus: Arc<dyn Bus>) -> Self {
        Self {
            outlet: PublishQueue::start(bus),
            published: BTreeMap::new(),
            status_due: None,
            status_not_before: Mono(0),
        }
    }

    pub(crate) fn lost_facts(&self) -> LostFacts {
        self.outlet.lost_facts()
    }

    pub(crate) fn fact(&mut self, event: Arc<Event>) {
        log(&event);
        self.outlet.enqueue(Topic::Facts, event);
    }

    /// Schedules a status update, unless an update is already scheduled.
    pub(crate) fn touch(&mut self, now: Mono) {
        self.status_due
            .get_or_insert_with(|| now.max(self.status_not_before));
    }

    /// Returns the time of the next status update, or `None` if no update is scheduled.
    pub(crate) const fn status_due(&self) -> Option<Mono> {
        self.status_due
    }

    /// Publishes the statuses that changed. `before` is the time at which the creation of `status` started.
    pub(crate) fn statuses(&mut self, status: &Status, before: Mono, now: Mono) {
        for (topic, body) in bodies(status) {
            if self.published.get(&topic) == Some(&body) {
                continue;
            }
            // Stored only if the queue accepted it, so that a dropped status is sent again at the next
            // update.
            if self
                .outlet
                .enqueue(topic, Arc::new(Event::Status { body: body.clone() }))
            {
                self.published.insert(topic, body);
            }
        }
        let cost = now.since(before);
        let pause = STATUS_EVERY.max(cost.saturating_mul(STATUS_SHARE));
        self.status_due = None;
        self.status_not_before = now.plus(pause);
    }

    /// Waits up to `limit` for the publisher to empty the queue.
    pub(crate) async fn finish(self, limit: Duration) {
        self.outlet.finish(limit).await;
    }
}

/// Returns the bodies of all retained statuses. Bodies contain no block heights, because a height changes
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

/// Returns the sum of each resource over all nodes. A sum is unlimited if the resource of one node is
/// unlimited.
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
        "ignored": metrics.ignored.iter().map(IgnoredResource::reason).collect::<Vec<_>>(),
    })
}

/// Logs one line per transition: `info` for events that tenants or operators notice, `warn` for events that
/// need attention.
fn log(event: &Event) {
    match event {
        Event::OrderSeen { order } => tracing::debug!(%order, "order seen"),
        Event::OrderDeclined {
            order,
            reason,
            message,
        } => tracing::info!(%order, %reason, why = %message, "order declined"),
        Event::BidsNotCounted { order, message } => {
            tracing::warn!(%order, why = %message, "cannot count the bids on the order, bidding without a check of the maximum number of bids");
        }
        Event::BidUnfunded { order, message } => {
            tracing::warn!(%order, why = %message, "bid postponed until the provider's account can pay the deposit and the fee; send funds to the account");
        }
        Event::BidPlaced { bid, price } => tracing::info!(%bid, %price, "bid placed"),
        Event::BidAdopted { bid, price } => tracing::info!(%bid, %price, "bid adopted"),
        Event::BidEnded { bid, outcome } => tracing::info!(%bid, outcome = outcome.name(), "bid ended"),
        Event::LeaseAdopted { lease, price } => tracing::info!(%lease, %price, "lease adopted"),
        Event::LeaseWon { lease, price } => tracing::info!(%lease, %price, "lease won"),
        Event::ManifestReceived { deployment, hash } => {
            tracing::info!(%deployment, hash, "manifest received")
        }
        Event::ManifestRefused { deployment, message } => {
            tracing::info!(%deployment, why = %message, "manifest refused");
        }
        Event::Deployed { lease, generation } => {
            tracing::info!(%lease, generation, "workload of the lease deployed")
        }
        Event::DeployFailed { lease, message } => {
            tracing::warn!(%lease, why = %message, "cannot deploy the workload of the lease, retrying")
        }
        Event::HealthChanged { lease, health } => {
            let (health, counted) = (health.name(), health.is_counted());
            tracing::info!(%lease, health, counted, "health of the workload changed");
        }
        Event::LeaseEnding { lease, reason } => tracing::info!(%lease, ?reason, "closing the lease"),
        Event::LeaseClosed { lease, reason } => tracing::info!(%lease, ?reason, "lease closed"),
        Event::BalanceChecked {
            deployment,
            blocks_left,
        } => tracing::debug!(%deployment, ?blocks_left, "balance checked"),
        Event::Withdrawn { lease } => {
            tracing::info!(%lease, "earnings of the lease transferred to the provider's account")
        }
        Event::WithdrawFailed { lease, message } => {
            tracing::warn!(%lease, why = %message, "cannot transfer the earnings of the lease to the provider's account, retrying")
        }
        Event::BreakerTripped { .. }
        | Event::BreakerTrippedFor { .. }
        | Event::EndHeld { .. }
        | Event::BreakerReleased
        | Event::BreakerReleasedFor { .. }
        | Event::RecordUnusable { .. }
        | Event::RecordUsable { .. }
        | Event::RecordsNotFound { .. }
        | Event::RecordsFound
        | Event::DriftFound { .. } => log_safeguard(event),
        Event::Status { .. } => tracing::trace!("status"),
    }
}

fn log_safeguard(event: &Event) {
    match event {
        Event::BreakerTripped { wanted } => {
            tracing::warn!(
                wanted,
                "circuit breaker tripped: too many leases would be closed; check the cause, then run \
                 `provider-daemon breaker release`"
            );
        }
        Event::BreakerTrippedFor { owner, wanted } => {
            tracing::warn!(%owner, wanted, "circuit breaker tripped for one tenant: too many leases of the tenant would be closed; check the cause, then run `provider-daemon breaker release --owner OWNER`");
        }
        Event::EndHeld { lease, message } => {
            tracing::warn!(%lease, why = %message, "circuit breaker delays the close of the lease, see the field `why`");
        }
        Event::BreakerReleased => {
            tracing::info!("circuit breaker released, the provider can close leases of all tenants again")
        }
        Event::BreakerReleasedFor { owner } => {
            tracing::info!(%owner, "circuit breaker released for one tenant, the provider can close the tenant's leases again")
        }
        Event::RecordUnusable { lease, problem } => tracing::warn!(
            %lease,
            %problem,
            "Manifest record of the lease is unusable, the lease stays open; repair the \
             record, or ask the tenant to send the manifest again"
        ),
        Event::RecordUsable { lease } => {
            tracing::info!(%lease, "Manifest record of the lease is usable again")
        }
        Event::RecordsNotFound { leases, place } => tracing::warn!(
            leases,
            %place,
            "cluster has no Manifest record of the leases on the chain, no lease is closed until a record \
             is found; check --k8s-manifest-ns and the kubeconfig, or run `provider-daemon breaker \
             release` if the records are lost"
        ),
        Event::RecordsFound => {
            tracing::info!(
                "Manifest record of a lease found in the cluster, so the provider can close leases again"
            )
        }
        Event::DriftFound { findings } => tracing::warn!(
            ?findings,
            "full scan found new differences between the chain, the cluster and the state of the provider"
        ),
        // `log` logs these events.
        Event::OrderSeen { .. }
        | Event::OrderDeclined { .. }
        | Event::BidsNotCounted { .. }
        | Event::BidUnfunded { .. }
        | Event::BidPlaced { .. }
        | Event::BidAdopted { .. }
        | Event::BidEnded { .. }
        | Event::LeaseAdopted { .. }
        | Event::LeaseWon { .. }
        | Event::ManifestReceived { .. }
        | Event::ManifestRefused { .. }
        | Event::Deployed { .. }
        | Event::DeployFailed { .. }
        | Event::HealthChanged { .. }
        | Event::LeaseEnding { .. }
        | Event::LeaseClosed { .. }
        | Event::BalanceChecked { .. }
        | Event::Withdrawn { .. }
        | Event::WithdrawFailed { .. }
        | Event::Status { .. } => {}
    }
}

#[cfg(test)]
mod tests;
