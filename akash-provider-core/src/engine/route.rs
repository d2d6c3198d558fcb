//! Routes each input to its machine with a map lookup.

use super::counts::ScanReason;
use super::input::{Completion, Refusal, RefusalKind, Reply, Request, RequestId};
use super::progress::BlockPosition;
use super::table::Lane;
use super::workload::ReportSource;
use super::{CallTarget, EffectId, Engine, deployment, escrow, order, workload};
use crate::types::{ChainEvent, DecCoin, LeaseId};
use std::sync::Arc;

impl Engine {
    pub(super) fn chain_event(&mut self, event: ChainEvent) {
        match event {
            ChainEvent::Resync(_) => self.market.clear_bid_counts(),
            ChainEvent::Block { .. } => self.progress.set_within_block(false),
            ChainEvent::DeploymentCreated { .. }
            | ChainEvent::DeploymentUpdated { .. }
            | ChainEvent::DeploymentClosed { .. }
            | ChainEvent::GroupStarted { .. }
            | ChainEvent::GroupPaused { .. }
            | ChainEvent::GroupClosed { .. }
            | ChainEvent::OrderCreated { .. }
            | ChainEvent::OrderClosed { .. }
            | ChainEvent::BidCreated { .. }
            | ChainEvent::BidClosed { .. }
            | ChainEvent::LeaseCreated { .. }
            | ChainEvent::LeaseClosed { .. }
            | ChainEvent::LeaseReclaimStarted { .. }
            | ChainEvent::ProviderUpdated { .. }
            | ChainEvent::AuditChanged { .. } => self.progress.set_within_block(true),
        }
        // Updated before the event is handled, because machines read this value.
        match event {
            ChainEvent::Resync(snapshot) => self.resync(&snapshot),
            // Before the first snapshot, events are ignored. The snapshot will contain their results.
            _ if !self.progress.chain_known() => {}
            ChainEvent::Block { height, time } => self.block(height, time),
            ChainEvent::OrderCreated { id } => self.order_created(&id),
            ChainEvent::OrderClosed { id } => self.order_closed(&id),
            // A replayed event may concern an earlier order of the group, not the current one.
            ChainEvent::GroupClosed { .. } | ChainEvent::GroupPaused { .. }
                if self.progress.is_replayed() => {}
            ChainEvent::GroupClosed { id } | ChainEvent::GroupPaused { id } => self.group_stopped(&id),
            ChainEvent::BidCreated { id, .. } => self.bid_created(&id),
            ChainEvent::BidClosed { id } => {
                if id.provider == self.config.provider {
                    self.drive_order(&id.order, order::OrderInput::BidClosed);
                }
            }
            ChainEvent::LeaseCreated { id, price } => self.lease_created(&id, &price),
            ChainEvent::LeaseClosed { id, reason } => {
                self.report_lease_closed(&id, ReportSource::Chain, Some(reason))
            }
            ChainEvent::LeaseReclaimStarted { id, deadline, .. } => {
                self.drive_workload(&id, workload::WorkloadInput::Reclaiming(deadline));
            }
            ChainEvent::DeploymentClosed { id } => {
                self.drive_deployment(&id, deployment::DeploymentInput::Closed)
            }
            ChainEvent::ProviderUpdated { owner } => self.provider_updated(&owner),
            ChainEvent::AuditChanged { auditor, owner } => self.audit_changed(&auditor, &owner),
            // These events are ignored: the engine fetches the deployment when it checks a manifest.
            ChainEvent::DeploymentCreated { .. }
            | ChainEvent::DeploymentUpdated { .. }
            | ChainEvent::GroupStarted { .. } => {}
        }
    }

    fn lease_created(&mut self, id: &LeaseId, price: &DecCoin) {
        // The group's order is closed for all providers.
        self.market.remove_bid_count(&id.order);
        if id.provider == self.config.provider {
            // The order first, because it determines the origin of the lease and passes its reservation on.
            let origin = self.order_won(&id.order);
            self.lease_won(id, price, origin);
        } else {
            self.order_lost(&id.order);
        }
    }

    fn block(&mut self, height: u64, time: crate::types::BlockTime) {
        let last = self.progress.height();
        match self.progress.block(height, time) {
            BlockPosition::AlreadyProcessed => {
                self.counts.repeated_blocks += 1;
                return;
            }
            BlockPosition::Next => {}
            BlockPosition::AfterGap => {
                // The event source must not leave gaps. After a gap, a full scan repairs the state.
                self.counts.gap(last, height);
                self.scan.schedule_now(ScanReason::Gap);
                self.market.clear_bid_counts();
            }
        }
        self.start_manifest_clocks();
        self.market.block(self.progress.mono());
    }

    pub(super) fn route_completion(&mut self, id: EffectId, target: CallTarget, completion: Completion) {
        if let Completion::Tx(result) = &completion {
            self.transaction_ended(result);
        }
        match (target, completion) {
            (CallTarget::Order(order), Completion::BidCount(result)) => self.bids_counted(&order, id, result),
            (CallTarget::Order(order), Completion::Bid(result)) => self.bid_read(&order, id, result),
            (CallTarget::Order(order), completion) => match order_input(completion) {
                Some(input) => self.order_completed(&order, id, input),
                None => self.outbox.count_unexpected(),
            },
            (CallTarget::Deployment(deployment), Completion::Deployment(result)) => {
                self.deployment_completed(&deployment, id, deployment::DeploymentInput::Fetched(result));
            }
            (CallTarget::Deployment(deployment), Completion::Cluster(result)) => {
                self.deployment_completed(&deployment, id, deployment::DeploymentInput::Recorded(result));
            }
            (CallTarget::WorkloadCluster(lease), Completion::Cluster(result)) => {
                self.workload_completed(&lease, id, Lane::Main, workload::WorkloadInput::Deployed(result));
            }
            (CallTarget::WorkloadCluster(lease), Completion::Teardown(result)) => {
                self.workload_completed(&lease, id, Lane::Main, workload::WorkloadInput::TornDown(result));
            }
            (CallTarget::WorkloadChain(lease), Completion::Lease(result)) => {
                self.workload_completed(
                    &lease,
                    id,
                    Lane::Chain,
                    workload::WorkloadInput::LeaseFetched(Box::new(result)),
                );
            }
            (CallTarget::WorkloadChain(lease), Completion::Tx(result)) => {
                self.workload_completed(&lease, id, Lane::Chain, workload::WorkloadInput::Tx(result));
            }
            (CallTarget::Escrow(deployment), Completion::Deployment(result)) => {
                self.escrow_completed(&deployment, id, escrow::EscrowInput::Fetched(result));
            }
            (CallTarget::Escrow(deployment), Completion::Tx(result)) => {
                self.escrow_completed(&deployment, id, escrow::EscrowInput::Tx(result));
            }
            (CallTarget::Provider, Completion::Provider(result)) => self.provider_read(result),
            (CallTarget::Audit(auditor), Completion::Audit(result)) => self.audit_read(auditor, result),
            (CallTarget::Wallet, Completion::Balances(result)) => self.wallet_read(result),
            (CallTarget::Scan, Completion::Snapshot(result)) => self.scan_snapshot(result),
            (CallTarget::Scan, Completion::Workloads(result)) => self.scan_workloads(result),
            (
                CallTarget::Deployment(_)
                | CallTarget::WorkloadCluster(_)
                | CallTarget::WorkloadChain(_)
                | CallTarget::Escrow(_)
                | CallTarget::Provider
                | CallTarget::Audit(_)
                | CallTarget::Wallet
                | CallTarget::Scan,
                _,
            ) => self.outbox.count_unexpected(),
        }
    }

    pub(super) fn requested(&mut self, id: RequestId, request: Request) {
        if self.role.is_stopping() {
            let message = "the provider is stopping; retry in a minute".to_owned();
            return self.reply(id, Err(Refusal::new(RefusalKind::Stopping, message)));
        }
        if let Some(subject) = self.unknown_for(&request) {
            let message = format!("{subject} is not known yet; retry in a minute");
            let kind = RefusalKind::Unavailable;
            return self.reply(id, Err(Refusal::new(kind, message)));
        }
        match request {
            Request::SubmitManifest {
                deployment,
                manifest,
                hashes,
            } => {
                // A manifest may arrive before the event of its lease.
                self.ensure_deployment(&deployment);
                let submission = deployment::Submission {
                    request: Some(id),
                    manifest,
                    hashes,
                };
                self.drive_deployment(&deployment, deployment::DeploymentInput::Submit(submission));
            }
            Request::Scan { dry_run } => self.scan_requested(id, dry_run),
            Request::TransferHostnames { .. }
            | Request::EndLease { .. }
            | Request::ReleaseBreaker
            | Request::ReleaseBreakerFor { .. }
                if self.role.is_standby() =>
            {
                let message = "this instance is a standby; send the request to the leader".to_owned();
                self.reply(id, Err(Refusal::new(RefusalKind::NotLeader, message)));
            }
            Request::TransferHostnames { lease, hostnames } => {
                self.transfer_hostnames(id, &lease, &hostnames)
            }
            Request::EndLease { lease, reason } => {
                let refusal = self.end_refusal(&lease, reason);
                if refusal.is_none() {
                    self.drive_workload(
                        &lease,
                        workload::WorkloadInput::End {
                            reason,
                            granted: true,
                        },
                    );
                }
                self.reply(id, refusal.map_or(Ok(Reply::Done), Err));
            }
            Request::ReleaseBreaker => {
                self.release_breaker();
                self.reply(id, Ok(Reply::Done));
            }
            Request::ReleaseBreakerFor { owner } => {
                let response = self.release_breaker_for(&owner);
                self.reply(id, response);
            }
        }
    }

    /// Returns the name of the state that the engine needs for a request but does not have yet.
    const fn unknown_for(&self, request: &Request) -> Option<&'static str> {
        match request {
            // The operator can release the breaker at any time.
            Request::ReleaseBreaker | Request::ReleaseBreakerFor { .. } => None,
            _ if !self.progress.chain_known() => Some("the state of the chain"),
            Request::SubmitManifest { .. } | Request::TransferHostnames { .. }
                if !self.progress.cluster_known() =>
            {
                Some("the state of the cluster")
            }
            Request::SubmitManifest { .. }
            | Request::TransferHostnames { .. }
            | Request::EndLease { .. }
            | Request::Scan { .. } => None,
        }
    }

    fn end_refusal(&self, lease: &LeaseId, reason: crate::types::CloseReason) -> Option<Refusal> {
        if !reason.is_providers() {
            let message = format!(
                "cannot close lease {lease}: reason {} is not a provider's reason (10000 to 19999)",
                reason.code()
            );
            return Some(Refusal::new(RefusalKind::Rejected, message));
        }
        if !self.has_lease(lease) {
            let message = format!("this provider has no active lease {lease}");
            return Some(Refusal::new(RefusalKind::NoLease, message));
        }
        None
    }
}

fn order_input(completion: Completion) -> Option<order::OrderInput> {
    match completion {
        Completion::Order(result) => Some(order::OrderInput::Fetched(result.map(|o| o.map(Arc::new)))),
        Completion::Price(result) => Some(order::OrderInput::Priced(result)),
        Completion::Tx(result) => Some(order::OrderInput::Tx(result)),
        Completion::Bid(_)
        | Completion::BidCount(_)
        | Completion::Provider(_)
        | Completion::Balances(_)
        | Completion::Audit(_)
        | Completion::Lease(_)
        | Completion::Deployment(_)
        | Completion::Snapshot(_)
        | Completion::Cluster(_)
        | Completion::Teardown(_)
        | Completion::Workloads(_) => None,
    }
}
