//! The implementation of [`Cluster`] for a cluster in memory.

use super::{MemoryCluster, MemoryClusterState, MemoryWorkload, Operation, RecordHealth};
use crate::cluster::{
    Cluster, ClusterChange, EventOptions, ForwardedPort, Health, Hostnames, LeaseEvent, LeaseStatus,
    LeasedIps, Listing, LogLine, LogOptions, RecordDefect, ServiceStatus, Shell, Teardown, UnusableRecord,
    WorkloadSpec,
};
use crate::error::{Error, ErrorKind};
use crate::feed::{Feed, lock};
use crate::manifest::Group;
use crate::types::LeaseId;
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;

impl MemoryClusterState {
    fn listing(&self) -> Listing {
        let mut listing = Listing {
            place: "memory".to_owned(),
            ..Listing::default()
        };
        for (lease, workload) in &self.workloads {
            let (remains, problem) = match &workload.record {
                RecordHealth::Good => {
                    if workload.running.is_none() {
                        listing.incomplete.push(lease.clone());
                    }
                    listing.deployments.push(workload.recorded.clone());
                    continue;
                }
                RecordHealth::Corrupt(problem) => (RecordDefect::Unreadable, problem.clone()),
                // No record and no workload exists.
                RecordHealth::Lost if workload.running.is_none() => continue,
                RecordHealth::Lost => (
                    RecordDefect::Unrecorded,
                    "the workload runs without a record".to_owned(),
                ),
            };
            listing.unusable.push(UnusableRecord {
                lease: Some(lease.clone()),
                name: lease.namespace(),
                remains,
                problem,
            });
        }
        listing
    }
}

impl MemoryWorkload {
    fn group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        match &self.record {
            RecordHealth::Good => Ok(Some(Arc::clone(&self.recorded.group))),
            RecordHealth::Lost => Ok(None),
            RecordHealth::Corrupt(problem) => {
                let message = format!("the record of lease {lease} cannot be read: {problem}");
                Err(Error::new(ErrorKind::Internal, "manifest group", message))
            }
        }
    }
}

fn no_lease(operation: Operation, lease: &LeaseId) -> Error {
    let message = format!("lease {lease} is unknown");
    Error::new(ErrorKind::NotFound, operation.name(), message)
}

fn no_service(operation: Operation, lease: &LeaseId, service: &str) -> Error {
    let message = format!("lease {lease} has no service `{service}`");
    Error::new(ErrorKind::NotFound, operation.name(), message)
}

impl MemoryClusterState {
    fn workload(&mut self, operation: Operation, lease: &LeaseId) -> Result<&mut MemoryWorkload, Error> {
        self.workloads
            .get_mut(lease)
            .ok_or_else(|| no_lease(operation, lease))
    }

    fn status(&self, lease: &LeaseId) -> Option<LeaseStatus> {
        let workload = self.workloads.get(lease)?;
        let running = workload.running.is_some() && workload.health == Health::Good;
        let services = &workload.recorded.group.services;
        let status = |service: &crate::manifest::Service| {
            let available = if running { service.count } else { 0 };
            let names = self.hostnames.values();
            let uris = names.filter(|(holder, name)| holder == lease && name.service == service.name);
            let status = ServiceStatus {
                name: service.name.clone(),
                available,
                total: service.count,
                uris: uris.map(|(_, name)| name.hostname.clone()).collect(),
                hostnames: BTreeMap::new(),
                updated_replicas: available,
                ready_replicas: available,
                replicas: available,
                available_replicas: available,
                observed_generation: 0,
                last_termination: None,
            };
            (service.name.clone(), status)
        };
        Some(LeaseStatus {
            services: services.iter().map(status).collect(),
            forwarded_ports: workload.forwarded_ports(self.public_host.as_deref().unwrap_or("localhost")),
            ips: self.assigned_ips(lease),
        })
    }
}

impl MemoryWorkload {
    fn forwarded_ports(&self, host: &str) -> BTreeMap<String, Vec<ForwardedPort>> {
        let mut by_service: BTreeMap<String, Vec<ForwardedPort>> = BTreeMap::new();
        for ((service, port, proto), external) in &self.ports {
            let of_service = by_service.entry(service.clone()).or_default();
            of_service.push(ForwardedPort {
                host: host.to_owned(),
                port: *port,
                external_port: *external,
                proto: *proto,
                name: service.clone(),
            });
        }
        by_service
    }

    fn check_services(&self, lease: &LeaseId, services: &[String]) -> Result<(), Error> {
        let has = |name: &&String| self.recorded.group.services.iter().any(|s| s.name == **name);
        match services.iter().find(|name| !has(name)) {
            None => Ok(()),
            Some(unknown) => Err(no_service(Operation::Logs, lease, unknown)),
        }
    }

    /// Returns the last `tail` stored lines of each replica.
    fn lines(&self, options: &LogOptions) -> Vec<LogLine> {
        let wanted = |service: &String| options.services.is_empty() || options.services.contains(service);
        let lines = self.logs.iter().filter(|(s, _)| wanted(s)).map(|(_, l)| l);
        let mut left: BTreeMap<&str, u64> = BTreeMap::new();
        // Starts at the newest line, because the tail is counted from the end.
        let newest_first = lines.rev().filter(|line| {
            let Some(tail) = options.tail_lines else {
                return true;
            };
            let left = left.entry(&line.name).or_insert(tail);
            let keep = *left > 0;
            *left = left.saturating_sub(1);
            keep
        });
        let mut oldest_first: Vec<LogLine> = newest_first.cloned().collect();
        oldest_first.reverse();
        oldest_first
    }
}

/// Returns a stream of the stored items, then of new items.
fn history_then<T: Send + 'static>(
    history: Vec<T>,
    rest: Option<BoxStream<'static, Result<T, Error>>>,
) -> BoxStream<'static, Result<T, Error>> {
    let history = stream::iter(history.into_iter().map(Ok));
    match rest {
        None => history.boxed(),
        Some(rest) => history.chain(rest).boxed(),
    }
}

#[async_trait]
impl Cluster for MemoryCluster {
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let call = self.begin(Operation::Deploy, Some(&deployment.lease)).await?;
        // The lock is released before `answer`, which takes the same lock.
        {
            let mut state = lock(&self.state);
            state.check_epoch(deployment, Operation::Deploy.name())?;
            state.deploy(deployment);
        }
        call.answer(())
    }

    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        let call = self.begin(Operation::Record, Some(&deployment.lease)).await?;
        {
            let mut state = lock(&self.state);
            state.check_epoch(deployment, Operation::Record.name())?;
            state.record(deployment);
        }
        call.answer(())
    }

    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        // Under one lock, so that no change between the snapshot and the watch is lost.
        let mut state = lock(&self.state);
        let (feed, stream) = Feed::new();
        let first = if state.blind {
            ClusterChange::Lost
        } else {
            state.snapshot()
        };
        feed.update(|queue| queue.push_back(Ok(first)));
        state.watchers.push(feed);
        stream
    }

    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        let call = self.begin(Operation::Teardown, Some(lease)).await?;
        let teardown = lock(&self.state).teardown(lease);
        call.answer(teardown)
    }

    async fn deployments(&self) -> Result<Listing, Error> {
        let call = self.begin(Operation::Deployments, None).await?;
        let state = lock(&self.state);
        let listing = state.listing();
        drop(state);
        call.answer(listing)
    }

    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        let call = self.begin(Operation::Deployments, Some(lease)).await?;
        let state = lock(&self.state);
        let workload = state.workloads.get(lease);
        let group = workload.map(|w| w.group(lease));
        drop(state);
        call.answer(group.transpose()?.flatten())
    }

    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        let call = self.begin(Operation::Status, Some(lease)).await?;
        let status = lock(&self.state).status(lease);
        call.answer(status.ok_or_else(|| no_lease(Operation::Status, lease))?)
    }

    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        let mut status = self.lease_status(lease).await?;
        let found = status.services.remove(service);
        found.ok_or_else(|| no_service(Operation::Status, lease, service))
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
        let call = self.begin(Operation::Logs, Some(lease)).await?;
        let stream = {
            // Under one lock, so that no line between the stored and the new lines is lost.
            let mut state = lock(&self.state);
            let workload = state.workload(Operation::Logs, lease)?;
            workload.check_services(lease, &options.services)?;
            let rest = options.follow.then(|| {
                let (feed, rest) = Feed::new();
                workload.log_readers.push((options.services.clone(), feed));
                rest
            });
            history_then(workload.lines(&options), rest)
        };
        call.answer(stream)
    }

    async fn lease_events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        let call = self.begin(Operation::Logs, Some(lease)).await?;
        let stream = {
            // Under one lock, so that no event between the stored and the new events is lost.
            let mut state = lock(&self.state);
            let workload = state.workload(Operation::Logs, lease)?;
            workload.check_services(lease, &options.services)?;
            let wanted =
                |e: &&LeaseEvent| options.services.is_empty() || options.services.contains(&e.service);
            let history = workload.events.iter().filter(wanted).cloned().collect();
            let rest = options.follow.then(|| {
                let (feed, rest) = Feed::new();
                workload.event_readers.push((options.services.clone(), feed));
                rest
            });
            history_then(history, rest)
        };
        call.answer(stream)
    }

    async fn version(&self) -> Result<String, Error> {
        let call = self.begin(Operation::Version, None).await?;
        call.answer(concat!("memory ", env!("CARGO_PKG_VERSION")).to_owned())
    }

    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        self.facets.hostnames.then(|| Arc::new(self.clone()) as _)
    }

    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        self.facets.leased_ips.map(|_| Arc::new(self.clone()) as _)
    }

    fn shell(&self) -> Option<Arc<dyn Shell>> {
        self.facets.shell.then(|| Arc::new(self.clone()) as _)
    }
}
