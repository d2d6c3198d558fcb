//! The full scan: chain, cluster and ledger compared, by the clock, after every resync and on demand.
//!
//! Events only make the engine faster; this is what makes it right. A scan should find nothing, and says so
//! loudly when it does. A dry run only reports.

use crate::engine::input::{Refusal, RefusalKind, Reply, RequestId};
use crate::engine::order::Phase;
use crate::engine::{Call, Engine, Target, Workloads, backoff};
use crate::error::Failure;
use crate::record::{Cover, hide_in_group};
use crate::types::{Event, LeaseId, Mono, OrderId, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How soon the cluster is listed again while something in it keeps leases from going on.
const LOOK_AGAIN: Duration = Duration::from_secs(20);
/// Findings told at most; the rest is counted.
const FINDINGS_MAX: usize = 100;

/// A scan under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Running {
    /// Only the cluster is asked: the chain's present was just given.
    cluster_only: bool,
    dry_run: bool,
    /// Who gets its answer: those who had asked when it began.
    requests: Vec<RequestId>,
    snapshot: Option<Result<Arc<Snapshot>, Failure>>,
    workloads: Option<Result<Workloads, Failure>>,
    /// Leases with a write to the cluster that ended after the list was requested: the list may be older.
    #[serde(default)]
    written: BTreeSet<LeaseId>,
}

/// When to scan, what is under way, what was found last.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Scan {
    next: Option<Mono>,
    cluster_wanted: bool,
    /// When only the cluster is looked at again.
    look_again: Option<Mono>,
    running: Option<Running>,
    attempts: u32,
    requests: Vec<(RequestId, bool)>,
    /// A write to the cluster failed, and no list that was asked for since is here.
    doubted: bool,
    /// The last scan failed for want of the cluster's half.
    lacks_list: bool,
    /// Leases for which the newest list is not evidence.
    #[serde(default)]
    outdated: BTreeSet<LeaseId>,
    findings: Vec<String>,
}

impl Scan {
    /// Covers the secrets of manifests.
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

    /// Something makes a scan worth while at once.
    pub(in crate::engine) fn soon(&mut self) {
        // Before any moment there is, so it is due at once.
        self.next = Some(Mono(0));
    }

    /// The chain's present was given; the cluster's is asked for.
    pub(in crate::engine) fn after_resync(&mut self) {
        self.cluster_wanted = true;
    }

    /// Nobody knows what a failed write has left in the cluster: it is asked.
    pub(in crate::engine) fn doubt_cluster(&mut self) {
        self.cluster_wanted = true;
        self.doubted = true;
    }

    /// Something in the cluster wants mending: it is looked at again soon, and not when the next scan is due.
    pub(in crate::engine) fn look_again(&mut self, now: Mono) {
        self.look_again = Some(now.plus(LOOK_AGAIN));
    }

    /// Something that was deployed is not there: the cluster is looked at, once for all that goes at the same time.
    pub(in crate::engine) fn look_soon(&mut self, now: Mono) {
        let soon = now.plus(backoff::after(0));
        self.look_again = Some(self.look_again.map_or(soon, |at| at.min(soon)));
    }

    /// The cluster shows that it answers: a list that it owes is not waited for any longer, but asked for no more
    /// than once a second, however often it shows that.
    pub(in crate::engine) fn cluster_answers(&mut self, now: Mono) {
        if self.lacks_list {
            self.attempts = 0;
            let soon = now.plus(backoff::after(0));
            self.next = self.next.map(|at| at.min(soon));
        }
    }

    /// True when the list at hand shows what every write that ended has left.
    pub(in crate::engine) const fn shows_all(&self) -> bool {
        !self.doubted
    }

    /// A write to the cluster for a lease has ended.
    pub(in crate::engine) fn wrote(&mut self, lease: &LeaseId) {
        if let Some(running) = &mut self.running {
            running.written.insert(lease.clone());
        }
    }

    /// Returns true if the newest list may be older than the last write for a lease.
    pub(in crate::engine) fn is_outdated(&self, lease: &LeaseId) -> bool {
        self.outdated.contains(lease)
    }

    /// What the last one found.
    pub(in crate::engine) fn findings(&self) -> &[String] {
        &self.findings
    }

    /// When the next one is due.
    pub(in crate::engine) fn deadline(&self) -> Option<Mono> {
        let next = [self.next, self.look_again].into_iter().flatten().min();
        next.filter(|_| self.running.is_none())
    }
}

impl Engine {
    pub(in crate::engine) fn scan_requested(&mut self, id: RequestId, dry_run: bool) {
        self.scan.requests.push((id, dry_run));
    }

    /// Starts a scan that is due.
    pub(in crate::engine) fn drive_scan(&mut self) {
        if self.scan.running.is_some() || !self.progress.chain_known() || self.role.is_stopping() {
            return;
        }
        let now = self.progress.mono();
        if self.scan.look_again.take_if(|at| *at <= now).is_some() {
            self.scan.cluster_wanted = true;
        }
        let due = self.scan.next.is_some_and(|at| at <= now);
        let asked = !self.scan.requests.is_empty();
        let cluster_only = self.scan.cluster_wanted && !asked && !due;
        if !due && !asked && !cluster_only {
            return;
        }
        // One that is due anyway is made in full, though all that was asked for is a look.
        let dry_run = asked && !due && self.scan.requests.iter().all(|(_, dry)| *dry);
        let requests = if cluster_only {
            Vec::new()
        } else {
            self.scan.requests.drain(..).map(|(id, _)| id).collect()
        };
        self.scan.running = Some(Running {
            cluster_only,
            dry_run,
            requests,
            snapshot: None,
            workloads: None,
            written: BTreeSet::new(),
        });
        // A dry run applies nothing, so it settles no doubt.
        if !dry_run {
            self.scan.cluster_wanted = false;
            self.scan.doubted = false;
            self.scan.next = Some(self.progress.mono().plus(self.config.scan_interval));
        }
        self.call(Target::Scan, Call::ListWorkloads);
        if !cluster_only {
            self.call(Target::Scan, Call::FetchSnapshot);
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
        let complete = |r: &Running| r.workloads.is_some() && (r.cluster_only || r.snapshot.is_some());
        let Some(running) = self.scan.running.take_if(|r| complete(r)) else {
            return;
        };
        let Running {
            cluster_only,
            dry_run,
            requests,
            snapshot,
            workloads,
            written,
        } = running;
        self.scan.outdated = written;
        self.scan.lacks_list = matches!(workloads, Some(Err(_)));
        if cluster_only {
            return match workloads {
                Some(Ok(workloads)) => self.scan_succeeded(None, workloads, false, requests),
                Some(Err(failure)) => self.scan_failed(&failure, requests),
                None => {}
            };
        }
        let usable = snapshot
            .unwrap_or_else(|| Err(lagging("nobody answered".to_owned())))
            .and_then(|snapshot| match self.snapshot_problem(&snapshot) {
                Some(message) => Err(lagging(message)),
                None => Ok(snapshot),
            });
        match (usable, workloads) {
            (Ok(snapshot), Some(Ok(workloads))) => {
                self.scan_succeeded(Some(&snapshot), workloads, dry_run, requests);
            }
            (Err(failure), workloads) => {
                // The cluster's half is worth having by itself.
                if let (Some(Ok(workloads)), false) = (workloads, dry_run) {
                    self.apply_workloads(workloads);
                }
                self.scan_failed(&failure, requests);
            }
            (Ok(_), Some(Err(failure))) => self.scan_failed(&failure, requests),
            (Ok(_), None) => {}
        }
    }

    fn snapshot_problem(&self, snapshot: &Snapshot) -> Option<String> {
        if snapshot.chain_id != self.config.chain_id {
            return Some(format!("the node belongs to chain `{}`", snapshot.chain_id));
        }
        let past =
            self.is_past(snapshot.height) || self.progress.is_before_snapshot(snapshot.height, snapshot.time);
        past.then(|| {
            let known = self.progress.known_height();
            format!("the node is at height {}, {known} is known", snapshot.height)
        })
    }

    fn scan_succeeded(
        &mut self,
        snapshot: Option<&Arc<Snapshot>>,
        workloads: Workloads,
        dry_run: bool,
        requests: Vec<RequestId>,
    ) {
        self.scan.attempts = 0;
        let mut findings = workloads.listing.remarks.clone();
        // That there is something is no drift on the very first look at the cluster.
        if self.progress.cluster_known() {
            // Events explain a snapshot that is ahead of them. A requested scan reports what differs now.
            let is_followed = |s: &&Snapshot| !requests.is_empty() || s.height <= self.progress.height();
            let compared = snapshot.map(|s| &**s).filter(is_followed);
            self.compare(compared, &workloads, &mut findings);
        }
        let more = findings.len().saturating_sub(FINDINGS_MAX);
        findings.truncate(FINDINGS_MAX);
        if more > 0 {
            findings.push(format!("and {more} more"));
        }
        // The findings are complete: from here on the differences are mended.
        if !dry_run {
            // The chain first, because what runs is judged by the leases there are.
            if let Some(snapshot) = snapshot {
                self.apply_snapshot(snapshot);
            }
            self.apply_workloads(workloads);
            // Last, because either half may have brought the owner.
            for order in self.ownerless_reservations() {
                self.reservations.unreserve(&order);
            }
        }
        for request in requests {
            self.reply(request, Ok(Reply::Scan(findings.clone())));
        }
        self.report_findings(findings);
    }

    fn scan_failed(&mut self, failure: &Failure, requests: Vec<RequestId>) {
        self.scan.next = Some(self.progress.mono().plus(backoff::after(self.scan.attempts)));
        self.scan.attempts = self.scan.attempts.saturating_add(1);
        let message = format!("the scan could not be made: {failure}; ask again");
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
            self.reply(
                request,
                Err(Refusal {
                    kind,
                    message: message.to_owned(),
                }),
            );
        }
    }

    pub(in crate::engine) fn report_findings(&mut self, findings: Vec<String>) {
        // All are remembered and only new ones told: a difference that stays is no news.
        let told = std::mem::replace(&mut self.scan.findings, findings.clone());
        let is_new = |finding: &String| !told.contains(finding);
        let findings: Vec<String> = findings.into_iter().filter(is_new).collect();
        if !findings.is_empty() {
            self.publish(Event::DriftFound { findings });
        }
    }

    /// Differences, one line each; changes nothing.
    fn compare(&self, snapshot: Option<&Snapshot>, workloads: &Workloads, findings: &mut Vec<String>) {
        if let Some(snapshot) = snapshot {
            self.compare_leases(snapshot, findings);
            self.compare_orders(snapshot, findings);
        }
        let listing = &workloads.listing;
        let there: BTreeSet<&LeaseId> = listing.deployments.iter().map(|d| &d.lease).collect();
        for lease in there.iter().filter(|l| l.provider == self.config.provider) {
            if !self.leases.has_workload(lease) {
                findings.push(format!(
                    "workload {lease} runs without a known lease: its lease is looked at"
                ));
            }
        }
        for thing in &listing.unusable {
            let lease = thing
                .lease
                .as_ref()
                .filter(|l| l.provider == self.config.provider);
            if let Some(lease) = lease.filter(|l| !self.has_lease(l)) {
                findings.push(format!(
                    "{}; no live lease {lease} is known: it is left alone",
                    thing.problem
                ));
            }
        }
        for lease in self.lost_workloads(&there, &listing.incomplete) {
            findings.push(format!(
                "lease {lease} is deployed but not in the cluster, or not whole there: it is deployed again"
            ));
        }
        for (lease, what) in self.misled(workloads) {
            findings.push(format!(
                "{what} is not declared as lease {lease} was deployed: it is deployed again"
            ));
        }
        let breaker = self.leases.breaker();
        for (lease, since, why) in breaker.held(self.progress.mono()) {
            // The first minutes pass by themselves.
            if !breaker.awaits_release(&lease) && breaker.records_missing().is_none() {
                continue;
            }
            let what = if self.has_ended(&lease) {
                "lease is over and its workload is still there"
            } else {
                "lease is to be closed and stays open"
            };
            let since = since.0;
            findings.push(format!("{lease}: {what} since block time {since} ms: {why}"));
        }
        for order in self.ownerless_reservations() {
            findings.push(format!("reservation {order} has no owner: it is released"));
        }
    }

    /// Reservations that neither an order nor a workload accounts for.
    pub(in crate::engine) fn ownerless_reservations(&self) -> Vec<OrderId> {
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
                    "lease {lease} is live on the chain and was not known: it is taken over"
                ));
            }
        }
        for lease in self.live_leases().iter().filter(|l| !live.contains(l)) {
            findings.push(format!(
                "lease {lease} is not among the live ones on the chain: its record is looked at"
            ));
        }
    }

    fn compare_orders(&self, snapshot: &Snapshot, findings: &mut Vec<String>) {
        let bid_on: BTreeSet<&OrderId> = snapshot.bids.iter().map(|b| &b.id.order).collect();
        for order in &snapshot.orders {
            let id = &order.id;
            let machine = self.market.order(id);
            let known = machine.is_some() || self.market.is_ended(id) || self.market.may_pass(id);
            if !known {
                findings.push(format!("order {id} is open and was not known: it is looked at"));
            }
            let open = machine.is_some_and(|m| matches!(m.phase(), Phase::Open { .. }));
            if open && !bid_on.contains(id) {
                findings.push(format!("our bid on {id} is not on the chain: it is looked at"));
            }
        }
        let open: BTreeSet<&OrderId> = snapshot.orders.iter().map(|o| &o.id).collect();
        for (id, machine) in self.market.orders() {
            if matches!(machine.phase(), Phase::Open { .. }) && !open.contains(id) {
                findings.push(format!(
                    "order {id} is over and our bid was thought open: it is looked at"
                ));
            }
        }
    }
}

fn lagging(message: String) -> Failure {
    Failure {
        kind: crate::error::ErrorKind::Unavailable,
        transient: true,
        message,
    }
}
