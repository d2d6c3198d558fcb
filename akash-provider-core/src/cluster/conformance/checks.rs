//! Helpers that several checks share.

#![expect(clippy::disallowed_methods, reason = "a suite tests a backend in real time")]

use super::Setup;
use crate::cluster::{Cluster, ClusterChange, Health, Teardown, WorkloadSpec};
use crate::conformance::{Rule, SearchResult};
use crate::error::Error;
use crate::types::LeaseId;
use futures::stream::BoxStream;
use tokio::time::Instant;

pub(super) type Changes = BoxStream<'static, Result<ClusterChange, Error>>;

/// Repeats the teardown of a lease until it is done.
pub(super) async fn remove(cluster: &dyn Cluster, setup: &Setup, lease: &LeaseId, rule: &Rule) {
    let until = Instant::now() + setup.timeout;
    while rule.ok("teardown_lease", cluster.teardown_lease(lease)).await == Teardown::InProgress {
        rule.holds(
            Instant::now() < until,
            format!(
                "the teardown of {lease} was expected to be `Done` within {:?} and is `InProgress`",
                setup.timeout
            ),
        );
        tokio::time::sleep(setup.poll_interval).await;
    }
}

fn is_ours(rule: &Rule, setup: &Setup, lease: &LeaseId, call: &str) {
    rule.holds(
        lease.provider == setup.provider,
        format!(
            "`{call}` was expected to name leases of provider {} only and names {lease}",
            setup.provider
        ),
    );
}

/// Returns the entry of `lease` in the result of `deployments`. Fails if a listed lease belongs to another
/// provider.
pub(super) async fn listed(
    cluster: &dyn Cluster,
    setup: &Setup,
    lease: &LeaseId,
    rule: &Rule,
) -> Option<WorkloadSpec> {
    let all = rule.ok("deployments", cluster.deployments()).await;
    let deployed = all.deployments.iter().map(|d| &d.lease);
    for other in deployed.chain(&all.incomplete) {
        is_ours(rule, setup, other, "deployments");
    }
    if let Some(unusable) = all.unusable.iter().find(|u| u.belongs_to(lease)) {
        rule.broken(format!(
            "no record of {lease} was expected to be unusable: {unusable:?}"
        ));
    }
    let mut of_lease = all.deployments.into_iter().filter(|d| d.lease == *lease);
    let found = of_lease.next();
    let twice = of_lease.next().is_some();
    rule.holds(
        !twice,
        format!("`deployments` was expected to list {lease} once and lists it twice"),
    );
    found
}

pub(super) async fn assert_listed(
    cluster: &dyn Cluster,
    setup: &Setup,
    lease: &LeaseId,
    wanted: Option<&WorkloadSpec>,
    rule: &Rule,
) {
    let there = listed(cluster, setup, lease, rule).await;
    if there.as_ref() == wanted {
        return;
    }
    let mut texts = (brief(wanted), brief(there.as_ref()));
    if texts.0 == texts.1 {
        texts = (format!("{wanted:?}"), format!("{there:?}"));
    }
    rule.broken(format!(
        "`deployments` was expected to have {} of {lease} and has {}",
        texts.0, texts.1
    ));
}

/// Formats the main fields of a specification for a failure message.
fn brief(deployment: Option<&WorkloadSpec>) -> String {
    let Some(deployment) = deployment else {
        return "nothing".to_owned();
    };
    let services = deployment.group.services.iter();
    let services = services.map(|s| format!("{} x {} of `{}`", s.count, s.name, s.image));
    format!(
        "{} (epoch {})",
        services.collect::<Vec<_>>().join(", "),
        deployment.epoch
    )
}

/// Returns the health that a change reports for a lease. Returns `None` without a report, and `Some(None)` if
/// the lease is not running.
pub(super) fn health_in(
    rule: &Rule,
    setup: &Setup,
    lease: &LeaseId,
    change: &Result<ClusterChange, Error>,
) -> Option<Option<Health>> {
    match change {
        Ok(ClusterChange::Snapshot { health }) => {
            for other in health.keys() {
                is_ours(rule, setup, other, "changes");
            }
            Some(health.get(lease).copied())
        }
        Ok(ClusterChange::Health { lease: of, health }) => {
            is_ours(rule, setup, of, "changes");
            (of == lease).then_some(Some(*health))
        }
        Ok(ClusterChange::Lost | ClusterChange::RecordsLost) | Err(_) => None,
    }
}

/// Reads changes until the lease has the health `wanted`. `None` means that the lease is not running.
pub(super) async fn wait_for(
    changes: &mut Changes,
    setup: &Setup,
    lease: &LeaseId,
    wanted: Option<Health>,
    rule: &Rule,
) {
    let mut last = None;
    let seen = rule.find("changes", changes, |change| {
        let health = health_in(rule, setup, lease, &change)?;
        last = Some(health);
        (health == wanted).then_some(())
    });
    let seen = seen.await;
    let how = match seen {
        SearchResult::Item(()) => return,
        SearchResult::Ended => "the stream ended",
        SearchResult::Late => "the change did not arrive in time",
    };
    let last = match last {
        None => "no change was reported".to_owned(),
        Some(None) => "the last reported state is not running".to_owned(),
        Some(Some(health)) => format!("the last reported state is {health:?}"),
    };
    let wanted = wanted.map_or_else(|| "not running".to_owned(), |health| format!("{health:?}"));
    rule.broken(format!(
        "`changes` was expected to report {lease} as {wanted} within {:?}: {how}; {last}",
        setup.timeout
    ));
}

/// Returns the first wrong health that `changes` reports for the lease within `setup.quiet_time`.
pub(super) async fn unexpected_health(
    changes: &mut Changes,
    setup: &Setup,
    lease: &LeaseId,
    is_wrong: impl Fn(Option<Health>) -> bool,
    rule: &Rule,
) -> Option<Option<Health>> {
    let short = Rule::new(rule.to_string(), setup.quiet_time);
    let search = short.find("changes", changes, |change| {
        health_in(rule, setup, lease, &change).filter(|health| is_wrong(*health))
    });
    match search.await {
        SearchResult::Item(health) => Some(health),
        SearchResult::Late => None,
        SearchResult::Ended => rule.broken("`changes` was expected to go on and ended"),
    }
}
