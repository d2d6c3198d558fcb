//! Leases, manifests and revenue.

use super::super::Measure;
use super::super::convert::{counter, decimal, flag, gauge, length, number};
use super::{Values, by_name};
use akash_provider_core::cluster::Health;
use akash_provider_core::engine::{LeasePhase, Status};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::{Dec, Denom};
use std::collections::BTreeMap;

const PHASES: [LeasePhase; 9] = [
    LeasePhase::WaitingForManifest,
    LeasePhase::Pending,
    LeasePhase::Deploying,
    LeasePhase::Running,
    LeasePhase::Retrying,
    LeasePhase::Ending,
    LeasePhase::Checking,
    LeasePhase::Teardown,
    LeasePhase::Gone,
];
const REASONS: [&str; 4] = ["unstable", "decommission", "unspecified", "manifest_timeout"];
const REFUSALS: [&str; 7] = [
    "accepted",
    "no_lease",
    "version_mismatch",
    "cross_validation",
    "hostname",
    "rejected",
    "unavailable",
];

pub(super) fn measures(values: &Values<'_>) -> Vec<Measure> {
    let mut measures = leases(values);
    measures.extend(life(values));
    measures.extend(revenue(values));
    measures
}

fn leases(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let phases = PHASES.map(|phase| {
        let leases = status.leases.iter().filter(|lease| lease.phase == phase);
        (phase.name(), leases.count())
    });
    let mut health = Measure::gauge("akash_provider_leases_by_health", "Leases by health");
    for name in ["unknown", "good", "bad"] {
        health = health.with([("health", name)], 0.0);
    }
    for lease in &status.leases {
        health = health.with([("health", lease.health.name())], 1.0);
    }
    let (won, adopted) = counts.leases;
    vec![
        Measure::gauge("akash_provider_leases", "Leases by phase").counted("phase", phases),
        health,
        counter("akash_provider_leases_won", "Leases won", won),
        counter(
            "akash_provider_leases_adopted",
            "Leases found after a start or missed events",
            adopted,
        ),
        counter(
            "akash_provider_leases_closed",
            "Closed leases after the removal of their workloads",
            counts.closed_leases,
        ),
    ]
}

fn life(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    vec![
        by_name(
            Measure::counter(
                "akash_provider_lease_ends",
                "Decisions of this provider to close a lease, by reason",
            ),
            "reason",
            &REASONS,
            &counts.lease_ends,
        ),
        by_name(
            Measure::counter(
                "akash_provider_health_changes",
                "Changes of lease health; the label is the new health",
            ),
            "health",
            &["unknown", "good", "bad"],
            &counts.health,
        ),
        by_name(
            Measure::counter(
                "akash_provider_manifests",
                "Submitted manifests by result; an unreadable manifest is only in akash_provider_gateway_requests",
            ),
            "result",
            &REFUSALS,
            &counts.manifests,
        ),
        gauge(
            "akash_provider_manifest_deadlines",
            "Deployments with a pending manifest deadline",
            length(
                status
                    .deployments
                    .iter()
                    .filter(|d| d.manifest_deadline.is_some())
                    .count(),
            ),
        ),
        gauge(
            "akash_provider_hostnames",
            "Hostnames of leases",
            length(status.hostnames.len()),
        ),
    ]
}

fn revenue(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let failed = status.leases.iter().filter(|lease| lease.payout_error.is_some());
    vec![
        by_name(
            Measure::counter("akash_provider_withdrawals", "Withdrawals by result"),
            "result",
            &["success", "fail"],
            &counts.withdrawals,
        ),
        gauge(
            "akash_provider_failed_payouts",
            "Leases for which the last withdrawal failed",
            length(failed.count()),
        ),
        amounts(
            Measure::gauge(
                "akash_provider_revenue_per_block",
                "Sum of the prices of all leases per block",
            ),
            &counts.price_per_block,
        ),
        amounts(
            Measure::counter(
                "akash_provider_revenue_accrued",
                "Revenue since the process start, calculated from lease prices",
            ),
            &counts.accrued,
        ),
        amounts(
            Measure::counter(
                "akash_provider_revenue_withdrawn",
                "Part of the accrued revenue that was withdrawn",
            ),
            &counts.withdrawn,
        ),
    ]
}

fn amounts(measure: Measure, amounts: &BTreeMap<Denom, Dec>) -> Measure {
    amounts.iter().fold(measure, |measure, (denom, amount)| {
        measure.with([("denom", &**denom)], decimal(*amount))
    })
}

pub(super) fn per_lease(status: &Status, provider: &ProviderHandle) -> Vec<Measure> {
    let mut price = Measure::gauge(
        "akash_provider_lease_price_per_block",
        "Price of the lease per block",
    );
    let mut healthy = Measure::gauge(
        "akash_provider_lease_healthy",
        "1 if all services of the lease are healthy",
    );
    let mut unhealthy = Measure::gauge(
        "akash_provider_lease_unhealthy_seconds",
        "Unhealthy time of the lease that counts towards `--unhealthy-limit`",
    );
    let mut accrued = Measure::gauge(
        "akash_provider_lease_accrued",
        "Earnings of the lease since its creation that its escrow account can pay; absent if unknown",
    );
    let mut withdrawn = Measure::gauge(
        "akash_provider_lease_withdrawn",
        "Withdrawn earnings of the lease; absent if unknown",
    );
    for info in &status.leases {
        let lease = info.lease.order.to_string();
        let denom = &*info.price.denom;
        let labels = [("lease", lease.as_str()), ("denom", denom)];
        price = price.with(labels, decimal(info.price.amount));
        if let Some(earnings) = provider.earnings(&info.lease) {
            accrued = accrued.with(labels, decimal(earnings.accrued));
            if let Some(amount) = earnings.withdrawn {
                withdrawn = withdrawn.with(labels, decimal(amount));
            }
        }
        healthy = healthy.with([("lease", lease.as_str())], flag(info.health == Health::Good));
        let time = number(info.known_unhealthy_ms) / 1000.0;
        unhealthy = unhealthy.with([("lease", lease.as_str())], time);
    }
    vec![price, accrued, withdrawn, healthy, unhealthy]
}
