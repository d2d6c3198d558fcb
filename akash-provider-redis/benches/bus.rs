//! How fast the bus on Redis is, beside the bus of the process as a provider has it, with a server of its own. Figures go to
//! the standard output, one JSON object a line.
//!
//! `cargo bench -p akash-provider-redis --bench bus`

use akash_provider_core::bus::{Bus, Delivery, EventStream, FanOut, LocalBus};
use akash_provider_core::types::{Event, OrderId, Topic};
use akash_provider_redis::RedisBus;
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testbed::Redis;

type Failed = Box<dyn std::error::Error>;

/// Events that are published as fast as they are read.
const EVENTS: u64 = if cfg!(debug_assertions) { 2_000 } else { 200_000 };
/// Events on their way at most: fewer than the queue before the server holds, so that none is lost.
const ON_THEIR_WAY: u64 = 768;
/// Rate at which the lag is measured, and for how long: ten times a busy network.
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
        let remote = Arc::new(RedisBus::new(location.parse()?));
        let bus = FanOut::new(Arc::new(LocalBus::new()), vec![remote]);
        // What reads is another process; here it is another connection.
        let reader = RedisBus::new(location.parse()?);
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

/// The next event's number; one that was lost is a fault of the bench.
async fn next(facts: &mut EventStream) -> Result<u64, Failed> {
    match facts.next().await {
        Some(Delivery::Event { event, .. }) => match &*event {
            Event::OrderSeen { order } => Ok(order.deployment().dseq - 1),
            other => Err(format!("{other:?} was not published").into()),
        },
        other => Err(format!("{other:?} in the place of an event").into()),
    }
}

/// Events a second, from who publishes to who reads.
async fn rate(bus: &FanOut, mut facts: EventStream) -> Result<(), Failed> {
    let began = Instant::now();
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    let reading = tokio::spawn(async move {
        for number in 0..EVENTS {
            let got = next(&mut facts).await.map_err(|error| error.to_string())?;
            if got != number {
                return Err(format!("{got} came in the place of {number}"));
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
    #[expect(clippy::cast_precision_loss, reason = "a count of events is far below 2^52")]
    let rate = EVENTS as f64 / began.elapsed().as_secs_f64();
    figure("bus_redis_events_per_s", rate, "1/s");
    Ok(())
}

/// How long an event takes to who reads, at a steady rate.
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
        // A timer counts milliseconds, so a few are published at a time.
        if due > began.elapsed() {
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        }
        sent.push(began.elapsed());
        // Numbers that were published before are not written again.
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
