//! Requests that each connection sends one after the other.

use super::daemon::{Daemon, own_cpu};
use super::load::{PersistentConnection, authorization, connect, lease_path, request, tls};
use super::{TENANTS, figure};
use anyhow::ensure;
use futures::future::try_join_all;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Number of concurrent connections, as in the measurement of the Go provider.
const CONNECTIONS: u8 = 10;
const WARM_UP: Duration = if cfg!(debug_assertions) {
    Duration::from_millis(200)
} else {
    Duration::from_millis(500)
};
const MEASURED: Duration = if cfg!(debug_assertions) {
    Duration::from_millis(500)
} else {
    Duration::from_secs(8)
};
/// Number of requests between two memory measurements. The first measurement follows `MANY_BEFORE` requests,
/// during which the memory grows.
const MANY: u32 = if cfg!(debug_assertions) { 1_000 } else { 1_000_000 };
const MANY_BEFORE: u32 = if cfg!(debug_assertions) { 100 } else { 100_000 };

pub(crate) async fn status() -> anyhow::Result<()> {
    rate("status", |_| Ok(request("/status", ""))).await
}

pub(crate) async fn lease_status() -> anyhow::Result<()> {
    rate("lease_status", |number| {
        Ok(request(&lease_path("status"), &authorization(number)?))
    })
    .await
}

/// Measures how much memory the daemon uses for additional requests.
pub(crate) async fn memory() -> anyhow::Result<()> {
    let daemon = Daemon::start()?;
    let mut callers = callers(&daemon, |number| {
        let path = if number % 2 == 0 {
            "/status".to_owned()
        } else {
            lease_path("status")
        };
        Ok(request(&path, &authorization(number)?))
    })
    .await?;
    run(&mut callers, Until::Count(MANY_BEFORE)).await?;
    let before = daemon.memory()?;
    run(&mut callers, Until::Count(MANY)).await?;
    let after = daemon.memory()?;
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let grown = (after as f64 - before as f64) / f64::from(MANY);
    figure("growth_bytes_per_request", grown, "bytes");
    Ok(())
}

struct Caller {
    connection: PersistentConnection,
    request: Vec<u8>,
    /// Response times, in microseconds.
    took: Vec<u32>,
}

/// Condition that ends a measurement.
#[derive(Clone, Copy)]
enum Until {
    Count(u32),
    After(Duration),
}

async fn callers(
    daemon: &Daemon,
    ask: impl Fn(u8) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Vec<Caller>> {
    let config = tls(None)?;
    let mut callers = Vec::new();
    for number in 1..=CONNECTIONS.min(TENANTS) {
        callers.push(Caller {
            connection: PersistentConnection::new(connect(daemon.address, &config).await?),
            request: ask(number)?,
            took: Vec::new(),
        });
    }
    Ok(callers)
}

/// Runs all callers concurrently, each with one request at a time.
async fn run(callers: &mut [Caller], until: Until) -> anyhow::Result<u32> {
    let (done, began) = (Cell::new(0), Instant::now());
    let (done, asking) = (&done, callers.iter_mut());
    let asking = asking.map(|caller| async move {
        loop {
            let at = Instant::now();
            let is_over = match until {
                Until::Count(count) => done.get() >= count,
                Until::After(limit) => at.duration_since(began) >= limit,
            };
            if is_over {
                return anyhow::Ok(());
            }
            let (status, length) = caller.connection.ask(&caller.request).await?;
            ensure!(
                status == 200 && length > 0,
                "unexpected response: status {status} with a body of {length} bytes"
            );
            done.set(done.get() + 1);
            caller.took.push(u32::try_from(at.elapsed().as_micros())?);
        }
    });
    try_join_all(asking).await?;
    Ok(done.get())
}

async fn rate(name: &str, ask: impl Fn(u8) -> anyhow::Result<Vec<u8>>) -> anyhow::Result<()> {
    let daemon = Daemon::start()?;
    let mut callers = callers(&daemon, ask).await?;
    run(&mut callers, Until::After(WARM_UP)).await?;
    for caller in &mut callers {
        caller.took.clear();
    }
    let (daemon_before, load_before) = (daemon.cpu()?, own_cpu()?);
    let began = Instant::now();
    let done = run(&mut callers, Until::After(MEASURED)).await?;
    let seconds = began.elapsed().as_secs_f64();
    let (daemon_cpu, load_cpu) = (daemon.cpu()? - daemon_before, own_cpu()? - load_before);
    let mut took: Vec<u32> = callers.iter().flat_map(|c| c.took.iter().copied()).collect();
    figure(&format!("{name}_rps"), f64::from(done) / seconds, "1/s");
    figure(
        &format!("{name}_p99_ms"),
        f64::from(percentile(&mut took, 99)) / 1e3,
        "ms",
    );
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / f64::from(done);
    figure(&format!("{name}_daemon_cpu_us"), each(daemon_cpu), "us");
    figure(&format!("{name}_load_cpu_us"), each(load_cpu), "us");
    Ok(())
}

pub(crate) fn percentile(all: &mut [u32], percent: usize) -> u32 {
    all.sort_unstable();
    let at = (all.len() * percent / 100).min(all.len().saturating_sub(1));
    all.get(at).copied().unwrap_or_default()
}
