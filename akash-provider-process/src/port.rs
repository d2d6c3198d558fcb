//! Implementation of the `Cluster` port.

use crate::process::{CommandSpec, ReplicaEvent, run_with_restarts};
use crate::records::LeaseRecord;
use crate::workload::{ProcessWorkload, Running, WorkloadTable};
use crate::{ProcessCluster, lock, no_lease, no_service};
use akash_provider_core::cluster::{
    Cluster, ClusterChange, EventOptions, ForwardedPort, Hostnames, LeaseEvent, LeaseStatus, LeasedIps,
    Listing, LogLine, LogOptions, ServiceStatus, Shell, Teardown, WorkloadSpec,
};
use akash_provider_core::manifest::{Group, Service};
use akash_provider_core::types::LeaseId;
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

const DEPLOY: &str = "deploy";

impl ProcessCluster {
    pub(crate) fn start(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let mut state = self.state();
        let running = Running::new(deployment.clone(), state.ports(deployment));
        for service in &deployment.group.services {
            for replica in 0..service.count {
                let program = self.program(&running, service, replica)?;
                let (lease, name) = (deployment.lease.clone(), service.name.clone());
                // Weak, so that replicas do not keep the state alive, which stops them on drop.
                let state: Weak<Mutex<WorkloadTable>> = Arc::downgrade(&self.state);
                let stop = running.stop.clone();
                let stopping = running.stop.clone();
                let report = move |event: ReplicaEvent| {
                    // The end of a stopped replica is expected, but its output is still recorded.
                    let wanted = !stopping.is_cancelled() || matches!(event, ReplicaEvent::Line(_));
                    if let Some(state) = state.upgrade().filter(|_| wanted) {
                        lock(&state).handle_event(&lease, &name, replica, event);
                    }
                };
                running.replicas.spawn(run_with_restarts(program, report, stop));
            }
        }
        // Waiting for a tracker ends only after it is closed.
        running.replicas.close();
        state.run(running);
        Ok(())
    }

    /// Returns an error for a deployment that this cluster can never run.
    pub(crate) fn check(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        // Without ports, which would be allocated for nothing.
        let plan = Running::new(deployment.clone(), BTreeMap::new());
        let mut services = deployment.group.services.iter();
        // Replicas of a service run the same program, so one check suffices.
        services.try_for_each(|service| self.program(&plan, service, 0).map(drop))
    }

    /// Returns the program of a replica: command and arguments, from the manifest or the image.
    pub(crate) fn program(
        &self,
        running: &Running,
        service: &Service,
        replica: u32,
    ) -> Result<CommandSpec, Error> {
        let command = service.command.as_ref().filter(|c| !c.is_empty());
        let command = command.or_else(|| self.images.get(&service.image));
        let Some((program, args)) = command.and_then(|c| c.split_first()) else {
            let message = format!(
                "service `{}` has no command, and image `{}` is not mapped to one; add a command",
                service.name, service.image
            );
            return Err(Error::new(ErrorKind::Invalid, DEPLOY, message));
        };
        let more = service.args.iter().flatten();
        let given = service
            .env
            .iter()
            .flatten()
            .filter_map(|line| line.split_once('='));
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let ports = running.ports.get(&service.name).into_iter().flatten();
        let ports = ports.map(|p| (format!("PORT_{}", p.port), p.external_port.to_string()));
        let home = self.records.home(&running.deployment.lease);
        Ok(CommandSpec {
            program: program.clone(),
            args: args.iter().chain(more).cloned().collect(),
            // Ports last: the last of equal names counts, so a manifest cannot replace the variable of a port.
            env: given.chain(ports).collect(),
            folder: home.join(format!("{}-{replica}", service.name)),
        })
    }

    async fn stop(&self, lease: &LeaseId) {
        let replicas = {
            let state = self.state();
            let running = state.get(lease).and_then(|w| w.running.as_ref());
            running.map(Running::stop)
        };
        if let Some(replicas) = replicas {
            replicas.wait().await;
        }
    }

    fn read<T>(
        &self,
        operation: &'static str,
        lease: &LeaseId,
        question: impl FnOnce(&ProcessWorkload) -> T,
    ) -> Result<T, Error> {
        let state = self.state();
        state
            .get(lease)
            .map(question)
            .ok_or_else(|| no_lease(operation, lease))
    }

    /// Returns an error if the lease lacks one of `services`.
    fn check_services(
        &self,
        operation: &'static str,
        lease: &LeaseId,
        services: &[String],
    ) -> Result<(), Error> {
        let group = self.read(operation, lease, |workload| {
            Arc::clone(&workload.record.recorded.group)
        })?;
        let has = |name: &&String| group.services.iter().any(|s| s.name == **name);
        match services.iter().find(|name| !has(name)) {
            None => Ok(()),
            Some(unknown) => Err(no_service(operation, lease, unknown)),
        }
    }
}

#[async_trait]
impl Cluster for ProcessCluster {
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        {
            let state = self.state();
            state.check_epoch(deployment, DEPLOY)?;
            let running = state.get(&deployment.lease).and_then(|w| w.running.as_ref());
            let same = |r: &Running| r.deployment == *deployment && !r.stop.is_cancelled();
            if running.is_some_and(same) {
                return Ok(());
            }
            // Checked before running processes are stopped.
            self.check(deployment)?;
        }
        let updated = LeaseRecord {
            recorded: deployment.clone(),
            deployed: Some(deployment.clone()),
        };
        // Durable before processes stop or start: after a crash the new version starts.
        self.records.store(updated.clone()).await?;
        self.state().store(updated);
        // The old replicas end first: both versions would use the same port and folder.
        self.stop(&deployment.lease).await;
        self.start(deployment)
    }

    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let deployed = {
            let state = self.state();
            state.check_epoch(deployment, "record")?;
            // A deployment that cannot run is not recorded.
            self.check(deployment)?;
            let there = state.get(&deployment.lease);
            there.and_then(|w| w.record.deployed.clone())
        };
        let updated = LeaseRecord {
            recorded: deployment.clone(),
            deployed,
        };
        self.records.store(updated.clone()).await?;
        self.state().store(updated);
        Ok(())
    }

    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        let (first, changes) = self.state().watch();
        let rest = stream::unfold((changes, Arc::downgrade(&self.state)), next_change);
        stream::iter([Ok(first)]).chain(rest).boxed()
    }

    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        let is_known = {
            let state = self.state();
            state.get(lease).is_some() || state.unreadable.iter().any(|u| u.belongs_to(lease))
        };
        if is_known {
            // Processes first: they would write into the removed folder.
            self.stop(lease).await;
            // The file before the state: after a failure the next attempt still finds the lease.
            self.records.remove(lease).await?;
            self.state().remove(lease);
        }
        Ok(Teardown::Done)
    }

    async fn deployments(&self) -> Result<Listing, Error> {
        let state = self.state();
        let idle = state.all().filter(|w| w.record.deployed.is_none());
        Ok(Listing {
            deployments: state.all().map(|w| w.record.recorded.clone()).collect(),
            unusable: state.unreadable.clone(),
            incomplete: idle.map(|w| w.record.recorded.lease.clone()).collect(),
            place: "the folder of the cluster".to_owned(),
            remarks: Vec::new(),
        })
    }

    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        Ok(self
            .state()
            .get(lease)
            .map(|w| Arc::clone(&w.record.recorded.group)))
    }

    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        self.read("lease status", lease, ProcessWorkload::status)
    }

    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        let mut status = self.lease_status(lease).await?;
        let found = status.services.remove(service);
        found.ok_or_else(|| no_service("service status", lease, service))
    }

    async fn forwarded_port_status(
        &self,
        lease: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        Ok(self.lease_status(lease).await?.forwarded_ports)
    }

    async fn lease_logs(
        &self,
        lease: &LeaseId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        self.check_services("lease logs", lease, &options.services)?;
        self.read("lease logs", lease, |workload| {
            let lines = workload.logs.items(&options.services);
            let lines = tail(lines, options.tail_lines);
            workload
                .logs
                .stream(lines, options.follow, options.services.clone())
        })
    }

    async fn lease_events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        self.check_services("lease events", lease, &options.services)?;
        self.read("lease events", lease, |workload| {
            let events = workload.events.items(&options.services).cloned().collect();
            workload
                .events
                .stream(events, options.follow, options.services.clone())
        })
    }

    async fn version(&self) -> Result<String, Error> {
        Ok(concat!("processes ", env!("CARGO_PKG_VERSION")).to_owned())
    }

    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        None
    }

    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        None
    }

    fn shell(&self) -> Option<Arc<dyn Shell>> {
        Some(Arc::new(self.clone()))
    }
}

/// Returns the last `limit` lines of each replica, in order.
fn tail<'a>(lines: impl DoubleEndedIterator<Item = &'a LogLine>, limit: Option<u64>) -> Vec<LogLine> {
    let limit = limit.unwrap_or(u64::MAX);
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    // Counted per replica, so that a verbose one does not displace the lines of the others.
    let newest_first = lines.rev().filter(|line| {
        let seen = seen.entry(&line.name).or_default();
        *seen += 1;
        *seen <= limit
    });
    let mut oldest_first: Vec<LogLine> = newest_first.cloned().collect();
    oldest_first.reverse();
    oldest_first
}

type Watcher = (Receiver<ClusterChange>, Weak<Mutex<WorkloadTable>>);

/// Returns the next change, or a snapshot after missed changes.
async fn next_change((mut changes, state): Watcher) -> Option<(Result<ClusterChange, Error>, Watcher)> {
    match changes.recv().await {
        Ok(change) => Some((Ok(change), (changes, state))),
        Err(RecvError::Lagged(_)) => {
            let (snapshot, changes) = lock(&*state.upgrade()?).watch();
            Some((Ok(snapshot), (changes, state)))
        }
        Err(RecvError::Closed) => None,
    }
}
