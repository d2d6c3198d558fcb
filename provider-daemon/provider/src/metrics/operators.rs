//! Metrics of the operators in this process: work queue, durations and election.

use super::Measure;
use super::convert::{flag, length, number, seconds};
use akash_provider_operators::{QueueDepth, WorkStatistics};

#[derive(Debug)]
pub(crate) struct OperatorValues {
    pub(crate) name: &'static str,
    /// True after the initial lists of all watches were received.
    pub(crate) is_ready: bool,
    pub(crate) is_leader: bool,
    pub(crate) work: WorkStatistics,
}

pub(crate) const fn queue_states(queue: QueueDepth) -> [(&'static str, usize); 4] {
    [
        ("ready", queue.ready),
        ("running", queue.running),
        ("waiting", queue.waiting),
        ("ignored", queue.ignored),
    ]
}

pub(super) fn measures(operators: &[OperatorValues]) -> [Measure; 5] {
    let mut ready = Measure::gauge(
        "akash_provider_operator_ready",
        "1 after the operator has read its initial lists",
    );
    let mut leader = Measure::gauge(
        "akash_provider_operator_leader",
        "1 if the operator in this process leads",
    );
    let mut queue = Measure::gauge(
        "akash_provider_operator_queue_depth",
        "Object names in the operator's work queue, by state",
    );
    let mut durations = Measure::histogram(
        "akash_provider_operator_reconcile_duration_seconds",
        "Duration of the writes for one object name",
    );
    let mut failures = Measure::counter(
        "akash_provider_operator_failures",
        "Failed writes and deletes of the operator",
    );
    for operator in operators {
        let labels = [("operator", operator.name)];
        ready = ready.with(labels, flag(operator.is_ready));
        leader = leader.with(labels, flag(operator.is_leader));
        for (state, names) in queue_states(operator.work.queue) {
            let labels = [("operator", operator.name), ("state", state)];
            queue = queue.with(labels, length(names));
        }
        durations = durations.with_histogram(labels, seconds(&operator.work.durations));
        failures = failures.with(labels, number(operator.work.counts.failed));
    }
    [ready, leader, queue, durations, failures]
}
