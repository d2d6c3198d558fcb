//! Chain progress, calls to ports, scans, readiness and the circuit breaker.

use super::super::Measure;
use super::super::convert::{block_seconds, counter, flag, gauge, length, number, seconds};
use super::{LabelCounts, Values, by_name, by_pair};
use akash_provider_core::engine::counts::ScanReason;

pub(super) fn measures(values: &Values<'_>) -> Vec<Measure> {
    let mut measures = calls(values);
    measures.extend(scans(values));
    measures.extend(progress(values));
    measures.extend(missed(values));
    measures.extend(breaker(values));
    measures
}

fn calls(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let mut durations = Measure::histogram(
        "akash_provider_call_duration_seconds",
        "Duration of engine calls by name",
    );
    for (call, times) in &counts.call_durations {
        durations = durations.with_histogram([("call", call)], seconds(times));
    }
    vec![
        by_pair(
            Measure::counter("akash_provider_calls", "Engine calls by name and result"),
            ["call", "result"],
            [&[], &[]],
            &counts.calls,
        ),
        durations,
        gauge(
            "akash_provider_calls_in_flight",
            "Engine calls that have no result yet",
            number(status.calls_in_flight),
        ),
        counter(
            "akash_provider_unexpected_inputs",
            "Inputs that the engine did not expect",
            status.unexpected_inputs,
        ),
        counter(
            "akash_provider_unpublished_events",
            "Facts that did not reach the bus, because its queue was full or the bus refused them",
            counts.unpublished,
        ),
    ]
}

fn scans(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let scans = counts
        .calls
        .iter()
        .filter(|((call, _), _)| *call == "fetch_snapshot");
    let scans: LabelCounts = scans.map(|((_, result), count)| (*result, *count)).collect();
    let mut starts = Measure::counter("akash_provider_scan_starts", "Started scans by kind and reason");
    for (kind, by_reason) in [
        ("full", &counts.engine.full_scans),
        ("cluster", &counts.engine.cluster_scans),
    ] {
        for reason in ScanReason::ALL {
            let count = by_reason.get(&reason).copied().unwrap_or_default();
            starts = starts.with([("kind", kind), ("reason", reason.name())], number(count));
        }
    }
    let durations = Measure::histogram(
        "akash_provider_scan_duration_seconds",
        "Duration of scans from the first query to the applied result",
    );
    let durations = counts
        .scan_durations
        .iter()
        .fold(durations, |durations, (kind, times)| {
            durations.with_histogram([("kind", kind)], seconds(times))
        });
    let last = Measure::gauge(
        "akash_provider_ledger_last_recount_timestamp_seconds",
        "Block time of the last recount of reservations, in seconds since the Unix epoch",
    );
    let recounted = counts.engine.last_recount.iter();
    vec![
        by_name(
            Measure::counter(
                "akash_provider_scans",
                "Full scans, by result of their chain query",
            ),
            "result",
            &["success", "fail"],
            &scans,
        ),
        counter(
            "akash_provider_scan_findings",
            "Differences that scans found between chain, cluster and provider state",
            counts.findings,
        ),
        gauge(
            "akash_provider_last_scan_findings",
            "Differences found by the last scan",
            length(status.last_scan_findings.len()),
        ),
        starts,
        durations,
        counter(
            "akash_provider_ledger_recounts",
            "Recounts of all reservations, one per scan",
            counts.engine.recounts,
        ),
        counter(
            "akash_provider_ledger_mismatches",
            "Recounts of reservations that differed from the ledger",
            counts.engine.recount_mismatches,
        ),
        recounted.fold(last, |last, time| last.with([], block_seconds(*time))),
    ]
}

fn missed(values: &Values<'_>) -> [Measure; 3] {
    let engine = &values.counts.engine;
    [
        counter(
            "akash_provider_engine_gaps",
            "Gaps in the received blocks",
            engine.gaps,
        ),
        counter(
            "akash_provider_engine_missed_blocks",
            "Blocks that are missing because of gaps",
            engine.missed_blocks,
        ),
        counter(
            "akash_provider_engine_repeated_blocks",
            "Received blocks that were already processed",
            engine.repeated_blocks,
        ),
    ]
}

fn progress(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let conditions = [
        ("chain_known", status.chain_known),
        ("cluster_known", status.cluster_known),
        ("inventory_known", status.inventory_known),
        ("registered", status.registered),
        ("funded", status.deposit_missing.is_none()),
        ("bids_allowed", status.bids_held.is_none()),
        ("leader", status.leader),
    ];
    let ready = Measure::gauge("akash_provider_ready", "1 if this condition for bids is met");
    let mut measures = vec![
        conditions.into_iter().fold(ready, |ready, (name, is_met)| {
            ready.with([("condition", name)], flag(is_met))
        }),
        gauge(
            "akash_provider_engine_height",
            "Height of the newest processed block",
            number(status.height),
        ),
        counter("akash_provider_engine_blocks", "Processed blocks", counts.blocks),
        counter(
            "akash_provider_engine_resyncs",
            "Snapshots of the chain after a start or a gap in the events",
            counts.resyncs,
        ),
    ];
    let age = Measure::gauge(
        "akash_provider_engine_block_age_seconds",
        "Time since the newest block was received",
    );
    measures.push(
        Measure::histogram(
            "akash_provider_engine_block_lag_seconds",
            "Time from the time of a block to the processing of its events",
        )
        .with_histogram([], seconds(&counts.block_lag)),
    );
    measures.push(
        counts
            .block_age
            .into_iter()
            .fold(age, |age, time| age.with([], time.as_secs_f64())),
    );
    measures
}

fn breaker(values: &Values<'_>) -> Vec<Measure> {
    let breaker = &values.status.breaker;
    vec![
        gauge(
            "akash_provider_breaker_tripped",
            "1 if the circuit breaker holds the closes of all owners",
            flag(breaker.tripped),
        ),
        gauge(
            "akash_provider_breaker_held_owners",
            "Owners for which the circuit breaker has tripped separately",
            length(breaker.held_owners.len()),
        ),
        gauge(
            "akash_provider_breaker_held_closes",
            "Closes and teardowns held by the circuit breaker",
            length(breaker.held.len()),
        ),
        gauge(
            "akash_provider_breaker_recent_closes",
            "Closes within `--breaker-window`",
            f64::from(breaker.recent),
        ),
        gauge(
            "akash_provider_breaker_allowed_closes",
            "Maximum number of closes within `--breaker-window`",
            f64::from(breaker.allowed),
        ),
    ]
}
