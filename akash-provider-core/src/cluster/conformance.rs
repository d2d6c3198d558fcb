//! The suite every [`Cluster`] passes.
//!
//! ```
//! use akash_provider_core::cluster::{MemoryCluster, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse()?;
//! conformance::suite(&MemoryCluster::default(), &conformance::Setup::new(provider)).await;
//! # Ok(()) }
//! ```
//!
//! The suite deploys a small service for leases of its own and removes it again. What a backend cannot be made
//! to show from outside (a gap in its watch) is not checked here.

mod facets;
mod records;
#[cfg(test)]
mod tests;

use super::{Cluster, ClusterChange, Deployment, EventOptions, Health, LogOptions, Teardown, Unusable};
use crate::error::{Error, ErrorKind};
use crate::manifest::{Group, HttpOptions, Proto, Service, ServiceExpose};
use crate::types::{Address, Cpu, DeploymentId, Gpu, GroupId, LeaseId, Memory, OrderId, Resources, Storage};
pub use facets::{
    a_hostname_has_one_holder, an_address_moves_within_its_tenant, commands_run_where_there_is_a_service,
};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, StreamExt};
pub use records::{Damage, Harm, a_damaged_record_is_told_and_never_left_out};
use std::sync::Arc;
use std::time::Duration;

/// What the suite needs to know of a backend.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The provider whose leases the suite makes up.
    pub provider: Address,
    /// Image of the service deployed; it must run by itself.
    pub image: String,
    /// A command that ends with code 0 in that image.
    pub command: Vec<String>,
    /// How long anything may take: getting healthy, a teardown, the next item of a stream.
    pub patience: Duration,
    /// Wait between two questions of the same kind.
    pub pause: Duration,
}

impl Setup {
    /// For a backend that answers within seconds.
    #[must_use]
    pub fn new(provider: Address) -> Self {
        Self {
            provider,
            image: "nginx:1.27".to_owned(),
            command: vec!["true".to_owned()],
            patience: Duration::from_secs(5),
            pause: Duration::from_millis(1),
        }
    }

    /// A made-up lease of a made-up tenant.
    fn lease(&self, tenant: u8, dseq: u64) -> LeaseId {
        let owner = Address::from_bytes(&[tenant; 20]).expect("20 bytes are an address");
        let deployment = DeploymentId { owner, dseq };
        let group = GroupId { deployment, gseq: 1 };
        LeaseId {
            order: OrderId { group, oseq: 1 },
            provider: self.provider.clone(),
        }
    }

    fn deployment(&self, lease: &LeaseId, count: u32) -> Deployment {
        let service = Service {
            name: "web".to_owned(),
            image: self.image.clone(),
            command: None,
            args: None,
            env: None,
            resources: small_resources(),
            count,
            expose: vec![expose(80, true), expose(9000, true)],
            params: None,
            credentials: None,
        };
        Deployment {
            lease: lease.clone(),
            group: Arc::new(Group {
                name: "dc".to_owned(),
                services: vec![service],
            }),
            params: Arc::default(),
            hostnames: Vec::new(),
            ips: Vec::new(),
            epoch: 1,
        }
    }
}

fn small_resources() -> Resources {
    let cpu = Cpu {
        units: 10,
        attributes: Vec::new(),
    };
    let memory = Memory {
        bytes: 32 << 20,
        attributes: Vec::new(),
    };
    let volume = Storage {
        name: "default".to_owned(),
        bytes: 32 << 20,
        attributes: Vec::new(),
    };
    Resources {
        id: 1,
        cpu,
        memory,
        storage: vec![volume],
        gpu: Gpu::default(),
        endpoints: Vec::new(),
    }
}

fn expose(port: u16, global: bool) -> ServiceExpose {
    ServiceExpose {
        port,
        external_port: 0,
        proto: Proto::Tcp,
        service: String::new(),
        global,
        hosts: None,
        http_options: HttpOptions::default(),
        ip: String::new(),
        endpoint_sequence_number: 0,
    }
}

/// Runs every check, and the chapters of the facets the backend has, on a backend without workloads of the
/// setup's provider.
///
/// # Panics
/// Names the rule that the backend breaks.
pub async fn suite(cluster: &dyn Cluster, setup: &Setup) {
    for chapter in chapters(cluster, setup) {
        chapter.await;
    }
}

/// As [`suite`], with all checks under way at the same time: for a backend on which a teardown takes long and
/// several take no longer. Every check has leases of its own.
///
/// # Panics
/// Names the rule that the backend breaks.
pub async fn suite_at_once(cluster: &dyn Cluster, setup: &Setup) {
    futures::future::join_all(chapters(cluster, setup)).await;
}

fn chapters<'a>(cluster: &'a dyn Cluster, setup: &'a Setup) -> Vec<BoxFuture<'a, ()>> {
    vec![
        an_unknown_lease_is_not_found(cluster, setup).boxed(),
        a_recorded_deployment_is_listed(cluster, setup).boxed(),
        a_deployed_lease_gets_healthy_and_is_told(cluster, setup).boxed(),
        a_newer_deployment_replaces_the_older(cluster, setup).boxed(),
        streams_are_of_services_that_are_there(cluster, setup).boxed(),
        streams_end_at_teardown(cluster, setup).boxed(),
        leases_do_not_touch_each_other(cluster, setup).boxed(),
        a_hostname_has_one_holder(cluster, setup).boxed(),
        an_address_moves_within_its_tenant(cluster, setup).boxed(),
        commands_run_where_there_is_a_service(cluster, setup).boxed(),
        it_has_a_version(cluster).boxed(),
    ]
}

async fn it_has_a_version(cluster: &dyn Cluster) {
    let version = cluster.version().await.expect("version");
    assert!(!version.is_empty(), "version says something");
}

/// Fails the check `what` unless the answer is of this kind.
fn assert_kind<T>(answer: Result<T, Error>, kind: ErrorKind, what: &str) {
    let got = answer.map(drop).map_err(|e| e.kind());
    assert_eq!(got, Err(kind), "{what}");
}

/// Tears a lease down until it is done.
async fn remove(cluster: &dyn Cluster, setup: &Setup, lease: &LeaseId, what: &str) {
    let gone = async {
        while cluster.teardown_lease(lease).await.expect(what) == Teardown::InProgress {
            tokio::time::sleep(setup.pause).await;
        }
    };
    let in_time = tokio::time::timeout(setup.patience, gone).await;
    assert!(in_time.is_ok(), "{what}: the teardown of {lease} does not end");
}

async fn listed(cluster: &dyn Cluster, lease: &LeaseId, what: &str) -> Option<Deployment> {
    let all = cluster.deployments().await.expect(what);
    let is_of = |thing: &&Unusable| thing.is_of(lease);
    let unusable = all.unusable.iter().find(is_of);
    assert_eq!(unusable, None, "{what}: nothing of {lease} is unusable");
    let mut of_lease = all.deployments.into_iter().filter(|d| d.lease == *lease);
    let found = of_lease.next();
    assert_eq!(of_lease.next(), None, "{what}: a lease is listed once");
    found
}

/// Reads changes until the lease is known to be good (or, with `None`, not running).
async fn wait_for(
    changes: &mut BoxStream<'static, Result<ClusterChange, Error>>,
    setup: &Setup,
    lease: &LeaseId,
    wanted: Option<Health>,
    what: &str,
) {
    let seen = async {
        while let Some(change) = changes.next().await {
            let health = match change {
                Ok(ClusterChange::Snapshot { health }) => health.get(lease).copied(),
                Ok(ClusterChange::Health { lease: of, health }) if of == *lease => Some(health),
                Ok(ClusterChange::Health { .. } | ClusterChange::Lost) | Err(_) => continue,
            };
            if health == wanted {
                return true;
            }
        }
        false
    };
    let seen = tokio::time::timeout(setup.patience, seen).await;
    assert_eq!(
        seen,
        Ok(true),
        "{what}: the health of {lease} should become {wanted:?}"
    );
}

/// A teardown of an unknown lease is done; questions about it find nothing.
///
/// # Panics
/// When it is not so.
pub async fn an_unknown_lease_is_not_found(cluster: &dyn Cluster, setup: &Setup) {
    let what = "an unknown lease is not found";
    let lease = setup.lease(9, 1);
    let teardown = cluster.teardown_lease(&lease).await.expect(what);
    assert_eq!(teardown, Teardown::Done, "{what}: nothing to tear down is done");
    assert_eq!(listed(cluster, &lease, what).await, None, "{what}");
    assert_eq!(cluster.manifest_group(&lease).await.expect(what), None, "{what}");
    let missing = ErrorKind::NotFound;
    assert_kind(cluster.lease_status(&lease).await, missing, what);
    assert_kind(cluster.service_status(&lease, "web").await, missing, what);
    assert_kind(cluster.forwarded_port_status(&lease).await, missing, what);
    assert_kind(
        cluster.lease_logs(&lease, LogOptions::default()).await,
        missing,
        what,
    );
    assert_kind(
        cluster.lease_events(&lease, EventOptions::default()).await,
        missing,
        what,
    );
}

/// What is recorded is listed with its manifest, does not run, and is gone after a teardown.
///
/// # Panics
/// When it is not so.
pub async fn a_recorded_deployment_is_listed(cluster: &dyn Cluster, setup: &Setup) {
    let what = "a recorded deployment is listed";
    let lease = setup.lease(1, 2);
    let older = setup.deployment(&lease, 1);
    let newer = setup.deployment(&lease, 2);
    for deployment in [&older, &newer, &newer] {
        cluster.record(deployment).await.expect(what);
        assert_eq!(
            listed(cluster, &lease, what).await.as_ref(),
            Some(deployment),
            "{what}"
        );
        let group = cluster.manifest_group(&lease).await.expect(what);
        assert_eq!(group.as_ref(), Some(&deployment.group), "{what}");
    }
    let mut changes = cluster.changes();
    wait_for(&mut changes, setup, &lease, None, what).await;
    remove(cluster, setup, &lease, what).await;
    assert_eq!(
        listed(cluster, &lease, what).await,
        None,
        "{what}: after its teardown"
    );
}

/// The watch begins with a snapshot and tells when a deployed lease is healthy and when it is gone.
///
/// # Panics
/// When it is not so.
pub async fn a_deployed_lease_gets_healthy_and_is_told(cluster: &dyn Cluster, setup: &Setup) {
    let what = "a deployed lease gets healthy and is told";
    let lease = setup.lease(1, 3);
    let deployment = setup.deployment(&lease, 1);
    let mut changes = cluster.changes();
    wait_for(&mut changes, setup, &lease, None, what).await;
    cluster.deploy(&deployment).await.expect(what);
    wait_for(&mut changes, setup, &lease, Some(Health::Good), what).await;
    cluster.deploy(&deployment).await.expect(what);
    let mut late = cluster.changes();
    wait_for(&mut late, setup, &lease, Some(Health::Good), what).await;
    assert_eq!(listed(cluster, &lease, what).await, Some(deployment), "{what}");
    let status = cluster.lease_status(&lease).await.expect(what);
    let web = cluster.service_status(&lease, "web").await.expect(what);
    assert_eq!(
        status.services.get("web"),
        Some(&web),
        "{what}: both say the same"
    );
    assert_eq!((web.available, web.total), (1, 1), "{what}");
    assert_kind(
        cluster.service_status(&lease, "db").await,
        ErrorKind::NotFound,
        what,
    );
    let ports = cluster.forwarded_port_status(&lease).await.expect(what);
    assert_eq!(ports, status.forwarded_ports, "{what}: both say the same");
    let of_web = ports.get("web").into_iter().flatten();
    assert!(
        of_web.map(|p| p.port).eq([9000]),
        "{what}: port 9000 alone needs a port of the host"
    );
    remove(cluster, setup, &lease, what).await;
    wait_for(&mut changes, setup, &lease, None, what).await;
    assert_kind(cluster.lease_status(&lease).await, ErrorKind::NotFound, what);
}

/// A second deploy changes what runs and what is listed.
///
/// # Panics
/// When it is not so.
pub async fn a_newer_deployment_replaces_the_older(cluster: &dyn Cluster, setup: &Setup) {
    let what = "a newer deployment replaces the older";
    let lease = setup.lease(1, 4);
    for count in [1, 2, 1] {
        let deployment = setup.deployment(&lease, count);
        cluster.record(&deployment).await.expect(what);
        cluster.deploy(&deployment).await.expect(what);
        assert_eq!(listed(cluster, &lease, what).await, Some(deployment), "{what}");
        let web = cluster.service_status(&lease, "web").await.expect(what);
        assert_eq!(web.total, count, "{what}");
    }
    remove(cluster, setup, &lease, what).await;
}

/// Logs and events of a service that the lease does not have are not found; of one it has, they are.
///
/// # Panics
/// When it is not so.
pub async fn streams_are_of_services_that_are_there(cluster: &dyn Cluster, setup: &Setup) {
    let what = "streams are of services that are there";
    let lease = setup.lease(1, 10);
    cluster.deploy(&setup.deployment(&lease, 1)).await.expect(what);
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
            let logs = cluster.lease_logs(&lease, logs).await.map(drop);
            let events = cluster.lease_events(&lease, events).await.map(drop);
            if there {
                logs.and(events).expect(what);
            } else {
                assert_kind(logs, ErrorKind::NotFound, what);
                assert_kind(events, ErrorKind::NotFound, what);
            }
        }
    }
    remove(cluster, setup, &lease, what).await;
}

/// Followed logs and events end when the lease is torn down.
///
/// # Panics
/// When it is not so.
pub async fn streams_end_at_teardown(cluster: &dyn Cluster, setup: &Setup) {
    let what = "streams end at teardown";
    let lease = setup.lease(1, 5);
    cluster.deploy(&setup.deployment(&lease, 1)).await.expect(what);
    let logs = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    let events = EventOptions {
        follow: true,
        ..EventOptions::default()
    };
    let mut logs = cluster.lease_logs(&lease, logs).await.expect(what);
    let mut events = cluster.lease_events(&lease, events).await.expect(what);
    remove(cluster, setup, &lease, what).await;
    let ended = async {
        while logs.next().await.is_some() {}
        while events.next().await.is_some() {}
    };
    let ended = tokio::time::timeout(setup.patience, ended).await;
    assert!(ended.is_ok(), "{what}: a stream goes on");
}

/// Tearing one lease down leaves another lease, also of the same tenant, as it is.
///
/// # Panics
/// When it is not so.
pub async fn leases_do_not_touch_each_other(cluster: &dyn Cluster, setup: &Setup) {
    let what = "leases do not touch each other";
    let (goes, stays) = (setup.lease(1, 6), setup.lease(1, 7));
    for lease in [&goes, &stays] {
        cluster.deploy(&setup.deployment(lease, 1)).await.expect(what);
    }
    remove(cluster, setup, &goes, what).await;
    assert!(listed(cluster, &stays, what).await.is_some(), "{what}");
    wait_for(&mut cluster.changes(), setup, &stays, Some(Health::Good), what).await;
    remove(cluster, setup, &stays, what).await;
}

/// What was recorded and deployed is there after the backend's client was made anew. `open` makes a client of
/// the same backend each time.
///
/// # Panics
/// When it is not so.
pub async fn a_restart_forgets_nothing(
    open: &(dyn Fn() -> BoxFuture<'static, Arc<dyn Cluster>> + Sync),
    setup: &Setup,
) {
    let what = "a restart forgets nothing";
    let (recorded, deployed) = (setup.lease(1, 8), setup.lease(1, 9));
    {
        let cluster = open().await;
        let record = cluster.record(&setup.deployment(&recorded, 1)).await;
        record.expect(what);
        let deploy = cluster.deploy(&setup.deployment(&deployed, 1)).await;
        deploy.expect(what);
    }
    let cluster = open().await;
    for lease in [&recorded, &deployed] {
        let there = listed(&*cluster, lease, what).await;
        assert_eq!(there, Some(setup.deployment(lease, 1)), "{what}");
        remove(&*cluster, setup, lease, what).await;
    }
}
