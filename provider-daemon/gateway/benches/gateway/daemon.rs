//! The daemon that is measured, seen from outside: where it is, its CPU, its memory.

use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A daemon in a process of its own; it ends when this is dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Daemon {
    /// Starts this program again as the daemon and waits until it serves.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(super::SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().context("what the daemon says")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        let address = line.trim().parse();
        let address = address.with_context(|| format!("the daemon did not start: it said {line:?}"))?;
        Ok(Self { child, address })
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.with_context(|| format!("{path}: no VmRSS"))? * 1024)
    }

    /// The CPU it has used so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&self.child.id().to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The end of its input is its end.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

/// The CPU that this process has used so far.
pub(crate) fn own_cpu() -> anyhow::Result<Duration> {
    cpu_of("self")
}

fn cpu_of(process: &str) -> anyhow::Result<Duration> {
    /// What the kernel counts in, wherever Linux runs today.
    const TICK: Duration = Duration::from_millis(10);
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // Behind the name, which may hold anything.
    let (_, fields) = text.rsplit_once(')').with_context(|| path.clone())?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    ensure!(fields.len() > 12, "{path}: {text}");
    let ticks = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    Ok(TICK * ticks)
}
