//! The suite every [`Cluster`] passes.
//!
//! ```
//! use akash_provider_core::cluster::{MemoryCluster, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse()?;
//! let cluster = MemoryCluster::default();
//! cluster.set_start_lines(["listening", "ready", "served /"]); // what a container would write by itself
//! conformance::suite(&cluster, &conformance::Setup::new(provider)).await;
//! # Ok(()) }
//! ```
//!
//! The suite deploys a small service for leases of its own and removes it again. Every call has a limit of time,
//! and what fails names the rule, the call, and what was expected of it.
//!
//! What a backend cannot be made to show from outside has chapters of its own, to which its tests say how it is
//! done: [`a_restart_forgets_nothing`], [`a_damaged_record_is_told_and_never_left_out`],
//! [`a_lost_watch_claims_nothing`] and [`providers_do_not_meet`].

mod checks;
mod facets;
mod outage;
mod providers;
mod records;
mod streams;
#[cfg(test)]
mod tests;
mod workloads;

use super::{Cluster, WorkloadSpec};
use crate::conformance::Rule;
pub use crate::conformance::{Act, Outage};
use crate::manifest::{Group, HttpOptions, Proto, Service, ServiceExpose};
use crate::types::{Address, Cpu, DeploymentId, Gpu, GroupId, LeaseId, Memory, OrderId, Resources, Storage};
use checks::{listed, remove, wait_for};
pub use facets::{
    a_hostname_has_one_holder, an_address_moves_within_its_tenant, commands_run_where_there_is_a_service,
};
use futures::future::{BoxFuture, FutureExt};
pub use outage::a_lost_watch_claims_nothing;
pub use providers::providers_do_not_meet;
pub use records::{Damage, Harm, a_damaged_record_is_told_and_never_left_out};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
pub use streams::{
    logs_have_what_was_written, streams_are_of_services_that_are_there, streams_end_at_teardown,
};
pub use workloads::{
    a_deployed_lease_gets_healthy_and_is_told, a_newer_deployment_replaces_the_older,
    a_recorded_deployment_is_listed, a_restart_forgets_nothing, an_older_term_writes_nothing,
    an_unknown_lease_is_not_found, leases_do_not_touch_each_other, the_same_again_disturbs_nothing,
    what_never_runs_is_never_healthy,
};

/// What the suite needs to know of a backend.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The provider whose leases the suite makes up.
    pub provider: Address,
    /// Image of the service deployed; it must run by itself, or with [`Setup::run`].
    pub image: String,
    /// Command of that service, as a manifest gives it; empty for the image's own.
    pub run: Vec<String>,
    /// Lines that each replica of that service writes to its output by itself once it runs, at least. With 0 what
    /// logs have in them is not checked.
    pub lines: usize,
    /// An image that never runs: deploying it is refused, or is never claimed to be healthy.
    pub broken_image: String,
    /// A command that ends with code 0 in that image.
    pub command: Vec<String>,
    /// How long anything may take: any one call, getting healthy, a teardown, the next item of a stream.
    pub patience: Duration,
    /// How long the suite listens where nothing is to be heard, such as a workload that restarts: longer than the
    /// backend takes to notice.
    pub quiet: Duration,
    /// Wait between two questions of the same kind.
    pub pause: Duration,
}

impl Setup {
    /// For a backend that answers within seconds, runs `nginx:1.27` and notices within 100 ms what becomes of it.
    #[must_use]
    pub fn new(provider: Address) -> Self {
        Self {
            provider,
            image: "nginx:1.27".to_owned(),
            run: Vec::new(),
            // Its entry point alone says more.
            lines: 3,
            broken_image: "suite.invalid/never-runs:1".to_owned(),
            command: vec!["true".to_owned()],
            patience: Duration::from_secs(5),
            quiet: Duration::from_millis(100),
            pause: Duration::from_millis(1),
        }
    }

    fn rule(&self, name: impl Into<Cow<'static, str>>) -> Rule {
        Rule::new(name, self.patience)
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

    fn deployment(&self, lease: &LeaseId, count: u32) -> WorkloadSpec {
        let service = Service {
            name: "web".to_owned(),
            image: self.image.clone(),
            command: Some(self.run.clone()).filter(|run| !run.is_empty()),
            args: None,
            env: None,
            resources: small_resources(),
            count,
            expose: vec![expose(80, true), expose(9000, true)],
            params: None,
            credentials: None,
        };
        WorkloadSpec {
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
        an_older_term_writes_nothing(cluster, setup).boxed(),
        the_same_again_disturbs_nothing(cluster, setup).boxed(),
        what_never_runs_is_never_healthy(cluster, setup).boxed(),
        logs_have_what_was_written(cluster, setup).boxed(),
        streams_are_of_services_that_are_there(cluster, setup).boxed(),
        streams_end_at_teardown(cluster, setup).boxed(),
        leases_do_not_touch_each_other(cluster, setup).boxed(),
        a_hostname_has_one_holder(cluster, setup).boxed(),
        an_address_moves_within_its_tenant(cluster, setup).boxed(),
        commands_run_where_there_is_a_service(cluster, setup).boxed(),
        it_has_a_version(cluster, setup).boxed(),
    ]
}

async fn it_has_a_version(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a cluster has a version");
    let version = rule.ok("version", cluster.version()).await;
    rule.holds(
        !version.is_empty(),
        "`version` was expected to say something and is empty",
    );
}
