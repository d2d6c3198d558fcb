//! Cluster that may be unavailable at the start. Before the connection exists, each call fails like a call to an
//! unavailable cluster, so that provider, gateway and status can start.

use crate::backend::Backend;
use crate::metrics::ClusterValues;
use akash_provider_core::cluster::{
    Cluster, ClusterChange, DeclaredHostname, EventOptions, ExecIo, ExecRequest, ForwardedPort,
    HostnameDeclaration, Hostnames, IpDeclaration, LeaseEvent, LeaseStatus, LeasedIps, Listing, LogLine,
    LogOptions, ServiceStatus, Shell, Teardown, WorkloadSpec,
};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::inventory::{InventorySource, InventoryUpdate, LeasedIpUsage};
use akash_provider_core::manifest::Group;
use akash_provider_core::types::LeaseId;
use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::SetOnce;

type ForwardedPorts = BTreeMap<String, Vec<ForwardedPort>>;
type Items<T> = BoxStream<'static, Result<T, Error>>;

/// Proxy of a cluster. Can be created before the cluster is connected. Clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct ClusterProxy {
    there: Arc<SetOnce<Backend>>,
    has_leased_ips: bool,
}

impl ClusterProxy {
    /// Creates a proxy without a connection.
    pub(crate) fn new(has_leased_ips: bool) -> Self {
        Self {
            there: Arc::default(),
            has_leased_ips,
        }
    }

    /// Sets the connection. Only the first call has an effect.
    pub(crate) fn set(&self, backend: Backend) {
        if self.there.set(backend).is_err() {
            tracing::error!(
                "connection to the cluster was opened twice, the second connection is ignored; report this as a bug"
            );
        }
    }

    /// Applies the isolation settings to the pods of a lease.
    pub(crate) async fn harden(&self, lease: &LeaseId) -> Result<(), Error> {
        const HARDEN: &str = "harden";
        match self.there.get() {
            Some(Backend::Kubernetes(kubernetes)) => kubernetes.harden(lease).await,
            Some(Backend::Memory(_) | Backend::Processes(_)) => {
                let message = "leases do not run on Kubernetes: nothing to harden";
                Err(Error::new(ErrorKind::Invalid, HARDEN, message))
            }
            None => Err(away(HARDEN)),
        }
    }

    /// Returns the status of each embedded operator, by name.
    pub(crate) fn operators(&self) -> BTreeMap<&'static str, Value> {
        match self.there.get() {
            Some(Backend::Kubernetes(kubernetes)) => kubernetes.operators(),
            Some(Backend::Memory(_) | Backend::Processes(_)) | None => BTreeMap::new(),
        }
    }

    /// Returns the values for metrics, or `None` without a connected Kubernetes cluster.
    pub(crate) fn kubernetes_values(&self) -> Option<ClusterValues> {
        match self.there.get() {
            Some(Backend::Kubernetes(kubernetes)) => Some(kubernetes.values()),
            Some(Backend::Memory(_) | Backend::Processes(_)) | None => None,
        }
    }

    /// Confirms the deletions that embedded operators withhold. Returns one line for each operator.
    pub(crate) fn confirm_deletions(&self) -> Vec<String> {
        match self.there.get() {
            Some(Backend::Kubernetes(kubernetes)) => kubernetes.confirm_deletions(),
            Some(Backend::Memory(_) | Backend::Processes(_)) | None => Vec::new(),
        }
    }

    /// Stops the embedded operators and releases their election leases.
    pub(super) async fn stop_operators(&self) {
        if let Some(Backend::Kubernetes(kubernetes)) = self.there.get() {
            kubernetes.stop_operators().await;
        }
    }

    fn cluster(&self, operation: &'static str) -> Result<Arc<dyn Cluster>, Error> {
        self.there
            .get()
            .map(Backend::cluster)
            .ok_or_else(|| away(operation))
    }

    /// Returns an interface that only some clusters support, such as shells. Errors name `operation`.
    fn facet<T: ?Sized>(
        &self,
        operation: &'static str,
        facet: impl FnOnce(&dyn Cluster) -> Option<Arc<T>>,
    ) -> Result<Arc<T>, Error> {
        let absent = || Error::new(ErrorKind::Invalid, operation, "not supported by the cluster");
        facet(&*self.cluster(operation)?).ok_or_else(absent)
    }

    /// Returns a stream that starts when the cluster is connected.
    fn items<T: 'static>(&self, begin: impl FnOnce(&Backend) -> Items<T> + Send + 'static) -> Items<T> {
        let there = Arc::clone(&self.there);
        futures::stream::once(async move { begin(there.wait().await) })
            .flatten()
            .boxed()
    }
}

fn away(operation: &'static str) -> Error {
    let message = "the cluster has not responded since the start";
    Error::new(ErrorKind::Unavailable, operation, message)
}

macro_rules! once_there {
    ($port:ident by $facet:ident; $(async fn $call:ident($($arg:ident: $of:ty),*) -> $out:ty;)*) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl $port for ClusterProxy {
            $(async fn $call(&self, $($arg: $of),*) -> Result<$out, Error> {
                let found = self.facet(stringify!($call), |cluster| cluster.$facet())?;
                found.$call($($arg),*).await
            })*
        }
    };
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Cluster for ClusterProxy {
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        self.cluster("deploy")?.deploy(deployment).await
    }

    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        self.cluster("record")?.record(deployment).await
    }

    fn changes(&self) -> Items<ClusterChange> {
        self.items(|there| there.cluster().changes())
    }

    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        self.cluster("teardown_lease")?.teardown_lease(lease).await
    }

    async fn deployments(&self) -> Result<Listing, Error> {
        // The only call that waits for the connection: the caller needs the list as soon as possible.
        self.there.wait().await.cluster().deployments().await
    }

    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        self.cluster("manifest_group")?.manifest_group(lease).await
    }

    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        self.cluster("lease_status")?.lease_status(lease).await
    }

    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        self.cluster("service_status")?
            .service_status(lease, service)
            .await
    }

    async fn forwarded_port_status(&self, lease: &LeaseId) -> Result<ForwardedPorts, Error> {
        self.cluster("forwarded_port_status")?
            .forwarded_port_status(lease)
            .await
    }

    async fn lease_logs(&self, lease: &LeaseId, options: LogOptions) -> Result<Items<LogLine>, Error> {
        self.cluster("lease_logs")?.lease_logs(lease, options).await
    }

    async fn lease_events(&self, lease: &LeaseId, options: EventOptions) -> Result<Items<LeaseEvent>, Error> {
        self.cluster("lease_events")?.lease_events(lease, options).await
    }

    async fn version(&self) -> Result<String, Error> {
        self.cluster("version")?.version().await
    }

    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        Some(Arc::new(self.clone()))
    }

    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        // Decided by the flags, because this must be known before the cluster responds.
        self.has_leased_ips
            .then(|| Arc::new(self.clone()) as Arc<dyn LeasedIps>)
    }

    fn shell(&self) -> Option<Arc<dyn Shell>> {
        Some(Arc::new(self.clone()))
    }
}

once_there! { Hostnames by hostnames;
    async fn declare_hostname(lease: &LeaseId, name: &HostnameDeclaration) -> ();
    async fn purge_declared_hostname(lease: &LeaseId, hostname: &str) -> ();
    async fn purge_declared_hostnames(lease: &LeaseId) -> ();
    async fn all_hostnames() -> Vec<DeclaredHostname>;
}

once_there! { LeasedIps by leased_ips;
    async fn declare_ip(lease: &LeaseId, ip: &IpDeclaration, overwrite: bool) -> ();
    async fn purge_declared_ip(lease: &LeaseId, ip: &IpDeclaration) -> ();
    async fn purge_declared_ips(lease: &LeaseId) -> ();
    async fn declared_ips(lease: &LeaseId) -> Vec<IpDeclaration>;
    async fn usage() -> LeasedIpUsage;
}

once_there! { Shell by shell;
    async fn exec(lease: &LeaseId, request: ExecRequest, io: ExecIo) -> i32;
}

impl InventorySource for ClusterProxy {
    fn watch(&self) -> Items<InventoryUpdate> {
        self.items(|there| there.inventory().watch())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ClusterArgs;
    use clap::Parser;
    use std::time::Duration;

    #[derive(Parser)]
    struct Hardware {
        #[command(flatten)]
        cluster: ClusterArgs,
    }

    fn lease() -> LeaseId {
        let account = |n: u8| akash_provider_core::types::Address::from_bytes(&[n; 20]).unwrap();
        format!("{}/1/1/1/{}", account(1), account(2)).parse().unwrap()
    }

    fn kind<T>(answer: Result<T, Error>) -> Option<ErrorKind> {
        answer.err().map(|error| error.kind())
    }

    #[tokio::test]
    async fn fails_as_an_unavailable_cluster_before_the_connection() {
        let proxy = ClusterProxy::new(true);
        let away = Some(ErrorKind::Unavailable);
        let lease = lease();
        assert_eq!(kind(proxy.teardown_lease(&lease).await), away);
        assert_eq!(kind(proxy.lease_status(&lease).await), away);
        assert_eq!(kind(proxy.harden(&lease).await), away);
        assert_eq!(kind(proxy.hostnames().unwrap().all_hostnames().await), away);
        assert_eq!(kind(proxy.leased_ips().unwrap().usage().await), away);
        assert!(proxy.shell().is_some());
        assert!(ClusterProxy::new(false).leased_ips().is_none());
        let (mut changes, mut updates) = (proxy.changes(), proxy.watch());
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, changes.next()).await.is_err());
        assert!(tokio::time::timeout(soon, updates.next()).await.is_err());
        assert!(tokio::time::timeout(soon, proxy.deployments()).await.is_err());

        let args = Hardware::parse_from(["test", "--leased-ips=3"]).cluster;
        proxy.set(Backend::in_memory(&args).await);
        assert_eq!(proxy.deployments().await.unwrap().deployments, []);
        assert_eq!(kind(proxy.harden(&lease).await), Some(ErrorKind::Invalid));
        assert_eq!(kind(proxy.lease_status(&lease).await), Some(ErrorKind::NotFound));
        assert_eq!(proxy.hostnames().unwrap().all_hostnames().await.unwrap(), []);
        assert_eq!(proxy.leased_ips().unwrap().usage().await.unwrap().total, 3);
        // A subscriber from before the connection receives the change too.
        let first = changes.next().await.unwrap().unwrap();
        assert!(matches!(first, ClusterChange::Snapshot { .. }), "{first:?}");
        assert!(updates.next().await.unwrap().unwrap().leased_ips.is_some());
    }
}
