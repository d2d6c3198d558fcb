//! Implementation of the `Cluster` port.

use super::manifests::Basis;
use super::{ClusterContext, KubeCluster};
use crate::state::ObjectCache;
use crate::statistics::Operation;
use akash_provider_core::cluster::{
    Cluster, ClusterChange, EventOptions, ExecIo, ExecRequest, ForwardedPort, Hostnames, LeaseEvent,
    LeaseStatus, LeasedIps, Listing, LogLine, LogOptions, ServiceStatus, Shell, Teardown, WorkloadSpec,
};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::Group;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::rights;
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::sync::Arc;

const RECORD: &str = "record";

#[async_trait]
impl Cluster for KubeCluster {
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let deploy = self.inner.deploy(deployment);
        let deployed = self.inner.counters.run(Operation::Deploy, deploy).await;
        deployed.map_err(rights::retried)
    }

    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let limit = self.inner.settings.call_timeout;
        // The tenant waits, so one timeout applies to all calls together.
        let record = self.inner.record(deployment, Basis::Live, RECORD);
        let recorded = tokio::time::timeout(limit, record).await;
        let slow = |_| {
            let message = format!("not recorded within {limit:?}: the API server does not respond");
            Error::new(ErrorKind::Timeout, RECORD, message)
        };
        recorded.map_err(slow)?.map(drop)
    }

    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        self.inner.state.changes()
    }

    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        let teardown = self.inner.teardown(lease);
        self.inner.counters.run(Operation::Teardown, teardown).await
    }

    async fn deployments(&self) -> Result<Listing, Error> {
        self.inner.listing("deployments").await
    }

    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        let recorded = self.inner.recorded_of(lease, "manifest_group").await?;
        Ok(recorded.map(|deployment| deployment.group))
    }

    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        self.inner.watched(lease)?.lease_status(lease)
    }

    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        self.inner.watched(lease)?.service_status(lease, service)
    }

    async fn forwarded_port_status(
        &self,
        lease: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        self.inner.watched(lease)?.forwarded_ports(lease)
    }

    async fn lease_logs(
        &self,
        lease: &LeaseId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        self.inner.access.logs(lease, options)
    }

    async fn lease_events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        self.inner.access.events(lease, options)
    }

    async fn version(&self) -> Result<String, Error> {
        self.inner.server_version().await
    }

    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        Some(Arc::clone(&self.inner) as Arc<dyn Hostnames>)
    }

    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        let offered = self.inner.settings.leased_ips;
        offered.then(|| Arc::clone(&self.inner) as Arc<dyn LeasedIps>)
    }

    fn shell(&self) -> Option<Arc<dyn Shell>> {
        Some(Arc::clone(&self.inner) as Arc<dyn Shell>)
    }
}

impl ClusterContext {
    /// Returns the caches that the watches update, or an error for a lease of another provider.
    fn watched(&self, lease: &LeaseId) -> Result<&ObjectCache, Error> {
        if lease.provider == self.settings.provider {
            return Ok(&self.state);
        }
        let message = format!("lease {lease} is unknown");
        Err(Error::new(ErrorKind::NotFound, "status", message))
    }
}

#[async_trait]
impl Shell for ClusterContext {
    async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error> {
        self.access.exec(lease, request, io).await
    }
}
