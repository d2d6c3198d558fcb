//! Counts with the rules of the Go provider.

use super::*;
use crate::Failure;
use crate::engine::Workloads;

fn failure() -> Failure {
    Failure::transient(crate::ErrorKind::Timeout, String::new())
}

fn create(number: u64) -> Msg {
    Msg::CreateBid {
        id: lease(number),
        price: price("1"),
        deposit: "5uact".parse().unwrap(),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

fn close(number: u64) -> Msg {
    Msg::CloseBid {
        id: lease(number),
        reason: CloseReason::Unspecified,
    }
}

fn committed() -> Result<TxOutcome, Failure> {
    Ok(TxOutcome::Committed { height: 1 })
}

fn placed(number: u64) -> Event {
    Event::BidPlaced {
        bid: lease(number),
        price: price("1"),
    }
}

impl Simulation {
    fn started(&self, msg: Msg) {
        let effect = Effect::Call(EffectId(1), Call::Broadcast(msg));
        self.0.effects(&[effect], false, Instant::now());
    }

    fn finished(&self, msg: Msg, result: Result<TxOutcome, Failure>) {
        let completion = Completion::Tx(result);
        self.0
            .completed(&Call::Broadcast(msg), &completion, Duration::ZERO);
    }

    fn sent(&self, msg: Msg, result: Result<TxOutcome, Failure>) {
        self.started(msg.clone());
        self.finished(msg, result);
    }
}

#[tokio::test]
async fn bid_transactions_are_counted_once_per_order() {
    let world = Simulation(Meter::default());
    let expires = BlockTime(0);
    for number in 1..=3 {
        world.sent(create(number), Err(failure()));
        world.sent(create(number), Ok(TxOutcome::Unknown { expires }));
    }
    world.sent(create(1), committed());
    world.publish(placed(1));
    world.sent(close(1), Err(failure()));
    world.sent(close(1), Err(failure()));
    // The chain has the bid of the transaction with the unknown outcome.
    world.publish(placed(2));
    world.sent(close(2), Err(failure()));
    // The event of the closed bid arrives before the result of the transaction.
    world.started(close(2));
    world.publish(Event::BidEnded {
        bid: lease(2),
        outcome: BidOutcome::Timeout,
    });
    world.0.settle(&Status::default());
    world.finished(close(2), committed());
    // The close of a lease is no close of a bid.
    world.sent(create(4), committed());
    world.publish(Event::LeaseWon {
        lease: lease(4),
        price: price("1"),
    });
    world.sent(close(4), Err(failure()));
    for _ in 0..2 {
        world.0.settle(&Status::default());
    }
    let results = [
        (("close", "fail"), 1),
        (("close", "success"), 1),
        (("open", "fail"), 1),
        (("open", "success"), 3),
    ];
    let counted = world.0.statistics();
    assert_eq!(counted.bid_results, results.into());
    assert_eq!(counted.bids[&("open", "fail")], 3);
}

#[tokio::test]
async fn orders_that_end_before_a_bid_have_the_outcome_of_the_chain() {
    let world = Simulation(Meter::default());
    let orders = [1, 2, 3].map(|number| world.seen(number));
    world.declined(4, DeclineCode::Attributes);
    let closed = |id: &OrderId| {
        let event = ChainEvent::OrderClosed { id: id.clone() };
        world.0.input(&Input::Chain(event));
    };
    closed(&orders[0]);
    closed(&lease(4).order);
    let lost = ChainEvent::LeaseCreated {
        id: lease(2),
        price: price("1"),
    };
    world.0.input(&Input::Chain(lost));
    world.0.settle(&Status::default());
    let counted = world.0.statistics();
    let outcomes = [("lost", 1), ("order_closed", 1)];
    assert_eq!(counted.no_bid_outcomes, outcomes.into());
    assert_eq!(counted.order_outcomes["no_bid"], 3);
}

#[tokio::test]
async fn exhausted_ports_and_addresses_are_not_insufficient_capacity() {
    let world = Simulation(Meter::default());
    world.declined(1, DeclineCode::InsufficientCapacity);
    world.declined(2, DeclineCode::ExternalPortsExhausted);
    world.declined(3, DeclineCode::LeasedIpsExhausted);
    let counted = world.0.statistics();
    assert_eq!(counted.insufficient_capacity, 1);
    assert_eq!(counted.reservations[&("open", "fail")], 3);
}

#[tokio::test]
async fn monitors_start_with_the_first_listing_and_with_each_deploy() {
    let world = Simulation(Meter::default());
    let listed = |numbers: &[u64]| {
        let mut workloads = Workloads::default();
        workloads.listing.deployments = numbers.iter().map(|number| fakes::workload(*number)).collect();
        let completion = Completion::Workloads(Ok(workloads));
        world
            .0
            .completed(&Call::ListWorkloads, &completion, Duration::ZERO);
    };
    let monitors = || world.0.statistics().monitors;
    listed(&[1, 2]);
    assert_eq!(monitors(), (2, 0));
    listed(&[1, 2, 3]);
    assert_eq!(monitors(), (2, 0), "later listings contain no adopted workload");
    let deployed = |number| {
        world.publish(Event::Deployed {
            lease: lease(number),
            generation: 2,
        });
    };
    deployed(1);
    deployed(3);
    assert_eq!(monitors(), (4, 1));
    for number in [1, 4] {
        world.publish(Event::LeaseClosed {
            lease: lease(number),
            reason: None,
        });
    }
    assert_eq!(monitors(), (4, 3));
}

#[tokio::test]
async fn withdrawn_earnings_are_those_of_the_block_of_the_transaction() {
    let world = Simulation(Meter::default());
    world.block(10);
    world.publish(Event::LeaseWon {
        lease: lease(1),
        price: price("2"),
    });
    world.block(22);
    let withdrawn = || world.0.earnings(&lease(1)).unwrap().withdrawn.unwrap().to_plain();
    world.sent(
        Msg::WithdrawLease { id: lease(1) },
        Ok(TxOutcome::Committed { height: 20 }),
    );
    world.publish(Event::Withdrawn { lease: lease(1) });
    assert_eq!(withdrawn(), "18");
    world.block(30);
    world.publish(Event::Withdrawn { lease: lease(1) });
    assert_eq!(withdrawn(), "38", "the block is unknown");
}
