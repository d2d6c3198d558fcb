//! Metrics of the supervised parts, the leader election, the flight recorder, the runtime and the state.

use super::convert::{flag, gauge, length, number};
use super::{Measure, MetricSource};
use crate::audit::Audit;
use crate::flight;
use crate::history::History;
use crate::supervise::Pulses;
use akash_provider_gateway::LeadershipSource;
use std::path::PathBuf;
use tokio::runtime::Handle;

#[derive(Debug)]
pub(crate) struct PartsSource {
    pub(crate) pulses: Pulses,
    /// State of the election; `None` for a single instance.
    pub(crate) leadership: Option<LeadershipSource>,
    /// Status of the flight recorder, if enabled.
    pub(crate) recording: Option<flight::FlightHealth>,
    /// Order history, if enabled.
    pub(crate) history: Option<History>,
    /// Audit log, if enabled.
    pub(crate) audit: Option<Audit>,
    /// Path of the state file.
    pub(crate) state: PathBuf,
}

impl MetricSource for PartsSource {
    fn measures(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        measures.extend(self.parts());
        measures.extend(self.leadership());
        measures.extend(self.recording());
        measures.extend(self.history());
        measures.extend(self.audit());
        measures.extend(runtime());
        // A scrape reads only the size, from the cache of the file system.
        if let Ok(about) = std::fs::metadata(&self.state) {
            let measure = Measure::gauge("akash_provider_state_bytes", "Size of the state file");
            measures.push(measure.with([], number(about.len())));
        }
        measures
    }
}

impl PartsSource {
    fn parts(&self) -> [Measure; 4] {
        let mut running = Measure::gauge("akash_provider_part_running", "1 if the part runs");
        let mut stalled = Measure::gauge("akash_provider_part_stalled", "1 if the part is stalled");
        let mut restarts = Measure::counter("akash_provider_part_restarts", "Restarts of the part");
        let mut stalls = Measure::counter("akash_provider_part_stalls", "Stalls of the part");
        for status in self.pulses.status() {
            let name = status.part.name().replace(' ', "_");
            let labels = [("part", name.as_str())];
            running = running.with(labels, flag(status.is_running));
            stalled = stalled.with(labels, flag(status.is_stalled));
            restarts = restarts.with(labels, number(status.restarts));
            stalls = stalls.with(labels, number(status.stalls));
        }
        [running, stalled, restarts, stalls]
    }

    /// Returns the metrics of this instance's role. A single instance is always the leader.
    fn leadership(&self) -> [Measure; 2] {
        let leader = Measure::gauge("akash_provider_leader", "1 if this instance leads");
        let help = "Election term in which this instance leads; each new leader has a higher term";
        let term = Measure::gauge("akash_provider_leader_term", help);
        let Some(source) = &self.leadership else {
            return [leader.with([], 1.0), term];
        };
        let leadership = source.now();
        let leader = leader.with([], flag(leadership.role == "leader"));
        match leadership.term {
            Some(in_term) => [leader, term.with([], number(in_term))],
            None => [leader, term],
        }
    }

    fn recording(&self) -> [Measure; 3] {
        let active = Measure::gauge(
            "akash_provider_recording_active",
            "1 if the flight recorder writes",
        );
        let missed = Measure::counter(
            "akash_provider_recording_missed_turns",
            "Engine steps that were not recorded",
        );
        let bytes = Measure::counter(
            "akash_provider_recording_bytes",
            "Bytes written by the flight recorder",
        );
        let Some(health) = &self.recording else {
            return [active, missed, bytes];
        };
        let status = health.status();
        [
            active.with([], flag(status.is_written)),
            missed.with([], number(status.missed)),
            bytes.with([], number(status.written_bytes)),
        ]
    }

    /// Returns the metrics of the audit log. A disabled log has no values.
    fn audit(&self) -> [Measure; 4] {
        let writable = Measure::gauge(
            "akash_provider_audit_writable",
            "1 if the audit log can be written",
        );
        let lines = Measure::counter("akash_provider_audit_lines", "Lines written to the audit log");
        let dropped = Measure::counter(
            "akash_provider_audit_dropped_lines",
            "Lines that were not written to the audit log",
        );
        let delayed = Measure::counter(
            "akash_provider_audit_delayed_attempts",
            "Delayed attempts to close leases, remove workloads or revoke certificates; the audit log could not be written",
        );
        let Some(audit) = &self.audit else {
            return [writable, lines, dropped, delayed];
        };
        let health = audit.health();
        [
            writable.with([], flag(health.problem.is_none())),
            lines.with([], number(health.lines)),
            dropped.with([], number(health.dropped)),
            delayed.with([], number(health.delayed)),
        ]
    }
}

impl PartsSource {
    fn history(&self) -> [Measure; 2] {
        let active = Measure::gauge(
            "akash_provider_order_history_active",
            "1 while orders are recorded; 0 after a failure, such as a full disk",
        );
        let missed = Measure::counter(
            "akash_provider_order_history_missed_facts",
            "Facts about orders that were not recorded",
        );
        let Some(health) = self.history.as_ref().map(History::health) else {
            return [active, missed];
        };
        [
            active.with([], flag(health.problem.is_none())),
            missed.with([], number(health.dropped)),
        ]
    }
}

/// Returns the metrics of the async runtime; empty outside of a runtime.
fn runtime() -> Vec<Measure> {
    let Ok(handle) = Handle::try_current() else {
        return Vec::new();
    };
    let metrics = handle.metrics();
    vec![
        gauge(
            "akash_provider_runtime_tasks",
            "Unfinished tasks of the runtime",
            length(metrics.num_alive_tasks()),
        ),
        gauge(
            "akash_provider_runtime_workers",
            "Worker threads",
            length(metrics.num_workers()),
        ),
        gauge(
            "akash_provider_runtime_queued_tasks",
            "Tasks in the global queue of the runtime",
            length(metrics.global_queue_depth()),
        ),
    ]
}

#[cfg(test)]
mod tests;
