//! One history: a provider's engine between a chain, a cluster, tenants and a clock.
//!
//! A history first lets everything happen in any order, with faults; only what must never happen is checked.
//! Then faults end, and everything must settle. All choices come from one seed.

use crate::calls::Pending;
use crate::capacity::{Capacity, Cause};
use crate::chain::Chain;
use crate::faults::{self, Faults};
use crate::flavour::Flavour;
use crate::ids::{self, OURS, RIVAL};
use crate::invariants::{self, Deed};
use crate::oracle::{Checked, Memory, Told, ensure};
use crate::promises::Hardware;
use crate::rack::{self, Rack};
use crate::random::Random;
use crate::replay::Trace;
use crate::seats::Seat;
use crate::tape::Taped;
use crate::tenants::Wish;
use akash_provider_core::Config;
use akash_provider_core::cluster::Health;
use akash_provider_core::engine::status::Pulse;
use akash_provider_core::engine::{Effect, Input, Leadership, Status};
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{InventoryUpdate, LeasedIpUsage, Place, Placement};
use akash_provider_core::market::{Market, MarketConfig};
use akash_provider_core::types::{BlockTime, Event, LeaseId, Mono, Msg, Now, ProviderRecord};
use std::sync::Arc;
use std::time::Duration;

const GI: i64 = 1 << 30;
const NODES: u64 = 3;

/// A history under way.
pub(crate) struct World {
    pub(crate) random: Random,
    /// Chance of what others do in the cluster.
    pub(crate) hands: Random,
    /// Chance of what is special in this history.
    pub(crate) spice: Random,
    pub(crate) flavour: Flavour,
    pub(crate) faults: Faults,
    pub(crate) config: Config,
    pub(crate) chain: Chain,
    pub(crate) rack: Rack,
    pub(crate) engine: Taped,
    /// Which engine this is, from 1.
    pub(crate) life: u64,
    /// Engines there were.
    pub(crate) lives: u64,
    /// Another instance, which does nothing before it is this one's turn.
    pub(crate) other: Option<Seat>,
    pub(crate) mono: Mono,
    pub(crate) pending: Vec<Pending>,
    pub(crate) wishes: Vec<Wish>,
    /// Deployments of the stranger.
    pub(crate) strangers: u64,
    pub(crate) requests: u64,
    pub(crate) told: Told,
    pub(crate) memory: Memory,
    /// The cluster does not answer.
    pub(crate) outage: bool,
    /// Changes of the cluster are seen.
    pub(crate) watched: bool,
    pub(crate) epoch: u64,
    /// Milli-CPU of each node that others use.
    foreign: Vec<u64>,
    pub(crate) hardware: Hardware,
    /// Use of the addresses as it was last told.
    pub(crate) counted: LeasedIpUsage,
    pub(crate) trace: Trace,
    steps: u64,
}

fn market(flavour: Flavour) -> Market {
    let mut market = Market::new(MarketConfig::new("simulated", BlockTime(1_700_000_000_000)));
    flavour.wallet.fund(&mut market);
    for (owner, attributes) in [(&*OURS, ids::attributes()), (&*RIVAL, ids::attributes())] {
        let provider = ProviderRecord {
            owner: owner.clone(),
            host_uri: "https://provider.example:8443".to_owned(),
            info: Default::default(),
            attributes,
        };
        market.execute(&Msg::CreateProvider(provider)).unwrap();
    }
    market
}

impl World {
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let mut config = faults::config(&mut random);
        let mut hands = Random::new(!seed);
        config.breaker_warmup = Duration::from_secs(if hands.percent(60) { 0 } else { hands.below(300) });
        if config.manifest_timeout.is_some() && hands.percent(40) {
            config.manifest_timeout = Some(Duration::from_secs(hands.between(1, 30)));
        }
        config.breaker_ceiling = u32::try_from(hands.between(1, 10)).unwrap();
        let faults = Faults::of_seed(&mut random).in_the_cluster(&mut hands);
        let mut spice = Random::new(seed.rotate_left(32) ^ 0x5eed);
        let flavour = Flavour::of_seed(&mut spice);
        flavour.settings(&mut spice, &mut config);
        Self {
            engine: Taped::new(config.clone(), trace.is_taped),
            random,
            hands,
            spice,
            flavour,
            faults,
            config,
            chain: Chain::new(market(flavour)),
            rack: Rack::new(flavour.hostile > 0),
            life: 1,
            lives: 1,
            other: None,
            mono: Mono(1_000),
            pending: Vec::new(),
            wishes: Vec::new(),
            strangers: 0,
            requests: 0,
            told: Told::new(),
            memory: Memory::default(),
            outage: false,
            watched: false,
            epoch: 0,
            foreign: vec![0; usize::try_from(NODES).unwrap()],
            hardware: Hardware::default(),
            counted: LeasedIpUsage::default(),
            trace,
            steps: 0,
        }
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            mono: self.mono,
            block_time: self.told.block_time,
        }
    }

    /// What the clocks of the process show: at times less than they did before.
    fn clocks(&mut self) -> Now {
        let mut now = self.now();
        if self.random.percent(self.faults.clocks) {
            now.mono = Mono(now.mono.0.saturating_sub(self.random.below(7_200_000)));
        }
        if self.random.percent(self.faults.clocks) {
            let back = i64::try_from(self.random.below(7_200_000)).unwrap();
            now.block_time = BlockTime(now.block_time.0.saturating_sub(back));
        }
        now
    }

    /// Gives the engine one input and checks what it does.
    pub(crate) fn feed(&mut self, input: Input) -> Checked {
        self.trace.line(|| format!("{} in {input:?}", self.mono.0));
        let leases = match input {
            Input::Cluster(_) => invariants::live(&self.chain.market),
            _ => Vec::new(),
        };
        let now = self.clocks();
        let cause = Cause::of(&input);
        self.told.mono = self.told.mono.max(now.mono);
        self.told.input(&input, &leases);
        let before = self.looked_at();
        let effects = self.engine.step(now, input);
        self.engine.check()?;
        self.sold(cause, &effects)?;
        self.changes_are_counted(before)?;
        self.effects(effects)
    }

    /// Now and then, a status without what changes all the time, and what was counted of its changes.
    fn looked_at(&self) -> Option<(u64, Status)> {
        self.steps.is_multiple_of(11).then(|| {
            let mut status = self.engine.status(self.now());
            status.set_pulse(Pulse::default());
            for lease in &mut status.leases {
                if lease.health == Health::Bad {
                    lease.known_unhealthy_ms = 0;
                }
            }
            (self.engine.changes(), status)
        })
    }

    fn changes_are_counted(&self, before: Option<(u64, Status)>) -> Checked {
        let (Some((changes, before)), Some((now, after))) = (before, self.looked_at()) else {
            return Ok(());
        };
        let holds = changes != now || before == after;
        ensure("what_changes_a_status_is_counted", holds, || {
            format!("{before:?}\n{after:?}")
        })
    }

    /// Lets the engine's deadlines pass.
    pub(crate) fn wake(&mut self) -> Checked {
        self.trace.line(|| format!("{} wake", self.mono.0));
        self.told.mono = self.told.mono.max(self.mono);
        let now = self.now();
        let before = self.looked_at();
        let effects = self.engine.handle_timeout(now);
        self.engine.check()?;
        self.sold(Cause::Other, &effects)?;
        self.changes_are_counted(before)?;
        self.effects(effects)?;
        let next = self.engine.next_deadline();
        ensure(
            "a_woken_engine_may_sleep",
            next.is_none_or(|at| at > self.told.mono),
            || format!("woken at {:?}, and again at {next:?}", self.told.mono),
        )
    }

    /// What is kept over a restart.
    fn keep_of_breaker(&mut self, event: &Event) {
        let config = &mut self.config;
        match event {
            Event::BreakerTripped { .. } => config.breaker_tripped = true,
            Event::BreakerTrippedFor { owner, .. } => {
                config.breaker_held_owners.insert(owner.clone());
            }
            Event::BreakerReleased => {
                config.breaker_tripped = false;
                config.breaker_held_owners.clear();
            }
            Event::BreakerReleasedFor { owner } => {
                config.breaker_held_owners.remove(owner);
            }
            _ => {}
        }
    }

    fn effects(&mut self, effects: Vec<Effect>) -> Checked {
        for effect in effects {
            self.trace.effect(&effect);
            self.note_findings(&effect);
            match effect {
                Effect::Call(id, call) => {
                    let deed = Deed {
                        config: &self.config,
                        told: &self.told,
                        market: &self.chain.market,
                        call: &call,
                    };
                    deed.check()?;
                    deed.promises()?;
                    self.told.called(id, &call);
                    self.pending.push(Pending {
                        id,
                        call,
                        answer: None,
                        there: None,
                        sent: false,
                    });
                }
                Effect::Publish(event) => {
                    self.told.deployed_is_whole(&event)?;
                    self.keep_of_breaker(&event);
                }
                Effect::Reply(id, response) => {
                    self.memory.answered(id, &response);
                    let waited = self.told.requests.remove(&id);
                    ensure("every_request_gets_one_reply", waited, || {
                        format!("{id:?} was not waiting")
                    })?;
                }
            }
        }
        self.steps += 1;
        if self.steps.is_multiple_of(5) {
            self.check_now()?;
        }
        Ok(())
    }

    /// Delivers the answer of a call, at times twice.
    pub(crate) fn deliver(&mut self, index: usize) -> Checked {
        let Some(answer) = self.pending[index].answer.clone() else {
            return Ok(());
        };
        let pending = self.pending.swap_remove(index);
        let id = pending.id;
        if let Some((shown, hidden)) = pending.there {
            (self.told.there, self.told.hidden) = (shown, hidden);
        }
        self.feed(Input::Completed(id, answer.clone()))?;
        if self.random.percent(self.faults.twice) {
            self.feed(Input::Completed(id, answer))?;
        }
        Ok(())
    }

    /// Delivers the next fact of the chain; false when there is none.
    pub(crate) fn hear(&mut self) -> Result<bool, crate::oracle::Broken> {
        let Some(event) = self.chain.next_event() else {
            return Ok(false);
        };
        self.feed(Input::Chain(event))?;
        Ok(true)
    }

    /// Puts a transaction that waits into the block under construction.
    pub(crate) fn land(&mut self, index: usize) -> Checked {
        let tx = self.chain.mempool[index].clone();
        if self.chain.land(index).is_none() {
            // Too late for the block, so for ever: whoever waits is told that nobody knows.
            if !tx.told {
                let expires = tx.expires;
                let unknown = akash_provider_core::types::TxOutcome::Unknown { expires };
                self.told_of_tx(tx.life, tx.effect, unknown);
            }
            return Ok(());
        }
        let Msg::WithdrawLease { id } = tx.msg else {
            return Ok(());
        };
        let height = self.chain.market.height() + 1;
        let deployment = id.deployment().clone();
        let first = self.memory.withdrawals.insert((tx.life, deployment, height));
        ensure("never_two_withdrawals_of_a_deployment_in_a_block", first, || {
            format!("{id} in block {height}")
        })
    }

    /// Completes a block, whose transactions' outcomes are then known.
    pub(crate) fn block(&mut self, next: Duration) {
        let landed = self.chain.end_block(next);
        if let Some(other) = &mut self.other {
            other.stream.hear(self.chain.newest());
        }
        for landed in landed {
            if !landed.tx.told {
                self.told_of_tx(landed.tx.life, landed.tx.effect, landed.outcome);
            }
        }
    }

    /// A fresh view of capacity and of where our pods are.
    pub(crate) fn inventory(&mut self) -> Checked {
        let node = |(index, used): (usize, &u64)| {
            let mut node = NodeSpec::new(format!("node-{index}"), 4_000, 64 * GI, 512 * GI);
            node.cpu.allocated = i64::try_from(*used).unwrap();
            self.hardware.equip(index, node)
        };
        let mut nodes = ClusterSpec::of_nodes(self.foreign.iter().enumerate().map(node));
        if self.flavour.classes {
            self.hardware.store(&mut nodes);
        }
        let deployed = self.rack.runs.iter().filter(|(_, r)| r.deployed);
        let random = &mut self.random;
        // Where GPUs are is not for pods to say.
        let movable = deployed.filter(|(_, run)| run.deployment.group.services[0].resources.gpu.units == 0);
        let placements =
            movable.map(|(lease, run)| placement(random, lease, run.deployment.group.services[0].count));
        self.counted = self.hardware.usage(&self.rack);
        self.told.sales.capacity = Some(Capacity::of(&nodes));
        let update = InventoryUpdate {
            placements: placements.collect(),
            inventory: Arc::new(NodeInventory::new(&nodes)),
            leased_ips: Some(self.counted.clone()),
        };
        self.feed(Input::Inventory(update))
    }

    pub(crate) fn capacity_changes(&mut self) -> Checked {
        let node = self.random.index(self.foreign.len());
        self.foreign[node] = self.random.below(5) * 1_000;
        self.hardware.changes(&mut self.random);
        if self.flavour.classes {
            self.hardware.storage_changes(&mut self.spice);
        }
        self.inventory()
    }

    pub(crate) fn no_foreign_usage(&mut self) -> Checked {
        self.foreign.fill(0);
        self.hardware = Hardware::default();
        self.inventory()
    }

    /// The engine is gone, with everything it knew; of what it had asked for anything may have happened.
    pub(crate) fn crash(&mut self) -> Checked {
        self.trace.line(|| "crash".to_owned());
        for index in 0..self.pending.len() {
            let waits = self.pending[index].answer.is_none() && !self.pending[index].sent;
            if waits && self.random.percent(50) {
                self.make(index);
            }
        }
        self.start()
    }

    /// A new engine, which knows nothing, and may look in a wrong place.
    pub(crate) fn start(&mut self) -> Checked {
        let was_right = self.rack.looks_in_the_right_place();
        if !was_right {
            self.rack.look_in(rack::Place::Right);
        } else if self.other.is_none() && self.hands.percent(self.faults.misplaced) {
            let place = [rack::Place::WrongNamespace, rack::Place::WrongCluster][self.hands.index(2)];
            self.trace.line(|| format!("the provider looks in a {place:?}"));
            self.rack.look_in(place);
        }
        if self.faults.hands > 0 && self.hands.percent(50) {
            for _ in 0..self.rack.runs.len() {
                self.foreign_hand();
            }
        }
        // The operator may sell more, or less, than before.
        if self.faults.disasters > 0 && self.other.is_none() && self.spice.percent(self.flavour.bulky / 3) {
            self.config.overcommit_storage_percent = [0, 50, 100][self.spice.index(3)];
            self.config.overcommit_memory_percent = [0, 50][self.spice.index(2)];
        }
        self.pending.clear();
        self.lives += 1;
        self.life = self.lives;
        self.engine = Taped::new(self.config.clone(), self.trace.is_taped);
        self.told = Told::new();
        self.told.mono = Mono(0);
        self.chain.disconnect();
        self.watched = false;
        if self.other_leads() {
            self.feed(Input::Leadership(Leadership::Standby))?;
        } else {
            self.epoch += 1;
            self.feed(Input::Leadership(Leadership::Leader { epoch: self.epoch }))?;
        }
        if self.random.percent(50) {
            self.inventory()?;
        }
        Ok(())
    }

    /// Rules that hold at every moment and need a look at the whole engine.
    pub(crate) fn check_now(&mut self) -> Checked {
        let status = self.engine.status(self.now());
        invariants::Moment {
            status: &status,
            told: &self.told,
            chain: &self.chain,
            counted: &self.counted,
            life: self.life,
            sound: self.engine.recount_matches(),
        }
        .check()?;
        self.told.sales.look(Cause::Other, &status)?;
        self.trace.count(&status);
        Ok(())
    }

    /// True when nothing of ours is under way outside.
    pub(crate) fn is_drained(&self) -> bool {
        self.pending.is_empty() && self.chain.undelivered() == 0
    }

    pub(crate) fn index_of_unmade(&self) -> Option<usize> {
        self.pending.iter().position(|p| p.answer.is_none() && !p.sent)
    }

    pub(crate) fn index_of_answered(&self) -> Option<usize> {
        self.pending.iter().position(|p| p.answer.is_some())
    }
}

/// Pods anywhere: the scheduler has its own mind.
fn placement(random: &mut Random, lease: &LeaseId, count: u32) -> Placement {
    let place = |_| Place {
        unit: 1,
        node: format!("node-{}", random.below(NODES)).into(),
        replicas: 1,
    };
    Placement {
        lease: lease.clone(),
        places: (0..count).map(place).collect(),
    }
}
