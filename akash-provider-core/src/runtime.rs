//! The runtime: one loop that feeds the engine and executes its effects.
//!
//! ```text
//!  chain ─┐                       ┌─► execute: call ─► port ─► completion ─┐
//! cluster ─┤ streams ─► input ─► engine ─► observe: fact ─► bus, log       │
//! capacity ─┘             ▲       └─► requests: reply ─► handle            │
//! handles ── requests ────┼────────────────────────────────────────────────┘
//! the clock ── deadline ──┘
//! ```
//! The engine reads no clock and starts no tasks: this module does both. At each wake the loop takes a
//! bounded number of ready items from each source, so that no source starves another. Signals have
//! precedence.

#![expect(
    clippy::disallowed_methods,
    reason = "the only place that reads the clock; the engine receives the time as input"
)]

mod audit_trail;
mod execute;
pub(crate) mod handle_requests;
mod ignored_resources;
pub(crate) mod lifecycle;
pub(crate) mod meter;
mod observe;
mod publish_queue;
pub(crate) mod recorded_engine;
pub(crate) mod state_machine;
pub(crate) mod state_writer;
mod status_cache;
mod streams;

use crate::audit::AuditLog;
use crate::bus::Bus;
use crate::config::Config;
use crate::engine::{Effect, Input, Leadership, Lifecycle, Status};
use crate::error::{Error, ErrorKind};
use crate::inventory::InventorySource;
use crate::types::{BlockTime, ChainEvent, Mono, Now, Snapshot};
use audit_trail::AuditTrail;
use execute::Executor;
pub(crate) use execute::Ports;
use handle_requests::{HandleRequest, RequestQueue};
use ignored_resources::IgnoredResources;
use lifecycle::ProgressSender;
use meter::Meter;
use observe::Observer;
pub(crate) use publish_queue::{LostFacts, PublishQueue};
use state_machine::StateMachine;
use state_writer::{KEEP_LIMIT, StateStore, StateWriter};
use status_cache::StatusCache;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use streams::Feeds;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of items that the loop takes from one source before it checks the other sources.
const BATCH: usize = 64;
/// Maximum time to publish the last events at shutdown.
const BUS_FLUSH: Duration = Duration::from_secs(2);
/// Maximum number of unfinished calls in the shutdown report.
const REPORTED_CALLS: usize = 20;

/// Arguments of [`run`].
#[derive(Debug)]
pub(crate) struct RuntimeParts<B> {
    pub(crate) brain: B,
    pub(crate) config: Config,
    pub(crate) ports: Ports,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) inventory: Arc<dyn InventorySource>,
    pub(crate) leadership: Leadership,
    pub(crate) bids_held: Option<Arc<str>>,
    pub(crate) store: Option<Arc<dyn StateStore>>,
    pub(crate) audit: Option<Arc<dyn AuditLog>>,
    pub(crate) desk: RequestQueue,
    pub(crate) stage: ProgressSender,
    /// Status that a handle returns after the provider has stopped.
    pub(crate) last_status: Arc<OnceLock<Arc<Status>>>,
    pub(crate) meter: Meter,
}

/// Runs until stopped, see [`Provider::run_until`](crate::provider::Provider::run_until).
pub(crate) async fn run<B: StateMachine>(
    parts: RuntimeParts<B>,
    shutdown: CancellationToken,
    abort: CancellationToken,
) -> Result<(), Error> {
    Driver::start(parts).run(&shutdown, &abort).await
}

/// Reason why the loop continues.
enum Wake {
    Abort,
    Shutdown,
    /// The state for the next start was stored, or could not be stored. Contains the effects that waited for
    /// this result.
    Kept(Vec<Effect>),
    Input(Input),
    HandleRequest(HandleRequest),
    Time,
}

struct Driver<B> {
    brain: B,
    config: Config,
    leadership: Leadership,
    bids_held: Option<Arc<str>>,
    executor: Executor,
    audit: AuditTrail,
    keeping: StateWriter,
    observer: Observer,
    feeds: Feeds,
    desk: RequestQueue,
    stage: ProgressSender,
    last_status: Arc<OnceLock<Arc<Status>>>,
    status_cache: StatusCache,
    meter: Meter,
    started: Instant,
    block_time: BlockTime,
    /// Whether the newest snapshot is from the configured chain. If not, block times are ignored.
    chain_is_ours: bool,
    cluster_seen: bool,
    capacity_seen: bool,
    ignored: IgnoredResources,
    /// Time at which the shutdown stops waiting for pending work; `None` before the first signal.
    drain_until: Option<Mono>,
    /// Time at which deadlines were last processed. The next processing is at least 1 ms later, so a deadline
    /// in the past causes no endless loop.
    timed_out_at: Option<Mono>,
}

impl<B: StateMachine> Driver<B> {
    fn start(parts: RuntimeParts<B>) -> Self {
        let Ports { chain, cluster, .. } = parts.ports.clone();
        let provider = parts.config.provider.clone();
        let observer = Observer::start(parts.bus);
        parts.meter.count_lost_facts(observer.lost_facts());
        Self {
            executor: Executor::new(parts.ports, &parts.config).with_meter(parts.meter.clone()),
            audit: AuditTrail::new(parts.audit),
            keeping: StateWriter::new(parts.store, &parts.config),
            observer,
            feeds: Feeds::start(chain, cluster, parts.inventory, provider),
            brain: parts.brain,
            config: parts.config,
            leadership: parts.leadership,
            bids_held: parts.bids_held,
            desk: parts.desk,
            stage: parts.stage,
            last_status: parts.last_status,
            status_cache: StatusCache::default(),
            meter: parts.meter,
            started: Instant::now(),
            block_time: BlockTime::default(),
            chain_is_ours: false,
            cluster_seen: false,
            capacity_seen: false,
            ignored: IgnoredResources::default(),
            drain_until: None,
            timed_out_at: None,
        }
    }

    async fn run(mut self, shutdown: &CancellationToken, abort: &CancellationToken) -> Result<(), Error> {
        let mut result = Ok(());
        self.stage.begin();
        // Sent first, because an engine without this input assumes that it leads.
        self.step(Input::Leadership(self.leadership));
        if let Some(why) = self.bids_held.take() {
            self.step(Input::HoldBids(Some(why)));
        }
        loop {
            if let Some(until) = self.drain_until {
                if (self.brain.is_idle() && self.keeping.is_idle()) || self.mono() >= until {
                    break;
                }
            } else if let Err(error) = self.check_ready() {
                // Through the drain, so that running calls end as at any other stop.
                result = Err(error);
                self.drain();
                continue;
            }
            match self.wake(shutdown, abort).await {
                Wake::Abort => {
                    result = Err(Error::new(
                        ErrorKind::Aborted,
                        "run provider",
                        "aborted by a second signal; the next start continues pending work",
                    ));
                    break;
                }
                Wake::Shutdown => self.drain(),
                Wake::Kept(effects) => self.perform(effects),
                Wake::Input(input) => self.take(input),
                Wake::HandleRequest(ask) => self.take_ask(ask),
                Wake::Time => {}
            }
            self.take_ready();
            self.pass_deadlines();
            self.publish_statuses();
        }
        self.finish(abort).await;
        result
    }

    async fn wake(&mut self, shutdown: &CancellationToken, abort: &CancellationToken) -> Wake {
        let draining = self.drain_until.is_some();
        let alarm = self.alarm();
        tokio::select! {
            biased;
            () = abort.cancelled() => Wake::Abort,
            () = shutdown.cancelled(), if !draining => Wake::Shutdown,
            effects = self.keeping.turn() => Wake::Kept(effects),
            // Completions before new inputs, because a completion can free a slot for the next call.
            Some((id, completion)) = self.executor.next(&self.block_time) => {
                Wake::Input(Input::Completed(id, completion))
            }
            Some(ask) = self.desk.next() => Wake::HandleRequest(ask),
            Some(event) = self.feeds.chain.recv() => Wake::Input(Input::Chain(event)),
            Some(change) = self.feeds.cluster.recv() => Wake::Input(Input::Cluster(change)),
            Some(update) = self.feeds.inventory.recv() => Wake::Input(Input::Inventory(update)),
            () = tokio::time::sleep_until(alarm) => Wake::Time,
        }
    }

    /// Takes the items that are ready, at most [`BATCH`] from each source.
    fn take_ready(&mut self) {
        for _ in 0..BATCH {
            let Some((id, completion)) = self.executor.try_next(self.block_time) else {
                break;
            };
            self.take(Input::Completed(id, completion));
        }
        for _ in 0..BATCH {
            let Some(ask) = self.desk.try_next() else { break };
            self.take_ask(ask);
        }
        for _ in 0..BATCH {
            let Ok(event) = self.feeds.chain.try_recv() else {
                break;
            };
            self.take(Input::Chain(event));
        }
        for _ in 0..BATCH {
            let Ok(change) = self.feeds.cluster.try_recv() else {
                break;
            };
            self.take(Input::Cluster(change));
        }
        // The queue holds at most one update, which contains the whole capacity.
        if let Ok(update) = self.feeds.inventory.try_recv() {
            self.take(Input::Inventory(update));
        }
    }

    fn take(&mut self, input: Input) {
        match &input {
            Input::Chain(ChainEvent::Resync(snapshot)) => self.note_resync(snapshot),
            Input::Chain(ChainEvent::Block { time, .. }) if self.chain_is_ours => self.block_time = *time,
            Input::Cluster(change) => {
                // `Lost` means that the state of the cluster is unknown.
                self.cluster_seen |= !matches!(change, crate::cluster::ClusterChange::Lost);
            }
            Input::Inventory(update) => {
                self.capacity_seen = true;
                self.ignored.follow(update);
            }
            Input::Completed(_, completion) => self.audit.observe(completion),
            Input::Chain(_)
            | Input::Request(..)
            | Input::Leadership(_)
            | Input::HoldBids(_)
            | Input::Kept(_)
            | Input::PricesChanged
            | Input::Shutdown => {}
        }
        self.step(input);
    }

    fn note_resync(&mut self, snapshot: &Snapshot) {
        let chain_id = &self.config.chain_id;
        self.chain_is_ours = snapshot.chain_id == *chain_id;
        if !self.chain_is_ours {
            tracing::warn!(ours = %chain_id, theirs = %snapshot.chain_id, "chain node has another chain id, the state from this node is ignored; check the chain id and the nodes in the settings");
            return;
        }
        self.block_time = snapshot.time;
        self.stage.chain_is_known();
        if snapshot.provider.is_none() {
            let provider = &self.config.provider;
            tracing::warn!(%provider, "provider is not registered on the chain, so it does not bid; run `provider-daemon tx provider create FILE`");
        }
    }

    fn take_ask(&mut self, ask: HandleRequest) {
        match ask {
            HandleRequest::Request(request, reply) => {
                if let Some(id) = self.desk.admit(reply) {
                    self.step(Input::Request(id, request));
                }
            }
            HandleRequest::HoldBids(why, done) => {
                self.step(Input::HoldBids(why));
                // The caller may have stopped waiting; the change stays in effect.
                let _ = done.send(());
            }
            HandleRequest::RestoreState(state, done) => {
                self.step(Input::Kept(state));
                let _ = done.send(());
            }
            HandleRequest::PricesChanged(done) => {
                self.step(Input::PricesChanged);
                let _ = done.send(());
            }
            HandleRequest::Leadership(leadership, done) => {
                self.step(Input::Leadership(leadership));
                let _ = done.send(());
            }
            HandleRequest::Status(reply) => {
                self.meter.status_requested();
                self.meter.engine_counted(self.brain.counts());
                let _ = reply.send(self.status());
            }
            HandleRequest::Capacity(reply) => {
                let _ = reply.send(self.brain.capacity().map(Box::new));
            }
            HandleRequest::HasLease(lease, reply) => {
                let _ = reply.send(self.brain.has_lease(&lease));
            }
            HandleRequest::LeaseOf(group, reply) => {
                let _ = reply.send(self.brain.lease_of(&group));
            }
        }
    }

    fn step(&mut self, input: Input) {
        self.meter.input(&input);
        let (begun, is_snapshot) = (Instant::now(), meter::is_snapshot(&input));
        let effects = self.brain.step(self.now(), input);
        self.meter.effects(&effects, is_snapshot, begun);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let effects = self.keeping.pass(effects);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(id, call) => {
                    let act = self.audit.act(&call, || self.brain.act_of_call(id, &call));
                    self.executor.start(id, call, act);
                }
                Effect::Publish(event) => self.observer.fact(event),
                Effect::Reply(id, response) => self.desk.answer(id, response),
            }
        }
        if self.status_cache.may_differ(&self.brain) {
            self.observer.touch(self.mono());
        }
    }

    fn pass_deadlines(&mut self) {
        let now = self.mono();
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.timed_out_at = Some(now);
            let begun = Instant::now();
            let effects = self.brain.handle_timeout(self.now());
            self.meter.effects(&effects, false, begun);
            self.carry_out(effects);
        }
    }

    fn publish_statuses(&mut self) {
        // The time to build a status grows with the number of leases and determines the following pause.
        let before = self.mono();
        if self.observer.status_due().is_some_and(|due| due <= before) {
            let status = self.status();
            self.meter.settle(&status);
            let now = self.mono();
            self.observer.statuses(&status, before, now);
        }
    }

    /// Ends the phase `Init` when the cluster and its capacity are known. Returns an error after the timeout.
    fn check_ready(&mut self) -> Result<(), Error> {
        if self.stage.lifecycle() != Lifecycle::Init {
            return Ok(());
        }
        if self.cluster_seen && self.capacity_seen {
            self.stage.enter(Lifecycle::Running);
            self.observer.touch(self.mono());
            return Ok(());
        }
        if self.mono() < self.ready_until() {
            return Ok(());
        }
        let missing = match (self.cluster_seen, self.capacity_seen) {
            (false, false) => "workloads and capacity unknown",
            (false, true) => "workloads unknown",
            (true, _) => "capacity unknown",
        };
        let limit = self.config.cluster_ready_timeout;
        Err(Error::new(
            ErrorKind::ClusterNotReady,
            "wait for cluster",
            format!("{missing} after {limit:?}; check the cluster, or raise cluster_ready_timeout"),
        ))
    }

    /// Starts the shutdown: pending work is finished, and no new work starts.
    fn drain(&mut self) {
        self.drain_until = Some(self.mono().plus(self.config.shutdown_grace));
        self.stage.enter(Lifecycle::Shutdown);
        self.executor.drain();
        self.desk.stop_admitting();
        self.step(Input::Shutdown);
    }

    async fn finish(mut self, abort: &CancellationToken) {
        self.finish_keeping(abort).await;
        let idle = self.brain.is_idle();
        let aborted = abort.is_cancelled();
        let left = self.executor.in_flight();
        if !idle || (aborted && !left.is_empty()) {
            tracing::warn!(
                calls = left.len(),
                "provider stopped with pending work, which the next start continues; workloads and open bids remain"
            );
            for (id, call) in left.iter().take(REPORTED_CALLS) {
                tracing::warn!(
                    effect = id.0,
                    call = execute::name(call),
                    "call not completed before the stop, the next start checks the outcome of the call"
                );
            }
        }
        let mut status = (*self.status()).clone();
        status.lifecycle = Lifecycle::Done;
        let now = self.mono();
        self.observer.statuses(&status, now, now);
        // Before the request queue closes, because refused callers read this status.
        let _ = self.last_status.set(Arc::new(status));
        self.desk.close();
        tokio::select! {
            biased;
            // A second signal does not wait for the bus.
            () = abort.cancelled() => {}
            () = self.observer.finish(BUS_FLUSH) => {}
        }
        self.stage.enter(Lifecycle::Done);
    }

    /// Waits until the state for the next start is stored, then publishes the events that waited for this
    /// write. Starts no more calls.
    async fn finish_keeping(&mut self, abort: &CancellationToken) {
        self.keeping.try_again();
        if self.keeping.is_idle() {
            return;
        }
        let effects = tokio::select! {
            biased;
            () = abort.cancelled() => return,
            effects = tokio::time::timeout(KEEP_LIMIT, self.keeping.turn()) => effects.unwrap_or_default(),
        };
        let remaining = effects
            .into_iter()
            .filter(|effect| !matches!(effect, Effect::Call(..)));
        self.perform(remaining.collect());
    }

    fn status(&mut self) -> Arc<Status> {
        let (now, lifecycle) = (self.now(), self.stage.lifecycle());
        self.status_cache.status(&self.brain, now, lifecycle)
    }

    /// Returns the time at which the loop wakes if no input arrives.
    fn alarm(&self) -> Instant {
        // Without a deadline the loop wakes once a day, which avoids a second kind of wait.
        const IDLE: Duration = Duration::from_secs(24 * 3600);
        let idle_until = self.mono().plus(IDLE);
        let ready_until = (self.stage.lifecycle() == Lifecycle::Init).then(|| self.ready_until());
        let due = [
            self.next_deadline(),
            self.observer.status_due(),
            self.drain_until,
            ready_until,
        ];
        let due = due.into_iter().flatten().fold(idle_until, Mono::min);
        self.started + due.since(Mono(0))
    }

    fn next_deadline(&self) -> Option<Mono> {
        let due = self.brain.next_deadline()?;
        let not_before = self.timed_out_at.map(|at| at.plus(Duration::from_millis(1)));
        Some(not_before.map_or(due, |at| due.max(at)))
    }

    fn ready_until(&self) -> Mono {
        Mono(0).plus(self.config.cluster_ready_timeout)
    }

    fn now(&self) -> Now {
        Now {
            mono: self.mono(),
            block_time: self.block_time,
        }
    }

    fn mono(&self) -> Mono {
        Mono(0).plus(self.started.elapsed())
    }
}

#[cfg(test)]
pub(crate) mod fakes;
#[cfg(test)]
mod tests;
