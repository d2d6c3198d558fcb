//! Log lines over one websocket.

use super::daemon::{Daemon, own_cpu};
use super::figure;
use super::load::{authorization, frame, lease_path, tls, websocket};
use anyhow::ensure;
use std::time::Instant;
use tokio::io::AsyncReadExt;

/// Number of requested log lines, for a measurement of some seconds.
const LINES: u32 = if cfg!(debug_assertions) { 20_000 } else { 2_000_000 };
/// Size of a read, in bytes: small, as in real clients.
const PIECE: usize = 64 * 1024;

pub(crate) async fn one_stream() -> anyhow::Result<()> {
    let daemon = Daemon::start()?;
    let path = lease_path(&format!("logs?tail={LINES}"));
    let mut io = websocket(daemon.address, &tls(None)?, &path, &authorization(1)?).await?;
    let (daemon_before, load_before) = (daemon.cpu()?, own_cpu()?);
    let began = Instant::now();
    let mut buffer = Vec::with_capacity(2 * PIECE);
    let mut lines = 0;
    while lines < LINES {
        let read = io.read_buf(&mut buffer).await?;
        ensure!(read > 0, "the stream ended after {lines} lines");
        let mut at = 0;
        while let Some((code, bytes)) = frame(&buffer[at..]) {
            // A text frame is a line; pings of the gateway may come between.
            lines += u32::from(code == 1);
            at += bytes;
        }
        buffer.drain(..at);
    }
    let seconds = began.elapsed().as_secs_f64();
    let each = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / f64::from(LINES);
    figure("logs_lines_per_s", f64::from(LINES) / seconds, "1/s");
    figure("logs_daemon_cpu_us", each(daemon.cpu()? - daemon_before), "us");
    figure("logs_load_cpu_us", each(own_cpu()? - load_before), "us");
    Ok(())
}
