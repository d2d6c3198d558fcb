use super::fakes::{
    Does, FakeBus, FakeChain, FakeCluster, FakeInventory, FakePricing, Memory, Reaction, Script,
    ScriptedMachine, block, capacity, config, lease, snapshot,
};
use super::*;
use crate::cluster::ClusterChange;
use crate::engine::{Call, Completion, EffectId, Lifecycle, RefusalKind, Reply, RequestId};
use crate::provider::ProviderHandle;
use crate::types::{CloseReason, Event, Msg, Topic, TxOutcome};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::task::JoinHandle;

/// Provider with a scripted engine and scripted ports.
struct World {
    handle: ProviderHandle,
    memory: Arc<Mutex<Memory>>,
    bus: Arc<FakeBus>,
    shutdown: CancellationToken,
    abort: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

struct Setup {
    chain: FakeChain,
    cluster: FakeCluster,
    inventory: FakeInventory,
    bus: FakeBus,
    config: Config,
    reaction: Reaction,
    busy: bool,
}

impl Default for Setup {
    /// All ports are ready, and the engine produces no effects.
    fn default() -> Self {
        let chain = FakeChain::default();
        *chain.events.lock().unwrap() = [vec![Ok(ChainEvent::Resync(Arc::new(snapshot(1_000))))]].into();
        let cluster = FakeCluster::default();
        let health = BTreeMap::new();
        *cluster.changes.lock().unwrap() = [vec![Ok(ClusterChange::Snapshot { health })]].into();
        let inventory = FakeInventory::default();
        *inventory.0.lock().unwrap() = [vec![Ok(capacity())]].into();
        Self {
            chain,
            cluster,
            inventory,
            bus: FakeBus::default(),
            config: config(),
            reaction: Box::new(|_, _| Vec::new()),
            busy: false,
        }
    }
}

impl Setup {
    fn parts(
        self,
    ) -> (
        RuntimeParts<ScriptedMachine>,
        ProviderHandle,
        Arc<Mutex<Memory>>,
        Arc<FakeBus>,
    ) {
        let memory = Arc::new(Mutex::new(Memory {
            busy: self.busy,
            ..Memory::default()
        }));
        let bus = Arc::new(self.bus);
        let (desk, asks) = RequestQueue::new();
        let (stage, progress) = ProgressSender::new();
        let last_status = Arc::new(OnceLock::new());
        let limit = self.config.manifest_request_timeout;
        let handle = ProviderHandle::new(asks, progress, Arc::default(), Arc::clone(&last_status), limit);
        let parts = RuntimeParts {
            brain: ScriptedMachine {
                memory: Arc::clone(&memory),
                reaction: self.reaction,
            },
            config: self.config,
            ports: Ports {
                cluster: Arc::new(self.cluster),
                chain: Arc::new(self.chain),
                pricing: Arc::new(FakePricing::default()),
            },
            bus: Arc::clone(&bus) as _,
            inventory: Arc::new(self.inventory),
            leadership: Leadership::Leader { epoch: 3 },
            bids_held: None,
            store: None,
            audit: None,
            desk,
            stage,
            last_status,
            meter: handle.meter(),
        };
        (parts, handle, memory, bus)
    }

    fn start(self) -> World {
        let (parts, handle, memory, bus) = self.parts();
        let shutdown = CancellationToken::new();
        let abort = CancellationToken::new();
        let running = tokio::spawn(run(parts, shutdown.clone(), abort.clone()));
        World {
            handle,
            memory,
            bus,
            shutdown,
            abort,
            running,
        }
    }
}

impl World {
    async fn stop(self) -> Result<(), Error> {
        self.shutdown.cancel();
        self.running.await.unwrap()
    }

    fn inputs(&self) -> Vec<Input> {
        let memory = self.memory.lock().unwrap();
        memory.inputs.iter().map(|(_, input)| input.clone()).collect()
    }

    fn completions(&self) -> Vec<(EffectId, Completion)> {
        let of = |input| match input {
            Input::Completed(id, completion) => Some((id, completion)),
            _ => None,
        };
        self.inputs().into_iter().filter_map(of).collect()
    }
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

fn shutdown_seen(world: &World) -> bool {
    world.inputs().iter().any(|i| matches!(i, Input::Shutdown))
}

#[tokio::test(start_paused = true)]
async fn the_lifecycle_is_init_running_shutdown_done() {
    let world = Setup::default().start();
    assert_eq!(world.handle.lifecycle(), Lifecycle::Init);
    let changes = tokio::spawn(world.handle.lifecycle_changes().collect::<Vec<_>>());
    world.handle.wait_ready().await.unwrap();
    assert_eq!(world.handle.lifecycle(), Lifecycle::Running);
    assert_eq!(world.handle.status().await.lifecycle, Lifecycle::Running);
    assert!(matches!(
        world.inputs().first(),
        Some(Input::Leadership(Leadership::Leader { epoch: 3 }))
    ));
    let handle = world.handle.clone();
    world.stop().await.unwrap();
    assert_eq!(handle.lifecycle(), Lifecycle::Done);
    assert_eq!(handle.status().await.lifecycle, Lifecycle::Done);
    let steps = changes.await.unwrap();
    assert_eq!(
        (steps.first(), steps.last()),
        (Some(&Lifecycle::Init), Some(&Lifecycle::Done))
    );
    assert!(steps.contains(&Lifecycle::Running), "{steps:?}");
    assert!(steps.is_sorted(), "{steps:?}");
}

#[tokio::test(start_paused = true)]
async fn w4_a_shutdown_changes_no_workload_and_no_bid() {
    let script = Arc::new(Script::default());
    let mut setup = Setup::default();
    setup.chain.script = Arc::clone(&script);
    setup.cluster.script = Arc::clone(&script);
    setup.cluster.facets = true;
    let world = setup.start();
    world.handle.wait_ready().await.unwrap();
    world.stop().await.unwrap();
    assert_eq!(script.log(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn w49_a_cluster_that_is_not_ready_in_time_is_a_specific_error() {
    let silent = |what: &str| {
        let setup = Setup::default();
        match what {
            "workloads" => setup.cluster.changes.lock().unwrap().clear(),
            _ => setup.inventory.0.lock().unwrap().clear(),
        }
        setup
    };
    for what in ["workloads", "capacity"] {
        let started = Instant::now();
        let world = silent(what).start();
        let error = world.running.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ClusterNotReady);
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(
            started.elapsed().as_secs(),
            config().cluster_ready_timeout.as_secs()
        );
        assert_eq!(
            world.handle.wait_ready().await.unwrap_err().kind(),
            ErrorKind::Stopped
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_chain_is_waited_for_without_a_limit() {
    let setup = Setup::default();
    setup.chain.events.lock().unwrap().clear();
    let world = setup.start();
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(world.handle.lifecycle(), Lifecycle::Running);
    let waiting = tokio::time::timeout(Duration::from_secs(60), world.handle.wait_ready()).await;
    assert!(waiting.is_err(), "ready without a chain");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_drains_until_no_work_is_pending() {
    let setup = Setup {
        busy: true,
        ..Setup::default()
    };
    let world = setup.start();
    world.handle.wait_ready().await.unwrap();
    world.shutdown.cancel();
    settle().await;
    assert!(shutdown_seen(&world));
    assert_eq!(world.handle.lifecycle(), Lifecycle::Shutdown);
    assert!(!world.running.is_finished());
    world.memory.lock().unwrap().busy = false;
    // Any event makes the loop check again.
    world.handle.status().await;
    world.running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_after_the_grace_period_with_pending_work() {
    let setup = Setup {
        busy: true,
        ..Setup::default()
    };
    let grace = setup.config.shutdown_grace;
    let world = setup.start();
    world.handle.wait_ready().await.unwrap();
    let started = Instant::now();
    world.stop().await.unwrap();
    assert_eq!(started.elapsed().as_secs(), grace.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_aborts_with_a_specific_error() {
    let setup = Setup {
        busy: true,
        ..Setup::default()
    };
    let world = setup.start();
    world.handle.wait_ready().await.unwrap();
    world.shutdown.cancel();
    settle().await;
    let started = Instant::now();
    world.abort.cancel();
    let error = world.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

mod flow;
mod requests;
