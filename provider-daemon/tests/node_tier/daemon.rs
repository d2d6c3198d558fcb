//! The program as a process, and its resource usage during an outage.

use crate::environment::without_settings;
use crate::fixture::{Stage, outage, until, wait_limit};
use crate::tenant::web;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::Component;

/// Clock ticks per second in `/proc`.
const TICKS: f64 = 100.0;
/// Maximum additional CPU usage during an outage, in cores.
const OUTAGE_CORES: f64 = 0.05;
/// Maximum number of log lines per outage, enough for two per watched kind.
const OUTAGE_LINES: usize = 40;

/// Temporary folder of a test, deleted when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("node-tier-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Number of log lines printed for a failed test.
const LINES_SHOWN: usize = 60;

/// Returns a command for the program. The program is killed when the test process ends.
pub(crate) fn program(words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_provider-daemon")]);
    without_settings(&mut command);
    command.args(words).stdin(Stdio::null());
    command
}

pub(crate) struct Daemon {
    child: Child,
    output: PathBuf,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn start(stage: &Stage, scratch: &Scratch, state: &Path, more: &[&str]) -> Self {
        let sdl = scratch.path("web.yaml");
        std::fs::write(&sdl, web("daemon")).unwrap();
        let mut command = program(&["dev", "--accept-any", "--kubeconfig"]);
        command
            .arg(stage.testbed.kubeconfig())
            .arg("--state")
            .arg(state)
            .args(more)
            .arg(sdl);
        Self::spawn(command, scratch, "daemon")
    }

    pub(crate) fn spawn(mut command: Command, scratch: &Scratch, name: &str) -> Self {
        let (output, log) = (
            scratch.path(&format!("{name}.out")),
            scratch.path(&format!("{name}.log")),
        );
        let child = command
            .stdout(File::create(&output).unwrap())
            .stderr(File::create(&log).unwrap())
            .spawn();
        Self {
            child: child.unwrap(),
            output,
            log,
        }
    }

    /// Returns the first printed event of this kind.
    pub(crate) fn event_object(&self, event: &str) -> Option<Value> {
        let output = self.output();
        let mut objects = output.lines().filter_map(|line| serde_json::from_str(line).ok());
        objects.find(|object: &Value| object["event"] == event)
    }

    /// Waits until the output contains this text.
    pub(crate) fn says(&self, text: &str) {
        self.says_after(0, text);
    }

    /// Waits until the log contains this text.
    pub(crate) fn logs(&self, text: &str) {
        let dump = || format!("{}\n{}", self.output(), self.log());
        let began = Instant::now();
        while !self.log().contains(text) {
            assert!(began.elapsed() < wait_limit(), "not logged: {text}:\n{}", dump());
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the output after byte `before` contains `text`.
    pub(crate) fn says_after(&self, before: usize, text: &str) {
        let began = Instant::now();
        while !self.output()[before..].contains(text) {
            let dump = || format!("{}\n{}", self.output(), self.log());
            assert!(began.elapsed() < wait_limit(), "not printed: {text}:\n{}", dump());
            sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the program ends, and asserts success.
    pub(crate) fn end(&mut self) {
        let mut ended = None;
        until("the program ends", || {
            ended = self.has_ended();
            ended.is_some()
        });
        let dump = || format!("{}\n{}", self.output(), self.log());
        assert!(
            ended.is_some_and(|status| status.success()),
            "{ended:?}\n{}",
            dump()
        );
    }

    /// CPU usage over a duration, in cores.
    fn cores(&self, over: Duration) -> f64 {
        let ticks = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            // The second field may contain any text, the following fields do not.
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
        };
        let before = ticks();
        sleep(over);
        (ticks() - before) / TICKS / over.as_secs_f64()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The log explains the failure of a test.
        if std::thread::panicking() {
            eprintln!("the end of {}:\n{}", self.log.display(), last_lines(&self.log));
        }
    }
}

fn last_lines(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

#[test]
fn program_is_idle_during_an_outage() {
    let Some(stage) = Stage::take() else { return };
    let scratch = Scratch::new("idle");
    let state = scratch.path("state");
    let mut daemon = Daemon::start(&stage, &scratch, &state, &["--block-time=500ms"]);
    until("the program serves", || daemon.output().contains("serving"));
    sleep(Duration::from_secs(2));
    let quiet = daemon.cores(Duration::from_secs(5));
    let lines = daemon.log().lines().count();
    stage.testbed.kill(Component::ApiServer).unwrap();
    let broken = daemon.cores(outage());
    let log_lines = daemon.log().lines().count() - lines;
    stage.testbed.start(Component::ApiServer).unwrap();
    stage.testbed.restart_controllers().unwrap();
    println!(
        "cores: {quiet:.3} before, {broken:.3} in an outage of {}s; {log_lines} lines of log",
        outage().as_secs()
    );
    assert!(broken < quiet + OUTAGE_CORES, "{broken} cores");
    assert!(log_lines <= OUTAGE_LINES, "{}", daemon.log());
    daemon.signal(Signal::SIGTERM);
    daemon.end();
    assert_ne!(stage.labelled(), "", "the lease ended with the program");
    // Tenants wait for sixty blocks, and the recovery from an outage takes a while.
    let block = format!("--block-time={}ms", 500 + outage().as_millis() / 20);
    let mut again = Daemon::start(&stage, &scratch, &state, &["--once", &block]);
    again.end();
    assert_eq!(stage.labelled(), "");
}
