//! Runs the process group of a replica with automatic restarts, and runs commands next to a replica.

use crate::records;
use akash_provider_core::cluster::ExecIo;
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, copy};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Time after which a started process is considered running.
const SETTLED: Duration = Duration::from_millis(50);
/// Delay before a process is restarted after its exit.
const RESTART: Duration = Duration::from_secs(1);
/// Time between the signal to terminate and the signal to kill.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum wait for the end of a killed process group.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// Maximum length of an output line, in bytes. Longer lines are split.
const LINE: u64 = 16 * 1024;
const SIGTERM: i32 = 15;
/// Offset for processes that a signal ended: the exit code is 128 plus the number of the signal, as in
/// shells.
const BY_SIGNAL: i32 = 128;
/// Exit code for a missing command, as in shells.
const EXIT_NOT_FOUND: i32 = 127;
/// Exit code for a command that cannot be executed, as in shells.
const EXIT_NOT_EXECUTABLE: i32 = 126;

#[derive(Debug, Clone)]
pub(crate) struct CommandSpec {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Working directory, created if missing.
    pub(crate) folder: PathBuf,
}

#[derive(Debug)]
pub(crate) enum ReplicaEvent {
    /// The replica runs.
    Up,
    /// The replica ended. Contains the reason.
    Down(String),
    /// Line of output.
    Line(String),
}

/// Runs a program and restarts it after each exit, until `stop` is cancelled. Returns after all processes of
/// the program have ended.
pub(crate) async fn run_with_restarts(
    program: CommandSpec,
    report: impl Fn(ReplicaEvent) + Send + Sync,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        match ChildGroup::start(&program, Stdio::null()) {
            Ok(mut group) => {
                let why = group.live(&report, &stop).await;
                // Before the event: the processes of an ended replica must not run any more.
                group.end().await;
                if stop.is_cancelled() {
                    return;
                }
                report(ReplicaEvent::Down(why));
            }
            Err(error) => report(ReplicaEvent::Down(format!(
                "cannot start `{}`: {error}",
                program.program
            ))),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = sleep(RESTART) => {}
        }
    }
}

/// Runs a program once with the given streams. Returns the exit code, or `None` if the program was stopped.
/// Finally kills the child processes of the program.
pub(crate) async fn run(program: &CommandSpec, mut io: ExecIo, stop: &CancellationToken) -> Option<i32> {
    let input = if io.stdin.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let mut group = match ChildGroup::start(program, input) {
        Ok(group) => group,
        Err(error) => {
            let output = format!("cannot start `{}`: {error}\n", program.program);
            // The reader may have closed the stream. The exit code reports the failure too.
            let _ = io.stderr.write_all(output.as_bytes()).await;
            let _ = io.stderr.flush().await;
            return Some(match error.kind() {
                io::ErrorKind::NotFound => EXIT_NOT_FOUND,
                _ => EXIT_NOT_EXECUTABLE,
            });
        }
    };
    let child = &mut group.child;
    let (to, out, err) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let fed = async {
        if let (Some(mut from), Some(mut to)) = (io.stdin, to) {
            // The program may end without reading all input.
            let _ = copy(&mut from, &mut to).await;
        }
        // The end of the input does not end the command.
        std::future::pending::<()>().await
    };
    let killed = CancellationToken::new();
    let life = async {
        let code = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            status = group.child.wait() => Some(status.map_or(EXIT_NOT_EXECUTABLE, code_of)),
        };
        // Also after a regular exit: background children would keep the pipes open.
        let _ = group.child.start_kill();
        killed.cancel();
        code
    };
    let output = async {
        tokio::select! {
            _ = async { tokio::join!(forward(out, io.stdout), forward(err, io.stderr)) } => {}
            // A process that left the group keeps the pipes open; the wait is bounded.
            () = async { killed.cancelled().await; sleep(KILL_LIMIT).await } => {}
        }
    };
    let code = tokio::select! {
        (code, ()) = async { tokio::join!(life, output) } => code,
        () = fed => None,
    };
    group.end().await;
    code
}

fn code_of(status: ExitStatus) -> i32 {
    let by_signal = || {
        status
            .signal()
            .map_or(EXIT_NOT_EXECUTABLE, |signal| BY_SIGNAL + signal)
    };
    status.code().unwrap_or_else(by_signal)
}

async fn forward(pipe: Option<impl AsyncRead + Unpin>, mut to: impl AsyncWrite + Unpin) {
    if let Some(mut pipe) = pipe {
        // If the reader stops, the command gets an error from its pipe.
        let _ = copy(&mut pipe, &mut to).await;
        let _ = to.flush().await;
    }
}

/// Process group, killed on drop.
#[derive(Debug)]
struct ChildGroup {
    child: Box<dyn ChildWrapper>,
    ended: bool,
}

impl ChildGroup {
    fn start(program: &CommandSpec, input: Stdio) -> io::Result<Self> {
        records::make(&program.folder)?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = CommandWrap::with_new(&program.program, |command| {
            command
                .args(&program.args)
                // Variables of the daemon may contain keys and passwords.
                .env_clear()
                .env("PATH", path)
                .envs(program.env.iter().cloned())
                .current_dir(&program.folder)
                .stdin(input)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        // A separate group, so that signals reach all children of a replica and never the daemon.
        let child = command.wrap(ProcessGroup::leader()).spawn()?;
        Ok(Self { child, ended: false })
    }

    /// Reports the output until the process ends, and returns the reason for the end. Returns an empty text
    /// if the process was stopped.
    async fn live(&mut self, report: &(impl Fn(ReplicaEvent) + Sync), stop: &CancellationToken) -> String {
        let (out, err) = (self.child.stdout().take(), self.child.stderr().take());
        let killed = CancellationToken::new();
        let life = async {
            let how = tokio::select! {
                // Stop first: a process that exits at the same time has not failed.
                biased;
                () = stop.cancelled() => None,
                how = self.exited(report) => Some(how),
            };
            if how.is_none() {
                // The process may have ended; the rest of the group is killed below.
                let _ = self.child.signal(SIGTERM);
                let _ = timeout(GRACE, self.child.wait()).await;
            }
            // Children end too, and release the output pipes.
            let _ = self.child.start_kill();
            killed.cancel();
            how.unwrap_or_default()
        };
        let output = async { tokio::join!(report_lines(out, report), report_lines(err, report)) };
        let output = async {
            tokio::select! {
                _ = output => {}
                () = async { killed.cancelled().await; sleep(KILL_LIMIT).await } => {}
            }
        };
        tokio::join!(life, output).0
    }

    async fn exited(&mut self, report: &impl Fn(ReplicaEvent)) -> String {
        tokio::select! {
            biased;
            status = self.child.wait() => return how(status),
            () = sleep(SETTLED) => report(ReplicaEvent::Up),
        }
        how(self.child.wait().await)
    }

    /// Waits for the end of the killed process.
    async fn end(mut self) {
        let _ = self.child.start_kill();
        self.ended = timeout(KILL_LIMIT, self.child.wait()).await.is_ok();
    }
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        if !self.ended {
            // A drop cannot wait, so the process is only signalled.
            let _ = self.child.start_kill();
        }
    }
}

fn how(status: io::Result<ExitStatus>) -> String {
    status.map_or_else(|error| error.to_string(), |status| format!("ended with {status}"))
}

async fn report_lines(pipe: Option<impl AsyncRead + Unpin>, report: &impl Fn(ReplicaEvent)) {
    let Some(pipe) = pipe else { return };
    let mut reader = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        // Limited, because a line without an end would fill the memory.
        match (&mut reader).take(LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                report(ReplicaEvent::Line(text.trim_end_matches(['\r', '\n']).to_owned()));
            }
        }
    }
}
