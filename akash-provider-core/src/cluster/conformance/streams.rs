//! Checks of logs and events.

#![expect(clippy::disallowed_methods, reason = "a suite tests a backend in real time")]

use super::Setup;
use super::checks::{remove, wait_for};
use crate::cluster::{Cluster, EventOptions, Health, LogLine, LogOptions};
use crate::conformance::{Rule, SearchResult};
use crate::error::{Error, ErrorKind};
use crate::types::LeaseId;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Checks that logs and events exist only for the services of the lease.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn streams_exist_for_existing_services_only(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("streams exist for existing services only");
    let lease = setup.lease(1, 10);
    rule.ok("deploy", cluster.deploy(&setup.deployment(&lease, 1)))
        .await;
    for follow in [false, true] {
        for (services, there) in [
            (&["web"][..], true),
            (&["nosuch"], false),
            (&["web", "nosuch"], false),
        ] {
            let services: Vec<String> = services.iter().map(|&name| name.to_owned()).collect();
            let events = EventOptions {
                services: services.clone(),
                follow,
            };
            let logs = LogOptions {
                services,
                follow,
                tail_lines: None,
            };
            let (logs, events) = (
                cluster.lease_logs(&lease, logs),
                cluster.lease_events(&lease, events),
            );
            if there {
                drop(rule.ok("lease_logs", logs).await);
                drop(rule.ok("lease_events", events).await);
            } else {
                let (kind, why) = (ErrorKind::NotFound, "the lease has no service `nosuch`");
                rule.refused("lease_logs", kind, why, logs).await;
                rule.refused("lease_events", kind, why, events).await;
            }
        }
    }
    remove(cluster, setup, &lease, &rule).await;
}

/// Checks that followed logs and events end when the lease is torn down.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn streams_end_at_teardown(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("streams end at teardown");
    let lease = setup.lease(1, 5);
    rule.ok("deploy", cluster.deploy(&setup.deployment(&lease, 1)))
        .await;
    let logs = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    let events = EventOptions {
        follow: true,
        ..EventOptions::default()
    };
    let mut logs = rule.ok("lease_logs", cluster.lease_logs(&lease, logs)).await;
    let mut events = rule
        .ok("lease_events", cluster.lease_events(&lease, events))
        .await;
    remove(cluster, setup, &lease, &rule).await;
    ends(&rule, "lease_logs", &mut logs).await;
    ends(&rule, "lease_events", &mut events).await;
}

async fn ends<T>(rule: &Rule, call: &str, stream: &mut BoxStream<'static, T>) {
    let end = rule.find(call, stream, |_| None::<()>).await;
    rule.holds(
        end == SearchResult::Ended,
        format!(
            "a followed `{call}` was expected to end within {:?} of the teardown and goes on",
            rule.timeout()
        ),
    );
}

/// Log lines by replica.
type Lines = BTreeMap<String, Vec<String>>;

/// Reads logs to their end.
async fn read(cluster: &dyn Cluster, lease: &LeaseId, tail_lines: Option<u64>, rule: &Rule) -> Lines {
    let options = LogOptions {
        services: vec!["web".to_owned()],
        follow: false,
        tail_lines,
    };
    let mut lines = Lines::new();
    let mut stream = rule.ok("lease_logs", cluster.lease_logs(lease, options)).await;
    let end = rule.find("lease_logs", &mut stream, |line: Result<LogLine, Error>| {
        let line = line.unwrap_or_else(|error| rule.failed("lease_logs", &error));
        lines.entry(line.name).or_default().push(line.message);
        None::<()>
    });
    let end = end.await;
    rule.holds(
        end == SearchResult::Ended,
        "`lease_logs` without `follow` was expected to end at the last line and goes on",
    );
    lines
}

fn counts(lines: &Lines) -> String {
    let each: Vec<String> = lines
        .iter()
        .map(|(name, lines)| format!("{name}: {}", lines.len()))
        .collect();
    if each.is_empty() {
        "none".to_owned()
    } else {
        each.join(", ")
    }
}

/// Checks that logs contain the lines of every replica, the oldest first, and that `tail_lines` limits the
/// lines per replica. Skipped if [`Setup::lines`] is 0.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn logs_contain_all_written_lines(cluster: &dyn Cluster, setup: &Setup) {
    if setup.lines == 0 {
        return;
    }
    let rule = setup.rule("logs contain all written lines");
    let lease = setup.lease(1, 15);
    rule.ok("deploy", cluster.deploy(&setup.deployment(&lease, 2)))
        .await;
    let mut changes = rule.at_once("changes", || cluster.changes());
    wait_for(&mut changes, setup, &lease, Some(Health::Good), &rule).await;
    every_replica_has_lines(cluster, setup, &lease, &rule).await;
    for tail in [1, 2] {
        the_tail_is_the_end(cluster, &lease, tail, &rule).await;
    }
    let options = LogOptions {
        services: Vec::new(),
        follow: true,
        tail_lines: Some(1),
    };
    let mut followed = rule.ok("lease_logs", cluster.lease_logs(&lease, options)).await;
    let first = rule
        .find("lease_logs", &mut followed, |line| line.ok().map(drop))
        .await;
    rule.holds(
        first == SearchResult::Item(()),
        "`lease_logs` with `follow` was expected to start with the existing lines and returned none",
    );
    remove(cluster, setup, &lease, &rule).await;
}

async fn every_replica_has_lines(cluster: &dyn Cluster, setup: &Setup, lease: &LeaseId, rule: &Rule) {
    let until = Instant::now() + setup.timeout;
    loop {
        let lines = read(cluster, lease, None, rule).await;
        if lines.len() == 2 && lines.values().all(|of| of.len() >= setup.lines) {
            return;
        }
        rule.holds(
            Instant::now() < until,
            format!(
                "`lease_logs` was expected to have {} lines or more of each of 2 replicas, as image `{}` writes \
                 them (Setup::lines; 0 where it writes none), within {:?}; lines: {}",
                setup.lines,
                setup.image,
                setup.timeout,
                counts(&lines)
            ),
        );
        tokio::time::sleep(setup.poll_interval).await;
    }
}

async fn the_tail_is_the_end(cluster: &dyn Cluster, lease: &LeaseId, tail: usize, rule: &Rule) {
    let before = read(cluster, lease, None, rule).await;
    let end = read(cluster, lease, Some(tail as u64), rule).await;
    let after = read(cluster, lease, None, rule).await;
    let is_short = end.len() == before.len() && end.values().all(|lines| lines.len() <= tail);
    rule.holds(
        is_short,
        format!(
            "`lease_logs` with `tail_lines` {tail} was expected to return at most this number of lines for each of {} \
             replicas; lines: {}",
            before.len(),
            counts(&end)
        ),
    );
    let last = |(name, lines): (&String, &Vec<String>)| {
        let skip = lines.len().saturating_sub(tail);
        (name.clone(), lines[skip..].to_vec())
    };
    let wanted: Lines = before.iter().map(last).collect();
    // Lines that were written in the meantime make the last lines unknown.
    rule.holds(
        before != after || end == wanted,
        format!("`lease_logs` with `tail_lines` {tail} was expected to return the last lines {wanted:?} and returned {end:?}"),
    );
}
