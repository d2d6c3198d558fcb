//! The workload machine with a chain and a cluster that take every allowed choice.

use crate::fixture::{CONFIG, Clock, bid_id, price, transient};
use crate::search::{World, explore};
use akash_provider_core::cluster::{Health, Teardown, WorkloadSpec};
use akash_provider_core::engine::Call;
use akash_provider_core::engine::machines::workload::{
    CloseReport, ClusterLane, ReportSource, Workload, WorkloadAction, WorkloadInput,
};
use akash_provider_core::manifest::Group;
use akash_provider_core::types::{
    Agreement, BlockTime, CloseReason, Lease, LeaseRecord, LeaseState, Msg, Observed, Reclamation, TxError,
    TxOutcome,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(3600);
const EXPIRY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum InFlightCluster {
    Deploy,
    Teardown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum InFlightChain {
    Look,
    Close,
    Reclaim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LeaseEvent {
    Closed,
    Reclaiming(BlockTime),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct WorkloadWorld {
    machine: Workload,
    clock: Clock,
    cluster: Option<InFlightCluster>,
    chain: Option<InFlightChain>,
    state: LeaseState,
    terms: bool,
    deadline: Option<BlockTime>,
    events: VecDeque<LeaseEvent>,
    runs: bool,
    removed: bool,
    breaker_asked: bool,
    tripped: bool,
    scanned: bool,
    manifests: u8,
    healths: u8,
    ends: u8,
    budget: u8,
    wrong: Option<&'static str>,
}

fn deployment(epoch: u64) -> Arc<WorkloadSpec> {
    Arc::new(WorkloadSpec {
        epoch,
        ..WorkloadSpec::new(bid_id(), Arc::new(Group::new("g", Vec::new())))
    })
}

impl WorkloadWorld {
    fn start(terms: bool, tripped: bool, budget: u8) -> Self {
        let reclamation = terms.then_some(Reclamation {
            window: WINDOW,
            deadline: None,
            reason: None,
        });
        Self {
            machine: Workload::for_lease(&bid_id(), &price(5), reclamation),
            clock: Clock::new(),
            cluster: None,
            chain: None,
            state: LeaseState::Active,
            terms,
            deadline: None,
            events: VecDeque::new(),
            runs: false,
            removed: false,
            breaker_asked: false,
            tripped,
            scanned: false,
            manifests: 2,
            healths: 1,
            ends: 1,
            budget,
            wrong: None,
        }
    }

    fn feed(mut self, input: WorkloadInput) -> Self {
        let mut out = Vec::new();
        self.machine = self.machine.transition(&self.clock.cx(), input, &mut out);
        for action in out {
            self.act(action);
        }
        self
    }

    fn act(&mut self, action: WorkloadAction) {
        match action {
            WorkloadAction::Cluster(call) => self.cluster_call(&call),
            WorkloadAction::Chain(call) => self.chain_call(&call),
            WorkloadAction::RequestPermission if self.tripped => self.breaker_asked = true,
            WorkloadAction::RequestPermission => *self = self.clone().feed(WorkloadInput::Granted),
            WorkloadAction::CancelRequest => self.breaker_asked = false,
            WorkloadAction::LeaseFound(_) => {}
            WorkloadAction::Remove(_) => {
                self.removed = true;
                if self.runs && self.clock.leader {
                    self.wrong = Some("capacity was released while the workload ran");
                }
            }
            WorkloadAction::Publish(_) | WorkloadAction::Unexpected => {}
        }
    }

    fn cluster_call(&mut self, call: &Call) {
        if self.cluster.is_some() {
            self.wrong = Some("one_cluster_call_per_lease");
        }
        if !self.clock.leader {
            self.wrong = Some("no_write_as_standby");
        }
        self.cluster = Some(match call {
            Call::Deploy { .. } => InFlightCluster::Deploy,
            Call::Teardown(_) => {
                if self.state.is_live() {
                    self.wrong = Some("teardown_only_with_evidence");
                }
                InFlightCluster::Teardown
            }
            other => panic!("unexpected call to the cluster: {other:?}"),
        });
    }

    fn chain_call(&mut self, call: &Call) {
        if self.chain.is_some() {
            self.wrong = Some("two chain calls in flight");
        }
        if call.is_write() && (!self.clock.leader || self.clock.stopping) {
            self.wrong = Some("no_write_as_standby");
        }
        if call.is_write() && self.breaker_asked {
            self.wrong = Some("a close was sent while the breaker was tripped");
        }
        self.chain = Some(match call {
            Call::FetchLease(_) => InFlightChain::Look,
            Call::Broadcast(Msg::CloseBid { .. }) => InFlightChain::Close,
            Call::Broadcast(Msg::StartReclaim { .. }) => InFlightChain::Reclaim,
            other => panic!("unexpected call to the chain: {other:?}"),
        });
    }

    fn cluster_done(&self, all: &mut Vec<(String, Self)>) {
        let complete = |input: WorkloadInput, runs: bool, cost: u8| {
            let mut next = self.clone();
            next.cluster = None;
            next.runs = runs;
            next.budget -= cost;
            if next.removed { next } else { next.feed(input) }
        };
        match self.cluster {
            None => {}
            Some(InFlightCluster::Deploy) => {
                all.push((
                    "deployed".to_owned(),
                    complete(WorkloadInput::Deployed(Ok(())), true, 0),
                ));
                if self.budget > 0 {
                    let failed = || WorkloadInput::Deployed(Err(transient()));
                    all.push(("deploy failed half-way".to_owned(), complete(failed(), true, 1)));
                    all.push(("deploy failed".to_owned(), complete(failed(), self.runs, 1)));
                }
            }
            Some(InFlightCluster::Teardown) => {
                all.push((
                    "torn down".to_owned(),
                    complete(WorkloadInput::TornDown(Ok(Teardown::Done)), false, 0),
                ));
                if self.budget > 0 {
                    let going = WorkloadInput::TornDown(Ok(Teardown::InProgress));
                    all.push(("still terminating".to_owned(), complete(going, true, 1)));
                    all.push((
                        "teardown failed".to_owned(),
                        complete(WorkloadInput::TornDown(Err(transient())), true, 1),
                    ));
                }
            }
        }
    }

    fn record(&self, state: LeaseState) -> LeaseRecord {
        let reclamation = self.terms.then_some(Reclamation {
            window: WINDOW,
            deadline: self.deadline,
            reason: None,
        });
        let lease = Lease {
            id: bid_id(),
            state,
            price: price(5),
            created_at: 1,
            closed_on: 0,
            reason: (!state.is_live()).then_some(CloseReason::Owner),
            reclamation,
        };
        LeaseRecord { lease, payment: None }
    }

    fn seen(&self, value: Option<LeaseRecord>, height: u64, agreement: Agreement) -> WorkloadInput {
        WorkloadInput::LeaseFetched(Box::new(Ok(Observed::new(value, height, agreement))))
    }

    fn chain_done(&self, all: &mut Vec<(String, Self)>) {
        let complete = |input: WorkloadInput, cost: u8| {
            let mut next = self.clone();
            next.chain = None;
            next.budget -= cost;
            if next.removed { next } else { next.feed(input) }
        };
        match self.chain {
            None => {}
            Some(InFlightChain::Look) => {
                let later = self.clock.height + 1;
                let single = self.seen(Some(self.record(self.state)), later, Agreement::Single);
                all.push(("lease read".to_owned(), complete(single, 0)));
                if self.budget > 0 {
                    let stale = self.seen(Some(self.record(LeaseState::Active)), 1, Agreement::Single);
                    all.push(("lease read stale".to_owned(), complete(stale, 1)));
                    let none = self.seen(None, later, Agreement::Single);
                    all.push(("lease not found".to_owned(), complete(none, 1)));
                    let lie = self.seen(Some(self.record(LeaseState::Closed)), later, Agreement::Disputed);
                    all.push(("one endpoint reports closed".to_owned(), complete(lie, 1)));
                    let away = WorkloadInput::LeaseFetched(Box::new(Err(transient())));
                    all.push(("lease unreadable".to_owned(), complete(away, 1)));
                }
            }
            Some(in_flight) => self.tx_done(in_flight, all),
        }
    }

    fn land(&mut self, in_flight: InFlightChain) -> Result<(), TxError> {
        let reclaiming = self.state == LeaseState::Reclaiming;
        match in_flight {
            _ if !self.state.is_live() => Err(TxError::UnknownBid),
            InFlightChain::Reclaim if !self.terms => Err(TxError::Other),
            InFlightChain::Reclaim if reclaiming => Err(TxError::AlreadyReclaiming),
            InFlightChain::Reclaim => {
                let deadline = self.clock.block_time.plus(WINDOW);
                self.state = LeaseState::Reclaiming;
                self.deadline = Some(deadline);
                self.events.push_back(LeaseEvent::Reclaiming(deadline));
                Ok(())
            }
            _ if self.terms && !reclaiming => Err(TxError::ReclaimNotStarted),
            _ if self.deadline.is_some_and(|at| at > self.clock.block_time) => Err(TxError::WindowNotElapsed),
            _ => {
                self.close();
                Ok(())
            }
        }
    }

    fn close(&mut self) {
        self.state = LeaseState::Closed;
        self.events.push_back(LeaseEvent::Closed);
    }

    fn tx_done(&self, in_flight: InFlightChain, all: &mut Vec<(String, Self)>) {
        let mut landed = self.clone();
        landed.chain = None;
        let result = landed.land(in_flight);
        let input = match result {
            Ok(()) => TxOutcome::Committed { height: 11 },
            Err(error) => TxOutcome::Rejected {
                error,
                code: String::new(),
                log: String::new(),
            },
        };
        let done = |world: Self, input| {
            if world.removed {
                world
            } else {
                world.feed(WorkloadInput::Tx(input))
            }
        };
        all.push((
            format!("{in_flight:?} is executed: {result:?}"),
            done(landed.clone(), Ok(input)),
        ));
        if self.budget == 0 {
            return;
        }
        let expires = self.clock.block_time.plus(EXPIRY);
        landed.budget -= 1;
        let unknown = done(landed, Ok(TxOutcome::Unknown { expires }));
        all.push((format!("{in_flight:?} is executed, outcome unknown"), unknown));
        let mut never = self.clone();
        never.chain = None;
        never.budget -= 1;
        all.push((
            format!("{in_flight:?} is never executed, outcome unknown"),
            done(never.clone(), Ok(TxOutcome::Unknown { expires })),
        ));
        all.push((format!("{in_flight:?} not sent"), done(never, Err(transient()))));
    }

    fn outside(&self, all: &mut Vec<(String, Self)>) {
        if self.state.is_live() {
            let mut closed = self.clone();
            closed.close();
            all.push(("tenant closes".to_owned(), closed));
        }
        if self.removed {
            return;
        }
        if let Some(events) = self.events.front() {
            let mut received = self.clone();
            received.events.pop_front();
            let input = match *events {
                LeaseEvent::Closed => WorkloadInput::CloseReported(self.received(ReportSource::Chain)),
                LeaseEvent::Reclaiming(deadline) => WorkloadInput::Reclaiming(deadline),
            };
            all.push((format!("event {events:?}"), received.feed(input)));
            let mut missed = self.clone();
            missed.events.pop_front();
            missed.scanned = false;
            all.push((format!("the machine misses event {events:?}"), missed));
        }
        if self.events.is_empty() && !self.scanned {
            let mut scanned = self.clone();
            scanned.scanned = true;
            let reclamation = self.record(self.state).lease.reclamation;
            let input = if self.state.is_live() {
                WorkloadInput::Live(reclamation)
            } else {
                WorkloadInput::CloseReported(self.received(ReportSource::Scan))
            };
            all.push(("full scan".to_owned(), scanned.feed(input)));
        }
        if self.state.is_live() && self.budget > 0 {
            let mut missed = self.clone();
            missed.budget -= 1;
            let received = WorkloadInput::CloseReported(self.received(ReportSource::Scan));
            all.push((
                "a scan does not list the live lease".to_owned(),
                missed.feed(received),
            ));
        }
        self.own_doings(all);
    }

    fn received(&self, by: ReportSource) -> CloseReport {
        CloseReport {
            height: self.clock.height,
            since: self.clock.mono,
            by,
            reason: None,
        }
    }

    fn own_doings(&self, all: &mut Vec<(String, Self)>) {
        if self.manifests > 0 {
            let mut next = self.clone();
            next.manifests -= 1;
            let input = WorkloadInput::SetSpec(deployment(u64::from(self.manifests)), Vec::new());
            all.push(("manifest".to_owned(), next.feed(input)));
        }
        if self.healths > 0 && self.runs {
            for health in [Health::Good, Health::Bad, Health::Unknown] {
                let mut next = self.clone();
                next.healths -= 1;
                all.push((
                    format!("health {health:?}"),
                    next.feed(WorkloadInput::Health(health)),
                ));
            }
            let mut next = self.clone();
            next.healths -= 1;
            all.push((
                "the cluster responds again".to_owned(),
                next.feed(WorkloadInput::RetrySoon),
            ));
        }
        if self.ends > 0 {
            for (reason, granted) in [
                (CloseReason::ManifestTimeout, false),
                (CloseReason::Decommission, true),
            ] {
                let mut next = self.clone();
                next.ends -= 1;
                all.push((
                    format!("end: {reason:?}"),
                    next.feed(WorkloadInput::End { reason, granted }),
                ));
            }
        }
        if self.breaker_asked {
            let mut next = self.clone();
            next.breaker_asked = false;
            next.tripped = false;
            all.push(("breaker released".to_owned(), next.feed(WorkloadInput::Granted)));
        }
        if self.clock.leader && self.budget > 0 {
            let mut next = self.clone();
            next.clock.leader = false;
            next.budget -= 1;
            all.push(("deposed".to_owned(), next.feed(WorkloadInput::Wake)));
        } else if !self.clock.leader {
            let mut next = self.clone();
            next.clock.leader = true;
            all.push(("becomes leader again".to_owned(), next.feed(WorkloadInput::Wake)));
        }
        self.time(all);
    }

    fn time(&self, all: &mut Vec<(String, Self)>) {
        if !self.events.is_empty() || !self.clock.leader {
            return;
        }
        let mono = self.machine.mono_deadline(&self.clock.cx());
        if let Some(at) = mono {
            let mut later = self.clone();
            let passed = at.since(later.clock.mono);
            later.clock.mono = later.clock.mono.max(at);
            later.clock.block_time = later.clock.block_time.plus(passed);
            all.push(("clock".to_owned(), later.feed(WorkloadInput::Wake)));
        }
        if let Some(at) = self.machine.block_deadline() {
            let mut later = self.clone();
            later.clock.block_time = later.clock.block_time.max(at);
            all.push(("blocks".to_owned(), later.feed(WorkloadInput::Wake)));
        }
    }

    /// Returns true if work remains, but no deadline, call or event is pending.
    fn stuck(&self) -> bool {
        let waits = self.breaker_asked || !self.clock.leader || !self.scanned;
        let quiet = self.cluster.is_none()
            && self.chain.is_none()
            && self.events.is_empty()
            && self.machine.mono_deadline(&self.clock.cx()).is_none()
            && self.machine.block_deadline().is_none();
        let over = !self.state.is_live() && !self.removed;
        let wanted = self.state.is_live()
            && self.machine.deployment().is_some()
            && self.machine.generation() == 0
            && self.machine.ending().is_none();
        quiet && !waits && (over || wanted)
    }
}

impl World for WorkloadWorld {
    fn successors(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        self.cluster_done(&mut all);
        self.chain_done(&mut all);
        self.outside(&mut all);
        all
    }

    fn violation(&self) -> Option<String> {
        if let Some(wrong) = self.wrong {
            return Some(wrong.to_owned());
        }
        if self.removed && self.state.is_live() {
            return Some("a live lease was removed".to_owned());
        }
        if self.removed && *self.machine.cluster_lane() != ClusterLane::Gone {
            return Some("a lease was removed before its teardown".to_owned());
        }
        self.stuck()
            .then(|| "the workload of an ended lease is not torn down".to_owned())
    }
}

fn explore_world(terms: bool, tripped: bool) {
    assert_eq!(CONFIG.unhealthy_limit, Some(Duration::from_secs(3600)));
    let name = format!("workload terms={terms} tripped={tripped}");
    let budget = 1 + u8::from(!terms && !tripped);
    let stats = explore(&name, WorkloadWorld::start(terms, tripped, budget));
    assert!(stats.states > 2_000, "too few states explored: {stats:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn explores_workload_machine() {
    explore_world(false, false);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn explores_workload_machine_with_tripped_breaker() {
    explore_world(false, true);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn explores_workload_machine_with_reclamation() {
    explore_world(true, false);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn explores_workload_machine_with_reclamation_and_tripped_breaker() {
    explore_world(true, true);
}
