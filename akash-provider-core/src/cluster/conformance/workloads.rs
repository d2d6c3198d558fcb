//! Checks of records, workloads and their health.

use super::Setup;
use super::checks::{assert_listed, remove, unexpected_health, wait_for};
use crate::cluster::{Cluster, ClusterChange, EventOptions, Health, LogOptions, Teardown, WorkloadSpec};
use crate::conformance::{Rule, SearchResult};
use crate::error::ErrorKind;
use crate::types::LeaseId;
use futures::future::BoxFuture;
use std::sync::Arc;

/// Checks that a teardown of an unknown lease is `Done` and that queries for the lease find nothing.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn an_unknown_lease_is_not_found(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("an unknown lease is not found");
    let lease = setup.lease(9, 1);
    let teardown = rule.ok("teardown_lease", cluster.teardown_lease(&lease)).await;
    rule.holds(
        teardown == Teardown::Done,
        "`teardown_lease` of an unknown lease was expected to be `Done`",
    );
    assert_listed(cluster, setup, &lease, None, &rule).await;
    let group = rule.ok("manifest_group", cluster.manifest_group(&lease)).await;
    rule.holds(group.is_none(), "`manifest_group` was expected to be `None`");
    let (kind, why) = (ErrorKind::NotFound, "the lease is unknown");
    rule.refused("lease_status", kind, why, cluster.lease_status(&lease))
        .await;
    rule.refused("service_status", kind, why, cluster.service_status(&lease, "web"))
        .await;
    let ports = cluster.forwarded_port_status(&lease);
    rule.refused("forwarded_port_status", kind, why, ports).await;
    let logs = cluster.lease_logs(&lease, LogOptions::default());
    rule.refused("lease_logs", kind, why, logs).await;
    let events = cluster.lease_events(&lease, EventOptions::default());
    rule.refused("lease_events", kind, why, events).await;
}

/// Checks that a recorded workload is listed with its manifest, does not run, and is removed by a teardown.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_recorded_deployment_is_listed(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a recorded deployment is listed");
    let lease = setup.lease(1, 2);
    let older = setup.deployment(&lease, 1);
    let newer = setup.deployment(&lease, 2);
    for deployment in [&older, &newer, &newer] {
        rule.ok("record", cluster.record(deployment)).await;
        assert_listed(cluster, setup, &lease, Some(deployment), &rule).await;
        let group = rule.ok("manifest_group", cluster.manifest_group(&lease)).await;
        rule.holds(
            group.as_ref() == Some(&deployment.group),
            format!("`manifest_group` was expected to be as recorded last and is {group:?}"),
        );
    }
    let mut changes = rule.at_once("changes", || cluster.changes());
    wait_for(&mut changes, setup, &lease, None, &rule).await;
    remove(cluster, setup, &lease, &rule).await;
    assert_listed(cluster, setup, &lease, None, &rule).await;
}

/// Checks that the watch reports a snapshot, then the health and the removal of a deployed lease.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_deployed_lease_becomes_healthy(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a deployed lease becomes healthy");
    let lease = setup.lease(1, 3);
    let deployment = setup.deployment(&lease, 1);
    it_begins_with_a_snapshot(cluster, &rule).await;
    let mut changes = rule.at_once("changes", || cluster.changes());
    wait_for(&mut changes, setup, &lease, None, &rule).await;
    rule.ok("deploy", cluster.deploy(&deployment)).await;
    wait_for(&mut changes, setup, &lease, Some(Health::Good), &rule).await;
    let mut late = rule.at_once("changes", || cluster.changes());
    wait_for(&mut late, setup, &lease, Some(Health::Good), &rule).await;
    assert_listed(cluster, setup, &lease, Some(&deployment), &rule).await;
    it_has_one_replica(cluster, &lease, &rule).await;
    remove(cluster, setup, &lease, &rule).await;
    wait_for(&mut changes, setup, &lease, None, &rule).await;
    let (kind, why) = (ErrorKind::NotFound, "the lease was torn down");
    rule.refused("lease_status", kind, why, cluster.lease_status(&lease))
        .await;
}

async fn it_begins_with_a_snapshot(cluster: &dyn Cluster, rule: &Rule) {
    let mut changes = rule.at_once("changes", || cluster.changes());
    // A `Lost` before the first snapshot is allowed.
    let first = rule.find("changes", &mut changes, |change| match change {
        Ok(ClusterChange::Lost) | Err(_) => None,
        Ok(change) => Some(matches!(change, ClusterChange::Snapshot { .. })),
    });
    let first = first.await;
    rule.holds(
        first == SearchResult::Item(true),
        "`changes` was expected to start with a `Snapshot`",
    );
}

async fn it_has_one_replica(cluster: &dyn Cluster, lease: &LeaseId, rule: &Rule) {
    let status = rule.ok("lease_status", cluster.lease_status(lease)).await;
    let web = rule
        .ok("service_status", cluster.service_status(lease, "web"))
        .await;
    rule.holds(
        status.services.get("web") == Some(&web),
        format!("`lease_status` and `service_status` were expected to be equal: {status:?}, {web:?}"),
    );
    rule.holds(
        (web.available, web.total) == (1, 1),
        format!("1 replica of 1 was expected to be available: {web:?}"),
    );
    let (kind, why) = (ErrorKind::NotFound, "the lease has no service `db`");
    rule.refused("service_status", kind, why, cluster.service_status(lease, "db"))
        .await;
    let ports = rule
        .ok("forwarded_port_status", cluster.forwarded_port_status(lease))
        .await;
    rule.holds(
        ports == status.forwarded_ports,
        "`lease_status` and `forwarded_port_status` were expected to be equal",
    );
    let of_web: Vec<u16> = ports.get("web").into_iter().flatten().map(|p| p.port).collect();
    rule.holds(
        of_web == [9000],
        format!("port 9000 alone was expected to get a port of the host, not {of_web:?}"),
    );
}

/// Checks that a second deploy with another specification changes the workload and the listing.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_newer_deployment_replaces_the_older(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a newer deployment replaces the older");
    let lease = setup.lease(1, 4);
    for count in [1, 2, 1] {
        let deployment = setup.deployment(&lease, count);
        rule.ok("record", cluster.record(&deployment)).await;
        rule.ok("deploy", cluster.deploy(&deployment)).await;
        assert_listed(cluster, setup, &lease, Some(&deployment), &rule).await;
        wants_replicas(cluster, &lease, count, &rule).await;
    }
    remove(cluster, setup, &lease, &rule).await;
}

async fn wants_replicas(cluster: &dyn Cluster, lease: &LeaseId, count: u32, rule: &Rule) {
    let web = rule
        .ok("service_status", cluster.service_status(lease, "web"))
        .await;
    rule.holds(
        web.total == count,
        format!("the last deploy requested {count} replicas: {web:?}"),
    );
}

/// Checks that a former leader cannot overwrite the records of its successor: a write with an older epoch is
/// a conflict.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn an_older_term_writes_nothing(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("an older term writes nothing");
    let lease = setup.lease(1, 11);
    let of_term = |epoch, count| WorkloadSpec {
        epoch,
        ..setup.deployment(&lease, count)
    };
    let (now, over, next) = (of_term(5, 1), of_term(4, 2), of_term(6, 2));
    for (written, count) in [(now, 1), (next, 2)] {
        rule.ok("record", cluster.record(&written)).await;
        rule.ok("deploy", cluster.deploy(&written)).await;
        let why = format!(
            "{lease} was written in epoch {} and the write is of epoch 4",
            written.epoch
        );
        let conflict = ErrorKind::Conflict;
        rule.refused("record", conflict, &why, cluster.record(&over))
            .await;
        rule.refused("deploy", conflict, &why, cluster.deploy(&over))
            .await;
        assert_listed(cluster, setup, &lease, Some(&written), &rule).await;
        wants_replicas(cluster, &lease, count, &rule).await;
    }
    remove(cluster, setup, &lease, &rule).await;
}

/// Checks that a repeated `record` or `deploy` does not change a running workload.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_repeated_deploy_changes_nothing(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a repeated deploy changes nothing");
    let lease = setup.lease(1, 12);
    let deployment = setup.deployment(&lease, 1);
    rule.ok("deploy", cluster.deploy(&deployment)).await;
    let mut changes = rule.at_once("changes", || cluster.changes());
    wait_for(&mut changes, setup, &lease, Some(Health::Good), &rule).await;
    let before = rule.ok("lease_status", cluster.lease_status(&lease)).await;
    let follow = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    let mut logs = rule.ok("lease_logs", cluster.lease_logs(&lease, follow)).await;
    for _ in 0..2 {
        rule.ok("record", cluster.record(&deployment)).await;
        rule.ok("deploy", cluster.deploy(&deployment)).await;
    }
    let is_wrong = |health| health != Some(Health::Good);
    if let Some(health) = unexpected_health(&mut changes, setup, &lease, is_wrong, &rule).await {
        let health = health.map_or_else(|| "not running".to_owned(), |h| format!("{h:?}"));
        rule.broken(format!(
            "deploying the same again was expected to leave {lease} as it runs; it was reported as {health}"
        ));
    }
    let short = Rule::new(rule.to_string(), setup.quiet_time);
    let ended = short.find("lease_logs", &mut logs, |_| None::<()>).await == SearchResult::Ended;
    rule.holds(
        !ended,
        format!("deploying the same again was expected to leave {lease} as it runs; its followed logs ended"),
    );
    let after = rule.ok("lease_status", cluster.lease_status(&lease)).await;
    rule.holds(
        after == before,
        format!("deploying the same again was expected to leave {before:?}; it is {after:?}"),
    );
    remove(cluster, setup, &lease, &rule).await;
}

/// Checks that a workload with a broken image never becomes healthy. The backend may also refuse the deploy.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_broken_image_is_never_healthy(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a broken image is never healthy");
    let lease = setup.lease(1, 13);
    let broken = Setup {
        image: setup.broken_image.clone(),
        run: Vec::new(),
        ..setup.clone()
    };
    let deployment = broken.deployment(&lease, 1);
    // Subscribed before the deploy, because even a momentary report of health is a violation.
    let mut changes = rule.at_once("changes", || cluster.changes());
    wait_for(&mut changes, setup, &lease, None, &rule).await;
    match rule.answer("deploy", cluster.deploy(&deployment)).await {
        Ok(()) => {
            let claimed = |health| health == Some(Health::Good);
            let claimed = unexpected_health(&mut changes, setup, &lease, claimed, &rule).await;
            rule.holds(
                claimed.is_none(),
                format!(
                    "`changes` was expected to report no health for an image that never runs; it reported {lease} as Good, \
                     image `{}`",
                    setup.broken_image
                ),
            );
            let web = rule
                .ok("service_status", cluster.service_status(&lease, "web"))
                .await;
            rule.holds(
                web.available == 0,
                format!("no replica of a broken image was expected to be available: {web:?}"),
            );
        }
        Err(error) if error.kind() == ErrorKind::Invalid => {
            let why = "`deploy` refused the same workload, so `record` must refuse it too";
            let record = cluster.record(&deployment);
            rule.refused("record", ErrorKind::Invalid, why, record).await;
        }
        Err(error) => rule.failed("deploy", &error),
    }
    remove(cluster, setup, &lease, &rule).await;
}

/// Checks that a teardown does not affect other leases, even of the same tenant.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn leases_are_independent(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("leases are independent");
    let (goes, stays) = (setup.lease(1, 6), setup.lease(1, 7));
    for lease in [&goes, &stays] {
        rule.ok("deploy", cluster.deploy(&setup.deployment(lease, 1)))
            .await;
    }
    remove(cluster, setup, &goes, &rule).await;
    let wanted = setup.deployment(&stays, 1);
    assert_listed(cluster, setup, &stays, Some(&wanted), &rule).await;
    let mut changes = rule.at_once("changes", || cluster.changes());
    wait_for(&mut changes, setup, &stays, Some(Health::Good), &rule).await;
    remove(cluster, setup, &stays, &rule).await;
}

/// Checks that a new client of the same backend, created by `open`, lists all recorded and deployed
/// workloads.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_restart_loses_no_lease(
    open: &(dyn Fn() -> BoxFuture<'static, Arc<dyn Cluster>> + Sync),
    setup: &Setup,
) {
    let rule = setup.rule("a restart loses no lease");
    let (recorded, deployed) = (setup.lease(1, 8), setup.lease(1, 9));
    {
        let cluster = rule.answer("open", open()).await;
        let record = setup.deployment(&recorded, 1);
        rule.ok("record", cluster.record(&record)).await;
        let deploy = setup.deployment(&deployed, 1);
        rule.ok("deploy", cluster.deploy(&deploy)).await;
    }
    let cluster = rule.answer("open", open()).await;
    for lease in [&recorded, &deployed] {
        let wanted = setup.deployment(lease, 1);
        assert_listed(&*cluster, setup, lease, Some(&wanted), &rule).await;
        remove(&*cluster, setup, lease, &rule).await;
    }
}
