//! The check of two providers on one cluster. The tests of a backend open the second client.

use super::Setup;
use super::checks::{assert_listed, remove, unexpected_health, wait_for};
use crate::cluster::{Cluster, Health, LogOptions};
use crate::conformance::Rule;
use crate::types::LeaseId;

/// Checks that no provider reads or changes the leases of another provider in the same cluster.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn providers_are_isolated(one: (&dyn Cluster, &Setup), other: (&dyn Cluster, &Setup)) {
    let ((ours, our_setup), (theirs, their_setup)) = (one, other);
    let rule = our_setup.rule("providers are isolated");
    let (lease, foreign) = (our_setup.lease(1, 50), their_setup.lease(1, 50));
    let mut foreign_changes = rule.at_once("changes", || theirs.changes());
    wait_for(&mut foreign_changes, their_setup, &foreign, None, &rule).await;
    let deployment = our_setup.deployment(&lease, 1);
    rule.ok("deploy", ours.deploy(&deployment)).await;
    let mut changes = rule.at_once("changes", || ours.changes());
    wait_for(&mut changes, our_setup, &lease, Some(Health::Good), &rule).await;
    // Each lease that is listed or reported must be of the client's provider.
    assert_listed(theirs, their_setup, &foreign, None, &rule).await;
    unexpected_health(&mut foreign_changes, their_setup, &foreign, |_| false, &rule).await;
    reads_nothing(theirs, &lease, &rule).await;
    // The result does not matter, but the lease must still run.
    drop(rule.answer("teardown_lease", theirs.teardown_lease(&lease)).await);
    assert_listed(ours, our_setup, &lease, Some(&deployment), &rule).await;
    let their_deployment = their_setup.deployment(&foreign, 1);
    rule.ok("deploy", theirs.deploy(&their_deployment)).await;
    wait_for(
        &mut foreign_changes,
        their_setup,
        &foreign,
        Some(Health::Good),
        &rule,
    )
    .await;
    let is_wrong = |health| health != Some(Health::Good);
    let disturbed = unexpected_health(&mut changes, our_setup, &lease, is_wrong, &rule).await;
    rule.holds(
        disturbed.is_none(),
        format!("{lease} was expected to run on beside a lease of another provider and is {disturbed:?}"),
    );
    remove(ours, our_setup, &lease, &rule).await;
    assert_listed(theirs, their_setup, &foreign, Some(&their_deployment), &rule).await;
    remove(theirs, their_setup, &foreign, &rule).await;
}

async fn reads_nothing(theirs: &dyn Cluster, lease: &LeaseId, rule: &Rule) {
    let group = rule.answer("manifest_group", theirs.manifest_group(lease)).await;
    let logs = theirs.lease_logs(lease, LogOptions::default());
    let reads = [
        ("manifest_group", matches!(group, Ok(Some(_)))),
        (
            "lease_status",
            rule.answer("lease_status", theirs.lease_status(lease))
                .await
                .is_ok(),
        ),
        ("lease_logs", rule.answer("lease_logs", logs).await.is_ok()),
    ];
    for (call, is_read) in reads {
        rule.holds(
            !is_read,
            format!("`{call}` was expected to return nothing of {lease}, which belongs to another provider"),
        );
    }
}
