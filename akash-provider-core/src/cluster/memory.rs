//! A cluster in memory: the reference implementation of a backend, with fault injection.
//!
//! A workload runs as soon as it is deployed. A workload with an image from a registry under `.invalid` stays
//! unhealthy, because such a registry cannot exist. A test controls health, logs, and failing or hanging
//! calls. A test reads the state ([`MemoryCluster::contents`]) and the number of calls
//! ([`MemoryCluster::calls`]). A teardown leaves hostnames and addresses declared, so that a test can detect
//! a caller that leaves them too.

mod calls;
mod facets;
mod port;
mod terminal;
#[cfg(test)]
mod tests;

use super::{
    ClusterChange, Health, HostnameDeclaration, IpDeclaration, LeaseEvent, LogLine, Outage, Severity,
    Teardown, WorkloadSpec,
};
use crate::error::{Error, ErrorKind};
use crate::feed::{Feed, lock};
use crate::manifest::{Proto, Service};
use crate::types::{BlockTime, LeaseId};
use calls::{InjectedFault, Script};
pub use calls::{LeaseCallCounts, Operation};
pub use facets::{ExecFn, ExecResult};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Maximum number of stored log lines per lease, of stored events per lease, and of queued items per
/// receiver.
const HISTORY_LIMIT: usize = 1000;

/// First forwarded port.
const FIRST_PORT: u16 = 30_000;

/// Optional parts (facets) of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facets {
    /// Whether hostnames can be routed to services.
    pub hostnames: bool,
    /// Number of addresses in the pool of leased IPs; `None` disables the facet.
    pub leased_ips: Option<u32>,
    /// Whether commands can be run inside services.
    pub shell: bool,
}

impl Default for Facets {
    /// Enables all facets, with a pool of 8 addresses.
    fn default() -> Self {
        Self {
            hostnames: true,
            leased_ips: Some(8),
            shell: true,
        }
    }
}

/// State of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterContents {
    /// Running workloads, with the specification of the last deploy.
    pub running: BTreeMap<LeaseId, WorkloadSpec>,
    /// Recorded workloads, running or not.
    pub recorded: BTreeMap<LeaseId, WorkloadSpec>,
    /// Declared hostnames and their leases.
    pub hostnames: BTreeMap<String, LeaseId>,
    /// Declared addresses of each lease.
    pub ips: BTreeMap<LeaseId, Vec<IpDeclaration>>,
}

impl ClusterContents {
    /// Returns true if the cluster has no objects of any lease.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A cluster in memory. Clones share the same cluster.
#[derive(Clone)]
pub struct MemoryCluster {
    state: Arc<Mutex<MemoryClusterState>>,
    released: Arc<Notify>,
    facets: Facets,
}

#[derive(Default)]
struct MemoryClusterState {
    workloads: BTreeMap<LeaseId, MemoryWorkload>,
    hostnames: BTreeMap<String, (LeaseId, HostnameDeclaration)>,
    ips: BTreeMap<LeaseId, Vec<IpDeclaration>>,
    watchers: Vec<Feed<Result<ClusterChange, Error>>>,
    blind: bool,
    start_ticks: u32,
    /// Log lines that every replica writes when it starts.
    start_lines: Vec<String>,
    /// Host of forwarded ports; `localhost` if unset.
    public_host: Option<String>,
    /// Number of `InProgress` responses before a teardown returns `Done`.
    teardown_delay: u32,
    script: Script,
    exec: Option<ExecFn>,
    /// Text for the log of each replica and for the output of each command.
    banner: Option<String>,
}

/// Followers. Each has the names of the followed services (empty for all services) and a stream.
type Readers<T> = Vec<ServiceReader<T>>;
type ServiceReader<T> = (Vec<String>, Feed<Result<T, Error>>);

#[derive(Debug)]
enum RecordHealth {
    Good,
    /// Unreadable record. Contains the reason.
    Corrupt(String),
    Lost,
}

#[derive(Debug)]
struct MemoryWorkload {
    /// Specification of the last `record` or `deploy` call.
    recorded: WorkloadSpec,
    record: RecordHealth,
    /// Specification of the last `deploy` call; `None` without a `deploy` call.
    running: Option<WorkloadSpec>,
    health: Health,
    /// Number of ticks until the workload is healthy.
    starting: u32,
    /// Number of `InProgress` responses that remain; `None` before a teardown.
    ending: Option<u32>,
    /// External ports by service, container port and protocol.
    ports: BTreeMap<(String, u16, Proto), u16>,
    logs: Vec<(String, LogLine)>,
    events: Vec<LeaseEvent>,
    log_readers: Readers<LogLine>,
    event_readers: Readers<LeaseEvent>,
}

impl fmt::Debug for MemoryCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCluster")
            .field("workloads", &lock(&self.state).workloads.len())
            .field("facets", &self.facets)
            .finish_non_exhaustive()
    }
}

impl Default for MemoryCluster {
    fn default() -> Self {
        Self::new(Facets::default())
    }
}

impl MemoryCluster {
    /// Creates an empty cluster with the optional parts in `facets`.
    #[must_use]
    pub fn new(facets: Facets) -> Self {
        Self {
            state: Arc::default(),
            released: Arc::default(),
            facets,
        }
    }

    /// Returns the current state of the cluster.
    #[must_use]
    pub fn contents(&self) -> ClusterContents {
        let state = lock(&self.state);
        let running = |(id, w): (&LeaseId, &MemoryWorkload)| Some((id.clone(), w.running.clone()?));
        let recorded = |(id, w): (&LeaseId, &MemoryWorkload)| (id.clone(), w.recorded.clone());
        let holder = |(name, (id, _)): (&String, &(LeaseId, _))| (name.clone(), id.clone());
        ClusterContents {
            running: state.workloads.iter().filter_map(running).collect(),
            recorded: state.workloads.iter().map(recorded).collect(),
            hostnames: state.hostnames.iter().map(holder).collect(),
            ips: state.ips.clone(),
        }
    }

    /// Returns the number of calls for a lease.
    #[must_use]
    pub fn calls(&self, lease: &LeaseId) -> LeaseCallCounts {
        lock(&self.state).script.calls(lease)
    }

    /// Returns the number of calls for every lease.
    #[must_use]
    pub fn all_calls(&self) -> BTreeMap<LeaseId, LeaseCallCounts> {
        lock(&self.state).script.all_calls()
    }

    /// Makes the record of a lease unreadable until its next `record` or `deploy`. Returns false if the
    /// cluster does not contain the lease.
    pub fn corrupt_record(&self, lease: &LeaseId, problem: &str) -> bool {
        self.set_record(lease, RecordHealth::Corrupt(problem.to_owned()))
    }

    /// Deletes the record of a lease. The next `record` or `deploy` creates the record again. The workload
    /// keeps running. Returns false if the cluster does not contain the lease.
    pub fn delete_record(&self, lease: &LeaseId) -> bool {
        self.set_record(lease, RecordHealth::Lost)
    }

    /// Restores a corrupted or deleted record of a lease. Returns false if the cluster does not contain the lease.
    pub fn restore_record(&self, lease: &LeaseId) -> bool {
        self.set_record(lease, RecordHealth::Good)
    }

    fn set_record(&self, lease: &LeaseId, record: RecordHealth) -> bool {
        let mut state = lock(&self.state);
        let workload = state.workloads.get_mut(lease);
        workload.map(|w| w.record = record).is_some()
    }

    /// Sets the health of a workload. Returns false if the workload is not running.
    pub fn set_health(&self, lease: &LeaseId, health: Health) -> bool {
        let mut state = lock(&self.state);
        let Some(workload) = state.workloads.get_mut(lease).filter(|w| w.running.is_some()) else {
            return false;
        };
        // A health set by a test disables the automatic start.
        workload.starting = 0;
        workload.set_health(health);
        state.tell_health(lease, health);
        true
    }

    /// Sets the number of [ticks](Self::tick) until a new workload becomes healthy. The default is 0.
    pub fn set_start_ticks(&self, ticks: u32) {
        lock(&self.state).start_ticks = ticks;
    }

    /// Sets the log lines of each replica at its start. By default nothing is logged.
    pub fn set_start_lines(&self, lines: impl IntoIterator<Item = impl Into<String>>) {
        lock(&self.state).start_lines = lines.into_iter().map(Into::into).collect();
    }

    /// Sets the public host of forwarded ports. The default is `localhost`.
    pub fn set_public_host(&self, host: &str) {
        lock(&self.state).public_host = Some(host.to_owned());
    }

    /// Advances starting workloads by one tick.
    pub fn tick(&self) {
        let mut state = lock(&self.state);
        let mut good = Vec::new();
        for (lease, workload) in state.workloads.iter_mut().filter(|(_, w)| w.starting > 0) {
            workload.starting -= 1;
            if workload.starting == 0 {
                workload.set_health(Health::Good);
                good.push(lease.clone());
            }
        }
        // After the loop, because the loop borrows the workloads.
        for lease in good {
            state.tell_health(&lease, Health::Good);
        }
    }

    /// Sets the number of `InProgress` responses before the `Done` of a teardown.
    pub fn set_teardown_delay(&self, answers: u32) {
        lock(&self.state).teardown_delay = answers;
    }

    /// Sends `Lost` to all watchers. The watchers then get no changes until
    /// [`restore_watch`](Self::restore_watch).
    pub fn lose_watch(&self) {
        let mut state = lock(&self.state);
        // Sent before the watch is disabled, because a disabled watch sends nothing.
        state.tell(&ClusterChange::Lost);
        state.blind = true;
    }

    /// Ends [`lose_watch`](Self::lose_watch). Watchers receive a snapshot, then all later changes.
    pub fn restore_watch(&self) {
        let mut state = lock(&self.state);
        // The watch is enabled before the snapshot, because a disabled watch sends nothing.
        state.blind = false;
        state.tell_snapshot();
    }

    /// Makes the next `times` calls of an operation fail without an effect.
    pub fn fail_next(&self, operation: Operation, times: u32, kind: ErrorKind) {
        lock(&self.state)
            .script
            .set(operation, InjectedFault::Fail(times, kind));
    }

    /// Makes the next calls of an operation take effect and then return a timeout. `times` is the number of
    /// these calls.
    pub fn lose_responses(&self, operation: Operation, times: u32) {
        lock(&self.state)
            .script
            .set(operation, InjectedFault::LoseAnswer(times));
    }

    /// Makes calls of an operation hang without taking effect.
    pub fn hang(&self, operation: Operation) {
        lock(&self.state).script.set(operation, InjectedFault::Hang);
    }

    /// Removes all injected faults of an operation. A hanging call continues to hang.
    pub fn restore(&self, operation: Operation) {
        lock(&self.state).script.clear(operation);
        self.released.notify_waiters();
    }

    /// Sets the behavior of commands. By default a command copies its input to its output.
    pub fn set_exec(&self, exec: ExecFn) {
        lock(&self.state).exec = Some(exec);
    }

    /// Sets the banner, which every replica logs at its first deploy.
    ///
    /// Commands also print the banner, unless [`set_exec`](Self::set_exec) was called. In a terminal, a
    /// command echoes the input until Ctrl-C, Ctrl-D, `exit` or the end of the input.
    pub fn set_banner(&self, text: &str) {
        lock(&self.state).banner = Some(text.to_owned());
    }

    /// Adds a log line of a replica. Returns false if the lease is not running.
    pub fn log(&self, lease: &LeaseId, service: &str, replica: u32, message: &str) -> bool {
        let mut state = lock(&self.state);
        let Some(workload) = state.workloads.get_mut(lease).filter(|w| w.running.is_some()) else {
            return false;
        };
        workload.add_line(service, replica, message);
        true
    }

    /// Adds an event of a service. Returns false if the lease is not running.
    pub fn event(&self, lease: &LeaseId, service: &str, reason: &str, message: &str) -> bool {
        let mut state = lock(&self.state);
        let Some(workload) = state.workloads.get_mut(lease).filter(|w| w.running.is_some()) else {
            return false;
        };
        workload.add_event(Severity::Normal, service, reason, message);
        true
    }
}

/// Returns true if the image can start. Images from a registry under `.invalid` never start.
fn has_image(service: &Service) -> bool {
    let registry = service.image.split('/').next().unwrap_or_default();
    let host = registry.split(':').next().unwrap_or_default();
    !host.ends_with(".invalid")
}

fn remember<T>(history: &mut Vec<T>, item: T) {
    if history.len() >= HISTORY_LIMIT {
        // At most a thousand entries, so moving them is cheap.
        history.remove(0);
    }
    history.push(item);
}

fn tell_readers<T: Clone + Send + 'static>(readers: &mut Readers<T>, service: &str, item: &T) {
    readers.retain(|(services, feed)| {
        let wanted = services.is_empty() || services.iter().any(|s| s == service);
        feed.update(|queue| {
            if wanted {
                if queue.len() >= HISTORY_LIMIT {
                    queue.pop_front();
                }
                queue.push_back(Ok(item.clone()));
            }
        })
    });
}

impl MemoryWorkload {
    fn recorded(deployment: &WorkloadSpec) -> Self {
        Self {
            recorded: deployment.clone(),
            record: RecordHealth::Good,
            running: None,
            health: Health::Unknown,
            starting: 0,
            ending: None,
            ports: BTreeMap::new(),
            logs: Vec::new(),
            events: Vec::new(),
            log_readers: Vec::new(),
            event_readers: Vec::new(),
        }
    }

    fn set_health(&mut self, health: Health) {
        self.health = health;
        let (severity, reason) = match health {
            Health::Good => (Severity::Normal, "Healthy"),
            Health::Bad | Health::Out(_) => (Severity::Warning, "Unhealthy"),
            Health::Unknown => return,
        };
        self.add_event(severity, "", reason, "");
    }

    fn add_line(&mut self, service: &str, replica: u32, message: &str) {
        let line = LogLine {
            name: format!("{service}-{replica}"),
            message: message.to_owned(),
        };
        tell_readers(&mut self.log_readers, service, &line);
        remember(&mut self.logs, (service.to_owned(), line));
    }

    /// Logs the start lines of every replica that can start.
    fn add_start_lines(&mut self, deployment: &WorkloadSpec, lines: &[String]) {
        for service in deployment.group.services.iter().filter(|s| has_image(s)) {
            for (replica, line) in (0..service.count).flat_map(|n| lines.iter().map(move |l| (n, l))) {
                self.add_line(&service.name, replica, line);
            }
        }
    }

    fn add_event(&mut self, severity: Severity, service: &str, reason: &str, message: &str) {
        let event = LeaseEvent {
            time: BlockTime(0),
            service: service.to_owned(),
            severity,
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..LeaseEvent::default()
        };
        tell_readers(&mut self.event_readers, service, &event);
        remember(&mut self.events, event);
    }

    /// Assigns an external port to each expose that needs a port. Reuses the previous port, or takes the
    /// lowest free port.
    fn assign_ports(&mut self, mut taken: BTreeSet<u16>) {
        let mut ports = BTreeMap::new();
        for service in self.running.iter().flat_map(|d| &d.group.services) {
            for expose in service
                .expose
                .iter()
                .filter(|e| e.global && e.ip.is_empty() && !e.is_ingress())
            {
                let key = (service.name.clone(), expose.port, expose.proto);
                let free = || (FIRST_PORT..=u16::MAX).find(|p| !taken.contains(p));
                if let Some(port) = self.ports.get(&key).copied().or_else(free) {
                    taken.insert(port);
                    ports.insert(key, port);
                }
            }
        }
        self.ports = ports;
    }
}

impl MemoryClusterState {
    fn tell(&mut self, change: &ClusterChange) {
        if self.blind {
            return;
        }
        let whole = self.snapshot();
        self.watchers.retain(|watcher| {
            watcher.update(|queue| {
                if queue.len() >= HISTORY_LIMIT {
                    // A slow watcher receives a snapshot instead of the missed changes.
                    queue.clear();
                    queue.push_back(Ok(whole.clone()));
                } else {
                    queue.push_back(Ok(change.clone()));
                }
            })
        });
    }

    fn tell_health(&mut self, lease: &LeaseId, health: Health) {
        let lease = lease.clone();
        self.tell(&ClusterChange::Health { lease, health });
    }

    fn tell_snapshot(&mut self) {
        let snapshot = self.snapshot();
        self.tell(&snapshot);
    }

    fn snapshot(&self) -> ClusterChange {
        let running = self.workloads.iter().filter(|(_, w)| w.running.is_some());
        ClusterChange::Snapshot {
            health: running.map(|(id, w)| (id.clone(), w.health)).collect(),
        }
    }

    /// Refuses a write if its epoch is older than the epoch of the last write.
    fn check_epoch(&self, deployment: &WorkloadSpec, operation: &'static str) -> Result<(), Error> {
        let Some(there) = self.workloads.get(&deployment.lease) else {
            return Ok(());
        };
        if there.recorded.epoch <= deployment.epoch {
            return Ok(());
        }
        let (lease, now, then) = (&deployment.lease, there.recorded.epoch, deployment.epoch);
        let message =
            format!("lease {lease} was written in epoch {now}; a write of epoch {then} is too late");
        Err(Error::new(ErrorKind::Conflict, operation, message))
    }

    fn record(&mut self, deployment: &WorkloadSpec) -> &mut MemoryWorkload {
        let lease = deployment.lease.clone();
        let workload = self.workloads.entry(lease);
        let workload = workload.or_insert_with(|| MemoryWorkload::recorded(deployment));
        workload.recorded = deployment.clone();
        workload.record = RecordHealth::Good;
        workload
    }

    fn deploy(&mut self, deployment: &WorkloadSpec) {
        let lease = &deployment.lease;
        let others = self.workloads.iter().filter(|(id, _)| *id != lease);
        let taken = others.flat_map(|(_, w)| w.ports.values().copied()).collect();
        let (ticks, lines) = (self.start_ticks, self.start_lines.clone());
        let banner = self.banner.clone();
        let workload = self.record(deployment);
        // A deploy cancels a teardown in progress.
        workload.ending = None;
        // A repeated deploy changes nothing: the workload keeps running, with its ports and its health.
        if workload.running.as_ref() == Some(deployment) {
            return;
        }
        let is_first = workload.running.is_none();
        workload.running = Some(deployment.clone());
        if let Some(banner) = banner.filter(|_| is_first) {
            workload.add_start_lines(deployment, &[banner]);
        }
        workload.assign_ports(taken);
        workload.add_event(Severity::Normal, "", "Deployed", "");
        workload.add_start_lines(deployment, &lines);
        let can_run = deployment.group.services.iter().all(has_image);
        workload.starting = if can_run { ticks } else { 0 };
        let health = match (can_run, ticks) {
            (true, 0) => Health::Good,
            (true, _) => Health::Out(Outage::Starting),
            (false, _) => Health::Bad,
        };
        workload.set_health(health);
        self.tell_health(lease, health);
    }

    fn teardown(&mut self, lease: &LeaseId) -> Teardown {
        let delay = self.teardown_delay;
        let Some(workload) = self.workloads.get_mut(lease) else {
            return Teardown::Done;
        };
        let left = workload.ending.get_or_insert(delay);
        if *left > 0 {
            *left -= 1;
            return Teardown::InProgress;
        }
        self.workloads.remove(lease);
        // A snapshot without the lease is the only way to report that the lease is not running.
        self.tell_snapshot();
        Teardown::Done
    }
}
