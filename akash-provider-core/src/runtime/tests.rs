use super::fakes::{
    Does, FakeBus, FakeChain, FakeCluster, FakeInventory, FakePricing, Memory, Reaction, Script,
    ScriptedBrain, block, capacity, config, lease, snapshot,
};
use super::*;
use crate::cluster::ClusterChange;
use crate::engine::{Call, Completion, EffectId, RefusalKind, Reply, RequestId};
use crate::provider::ProviderHandle;
use crate::types::{CloseReason, Event, Msg, Topic, TxOutcome};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::task::JoinHandle;

/// A provider with a scripted brain on scripted ports.
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
    /// Everything is known at once; nothing is done.
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
        Parts<ScriptedBrain>,
        ProviderHandle,
        Arc<Mutex<Memory>>,
        Arc<FakeBus>,
    ) {
        let memory = Arc::new(Mutex::new(Memory {
            busy: self.busy,
            ..Memory::default()
        }));
        let bus = Arc::new(self.bus);
        let (desk, asks) = Desk::new();
        let (stage, progress) = Stage::new();
        let last_status = Arc::new(OnceLock::new());
        let limit = self.config.manifest_request_timeout;
        let handle = ProviderHandle::new(asks, progress, Arc::clone(&last_status), limit);
        let parts = Parts {
            brain: ScriptedBrain {
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
            desk,
            stage,
            last_status,
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

/// Waits as a caller does: until nothing more happens for a while.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

fn shutdown_seen(world: &World) -> bool {
    world.inputs().iter().any(|i| matches!(i, Input::Shutdown))
}

#[tokio::test(start_paused = true)]
async fn a_life_goes_from_init_over_running_and_shutdown_to_done() {
    let world = Setup::default().start();
    assert_eq!(world.handle.lifecycle(), Lifecycle::Init);
    let changes = tokio::spawn(world.handle.lifecycle_changes().collect::<Vec<_>>());
    world.handle.wait_ready().await.unwrap();
    assert_eq!(world.handle.lifecycle(), Lifecycle::Running);
    assert_eq!(world.handle.status().await.lifecycle, "running");
    assert!(matches!(
        world.inputs().first(),
        Some(Input::Leadership(Leadership::Leader { epoch: 3 }))
    ));
    let handle = world.handle.clone();
    world.stop().await.unwrap();
    assert_eq!(handle.lifecycle(), Lifecycle::Done);
    assert_eq!(handle.status().await.lifecycle, "done");
    let steps = changes.await.unwrap();
    assert_eq!(
        (steps.first(), steps.last()),
        (Some(&Lifecycle::Init), Some(&Lifecycle::Done))
    );
    assert!(steps.contains(&Lifecycle::Running), "{steps:?}");
    assert!(steps.is_sorted(), "{steps:?}");
}

#[tokio::test(start_paused = true)]
async fn w4_the_end_touches_no_workload_and_no_bid() {
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
async fn a_cluster_that_does_not_become_ready_is_an_error_of_its_own_after_its_limit() {
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
async fn a_chain_that_is_away_is_waited_for_without_end() {
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
async fn shutdown_drains_until_nothing_is_owed() {
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
    // Whatever happens next makes the loop look again.
    world.handle.status().await;
    world.running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_with_the_grace_although_work_is_left() {
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
async fn the_second_signal_stops_at_once_with_its_own_error() {
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

/// A brain that ends in `reply` for every request, or never replies.
fn desk_brain(replies: bool) -> Reaction {
    Box::new(move |_, input| match input {
        Input::Request(id, crate::engine::Request::Scan { .. }) if replies => {
            vec![Effect::Reply(*id, Ok(Reply::Scan(vec!["one".into()])))]
        }
        Input::Request(id, _) if replies => vec![Effect::Reply(*id, Ok(Reply::Done))],
        _ => Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn requests_get_the_engines_reply() {
    let setup = Setup {
        reaction: desk_brain(true),
        ..Setup::default()
    };
    let world = setup.start();
    let handle = &world.handle;
    assert_eq!(handle.scan(true).await, Ok(vec!["one".into()]));
    assert_eq!(handle.release_breaker().await, Ok(()));
    assert_eq!(handle.end_lease(&lease(1), CloseReason::Unstable).await, Ok(()));
    assert_eq!(
        handle.transfer_hostnames(&lease(1), vec!["a".into()]).await,
        Ok(())
    );
    assert!(handle.has_lease(&lease(1)).await.unwrap());
    assert!(!handle.has_lease(&lease(2)).await.unwrap());
    handle.set_leadership(Leadership::Standby).await.unwrap();
    assert!(matches!(
        world.inputs().last(),
        Some(Input::Leadership(Leadership::Standby))
    ));
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_request_gets_one_reply_at_shutdown_and_at_abort() {
    for aborted in [false, true] {
        let setup = Setup {
            reaction: desk_brain(false),
            busy: true,
            ..Setup::default()
        };
        let world = setup.start();
        world.handle.wait_ready().await.unwrap();
        let asked: Vec<_> = (0..50)
            .map(|_| {
                let handle = world.handle.clone();
                tokio::spawn(async move { handle.scan(true).await })
            })
            .collect();
        settle().await;
        let handle = world.handle.clone();
        if aborted {
            world.abort.cancel();
        }
        let _ = world.stop().await;
        for asked in asked {
            assert_eq!(asked.await.unwrap().unwrap_err().kind, RefusalKind::Stopping);
        }
        assert_eq!(
            handle.release_breaker().await.unwrap_err().kind,
            RefusalKind::Stopping
        );
        assert_eq!(
            handle.has_lease(&lease(1)).await.unwrap_err().kind(),
            ErrorKind::Stopped
        );
        let done = handle.set_leadership(Leadership::Standby).await;
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(handle.status().await.lifecycle, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_provider_refuses_requests_and_still_answers_questions() {
    let setup = Setup {
        reaction: desk_brain(true),
        busy: true,
        ..Setup::default()
    };
    let world = setup.start();
    world.handle.wait_ready().await.unwrap();
    world.shutdown.cancel();
    settle().await;
    let refusal = world.handle.scan(true).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Stopping);
    assert_eq!(world.handle.status().await.lifecycle, "shutdown");
    assert!(world.handle.has_lease(&lease(1)).await.unwrap());
    world.abort.cancel();
    let _ = world.running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_reply_is_unavailable_after_its_limit_and_the_late_reply_harms_nobody() {
    let first = Arc::new(Mutex::new(None::<RequestId>));
    let reaction: Reaction = Box::new(move |_, input| match input {
        Input::Request(id, _) => match first.lock().unwrap().replace(*id) {
            None => Vec::new(),
            // The second request has both answered.
            Some(earlier) => vec![
                Effect::Reply(earlier, Ok(Reply::Done)),
                Effect::Reply(*id, Ok(Reply::Done)),
            ],
        },
        _ => Vec::new(),
    });
    let world = Setup {
        reaction,
        ..Setup::default()
    }
    .start();
    let started = Instant::now();
    let refusal = world.handle.release_breaker().await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable);
    assert_eq!(
        started.elapsed().as_secs(),
        config().manifest_request_timeout.as_secs()
    );
    assert_eq!(world.handle.release_breaker().await, Ok(()));
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_are_refused_and_not_kept() {
    let world = Setup {
        reaction: desk_brain(false),
        ..Setup::default()
    }
    .start();
    world.handle.wait_ready().await.unwrap();
    let mut asked = Vec::new();
    for _ in 0..1_100 {
        let handle = world.handle.clone();
        asked.push(tokio::spawn(async move { handle.scan(true).await }));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    settle().await;
    let refused = asked.iter().filter(|a| a.is_finished()).count();
    assert!(refused >= 1_100 - 1_024, "{refused}");
    let kept = world
        .inputs()
        .iter()
        .filter(|i| matches!(i, Input::Request(..)))
        .count();
    assert!(kept <= 1_024, "{kept}");
    for asked in asked.into_iter().filter(JoinHandle::is_finished) {
        assert_eq!(asked.await.unwrap().unwrap_err().kind, RefusalKind::Busy);
    }
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_a_provider_that_never_ran_does_not_hang() {
    let (parts, handle, ..) = Setup::default().parts();
    drop(parts);
    assert_eq!(handle.lifecycle(), Lifecycle::Done);
    assert_eq!(handle.scan(true).await.unwrap_err().kind, RefusalKind::Stopping);
    assert_eq!(handle.wait_ready().await.unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(handle.status().await.lifecycle, "done");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_running_provider_answers_everyone() {
    let world = Setup {
        reaction: desk_brain(false),
        ..Setup::default()
    }
    .start();
    world.handle.wait_ready().await.unwrap();
    let handle = world.handle.clone();
    let asked = tokio::spawn(async move { handle.scan(true).await });
    settle().await;
    world.running.abort();
    assert_eq!(asked.await.unwrap().unwrap_err().kind, RefusalKind::Stopping);
    assert_eq!(world.handle.lifecycle(), Lifecycle::Done);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_port_comes_back_as_a_completion() {
    let script = Arc::new(Script::default());
    script.set("broadcast", Does::Panic);
    let close = Msg::CloseBid {
        id: lease(1),
        reason: CloseReason::Unspecified,
    };
    let setup = Setup::default();
    let events = std::mem::take(&mut *setup.chain.events.lock().unwrap());
    let world = Setup {
        chain: FakeChain {
            script,
            events: Mutex::new(events),
            flood: false,
        },
        reaction: Box::new(move |_, input| match input {
            Input::Chain(_) => vec![Effect::Call(EffectId(4), Call::Broadcast(close.clone()))],
            _ => Vec::new(),
        }),
        ..setup
    }
    .start();
    settle().await;
    let expires = BlockTime(1_000)
        .plus(config().tx_timeout)
        .plus(Duration::from_secs(60));
    let unknown = Completion::Tx(Ok(TxOutcome::Unknown { expires }));
    assert_eq!(world.completions(), [(EffectId(4), unknown)]);
    world.stop().await.unwrap();
}

/// Asks for an order at the start, and so on with each answer, `rounds` times.
fn asking(rounds: u64) -> Reaction {
    let mut asked = 0;
    Box::new(move |_, input| match input {
        Input::Leadership(_) | Input::Completed(..) if asked < rounds => {
            asked += 1;
            vec![Effect::Call(EffectId(asked), Call::FetchOrder(lease(1).order))]
        }
        _ => Vec::new(),
    })
}

#[tokio::test]
async fn a_flood_of_chain_events_delays_neither_completions_nor_requests_nor_shutdown() {
    let world = Setup {
        chain: FakeChain {
            flood: true,
            ..FakeChain::default()
        },
        reaction: asking(200),
        ..Setup::default()
    }
    .start();
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, world.handle.status()).await.unwrap();
    let all = async {
        while world.completions().len() < 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(limit, all).await.unwrap();
    world.memory.lock().unwrap().deadline = Some(Mono(1));
    world.handle.status().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        !world.memory.lock().unwrap().timeouts.is_empty(),
        "deadlines starve"
    );
    tokio::time::timeout(limit, world.stop()).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_let_pass_when_it_is_due_and_one_that_stays_does_not_spin() {
    let world = Setup::default().start();
    world.handle.wait_ready().await.unwrap();
    settle().await;
    let due = Mono(60_000);
    world.memory.lock().unwrap().deadline = Some(due);
    world.handle.status().await;
    tokio::time::sleep_until(Instant::now() + Duration::from_secs(30)).await;
    assert_eq!(world.memory.lock().unwrap().timeouts.len(), 0);
    tokio::time::sleep(Duration::from_secs(29)).await;
    let first = world.memory.lock().unwrap().timeouts.first().map(|n| n.mono);
    assert_eq!(first, Some(due));
    let passed = world.memory.lock().unwrap().timeouts.len();
    assert!((2..=1_100).contains(&passed), "{passed} in a second");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn block_time_is_that_of_the_newest_block_and_of_no_other_chain() {
    let mut foreign = snapshot(9_999_999);
    foreign.chain_id = "another".into();
    let events = vec![
        Ok(ChainEvent::Resync(Arc::new(foreign))),
        Ok(ChainEvent::Resync(Arc::new(snapshot(1_000)))),
        Ok(block(2_000)),
    ];
    let setup = Setup::default();
    *setup.chain.events.lock().unwrap() = [events].into();
    let world = setup.start();
    settle().await;
    let times: Vec<i64> = {
        let memory = world.memory.lock().unwrap();
        let chain = memory.inputs.iter().filter(|(_, i)| matches!(i, Input::Chain(_)));
        chain.map(|(now, _)| now.block_time.0).collect()
    };
    assert_eq!(times, [0, 1_000, 2_000]);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn facts_and_statuses_reach_the_bus_to_the_last() {
    let seen = Arc::new(Event::LeaseClosed {
        lease: lease(1),
        reason: None,
    });
    let fact = Arc::clone(&seen);
    let world = Setup {
        reaction: Box::new(move |_, input| match input {
            Input::Shutdown => vec![Effect::Publish(Arc::clone(&fact))],
            _ => Vec::new(),
        }),
        ..Setup::default()
    }
    .start();
    settle().await;
    let bus = Arc::clone(&world.bus);
    world.stop().await.unwrap();
    let events = bus.events.lock().unwrap().clone();
    assert!(events.contains(&(Topic::Facts, seen)));
    for topic in [
        Topic::ClusterStatus,
        Topic::BidengineStatus,
        Topic::ManifestStatus,
        Topic::InventoryStatus,
    ] {
        assert!(events.iter().any(|(t, _)| *t == topic), "{topic:?}");
    }
    let last = events
        .iter()
        .rev()
        .find(|(topic, _)| *topic == Topic::ClusterStatus);
    let Some((_, event)) = last else {
        panic!("no status")
    };
    let Event::Status { body } = event.as_ref() else {
        panic!("{event:?}")
    };
    assert_eq!(body["lifecycle"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_hangs_blocks_nobody() {
    let mut setup = Setup {
        reaction: Box::new(|_, input| match input {
            Input::Request(id, _) => {
                let fact = Arc::new(Event::BreakerReleased);
                let mut effects = vec![Effect::Publish(fact); 3_000];
                effects.push(Effect::Reply(*id, Ok(Reply::Done)));
                effects
            }
            _ => Vec::new(),
        }),
        ..Setup::default()
    };
    setup.bus.gate = tokio::sync::Semaphore::new(0);
    let world = setup.start();
    world.handle.wait_ready().await.unwrap();
    let started = Instant::now();
    assert_eq!(world.handle.release_breaker().await, Ok(()));
    assert_eq!(started.elapsed(), Duration::ZERO);
    world.stop().await.unwrap();
    assert_eq!(
        started.elapsed().as_secs(),
        BUS_FLUSH.as_secs(),
        "the end waits for the bus, not for long"
    );
}
