//! Clusters with one mistake each. The suite detects every mistake and states the expected result.

use super::*;
use crate::cluster::{
    ClusterChange, EventOptions, ForwardedPort, Health, HostnameDeclaration, Hostnames, IpDeclaration,
    LeaseEvent, LeaseStatus, LeasedIps, Listing, LogLine, LogOptions, ServiceStatus, Shell, Teardown,
};
use crate::cluster::{DeclaredHostname, ExecResult};
use crate::error::Error;
use crate::inventory::LeasedIpUsage;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    OlderTermRecords,
    OlderTermDeploys,
    Recreates,
    RecreatesUnseen,
    LogsNothing,
    IgnoresTail,
    GivesHead,
    ClaimsHealth,
    GoodAtFirst,
    ListsForeign,
    TellsForeign,
    ListsTwice,
    ForgetsRecords,
    FailsForEver,
    SpeaksForEver,
    TellsNothing,
    EndsTheWatch,
    NoSnapshot,
    TearsNeighboursDown,
    DoneTooEarly,
    NeverDone,
    UnknownIsEmpty,
    LosesGroups,
    FollowsForEver,
    AllServicesAreThere,
    NoVersion,
    AnybodyTakesNamesBack,
    AlwaysOverwrites,
    CommandsFail,
    ListsOthers,
    ReportsOthers,
    ReadsOthers,
    RemovesOthers,
}

use Mistake as M;

/// Each mistake, and a part of the failure message that reports this mistake.
const CAUGHT: [(Mistake, &str); 29] = [
    (
        M::OlderTermRecords,
        "an older term writes nothing: `record` was expected to be refused with Conflict",
    ),
    (
        M::OlderTermDeploys,
        "an older term writes nothing: `deploy` was expected to be refused with Conflict",
    ),
    (
        M::Recreates,
        "a repeated deploy changes nothing: deploying the same again was expected to leave",
    ),
    (
        M::RecreatesUnseen,
        "a repeated deploy changes nothing: deploying the same again was expected to leave",
    ),
    (
        M::LogsNothing,
        "logs contain all written lines: `lease_logs` was expected to have 3 lines or more",
    ),
    (
        M::IgnoresTail,
        "`lease_logs` with `tail_lines` 1 was expected to return at most",
    ),
    (
        M::GivesHead,
        "`lease_logs` with `tail_lines` 1 was expected to return the last lines",
    ),
    (
        M::ClaimsHealth,
        "a broken image is never healthy: `changes` was expected to report no health",
    ),
    (
        M::GoodAtFirst,
        "a broken image is never healthy: `changes` was expected to report no health",
    ),
    (
        M::ListsForeign,
        "`deployments` was expected to name leases of provider",
    ),
    (
        M::TellsForeign,
        "`changes` was expected to name leases of provider",
    ),
    (M::ListsTwice, "`deployments` was expected to list"),
    (
        M::ForgetsRecords,
        "a recorded deployment is listed: `deployments` was expected to have 1 x web",
    ),
    (M::FailsForEver, "`changes` returned 100000 items without a pause"),
    (
        M::SpeaksForEver,
        "`lease_logs` returned 100000 items without a pause",
    ),
    (M::TellsNothing, "`changes` was expected to report"),
    (
        M::EndsTheWatch,
        "as Good within 5s: the stream ended; no change was reported",
    ),
    (M::NoSnapshot, "`changes` was expected to start with a `Snapshot`"),
    (
        M::TearsNeighboursDown,
        "leases are independent: `deployments` was expected to have 1 x web",
    ),
    (
        M::DoneTooEarly,
        "a recorded deployment is listed: `deployments` was expected to have nothing",
    ),
    (
        M::NeverDone,
        "was expected to be `Done` within 5s and is `InProgress`",
    ),
    (
        M::UnknownIsEmpty,
        "`lease_status` was expected to be refused with NotFound, because the lease is unknown",
    ),
    (
        M::LosesGroups,
        "`manifest_group` was expected to be as recorded last",
    ),
    (
        M::FollowsForEver,
        "a followed `lease_logs` was expected to end within 5s of the teardown",
    ),
    (
        M::AllServicesAreThere,
        "`lease_logs` was expected to be refused with NotFound, because the lease has no",
    ),
    (
        M::NoVersion,
        "a cluster has a version: `version` was expected to be non-empty",
    ),
    (M::AnybodyTakesNamesBack, "only the holder was expected to remove"),
    (
        M::AlwaysOverwrites,
        "`declare_ip` was expected to be refused with Conflict, because another lease",
    ),
    (M::CommandsFail, "`exec` was expected to return the exit code of"),
];

#[derive(Debug, Clone)]
struct FaultyCluster {
    truth: MemoryCluster,
    provider: Address,
    mistake: Mistake,
}

impl FaultyCluster {
    fn new(mistake: Mistake) -> Self {
        let truth = talking();
        if mistake == M::CommandsFail {
            let failed = |_: &_, _: &_, _| ExecResult {
                code: 1,
                ..ExecResult::default()
            };
            truth.set_exec(Arc::new(failed));
        }
        let provider = setup().provider;
        Self {
            truth,
            provider,
            mistake,
        }
    }

    /// Returns a client of another provider on the same cluster.
    fn beside(&self, provider: &Address) -> Self {
        let provider = provider.clone();
        Self {
            provider,
            ..self.clone()
        }
    }

    /// Returns an error if the lease belongs to another provider. A client with `mistake` does not return
    /// this error.
    fn check(&self, lease: &LeaseId, mistake: Mistake) -> Result<(), Error> {
        if lease.provider == self.provider || self.is(mistake) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotFound, "lease", "the lease is unknown"))
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    fn foreign(&self) -> LeaseId {
        let mut lease = setup().lease(1, 99);
        lease.provider = Address::from_bytes(&[5; 20]).unwrap();
        lease
    }

    /// After a conflict, tears down the lease and deploys it again. Otherwise returns `refused`.
    async fn forced(&self, refused: Result<(), Error>, deployment: &WorkloadSpec) -> Result<(), Error> {
        if refused.as_ref().is_err_and(|e| e.kind() == ErrorKind::Conflict) {
            self.truth.teardown_lease(&deployment.lease).await?;
            return self.truth.deploy(deployment).await;
        }
        refused
    }

    fn falsify(&self, change: ClusterChange) -> Option<ClusterChange> {
        let is_ours = |lease: &LeaseId| lease.provider == self.provider || self.is(M::ReportsOthers);
        let better = |health| match health {
            Health::Bad if self.is(M::ClaimsHealth) => Health::Good,
            health => health,
        };
        match change {
            ClusterChange::Snapshot { mut health } => {
                health.retain(|lease, _| is_ours(lease));
                if self.is(M::TellsForeign) {
                    health.insert(self.foreign(), Health::Good);
                }
                let health = health.into_iter().map(|(id, h)| (id, better(h))).collect();
                Some(ClusterChange::Snapshot { health })
            }
            ClusterChange::Health { lease, health } => is_ours(&lease).then(|| ClusterChange::Health {
                lease,
                health: better(health),
            }),
            other @ (ClusterChange::Lost | ClusterChange::RecordsLost) => Some(other),
        }
    }
}

#[async_trait]
impl Cluster for FaultyCluster {
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let running = self.truth.contents().running;
        let is_same = running.get(&deployment.lease) == Some(deployment);
        if is_same && matches!(self.mistake, M::Recreates | M::RecreatesUnseen) {
            self.truth.teardown_lease(&deployment.lease).await?;
        }
        let done = self.truth.deploy(deployment).await;
        if self.is(M::OlderTermDeploys) {
            return self.forced(done, deployment).await;
        }
        done
    }

    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let done = self.truth.record(deployment).await;
        if self.is(M::OlderTermRecords) {
            return self.forced(done, deployment).await;
        }
        done
    }

    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        let (liar, changes) = (self.clone(), self.truth.changes());
        match self.mistake {
            M::FailsForEver => {
                let error = || Error::new(ErrorKind::Unavailable, "changes", "away");
                stream::repeat_with(move || Err(error())).boxed()
            }
            M::TellsNothing => {
                let health = BTreeMap::new();
                let first = stream::iter([Ok(ClusterChange::Snapshot { health })]);
                first.chain(stream::pending()).boxed()
            }
            M::EndsTheWatch => changes.take(1).boxed(),
            M::NoSnapshot => {
                let (lease, health) = (setup().lease(1, 98), Health::Bad);
                let first = stream::iter([Ok(ClusterChange::Health { lease, health })]);
                first.chain(changes).boxed()
            }
            M::GoodAtFirst => changes
                .flat_map(|change| {
                    let first = match &change {
                        Ok(ClusterChange::Health { lease, .. }) => Some(Ok(ClusterChange::Health {
                            lease: lease.clone(),
                            health: Health::Good,
                        })),
                        _ => None,
                    };
                    stream::iter(first.into_iter().chain([change]))
                })
                .boxed(),
            M::RecreatesUnseen => {
                // A new watcher receives the state as it is.
                let is_as_now = move |change: &Result<ClusterChange, Error>| match change {
                    Ok(ClusterChange::Snapshot { health }) => {
                        health.keys().eq(liar.truth.contents().running.keys())
                    }
                    _ => true,
                };
                changes
                    .filter(move |change| futures::future::ready(is_as_now(change)))
                    .boxed()
            }
            _ => changes
                .filter_map(move |change| {
                    let changes = change.map(|change| liar.falsify(change)).transpose();
                    futures::future::ready(changes)
                })
                .boxed(),
        }
    }

    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        self.check(lease, M::RemovesOthers)?;
        match self.mistake {
            M::DoneTooEarly => return Ok(Teardown::Done),
            M::NeverDone if self.truth.contents().recorded.contains_key(lease) => {
                return Ok(Teardown::InProgress);
            }
            M::TearsNeighboursDown => {
                for other in self.truth.contents().running.keys() {
                    self.truth.teardown_lease(other).await?;
                }
            }
            _ => {}
        }
        self.truth.teardown_lease(lease).await
    }

    async fn deployments(&self) -> Result<Listing, Error> {
        let mut all = self.truth.deployments().await?;
        if !self.is(M::ListsOthers) {
            all.deployments.retain(|d| d.lease.provider == self.provider);
            all.incomplete.retain(|lease| lease.provider == self.provider);
        }
        match self.mistake {
            M::ListsForeign => all.deployments.push(setup().deployment(&self.foreign(), 1)),
            M::ListsTwice => all.deployments.extend(all.deployments.clone()),
            M::ForgetsRecords => {
                let idle = std::mem::take(&mut all.incomplete);
                all.deployments.retain(|d| !idle.contains(&d.lease));
            }
            _ => {}
        }
        Ok(all)
    }

    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        if self.check(lease, M::ReadsOthers).is_err() {
            return Ok(None);
        }
        let group = self.truth.manifest_group(lease).await?;
        Ok(group.filter(|_| !self.is(M::LosesGroups)))
    }

    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        self.check(lease, M::ReadsOthers)?;
        let status = self.truth.lease_status(lease).await;
        if self.is(M::UnknownIsEmpty) {
            return Ok(status.unwrap_or_default());
        }
        status
    }

    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        self.truth.service_status(lease, service).await
    }

    async fn forwarded_port_status(
        &self,
        lease: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        self.truth.forwarded_port_status(lease).await
    }

    async fn lease_logs(
        &self,
        lease: &LeaseId,
        mut options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        self.check(lease, M::ReadsOthers)?;
        let (follow, tail) = (options.follow, options.tail_lines);
        if matches!(self.mistake, M::IgnoresTail | M::GivesHead) {
            options.tail_lines = None;
        }
        if self.is(M::AllServicesAreThere) {
            options.services.clear();
        }
        let lines = self.truth.lease_logs(lease, options).await?;
        Ok(match self.mistake {
            M::LogsNothing if !follow => stream::empty().boxed(),
            M::SpeaksForEver => {
                let line = LogLine {
                    name: "web-0".to_owned(),
                    message: "again".to_owned(),
                };
                stream::repeat_with(move || Ok(line.clone())).boxed()
            }
            M::FollowsForEver if follow => lines.chain(stream::pending()).boxed(),
            M::GivesHead if tail.is_some() && !follow => {
                let mut seen: BTreeMap<String, u64> = BTreeMap::new();
                let head = lines.filter(move |line| {
                    let name = line.as_ref().map(|l| l.name.clone()).unwrap_or_default();
                    let seen = seen.entry(name).or_default();
                    *seen += 1;
                    futures::future::ready(Some(*seen) <= tail)
                });
                head.boxed()
            }
            _ => lines,
        })
    }

    async fn lease_events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        self.truth.lease_events(lease, options).await
    }

    async fn version(&self) -> Result<String, Error> {
        let version = self.truth.version().await?;
        Ok(if self.is(M::NoVersion) {
            String::new()
        } else {
            version
        })
    }

    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        Some(Arc::new(self.clone()))
    }

    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        Some(Arc::new(self.clone()))
    }

    fn shell(&self) -> Option<Arc<dyn Shell>> {
        self.truth.shell()
    }
}

#[async_trait]
impl Hostnames for FaultyCluster {
    async fn declare_hostname(&self, lease: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error> {
        self.truth.declare_hostname(lease, name).await
    }

    async fn purge_declared_hostname(&self, lease: &LeaseId, hostname: &str) -> Result<(), Error> {
        let all = self.truth.all_hostnames().await?;
        let holder = all.into_iter().find(|h| h.hostname == hostname).map(|h| h.lease);
        let holder = holder.filter(|_| self.is(M::AnybodyTakesNamesBack));
        let lease = holder.as_ref().unwrap_or(lease);
        self.truth.purge_declared_hostname(lease, hostname).await
    }

    async fn purge_declared_hostnames(&self, lease: &LeaseId) -> Result<(), Error> {
        self.truth.purge_declared_hostnames(lease).await
    }

    async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error> {
        self.truth.all_hostnames().await
    }
}

#[async_trait]
impl LeasedIps for FaultyCluster {
    async fn declare_ip(&self, lease: &LeaseId, ip: &IpDeclaration, overwrite: bool) -> Result<(), Error> {
        let overwrite = overwrite || self.is(M::AlwaysOverwrites);
        self.truth.declare_ip(lease, ip, overwrite).await
    }

    async fn purge_declared_ip(&self, lease: &LeaseId, ip: &IpDeclaration) -> Result<(), Error> {
        self.truth.purge_declared_ip(lease, ip).await
    }

    async fn purge_declared_ips(&self, lease: &LeaseId) -> Result<(), Error> {
        self.truth.purge_declared_ips(lease).await
    }

    async fn declared_ips(&self, lease: &LeaseId) -> Result<Vec<IpDeclaration>, Error> {
        self.truth.declared_ips(lease).await
    }

    async fn usage(&self) -> Result<LeasedIpUsage, Error> {
        self.truth.usage().await
    }
}

async fn verdict(cluster: &dyn Cluster) -> Option<String> {
    crate::conformance::verdict(suite(cluster, &setup())).await
}

#[tokio::test(start_paused = true)]
async fn every_mistake_is_detected() {
    assert_eq!(
        verdict(&FaultyCluster::new(M::None)).await,
        None,
        "a cluster without one passes"
    );
    for (mistake, expected) in CAUGHT {
        let failure = verdict(&FaultyCluster::new(mistake)).await;
        let failure = failure.unwrap_or_else(|| panic!("{mistake:?} is not detected"));
        assert!(
            failure.contains(expected),
            "{mistake:?} is detected with another message: {failure}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_fails_by_name() {
    for (operation, call) in [
        (Operation::Deploy, "deploy"),
        (Operation::Record, "record"),
        (Operation::Teardown, "teardown_lease"),
        (Operation::Deployments, "deployments"),
        (Operation::Status, "lease_status"),
        (Operation::Logs, "lease_logs"),
        (Operation::Version, "version"),
        (Operation::DeclareHostname, "declare_hostname"),
        (Operation::PurgeHostname, "purge_declared_hostname"),
        (Operation::AllHostnames, "all_hostnames"),
        (Operation::DeclareIp, "declare_ip"),
        (Operation::PurgeIp, "purge_declared_ip"),
        (Operation::Ips, "declared_ips"),
        (Operation::Exec, "exec"),
    ] {
        let cluster = talking();
        cluster.hang(operation);
        let failure = verdict(&cluster).await;
        let failure = failure.unwrap_or_else(|| panic!("a hanging {operation:?} is not detected"));
        let expected = format!("`{call}` was expected to respond within 5s and did not");
        assert!(failure.contains(&expected), "{operation:?}: {failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_mixes_providers_is_detected() {
    let theirs = Setup::new(Address::from_bytes(&[6; 20]).unwrap());
    for (mistake, expected) in [
        (M::None, None),
        (
            M::ListsOthers,
            Some("`deployments` was expected to name leases of provider"),
        ),
        (
            M::ReportsOthers,
            Some("`changes` was expected to name leases of provider"),
        ),
        (
            M::ReadsOthers,
            Some("`manifest_group` was expected to return nothing of"),
        ),
        (
            M::RemovesOthers,
            Some("`deployments` was expected to have 1 x web"),
        ),
    ] {
        let one = FaultyCluster::new(mistake);
        let other = one.beside(&theirs.provider);
        let failure =
            crate::conformance::verdict(providers_are_isolated((&one, &setup()), (&other, &theirs))).await;
        let is_so = match (expected, &failure) {
            (None, None) => true,
            (Some(expected), Some(failure)) => {
                failure.starts_with("providers are isolated: ") && failure.contains(expected)
            }
            _ => false,
        };
        assert!(is_so, "{mistake:?} is detected with another message: {failure:?}");
    }
}
