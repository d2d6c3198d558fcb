//! A scripted cluster.

use super::*;

#[derive(Debug, Default)]
pub(crate) struct FakeCluster {
    pub(crate) script: Arc<Script>,
    pub(crate) changes: Takes<ClusterChange>,
    pub(crate) facets: bool,
    pub(crate) declared: Vec<IpDeclaration>,
}

#[async_trait]
impl Cluster for FakeCluster {
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        self.script
            .call("deploy", deployment.lease.deployment().dseq)
            .await
            .map(drop)
    }
    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        self.script
            .call("record", deployment.lease.deployment().dseq)
            .await
            .map(drop)
    }
    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        take(&self.changes)
    }
    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        match self.script.call("teardown", lease.deployment().dseq).await? {
            Does::NotYet => Ok(Teardown::InProgress),
            _ => Ok(Teardown::Done),
        }
    }
    async fn deployments(&self) -> Result<Listing, Error> {
        self.script.call("deployments", "").await?;
        Ok(Listing::default())
    }
    async fn manifest_group(&self, _: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        unreachable!()
    }
    async fn lease_status(&self, _: &LeaseId) -> Result<LeaseStatus, Error> {
        unreachable!()
    }
    async fn service_status(&self, _: &LeaseId, _: &str) -> Result<ServiceStatus, Error> {
        unreachable!()
    }
    async fn forwarded_port_status(
        &self,
        _: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        unreachable!()
    }
    async fn lease_logs(
        &self,
        _: &LeaseId,
        _: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        unreachable!()
    }
    async fn lease_events(
        &self,
        _: &LeaseId,
        _: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        unreachable!()
    }
    async fn version(&self) -> Result<String, Error> {
        unreachable!()
    }
    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        let facet = FakeFacet(Arc::clone(&self.script), Vec::new());
        self.facets.then(|| Arc::new(facet) as _)
    }
    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        let facet = FakeFacet(Arc::clone(&self.script), self.declared.clone());
        self.facets.then(|| Arc::new(facet) as _)
    }
    fn shell(&self) -> Option<Arc<dyn Shell>> {
        None
    }
}

#[derive(Debug)]
struct FakeFacet(Arc<Script>, Vec<IpDeclaration>);

#[async_trait]
impl Hostnames for FakeFacet {
    async fn declare_hostname(&self, _: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error> {
        self.0.call("declare", &name.hostname).await.map(drop)
    }
    async fn purge_declared_hostname(&self, _: &LeaseId, hostname: &str) -> Result<(), Error> {
        self.0.call("purge", hostname).await.map(drop)
    }
    async fn purge_declared_hostnames(&self, _: &LeaseId) -> Result<(), Error> {
        self.0.call("purge-hostnames", "").await.map(drop)
    }
    async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error> {
        self.0.call("all-hostnames", "").await?;
        Ok(Vec::new())
    }
}

#[async_trait]
impl LeasedIps for FakeFacet {
    async fn declare_ip(&self, _: &LeaseId, ip: &IpDeclaration, _: bool) -> Result<(), Error> {
        self.0.call("declare-ip", &ip.sharing_key).await.map(drop)
    }
    async fn purge_declared_ip(&self, _: &LeaseId, ip: &IpDeclaration) -> Result<(), Error> {
        self.0.call("purge-ip", &ip.sharing_key).await.map(drop)
    }
    async fn purge_declared_ips(&self, _: &LeaseId) -> Result<(), Error> {
        self.0.call("purge-ips", "").await.map(drop)
    }
    async fn declared_ips(&self, _: &LeaseId) -> Result<Vec<IpDeclaration>, Error> {
        Ok(self.1.clone())
    }
    async fn usage(&self) -> Result<LeasedIpUsage, Error> {
        let mut usage = LeasedIpUsage::default();
        usage.confirmed.extend((!self.1.is_empty()).then(|| lease(1)));
        Ok(usage)
    }
}
