//! A cluster in memory: the reference of what a backend does, with faults on demand.
//!
//! Workloads "run" as soon as they are deployed, but for those with an image of a registry under `.invalid`, which
//! nobody can have: they stay unhealthy. A test says how their health goes on, what is logged, which
//! calls fail or hang, and looks at what is there ([`MemoryCluster::contents`]) and at who called what
//! ([`MemoryCluster::calls`]). Tearing a lease down leaves its hostnames and addresses declared: who declared
//! them takes them back, and a test sees it when nobody does.

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
pub use calls::{Calls, Operation};
use calls::{Fault, Script};
pub use facets::{ExecFn, ExecResult};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Log lines and events kept of a lease, and changes that wait for a slow watcher.
const HISTORY_LIMIT: usize = 1000;

/// First of the ports handed out.
const FIRST_PORT: u16 = 30_000;

/// Which facets a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facets {
    /// Hostnames that lead to services.
    pub hostnames: bool,
    /// Addresses in the pool of leased IPs; `None` for no such facet.
    pub leased_ips: Option<u32>,
    /// Commands inside running services.
    pub shell: bool,
}

impl Default for Facets {
    /// All of them, with a pool of 8 addresses.
    fn default() -> Self {
        Self {
            hostnames: true,
            leased_ips: Some(8),
            shell: true,
        }
    }
}

/// Everything that is in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// Workloads that run, as deployed last.
    pub running: BTreeMap<LeaseId, WorkloadSpec>,
    /// Deployments that are recorded, whether they run or not.
    pub recorded: BTreeMap<LeaseId, WorkloadSpec>,
    /// Declared hostnames, each with the lease that it leads to.
    pub hostnames: BTreeMap<String, LeaseId>,
    /// Addresses that each lease has declared.
    pub ips: BTreeMap<LeaseId, Vec<IpDeclaration>>,
}

impl Contents {
    /// True when nothing is left of any lease.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A cluster in memory. A clone is the same cluster.
#[derive(Clone)]
pub struct MemoryCluster {
    state: Arc<Mutex<State>>,
    released: Arc<Notify>,
    facets: Facets,
}

#[derive(Default)]
struct State {
    workloads: BTreeMap<LeaseId, Workload>,
    hostnames: BTreeMap<String, (LeaseId, HostnameDeclaration)>,
    ips: BTreeMap<LeaseId, Vec<IpDeclaration>>,
    watchers: Vec<Feed<Result<ClusterChange, Error>>>,
    blind: bool,
    start_ticks: u32,
    /// What every replica logs when it starts.
    start_lines: Vec<String>,
    /// Where forwarded ports are reached; `localhost` where nothing is said.
    public_host: Option<String>,
    /// Answers `InProgress` before a teardown is done.
    teardown_delay: u32,
    script: Script,
    exec: Option<ExecFn>,
    /// What workloads say of themselves.
    banner: Option<String>,
}

/// Listeners with the services they want; none for all.
type Readers<T> = Vec<Reader<T>>;
type Reader<T> = (Vec<String>, Feed<Result<T, Error>>);

#[derive(Debug)]
enum Record {
    Good,
    /// It cannot be read; says why.
    Spoiled(String),
    Lost,
}

#[derive(Debug)]
struct Workload {
    /// As recorded or deployed last.
    recorded: WorkloadSpec,
    record: Record,
    /// As deployed last; `None` while it is only recorded.
    running: Option<WorkloadSpec>,
    health: Health,
    /// Ticks until it is healthy.
    starting: u32,
    /// `InProgress` answers left; `None` until a teardown is asked for.
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
    /// A cluster with these facets and nothing in it.
    #[must_use]
    pub fn new(facets: Facets) -> Self {
        Self {
            state: Arc::default(),
            released: Arc::default(),
            facets,
        }
    }

    /// Everything that is there at this moment.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let state = lock(&self.state);
        let running = |(id, w): (&LeaseId, &Workload)| Some((id.clone(), w.running.clone()?));
        let recorded = |(id, w): (&LeaseId, &Workload)| (id.clone(), w.recorded.clone());
        let holder = |(name, (id, _)): (&String, &(LeaseId, _))| (name.clone(), id.clone());
        Contents {
            running: state.workloads.iter().filter_map(running).collect(),
            recorded: state.workloads.iter().map(recorded).collect(),
            hostnames: state.hostnames.iter().map(holder).collect(),
            ips: state.ips.clone(),
        }
    }

    /// Calls about a lease so far.
    #[must_use]
    pub fn calls(&self, lease: &LeaseId) -> Calls {
        lock(&self.state).script.calls(lease)
    }

    /// Calls about every lease so far.
    #[must_use]
    pub fn all_calls(&self) -> BTreeMap<LeaseId, Calls> {
        lock(&self.state).script.all_calls()
    }

    /// The record of a lease becomes unreadable, until it is recorded or deployed anew; false when there is none.
    pub fn spoil_record(&self, lease: &LeaseId, problem: &str) -> bool {
        self.set_record(lease, Record::Spoiled(problem.to_owned()))
    }

    /// The record of a lease goes while its workload runs on, until it is recorded or deployed anew; false when
    /// there is none.
    pub fn lose_record(&self, lease: &LeaseId) -> bool {
        self.set_record(lease, Record::Lost)
    }

    /// The record of a lease is as it was before it was spoiled or lost; false when there is none.
    pub fn restore_record(&self, lease: &LeaseId) -> bool {
        self.set_record(lease, Record::Good)
    }

    fn set_record(&self, lease: &LeaseId, record: Record) -> bool {
        let mut state = lock(&self.state);
        let workload = state.workloads.get_mut(lease);
        workload.map(|w| w.record = record).is_some()
    }

    /// Sets what is known of a workload's health; false when it does not run.
    pub fn set_health(&self, lease: &LeaseId, health: Health) -> bool {
        let mut state = lock(&self.state);
        let Some(workload) = state.workloads.get_mut(lease).filter(|w| w.running.is_some()) else {
            return false;
        };
        // Told by hand, so it does not become healthy by itself any more.
        workload.starting = 0;
        workload.set_health(health);
        state.tell_health(lease, health);
        true
    }

    /// New workloads are known to be bad for so many [ticks](Self::tick) before they are good; 0 at first.
    pub fn set_start_ticks(&self, ticks: u32) {
        lock(&self.state).start_ticks = ticks;
    }

    /// What each replica of a workload logs when it starts, as a container would; nothing at first.
    pub fn set_start_lines(&self, lines: impl IntoIterator<Item = impl Into<String>>) {
        lock(&self.state).start_lines = lines.into_iter().map(Into::into).collect();
    }

    /// Sets the host at which forwarded ports are said to be reached; `localhost` at first.
    pub fn set_public_host(&self, host: &str) {
        lock(&self.state).public_host = Some(host.to_owned());
    }

    /// Lets workloads that start come a tick closer to health.
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
        // Told after the loop, which holds the workloads.
        for lease in good {
            state.tell_health(&lease, Health::Good);
        }
    }

    /// The next teardown of every lease answers `InProgress` so many times first.
    pub fn set_teardown_delay(&self, answers: u32) {
        lock(&self.state).teardown_delay = answers;
    }

    /// Watchers hear `Lost` and then nothing.
    pub fn lose_watch(&self) {
        let mut state = lock(&self.state);
        // Told first, because who is blind tells nothing.
        state.tell(&ClusterChange::Lost);
        state.blind = true;
    }

    /// Watchers hear a snapshot and everything after it.
    pub fn restore_watch(&self) {
        let mut state = lock(&self.state);
        // Sees again first, because who is blind tells nothing.
        state.blind = false;
        state.tell_snapshot();
    }

    /// The next `times` calls of an operation fail and do nothing.
    pub fn fail_next(&self, operation: Operation, times: u32, kind: ErrorKind) {
        lock(&self.state).script.set(operation, Fault::Fail(times, kind));
    }

    /// The next `times` calls of an operation are done, but their callers get a timeout.
    pub fn lose_answers(&self, operation: Operation, times: u32) {
        lock(&self.state).script.set(operation, Fault::LoseAnswer(times));
    }

    /// Calls of an operation hang from now on, before they do anything.
    pub fn hang(&self, operation: Operation) {
        lock(&self.state).script.set(operation, Fault::Hang);
    }

    /// Ends every fault of an operation; calls that hang go on.
    pub fn restore(&self, operation: Operation) {
        lock(&self.state).script.clear(operation);
        self.released.notify_waiters();
    }

    /// What a command in a service does; without one it copies its input to its output.
    pub fn set_exec(&self, exec: ExecFn) {
        lock(&self.state).exec = Some(exec);
    }

    /// What workloads say of themselves: every replica logs it when it is deployed for the first time, and commands begin
    /// with it. With it a command that has a terminal shows what is typed until Ctrl-C, Ctrl-D, `exit` or the end of its
    /// input, where nothing else is [set](Self::set_exec).
    pub fn set_banner(&self, text: &str) {
        lock(&self.state).banner = Some(text.to_owned());
    }

    /// A replica of a service logs a line; false when the lease does not run.
    pub fn log(&self, lease: &LeaseId, service: &str, replica: u32, message: &str) -> bool {
        let mut state = lock(&self.state);
        let Some(workload) = state.workloads.get_mut(lease).filter(|w| w.running.is_some()) else {
            return false;
        };
        workload.add_line(service, replica, message);
        true
    }

    /// Something happens to a service; false when the lease does not run.
    pub fn event(&self, lease: &LeaseId, service: &str, reason: &str, message: &str) -> bool {
        let mut state = lock(&self.state);
        let Some(workload) = state.workloads.get_mut(lease).filter(|w| w.running.is_some()) else {
            return false;
        };
        workload.add_event(Severity::Normal, service, reason, message);
        true
    }
}

/// No registry can be called `*.invalid`, so nothing of one ever gets up.
fn has_image(service: &Service) -> bool {
    let registry = service.image.split('/').next().unwrap_or_default();
    let host = registry.split(':').next().unwrap_or_default();
    !host.ends_with(".invalid")
}

fn remember<T>(history: &mut Vec<T>, item: T) {
    if history.len() >= HISTORY_LIMIT {
        // A thousand entries at most, so moving them costs little.
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

impl Workload {
    fn recorded(deployment: &WorkloadSpec) -> Self {
        Self {
            recorded: deployment.clone(),
            record: Record::Good,
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

    /// Every replica starts, of an image that is to be had, and says so.
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

    /// Ports for the exposes that need one: those of before, and the next free ones.
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

impl State {
    fn tell(&mut self, change: &ClusterChange) {
        if self.blind {
            return;
        }
        let whole = self.snapshot();
        self.watchers.retain(|watcher| {
            watcher.update(|queue| {
                if queue.len() >= HISTORY_LIMIT {
                    // A watcher that is too slow gets the whole present in place of what it missed.
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

    /// An older epoch writes nothing any more.
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

    fn record(&mut self, deployment: &WorkloadSpec) -> &mut Workload {
        let lease = deployment.lease.clone();
        let workload = self.workloads.entry(lease);
        let workload = workload.or_insert_with(|| Workload::recorded(deployment));
        workload.recorded = deployment.clone();
        workload.record = Record::Good;
        workload
    }

    fn deploy(&mut self, deployment: &WorkloadSpec) {
        let lease = &deployment.lease;
        let others = self.workloads.iter().filter(|(id, _)| *id != lease);
        let taken = others.flat_map(|(_, w)| w.ports.values().copied()).collect();
        let (ticks, lines) = (self.start_ticks, self.start_lines.clone());
        let banner = self.banner.clone();
        let workload = self.record(deployment);
        // A deploy takes back a teardown that was under way.
        workload.ending = None;
        // The same once more changes nothing: what runs goes on, with its ports and its health.
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
        // A lease that a snapshot lacks does not run; there is no other word for that.
        self.tell_snapshot();
        Teardown::Done
    }
}
