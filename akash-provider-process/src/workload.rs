//! Workloads of all leases: records, running processes and status.

use crate::journal::Journal;
use crate::process::ReplicaEvent;
use crate::records::LeaseRecord;
use akash_provider_core::cluster::{
    ClusterChange, ForwardedPort, Health, LeaseEvent, LeaseStatus, LogLine, ServiceStatus, Severity,
    UnusableRecord, WorkloadSpec,
};
use akash_provider_core::manifest::Proto;
use akash_provider_core::types::{BlockTime, LeaseId};
use akash_provider_core::{Error, ErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// First allocated port, in the range of Kubernetes node ports.
const FIRST_PORT: u16 = 30_000;
/// Maximum number of unread changes of a watcher. Above this number, the watcher gets a snapshot.
const WAITING: usize = 1024;

/// Allocated ports by service.
pub(crate) type ServicePorts = BTreeMap<String, Vec<ForwardedPort>>;

#[derive(Debug)]
pub(crate) struct WorkloadTable {
    workloads: BTreeMap<LeaseId, ProcessWorkload>,
    /// Records that could not be read at the start and were not replaced later.
    pub(crate) unreadable: Vec<UnusableRecord>,
    changes: broadcast::Sender<ClusterChange>,
}

#[derive(Debug)]
pub(crate) struct ProcessWorkload {
    pub(crate) record: LeaseRecord,
    pub(crate) running: Option<Running>,
    pub(crate) logs: Journal<LogLine>,
    pub(crate) events: Journal<LeaseEvent>,
}

/// Running workload. Dropping the value stops the processes.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) deployment: WorkloadSpec,
    pub(crate) ports: ServicePorts,
    /// True for a running replica, by service name and replica number.
    up: BTreeMap<(String, u32), bool>,
    pub(crate) stop: CancellationToken,
    pub(crate) replicas: TaskTracker,
}

impl Default for WorkloadTable {
    fn default() -> Self {
        Self {
            workloads: BTreeMap::new(),
            unreadable: Vec::new(),
            changes: broadcast::Sender::new(WAITING),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Running {
    /// Stops all replicas. All replicas have ended when the returned tracker is empty.
    pub(crate) fn stop(&self) -> TaskTracker {
        self.stop.cancel();
        self.replicas.clone()
    }

    pub(crate) fn new(deployment: WorkloadSpec, ports: ServicePorts) -> Self {
        let replicas = deployment.group.services.iter();
        let replicas = replicas.flat_map(|s| (0..s.count).map(|n| ((s.name.clone(), n), false)));
        Self {
            up: replicas.collect(),
            deployment,
            ports,
            stop: CancellationToken::new(),
            replicas: TaskTracker::new(),
        }
    }

    fn health(&self) -> Health {
        if self.up.values().all(|up| *up) {
            Health::Good
        } else {
            Health::Bad
        }
    }

    fn available(&self, service: &str) -> u32 {
        let up = self.up.iter().filter(|((of, _), up)| of == service && **up);
        u32::try_from(up.count()).unwrap_or(u32::MAX)
    }
}

impl ProcessWorkload {
    pub(crate) fn event(&mut self, severity: Severity, service: &str, reason: &str, message: String) {
        // A clock before 1970 must not lose an event.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = LeaseEvent {
            time: BlockTime(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)),
            service: service.to_owned(),
            severity,
            reason: reason.to_owned(),
            message,
            ..LeaseEvent::default()
        };
        self.events.push(service, event);
    }

    pub(crate) fn status(&self) -> LeaseStatus {
        let running = self.running.as_ref();
        let services = self.record.recorded.group.services.iter().map(|service| {
            let available = running.map_or(0, |r| r.available(&service.name));
            let status = ServiceStatus {
                name: service.name.clone(),
                available,
                total: service.count,
                uris: Vec::new(),
                hostnames: BTreeMap::new(),
                updated_replicas: available,
                ready_replicas: available,
                replicas: available,
                available_replicas: available,
                observed_generation: 0,
                last_termination: None,
            };
            (service.name.clone(), status)
        });
        LeaseStatus {
            services: services.collect(),
            forwarded_ports: running.map(|r| r.ports.clone()).unwrap_or_default(),
            ..LeaseStatus::default()
        }
    }
}

impl WorkloadTable {
    pub(crate) fn get(&self, lease: &LeaseId) -> Option<&ProcessWorkload> {
        self.workloads.get(lease)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &ProcessWorkload> {
        self.workloads.values()
    }

    /// Returns an error if a write has an older epoch than the stored record.
    pub(crate) fn check_epoch(
        &self,
        deployment: &WorkloadSpec,
        operation: &'static str,
    ) -> Result<(), Error> {
        let there = self.get(&deployment.lease).map(|w| w.record.recorded.epoch);
        if there.is_none_or(|epoch| epoch <= deployment.epoch) {
            return Ok(());
        }
        let message = format!("lease {} was written by a later leader", deployment.lease);
        Err(Error::new(ErrorKind::Conflict, operation, message))
    }

    /// Stores the record of a lease. Running processes continue.
    pub(crate) fn store(&mut self, record: LeaseRecord) {
        self.unreadable.retain(|u| !u.belongs_to(&record.recorded.lease));
        let lease = record.recorded.lease.clone();
        match self.workloads.get_mut(&lease) {
            Some(workload) => workload.record = record,
            None => {
                let workload = ProcessWorkload {
                    record,
                    running: None,
                    logs: Journal::default(),
                    events: Journal::default(),
                };
                self.workloads.insert(lease, workload);
            }
        }
    }

    /// Stores the running workload of a recorded lease, and publishes its health.
    pub(crate) fn run(&mut self, running: Running) {
        let lease = running.deployment.lease.clone();
        let health = running.health();
        if let Some(workload) = self.workloads.get_mut(&lease) {
            workload.running = Some(running);
            workload.event(Severity::Normal, "", "Deployed", String::new());
            self.publish(ClusterChange::Health { lease, health });
        }
    }

    /// Removes a lease, which ends the streams of its logs and events.
    pub(crate) fn remove(&mut self, lease: &LeaseId) {
        self.unreadable.retain(|u| !u.belongs_to(lease));
        self.workloads.remove(lease);
        let snapshot = self.snapshot();
        self.publish(snapshot);
    }

    pub(crate) fn handle_event(&mut self, lease: &LeaseId, service: &str, replica: u32, event: ReplicaEvent) {
        let Some(workload) = self.workloads.get_mut(lease) else {
            // The lease was torn down meanwhile.
            return;
        };
        let name = format!("{service}-{replica}");
        let is_up = match event {
            ReplicaEvent::Line(message) => return workload.logs.push(service, LogLine { name, message }),
            ReplicaEvent::Up => {
                workload.event(Severity::Normal, service, "Started", name);
                true
            }
            ReplicaEvent::Down(why) => {
                workload.event(Severity::Warning, service, "Ended", format!("{name}: {why}"));
                false
            }
        };
        let Some(running) = &mut workload.running else {
            return;
        };
        let before = running.health();
        running.up.insert((service.to_owned(), replica), is_up);
        let health = running.health();
        if health != before {
            let lease = lease.clone();
            self.publish(ClusterChange::Health { lease, health });
        }
    }

    /// Returns a snapshot and a receiver of later changes.
    pub(crate) fn watch(&self) -> (ClusterChange, broadcast::Receiver<ClusterChange>) {
        // Both under one lock, so that no change is missed between them.
        (self.snapshot(), self.changes.subscribe())
    }

    fn snapshot(&self) -> ClusterChange {
        let running = self
            .workloads
            .iter()
            .filter_map(|(id, w)| Some((id, w.running.as_ref()?)));
        ClusterChange::Snapshot {
            health: running.map(|(id, r)| (id.clone(), r.health())).collect(),
        }
    }

    fn publish(&self, change: ClusterChange) {
        // Without watchers the send fails, which is no error.
        let _ = self.changes.send(change);
    }

    /// Allocates free local ports for the exposes that require a port. Ports of a running lease are
    /// unchanged.
    pub(crate) fn ports(&self, deployment: &WorkloadSpec) -> ServicePorts {
        let mine = self.get(&deployment.lease).and_then(|w| w.running.as_ref());
        let of_all = self
            .all()
            .filter_map(|w| w.running.as_ref())
            .flat_map(|r| r.ports.values().flatten());
        let mut taken: BTreeSet<u16> = of_all.map(|p| p.external_port).collect();
        let mut ports = ServicePorts::new();
        for service in &deployment.group.services {
            // Exposes through an ingress or a leased IP get no node port in a cluster either.
            let exposes = service
                .expose
                .iter()
                .filter(|e| e.global && e.ip.is_empty() && !e.is_ingress());
            for expose in exposes {
                let before = mine
                    .and_then(|r| r.ports.get(&service.name))
                    .into_iter()
                    .flatten();
                let mut before = before.filter(|p| (p.port, p.proto) == (expose.port, expose.proto));
                let free = |port: &u16| !taken.contains(port) && is_free(*port, expose.proto);
                let port = before.next().map(|p| p.external_port);
                let Some(external_port) = port.or_else(|| (FIRST_PORT..=u16::MAX).find(free)) else {
                    // No port is free. The service runs without a port, and its status shows that.
                    continue;
                };
                taken.insert(external_port);
                ports
                    .entry(service.name.clone())
                    .or_default()
                    .push(ForwardedPort {
                        host: "localhost".to_owned(),
                        port: expose.port,
                        external_port,
                        proto: expose.proto,
                        name: service.name.clone(),
                    });
            }
        }
        ports
    }
}

fn is_free(port: u16, proto: Proto) -> bool {
    // The test releases the port at once, so another program may take it before the replica does.
    match proto {
        Proto::Tcp => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok(),
        Proto::Udp => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok(),
    }
}
