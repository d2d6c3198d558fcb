//! Inputs and effects of a running loop.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_port_results_in_a_completion() {
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

/// Fetches an order after each leadership input and each completion, at most `rounds` times.
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
async fn w27_a_flood_of_events_does_not_block_completions_requests_or_shutdown() {
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
async fn a_due_deadline_expires_and_a_past_deadline_does_not_spin() {
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
    assert!((2..=1_100).contains(&passed), "{passed} deadlines in one second");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn block_time_is_the_time_of_the_newest_block_of_this_chain() {
    let mut foreign = snapshot(9_999_999);
    foreign.chain_id = "another".into();
    let events = vec![
        Ok(ChainEvent::Resync(Arc::new(foreign))),
        Ok(block(8_888_888)),
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
    assert_eq!(times, [0, 0, 1_000, 2_000]);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_facts_and_statuses_reach_the_bus() {
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
async fn a_hanging_bus_does_not_block_the_loop() {
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
        "the shutdown waits for the bus, with a limit"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_evaluation_does_not_block_the_loop() {
    let world = Setup::default().start();
    world.handle.wait_ready().await.unwrap();
    let (judged, judging) = std::sync::mpsc::channel();
    world.memory.lock().unwrap().judging = Some(judging);
    let handle = world.handle.clone();
    let group = crate::bidding::fixtures::group();
    let explaining = tokio::spawn(async move { handle.explain(&group).await });
    let taken = || world.memory.lock().unwrap().judging.is_none();
    while !taken() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..10 {
        let limit = Duration::from_secs(10);
        let status = tokio::time::timeout(limit, world.handle.status()).await;
        assert!(status.expect("a response").unexpected_inputs > 0);
    }
    assert!(!explaining.is_finished());
    judged.send(()).unwrap();
    assert!(explaining.await.unwrap().unwrap().is_some());
    world.stop().await.unwrap();
}
