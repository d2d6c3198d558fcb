//! Whether the kubelet of a node still reports. If the kubelet does not report, the status of a container is no
//! evidence that the tenant's program fails.
//!
//! Only nodes with failing containers are read, so that a cluster without failures costs no call.

use super::CacheShared;
use crate::error::within;
use akash_provider_core::error::{Error, ErrorKind};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Namespace of the Lease objects that kubelets renew.
const HEARTBEATS: &str = "kube-node-lease";
/// Default duration of a kubelet's Lease, in seconds.
const LEASE_SECONDS: u32 = 40;
/// Maximum accepted duration of a kubelet's Lease, in seconds.
const LEASE_SECONDS_MAX: u32 = 120;
/// Minimum interval between two reads of a node.
const INTERVAL: Duration = Duration::from_secs(2);
/// The interval between two reads of a node is at least this duration times the number of observed nodes. All
/// reads together then cause at most 40 calls per second.
const INTERVAL_PER_NODE: Duration = Duration::from_millis(50);

/// Nodes that were read; true if the node is ready and its kubelet sends heartbeats.
pub(super) type Nodes = HashMap<String, bool>;

/// Properties of a node and of its Lease, from one read.
#[derive(Debug, Clone, Copy, Default)]
struct NodeReading {
    is_ready: bool,
    heartbeat: Option<Heartbeat>,
}

#[derive(Debug, Clone, Copy)]
struct Heartbeat {
    renewed: Timestamp,
    /// Maximum time between two renewals of the Lease. Includes time for a slow renewal.
    limit: Duration,
}

/// Time of the last read of a node, time of the last renewal of its Lease, and time at which the Lease is
/// overdue.
#[derive(Debug)]
struct NodeObservation {
    read: Instant,
    renewed: Option<Timestamp>,
    overdue: Instant,
}

impl NodeObservation {
    fn new(now: Instant) -> Self {
        Self {
            read: now,
            renewed: None,
            overdue: now,
        }
    }

    /// Returns true if the node is ready and its kubelet renewed the Lease in time. A node without a Lease
    /// only needs to be ready.
    fn reports(&mut self, reading: NodeReading, now: Instant, clock: Timestamp) -> bool {
        let Some(Heartbeat { renewed, limit }) = reading.heartbeat else {
            return reading.is_ready;
        };
        if self.renewed != Some(renewed) {
            // Only the first renewal time is compared with the local clock, which may be wrong. The age of later
            // renewals is measured from their observation.
            let age = match self.renewed {
                Some(_) => Duration::ZERO,
                None => clock.duration_since(renewed).try_into().unwrap_or(limit),
            };
            self.renewed = Some(renewed);
            self.overdue = now + limit.saturating_sub(age);
        }
        reading.is_ready && now < self.overdue
    }
}

/// Reads each node repeatedly while containers on the node fail. Never returns.
pub(super) async fn follow(client: Client, limit: Duration, shared: Arc<CacheShared>) {
    let mut observed: HashMap<String, NodeObservation> = HashMap::new();
    let mut reader = HeartbeatReader {
        client,
        limit,
        is_warned: false,
    };
    let unread = Arc::clone(&shared.index().unread_nodes);
    loop {
        let failing = shared.index().failing_nodes();
        observed.retain(|name, _| failing.contains(name));
        let interval = INTERVAL.max(INTERVAL_PER_NODE * u32::try_from(failing.len()).unwrap_or(u32::MAX));
        for name in &failing {
            let now = Instant::now();
            let node = observed.get(name);
            if node.is_some_and(|node| now.duration_since(node.read) < interval) {
                continue;
            }
            let reading = reader.read(name).await;
            let now = Instant::now();
            let node = observed
                .entry(name.clone())
                .or_insert_with(|| NodeObservation::new(now));
            node.read = now;
            // After a failed query the health of the containers on the node is unknown.
            let reports = reading.map(|reading| node.reports(reading, now, Timestamp::now()));
            shared.node(name, reports.ok());
        }
        if failing.is_empty() {
            unread.notified().await;
        } else {
            // Whichever comes first.
            let _ = timeout(interval, unread.notified()).await;
        }
    }
}

struct HeartbeatReader {
    client: Client,
    limit: Duration,
    is_warned: bool,
}

impl HeartbeatReader {
    /// Reads a node and its Lease. A missing node counts as not ready.
    async fn read(&mut self, name: &str) -> Result<NodeReading, Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = within(self.limit, "read the node", nodes.get_opt(name)).await?;
        let Some(true) = node.as_ref().map(is_ready) else {
            return Ok(NodeReading::default());
        };
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), HEARTBEATS);
        let lease = match within(self.limit, "read the node's Lease", leases.get_opt(name)).await {
            Err(error) if error.kind() == ErrorKind::Denied => {
                self.warn(&error);
                None
            }
            lease => lease?,
        };
        Ok(NodeReading {
            is_ready: true,
            heartbeat: lease.and_then(|lease| heartbeat(&lease.spec?)),
        })
    }

    fn warn(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.is_warned, true) {
            tracing::warn!(
                namespace = HEARTBEATS,
                %error,
                "cannot read the heartbeats of nodes, using only the condition Ready: grant `get` on leases.coordination.k8s.io"
            );
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn heartbeat(lease: &LeaseSpec) -> Option<Heartbeat> {
    let seconds = lease
        .lease_duration_seconds
        .and_then(|seconds| u32::try_from(seconds).ok());
    let seconds = seconds.unwrap_or(LEASE_SECONDS).min(LEASE_SECONDS_MAX);
    Some(Heartbeat {
        renewed: lease.renew_time.as_ref()?.0,
        limit: Duration::from_secs(u64::from(seconds)) * 3 / 8,
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::of;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_reports_while_it_is_ready_and_its_heartbeat_changes_in_time() {
        let at =
            |second: u64| Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap();
        let (start, limit) = (Instant::now(), Duration::from_secs(15));
        let ready = |second| NodeReading {
            is_ready: true,
            heartbeat: Some(Heartbeat {
                renewed: at(second),
                limit,
            }),
        };
        // Seconds of each reading: when, by the local clock, and of the last renewal; and whether the node reports.
        for (what, readings) in [
            (
                "renewed in time",
                &[
                    (0, 0, 0, true),
                    (14, 14, 0, true),
                    (15, 15, 10, true),
                    (29, 29, 10, true),
                ][..],
            ),
            (
                "paused",
                &[
                    (0, 3, 0, true),
                    (11, 14, 0, true),
                    (12, 15, 0, false),
                    (90, 93, 0, false),
                    (91, 94, 94, true),
                ],
            ),
            (
                "away at the first reading",
                &[(0, 500, 0, false), (9, 509, 0, false), (10, 510, 510, true)],
            ),
            (
                "the local clock is behind",
                &[(0, 0, 500, false), (2, 2, 510, true), (18, 18, 510, false)],
            ),
        ] {
            let mut node = NodeObservation::new(start);
            for (after, clock, renewed, reports) in readings {
                let now = start + Duration::from_secs(*after);
                assert_eq!(
                    node.reports(ready(*renewed), now, at(*clock)),
                    *reports,
                    "{what} {after}"
                );
                assert!(
                    !node.reports(
                        NodeReading {
                            is_ready: false,
                            ..ready(*renewed)
                        },
                        now,
                        at(*clock)
                    ),
                    "{what}"
                );
            }
        }
        let without = |is_ready| NodeReading {
            is_ready,
            heartbeat: None,
        };
        assert!(NodeObservation::new(start).reports(without(true), start, at(0)));
        assert!(!NodeObservation::new(start).reports(without(false), start, at(0)));
    }

    #[test]
    fn readiness_and_heartbeats_are_read_from_their_objects() {
        for (status, ready) in [("True", true), ("False", false), ("Unknown", false)] {
            let conditions =
                json!([{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": status}]);
            assert_eq!(
                is_ready(&of(json!({"status": {"conditions": conditions}}))),
                ready,
                "{status}"
            );
        }
        assert!(!is_ready(&Node::default()));
        let of_lease = |spec| heartbeat(&of::<LeaseSpec>(spec)).map(|h| h.limit);
        let renewed = "2026-01-01T00:00:00.000000Z";
        assert_eq!(of_lease(json!({})), None);
        for (duration, limit) in [
            (json!(null), 15_000),
            (json!(8), 3_000),
            (json!(-1), 15_000),
            (json!(i32::MAX), 45_000),
        ] {
            let lease = json!({"renewTime": renewed, "leaseDurationSeconds": duration});
            assert_eq!(of_lease(lease), Some(Duration::from_millis(limit)), "{duration}");
        }
    }
}
