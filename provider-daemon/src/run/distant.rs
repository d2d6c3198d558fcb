//! A cluster that may be away at the start. Until it is connected each call fails as it does when a cluster is away
//! later; so the provider, its gateway and its status are there before it.

use crate::dev::Backend;
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

type Ports = BTreeMap<String, Vec<ForwardedPort>>;
type Items<T> = BoxStream<'static, Result<T, Error>>;

/// A cluster with hostnames and shells, and with leased addresses where they are wanted. A clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct Distant {
    there: Arc<SetOnce<Backend>>,
    has_leased_ips: bool,
}

impl Distant {
    /// One that is away.
    pub(super) fn new(has_leased_ips: bool) -> Self {
        Self {
            there: Arc::default(),
            has_leased_ips,
        }
    }

    /// It is connected. Only the first one counts.
    pub(super) fn set(&self, backend: Backend) {
        if self.there.set(backend).is_err() {
            tracing::error!("the cluster was connected twice");
        }
    }

    /// Gives the pods of a lease the isolation of the settings.
    pub(crate) async fn harden(&self, lease: &LeaseId) -> Result<(), Error> {
        const HARDEN: &str = "harden";
        match self.there.get() {
            Some(Backend::Kubernetes(kubernetes)) => kubernetes.harden(lease).await,
            Some(Backend::Memory(_) | Backend::Processes(_)) => {
                let message = "leases run on no Kubernetes here: there is nothing to harden";
                Err(Error::new(ErrorKind::Invalid, HARDEN, message))
            }
            None => Err(away(HARDEN)),
        }
    }

    /// How the operators in this process are, by their names.
    pub(crate) fn operators(&self) -> BTreeMap<&'static str, Value> {
        match self.there.get() {
            Some(Backend::Kubernetes(kubernetes)) => kubernetes.operators(),
            Some(Backend::Memory(_) | Backend::Processes(_)) | None => BTreeMap::new(),
        }
    }

    /// Confirms the deletions that the operators in this process hold; a line for each operator.
    pub(crate) fn confirm_deletions(&self) -> Vec<String> {
        match self.there.get() {
            Some(Backend::Kubernetes(kubernetes)) => kubernetes.confirm_deletions(),
            Some(Backend::Memory(_) | Backend::Processes(_)) | None => Vec::new(),
        }
    }

    /// Ends the operators in this process in order.
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

    /// A facet of the cluster that is there.
    fn facet<T: ?Sized>(
        &self,
        operation: &'static str,
        facet: impl FnOnce(&dyn Cluster) -> Option<Arc<T>>,
    ) -> Result<Arc<T>, Error> {
        let absent = || Error::new(ErrorKind::Invalid, operation, "the cluster has no such facet");
        facet(&*self.cluster(operation)?).ok_or_else(absent)
    }

    /// The items of a stream that begins when the cluster is there.
    fn items<T: 'static>(&self, begin: impl FnOnce(&Backend) -> Items<T> + Send + 'static) -> Items<T> {
        let there = Arc::clone(&self.there);
        futures::stream::once(async move { begin(there.wait().await) })
            .flatten()
            .boxed()
    }
}

fn away(operation: &'static str) -> Error {
    let message = "the cluster has not answered since the start";
    Error::new(ErrorKind::Unavailable, operation, message)
}

macro_rules! once_there {
    ($port:ident by $facet:ident; $(async fn $call:ident($($arg:ident: $of:ty),*) -> $out:ty;)*) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl $port for Distant {
            $(async fn $call(&self, $($arg: $of),*) -> Result<$out, Error> {
                let found = self.facet(stringify!($call), |cluster| cluster.$facet())?;
                found.$call($($arg),*).await
            })*
        }
    };
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Cluster for Distant {
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
        // The one call that waits, as long as its caller does: the sooner it is answered, the sooner leases are
        // looked after.
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

    async fn forwarded_port_status(&self, lease: &LeaseId) -> Result<Ports, Error> {
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
        // From the flags: whether addresses are leased is settled at the start, perhaps before the cluster answers.
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

impl InventorySource for Distant {
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
    async fn a_cluster_that_was_never_there_is_one_that_does_not_answer() {
        let distant = Distant::new(true);
        let away = Some(ErrorKind::Unavailable);
        let lease = lease();
        assert_eq!(kind(distant.teardown_lease(&lease).await), away);
        assert_eq!(kind(distant.lease_status(&lease).await), away);
        assert_eq!(kind(distant.harden(&lease).await), away);
        assert_eq!(kind(distant.hostnames().unwrap().all_hostnames().await), away);
        assert_eq!(kind(distant.leased_ips().unwrap().usage().await), away);
        assert!(distant.shell().is_some());
        assert!(Distant::new(false).leased_ips().is_none());
        let (mut changes, mut updates) = (distant.changes(), distant.watch());
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, changes.next()).await.is_err());
        assert!(tokio::time::timeout(soon, updates.next()).await.is_err());
        assert!(tokio::time::timeout(soon, distant.deployments()).await.is_err());

        let args = Hardware::parse_from(["test", "--leased-ips=3"]).cluster;
        distant.set(Backend::in_memory(&args).await);
        assert_eq!(distant.deployments().await.unwrap().deployments, []);
        assert_eq!(kind(distant.harden(&lease).await), Some(ErrorKind::Invalid));
        assert_eq!(
            kind(distant.lease_status(&lease).await),
            Some(ErrorKind::NotFound)
        );
        assert_eq!(distant.hostnames().unwrap().all_hostnames().await.unwrap(), []);
        assert_eq!(distant.leased_ips().unwrap().usage().await.unwrap().total, 3);
        // Who listened before hears it too.
        let first = changes.next().await.unwrap().unwrap();
        assert!(matches!(first, ClusterChange::Snapshot { .. }), "{first:?}");
        assert!(updates.next().await.unwrap().unwrap().leased_ips.is_some());
    }
}
