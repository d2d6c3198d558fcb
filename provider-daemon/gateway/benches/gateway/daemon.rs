//! The measured daemon in a separate process, with its address, its CPU time and its memory.

use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Daemon in a separate process, stopped when the value is dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Daemon {
    /// Starts this program as the daemon. Returns when the daemon serves.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(super::SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("the daemon process has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse();
        let address = address.with_context(|| format!("the daemon did not start; output: {line:?}"))?;
        Ok(Self { child, address })
    }

    /// Returns the resident memory of the daemon, in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.with_context(|| format!("{path}: no VmRSS"))? * 1024)
    }

    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&self.child.id().to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon ends with its input.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

pub(crate) fn own_cpu() -> anyhow::Result<Duration> {
    cpu_of("self")
}

fn cpu_of(process: &str) -> anyhow::Result<Duration> {
    /// Clock tick of the kernel on all current Linux platforms.
    const TICK: Duration = Duration::from_millis(10);
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // After the name, which may contain any character.
    let (_, fields) = text.rsplit_once(')').with_context(|| path.clone())?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    ensure!(fields.len() > 12, "{path}: {text}");
    let ticks = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    Ok(TICK * ticks)
}
