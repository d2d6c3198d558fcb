//! Speed benchmarks. Each line of the output is one JSON object: `{"name", "value", "unit"}`. `cargo xtask
//! bench` compares the figures with their targets. The bench `memory` measures memory use.

#[path = "support/fixture.rs"]
#[expect(dead_code, reason = "each bench uses a part of the shared module")]
mod fixture;

use akash_provider_core::engine::{Call, Completion, Engine, Input};
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::{AdjustOptions, Inventory};
use akash_provider_core::pricing::PriceRequest;
use akash_provider_core::pricing::scale::{Scale, ScaleConfig};
use akash_provider_core::types::{ChainEvent, Coin, TxOutcome};
use fixture::{World, calls, now, uniform_nodes};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Time to measure one figure.
const MEASURE_FOR: Duration = if cfg!(debug_assertions) {
    Duration::from_millis(10)
} else {
    Duration::from_millis(500)
};

/// Number of pending orders in the larger of the two measurements.
const MANY: u64 = if cfg!(debug_assertions) { 1_000 } else { 100_000 };

type BenchError = Box<dyn std::error::Error>;

fn main() -> Result<(), BenchError> {
    let world = World::new()?;
    if let Some(count) = requested_histories()? {
        return run_histories(&world, count);
    }
    engine(&world)?;
    fit(&world);
    price(&world)
}

/// Returns the number of order histories in the argument `--histories COUNT`. With this argument, the bench
/// runs only order histories.
fn requested_histories() -> Result<Option<u64>, BenchError> {
    let mut words = std::env::args().skip_while(|word| word != "--histories");
    match (words.next(), words.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(count)) => Ok(Some(count.parse()?)),
        (Some(_), None) => Err("missing count for --histories".into()),
    }
}

fn run_histories(world: &World, count: u64) -> Result<(), BenchError> {
    let mut engine = world.engine()?;
    let inputs: u64 = (1..=count).map(|dseq| history(world, &mut engine, dseq)).sum();
    println!("{inputs} inputs");
    Ok(())
}

/// Measures the time for all events of one order. Then measures the time for one event, first with few
/// pending orders and then with many.
fn engine(world: &World) -> Result<(), BenchError> {
    let mut engine = world.engine()?;
    let (mut dseq, mut inputs) = (0, 0);
    let history_us = micros(|| {
        dseq += 1;
        inputs += history(world, &mut engine, dseq);
    });
    #[expect(clippy::cast_precision_loss, reason = "the count of inputs is below 2^52")]
    let each = inputs as f64 / dseq as f64;
    if each < 5.0 {
        return Err(format!("a history has {each} inputs: the order was declined").into());
    }
    print("engine_inputs_per_s", each / history_us * 1e6, "1/s");
    print("order_history_us", history_us, "us");
    let few = event_us(world, 100)?;
    let many = event_us(world, MANY)?;
    print("event_us_at_100_orders", few, "us");
    print("event_us_at_100000_orders", many, "us");
    print("event_cost_ratio", many / few, "");
    Ok(())
}

/// Passes all events of one order to the engine. Returns the number of engine inputs.
fn history(world: &World, engine: &mut Engine, dseq: u64) -> u64 {
    let order = world.order(dseq);
    let mut inputs = 0;
    let created = Input::Chain(ChainEvent::OrderCreated { id: order.id.clone() });
    let mut waiting: VecDeque<_> = calls(engine.step(now(1), created)).collect();
    inputs += 1;
    while let Some((id, call)) = waiting.pop_front() {
        inputs += 1;
        let completion = match call {
            Call::FetchOrder(_) => Completion::Order(Ok(Some(order.clone()))),
            Call::CountBids(_) => Completion::BidCount(Ok(3)),
            Call::CalculatePrice(_) => Completion::Price(Ok(world.price())),
            Call::FetchBalances(denoms) => Completion::Balances(Ok(denoms
                .into_iter()
                .map(|denom| Coin::new(denom, 1 << 60))
                .collect())),
            _ => Completion::Tx(Ok(TxOutcome::Committed { height: 11 })),
        };
        waiting.extend(calls(engine.step(now(1), Input::Completed(id, completion))));
    }
    let lost = order.id.bid(world.tenant.clone());
    engine.step(
        now(1),
        Input::Chain(ChainEvent::LeaseCreated {
            id: lost,
            price: world.price(),
        }),
    );
    inputs + 1
}

/// Returns the mean time of one event, in microseconds, with `orders` pending orders.
fn event_us(world: &World, orders: u64) -> Result<f64, BenchError> {
    let mut engine = world.engine_with_bids(orders)?;
    let in_hand = engine.status(now(1)).orders.len();
    if in_hand as u64 != orders {
        return Err(format!("expected {orders} pending orders, found {in_hand}").into());
    }
    let mut dseq = 0;
    Ok(micros(|| {
        // The stride visits every order and no two neighbours in a row.
        dseq = (dseq + 7_919) % orders;
        let id = world.bid_id(dseq + 1);
        engine.step(
            now(1),
            Input::Chain(ChainEvent::BidCreated {
                id,
                price: world.price(),
            }),
        )
    }))
}

/// Measures the time to place one order on one thousand nodes. In the best case the first node has enough
/// capacity, in the worst case none has.
fn fit(world: &World) {
    let units = &world.spec.resources;
    let mut roomy = NodeInventory::new(&uniform_nodes(1_000, 1_000_000));
    let options = AdjustOptions::default();
    let first = micros(|| {
        let taken = roomy.adjust(units, options);
        if let Ok(allocation) = &taken {
            roomy.release(allocation);
        }
        taken
    });
    print("fit_1000_first_us", first, "us");
    let mut full = NodeInventory::new(&uniform_nodes(1_000, 10));
    print("fit_1000_none_us", micros(|| full.adjust(units, options)), "us");
}

fn price(world: &World) -> Result<(), BenchError> {
    let mut config = ScaleConfig::default();
    config.cpu = "0.004".parse()?;
    config.memory = "0.0016".parse()?;
    config.storage = [("ephemeral".to_owned(), "0.00016".parse()?)].into();
    config.endpoint = "0.05".parse()?;
    config.ip = "5".parse()?;
    let scale = Scale::new(config)?;
    let request = PriceRequest {
        owner: world.tenant.clone(),
        group: world.spec.clone(),
        allocated: None,
        precision: 6,
        utilization: None,
        height: None,
    };
    scale.price(&request)?;
    print(
        "price_scale_us",
        micros(|| scale.price(black_box(&request))),
        "us",
    );
    Ok(())
}

/// Returns the mean time of one call in microseconds, after a warm-up.
fn micros<T>(mut call: impl FnMut() -> T) -> f64 {
    run_for(MEASURE_FOR / 10, &mut call);
    let (calls, took) = run_for(MEASURE_FOR, &mut call);
    took.as_secs_f64() * 1e6 / f64::from(calls)
}

/// Number of calls between two readings of the clock. More readings would slow down the measured code.
const BATCH: u32 = 64;

#[expect(
    clippy::disallowed_methods,
    reason = "a bench measures time; the measured code does not read the clock"
)]
fn run_for<T>(time: Duration, call: &mut impl FnMut() -> T) -> (u32, Duration) {
    let begun = Instant::now();
    let mut calls = 0;
    loop {
        for _ in 0..BATCH {
            black_box(call());
        }
        calls += BATCH;
        let took = begun.elapsed();
        if took >= time {
            return (calls, took);
        }
    }
}

fn print(name: &str, value: f64, unit: &str) {
    println!(
        "{}",
        serde_json::json!({"name": name, "value": value, "unit": unit})
    );
}
