//! Health checks, selection of endpoints, and their status.

use super::{
    Capability, EndpointSelection, Endpoints, LAG_MAX, LATENCY_NOISE, Member, URGENT_MAX, URGENT_MIN,
    is_able, jitter,
};
use crate::checkpoint::{Checkpoint, correction_ms, local};
use crate::endpoint::{EndpointStatistics, Versions};
use crate::fault::{Fault, NodeError};
use crate::lock::lock;
use akash_provider_core::types::Height;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Status of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Address of the endpoint, without credentials.
    pub address: Arc<str>,
    /// The client uses this endpoint for queries.
    pub serves_queries: bool,
    /// The client uses this endpoint for blocks and transactions.
    pub serves_blocks: bool,
    /// Newest height that the endpoint has reported.
    pub height: Height,
    /// Smoothed response time.
    pub latency: Option<Duration>,
    /// Number of failures since the last successful health check.
    pub failures: u32,
    /// Reason why the endpoint is not used.
    pub fault: Option<Fault>,
    /// API versions of the node. `None` until a health check succeeds.
    pub versions: Option<Versions>,
}

impl Endpoints {
    /// Returns the status of each endpoint.
    #[must_use]
    pub fn status(&self) -> Vec<EndpointStatus> {
        let choice = lock(&self.shared.choice);
        let (queries, blocks) = (choice.queries, choice.blocks);
        drop(choice);
        let members = self.shared.members.iter().enumerate();
        let status = members.map(|(at, member)| {
            let health = lock(&member.health);
            EndpointStatus {
                address: Arc::clone(&member.endpoint.name),
                serves_queries: queries == Some(at),
                serves_blocks: blocks == Some(at),
                height: health.height,
                latency: health.latency,
                failures: health.failures,
                fault: health.fault.clone(),
                versions: health.versions.clone(),
            }
        });
        status.collect()
    }

    /// Returns the statistics of each endpoint, in the order of the addresses.
    #[must_use]
    pub fn statistics(&self) -> Vec<EndpointStatistics> {
        let endpoints = self.shared.members.iter().map(|member| &member.endpoint);
        endpoints
            .map(|endpoint| endpoint.counters.statistics(&endpoint.name))
            .collect()
    }

    /// Returns how often the client switched to another endpoint, and the reason of the last switch.
    #[must_use]
    pub fn switches(&self) -> (u64, Option<String>) {
        let choice = lock(&self.shared.choice);
        (choice.switches, choice.reason.clone())
    }

    pub(crate) fn ready(&self, capability: Capability) -> Vec<usize> {
        let members = self.shared.members.iter().enumerate();
        let ready = members.filter(|(_, m)| is_able(m, capability) && lock(&m.health).is_usable());
        ready.map(|(at, _)| at).collect()
    }

    /// Starts the health checks that are due. Waits for them only if no endpoint is usable.
    pub(super) async fn refresh_if_due(&self, capability: Capability) {
        let urgent = self.ready(capability).is_empty();
        if self.due(urgent).is_empty() {
            return;
        }
        if urgent {
            let _one_at_a_time = self.shared.refreshing.lock().await;
            // Computed after the lock is taken: another caller may have completed the checks.
            let due = self.due(true);
            self.probe_all(due).await;
            return;
        }
        let this = self.clone();
        // Checked before a task is spawned. The task takes the lock itself.
        if self.shared.refreshing.try_lock().is_ok() {
            tokio::spawn(async move {
                let Ok(_one_at_a_time) = this.shared.refreshing.try_lock() else {
                    return;
                };
                let due = this.due(false);
                this.probe_all(due).await;
            });
        }
    }

    fn due(&self, urgent: bool) -> Vec<usize> {
        let now = Instant::now();
        let age = self.shared.limits.health_age;
        let is_due = |m: &Member| {
            let health = lock(&m.health);
            // Shorter than the back-off of an endpoint, because nothing works without a node.
            let pause = URGENT_MIN.saturating_mul(1 << health.failures.saturating_sub(1).min(8));
            let pause = pause.min(URGENT_MAX);
            let waited = health.checked.is_none_or(|at| now.duration_since(at) >= pause);
            health.is_due(now, age) || (urgent && waited)
        };
        let members = self.shared.members.iter().enumerate();
        members.filter(|(_, m)| is_due(m)).map(|(at, _)| at).collect()
    }

    async fn probe_all(&self, due: Vec<usize>) {
        join_all(due.into_iter().map(|at| self.probe(at))).await;
        // Lagging nodes are detected by comparison, after all checks.
        self.update_clock_correction();
        self.drop_laggards();
    }

    async fn probe(&self, at: usize) {
        let Some(member) = self.shared.members.get(at) else {
            return;
        };
        let limit = self
            .shared
            .limits
            .connect_time
            .min(self.shared.limits.response_time);
        let began = Instant::now();
        let looked = tokio::time::timeout(limit, self.check(member)).await;
        let late = || member.endpoint.error("status", Fault::Timeout(limit));
        let looked = looked.unwrap_or_else(|_| Err(late()));
        let mut health = lock(&member.health);
        health.ahead = match &looked {
            Ok((tip, _)) => Some(tip.time.0.saturating_sub(local().0)),
            Err(error) => match error.fault {
                Fault::Ahead { by } => {
                    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
                    Some(by.saturating_add(correction_ms()))
                }
                _ => None,
            },
        };
        match looked {
            Ok((tip, versions)) => {
                if let Some(old) = &health.fault {
                    tracing::info!(endpoint = %member.endpoint.name, was = %old, "chain node passed its check and is used again");
                }
                health.record_response(began.elapsed(), 0);
                health.record_tip(tip);
                health.versions = Some(versions);
                health.record_success(Instant::now());
            }
            Err(error) => {
                // Logged once per fault.
                if !health.fault.as_ref().is_some_and(|old| old.is_like(&error.fault)) {
                    tracing::warn!(endpoint = %error.endpoint, method = %error.method, fault = %error.fault, "chain node failed its check, the node is not used until it passes a check: repair the node, or remove it from --node");
                }
                health.record_failure(Instant::now(), error.fault, jitter(at));
            }
        }
    }

    async fn check(&self, member: &Member) -> Result<(Checkpoint, Versions), NodeError> {
        let endpoint = &member.endpoint;
        let info = endpoint.sync_info().await?;
        // Checked first, because heights and versions of another chain are meaningless.
        if info.chain_id != self.shared.chain_id {
            let fault = Fault::OtherChain {
                expected: self.shared.chain_id.clone(),
                found: crate::convert::excerpt(&info.chain_id),
            };
            return Err(endpoint.error("status", fault));
        }
        if info.catching_up {
            return Err(endpoint.error("status", Fault::CatchingUp { height: info.height }));
        }
        self.check_tip(endpoint, &info, false).await?;
        // Queried once per failure: an upgrade of a node includes a restart.
        let cached = lock(&member.health).versions.clone();
        let versions = match cached {
            Some(versions) => versions,
            None => endpoint.versions().await?,
        };
        let (height, time) = (info.height, info.time);
        Ok((Checkpoint { height, time }, versions))
    }

    /// Starts a back-off for each endpoint that is more than [`LAG_MAX`] blocks behind the processed block,
    /// or behind the highest block of all usable endpoints.
    ///
    /// If the newest block of an endpoint contradicts the highest block, the endpoint is compared only with
    /// the processed block.
    fn drop_laggards(&self) {
        let members = &self.shared.members;
        let good = members.iter().filter(|m| lock(&m.health).is_usable());
        let best = good.map(|m| lock(&m.health).tip).max_by_key(|tip| tip.height);
        let best = best.unwrap_or_default();
        let processed = self.floor();
        for (at, member) in members.iter().enumerate() {
            let mut health = lock(&member.health);
            let tip = health.tip;
            let is_certain = best.check(Some(tip), best.time).is_ok() && !best.is_contradicted_by(tip);
            let floor = if is_certain {
                processed.max(best.height)
            } else {
                processed
            };
            let height = health.height;
            if health.is_usable() && height.saturating_add(LAG_MAX) < floor {
                // The versions of a lagging node are unchanged.
                let versions = health.versions.clone();
                member
                    .endpoint
                    .counters
                    .count_fault(&Fault::Behind { height, floor });
                health.record_failure(Instant::now(), Fault::Behind { height, floor }, jitter(at));
                health.versions = versions;
            }
        }
        self.review_processed();
    }

    /// Returns the selected endpoint. Replaces an unusable endpoint at once. Replaces a usable endpoint after
    /// another endpoint has been faster for `2 ×` [`EndpointLimits::health_age`](crate::EndpointLimits::health_age).
    pub(super) fn prefer(&self, capability: Capability, ready: &[usize]) -> Option<usize> {
        let latency = |at: usize| {
            let member = self.shared.members.get(at);
            member.and_then(|m| lock(&m.health).latency).unwrap_or_default()
        };
        let fastest = ready.iter().copied().min_by_key(|at| latency(*at))?;
        let mut choice = lock(&self.shared.choice);
        let current = match capability {
            Capability::Queries => choice.queries,
            Capability::Blocks => choice.blocks,
        };
        let Some(current) = current.filter(|at| ready.contains(at)) else {
            let reason = current.map_or("first selection", |_| "the previous endpoint is not usable");
            self.take(&mut choice, capability, fastest, current, reason);
            return Some(fastest);
        };
        // The factor prevents that two nodes of equal speed alternate.
        let is_faster = latency(fastest) * 2 + LATENCY_NOISE < latency(current);
        if !is_faster {
            choice.faster = None;
            return Some(current);
        }
        let now = Instant::now();
        let since = match choice.faster {
            Some((at, since)) if at == fastest => since,
            _ => now,
        };
        if now.duration_since(since) < self.shared.limits.health_age * 2 {
            choice.faster = Some((fastest, since));
            return Some(current);
        }
        choice.faster = None;
        self.take(&mut choice, capability, fastest, Some(current), "faster");
        Some(fastest)
    }

    fn take(
        &self,
        choice: &mut EndpointSelection,
        capability: Capability,
        at: usize,
        before: Option<usize>,
        reason: &str,
    ) {
        match capability {
            Capability::Queries => choice.queries = Some(at),
            Capability::Blocks => choice.blocks = Some(at),
        }
        let name = self.shared.members.get(at).map(|m| Arc::clone(&m.endpoint.name));
        let name = name.unwrap_or_else(|| "".into());
        // The first selection is not a switch.
        if before.is_some() {
            choice.switches += 1;
            choice.reason = Some(format!("{name}: {reason}"));
        }
        tracing::info!(endpoint = %name, ?capability, reason, "chain node selected");
    }
}
