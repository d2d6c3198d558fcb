//! Readiness: the conditions that a provider waits for before it bids, and whether the instance leads or stands by.

use super::Recordings;
use super::breaker::BreakerFile;
use super::recordings::audit_note;
use super::summary;
use crate::args::{PricingArgs, RunArgs};
use crate::audit::{Audit, AuditHealth};
use crate::flight;
use crate::history::{History, HistoryHealth, INTERRUPTION_HELP};
use crate::printer::Printer;
use crate::supervise::{self, Pulse};
use crate::writers::Writers;
use akash_provider_chain::{AkashClient, BlockSource, ClientStatus};
use akash_provider_cli::plain;
use akash_provider_core::RestartState;
use akash_provider_core::engine::{Lifecycle, Status};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_k8s::cluster::LeadershipGate;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Interval at which the conditions for bids are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of the printed summaries.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum time between two heartbeats of the readiness checks. Each check waits for a response of the
/// provider.
const LOOP_LIMIT: Duration = Duration::from_secs(180);
/// Maximum time between two responses of the provider.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);
/// Minimum duration of an outage of the chain connection. Shorter interruptions do not count as outages.
const OUTAGE_MIN: Duration = Duration::from_secs(2);
/// Maximum number of failed chain nodes in a message.
const REASONS_MAX: usize = 4;

/// Condition that delays bids, such as the gateway's start.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitCondition {
    awaited: Arc<Mutex<Option<String>>>,
}

/// Conditions for bids, and the gates that permit writes.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) cluster: WaitCondition,
    pub(super) gateway: WaitCondition,
    pub(super) leading: LeadershipGate,
    pub(super) writers: Writers,
    /// True if an election decides the role of this instance.
    is_elected: bool,
}

impl Conditions {
    /// Creates the conditions. `elected` is the election gate; `None` without an election.
    pub(super) fn new(elected: Option<LeadershipGate>, writers: Writers) -> Self {
        Self {
            writers,
            is_elected: elected.is_some(),
            cluster: WaitCondition::default(),
            gateway: WaitCondition::default(),
            // The gate is closed until the provider leads.
            leading: elected.unwrap_or_else(|| LeadershipGate::new(false)),
        }
    }
}

impl WaitCondition {
    fn get(&self) -> Option<String> {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        awaited.clone()
    }

    pub(super) fn set(&self, awaited: Option<String>) {
        *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = awaited;
    }
}

/// Task that checks the conditions for bids and reports changes.
#[derive(Debug)]
pub(super) struct ReadinessWatch {
    printer: Arc<Printer>,
    chain: AkashClient,
    breaker: BreakerFile,
    cluster: WaitCondition,
    gateway: WaitCondition,
    leading: LeadershipGate,
    is_elected: bool,
    pricing: PricingArgs,
    /// Cluster components that must run in other processes, one per line. Printed together with the unmet
    /// conditions.
    notes: Vec<String>,
    reported: Mutex<Option<Vec<String>>>,
    /// Status of the flight recorder.
    recording: Option<flight::FlightHealth>,
    /// Last reported failure of the flight recorder.
    reported_recording: Mutex<Option<String>>,
    history: Option<History>,
    /// Last reported failure of the order history.
    reported_history: Mutex<Option<String>>,
    /// Audit log, if enabled.
    audit: Option<Audit>,
    /// Last reported failure of the audit log.
    reported_audit: Mutex<Option<String>>,
}

impl ReadinessWatch {
    pub(super) fn new(
        printer: &Arc<Printer>,
        chain: &AkashClient,
        breaker: &BreakerFile,
        args: &RunArgs,
        parts: &Conditions,
        recordings: &Recordings,
    ) -> Self {
        Self {
            printer: Arc::clone(printer),
            chain: chain.clone(),
            breaker: breaker.clone(),
            pricing: args.pricing.clone(),
            cluster: parts.cluster.clone(),
            gateway: parts.gateway.clone(),
            leading: parts.leading.clone(),
            is_elected: parts.is_elected,
            notes: args.left_to_others(),
            reported: Mutex::default(),
            recording: recordings.flight.as_ref().map(flight::Finish::health),
            reported_recording: Mutex::default(),
            history: recordings.history.clone(),
            reported_history: Mutex::default(),
            audit: recordings.audit.clone(),
            reported_audit: Mutex::default(),
        }
    }

    /// Checks the conditions until `until` is cancelled or the provider stops. Then closes the gate for
    /// writes, if the provider has no leader election.
    pub(super) async fn follow(
        &self,
        handle: &ProviderHandle,
        until: &CancellationToken,
        pulse: &Pulse,
        provider: &Pulse,
    ) {
        self.check_until(handle, until, (pulse, provider)).await;
        // The provider is not queried from here on.
        provider.rest();
        pulse.rest();
        // In every case: without updates of the role, a cluster that still considers itself leader would act without a
        // command.
        if !self.is_elected {
            self.leading.set(false);
        }
    }

    async fn check_until(
        &self,
        handle: &ProviderHandle,
        until: &CancellationToken,
        (pulse, provider): (&Pulse, &Pulse),
    ) {
        let mut summarized = Instant::now();
        while until
            .run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL))
            .await
            .is_some()
        {
            pulse.beat(LOOP_LIMIT);
            let response = handle.try_status().await;
            if response.is_some() {
                provider.beat(RESPONSE_LIMIT);
            }
            let status = match response {
                Some(status) => status,
                None => handle.status().await,
            };
            if status.lifecycle >= Lifecycle::Shutdown {
                return;
            }
            if !self.is_elected {
                self.leading.set(status.leader);
            }
            let shut = RestartState::from_status(&status);
            // A breaker that is not tripped has no file that could be missing.
            if !shut.is_empty() {
                self.breaker.rewrite_if_deleted(&shut, handle).await;
            }
            let gateway = self.gateway.get();
            // Compared with the state of the provider instead of the last sent value, so that a lost update is sent
            // again.
            if gateway.as_deref() != status.bids_held.as_deref() {
                // Fails only if the provider has stopped.
                drop(handle.hold_bids(gateway.as_deref()).await);
            }
            let mut awaited = awaited(&status, self.cluster.get(), &self.chain.status());
            awaited.extend(self.pricing.script_trouble());
            awaited.extend(gateway);
            if self.is_elected && !status.leader {
                awaited.push("leadership: this instance is a standby".to_owned());
            }
            self.report(awaited);
            let recording = self.recording.as_ref().map(flight::FlightHealth::status);
            if let Some(recording) = &recording {
                self.report_recording(recording);
            }
            let history = self.history.as_ref().map(History::health);
            if let Some(history) = &history {
                self.report_history(history);
            }
            if let Some(audit) = &self.audit {
                self.report_audit(&audit.health());
            }
            if summarized.elapsed() >= SUMMARY_INTERVAL {
                summarized = Instant::now();
                summary::print(&self.printer, &status, recording.as_ref(), history.as_ref());
            }
        }
    }

    /// Prints that flight recording has failed or has resumed.
    fn report_recording(&self, recording: &flight::RecordingStatus) {
        let mut reported = self
            .reported_recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *reported == recording.trouble {
            return;
        }
        if self.printer.is_text() {
            self.printer.note(&match &recording.trouble {
                Some(why) => plain::line(&format!("recording failed, retrying: {why}")).into_owned(),
                None => format!("recording resumed; {} turns are missing", recording.missed),
            });
        }
        self.printer
            .object(json!({"event": "recording", "recording": recording}));
        reported.clone_from(&recording.trouble);
    }

    fn report_history(&self, history: &HistoryHealth) {
        let mut reported = self
            .reported_history
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if reported.is_some() == history.problem.is_some() {
            return;
        }
        if self.printer.is_text() {
            self.printer.note(&match &history.problem {
                Some(why) => format!(
                    "order history not recorded, retrying: {}; {INTERRUPTION_HELP}",
                    plain::line(why)
                ),
                None => format!(
                    "order history can be written again; {} facts are missing",
                    history.dropped
                ),
            });
        }
        self.printer
            .object(json!({"event": "history", "history": history}));
        reported.clone_from(&history.problem);
    }

    /// Prints that the audit log is not writable, or is writable again.
    fn report_audit(&self, health: &AuditHealth) {
        let mut reported = self.reported_audit.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_some() == health.problem.is_some() {
            return;
        }
        if self.printer.is_text() {
            self.printer.note(&plain::line(&audit_note(health)));
        }
        self.printer.object(
            json!({"event": "audit_log", "is_written": health.problem.is_none(), "problem": health.problem}),
        );
        reported.clone_from(&health.problem);
    }

    /// Prints the unmet conditions if they changed.
    fn report(&self, awaited: Vec<String>) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.as_ref() == Some(&awaited) {
            return;
        }
        supervise::status(&match awaited.is_empty() {
            true => "ready: bidding".to_owned(),
            false => format!("waiting for {}", awaited.join("; ")),
        });
        if self.printer.is_text() {
            let reported = if awaited.is_empty() {
                "ready: bidding".to_owned()
            } else {
                format!("waiting for {}", awaited.join("; "))
            };
            // The text contains messages of nodes and clusters.
            self.printer.note(&plain::line(&reported));
        }
        self.printer.object(json!({
            "event": "awaited", "is_ready": awaited.is_empty(), "awaited": awaited, "notes": self.notes,
        }));
        *reported = Some(awaited);
    }
}

/// Returns the unmet conditions; empty if the provider can bid.
fn awaited(status: &Status, cluster: Option<String>, chain: &ClientStatus) -> Vec<String> {
    let mut awaited: Vec<String> = cluster.into_iter().collect();
    let is_there = awaited.is_empty();
    // The workloads are listed with the first snapshot of the chain.
    if is_there && status.chain_known && !status.cluster_known {
        awaited.push("the list of workloads from the cluster".to_owned());
    }
    if is_there && !status.inventory_known {
        awaited.push("the inventory of the cluster".to_owned());
    }
    let follower = &chain.reader.follower;
    // The node that reports blocks may have failed without a replacement.
    let speaks = chain
        .reader
        .endpoints
        .iter()
        .any(|e| e.serves_blocks && e.fault.is_none());
    let silent_since = follower.silent_since.filter(|since| {
        let silent_for = since.elapsed().unwrap_or_default();
        silent_for >= OUTAGE_MIN
    });
    if !status.chain_known || !speaks || silent_since.is_some() {
        let since = silent_since.map(|at| format!(" (since {})", humantime::format_rfc3339_seconds(at)));
        let why = chain_problem(chain, status);
        awaited.push(format!("the chain: {why}{}", since.unwrap_or_default()));
    }
    if !status.registered {
        let remedy = "`provider-daemon tx provider create FILE`";
        awaited.push(format!("this provider to be registered on the chain: {remedy}"));
    }
    if let Some(missing) = &status.deposit_missing {
        awaited.push(format!("money for a bid: {missing}"));
    }
    if let Some(failure) = chain.writer.as_ref().and_then(|writer| writer.problem.as_ref()) {
        awaited.push(format!("transactions: {failure}"));
    }
    if status.breaker.tripped {
        awaited.push("the circuit breaker to be released: `provider-daemon breaker release`".to_owned());
    }
    awaited
}

fn chain_problem(chain: &ClientStatus, status: &Status) -> String {
    if let Some(block) = chain.reader.unreached {
        let height = block.height;
        return format!(
            "no node reaches height {height}, which was processed; if the nodes are right, stop the provider and run \
             `provider-daemon state reset-height`"
        );
    }
    let faults = chain.reader.endpoints.iter().filter_map(|e| {
        let fault = e.fault.as_ref()?;
        Some(format!("{} {fault}", e.address))
    });
    let faults: Vec<String> = faults.take(REASONS_MAX).collect();
    if !faults.is_empty() {
        return faults.join(", ");
    }
    match (status.chain_known, &chain.reader.follower.source) {
        (false, _) => "the first snapshot".to_owned(),
        (true, BlockSource::None) => format!("blocks after {}", chain.reader.follower.height),
        (true, _) => format!("no node has a block after {}", chain.reader.follower.height),
    }
}
