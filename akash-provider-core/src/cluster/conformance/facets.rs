//! Checks of the facets. Each check runs only if the backend has the facet.

use super::{Setup, remove, wait_for};
use crate::cluster::{
    Cluster, ExecIo, ExecRequest, Health, HostnameDeclaration, Hostnames, IpDeclaration, LeasedIps,
};
use crate::conformance::Rule;
use crate::error::ErrorKind;
use crate::manifest::Proto;
use crate::types::{LeaseId, id::ip_sharing_key};
use futures::stream::{self, StreamExt};
use std::sync::Arc;

fn name(hostname: &str) -> HostnameDeclaration {
    HostnameDeclaration::new(hostname, "web", 80)
}

async fn holder(hostnames: &Arc<dyn Hostnames>, hostname: &str, rule: &Rule) -> Option<LeaseId> {
    let all = rule.ok("all_hostnames", hostnames.all_hostnames()).await;
    let mut holders = all.into_iter().filter(|h| h.hostname == hostname);
    let holder = holders.next().map(|h| h.lease);
    assert!(
        holders.next().is_none(),
        "{rule}: `all_hostnames` was expected to list `{hostname}` once"
    );
    holder
}

/// Checks that a hostname belongs to one lease and is listed once. A declaration by another lease moves the
/// hostname. Only the lease that has the hostname can remove it.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn a_hostname_has_one_holder(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a hostname has one holder");
    let Some(hostnames) = cluster.hostnames() else {
        return;
    };
    let (one, two) = (setup.lease(1, 20), setup.lease(1, 21));
    let (first, second) = ("first.suite.example", "second.suite.example");
    for lease in [&one, &two] {
        rule.ok("deploy", cluster.deploy(&setup.deployment(lease, 1)))
            .await;
    }
    for _ in 0..2 {
        rule.ok("declare_hostname", hostnames.declare_hostname(&one, &name(first)))
            .await;
    }
    rule.ok(
        "declare_hostname",
        hostnames.declare_hostname(&one, &name(second)),
    )
    .await;
    assert_eq!(
        holder(&hostnames, first, &rule).await.as_ref(),
        Some(&one),
        "{rule}: `all_hostnames` was expected to have `{first}` for the lease that declared it"
    );
    rule.ok("declare_hostname", hostnames.declare_hostname(&two, &name(first)))
        .await;
    assert_eq!(
        holder(&hostnames, first, &rule).await.as_ref(),
        Some(&two),
        "{rule}: a name declared for another lease was expected to move to that lease"
    );
    only_its_holder_takes_it_back(&hostnames, (&one, &two), (first, second), &rule).await;
    for lease in [&one, &two] {
        remove(cluster, setup, lease, &rule).await;
    }
}

/// Checks that a lease can remove only its own hostnames. Lease `two` must have the hostname `first`, and
/// lease `one` the hostname `second`.
async fn only_its_holder_takes_it_back(
    hostnames: &Arc<dyn Hostnames>,
    (one, two): (&LeaseId, &LeaseId),
    (first, second): (&str, &str),
    rule: &Rule,
) {
    rule.ok(
        "purge_declared_hostname",
        hostnames.purge_declared_hostname(one, first),
    )
    .await;
    rule.ok(
        "purge_declared_hostnames",
        hostnames.purge_declared_hostnames(one),
    )
    .await;
    assert_eq!(
        holder(hostnames, second, rule).await,
        None,
        "{rule}: `purge_declared_hostnames` was expected to remove all names of a lease"
    );
    let current_holder = holder(hostnames, first, rule).await;
    assert_eq!(
        current_holder.as_ref(),
        Some(two),
        "{rule}: only the holder was expected to remove `{first}`"
    );
    for _ in 0..2 {
        rule.ok(
            "purge_declared_hostname",
            hostnames.purge_declared_hostname(two, first),
        )
        .await;
    }
    rule.ok(
        "purge_declared_hostnames",
        hostnames.purge_declared_hostnames(two),
    )
    .await;
    assert_eq!(
        holder(hostnames, first, rule).await,
        None,
        "{rule}: the name that the holder removed was expected to be absent"
    );
}

fn address(lease: &LeaseId, external_port: u16) -> IpDeclaration {
    IpDeclaration {
        service: "web".to_owned(),
        port: 80,
        external_port,
        proto: Proto::Tcp,
        sharing_key: ip_sharing_key(lease.owner(), "suite"),
    }
}

async fn declared(ips: &Arc<dyn LeasedIps>, lease: &LeaseId, rule: &Rule) -> Vec<IpDeclaration> {
    let mut declared = rule.ok("declared_ips", ips.declared_ips(lease)).await;
    declared.sort();
    declared
}

/// Checks that a declared address is listed. Also checks that another lease of the same tenant can take over
/// the address with `overwrite`, but not without `overwrite`.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn an_address_moves_within_its_tenant(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("an address moves within its tenant");
    let Some(ips) = cluster.leased_ips() else {
        return;
    };
    let (one, two) = (setup.lease(1, 30), setup.lease(1, 31));
    for lease in [&one, &two] {
        rule.ok("deploy", cluster.deploy(&setup.deployment(lease, 1)))
            .await;
    }
    let (first, second) = (address(&one, 80), address(&one, 81));
    for ip in [&first, &first, &second] {
        rule.ok("declare_ip", ips.declare_ip(&one, ip, false)).await;
    }
    assert_eq!(
        declared(&ips, &one, &rule).await,
        [first.clone(), second.clone()],
        "{rule}: `declared_ips` was expected to have each declared address once"
    );
    let why = "another lease holds the key and `overwrite` is false";
    let refused = ips.declare_ip(&two, &first, false);
    rule.refused("declare_ip", ErrorKind::Conflict, why, refused)
        .await;
    assert_eq!(
        declared(&ips, &one, &rule).await.len(),
        2,
        "{rule}: a refused declaration was expected to change nothing"
    );
    rule.ok("purge_declared_ip", ips.purge_declared_ip(&one, &second))
        .await;
    let left = declared(&ips, &one, &rule).await;
    assert!(
        left.iter().eq([&first]),
        "{rule}: `purge_declared_ip` was expected to remove that address"
    );
    rule.ok("declare_ip", ips.declare_ip(&two, &first, true)).await;
    assert_eq!(
        declared(&ips, &two, &rule).await,
        [first],
        "{rule}: with `overwrite` the address was expected to move"
    );
    assert_eq!(
        declared(&ips, &one, &rule).await,
        [],
        "{rule}: with `overwrite` the address was expected to move"
    );
    let usage = rule.ok("usage", ips.usage()).await;
    assert!(
        usage.in_use <= usage.total,
        "{rule}: `usage` was expected to be within the pool"
    );
    for lease in [&one, &two] {
        for _ in 0..2 {
            rule.ok("purge_declared_ips", ips.purge_declared_ips(lease)).await;
        }
        assert_eq!(
            declared(&ips, lease, &rule).await,
            [],
            "{rule}: `purge_declared_ips` was expected to remove all addresses of a lease"
        );
        remove(cluster, setup, lease, &rule).await;
    }
}

fn no_io() -> ExecIo {
    ExecIo {
        stdin: None,
        stdout: Box::new(tokio::io::sink()),
        stderr: Box::new(tokio::io::sink()),
        resize: stream::empty().boxed(),
    }
}

/// Checks that a command runs in a healthy service, and that a missing lease or service is an error.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn commands_run_in_existing_services(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("commands run in existing services");
    let Some(shell) = cluster.shell() else {
        return;
    };
    let lease = setup.lease(1, 40);
    let request = |service: &str, replica| ExecRequest {
        service: service.to_owned(),
        replica,
        command: setup.command.clone(),
        tty: false,
    };
    let missing = ErrorKind::NotFound;
    let run = shell.exec(&lease, request("web", 0), no_io());
    rule.refused("exec", missing, "the lease is unknown", run).await;
    rule.ok("deploy", cluster.deploy(&setup.deployment(&lease, 1)))
        .await;
    let mut changes = rule.at_once("changes", || cluster.changes());
    wait_for(&mut changes, setup, &lease, Some(Health::Good), &rule).await;
    let run = shell.exec(&lease, request("db", 0), no_io());
    rule.refused("exec", missing, "the lease has no service `db`", run)
        .await;
    let run = shell.exec(&lease, request("web", 1), no_io());
    rule.refused("exec", missing, "the service has no replica 1", run)
        .await;
    let code = rule
        .ok("exec", shell.exec(&lease, request("web", 0), no_io()))
        .await;
    assert_eq!(
        code, 0,
        "{rule}: `exec` was expected to return the exit code of {:?}",
        setup.command
    );
    remove(cluster, setup, &lease, &rule).await;
}
