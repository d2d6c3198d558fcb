//! In-memory cluster that generates the requested number of log lines. The ordinary in-memory cluster stores at
//! most a thousand.

use akash_provider_core::cluster::{
    Cluster, ClusterChange, EventOptions, ForwardedPort, Hostnames, LeaseEvent, LeaseStatus, LeasedIps,
    Listing, LogLine, LogOptions, MemoryCluster, ServiceStatus, Shell, Teardown, WorkloadSpec,
};
use akash_provider_core::error::Error;
use akash_provider_core::manifest::Group;
use akash_provider_core::types::LeaseId;
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Length of a log line in bytes, as in the measurement of the Go provider.
const LINE: usize = 105;

/// In-memory cluster with generated logs.
#[derive(Debug)]
pub(crate) struct Talkative(pub(crate) MemoryCluster);

#[async_trait]
impl Cluster for Talkative {
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        self.0.deploy(deployment).await
    }
    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        self.0.record(deployment).await
    }
    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        self.0.changes()
    }
    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        self.0.teardown_lease(lease).await
    }
    async fn deployments(&self) -> Result<Listing, Error> {
        self.0.deployments().await
    }
    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        self.0.manifest_group(lease).await
    }
    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        self.0.lease_status(lease).await
    }
    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        self.0.service_status(lease, service).await
    }
    async fn forwarded_port_status(
        &self,
        lease: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        self.0.forwarded_port_status(lease).await
    }

    /// Returns generated lines if the request limits the number of lines. Otherwise returns the stored lines.
    async fn lease_logs(
        &self,
        lease: &LeaseId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        let Some(count) = options.tail_lines else {
            return self.0.lease_logs(lease, options).await;
        };
        let lines = (0..count).map(|number| {
            let message = format!("{number:>LINE$}");
            let name = "web-7c9d8f5b6d-x2x7k".to_owned();
            Ok(LogLine { name, message })
        });
        Ok(stream::iter(lines).boxed())
    }

    async fn lease_events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        self.0.lease_events(lease, options).await
    }
    async fn version(&self) -> Result<String, Error> {
        self.0.version().await
    }
    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        self.0.hostnames()
    }
    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        self.0.leased_ips()
    }
    fn shell(&self) -> Option<Arc<dyn Shell>> {
        self.0.shell()
    }
}
