//! The engine: every state machine and ledger of a provider, changed by one function.
//!
//! ```text
//!                 chain events   completions   requests   cluster   inventory
//!                       └────────────┴────────────┼──────────┴─────────┘
//!                                         Engine::step(now, input)
//!             ┌───────────┬──────────────┬────────┴─────┬──────────────────────┐
//!           order     deployment      workload        escrow        reservations, hostnames
//!         (per order) (per tenant's  (per lease)   (per tenant's      (ledgers, answer
//!                      deployment)                  deployment)        within the step)
//!             └───────────┴──────────────┴────────┬─────┴──────────────────────┘
//!                                     effects: calls, facts, replies
//! ```
//! No clock, no randomness, no I/O: time is passed in, timers are state ([`Engine::next_deadline`]), a call is
//! an effect whose completion comes back as an input. The engine is a cache of chain and cluster; one path
//! (`reconcile`) builds it from a snapshot, at the start, after a gap, and in every full scan.

// A new case of an input or an answer does not compile until somebody has thought about every place that sees it.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod effect;
pub mod input;
pub mod reservations;
pub mod status;

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
use cx::Cx;
use leases::{Leases, deployment, escrow, workload};
use market::{Market, order};
use outbox::{Outbox, Target};
use progress::Progress;
use reconcile::Scan;
use reservations::{Capacity, Reservations};
use role::Role;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The machines by themselves: no part of what is promised, and others with every version.
///
/// The exploration sends every order of inputs to one machine and looks into each state it reaches. One in an [`Engine`]
/// hears only what the engine lets through, so it cannot be explored from outside; and beside the code the exploration
/// would be built with the unit tests, which are not built for speed.
#[doc(hidden)]
pub mod machines {
    pub use super::cx::Cx;
    pub use super::leases::{deployment, escrow, workload};
    pub use super::market::order;
}

/// A machine that wants to be woken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Order(OrderId),
    Deployment(DeploymentId),
    Workload(LeaseId),
    Escrow(DeploymentId),
}

/// Every state machine and ledger of a provider; changes only by [`Engine::step`].
///
/// A copy takes the same inputs to the same effects, and so does what was written down and read again by the same version.
/// The form is nobody's to rely on: it is another with every version. Written, it has the secrets of manifests in it
/// unless [`record::hide_in_engine`](crate::record::hide_in_engine) took them out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Engine {
    config: Arc<Config>,
    role: Role,
    progress: Progress,
    market: Market,
    leases: Leases,
    reservations: Reservations,
    scan: Scan,
    changes: u64,
    outbox: Outbox,
}

impl Engine {
    /// An engine that knows nothing yet; it waits for the first `Resync` and the first inventory.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn new(config: Config) -> Result<Self, InvalidConfig> {
        config.validate()?;
        Ok(Self {
            role: Role::new(),
            progress: Progress::default(),
            market: Market::default(),
            reservations: Reservations::new(&config),
            leases: Leases::new(&config),
            scan: Scan::default(),
            changes: 0,
            outbox: Outbox::default(),
            config: Arc::new(config),
        })
    }

    /// The settings it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes one input and says what is to be done.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        // First, so that the input is judged by the time it came at.
        self.take_time(now);
        self.count_input(&input);
        match input {
            Input::Chain(event) => self.chain_event(event),
            Input::Cluster(change) => self.cluster_changed(change),
            Input::Inventory(update) => {
                self.reservations.update(update);
                self.capacity_known();
            }
            Input::Completed(id, completion) => self.completed(id, completion),
            Input::Request(id, request) => self.requested(id, request),
            Input::Leadership(leadership) => self.leadership_changed(leadership),
            Input::HoldBids(why) => self.hold_bids(why),
            Input::Kept(kept) => self.remind(&kept),
            Input::PricesChanged => self.prices_changed(),
            Input::Shutdown => self.shutdown(),
        }
        self.finish()
    }

    /// When [`Engine::handle_timeout`] is due; block-time deadlines come with the blocks by themselves.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        // What cannot be done now has no deadline, or whoever waits for it would never sleep.
        let running = !self.role.is_stopping();
        let scan = self
            .scan
            .deadline()
            .filter(|_| running && self.progress.chain_known());
        let look = self.market.next_look().filter(|_| running);
        let breaker = self.leases.breaker().deadline().filter(|_| running);
        let machines = [self.market.next_order(), self.leases.next_mono()];
        let own = [scan, look, breaker];
        machines.into_iter().chain(own).flatten().min()
    }

    /// Lets deadlines pass. May be called at any time, also for nothing.
    pub fn handle_timeout(&mut self, now: Now) -> Vec<Effect> {
        self.take_time(now);
        self.finish()
    }

    /// True when no write is under way: what is left can be stopped without losing anything.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.outbox.is_idle()
    }

    /// What is left now, as a copy in which any group can be tried; `None` while capacity is not known.
    #[must_use]
    pub fn capacity(&self) -> Option<Capacity> {
        self.reservations.capacity()
    }

    /// True while the chain shows this lease as ours and alive.
    #[must_use]
    pub fn has_lease(&self, lease: &LeaseId) -> bool {
        self.workload(lease).is_some_and(workload::Workload::is_live)
    }

    /// Our live lease of a group, if there is one; the newest order's where there are two.
    #[must_use]
    pub fn lease_of(&self, group: &GroupId) -> Option<LeaseId> {
        let mine = self.leases.workloads().filter(|(l, _)| l.order.group == *group);
        let live = mine.filter(|(_, workload)| workload.is_live());
        live.map(|(lease, _)| lease).max().cloned()
    }

    /// Counts all reservations from scratch and says whether the ledger agrees; false is a defect.
    #[must_use]
    pub fn recount_matches(&self) -> bool {
        self.reservations.recount_matches()
    }

    pub(crate) fn hide(&mut self, cover: &Cover<'_>) {
        self.leases.hide(cover);
        self.scan.hide(cover);
        self.outbox.hide(cover);
    }

    fn take_time(&mut self, now: Now) {
        // A status says whether the first minutes are over, and no input tells their end.
        if self
            .leases
            .breaker_mut()
            .opens_within(self.progress.mono(), now.mono)
        {
            self.changes += 1;
        }
        self.progress.pass(now);
    }

    fn finish(&mut self) -> Vec<Effect> {
        // Timers first: what they free, or ask for, is taken up by those after them in the same step.
        self.fire_timers();
        self.drive_breaker();
        self.orders_retry();
        self.drive_wallet();
        self.drive_scan();
        self.outbox.take()
    }

    fn fire_timers(&mut self) {
        for key in self.due() {
            match key {
                Key::Order(id) => self.drive_order(&id, order::Input::Wake),
                Key::Deployment(id) => self.drive_deployment(&id, deployment::Input::Wake),
                Key::Workload(id) => self.drive_workload(&id, workload::Input::Wake),
                Key::Escrow(id) => self.drive_escrow(&id, escrow::Input::Wake),
            }
        }
    }

    /// Machines whose deadlines have come, each once, in the order of the deadlines.
    fn due(&self) -> Vec<Key> {
        let now = self.progress.now();
        // Asked first, because nothing is due after most steps.
        if !self.market.is_due(now) && !self.leases.is_due(now) {
            return Vec::new();
        }
        let orders = keyed(self.market.due_mono(now), Key::Order);
        let mut mono: Vec<(Mono, Key)> = orders.chain(self.leases.due_mono(now)).collect();
        let orders = keyed(self.market.due_block(now), Key::Order);
        let mut block: Vec<(BlockTime, Key)> = orders.chain(self.leases.due_block(now)).collect();
        mono.sort_unstable();
        block.sort_unstable();
        let mut due: Vec<Key> = mono.into_iter().map(|(_, key)| key).collect();
        // One that is due in both clocks is woken once: a wake looks at both.
        let both: BTreeSet<Key> = due.iter().cloned().collect();
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
            facts: self.market.facts_version(),
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
        let takes_over = self.role.lead(leadership, self.progress.mono(), grace);
        if takes_over && self.progress.chain_known() {
            // What the leader before told the cluster to run is not known here.
            self.progress.set_cluster_known(false);
            self.scan.doubt_cluster();
            self.scan.soon();
        }
        self.wake_everything();
    }

    fn hold_bids(&mut self, why: Option<Arc<str>>) {
        self.role.hold_bids(why);
        // Holding them back needs no wake: a machine asks before it sends.
        if self.role.bids_held().is_none() {
            for id in self.market.order_ids() {
                self.drive_order(&id, order::Input::Wake);
            }
        }
    }

    /// Wakes every machine: permissions changed.
    fn wake_everything(&mut self) {
        for id in self.market.order_ids() {
            self.drive_order(&id, order::Input::Wake);
        }
        for id in self.leases.deployment_ids() {
            self.drive_deployment(&id, deployment::Input::Wake);
        }
        for id in self.leases.workload_ids() {
            self.drive_workload(&id, workload::Input::Wake);
        }
        for id in self.leases.escrow_ids() {
            self.drive_escrow(&id, escrow::Input::Wake);
        }
    }

    fn shutdown(&mut self) {
        self.role.stop();
        for id in self.market.order_ids() {
            self.drive_order(&id, order::Input::Shutdown);
        }
        for id in self.leases.deployment_ids() {
            self.drive_deployment(&id, deployment::Input::Shutdown);
        }
        self.refuse_scans();
        // What may no longer be started has no deadline either.
        self.wake_everything();
    }
}

/// Deadlines of one kind of machine among those of the others.
fn keyed<'a, T: Copy + 'a, Id: Clone + 'a>(
    due: impl Iterator<Item = &'a (T, Id)>,
    key: fn(Id) -> Key,
) -> impl Iterator<Item = (T, Key)> {
    due.map(move |(at, id)| (*at, key(id.clone())))
}

/// Keys in an order that does not depend on hashing.
fn sorted<'a, T: Ord + Clone + 'a>(keys: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut keys: Vec<T> = keys.cloned().collect();
    keys.sort_unstable();
    keys
}
