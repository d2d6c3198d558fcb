//! The conformance suite of [`Cluster`].
//!
//! ```
//! use akash_provider_core::cluster::{MemoryCluster, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse()?;
//! let cluster = MemoryCluster::default();
//! cluster.set_start_lines(["listening", "ready", "served /"]); // output of a container at its start
//! conformance::suite(&cluster, &conformance::Setup::new(provider)).await;
//! # Ok(()) }
//! ```
//!
//! The suite deploys a small service for generated leases and removes it again. Every call has a time limit.
//! A failure names the rule, the call and the expected result.
//!
//! Some faults cannot be caused through the [`Cluster`] trait. The tests of a backend call these checks with
//! a function that causes the fault: [`a_restart_loses_no_lease`],
//! [`damaged_records_are_reported`], [`a_lost_watch_reports_no_health`] and
//! [`providers_are_isolated`].

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
pub use crate::conformance::{ActionFn, Outage};
use crate::manifest::{Group, Service, ServiceExpose};
use crate::types::{Address, Cpu, DeploymentId, Gpu, LeaseId, Memory, Resources, Storage};
use checks::{listed, remove, wait_for};
pub use facets::{
    a_hostname_has_one_holder, an_address_moves_within_its_tenant, commands_run_in_existing_services,
};
use futures::future::{BoxFuture, FutureExt};
pub use outage::a_lost_watch_reports_no_health;
pub use providers::providers_are_isolated;
pub use records::{Damage, DamageFn, damaged_records_are_reported};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
pub use streams::{
    logs_contain_all_written_lines, streams_end_at_teardown, streams_exist_for_existing_services_only,
};
pub use workloads::{
    a_broken_image_is_never_healthy, a_deployed_lease_becomes_healthy, a_newer_deployment_replaces_the_older,
    a_recorded_deployment_is_listed, a_repeated_deploy_changes_nothing, a_restart_loses_no_lease,
    an_older_term_writes_nothing, an_unknown_lease_is_not_found, leases_are_independent,
};

/// Parameters of the suite for one backend.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Setup {
    /// Provider of the generated leases.
    pub provider: Address,
    /// Image of the deployed service. The image must run without arguments or with [`Setup::run`].
    pub image: String,
    /// Command of the service, as in a manifest; empty for the default command of the image.
    pub run: Vec<String>,
    /// Minimum number of lines that each replica writes to its output. With 0, the content of logs is not
    /// checked.
    pub lines: usize,
    /// Image of a service that never becomes healthy.
    pub broken_image: String,
    /// A command that the image contains and that exits with code 0.
    pub command: Vec<String>,
    /// Time limit for each step of a check: a call, a teardown or a wait.
    pub timeout: Duration,
    /// Time to wait for unexpected events, such as a restart. Must exceed the reaction time of the backend.
    pub quiet_time: Duration,
    /// Interval between two polls.
    pub poll_interval: Duration,
}

impl Setup {
    /// Creates parameters for a fast backend that runs `nginx:1.27`.
    #[must_use]
    pub fn new(provider: Address) -> Self {
        Self {
            provider,
            image: "nginx:1.27".to_owned(),
            run: Vec::new(),
            // The entry point of nginx alone writes more lines.
            lines: 3,
            broken_image: "suite.invalid/never-runs:1".to_owned(),
            command: vec!["true".to_owned()],
            timeout: Duration::from_secs(5),
            quiet_time: Duration::from_millis(100),
            poll_interval: Duration::from_millis(1),
        }
    }

    fn rule(&self, name: impl Into<Cow<'static, str>>) -> Rule {
        Rule::new(name, self.timeout)
    }

    fn lease(&self, tenant: u8, dseq: u64) -> LeaseId {
        let owner = Address::from_bytes(&[tenant; 20]).expect("20 bytes are an address");
        let group = DeploymentId::new(owner, dseq).group(1);
        group.order(1).bid(self.provider.clone())
    }

    fn deployment(&self, lease: &LeaseId, count: u32) -> WorkloadSpec {
        let service = Service {
            command: Some(self.run.clone()).filter(|run| !run.is_empty()),
            count,
            expose: vec![expose(80, true), expose(9000, true)],
            ..Service::new("web", self.image.clone(), small_resources())
        };
        WorkloadSpec {
            epoch: 1,
            ..WorkloadSpec::new(lease.clone(), Arc::new(Group::new("dc", vec![service])))
        }
    }
}

fn small_resources() -> Resources {
    let cpu = Cpu::new(10, Vec::new());
    let memory = Memory::new(32 << 20, Vec::new());
    let volume = Storage::new("default", 32 << 20, Vec::new());
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
        global,
        ..ServiceExpose::new(port)
    }
}

/// Runs every check. Checks of facets that the backend lacks do nothing. The backend must have no workloads
/// of the provider.
///
/// # Panics
/// Panics when the backend violates a rule. The message names the rule.
pub async fn suite(cluster: &dyn Cluster, setup: &Setup) {
    for chapter in chapters(cluster, setup) {
        chapter.await;
    }
}

/// Runs the checks of [`suite`] concurrently, for a backend with slow teardowns.
///
/// # Panics
/// Panics when the backend violates a rule. The message names the rule.
pub async fn suite_concurrently(cluster: &dyn Cluster, setup: &Setup) {
    futures::future::join_all(chapters(cluster, setup)).await;
}

fn chapters<'a>(cluster: &'a dyn Cluster, setup: &'a Setup) -> Vec<BoxFuture<'a, ()>> {
    vec![
        an_unknown_lease_is_not_found(cluster, setup).boxed(),
        a_recorded_deployment_is_listed(cluster, setup).boxed(),
        a_deployed_lease_becomes_healthy(cluster, setup).boxed(),
        a_newer_deployment_replaces_the_older(cluster, setup).boxed(),
        an_older_term_writes_nothing(cluster, setup).boxed(),
        a_repeated_deploy_changes_nothing(cluster, setup).boxed(),
        a_broken_image_is_never_healthy(cluster, setup).boxed(),
        logs_contain_all_written_lines(cluster, setup).boxed(),
        streams_exist_for_existing_services_only(cluster, setup).boxed(),
        streams_end_at_teardown(cluster, setup).boxed(),
        leases_are_independent(cluster, setup).boxed(),
        a_hostname_has_one_holder(cluster, setup).boxed(),
        an_address_moves_within_its_tenant(cluster, setup).boxed(),
        commands_run_in_existing_services(cluster, setup).boxed(),
        it_has_a_version(cluster, setup).boxed(),
    ]
}

async fn it_has_a_version(cluster: &dyn Cluster, setup: &Setup) {
    let rule = setup.rule("a cluster has a version");
    let version = rule.ok("version", cluster.version()).await;
    rule.holds(
        !version.is_empty(),
        "`version` was expected to be non-empty and is empty",
    );
}
