use super::*;
use crate::engine::EffectId;
use crate::engine::status::OrderStatus;
use crate::runtime::fakes::{self, lease};
use crate::types::{BidOutcome, BlockTime, CloseReason, DecCoin, DeclineCode, OrderId};

mod market;

struct Simulation(Meter);

impl Simulation {
    fn publish(&self, event: Event) {
        let effects = [Effect::Publish(Arc::new(event))];
        self.0.effects(&effects, false, Instant::now());
    }

    fn seen(&self, number: u64) -> OrderId {
        let order = lease(number).order;
        self.publish(Event::OrderSeen { order: order.clone() });
        order
    }

    fn block(&self, height: Height) {
        let time = BlockTime(0);
        self.0.input(&Input::Chain(ChainEvent::Block { height, time }));
    }

    fn declined(&self, number: u64, reason: DeclineCode) {
        let (order, message) = (self.seen(number), String::new());
        self.publish(Event::OrderDeclined {
            order,
            reason,
            message,
        });
    }
}

fn price(amount: &str) -> DecCoin {
    DecCoin::new(&"uact".into(), amount.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn orders_are_counted_by_evaluation_reservation_and_outcome() {
    let world = Simulation(Meter::default());
    world.block(10);
    world.declined(1, DeclineCode::Attributes);
    world.declined(2, DeclineCode::InsufficientCapacity);
    world.declined(3, DeclineCode::PriceTooHigh);
    world.declined(4, DeclineCode::Unknown);
    let order = world.seen(5);
    let count = [Effect::Call(EffectId(1), Call::CountBids(order))];
    world.0.effects(&count, false, Instant::now());
    tokio::time::advance(Duration::from_secs(2)).await;
    world.block(12);
    world.publish(Event::BidPlaced {
        bid: lease(5),
        price: price("1.5"),
    });
    world.publish(Event::LeaseWon {
        lease: lease(5),
        price: price("1.5"),
    });
    world.block(22);
    world.publish(Event::Withdrawn { lease: lease(5) });
    world.block(23);
    world.publish(Event::LeaseClosed {
        lease: lease(5),
        reason: None,
    });
    world.block(30);
    world.seen(6);
    world.publish(Event::BidEnded {
        bid: lease(6),
        outcome: BidOutcome::Lost,
    });
    world.seen(7);
    world.0.settle(&Status::default());
    let counted = world.0.statistics();
    assert_eq!(counted.orders, [("event", 7)].into());
    assert_eq!(
        counted.evaluations,
        [("accept", 4), ("decline", 1), ("fail", 1)].into()
    );
    let outcomes = [("declined", 4), ("lost", 1), ("no_bid", 1), ("won", 1)];
    assert_eq!(counted.order_outcomes, outcomes.into());
    let reservations = [
        (("close", "success"), 3),
        (("open", "fail"), 1),
        (("open", "success"), 3),
    ];
    assert_eq!(counted.reservations, reservations.into());
    assert_eq!(counted.bid_blocks, [(2, 1)].into());
    assert_eq!(counted.bid_delay.sum, Duration::from_secs(2));
    assert_eq!(counted.blocks, 5);
    let amount = |amount: &str| [("uact".into(), amount.parse().unwrap())].into();
    assert_eq!(
        (counted.accrued, counted.withdrawn),
        (amount("16.5"), amount("16.5"))
    );
    assert!(counted.price_per_block.is_empty());
}

#[test]
fn lag_of_each_new_block_is_recorded() {
    let world = Simulation(Meter::default());
    let block = |height, age: Duration| {
        let time = (SystemTime::now() - age).duration_since(UNIX_EPOCH).unwrap();
        let time = BlockTime(i64::try_from(time.as_millis()).unwrap());
        world.0.input(&Input::Chain(ChainEvent::Block { height, time }));
    };
    block(10, Duration::from_secs(30));
    // A repeated block, and a block with a time in the future.
    block(10, Duration::from_secs(30));
    let time = BlockTime(i64::MAX);
    world
        .0
        .input(&Input::Chain(ChainEvent::Block { height: 11, time }));
    let lag = world.0.statistics().block_lag;
    assert_eq!(lag.counts, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert!(
        lag.sum >= Duration::from_secs(30) && lag.sum < Duration::from_secs(60),
        "{lag:?}"
    );
}

#[tokio::test]
async fn orders_from_a_snapshot_and_reserved_orders_are_counted_separately() {
    let meter = Meter::default();
    let order = lease(1).order;
    let seen = Event::OrderSeen { order: order.clone() };
    meter.effects(&[Effect::Publish(Arc::new(seen))], true, Instant::now());
    let status = Status {
        orders: vec![OrderStatus {
            order,
            phase: crate::engine::OrderPhase::Unfunded,
            price: None,
        }],
        ..Status::default()
    };
    meter.settle(&status);
    meter.settle(&status);
    let counted = meter.statistics();
    assert_eq!(counted.orders, [("snapshot", 1)].into());
    assert_eq!(counted.reservations, [(("open", "success"), 1)].into());
    let resync = Input::Chain(ChainEvent::Resync(Arc::new(fakes::snapshot(1_000))));
    assert!(is_snapshot(&resync) && !is_snapshot(&Input::Shutdown));
}

#[tokio::test]
async fn calls_are_counted_by_result() {
    let meter = Meter::default();
    let ended =
        |call: &Call, completion: Completion| meter.completed(call, &completion, Duration::from_millis(1));
    let failure = crate::Failure {
        kind: crate::ErrorKind::Timeout,
        transient: true,
        message: String::new(),
    };
    let teardown = Call::Teardown(lease(1));
    ended(&teardown, Completion::Teardown(Ok(Teardown::InProgress)));
    ended(&teardown, Completion::Teardown(Ok(Teardown::Done)));
    ended(&teardown, Completion::Teardown(Err(failure)));
    let close = Call::Broadcast(Msg::CloseBid {
        id: lease(1),
        reason: CloseReason::Unspecified,
    });
    let unknown = TxOutcome::Unknown {
        expires: BlockTime(0),
    };
    ended(&close, Completion::Tx(Ok(unknown)));
    let counted = meter.statistics();
    let calls = [
        (("broadcast", "unknown"), 1),
        (("teardown", "fail"), 1),
        (("teardown", "in_progress"), 1),
        (("teardown", "success"), 1),
    ];
    assert_eq!(counted.calls, calls.into());
    assert_eq!(counted.call_durations["teardown"].total(), 3);
    assert!(
        counted.bids.is_empty(),
        "the close of a lease is not the close of a bid"
    );
}

#[tokio::test(start_paused = true)]
async fn scan_lasts_from_its_first_call_to_the_step_with_its_last_result() {
    let meter = Meter::default();
    let call = |call: &Call| [Effect::Call(EffectId(1), call.clone())];
    let failure = crate::Failure {
        kind: crate::ErrorKind::Timeout,
        transient: true,
        message: String::new(),
    };
    let pass = |millis| tokio::time::advance(Duration::from_millis(millis));
    let ended = |call: &Call, completion: Completion| {
        meter.completed(call, &completion, Duration::ZERO);
        meter.effects(&[], true, Instant::now());
    };
    let listed = || Completion::Workloads(Err(failure.clone()));
    let fetched = Completion::Snapshot(Err(failure.clone()));
    meter.effects(&call(&Call::ListWorkloads), false, Instant::now());
    meter.effects(&call(&Call::FetchSnapshot), false, Instant::now());
    pass(100).await;
    ended(&Call::ListWorkloads, listed());
    pass(300).await;
    ended(&Call::FetchSnapshot, fetched);
    // A scan of the cluster alone.
    meter.effects(&call(&Call::ListWorkloads), false, Instant::now());
    pass(7).await;
    ended(&Call::ListWorkloads, listed());
    let durations = meter.statistics().scan_durations;
    let of = |kind: &str| (durations[kind].total(), durations[kind].sum.as_millis());
    assert_eq!((of("full"), of("cluster")), ((1, 400), (1, 7)));
}

#[tokio::test]
async fn deposit_is_locked_by_a_bid_and_returned_with_the_end_of_the_bid_or_its_lease() {
    let world = Simulation(Meter::default());
    let bid = |number| {
        let create = Call::Broadcast(Msg::CreateBid {
            id: lease(number),
            price: price("1"),
            deposit: "5uact".parse().unwrap(),
            resources_offer: Vec::new(),
            reclamation_window: None,
        });
        let committed = TxOutcome::Committed { height: 1 };
        let ended = |result| {
            world
                .0
                .completed(&create, &Completion::Tx(result), Duration::ZERO)
        };
        ended(Ok(committed));
    };
    (1..=3).for_each(bid);
    world.publish(Event::BidEnded {
        bid: lease(1),
        outcome: BidOutcome::Lost,
    });
    let closed = || Event::LeaseClosed {
        lease: lease(2),
        reason: None,
    };
    world.publish(closed());
    world.publish(closed());
    let counted = world.0.statistics();
    assert_eq!(counted.deposits_locked, [("uact".into(), 15)].into());
    assert_eq!(counted.deposits_returned, [("uact".into(), 10)].into());
}

#[tokio::test]
async fn lease_earns_until_its_close_on_the_chain() {
    let world = Simulation(Meter::default());
    world.block(10);
    world.publish(Event::LeaseWon {
        lease: lease(1),
        price: price("2"),
    });
    world.block(13);
    let closed = ChainEvent::LeaseClosed {
        id: lease(1),
        reason: CloseReason::Unspecified,
    };
    world.0.input(&Input::Chain(closed));
    // The teardown takes five blocks.
    world.block(18);
    world.publish(Event::LeaseClosed {
        lease: lease(1),
        reason: None,
    });
    let counted = world.0.statistics();
    let amount = || [("uact".into(), "6".parse().unwrap())].into();
    assert_eq!((counted.accrued, counted.withdrawn), (amount(), amount()));
    assert!(counted.price_per_block.is_empty());
}
