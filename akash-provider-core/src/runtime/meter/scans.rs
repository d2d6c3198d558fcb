//! Durations of scans, from the first call to the applied result.

use crate::engine::Call;
use crate::statistics::{CALL_BOUNDS, DurationCounts, DurationHistogram};
use std::collections::BTreeMap;
use tokio::time::Instant;

#[derive(Debug)]
struct RunningScan {
    begun: Instant,
    is_full: bool,
    /// Number of pending calls.
    calls: u32,
}

#[derive(Debug)]
pub(super) struct ScanTimes {
    running: Option<RunningScan>,
    full: DurationHistogram,
    cluster: DurationHistogram,
}

impl ScanTimes {
    pub(super) fn new() -> Self {
        Self {
            running: None,
            full: DurationHistogram::new(&CALL_BOUNDS),
            cluster: DurationHistogram::new(&CALL_BOUNDS),
        }
    }

    /// Records the start of an engine call. `ListWorkloads` starts a scan, and `FetchSnapshot` makes the
    /// running scan a full scan.
    pub(super) fn started(&mut self, call: &Call) {
        match (call, &mut self.running) {
            (Call::ListWorkloads, running) => {
                *running = Some(RunningScan {
                    begun: Instant::now(),
                    is_full: false,
                    calls: 1,
                });
            }
            (Call::FetchSnapshot, Some(running)) => {
                running.is_full = true;
                running.calls += 1;
            }
            _ => {}
        }
    }

    pub(super) const fn completed(&mut self, call: &Call) {
        if let (Call::ListWorkloads | Call::FetchSnapshot, Some(running)) = (call, &mut self.running) {
            running.calls = running.calls.saturating_sub(1);
        }
    }

    /// Records the end of an engine step. If the step processed a snapshot and no call is pending, the
    /// running scan ends.
    pub(super) fn step_ended(&mut self, is_snapshot: bool) {
        let ended = |running: &mut RunningScan| is_snapshot && running.calls == 0;
        if let Some(running) = self.running.take_if(ended) {
            let durations = if running.is_full {
                &self.full
            } else {
                &self.cluster
            };
            durations.record(running.begun.elapsed());
        }
    }

    pub(super) fn values(&self) -> BTreeMap<&'static str, DurationCounts> {
        [("full", self.full.values()), ("cluster", self.cluster.values())].into()
    }
}
