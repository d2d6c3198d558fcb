//! The chapters of the facets; each runs only where the backend has the facet.

use super::{Setup, assert_kind, remove, wait_for};
use crate::cluster::{
    Cluster, ExecIo, ExecRequest, Health, HostnameDeclaration, Hostnames, IpDeclaration, LeasedIps,
};
use crate::error::ErrorKind;
use crate::manifest::Proto;
use crate::types::{LeaseId, id::ip_sharing_key};
use futures::stream::{self, StreamExt};
use std::sync::Arc;

fn name(hostname: &str) -> HostnameDeclaration {
    HostnameDeclaration {
        hostname: hostname.to_owned(),
        service: "web".to_owned(),
        external_port: 80,
    }
}

async fn holder(hostnames: &Arc<dyn Hostnames>, hostname: &str, what: &str) -> Option<LeaseId> {
    let all = hostnames.all_hostnames().await.expect(what);
    let mut holders = all.into_iter().filter(|h| h.hostname == hostname);
    let holder = holders.next().map(|h| h.lease);
    assert!(holders.next().is_none(), "{what}: `{hostname}` is listed once");
    holder
}

/// A declared hostname is listed once; declaring it for another lease moves it; only its holder takes it back.
///
/// # Panics
/// When it is not so.
pub async fn a_hostname_has_one_holder(cluster: &dyn Cluster, setup: &Setup) {
    let what = "a hostname has one holder";
    let Some(hostnames) = cluster.hostnames() else {
        return;
    };
    let (one, two) = (setup.lease(1, 20), setup.lease(1, 21));
    let (first, second) = ("first.suite.example", "second.suite.example");
    for lease in [&one, &two] {
        cluster.deploy(&setup.deployment(lease, 1)).await.expect(what);
    }
    for _ in 0..2 {
        hostnames.declare_hostname(&one, &name(first)).await.expect(what);
    }
    hostnames.declare_hostname(&one, &name(second)).await.expect(what);
    assert_eq!(
        holder(&hostnames, first, what).await.as_ref(),
        Some(&one),
        "{what}"
    );
    hostnames.declare_hostname(&two, &name(first)).await.expect(what);
    assert_eq!(
        holder(&hostnames, first, what).await.as_ref(),
        Some(&two),
        "{what}: it moves"
    );
    hostnames.purge_declared_hostname(&one, first).await.expect(what);
    hostnames.purge_declared_hostnames(&one).await.expect(what);
    assert_eq!(
        holder(&hostnames, second, what).await,
        None,
        "{what}: all of a lease go"
    );
    let kept = holder(&hostnames, first, what).await;
    assert_eq!(kept.as_ref(), Some(&two), "{what}: only its holder takes it back");
    for _ in 0..2 {
        hostnames.purge_declared_hostname(&two, first).await.expect(what);
    }
    hostnames.purge_declared_hostnames(&two).await.expect(what);
    assert_eq!(holder(&hostnames, first, what).await, None, "{what}");
    for lease in [&one, &two] {
        remove(cluster, setup, lease, what).await;
    }
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

async fn declared(ips: &Arc<dyn LeasedIps>, lease: &LeaseId, what: &str) -> Vec<IpDeclaration> {
    let mut declared = ips.declared_ips(lease).await.expect(what);
    declared.sort();
    declared
}

/// A declared address is listed; without `overwrite` a second holder is a conflict, with it the address moves
/// between leases of the same tenant.
///
/// # Panics
/// When it is not so.
pub async fn an_address_moves_within_its_tenant(cluster: &dyn Cluster, setup: &Setup) {
    let what = "an address moves within its tenant";
    let Some(ips) = cluster.leased_ips() else {
        return;
    };
    let (one, two) = (setup.lease(1, 30), setup.lease(1, 31));
    for lease in [&one, &two] {
        cluster.deploy(&setup.deployment(lease, 1)).await.expect(what);
    }
    let (first, second) = (address(&one, 80), address(&one, 81));
    for ip in [&first, &first, &second] {
        ips.declare_ip(&one, ip, false).await.expect(what);
    }
    assert_eq!(
        declared(&ips, &one, what).await,
        [first.clone(), second.clone()],
        "{what}"
    );
    let refused = ips.declare_ip(&two, &first, false).await;
    assert_kind(refused, ErrorKind::Conflict, what);
    assert_eq!(
        declared(&ips, &one, what).await.len(),
        2,
        "{what}: a refusal changes nothing"
    );
    ips.purge_declared_ip(&one, &second).await.expect(what);
    let left = declared(&ips, &one, what).await;
    assert!(left.iter().eq([&first]), "{what}: one is taken back");
    ips.declare_ip(&two, &first, true).await.expect(what);
    assert_eq!(declared(&ips, &two, what).await, [first], "{what}: it moves");
    assert_eq!(declared(&ips, &one, what).await, [], "{what}: it moves");
    let usage = ips.usage().await.expect(what);
    assert!(usage.in_use <= usage.total, "{what}: use is within the pool");
    for lease in [&one, &two] {
        for _ in 0..2 {
            ips.purge_declared_ips(lease).await.expect(what);
        }
        assert_eq!(declared(&ips, lease, what).await, [], "{what}: all of a lease go");
        remove(cluster, setup, lease, what).await;
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

/// A command runs in a healthy service; without such a lease or service there is nothing to run it in.
///
/// # Panics
/// When it is not so.
pub async fn commands_run_where_there_is_a_service(cluster: &dyn Cluster, setup: &Setup) {
    let what = "commands run where there is a service";
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
    assert_kind(
        shell.exec(&lease, request("web", 0), no_io()).await,
        missing,
        what,
    );
    cluster.deploy(&setup.deployment(&lease, 1)).await.expect(what);
    wait_for(&mut cluster.changes(), setup, &lease, Some(Health::Good), what).await;
    assert_kind(shell.exec(&lease, request("db", 0), no_io()).await, missing, what);
    assert_kind(
        shell.exec(&lease, request("web", 1), no_io()).await,
        missing,
        what,
    );
    let code = shell.exec(&lease, request("web", 0), no_io()).await;
    assert_eq!(code.expect(what), 0, "{what}");
    remove(cluster, setup, &lease, what).await;
}
