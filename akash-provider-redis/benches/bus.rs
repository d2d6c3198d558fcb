//! Benchmark of the bus on Redis, combined with the in-process bus as in a provider. The benchmark starts its own Redis
//! server. Prints one JSON object per line.
//!
//! `cargo bench -p akash-provider-redis --bench bus`

use akash_provider_core::bus::{Bus, Delivery, EventStream, FanOut, LocalBus};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::{Event, OrderId, Topic};
use akash_provider_redis::RedisBus;
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testbed::Redis;

type Failed = Box<dyn std::error::Error>;

/// Number of events of the throughput measurement.
const EVENTS: u64 = if cfg!(debug_assertions) { 2_000 } else { 200_000 };
/// Maximum number of unread events. The send queue is longer, so no event is lost.
const ON_THEIR_WAY: u64 = 768;
/// Events per second in the delay measurement, ten times the rate of a busy network.
const STEADY_PER_S: u64 = 2_000;
const STEADY_S: u64 = if cfg!(debug_assertions) { 1 } else { 10 };
const OWNER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn main() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir()?;
    let port = testbed::free_port()?;
    let (at, dir) = (port.to_string(), folder.path().display().to_string());
    let words = ["--bind", "127.0.0.1", "--save", "", "--port", &at, "--dir", &dir].map(str::to_owned);
    let Some(_redis) = Redis::start("redis-server", port, folder.path(), &words)? else {
        println!("skipped: install redis-server to measure the bus");
        return Ok(());
    };
    runtime.block_on(async {
        let location = format!("redis://127.0.0.1:{port}");
        let remote = Arc::new(RedisBus::new(location.parse()?, LeadershipGate::new(true)));
        let bus = FanOut::new(Arc::new(LocalBus::new()), vec![remote]);
        // A separate connection represents the reading process.
        let reader = RedisBus::new(location.parse()?, LeadershipGate::new(true));
        rate(&bus, reader.subscribe(&[Topic::Facts]).await?).await?;
        lag(&bus, reader.subscribe(&[Topic::Facts]).await?).await
    })
}

fn figure(name: &str, value: f64, unit: &str) {
    println!(r#"{{"name":"{name}","value":{value},"unit":"{unit}"}}"#);
}

fn fact(number: u64) -> Result<Arc<Event>, Failed> {
    let order: OrderId = format!("{OWNER}/{}/1/1", number + 1).parse()?;
    Ok(Arc::new(Event::OrderSeen { order }))
}

/// Returns the number of the next event. Fails for any other item.
async fn next(facts: &mut EventStream) -> Result<u64, Failed> {
    match facts.next().await {
        Some(Delivery::Event { event, .. }) => match &*event {
            Event::OrderSeen { order } => Ok(order.deployment().dseq - 1),
            other => Err(format!("unexpected event {other:?}").into()),
        },
        other => Err(format!("expected an event, got {other:?}").into()),
    }
}

/// Measures how many events per second reach the reader.
async fn rate(bus: &FanOut, mut facts: EventStream) -> Result<(), Failed> {
    let began = Instant::now();
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    let reading = tokio::spawn(async move {
        for number in 0..EVENTS {
            let got = next(&mut facts).await.map_err(|error| error.to_string())?;
            if got != number {
                return Err(format!("expected event {number}, got {got}"));
            }
            count.store(number + 1, Ordering::Relaxed);
        }
        Ok(())
    });
    for number in 0..EVENTS {
        while number - read.load(Ordering::Relaxed) >= ON_THEIR_WAY {
            if reading.is_finished() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bus.publish(Topic::Facts, fact(number)?).await?;
    }
    reading.await??;
    #[expect(clippy::cast_precision_loss, reason = "event counts are below 2^52")]
    let rate = EVENTS as f64 / began.elapsed().as_secs_f64();
    figure("bus_redis_events_per_s", rate, "1/s");
    Ok(())
}

/// Measures the delay from publisher to reader at a steady rate.
async fn lag(bus: &FanOut, mut facts: EventStream) -> Result<(), Failed> {
    const COUNT: u64 = STEADY_PER_S * STEADY_S;
    let began = Instant::now();
    let reading = tokio::spawn(async move {
        let mut read = Vec::new();
        for _ in 0..COUNT {
            next(&mut facts).await.map_err(|error| error.to_string())?;
            read.push(began.elapsed());
        }
        Ok::<_, String>(read)
    });
    let mut sent = Vec::new();
    for number in 0..COUNT {
        let due = Duration::from_nanos(number * 1_000_000_000 / STEADY_PER_S);
        // Timers have millisecond precision, so several events are published at once.
        if due > began.elapsed() {
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        }
        sent.push(began.elapsed());
        // New numbers, because repeated facts are dropped.
        bus.publish(Topic::Facts, fact(EVENTS + number)?).await?;
    }
    let read = reading.await??;
    let mut lags: Vec<Duration> = sent
        .iter()
        .zip(&read)
        .map(|(sent, read)| read.saturating_sub(*sent))
        .collect();
    lags.sort_unstable();
    let at = |percent: usize| {
        lags.get(lags.len() * percent / 100)
            .map_or(0.0, |lag| lag.as_secs_f64() * 1e3)
    };
    figure("bus_lag_p50_ms", at(50), "ms");
    figure("bus_lag_p99_ms", at(99), "ms");
    Ok(())
}
