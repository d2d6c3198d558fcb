//! What a provider waits for before it can bid, told whenever it changes; and whether it leads, told to its cluster.

use super::breaker::Breaker;
use super::summary;
use super::writers::Writers;
use crate::args::{PricingArgs, RunArgs};
use crate::dev::Printer;
use crate::flight;
use crate::plain;
use crate::supervise::{self, Pulse};
use akash_provider_chain::{AkashClient, ClientStatus, Source};
use akash_provider_core::Kept;
use akash_provider_core::engine::{Lifecycle, Status};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_k8s::cluster::LeadershipGate;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often it is summed up what there is.
const SUMMARY_EVERY: Duration = Duration::from_secs(60);
/// Its loop comes round within so long: a provider that does not answer holds it up for as long as a request may take.
const LOOK_WITHIN: Duration = Duration::from_secs(180);
/// The provider answers within so long, which takes it milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A connection that is opened again within so long is no outage.
const SILENCE_MIN: Duration = Duration::from_secs(2);
/// Reasons of one kind that are told; the rest is in the log.
const REASONS_MAX: usize = 4;

/// Where a part leaves what it waits for.
#[derive(Debug, Clone, Default)]
pub(super) struct Desk {
    awaited: Arc<Mutex<Option<String>>>,
}

/// Those of the parts that wait, and what the cluster is told.
#[derive(Debug)]
pub(super) struct Desks {
    pub(super) cluster: Desk,
    pub(super) gateway: Desk,
    pub(super) leading: LeadershipGate,
    pub(super) writers: Writers,
    /// An election says who leads, and not the provider.
    is_elected: bool,
}

impl Desks {
    /// With the gate of an election, where there is one.
    pub(super) fn of(elected: Option<LeadershipGate>, writers: Writers) -> Self {
        Self {
            writers,
            is_elected: elected.is_some(),
            cluster: Desk::default(),
            gateway: Desk::default(),
            // Until the provider says that it leads, its cluster does nothing unasked.
            leading: elected.unwrap_or_else(|| LeadershipGate::new(false)),
        }
    }
}

impl Desk {
    fn awaits(&self) -> Option<String> {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        awaited.clone()
    }

    pub(super) fn put(&self, awaited: Option<String>) {
        *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = awaited;
    }
}

/// Looks, and tells changes.
#[derive(Debug)]
pub(super) struct Watch {
    printer: Arc<Printer>,
    chain: AkashClient,
    breaker: Breaker,
    cluster: Desk,
    gateway: Desk,
    leading: LeadershipGate,
    is_elected: bool,
    pricing: PricingArgs,
    /// What is left to others, for the status.
    notes: Vec<String>,
    told: Mutex<Option<Vec<String>>>,
    /// Where the provider is recorded.
    recording: Option<flight::Health>,
    /// Why the recording was not written when that was told last.
    recording_told: Mutex<Option<String>>,
}

impl Watch {
    pub(super) fn new(
        printer: &Arc<Printer>,
        chain: &AkashClient,
        breaker: &Breaker,
        args: &RunArgs,
        parts: &Desks,
        recording: Option<&flight::Finish>,
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
            told: Mutex::default(),
            recording: recording.map(flight::Finish::health),
            recording_told: Mutex::default(),
        }
    }

    /// Looks until the token is cancelled or the provider stops; from then on the cluster is told that nobody leads.
    pub(super) async fn follow(
        &self,
        handle: &ProviderHandle,
        until: &CancellationToken,
        pulse: &Pulse,
        provider: &Pulse,
    ) {
        self.look(handle, until, (pulse, provider)).await;
        // Nobody asks it from here on.
        provider.rest();
        pulse.rest();
        // Whatever ended it: nobody says any more who leads, and a cluster that takes itself for leading acts
        // unasked.
        if !self.is_elected {
            self.leading.set(false);
        }
    }

    async fn look(
        &self,
        handle: &ProviderHandle,
        until: &CancellationToken,
        (pulse, provider): (&Pulse, &Pulse),
    ) {
        let mut summarised = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = until.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            pulse.beat(LOOK_WITHIN);
            let answer = handle.known_status().await;
            if answer.is_some() {
                provider.beat(ANSWER_WITHIN);
            }
            let status = match answer {
                Some(status) => status,
                None => handle.status().await,
            };
            if status.lifecycle >= Lifecycle::Shutdown {
                return;
            }
            if !self.is_elected {
                self.leading.set(status.leader);
            }
            let shut = Kept::of(&status);
            // While it has not tripped there is no file, and so none that could be missing.
            if !shut.is_empty() {
                self.breaker.renew(&shut, handle).await;
            }
            let gateway = self.gateway.awaits();
            // Compared with what the provider has, not with what it was sent, so that one that was lost is sent
            // again.
            if gateway.as_deref() != status.bids_held.as_deref() {
                // It only fails when the provider is over.
                drop(handle.hold_bids(gateway.as_deref()).await);
            }
            let mut awaited = awaited(&status, self.cluster.awaits(), &self.chain.status());
            awaited.extend(self.pricing.script_trouble());
            awaited.extend(gateway);
            if self.is_elected && !status.leader {
                awaited.push("the leadership, which another instance has or nobody can have now".to_owned());
            }
            self.tell(awaited);
            let recording = self.recording.as_ref().map(flight::Health::status);
            if let Some(recording) = &recording {
                self.tell_recording(recording);
            }
            if summarised.elapsed() >= SUMMARY_EVERY {
                summarised = Instant::now();
                summary::tell(&self.printer, &status, recording.as_ref());
            }
        }
    }

    /// Tells that the recording is not written, or that it is again.
    fn tell_recording(&self, recording: &flight::RecordingStatus) {
        let mut told = self.recording_told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == recording.trouble {
            return;
        }
        if self.printer.is_text() {
            self.printer.note(&match &recording.trouble {
                Some(why) => {
                    plain::line(&format!("nothing is recorded: {why}; it is tried again")).into_owned()
                }
                None => format!("recorded again; {} turns are missing", recording.missed),
            });
        }
        self.printer
            .object(json!({"event": "recording", "recording": recording}));
        told.clone_from(&recording.trouble);
    }

    /// Tells what bidding waits for, when that has changed.
    fn tell(&self, awaited: Vec<String>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() == Some(&awaited) {
            return;
        }
        supervise::status(&match awaited.is_empty() {
            true => "ready: bidding".to_owned(),
            false => format!("waiting for {}", awaited.join("; ")),
        });
        if self.printer.is_text() {
            let told = if awaited.is_empty() {
                "ready: bidding".to_owned()
            } else {
                format!("waiting for {}", awaited.join("; "))
            };
            // Nodes and clusters have a say in it.
            self.printer.note(&plain::line(&told));
        }
        self.printer.object(json!({
            "event": "awaited", "is_ready": awaited.is_empty(), "awaited": awaited, "notes": self.notes,
        }));
        *told = Some(awaited);
    }
}

/// What is awaited, one line each; empty when it can bid.
fn awaited(status: &Status, cluster: Option<String>, chain: &ClientStatus) -> Vec<String> {
    let mut awaited: Vec<String> = cluster.into_iter().collect();
    let is_there = awaited.is_empty();
    // What runs there is asked for with the first picture of the chain.
    if is_there && status.chain_known && !status.cluster_known {
        awaited.push("the cluster to say what runs on it".to_owned());
    }
    if is_there && !status.inventory_known {
        awaited.push("the cluster to say what it has room for".to_owned());
    }
    let follower = &chain.reader.follower;
    // The one that tells blocks may have failed and not been replaced.
    let speaks = chain
        .reader
        .endpoints
        .iter()
        .any(|e| e.serves_blocks && e.fault.is_none());
    let silent_since = follower.silent_since.filter(|since| {
        let silent_for = since.elapsed().unwrap_or_default();
        silent_for >= SILENCE_MIN
    });
    if !status.chain_known || !speaks || silent_since.is_some() {
        let since = silent_since.map(|at| format!(" (since {})", humantime::format_rfc3339_seconds(at)));
        let why = why_not_heard(chain, status);
        awaited.push(format!("the chain: {why}{}", since.unwrap_or_default()));
    }
    if !status.registered {
        let mend = "`provider-daemon tx provider create FILE`";
        awaited.push(format!("this provider to be registered on the chain: {mend}"));
    }
    if let Some(missing) = &status.deposit_missing {
        awaited.push(format!("money for a bid: {missing}"));
    }
    if let Some(trouble) = chain.writer.as_ref().and_then(|writer| writer.problem.as_ref()) {
        awaited.push(format!("what transactions need: {trouble}"));
    }
    if status.breaker.tripped {
        awaited.push("the circuit breaker to be released: `provider-daemon breaker release`".to_owned());
    }
    awaited
}

fn why_not_heard(chain: &ClientStatus, status: &Status) -> String {
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
        (false, _) => "its first picture".to_owned(),
        (true, Source::None) => format!("blocks after {}", chain.reader.follower.height),
        (true, _) => format!("no node has a block after {}", chain.reader.follower.height),
    }
}
