//! The check of a lost watch. The tests of a backend cause the outage.

use super::Setup;
use super::checks::{health_in, remove, unexpected_health, wait_for};
use crate::cluster::{Cluster, ClusterChange, Health};
use crate::conformance::{Outage, SearchResult};

/// Checks that watchers receive no health while the backend cannot observe its workloads, and receive a
/// snapshot afterwards.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_lost_watch_reports_no_health(cluster: &dyn Cluster, setup: &Setup, outage: &Outage<'_>) {
    let rule = setup.rule("a lost watch reports no health");
    let lease = setup.lease(1, 16);
    let deployment = setup.deployment(&lease, 1);
    rule.ok("deploy", cluster.deploy(&deployment)).await;
    let mut early = rule.at_once("changes", || cluster.changes());
    wait_for(&mut early, setup, &lease, Some(Health::Good), &rule).await;
    (outage.start)().await;
    let result = rule.find("changes", &mut early, |change| {
        let is_lost = matches!(change, Ok(ClusterChange::Lost) | Err(_));
        let health = health_in(&rule, setup, &lease, &change);
        (is_lost || health == Some(Some(Health::Unknown))).then_some(())
    });
    let result = result.await;
    rule.holds(
        result == SearchResult::Item(()),
        format!(
            "`changes` was expected to report `Lost`, or {lease} as Unknown, within {:?} of an outage",
            setup.timeout
        ),
    );
    let mut late = rule.at_once("changes", || cluster.changes());
    let claimed = unexpected_health(&mut late, setup, &lease, |h| h == Some(Health::Good), &rule).await;
    rule.holds(
        claimed.is_none(),
        format!("`changes` was expected to report no health of {lease} during an outage and reported Good"),
    );
    (outage.end)().await;
    for watcher in [&mut early, &mut late] {
        wait_for(watcher, setup, &lease, Some(Health::Good), &rule).await;
    }
    remove(cluster, setup, &lease, &rule).await;
}
