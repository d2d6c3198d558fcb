//! The driver: one loop that feeds the engine and carries out its effects.
//!
//! ```text
//!  chain ─┐                       ┌─► execute: call ─► port ─► completion ─┐
//! cluster ─┤ streams ─► input ─► engine ─► observe: fact ─► bus, log       │
//! capacity ─┘             ▲       └─► asks: reply ─► handle                │
//! handles ── asks ────────┼────────────────────────────────────────────────┘
//! the clock ── deadline ──┘
//! ```
//! Only this module reads a clock or starts tasks. Every wake takes what is ready, a bounded number from each
//! source, so that no source starves another; a signal comes before everything.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place where time enters; the engine is told"
)]

pub(crate) mod asks;
pub(crate) mod brain;
mod execute;
mod ignored;
pub(crate) mod keeping;
pub(crate) mod lifecycle;
mod observe;
mod outlet;
pub(crate) mod recorded;
mod shown;
mod streams;

use crate::bus::Bus;
use crate::config::Config;
use crate::engine::{Effect, Input, Leadership, Lifecycle, Status};
use crate::error::{Error, ErrorKind};
use crate::inventory::InventorySource;
use crate::types::{BlockTime, ChainEvent, Mono, Now, Snapshot};
use asks::{Ask, Desk};
use brain::Brain;
use execute::Executor;
pub(crate) use execute::Ports;
use ignored::Ignored;
use keeping::{KEEP_LIMIT, Keeper, Keeping};
use lifecycle::Stage;
use observe::Observer;
pub(crate) use outlet::Outlet;
use shown::Shown;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use streams::Feeds;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Taken from one source per wake: a step is microseconds, so a signal waits well below a millisecond.
const BATCH: usize = 64;
/// How long the bus may take for the last events.
const BUS_FLUSH: Duration = Duration::from_secs(2);
/// Calls named one by one in the report at the end.
const REPORTED_CALLS: usize = 20;

/// Everything a loop is started with.
#[derive(Debug)]
pub(crate) struct Parts<B> {
    pub(crate) brain: B,
    pub(crate) config: Config,
    pub(crate) ports: Ports,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) inventory: Arc<dyn InventorySource>,
    pub(crate) leadership: Leadership,
    pub(crate) bids_held: Option<Arc<str>>,
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
    pub(crate) desk: Desk,
    pub(crate) stage: Stage,
    /// Where the last status is left for handles.
    pub(crate) last_status: Arc<OnceLock<Arc<Status>>>,
}

/// Runs until stopped; see [`Provider::run_until`](crate::provider::Provider::run_until).
pub(crate) async fn run<B: Brain>(
    parts: Parts<B>,
    shutdown: CancellationToken,
    abort: CancellationToken,
) -> Result<(), Error> {
    Driver::start(parts).run(&shutdown, &abort).await
}

/// Why the loop woke.
enum Wake {
    Abort,
    Shutdown,
    /// What was held is carried out.
    Kept(Vec<Effect>),
    Input(Input),
    Ask(Ask),
    Time,
}

struct Driver<B> {
    brain: B,
    config: Config,
    leadership: Leadership,
    bids_held: Option<Arc<str>>,
    executor: Executor,
    keeping: Keeping,
    observer: Observer,
    feeds: Feeds,
    desk: Desk,
    stage: Stage,
    last_status: Arc<OnceLock<Arc<Status>>>,
    shown: Shown,
    started: Instant,
    block_time: BlockTime,
    /// The newest picture was of our chain; blocks of another one tell no time.
    chain_is_ours: bool,
    cluster_seen: bool,
    capacity_seen: bool,
    ignored: Ignored,
    /// Until when a drain may take; `None` before the first signal.
    drain_until: Option<Mono>,
    /// When deadlines were last let pass, so that a deadline that stays in the past cannot spin the loop.
    timed_out_at: Option<Mono>,
}

impl<B: Brain> Driver<B> {
    fn start(parts: Parts<B>) -> Self {
        let Ports { chain, cluster, .. } = parts.ports.clone();
        let provider = parts.config.provider.clone();
        Self {
            executor: Executor::new(parts.ports, &parts.config),
            keeping: Keeping::new(parts.keeper, &parts.config),
            observer: Observer::start(parts.bus),
            feeds: Feeds::start(chain, cluster, parts.inventory, provider),
            brain: parts.brain,
            config: parts.config,
            leadership: parts.leadership,
            bids_held: parts.bids_held,
            desk: parts.desk,
            stage: parts.stage,
            last_status: parts.last_status,
            shown: Shown::default(),
            started: Instant::now(),
            block_time: BlockTime::default(),
            chain_is_ours: false,
            cluster_seen: false,
            capacity_seen: false,
            ignored: Ignored::default(),
            drain_until: None,
            timed_out_at: None,
        }
    }

    async fn run(mut self, shutdown: &CancellationToken, abort: &CancellationToken) -> Result<(), Error> {
        let mut result = Ok(());
        self.stage.begin();
        // First of all, because an engine that is told nothing takes itself for the leader.
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
                // Through the drain, so that what is under way ends as it does at any other stop.
                result = Err(error);
                self.drain();
                continue;
            }
            match self.wake(shutdown, abort).await {
                Wake::Abort => {
                    result = Err(Error::new(
                        ErrorKind::Aborted,
                        "run the provider",
                        "stopped at once by a second signal; what was under way is picked up at the next start",
                    ));
                    break;
                }
                Wake::Shutdown => self.drain(),
                Wake::Kept(effects) => self.perform(effects),
                Wake::Input(input) => self.take(input),
                Wake::Ask(ask) => self.take_ask(ask),
                Wake::Time => {}
            }
            self.take_ready();
            self.pass_deadlines();
            self.publish_statuses();
        }
        self.finish(abort).await;
        result
    }

    /// Waits for the next thing; what it returns is taken from its source.
    async fn wake(&mut self, shutdown: &CancellationToken, abort: &CancellationToken) -> Wake {
        let draining = self.drain_until.is_some();
        let alarm = self.alarm();
        tokio::select! {
            biased;
            () = abort.cancelled() => Wake::Abort,
            () = shutdown.cancelled(), if !draining => Wake::Shutdown,
            effects = self.keeping.turn() => Wake::Kept(effects),
            // What has ended comes before what is new: an answer may make room for the next call.
            Some((id, completion)) = self.executor.next(&self.block_time) => {
                Wake::Input(Input::Completed(id, completion))
            }
            Some(ask) = self.desk.next() => Wake::Ask(ask),
            Some(event) = self.feeds.chain.recv() => Wake::Input(Input::Chain(event)),
            Some(change) = self.feeds.cluster.recv() => Wake::Input(Input::Cluster(change)),
            Some(update) = self.feeds.inventory.recv() => Wake::Input(Input::Inventory(update)),
            () = tokio::time::sleep_until(alarm) => Wake::Time,
        }
    }

    /// Takes what else is ready, a bounded number from each source in turn.
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
        // One at most waits in the queue, and it is the whole of capacity.
        if let Ok(update) = self.feeds.inventory.try_recv() {
            self.take(Input::Inventory(update));
        }
    }

    /// Notes what the driver itself must know of an input, then hands it to the engine.
    fn take(&mut self, input: Input) {
        match &input {
            Input::Chain(ChainEvent::Resync(snapshot)) => self.note_resync(snapshot),
            Input::Chain(ChainEvent::Block { time, .. }) if self.chain_is_ours => self.block_time = *time,
            Input::Cluster(change) => {
                // `Lost` says that nothing is known, which is not to have seen the cluster.
                self.cluster_seen |= !matches!(change, crate::cluster::ClusterChange::Lost);
            }
            Input::Inventory(update) => {
                self.capacity_seen = true;
                self.ignored.follow(update);
            }
            Input::Chain(_)
            | Input::Completed(..)
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
            tracing::warn!(ours = %chain_id, theirs = %snapshot.chain_id, "the node is of another chain");
            return;
        }
        self.block_time = snapshot.time;
        self.stage.chain_is_known();
        if snapshot.provider.is_none() {
            let provider = &self.config.provider;
            tracing::warn!(%provider, "not registered on the chain: no bids until it is");
        }
    }

    fn take_ask(&mut self, ask: Ask) {
        match ask {
            Ask::Request(request, reply) => {
                if let Some(id) = self.desk.admit(reply) {
                    self.step(Input::Request(id, request));
                }
            }
            Ask::HoldBids(why, done) => {
                self.step(Input::HoldBids(why));
                // Whoever asked may have gone away; it is done all the same.
                let _ = done.send(());
            }
            Ask::Kept(kept, done) => {
                self.step(Input::Kept(kept));
                let _ = done.send(());
            }
            Ask::PricesChanged(done) => {
                self.step(Input::PricesChanged);
                let _ = done.send(());
            }
            Ask::Leadership(leadership, done) => {
                self.step(Input::Leadership(leadership));
                let _ = done.send(());
            }
            Ask::Status(reply) => {
                let _ = reply.send(self.status());
            }
            Ask::Capacity(reply) => {
                let _ = reply.send(self.brain.capacity().map(Box::new));
            }
            Ask::HasLease(lease, reply) => {
                let _ = reply.send(self.brain.has_lease(&lease));
            }
            Ask::LeaseOf(group, reply) => {
                let _ = reply.send(self.brain.lease_of(&group));
            }
        }
    }

    fn step(&mut self, input: Input) {
        let effects = self.brain.step(self.now(), input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let effects = self.keeping.pass(effects);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(id, call) => self.executor.start(id, call),
                Effect::Publish(event) => self.observer.fact(event),
                Effect::Reply(id, response) => self.desk.answer(id, response),
            }
        }
        if self.shown.may_differ(&self.brain) {
            self.observer.touch(self.mono());
        }
    }

    fn pass_deadlines(&mut self) {
        let now = self.mono();
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.timed_out_at = Some(now);
            let effects = self.brain.handle_timeout(self.now());
            self.carry_out(effects);
        }
    }

    fn publish_statuses(&mut self) {
        // Making it takes longer with more leases, and the pause that follows is measured by it.
        let before = self.mono();
        if self.observer.status_due().is_some_and(|due| due <= before) {
            let status = self.status();
            let now = self.mono();
            self.observer.statuses(&status, before, now);
        }
    }

    /// Init ends when the cluster and capacity are known, or fails when its time is over.
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
            (false, false) => "neither its workloads nor its capacity are known",
            (false, true) => "its workloads are not known",
            (true, _) => "its capacity is not known",
        };
        let limit = self.config.cluster_ready_timeout;
        Err(Error::new(
            ErrorKind::ClusterNotReady,
            "wait for the cluster",
            format!("{missing} after {limit:?}; check the cluster, or raise cluster_ready_timeout"),
        ))
    }

    /// The first signal: nothing new from here on.
    fn drain(&mut self) {
        self.drain_until = Some(self.mono().plus(self.config.shutdown_grace));
        self.stage.enter(Lifecycle::Shutdown);
        self.desk.stop_admitting();
        self.step(Input::Shutdown);
    }

    /// Reports what is left, refuses whoever still waits, publishes the end.
    async fn finish(mut self, abort: &CancellationToken) {
        self.finish_keeping(abort).await;
        let idle = self.brain.is_idle();
        let aborted = abort.is_cancelled();
        let left = self.executor.in_flight();
        if !idle || (aborted && !left.is_empty()) {
            tracing::warn!(
                calls = left.len(),
                "stopped with work left; workloads and open bids stay, the next start takes over"
            );
            for (id, call) in left.iter().take(REPORTED_CALLS) {
                tracing::warn!(effect = id.0, call = execute::name(call), "left");
            }
        }
        let mut status = (*self.status()).clone();
        status.lifecycle = Lifecycle::Done;
        let now = self.mono();
        self.observer.statuses(&status, now, now);
        // Before the desk closes: whoever is turned away there takes this one.
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

    /// Lets what is being kept become durable, and tells what waited for it; calls are begun no more.
    async fn finish_keeping(&mut self, abort: &CancellationToken) {
        self.keeping.try_again();
        if self.keeping.is_idle() {
            return;
        }
        let held = tokio::select! {
            biased;
            () = abort.cancelled() => return,
            held = tokio::time::timeout(KEEP_LIMIT, self.keeping.turn()) => held.unwrap_or_default(),
        };
        let told = held
            .into_iter()
            .filter(|effect| !matches!(effect, Effect::Call(..)));
        self.perform(told.collect());
    }

    fn status(&mut self) -> Arc<Status> {
        let (now, lifecycle) = (self.now(), self.stage.lifecycle());
        self.shown.status(&self.brain, now, lifecycle)
    }

    /// When to wake although nothing happens.
    fn alarm(&self) -> Instant {
        // With nothing due, waking once a day costs nothing and needs no second kind of wait.
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
