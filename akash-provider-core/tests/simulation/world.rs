//! One history: the engine of a provider with a simulated chain, cluster, tenants and clock.
//!
//! In the first phase the steps happen in a random order, with faults, and only the invariants that hold in
//! every state are checked. In the second phase there are no faults, and all pending work must be done. All
//! choices follow from one seed.

use crate::calls::Pending;
use crate::capacity::{Capacity, Cause};
use crate::chain::Chain;
use crate::cluster_state::{self, ClusterState};
use crate::faults::{self, Faults};
use crate::features::Features;
use crate::ids::{self, COMPETITOR, PROVIDER};
use crate::instances::Instance;
use crate::invariants::{self, CallCheck};
use crate::oracle::{Checked, EngineModel, HistoryRecord, ensure};
use crate::promises::Hardware;
use crate::random::Random;
use crate::recording::RecordedEngine;
use crate::replay::Trace;
use crate::tenants::TenantDeployment;
use akash_provider_core::Config;
use akash_provider_core::cluster::Health;
use akash_provider_core::engine::status::Pulse;
use akash_provider_core::engine::{Effect, Input, Leadership, Status};
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{InventoryUpdate, LeasedIpUsage, Placement, ReplicaGroup};
use akash_provider_core::market::{Market, MarketConfig};
use akash_provider_core::types::{BlockTime, Event, LeaseId, Mono, Msg, Now, ProviderRecord};
use std::sync::Arc;
use std::time::Duration;

const GI: i64 = 1 << 30;
const NODES: u64 = 3;

/// State of a running history.
pub(crate) struct World {
    pub(crate) random: Random,
    /// Random source for the faults of the cluster.
    pub(crate) hands: Random,
    /// Random source of the uncommon features.
    pub(crate) feature_random: Random,
    pub(crate) features: Features,
    pub(crate) faults: Faults,
    pub(crate) config: Config,
    pub(crate) chain: Chain,
    pub(crate) cluster_state: ClusterState,
    pub(crate) engine: RecordedEngine,
    /// Serial number of the active engine, from 1.
    pub(crate) life: u64,
    /// Number of engines created.
    pub(crate) lives: u64,
    /// The inactive instance, which receives no inputs.
    pub(crate) other: Option<Instance>,
    pub(crate) mono: Mono,
    pub(crate) pending: Vec<Pending>,
    pub(crate) tenant_deployments: Vec<TenantDeployment>,
    /// Number of deployments of the third party that writes invalid records.
    pub(crate) third_party_deployments: u64,
    pub(crate) requests: u64,
    pub(crate) model: EngineModel,
    pub(crate) memory: HistoryRecord,
    /// Whether all cluster calls fail.
    pub(crate) outage: bool,
    /// Whether the watch of the cluster delivers events to the engine.
    pub(crate) watched: bool,
    pub(crate) epoch: u64,
    /// CPU that other processes use on each node, in millicores.
    foreign: Vec<u64>,
    pub(crate) hardware: Hardware,
    /// Last reported usage of IP addresses.
    pub(crate) counted: LeasedIpUsage,
    pub(crate) trace: Trace,
    steps: u64,
}

fn market(features: Features) -> Market {
    let mut market = Market::new(MarketConfig::new("simulated", BlockTime(1_700_000_000_000)));
    features.wallet.fund(&mut market);
    for (owner, attributes) in [(&*PROVIDER, ids::attributes()), (&*COMPETITOR, ids::attributes())] {
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
        let mut feature_random = Random::new(seed.rotate_left(32) ^ 0x5eed);
        let features = Features::of_seed(&mut feature_random);
        features.settings(&mut feature_random, &mut config);
        Self {
            engine: RecordedEngine::new(config.clone(), trace.is_taped),
            random,
            hands,
            feature_random,
            features,
            faults,
            config,
            chain: Chain::new(market(features)),
            cluster_state: ClusterState::new(features.invalid_records > 0),
            life: 1,
            lives: 1,
            other: None,
            mono: Mono(1_000),
            pending: Vec::new(),
            tenant_deployments: Vec::new(),
            third_party_deployments: 0,
            requests: 0,
            model: EngineModel::new(),
            memory: HistoryRecord::default(),
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
            block_time: self.model.block_time,
        }
    }

    /// Returns the clock readings of the process, sometimes earlier than the previous readings.
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

    /// Feeds one input to the engine and checks the effects of the engine.
    pub(crate) fn feed(&mut self, input: Input) -> Checked {
        self.trace.line(|| format!("{} in {input:?}", self.mono.0));
        let leases = match input {
            Input::Cluster(_) => invariants::live(&self.chain.market),
            _ => Vec::new(),
        };
        let now = self.clocks();
        let cause = Cause::from_input(&input);
        self.model.mono = self.model.mono.max(now.mono);
        self.model.input(&input, &leases);
        let before = self.sampled_status();
        let effects = self.engine.step(now, input);
        self.engine.check()?;
        self.sold(cause, &effects)?;
        self.changes_are_counted(before)?;
        self.effects(effects)
    }

    /// In every 11th step, returns the change counter and the status without time-dependent values. In all
    /// other steps, returns `None`.
    fn sampled_status(&self) -> Option<(u64, Status)> {
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
        let (Some((changes, before)), Some((now, after))) = (before, self.sampled_status()) else {
            return Ok(());
        };
        let holds = changes != now || before == after;
        ensure("what_changes_a_status_is_counted", holds, || {
            format!("{before:?}\n{after:?}")
        })
    }

    /// Lets the engine handle the deadlines that have passed.
    pub(crate) fn wake(&mut self) -> Checked {
        self.trace.line(|| format!("{} wake", self.mono.0));
        self.model.mono = self.model.mono.max(self.mono);
        let now = self.now();
        let before = self.sampled_status();
        let effects = self.engine.handle_timeout(now);
        self.engine.check()?;
        self.sold(Cause::Other, &effects)?;
        self.changes_are_counted(before)?;
        self.effects(effects)?;
        let next = self.engine.next_deadline();
        ensure(
            "a_woken_engine_may_sleep",
            next.is_none_or(|at| at > self.model.mono),
            || {
                format!(
                    "the engine was woken at {:?} and requests the next deadline at {next:?}",
                    self.model.mono
                )
            },
        )
    }

    /// Stores the state of the circuit breaker in the configuration of the next engine.
    fn store_breaker_state(&mut self, event: &Event) {
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
                    let deed = CallCheck {
                        config: &self.config,
                        model: &self.model,
                        market: &self.chain.market,
                        call: &call,
                    };
                    deed.check()?;
                    deed.promises()?;
                    self.model.called(id, &call);
                    self.pending.push(Pending {
                        id,
                        call,
                        answer: None,
                        there: None,
                        sent: false,
                    });
                }
                Effect::Publish(event) => {
                    self.model.deployed_is_whole(&event)?;
                    self.store_breaker_state(&event);
                }
                Effect::Reply(id, response) => {
                    self.memory.note_response(id, &response);
                    let waited = self.model.requests.remove(&id);
                    ensure("every_request_gets_one_reply", waited, || {
                        format!("{id:?} was not in flight")
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

    /// Delivers the response of a call, sometimes twice.
    pub(crate) fn deliver(&mut self, index: usize) -> Checked {
        let Some(answer) = self.pending[index].answer.clone() else {
            return Ok(());
        };
        let pending = self.pending.swap_remove(index);
        let id = pending.id;
        if let Some((visible, hidden)) = pending.there {
            (self.model.there, self.model.hidden) = (visible, hidden);
        }
        self.feed(Input::Completed(id, answer.clone()))?;
        if self.random.percent(self.faults.twice) {
            self.feed(Input::Completed(id, answer))?;
        }
        Ok(())
    }

    /// Delivers the next event of the chain. Returns `false` if no event is pending.
    pub(crate) fn deliver_event(&mut self) -> Result<bool, crate::oracle::Violation> {
        let Some(event) = self.chain.next_event() else {
            return Ok(false);
        };
        self.feed(Input::Chain(event))?;
        Ok(true)
    }

    /// Puts a waiting transaction into the block under construction.
    pub(crate) fn land(&mut self, index: usize) -> Checked {
        let tx = self.chain.mempool[index].clone();
        if self.chain.land(index).is_none() {
            // The transaction has expired and can never land. A waiting engine gets the outcome "unknown".
            if !tx.is_outcome_sent {
                let expires = tx.expires;
                let unknown = akash_provider_core::types::TxOutcome::Unknown { expires };
                self.schedule_outcome(tx.life, tx.effect, unknown);
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

    /// Completes a block, and schedules the outcomes of its transactions for delivery.
    pub(crate) fn block(&mut self, next: Duration) {
        let landed = self.chain.end_block(next);
        if let Some(other) = &mut self.other {
            other.stream.push(self.chain.newest());
        }
        for landed in landed {
            if !landed.tx.is_outcome_sent {
                self.schedule_outcome(landed.tx.life, landed.tx.effect, landed.outcome);
            }
        }
    }

    /// Sends a current inventory update to the engine. The update contains the placement of the pods.
    pub(crate) fn inventory(&mut self) -> Checked {
        let node = |(index, used): (usize, &u64)| {
            let mut node = NodeSpec::new(format!("node-{index}"), 4_000, 64 * GI, 512 * GI);
            node.cpu.allocated = i64::try_from(*used).unwrap();
            self.hardware.equip(index, node)
        };
        let mut nodes = ClusterSpec::from_nodes(self.foreign.iter().enumerate().map(node));
        if self.features.classes {
            self.hardware.store(&mut nodes);
        }
        let deployed = self.cluster_state.runs.iter().filter(|(_, r)| r.deployed);
        let random = &mut self.random;
        // Pods do not determine the location of GPUs.
        let movable = deployed.filter(|(_, run)| run.deployment.group.services[0].resources.gpu.units == 0);
        let placements =
            movable.map(|(lease, run)| placement(random, lease, run.deployment.group.services[0].count));
        self.counted = self.hardware.usage(&self.cluster_state);
        self.model.sales.capacity = Some(Capacity::from_cluster(&nodes));
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
        if self.features.classes {
            self.hardware.storage_changes(&mut self.feature_random);
        }
        self.inventory()
    }

    pub(crate) fn no_foreign_usage(&mut self) -> Checked {
        self.foreign.fill(0);
        self.hardware = Hardware::default();
        self.inventory()
    }

    /// Stops the engine without a shutdown. Its calls in flight may or may not take effect.
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

    /// Starts a new engine without state, sometimes with a wrong namespace or cluster.
    pub(crate) fn start(&mut self) -> Checked {
        let was_right = self.cluster_state.looks_in_the_right_place();
        if !was_right {
            self.cluster_state.look_in(cluster_state::ReadLocation::Right);
        } else if self.other.is_none() && self.hands.percent(self.faults.misplaced) {
            let place = [
                cluster_state::ReadLocation::WrongNamespace,
                cluster_state::ReadLocation::WrongCluster,
            ][self.hands.index(2)];
            self.trace.line(|| format!("the provider reads from {place:?}"));
            self.cluster_state.look_in(place);
        }
        if self.faults.hands > 0 && self.hands.percent(50) {
            for _ in 0..self.cluster_state.runs.len() {
                self.change_cluster();
            }
        }
        // The operator may have changed the overcommit.
        if self.faults.disasters > 0
            && self.other.is_none()
            && self.feature_random.percent(self.features.bulky / 3)
        {
            self.config.overcommit_storage_percent = [0, 50, 100][self.feature_random.index(3)];
            self.config.overcommit_memory_percent = [0, 50][self.feature_random.index(2)];
        }
        self.pending.clear();
        self.lives += 1;
        self.life = self.lives;
        self.engine = RecordedEngine::new(self.config.clone(), self.trace.is_taped);
        self.model = EngineModel::new();
        self.model.mono = Mono(0);
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

    /// Checks the invariants that hold in every state.
    pub(crate) fn check_now(&mut self) -> Checked {
        let status = self.engine.status(self.now());
        invariants::StateCheck {
            status: &status,
            model: &self.model,
            chain: &self.chain,
            counted: &self.counted,
            life: self.life,
            sound: self.engine.recount_matches(),
        }
        .check()?;
        self.model.sales.look(Cause::Other, &status)?;
        self.trace.count(&status);
        Ok(())
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.pending.is_empty() && self.chain.undelivered() == 0
    }

    pub(crate) fn index_of_unmade(&self) -> Option<usize> {
        self.pending.iter().position(|p| p.answer.is_none() && !p.sent)
    }

    pub(crate) fn index_of_completed(&self) -> Option<usize> {
        self.pending.iter().position(|p| p.answer.is_some())
    }
}

fn placement(random: &mut Random, lease: &LeaseId, count: u32) -> Placement {
    let place = |_| ReplicaGroup {
        unit: 1,
        node: format!("node-{}", random.below(NODES)).into(),
        replicas: 1,
    };
    Placement {
        lease: lease.clone(),
        places: (0..count).map(place).collect(),
    }
}
