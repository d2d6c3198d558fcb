//! Idle websockets that only receive pings.

use super::daemon::Daemon;
use super::load::{authorization, frame, lease_path, tls, websocket};
use super::{TENANTS, figure};
use anyhow::{Context, ensure};
use nix::sys::resource::{Resource, getrlimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

const WEBSOCKETS: usize = if cfg!(debug_assertions) { 100 } else { 10_000 };
/// Number of open files that the daemon uses for other purposes than websockets.
const RESERVE: usize = 300;
/// Number of websockets opened concurrently.
const TOGETHER: usize = 50;
/// Time until each websocket has received two pings, so that the memory is stable.
const SETTLED: Duration = if cfg!(debug_assertions) {
    Duration::from_secs(1)
} else {
    Duration::from_secs(22)
};

pub(crate) async fn websockets() -> anyhow::Result<()> {
    let websockets = websockets_that_fit()?;
    let daemon = Daemon::start()?;
    let before = daemon.memory()?;
    let config = tls(None)?;
    let (mut opening, mut open) = (JoinSet::new(), JoinSet::new());
    let pings = Arc::new(AtomicUsize::new(0));
    let tenants: Vec<String> = (1..=TENANTS).map(authorization).collect::<Result<_, _>>()?;
    let tenants = Arc::new(tenants);
    let mut hold = |opened: anyhow::Result<TlsStream<TcpStream>>| {
        open.spawn(answer_pings(opened?, Arc::clone(&pings)));
        anyhow::Ok(())
    };
    for number in 0..websockets {
        let (config, address, tenants) = (Arc::clone(&config), daemon.address, Arc::clone(&tenants));
        opening.spawn(async move {
            let tenant = &tenants[number % tenants.len()];
            websocket(address, &config, &lease_path("logs?follow=true"), tenant).await
        });
        if opening.len() >= TOGETHER {
            hold(opening.join_next().await.context("no websocket was opened")??)?;
        }
    }
    while let Some(opened) = opening.join_next().await {
        hold(opened?)?;
    }
    tokio::time::sleep(SETTLED).await;
    let after = daemon.memory()?;
    let ended = open.try_join_next();
    ensure!(ended.is_none(), "a websocket ended: {ended:?}");
    ensure!(
        cfg!(debug_assertions) || pings.load(Ordering::Relaxed) >= websockets,
        "not every websocket was pinged"
    );
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let each = (after - before) as f64 / websockets as f64;
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let mib = (before as f64 + each * WEBSOCKETS as f64) / f64::from(1 << 20);
    figure("ws_10000_idle_mib", mib, "MiB");
    figure("ws_idle_bytes", each, "bytes");
    open.abort_all();
    Ok(())
}

/// Returns the number of websockets to open: ten thousand, unless the limit of open files allows fewer.
fn websockets_that_fit() -> anyhow::Result<usize> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let fit = usize::try_from(most)?.saturating_sub(RESERVE) / 8 * 3;
    if fit < WEBSOCKETS {
        eprintln!(
            "this process may open only {most} files (`ulimit -Hn`): measuring {fit} websockets, and scaling the result to {WEBSOCKETS}"
        );
    }
    Ok(fit.min(WEBSOCKETS))
}

async fn answer_pings(mut io: TlsStream<TcpStream>, pings: Arc<AtomicUsize>) -> anyhow::Result<()> {
    /// Masked pong frame without content, as clients send it.
    const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];
    let mut buffer = Vec::new();
    loop {
        ensure!(io.read_buf(&mut buffer).await? > 0, "the stream ended");
        while let Some((code, bytes)) = frame(&buffer) {
            ensure!(code == 9, "a frame of code {code}");
            buffer.drain(..bytes);
            io.write_all(&PONG).await?;
            io.flush().await?;
            pings.fetch_add(1, Ordering::Relaxed);
        }
    }
}
