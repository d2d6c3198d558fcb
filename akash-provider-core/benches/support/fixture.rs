//! Fixtures of the benches: ids, orders, leases and clusters in any number.

use akash_provider_core::Config;
use akash_provider_core::cluster;
use akash_provider_core::engine::{Call, Completion, Effect, EffectId, Engine, Input, Workloads};
use akash_provider_core::inventory::InventoryUpdate;
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::manifest;
use akash_provider_core::types::{
    Address, Bid, BidId, BidState, BlockTime, ChainEvent, Coin, Cpu, Dec, DecCoin, Deployment, DeploymentId,
    DeploymentRecord, EscrowAccount, Group, GroupSpec, GroupState, Lease, LeaseRecord, LeaseState,
    MarketParams, Memory, Mono, Now, Order, OrderId, OrderState, PlacementRequirements, ProviderRecord,
    ResourceUnit, Resources, Snapshot, Storage,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type BenchError = Box<dyn std::error::Error>;

const MI: u64 = 1 << 20;
const TI: i64 = 1 << 40;

/// Chain accounts of the provider and a tenant, and the group that every order requests.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) provider: Address,
    pub(crate) tenant: Address,
    pub(crate) spec: Arc<GroupSpec>,
}

impl World {
    pub(crate) fn new() -> Result<Self, BenchError> {
        let price = DecCoin::new(&"uact".into(), Dec::from_int(100));
        let unit = ResourceUnit::new(resources(100, 128 * MI, 512 * MI), 1, price);
        let requirements = PlacementRequirements::default();
        let spec = GroupSpec {
            name: "group".to_owned(),
            requirements,
            resources: vec![unit],
        };
        Ok(Self {
            provider: Address::from_bytes(&[7; 20])?,
            tenant: Address::from_bytes(&[9; 20])?,
            spec: Arc::new(spec),
        })
    }

    pub(crate) fn order_id(&self, dseq: u64) -> OrderId {
        DeploymentId::new(self.tenant.clone(), dseq).group(1).order(1)
    }

    pub(crate) fn bid_id(&self, dseq: u64) -> BidId {
        self.order_id(dseq).bid(self.provider.clone())
    }

    pub(crate) fn price(&self) -> DecCoin {
        DecCoin::new(&"uact".into(), Dec::from_int(10))
    }

    pub(crate) fn order(&self, dseq: u64) -> Order {
        Order {
            id: self.order_id(dseq),
            state: OrderState::Open,
            spec: Arc::clone(&self.spec),
            created_at: 1,
            reclamation_min_window: None,
        }
    }

    fn bid(&self, dseq: u64, state: BidState) -> Bid {
        Bid {
            id: self.bid_id(dseq),
            state,
            price: self.price(),
            created_at: 1,
            resources_offer: self.spec.resources.clone(),
            reclamation_window: None,
        }
    }

    fn lease(&self, dseq: u64) -> Lease {
        Lease {
            id: self.bid_id(dseq),
            state: LeaseState::Active,
            price: self.price(),
            created_at: 1,
            closed_on: 0,
            reason: None,
            reclamation: None,
        }
    }

    fn deployment(&self, dseq: u64) -> DeploymentRecord {
        let id = self.order_id(dseq).deployment().clone();
        let group = id.clone().group(1);
        let deployment = Deployment {
            id,
            active: true,
            hash: [0; 32],
            created_at: 1,
            reclamation_min_window: None,
        };
        let funds = BTreeMap::from([("uact".into(), Dec::from_int(5_000_000))]);
        DeploymentRecord {
            deployment,
            groups: vec![Group {
                id: group,
                state: GroupState::Open,
                spec: Arc::clone(&self.spec),
            }],
            escrow: EscrowAccount { funds, settled_at: 1 },
            leases: vec![self.lease(dseq)],
        }
    }

    fn snapshot(&self) -> Snapshot {
        let provider = ProviderRecord {
            owner: self.provider.clone(),
            host_uri: "https://localhost:8443".to_owned(),
            info: Default::default(),
            attributes: Vec::new(),
        };
        Snapshot {
            chain_id: "bench".to_owned(),
            height: 10,
            time: BlockTime(1_000_000),
            provider: Some(provider),
            params: MarketParams {
                bid_min_deposits: vec![Coin::new("uact", 500_000)],
                order_max_bids: 20,
                min_reclamation_window: Duration::from_secs(3600),
                max_reclamation_window: Duration::from_secs(2_592_000),
            },
            orders: Vec::new(),
            bids: Vec::new(),
            leases: Vec::new(),
            deployments: Vec::new(),
            block_times: BTreeMap::new(),
        }
    }

    fn empty_engine(&self, nodes: usize) -> Result<Engine, BenchError> {
        let mut config = Config::new(self.provider.clone(), "bench");
        config.bid_timeout = None;
        let mut engine = Engine::new(config)?;
        let inventory = Arc::new(NodeInventory::new(&uniform_nodes(nodes, 1_000_000_000)));
        let update = InventoryUpdate::new(inventory, Vec::new());
        engine.step(now(0), Input::Inventory(update));
        Ok(engine)
    }

    /// Creates an engine with an empty chain snapshot and an empty cluster.
    pub(crate) fn engine(&self) -> Result<Engine, BenchError> {
        self.settled_engine(self.snapshot(), Vec::new())
    }

    pub(crate) fn engine_with_bids(&self, count: u64) -> Result<Engine, BenchError> {
        let mut snapshot = self.snapshot();
        snapshot.orders = (1..=count).map(|n| self.order(n)).collect();
        snapshot.bids = (1..=count).map(|n| self.bid(n, BidState::Open)).collect();
        self.settled_engine(snapshot, Vec::new())
    }

    /// Creates an engine with `count` running leases and no pending work.
    pub(crate) fn engine_with_leases(&self, count: u64) -> Result<Engine, BenchError> {
        let mut snapshot = self.snapshot();
        snapshot.bids = (1..=count).map(|n| self.bid(n, BidState::Active)).collect();
        snapshot.deployments = (1..=count).map(|n| self.deployment(n)).collect();
        let record = |n| LeaseRecord {
            lease: self.lease(n),
            payment: None,
        };
        snapshot.leases = (1..=count).map(record).collect();
        let running = (1..=count).map(|n| self.running(n)).collect();
        self.settled_engine(snapshot, running)
    }

    fn running(&self, dseq: u64) -> cluster::WorkloadSpec {
        let service = manifest::Service {
            env: Some(vec!["MODE=production".to_owned()]),
            expose: vec![manifest::ServiceExpose {
                external_port: 80,
                proto: manifest::Proto::Tcp,
                global: true,
                http_options: manifest::HttpOptions::default(),
                ..manifest::ServiceExpose::new(80)
            }],
            ..manifest::Service::new("web", "nginx:1.27", resources(100, 128 * MI, 512 * MI))
        };
        cluster::WorkloadSpec::new(
            self.bid_id(dseq),
            Arc::new(manifest::Group::new("group", vec![service])),
        )
    }

    /// Starts an engine with a snapshot and a cluster. Responds to the engine's calls until only timers are
    /// pending.
    fn settled_engine(
        &self,
        snapshot: Snapshot,
        deployments: Vec<cluster::WorkloadSpec>,
    ) -> Result<Engine, BenchError> {
        let mut engine = self.empty_engine(1_000)?;
        let mut workloads = Some(Workloads {
            listing: deployments.into(),
            hostnames: None,
            ips: None,
        });
        let mut effects = engine.step(now(0), Input::Chain(ChainEvent::Resync(Arc::new(snapshot))));
        while !effects.is_empty() {
            let mut next = Vec::new();
            for (id, call) in calls(effects) {
                let completion = match call {
                    Call::ListWorkloads => Completion::Workloads(Ok(workloads.take().unwrap_or_default())),
                    Call::Deploy { .. } => Completion::Cluster(Ok(())),
                    Call::FetchDeployment(id) => Completion::Deployment(Ok(Some(self.deployment(id.dseq)))),
                    // More than any deposit.
                    Call::FetchBalances(denoms) => {
                        let coins = denoms
                            .into_iter()
                            .map(|denom| Coin::new(denom, u128::from(u64::MAX)));
                        Completion::Balances(Ok(coins.collect()))
                    }
                    other => return Err(format!("unexpected call {other:?}").into()),
                };
                next.extend(engine.step(now(0), Input::Completed(id, completion)));
            }
            effects = next;
        }
        Ok(engine)
    }
}

pub(crate) fn calls(effects: Vec<Effect>) -> impl Iterator<Item = (EffectId, Call)> {
    effects.into_iter().filter_map(|effect| match effect {
        Effect::Call(id, call) => Some((id, call)),
        Effect::Publish(_) | Effect::Reply(..) => None,
    })
}

pub(crate) fn now(mono: u64) -> Now {
    Now {
        mono: Mono(mono),
        block_time: BlockTime(1_000_000),
    }
}

/// Creates `count` nodes with `cpu` millicores each. The memory of a node is sufficient for every order.
pub(crate) fn uniform_nodes(count: usize, cpu: i64) -> ClusterSpec {
    ClusterSpec::from_nodes((0..count).map(|i| NodeSpec::new(format!("node-{i}"), cpu, 400 * TI, 400 * TI)))
}

pub(crate) fn resources(cpu: u64, memory: u64, storage: u64) -> Resources {
    Resources {
        id: 1,
        cpu: Cpu {
            units: cpu,
            ..Cpu::default()
        },
        memory: Memory {
            bytes: memory,
            ..Memory::default()
        },
        storage: vec![Storage {
            name: "default".to_owned(),
            bytes: storage,
            ..Storage::default()
        }],
        ..Resources::default()
    }
}
