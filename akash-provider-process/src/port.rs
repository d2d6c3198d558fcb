//! The cluster port.

use crate::process::{News, Program, keep_running};
use crate::records::Kept;
use crate::workload::{Running, State, Workload};
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
    /// Starts what is kept as deployed.
    pub(crate) fn start(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let mut state = self.state();
        let running = Running::new(deployment.clone(), state.ports(deployment));
        for service in &deployment.group.services {
            for replica in 0..service.count {
                let program = self.program(&running, service, replica)?;
                let (lease, name) = (deployment.lease.clone(), service.name.clone());
                // Weak, so that replicas do not keep alive the state that stops them when it is dropped.
                let state: Weak<Mutex<State>> = Arc::downgrade(&self.state);
                let stop = running.stop.clone();
                let told = running.stop.clone();
                let tell = move |news: News| {
                    // Going down as asked is no news; the lines said meanwhile are.
                    let wanted = !told.is_cancelled() || matches!(news, News::Line(_));
                    if let Some(state) = state.upgrade().filter(|_| wanted) {
                        lock(&state).news(&lease, &name, replica, news);
                    }
                };
                running.replicas.spawn(keep_running(program, tell, stop));
            }
        }
        // Waiting for a tracker ends only once it is closed, however empty it is.
        running.replicas.close();
        state.run(running);
        Ok(())
    }

    /// Fails for what can never run.
    pub(crate) fn check(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        // Without ports, because none are taken for what may never start.
        let plan = Running::new(deployment.clone(), BTreeMap::new());
        let mut services = deployment.group.services.iter();
        // Replicas of a service run the same program, so the first stands for all.
        services.try_for_each(|service| self.program(&plan, service, 0).map(drop))
    }

    /// What a replica runs: the manifest's command, or the one its image stands for, and its arguments.
    pub(crate) fn program(
        &self,
        running: &Running,
        service: &Service,
        replica: u32,
    ) -> Result<Program, Error> {
        let command = service.command.as_ref().filter(|c| !c.is_empty());
        let command = command.or_else(|| self.images.get(&service.image));
        let Some((program, args)) = command.and_then(|c| c.split_first()) else {
            let message = format!(
                "service `{}` has no command and image `{}` stands for none; give it a command",
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
        Ok(Program {
            program: program.clone(),
            args: args.iter().chain(more).cloned().collect(),
            // Ports come last: of two equal names the later counts, so a manifest cannot move a port
            // elsewhere.
            env: given.chain(ports).collect(),
            folder: home.join(format!("{}-{replica}", service.name)),
        })
    }

    /// Ends what runs of a lease, and waits until it has.
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

    fn ask<T>(
        &self,
        operation: &'static str,
        lease: &LeaseId,
        question: impl FnOnce(&Workload) -> T,
    ) -> Result<T, Error> {
        let state = self.state();
        state
            .get(lease)
            .map(question)
            .ok_or_else(|| no_lease(operation, lease))
    }

    /// Fails unless the lease has all of these services.
    fn check_services(
        &self,
        operation: &'static str,
        lease: &LeaseId,
        services: &[String],
    ) -> Result<(), Error> {
        let group = self.ask(operation, lease, |workload| {
            Arc::clone(&workload.kept.recorded.group)
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
            // What cannot run is refused before anything that does run is stopped.
            self.check(deployment)?;
        }
        let kept = Kept {
            recorded: deployment.clone(),
            deployed: Some(deployment.clone()),
        };
        // On the disk before anything stops or starts: a crash in between starts the new version.
        self.records.keep(kept.clone()).await?;
        self.state().keep(kept);
        // The old replicas end first: both versions would listen at the same port and write into the same
        // folder.
        self.stop(&deployment.lease).await;
        self.start(deployment)
    }

    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let deployed = {
            let state = self.state();
            state.check_epoch(deployment, "record")?;
            // Nothing is promised that cannot be kept.
            self.check(deployment)?;
            let there = state.get(&deployment.lease);
            there.and_then(|w| w.kept.deployed.clone())
        };
        let kept = Kept {
            recorded: deployment.clone(),
            deployed,
        };
        self.records.keep(kept.clone()).await?;
        self.state().keep(kept);
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
            state.get(lease).is_some() || state.unreadable.iter().any(|u| u.is_of(lease))
        };
        if is_known {
            // Processes first: they would go on writing into the folder that is removed.
            self.stop(lease).await;
            // The file goes before the memory: where it cannot be removed, the lease is still known to the
            // next try.
            self.records.forget(lease).await?;
            self.state().forget(lease);
        }
        Ok(Teardown::Done)
    }

    async fn deployments(&self) -> Result<Listing, Error> {
        let state = self.state();
        let idle = state.all().filter(|w| w.kept.deployed.is_none());
        Ok(Listing {
            deployments: state.all().map(|w| w.kept.recorded.clone()).collect(),
            unusable: state.unreadable.clone(),
            incomplete: idle.map(|w| w.kept.recorded.lease.clone()).collect(),
            place: "the folder of the cluster".to_owned(),
            remarks: Vec::new(),
        })
    }

    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        Ok(self
            .state()
            .get(lease)
            .map(|w| Arc::clone(&w.kept.recorded.group)))
    }

    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        self.ask("lease status", lease, Workload::status)
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
        self.ask("lease logs", lease, |workload| {
            let lines = workload.logs.of(&options.services);
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
        self.ask("lease events", lease, |workload| {
            let events = workload.events.of(&options.services).cloned().collect();
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

/// The last `limit` lines of each replica, in order.
fn tail<'a>(lines: impl DoubleEndedIterator<Item = &'a LogLine>, limit: Option<u64>) -> Vec<LogLine> {
    let limit = limit.unwrap_or(u64::MAX);
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    // Counted for each replica, so that a talkative one does not push out the lines of the others.
    let newest_first = lines.rev().filter(|line| {
        let seen = seen.entry(&line.name).or_default();
        *seen += 1;
        *seen <= limit
    });
    let mut kept: Vec<LogLine> = newest_first.cloned().collect();
    kept.reverse();
    kept
}

type Watcher = (Receiver<ClusterChange>, Weak<Mutex<State>>);

/// The next change; who was too slow for some gets a snapshot instead.
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
