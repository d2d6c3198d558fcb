//! Processes that outlive the program that started them, and how they are identified.
//!
//! A pid alone is not sufficient, because the kernel reuses pids. The pid together with the start time
//! identifies a process.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};

/// A process, identified by pid and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    started: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Runs,
    Paused,
    Gone,
}

/// Starts a program in a network namespace and in its own session, with its output in `log`. The program
/// continues when this process ends. The separate session protects a paused program from SIGHUP.
pub(crate) fn start(
    netns: &str,
    program: &Path,
    args: &[String],
    dir: &Path,
    log: &Path,
) -> Result<ProcessId> {
    let file = append(log)?;
    let twin = file.try_clone().map_err(|error| Error::at(log, error))?;
    // `nsenter` instead of `ip netns exec`, which remounts /sys and hides the cgroups from the kubelet. Each
    // command executes the next one, so the pid stays the same. Ctrl-C in the terminal does not reach a program
    // with its own session.
    let mut child = Command::new("setsid")
        .arg("nsenter")
        .arg(format!("--net=/run/netns/{netns}"))
        .arg("--")
        .arg(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(twin)
        .spawn()
        .map_err(|error| {
            Error::new(format!(
                "`setsid nsenter … {}` cannot start: {error}",
                program.display()
            ))
        })?;
    let pid = i32::try_from(child.id()).map_err(|error| Error::at(program, error))?;
    // A child that ends while this program runs is reaped, so that it does not appear as a zombie.
    let process = ProcessId::from_pid(pid);
    thread::spawn(move || child.wait());
    process.ok_or_else(|| {
        Error::new(format!(
            "{} ended immediately, see {}",
            program.display(),
            log.display()
        ))
    })
}

fn append(log: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(|error| Error::at(log, error))
}

impl ProcessId {
    pub(crate) fn from_pid(pid: i32) -> Option<Self> {
        let (_, started) = stat(pid)?;
        Some(Self { pid, started })
    }

    /// Reads a file from [`Self::write`]; `None` if missing or invalid.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Self {
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
        })
    }

    pub(crate) fn write(self, file: &Path) -> Result<()> {
        std::fs::write(file, format!("{} {}\n", self.pid, self.started))
            .map_err(|error| Error::at(file, error))
    }

    pub(crate) fn state(self) -> ProcessState {
        match stat(self.pid) {
            Some((state, started)) if started == self.started => match state {
                'Z' | 'X' => ProcessState::Gone,
                'T' | 't' => ProcessState::Paused,
                _ => ProcessState::Runs,
            },
            _ => ProcessState::Gone,
        }
    }

    /// Sends a signal to the process, unless it has ended. A later process with the same pid gets no signal.
    pub(crate) fn signal(self, signal: Signal) -> Result<()> {
        if self.state() == ProcessState::Gone {
            return Ok(());
        }
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(error) => Err(Error::new(format!("{signal} to process {}: {error}", self.pid))),
        }
    }

    /// Stops the process with SIGTERM, and after `grace` with SIGKILL. Waits for its end.
    pub(crate) fn stop(self, grace: Duration) -> Result<()> {
        if !grace.is_zero() {
            self.signal(Signal::SIGTERM)?;
            // A suspended process handles no other signal.
            self.signal(Signal::SIGCONT)?;
            if self.gone_within(grace) {
                return Ok(());
            }
        }
        self.signal(Signal::SIGKILL)?;
        // The kernel may have to finish a write first.
        if self.gone_within(Duration::from_secs(20)) {
            return Ok(());
        }
        Err(Error::new(format!(
            "process {} does not end after SIGKILL",
            self.pid
        )))
    }

    fn gone_within(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.state() != ProcessState::Gone {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// Returns the descendants of a process, parents before children.
pub(crate) fn descendants(of: i32) -> Vec<ProcessId> {
    let parents: Vec<(i32, i32)> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(above) = next.pop() {
        for (pid, _) in parents.iter().filter(|(_, parent)| *parent == above) {
            found.extend(ProcessId::from_pid(*pid));
            next.push(*pid);
        }
    }
    found
}

fn pids() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Reads state and start time from `PID (NAME) STATE PPID …`. `NAME` may contain any character.
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?.chars().next()?;
    // The start time is field 22 of the line, and the state field 3.
    let started = words.nth(18)?.parse().ok()?;
    Some((state, started))
}

fn parent(pid: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> (std::process::Child, ProcessId) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = ProcessId::from_pid(i32::try_from(child.id()).unwrap()).unwrap();
        (child, process)
    }

    #[test]
    fn name_with_brackets_and_spaces_is_parsed() {
        let line = "7 (a) b (c)) T 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 424242 1 1";
        assert_eq!(parse(line), Some(('T', 424_242)));
        assert_eq!(parse("7 (sh"), None);
    }

    #[test]
    fn reused_pid_is_another_process() {
        let (mut child, process) = sleeper();
        assert_eq!(process.state(), ProcessState::Runs);
        let stranger = ProcessId {
            started: process.started + 1,
            ..process
        };
        assert_eq!(stranger.state(), ProcessState::Gone);
        stranger.stop(Duration::ZERO).unwrap();
        assert_eq!(
            process.state(),
            ProcessState::Runs,
            "the signal was sent to another process"
        );
        process.stop(Duration::ZERO).unwrap();
        child.wait().unwrap();
        assert_eq!(process.state(), ProcessState::Gone);
    }

    #[test]
    fn suspended_process_is_detected_and_stopped() {
        let (mut child, process) = sleeper();
        process.signal(Signal::SIGSTOP).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while process.state() != ProcessState::Paused && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(process.state(), ProcessState::Paused);
        process.stop(Duration::from_secs(5)).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn process_id_is_read_back() {
        let file = std::env::temp_dir().join(format!("testbed-pid-{}", std::process::id()));
        let me = ProcessId::from_pid(i32::try_from(std::process::id()).unwrap()).unwrap();
        me.write(&file).unwrap();
        assert_eq!(ProcessId::read(&file), Some(me));
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(ProcessId::read(&file), None);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(ProcessId::read(&file), None);
    }

    #[test]
    fn descendants_are_found() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 61 & wait"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while descendants(pid).is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let me = i32::try_from(std::process::id()).unwrap();
        let found = descendants(pid);
        assert_eq!(found.len(), 1);
        assert!(descendants(me).contains(&found[0]));
        found[0].stop(Duration::ZERO).unwrap();
        shell.wait().unwrap();
    }
}
