//! Full scan: compares chain, cluster and ledger periodically, after every resync and on request.
//!
//! Events make the engine fast, and full scans correct what events missed. A scan normally finds no
//! difference. Every difference is published. A dry run reports differences without repairing them.

use crate::engine::counts::ScanReason;
use crate::engine::input::{Refusal, RefusalKind, Reply, RequestId};
use crate::engine::order::OrderStage;
use crate::engine::{Call, CallTarget, Engine, Workloads, backoff};
use crate::error::Failure;
use crate::record::{Cover, hide_in_group};
use crate::types::{Event, LeaseId, Mono, OrderId, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two lists of the workloads while a problem in the cluster blocks leases.
const LISTING_INTERVAL: Duration = Duration::from_secs(20);
/// Maximum number of reported findings. Further findings are only counted.
const FINDINGS_MAX: usize = 100;

/// Maximum number of times that a requested scan starts again because of an outdated snapshot.
const REPETITIONS: u32 = 3;

/// A scan in progress: a full scan, or only a list of the workloads.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ScanInProgress {
    /// True if the scan lists only the workloads in the cluster and takes no snapshot of the chain.
    cluster_only: bool,
    dry_run: bool,
    /// Requests that arrived before the scan and receive the result of the scan.
    requests: Vec<RequestId>,
    snapshot: Option<Result<Arc<Snapshot>, Failure>>,
    workloads: Option<Result<Workloads, Failure>>,
    /// Leases that changed after the start of the scan. The snapshot and the listing may be older than these
    /// changes.
    #[serde(default)]
    changed: BTreeSet<LeaseId>,
}

/// Schedule and state of full scans.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Scan {
    next: Option<Mono>,
    #[serde(default)]
    next_reason: ScanReason,
    cluster_wanted: bool,
    /// Reason for the next workload listing. Full scans do not use this reason.
    #[serde(default)]
    listing_reason: ScanReason,
    /// Time of the next workload listing, in addition to full scans.
    list_again: Option<Mono>,
    running: Option<ScanInProgress>,
    attempts: u32,
    requests: Vec<(RequestId, bool)>,
    /// True if a listing was requested and has not started yet.
    needs_listing: bool,
    /// True if the last scan failed because the workloads could not be listed.
    has_listing_failed: bool,
    /// Leases that changed during the last scan. The results of this scan prove nothing about these leases.
    #[serde(default)]
    outdated: BTreeSet<LeaseId>,
    findings: Vec<String>,
}

impl Scan {
    pub(in crate::engine) fn hide(&mut self, cover: &Cover<'_>) {
        let listed = self
            .running
            .as_mut()
            .and_then(|running| running.workloads.as_mut());
        if let Some(Ok(workloads)) = listed {
            for spec in &mut workloads.listing.deployments {
                hide_in_group(&mut spec.group, cover);
            }
        }
    }

    pub(in crate::engine) fn schedule_now(&mut self, reason: ScanReason) {
        // The minimum time is always due.
        self.next = Some(Mono(0));
        self.next_reason = reason;
    }

    /// Schedules a listing of the workloads after a resync.
    pub(in crate::engine) fn after_resync(&mut self) {
        self.cluster_wanted = true;
        self.listing_reason = ScanReason::Resync;
    }

    pub(in crate::engine) fn request_listing(&mut self, reason: ScanReason) {
        self.cluster_wanted = true;
        self.listing_reason = reason;
        self.needs_listing = true;
    }

    /// Schedules a listing of the workloads after a short interval, because of a problem in the cluster.
    pub(in crate::engine) fn list_again(&mut self, now: Mono) {
        self.list_again = Some(now.plus(LISTING_INTERVAL));
    }

    /// Schedules a listing of the workloads in the cluster. The listing starts within a second, and several
    /// calls share one listing.
    pub(in crate::engine) fn list_soon(&mut self, now: Mono) {
        let soon = now.plus(backoff::after(0));
        self.list_again = Some(self.list_again.map_or(soon, |at| at.min(soon)));
    }

    /// Called when the cluster is reachable again. If the last listing failed, schedules a retry within a
    /// second.
    pub(in crate::engine) fn cluster_reachable(&mut self, now: Mono) {
        if self.has_listing_failed {
            self.attempts = 0;
            let soon = now.plus(backoff::after(0));
            self.next = self.next.map(|at| at.min(soon));
        }
    }

    /// Returns false if a requested listing has not started yet.
    pub(in crate::engine) const fn is_listing_complete(&self) -> bool {
        !self.needs_listing
    }

    pub(in crate::engine) fn record_change(&mut self, lease: &LeaseId) {
        if let Some(running) = &mut self.running {
            running.changed.insert(lease.clone());
        }
    }

    /// Returns true if the results of the last scan may be older than the last change of a lease.
    pub(in crate::engine) fn is_outdated(&self, lease: &LeaseId) -> bool {
        self.outdated.contains(lease)
    }

    pub(in crate::engine) fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Returns the time of the next scan or listing.
    pub(in crate::engine) fn deadline(&self) -> Option<Mono> {
        let next = [self.next, self.list_again].into_iter().flatten().min();
        next.filter(|_| self.running.is_none())
    }
}

impl Engine {
    pub(in crate::engine) fn scan_requested(&mut self, id: RequestId, dry_run: bool) {
        self.scan.requests.push((id, dry_run));
    }

    pub(in crate::engine) fn drive_scan(&mut self) {
        if self.scan.running.is_some() || !self.progress.chain_known() || self.role.is_stopping() {
            return;
        }
        let now = self.progress.mono();
        if self.scan.list_again.take_if(|at| *at <= now).is_some() {
            self.scan.cluster_wanted = true;
            self.scan.listing_reason = ScanReason::ClusterProblem;
        }
        let due = self.scan.next.is_some_and(|at| at <= now);
        let is_requested = !self.scan.requests.is_empty();
        let cluster_only = self.scan.cluster_wanted && !is_requested && !due;
        if !due && !is_requested && !cluster_only {
            return;
        }
        let reason = match (due, is_requested) {
            (true, _) => self.scan.next_reason,
            (false, true) => ScanReason::Request,
            (false, false) => self.scan.listing_reason,
        };
        self.counts.scan(!cluster_only, reason);
        // A scan that is due anyway is not a dry run, even if only dry runs were requested.
        let dry_run = is_requested && !due && self.scan.requests.iter().all(|(_, dry)| *dry);
        let requests = if cluster_only {
            Vec::new()
        } else {
            self.scan.requests.drain(..).map(|(id, _)| id).collect()
        };
        self.scan.running = Some(ScanInProgress {
            cluster_only,
            dry_run,
            requests,
            snapshot: None,
            workloads: None,
            changed: BTreeSet::new(),
        });
        // A dry run applies nothing, so a listing is still needed afterwards.
        if !dry_run {
            self.scan.cluster_wanted = false;
            self.scan.needs_listing = false;
            self.scan.next = Some(self.progress.mono().plus(self.config.scan_interval));
            self.scan.next_reason = ScanReason::Interval;
        }
        self.call(CallTarget::Scan, Call::ListWorkloads);
        if !cluster_only {
            self.call(CallTarget::Scan, Call::FetchSnapshot);
        }
    }

    pub(in crate::engine) fn scan_snapshot(&mut self, result: Result<Arc<Snapshot>, Failure>) {
        if let Some(running) = &mut self.scan.running {
            running.snapshot = Some(result);
        }
        self.scan_finish();
    }

    pub(in crate::engine) fn scan_workloads(&mut self, result: Result<Workloads, Failure>) {
        if let Some(running) = &mut self.scan.running {
            running.workloads = Some(result);
        }
        self.scan_finish();
    }

    fn scan_finish(&mut self) {
        let complete = |r: &ScanInProgress| r.workloads.is_some() && (r.cluster_only || r.snapshot.is_some());
        let Some(running) = self.scan.running.take_if(|r| complete(r)) else {
            return;
        };
        let ScanInProgress {
            cluster_only,
            dry_run,
            requests,
            snapshot,
            workloads,
            changed,
        } = running;
        self.scan.outdated = changed;
        self.scan.has_listing_failed = matches!(workloads, Some(Err(_)));
        if cluster_only {
            return match workloads {
                Some(Ok(workloads)) => self.scan_succeeded(None, workloads, false, requests),
                Some(Err(failure)) => self.scan_failed(&failure, requests),
                None => {}
            };
        }
        // A block is often processed while the nodes return the snapshot.
        let is_outdated = matches!(&snapshot, Some(Ok(snapshot)) if self.is_outdated(snapshot));
        if is_outdated && !requests.is_empty() && self.scan.attempts < REPETITIONS {
            self.scan.attempts += 1;
            let again = requests.into_iter().map(|id| (id, dry_run));
            self.scan.requests.extend(again);
            return;
        }
        let usable = snapshot
            .unwrap_or_else(|| Err(unavailable("no snapshot was received".to_owned())))
            .and_then(|snapshot| match self.snapshot_problem(&snapshot, is_outdated) {
                Some(message) => Err(unavailable(message)),
                None => Ok(snapshot),
            });
        match (usable, workloads) {
            (Ok(snapshot), Some(Ok(workloads))) => {
                self.scan_succeeded(Some(&snapshot), workloads, dry_run, requests);
            }
            (Err(failure), workloads) => {
                // The listing is useful without a snapshot.
                if let (Some(Ok(workloads)), false) = (workloads, dry_run) {
                    self.apply_workloads(workloads);
                }
                self.scan_failed(&failure, requests);
            }
            (Ok(_), Some(Err(failure))) => self.scan_failed(&failure, requests),
            (Ok(_), None) => {}
        }
    }

    fn snapshot_problem(&self, snapshot: &Snapshot, is_outdated: bool) -> Option<String> {
        if snapshot.chain_id != self.config.chain_id {
            return Some(format!("the node belongs to chain `{}`", snapshot.chain_id));
        }
        is_outdated.then(|| {
            let last = self.progress.known_height();
            format!(
                "the node is at height {}, behind the known height {last}",
                snapshot.height
            )
        })
    }

    /// Returns true if the snapshot is older than the processed state.
    fn is_outdated(&self, snapshot: &Snapshot) -> bool {
        self.is_past(snapshot.height) || self.progress.is_before_snapshot(snapshot.height, snapshot.time)
    }

    fn scan_succeeded(
        &mut self,
        snapshot: Option<&Arc<Snapshot>>,
        workloads: Workloads,
        dry_run: bool,
        requests: Vec<RequestId>,
    ) {
        self.scan.attempts = 0;
        let mut findings = self.recount(dry_run);
        findings.extend_from_slice(&workloads.listing.remarks);
        // The first listing after a start contains no drift, because nothing is known before.
        if self.progress.cluster_known() {
            // A snapshot ahead of the event stream differs without drift. A requested scan reports the current
            // differences.
            let is_followed = |s: &&Snapshot| !requests.is_empty() || s.height <= self.progress.height();
            let compared = snapshot.map(|s| &**s).filter(is_followed);
            self.compare(compared, &workloads, &mut findings);
        }
        let more = findings.len().saturating_sub(FINDINGS_MAX);
        findings.truncate(FINDINGS_MAX);
        if more > 0 {
            findings.push(format!("and {more} more"));
        }
        // The findings are complete. From here on, the differences are repaired.
        if !dry_run {
            // The chain first, because the workloads are compared with the leases.
            if let Some(snapshot) = snapshot {
                self.apply_snapshot(snapshot);
            }
            self.apply_workloads(workloads);
            // Last, because chain or cluster may have provided the owner.
            for order in self.reservations_without_owner() {
                self.reservations.unreserve(&order);
            }
        }
        for request in requests {
            self.reply(request, Ok(Reply::Scan(findings.clone())));
        }
        self.report_findings(findings);
    }

    /// Compares the reservations with a recount. Returns a message if the recount differs. In this case, also
    /// replaces the reservations, unless `dry_run` is true.
    fn recount(&mut self, dry_run: bool) -> Vec<String> {
        let is_equal = self.reservations.recount_matches();
        self.counts.recount(is_equal, self.progress.block_time());
        if is_equal {
            return Vec::new();
        }
        if !dry_run {
            self.reservations.rebuild();
            self.inventory_updated();
        }
        vec![
            "ledger of reservations differs from a recount of all reservations: replaced by the recount"
                .to_owned(),
        ]
    }

    fn scan_failed(&mut self, failure: &Failure, requests: Vec<RequestId>) {
        self.scan.next = Some(self.progress.mono().plus(backoff::after(self.scan.attempts)));
        self.scan.next_reason = ScanReason::Retry;
        self.scan.attempts = self.scan.attempts.saturating_add(1);
        let message = format!("scan failed: {failure}; retry");
        self.fail_scans(requests, RefusalKind::Unavailable, &message);
    }

    pub(in crate::engine) fn refuse_scans(&mut self) {
        let mut requests: Vec<RequestId> = self.scan.requests.drain(..).map(|(id, _)| id).collect();
        if let Some(running) = &mut self.scan.running {
            requests.append(&mut running.requests);
        }
        self.fail_scans(requests, RefusalKind::Stopping, "the provider is stopping");
    }

    fn fail_scans(&mut self, requests: Vec<RequestId>, kind: RefusalKind, message: &str) {
        for request in requests {
            self.reply(request, Err(Refusal::new(kind, message)));
        }
    }

    pub(in crate::engine) fn report_findings(&mut self, findings: Vec<String>) {
        // All findings are stored, but only new ones are published.
        let published = std::mem::replace(&mut self.scan.findings, findings.clone());
        let is_new = |finding: &String| !published.contains(finding);
        let findings: Vec<String> = findings.into_iter().filter(is_new).collect();
        if !findings.is_empty() {
            self.publish(Event::DriftFound { findings });
        }
    }

    /// Compares the engine, the chain snapshot and the workloads in the cluster. Appends each difference to
    /// `findings` as one line. Repairs nothing.
    fn compare(&self, snapshot: Option<&Snapshot>, workloads: &Workloads, findings: &mut Vec<String>) {
        if let Some(snapshot) = snapshot {
            self.compare_leases(snapshot, findings);
            self.compare_orders(snapshot, findings);
        }
        let listing = &workloads.listing;
        let there: BTreeSet<&LeaseId> = listing.deployments.iter().map(|d| &d.lease).collect();
        let is_comparable = |l: &&&LeaseId| l.provider == self.config.provider && !self.scan.is_outdated(l);
        for lease in there.iter().filter(is_comparable) {
            if !self.leases.has_workload(lease) {
                findings.push(format!("workload {lease} has no known lease: querying the lease"));
            }
        }
        for thing in &listing.unusable {
            let lease = thing
                .lease
                .as_ref()
                .filter(|l| l.provider == self.config.provider);
            if let Some(lease) = lease.filter(|l| !self.has_lease(l)) {
                findings.push(format!(
                    "{}; no active lease {lease} is known: not changed",
                    thing.problem
                ));
            }
        }
        for lease in self.missing_workloads(&there, &listing.incomplete) {
            findings.push(format!(
                "workload of lease {lease} is missing or incomplete in the cluster: deploying again"
            ));
        }
        for (lease, difference) in self.misrouted_workloads(workloads) {
            findings.push(format!(
                "{difference} of lease {lease} is not declared as deployed: deploying again"
            ));
        }
        let breaker = self.leases.breaker();
        for (lease, since, why) in breaker.held_closes(self.progress.mono()) {
            // The warm-up period ends without an operator.
            if !breaker.awaits_release(&lease) && breaker.records_missing().is_none() {
                continue;
            }
            let problem = if self.has_ended(&lease) {
                "lease is closed but its workload is not removed"
            } else {
                "close of the lease is held"
            };
            let since = since.0;
            findings.push(format!("{lease}: {problem} since block time {since} ms: {why}"));
        }
        for order in self.reservations_without_owner() {
            findings.push(format!("reservation {order} has no owner: releasing"));
        }
    }

    /// Returns the reservations that belong to no order and to no workload.
    pub(in crate::engine) fn reservations_without_owner(&self) -> Vec<OrderId> {
        let leased: BTreeSet<&OrderId> = self.leases.orders().collect();
        let owned = |order: &OrderId| {
            leased.contains(order)
                || self
                    .market
                    .order(order)
                    .is_some_and(crate::engine::order::Order::holds_reservation)
        };
        self.reservations
            .orders()
            .filter(|order| !owned(order))
            .cloned()
            .collect()
    }

    fn compare_leases(&self, snapshot: &Snapshot, findings: &mut Vec<String>) {
        let live: BTreeSet<&LeaseId> = snapshot
            .leases
            .iter()
            .filter(|r| r.lease.state.is_live())
            .map(|r| &r.lease.id)
            .collect();
        for lease in live.iter().filter(|l| l.provider == self.config.provider) {
            if !self.leases.has_workload(lease) {
                findings.push(format!(
                    "lease {lease} is active on the chain but was unknown: adopting"
                ));
            }
        }
        let is_missing = |l: &&LeaseId| !live.contains(l) && !self.scan.is_outdated(l);
        for lease in self.live_leases().iter().filter(is_missing) {
            findings.push(format!(
                "lease {lease} is not in the chain's list of active leases: querying its record"
            ));
        }
    }

    fn compare_orders(&self, snapshot: &Snapshot, findings: &mut Vec<String>) {
        let bid_on: BTreeSet<&OrderId> = snapshot.bids.iter().map(|b| &b.id.order).collect();
        for order in &snapshot.orders {
            let id = &order.id;
            let machine = self.market.order(id);
            let is_processed =
                machine.is_some() || self.market.is_finished(id) || self.market.is_retryable(id);
            if !is_processed {
                findings.push(format!("order {id} is open but was unknown: processing"));
            }
            let open = machine.is_some_and(|m| matches!(m.phase(), OrderStage::Open { .. }));
            if open && !bid_on.contains(id) {
                findings.push(format!("bid on order {id} is missing on the chain: querying"));
            }
        }
        let open: BTreeSet<&OrderId> = snapshot.orders.iter().map(|o| &o.id).collect();
        for (id, machine) in self.market.orders() {
            if matches!(machine.phase(), OrderStage::Open { .. }) && !open.contains(id) {
                findings.push(format!(
                    "order {id} is closed but the bid was considered open: querying the bid"
                ));
            }
        }
    }
}

fn unavailable(message: String) -> Failure {
    Failure::transient(crate::error::ErrorKind::Unavailable, message)
}
