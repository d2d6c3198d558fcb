//! Finds the processes that a script started, also in other sessions and without their parents: each inherits a mark in
//! its environment.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;

/// Searches for processes: one that was just killed may have started another before.
const ROUNDS: usize = 10;
/// Bytes that are read of an environment: the kernel gives a program 2 MiB by default for environment and arguments.
const ENVIRONMENT_MAX: u64 = 2 << 20;

/// Mark of one run of a script.
#[derive(Debug)]
pub(super) struct Mark(String);

impl Mark {
    /// Name of the environment variable.
    pub(super) const NAME: &str = "PRICE_SCRIPT_RUN";

    pub(super) fn new() -> Self {
        // Two providers may have the same process id in different containers, so the mark is random.
        let [high, low] = [(); 2].map(|()| RandomState::new().hash_one(std::process::id()));
        Self(format!("{high:016x}{low:016x}"))
    }

    pub(super) fn value(&self) -> &str {
        &self.0
    }

    /// Kills all processes with the mark. Without `/proc` none is found.
    pub(super) fn kill_all(&self) {
        let variable = format!("{}={}", Self::NAME, self.0);
        for _ in 0..ROUNDS {
            let mut marked = marked(variable.as_bytes()).peekable();
            if marked.peek().is_none() {
                return;
            }
            for process in marked {
                // Fails only when the process has ended.
                let _ = kill(process, Signal::SIGKILL);
            }
        }
    }
}

fn marked(variable: &[u8]) -> impl Iterator<Item = Pid> + use<'_> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let file = File::open(entry.path().join("environ")).ok()?;
        let mut environment = Vec::new();
        // Readable for processes of the same user alone, and empty for one that has ended.
        file.take(ENVIRONMENT_MAX).read_to_end(&mut environment).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|set| set == variable).then_some(Pid::from_raw(pid))
    })
}
