//! Processes that outlive the program which started them, and how to know that one is still ours.
//!
//! A pid alone proves nothing: it may have been given to another program. With the moment it started, which the
//! kernel keeps, it does.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};

/// A process, known by its number and the moment it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) pid: i32,
    started: u64,
}

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Runs,
    Paused,
    Gone,
}

/// Starts a program in a network namespace; it lives on when this program ends, and its output goes to `log`.
pub(crate) fn start(netns: &str, program: &Path, args: &[String], dir: &Path, log: &Path) -> Result<Known> {
    let file = append(log)?;
    let twin = file.try_clone().map_err(|error| Error::at(log, error))?;
    // `nsenter` and not `ip netns exec`, which remounts /sys and hides the cgroups from the kubelet.
    // Each step replaces the one before, so the pid stays.
    let mut child = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{netns}"))
        .arg("--")
        .arg(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(twin)
        // A Ctrl-C at the desk is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(|error| {
            Error::new(format!(
                "`nsenter … {}` does not start: {error}",
                program.display()
            ))
        })?;
    let pid = i32::try_from(child.id()).map_err(|error| Error::at(program, error))?;
    // A child that ended while this program lives is collected, or it would be seen as a zombie.
    let known = Known::of(pid);
    thread::spawn(move || child.wait());
    known.ok_or_else(|| {
        Error::new(format!(
            "{} ended at once; see {}",
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

impl Known {
    /// The process that has this pid.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let (_, started) = stat(pid)?;
        Some(Self { pid, started })
    }

    /// What was written by [`Self::write`]; nothing when there is no such file or it is not understood.
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

    pub(crate) fn state(self) -> State {
        match stat(self.pid) {
            Some((state, started)) if started == self.started => match state {
                'Z' | 'X' => State::Gone,
                'T' | 't' => State::Paused,
                _ => State::Runs,
            },
            _ => State::Gone,
        }
    }

    /// Sends a signal, if it is still the same process.
    pub(crate) fn signal(self, signal: Signal) -> Result<()> {
        if self.state() == State::Gone {
            return Ok(());
        }
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(error) => Err(Error::new(format!("{signal} to process {}: {error}", self.pid))),
        }
    }

    /// Ends it and waits until it is gone: politely for `patience`, then by force.
    pub(crate) fn stop(self, patience: Duration) -> Result<()> {
        if !patience.is_zero() {
            self.signal(Signal::SIGTERM)?;
            // One that was paused hears nothing else.
            self.signal(Signal::SIGCONT)?;
            if self.gone_within(patience) {
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
        while self.state() != State::Gone {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// The children of a process, and theirs; the deepest last.
pub(crate) fn descendants(of: i32) -> Vec<Known> {
    let parents: Vec<(i32, i32)> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(above) = next.pop() {
        for (pid, _) in parents.iter().filter(|(_, parent)| *parent == above) {
            found.extend(Known::of(*pid));
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

/// The state and the start of a process, from its line `PID (NAME) STATE PPID …`; a name may hold anything.
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?.chars().next()?;
    // The start is the 22nd field of the line, and the state the third.
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

    fn sleeper() -> (std::process::Child, Known) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let known = Known::of(i32::try_from(child.id()).unwrap()).unwrap();
        (child, known)
    }

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_trap() {
        let line = "7 (a) b (c)) T 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 424242 1 1";
        assert_eq!(parse(line), Some(('T', 424_242)));
        assert_eq!(parse("7 (sh"), None);
    }

    #[test]
    fn another_process_of_the_same_number_is_not_ours() {
        let (mut child, known) = sleeper();
        assert_eq!(known.state(), State::Runs);
        let stranger = Known {
            started: known.started + 1,
            ..known
        };
        assert_eq!(stranger.state(), State::Gone);
        stranger.stop(Duration::ZERO).unwrap();
        assert_eq!(known.state(), State::Runs, "a stranger's signal reached it");
        known.stop(Duration::ZERO).unwrap();
        child.wait().unwrap();
        assert_eq!(known.state(), State::Gone);
    }

    #[test]
    fn a_paused_process_is_seen_and_can_still_be_ended() {
        let (mut child, known) = sleeper();
        known.signal(Signal::SIGSTOP).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while known.state() != State::Paused && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(known.state(), State::Paused);
        known.stop(Duration::from_secs(5)).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_written_is_read_back() {
        let file = std::env::temp_dir().join(format!("testbed-pid-{}", std::process::id()));
        let me = Known::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        me.write(&file).unwrap();
        assert_eq!(Known::read(&file), Some(me));
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(Known::read(&file), None);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(Known::read(&file), None);
    }

    #[test]
    fn children_of_children_are_found() {
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
