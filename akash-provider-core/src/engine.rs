//! Deterministic decision core of a provider: all state machines and ledgers, changed by one function.
//!
//! ```text
//!                 chain events   completions   requests   cluster   inventory
//!                       └────────────┴────────────┼──────────┴─────────┘
//!                                         Engine::step(now, input)
//!             ┌───────────┬──────────────┬────────┴─────┬──────────────────────┐
//!           order     deployment      workload        escrow        reservations, hostnames
//!         (per order) (per tenant's  (per lease)   (per tenant's      (ledgers, queried
//!                      deployment)                  deployment)        within the step)
//!             └───────────┴──────────────┴────────┬─────┴──────────────────────┘
//!                                     effects: calls, events, replies
//! ```
//! The engine has no clock, no randomness and no I/O. The caller passes the time and calls
//! [`Engine::handle_timeout`] at [`Engine::next_deadline`]. A call to a port is an effect, and its completion comes
//! back as an input. The engine is a cache of chain and cluster state. The module `reconcile` rebuilds this cache
//! from a snapshot: at the start, after a gap in the event stream, and in every full scan.

// A new variant of an input or a completion fails to compile until every `match` handles it.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod counts;
pub mod effect;
pub mod input;
pub mod reservations;
pub mod status;

mod acts;
mod backoff;
mod cx;
mod leases;
mod market;
mod outbox;
mod phase;
mod progress;
mod reconcile;
mod report;
mod role;
mod route;
mod table;
mod timers;

pub use effect::{Call, Effect, EffectId};
pub use input::{
    Completion, Input, Leadership, Refusal, RefusalKind, Reply, Request, RequestId, Response, Workloads,
};
pub use leases::hostnames;
pub use phase::{LeasePhase, Lifecycle, OrderPhase};
pub use status::Status;

use crate::config::{Config, InvalidConfig};
use crate::record::Cover;
use crate::types::{BlockTime, DeploymentId, GroupId, LeaseId, Mono, Now, OrderId};
use counts::{EngineCounts, ScanReason};
use cx::Cx;
use leases::{Leases, deployment, escrow, workload};
use market::{Market, order};
use outbox::{CallTarget, Outbox};
use progress::EngineProgress;
use reconcile::Scan;
use reservations::{Capacity, Reservations};
use role::Role;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// State machines of the engine, exported for exploration tests. Not part of the stable API.
///
/// Exploration tests send every possible sequence of inputs to one machine, and check each state that the
/// machine reaches.
#[doc(hidden)]
pub mod machines {
    pub use super::cx::Cx;
    pub use super::leases::{deployment, escrow, workload};
    pub use super::market::order;
}

/// Identifies a state machine that has a deadline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum DeadlineKey {
    Order(OrderId),
    Deployment(DeploymentId),
    Workload(LeaseId),
    Escrow(DeploymentId),
}

/// State machines, reservations and hostnames of a provider. The state changes only in [`Engine::step`] and
/// [`Engine::handle_timeout`].
///
/// The engine is deterministic: a clone produces the same effects from the same inputs. A serialized engine
/// restores to the same state, but only with the same version of this crate. The serialized form is not
/// stable, and contains the secrets of manifests unless
/// [`record::hide_in_engine`](crate::record::hide_in_engine) removed them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Engine {
    config: Arc<Config>,
    role: Role,
    progress: EngineProgress,
    market: Market,
    leases: Leases,
    reservations: Reservations,
    scan: Scan,
    changes: u64,
    outbox: Outbox,
    #[serde(default)]
    counts: EngineCounts,
}

impl Engine {
    /// Creates an engine without state. The engine makes no decision before the first `Resync` and the first inventory update.
    ///
    /// # Errors
    /// Returns [`InvalidConfig`] if the configuration is inconsistent.
    pub fn new(config: Config) -> Result<Self, InvalidConfig> {
        config.validate()?;
        Ok(Self {
            role: Role::new(),
            progress: EngineProgress::default(),
            market: Market::default(),
            reservations: Reservations::new(&config),
            leases: Leases::new(&config),
            scan: Scan::default(),
            changes: 0,
            outbox: Outbox::default(),
            counts: EngineCounts::default(),
            config: Arc::new(config),
        })
    }

    /// Returns the configuration of this engine.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Processes one input and returns the resulting effects.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        // The time advances first, because the input is judged by its time of arrival.
        self.advance_time(now);
        self.count_input(&input);
        match input {
            Input::Chain(event) => self.chain_event(event),
            Input::Cluster(change) => self.cluster_changed(change),
            Input::Inventory(update) => {
                self.reservations.update(update);
                self.inventory_updated();
            }
            Input::Completed(id, completion) => self.completed(id, completion),
            Input::Request(id, request) => self.requested(id, request),
            Input::Leadership(leadership) => self.leadership_changed(leadership),
            Input::HoldBids(why) => self.hold_bids(why),
            Input::Kept(state) => self.restore(&state),
            Input::PricesChanged => self.prices_changed(),
            Input::Shutdown => self.shutdown(),
        }
        self.finish()
    }

    /// Returns the time at which [`Engine::handle_timeout`] is due, or `None` if no deadline is set.
    ///
    /// Deadlines in block time are not included.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        // A deadline without possible work must not be returned: the caller would wake in a busy loop.
        let running = !self.role.is_stopping();
        let scan = self
            .scan
            .deadline()
            .filter(|_| running && self.progress.chain_known());
        let retry = self.market.next_retry().filter(|_| running);
        let breaker = self.leases.breaker().deadline().filter(|_| running);
        let machines = [self.market.next_order(), self.leases.next_mono()];
        let own = [scan, retry, breaker];
        machines.into_iter().chain(own).flatten().min()
    }

    /// Processes expired deadlines. An early call has no effect.
    pub fn handle_timeout(&mut self, now: Now) -> Vec<Effect> {
        self.advance_time(now);
        self.finish()
    }

    /// Returns true if no write to the chain or the cluster is in flight. The process can then stop without
    /// losing a result.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.outbox.is_idle()
    }

    /// Returns a copy of the free capacity, or `None` before the first inventory update. Callers use the copy
    /// to test whether a group fits.
    #[must_use]
    pub fn capacity(&self) -> Option<Capacity> {
        self.reservations.capacity()
    }

    /// Returns true if this provider holds the lease and the lease is active on the chain.
    #[must_use]
    pub fn has_lease(&self, lease: &LeaseId) -> bool {
        self.workload(lease).is_some_and(workload::Workload::is_live)
    }

    /// Returns the active lease of this provider for a group. If the group has two active leases, returns the
    /// lease with the newest order.
    #[must_use]
    pub fn lease_of(&self, group: &GroupId) -> Option<LeaseId> {
        let mine = self.leases.workloads().filter(|(l, _)| l.order.group == *group);
        let live = mine.filter(|(_, workload)| workload.is_live());
        live.map(|(lease, _)| lease).max().cloned()
    }

    /// Recomputes all reservations, and returns whether the result equals the stored reservations. A
    /// difference indicates a defect.
    #[must_use]
    pub fn recount_matches(&self) -> bool {
        self.reservations.recount_matches()
    }

    /// Returns the counts of the engine since its start.
    #[must_use]
    pub const fn counts(&self) -> &EngineCounts {
        &self.counts
    }

    pub(crate) fn hide(&mut self, cover: &Cover<'_>) {
        self.leases.hide(cover);
        self.scan.hide(cover);
        self.outbox.hide(cover);
    }

    fn advance_time(&mut self, now: Now) {
        // The status contains whether the breaker's settle time has passed, and no input marks its end.
        if self
            .leases
            .breaker_mut()
            .warmup_ends_within(self.progress.mono(), now.mono)
        {
            self.changes += 1;
        }
        self.progress.advance(now);
    }

    fn finish(&mut self) -> Vec<Effect> {
        // Timers run first: the later functions of this step use the capacity and requests that result from them.
        self.fire_timers();
        self.drive_breaker();
        self.retry_orders();
        self.drive_wallet();
        self.drive_scan();
        self.outbox.take()
    }

    fn fire_timers(&mut self) {
        for key in self.due() {
            match key {
                DeadlineKey::Order(id) => self.drive_order(&id, order::OrderInput::Wake),
                DeadlineKey::Deployment(id) => self.drive_deployment(&id, deployment::DeploymentInput::Wake),
                DeadlineKey::Workload(id) => self.drive_workload(&id, workload::WorkloadInput::Wake),
                DeadlineKey::Escrow(id) => self.drive_escrow(&id, escrow::EscrowInput::Wake),
            }
        }
    }

    /// Returns the machines with an expired deadline, each once, ordered by deadline.
    fn due(&self) -> Vec<DeadlineKey> {
        let now = self.progress.now();
        // Fast path: most steps have no expired deadline.
        if !self.market.is_due(now) && !self.leases.is_due(now) {
            return Vec::new();
        }
        let orders = keyed(self.market.due_mono(now), DeadlineKey::Order);
        let mut mono: Vec<(Mono, DeadlineKey)> = orders.chain(self.leases.due_mono(now)).collect();
        let orders = keyed(self.market.due_block(now), DeadlineKey::Order);
        let mut block: Vec<(BlockTime, DeadlineKey)> = orders.chain(self.leases.due_block(now)).collect();
        mono.sort_unstable();
        block.sort_unstable();
        let mut due: Vec<DeadlineKey> = mono.into_iter().map(|(_, key)| key).collect();
        // A machine with both deadlines expired is woken once, because `Wake` checks both clocks.
        let both: BTreeSet<DeadlineKey> = due.iter().cloned().collect();
        due.extend(
            block
                .into_iter()
                .map(|(_, key)| key)
                .filter(|key| !both.contains(key)),
        );
        due
    }

    fn cx<'a>(&self, config: &'a Config) -> Cx<'a> {
        Cx {
            config,
            now: self.progress.now(),
            height: self.progress.height(),
            block_time: self.progress.block_length(config.average_block_time),
            within_block: self.progress.within_block(),
            provider_version: self.market.provider_version(),
            deposit: self.market.deposit(config),
            leadership: self.role.leadership(),
            may_close: self.role.may_close(self.progress.mono()) && self.progress.chain_known(),
            cluster_known: self.progress.cluster_known(),
            stopping: self.role.is_stopping(),
            bids_held: self.role.bids_held().is_some(),
            displaced: None,
        }
    }

    fn leadership_changed(&mut self, leadership: Leadership) {
        let grace = self.config.takeover_grace;
        let takes_over = self.role.set_leadership(leadership, self.progress.mono(), grace);
        if takes_over && self.progress.chain_known() {
            // This instance does not know which workloads the previous leader deployed.
            self.progress.set_cluster_known(false);
            self.scan.request_listing(ScanReason::Takeover);
            self.scan.schedule_now(ScanReason::Takeover);
        }
        self.wake_everything();
    }

    fn hold_bids(&mut self, why: Option<Arc<str>>) {
        self.role.hold_bids(why);
        // Setting the hold needs no wake: each machine checks it before it sends a bid.
        if self.role.bids_held().is_none() {
            for id in self.market.order_ids() {
                self.drive_order(&id, order::OrderInput::Wake);
            }
        }
    }

    /// Sends `Wake` to every machine after a change of permissions.
    fn wake_everything(&mut self) {
        for id in self.market.order_ids() {
            self.drive_order(&id, order::OrderInput::Wake);
        }
        for id in self.leases.deployment_ids() {
            self.drive_deployment(&id, deployment::DeploymentInput::Wake);
        }
        for id in self.leases.workload_ids() {
            self.drive_workload(&id, workload::WorkloadInput::Wake);
        }
        for id in self.leases.escrow_ids() {
            self.drive_escrow(&id, escrow::EscrowInput::Wake);
        }
    }

    fn shutdown(&mut self) {
        self.role.stop();
        for id in self.market.order_ids() {
            self.drive_order(&id, order::OrderInput::Shutdown);
        }
        for id in self.leases.deployment_ids() {
            self.drive_deployment(&id, deployment::DeploymentInput::Shutdown);
        }
        self.refuse_scans();
        // The wake also removes the deadlines of work that can no longer start.
        self.wake_everything();
    }
}

fn keyed<'a, T: Copy + 'a, Id: Clone + 'a>(
    due: impl Iterator<Item = &'a (T, Id)>,
    key: fn(Id) -> DeadlineKey,
) -> impl Iterator<Item = (T, DeadlineKey)> {
    due.map(move |(at, id)| (*at, key(id.clone())))
}

/// Returns the keys sorted, so that the order does not depend on hashing.
fn sorted<'a, T: Ord + Clone + 'a>(keys: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut keys: Vec<T> = keys.cloned().collect();
    keys.sort_unstable();
    keys
}
