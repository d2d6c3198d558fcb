//! One replica: a process group that is kept running until it is told to stop. And a command beside it.

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

/// A process that has lived so long counts as up.
const SETTLED: Duration = Duration::from_millis(50);
/// Wait before a process that ended by itself is started again.
const RESTART: Duration = Duration::from_secs(1);
/// Time to end by itself when asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Time for a killed group to be gone.
const GONE: Duration = Duration::from_secs(2);
/// Longest line of output in bytes; a longer one is told in pieces.
const LINE: u64 = 16 * 1024;
/// The signal that asks a process to end.
const SIGTERM: i32 = 15;
/// What shells add to the number of a signal that ended something.
const BY_SIGNAL: i32 = 128;
/// What shells say of a command that is not there.
const NOT_THERE: i32 = 127;
/// What shells say of a command that is there and cannot be run.
const NOT_RUN: i32 = 126;

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Where; made when it is missing.
    pub(crate) folder: PathBuf,
}

/// What becomes of a replica.
#[derive(Debug)]
pub(crate) enum News {
    /// It runs.
    Up,
    /// It does not, and why.
    Down(String),
    /// It says something.
    Line(String),
}

/// Keeps a program running and tells how it goes, until it is to stop; then nothing of it runs any more.
pub(crate) async fn keep_running(
    program: Program,
    tell: impl Fn(News) + Send + Sync,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        match Group::start(&program, Stdio::null()) {
            Ok(mut group) => {
                let why = group.live(&tell, &stop).await;
                // Before the news: of a replica that is told to be down nothing should run any more.
                group.end().await;
                if stop.is_cancelled() {
                    return;
                }
                tell(News::Down(why));
            }
            Err(error) => tell(News::Down(format!(
                "`{}` does not start: {error}",
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

/// Runs a program once, with the streams of whoever asked for it; its exit code, or `None` when it was to stop
/// before its end. What it has started ends with it.
pub(crate) async fn run(program: &Program, mut io: ExecIo, stop: &CancellationToken) -> Option<i32> {
    let input = if io.stdin.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let mut group = match Group::start(program, input) {
        Ok(group) => group,
        Err(error) => {
            let told = format!("`{}` does not start: {error}\n", program.program);
            // Nobody may read it any more: the code says it too.
            let _ = io.stderr.write_all(told.as_bytes()).await;
            let _ = io.stderr.flush().await;
            return Some(match error.kind() {
                io::ErrorKind::NotFound => NOT_THERE,
                _ => NOT_RUN,
            });
        }
    };
    let child = &mut group.child;
    let (to, out, err) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let fed = async {
        if let (Some(mut from), Some(mut to)) = (io.stdin, to) {
            // It may end without reading all of it.
            let _ = copy(&mut from, &mut to).await;
        }
        // Input that has ended says nothing about the command, so this side never ends the whole.
        std::future::pending::<()>().await
    };
    let killed = CancellationToken::new();
    let life = async {
        let code = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            status = group.child.wait() => Some(status.map_or(NOT_RUN, code_of)),
        };
        // Also after it ended by itself: what it left in the background would hold its pipes open.
        let _ = group.child.start_kill();
        killed.cancel();
        code
    };
    let told = async {
        tokio::select! {
            _ = async { tokio::join!(hand_on(out, io.stdout), hand_on(err, io.stderr)) } => {}
            // A process that left the group keeps the pipes open, and nobody waits for it for ever.
            () = async { killed.cancelled().await; sleep(GONE).await } => {}
        }
    };
    let code = tokio::select! {
        (code, ()) = async { tokio::join!(life, told) } => code,
        () = fed => None,
    };
    group.end().await;
    code
}

fn code_of(status: ExitStatus) -> i32 {
    let by_signal = || status.signal().map_or(NOT_RUN, |signal| BY_SIGNAL + signal);
    status.code().unwrap_or_else(by_signal)
}

async fn hand_on(pipe: Option<impl AsyncRead + Unpin>, mut to: impl AsyncWrite + Unpin) {
    if let Some(mut pipe) = pipe {
        // Who reads no more loses the rest; the command is told by its pipe.
        let _ = copy(&mut pipe, &mut to).await;
        let _ = to.flush().await;
    }
}

/// A process group; killed when it is dropped.
#[derive(Debug)]
struct Group {
    child: Box<dyn ChildWrapper>,
    ended: bool,
}

impl Group {
    fn start(program: &Program, input: Stdio) -> io::Result<Self> {
        records::make(&program.folder)?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = CommandWrap::with_new(&program.program, |command| {
            command
                .args(&program.args)
                // The daemon's own variables may hold keys and passwords, and are none of a tenant's
                // business.
                .env_clear()
                .env("PATH", path)
                .envs(program.env.iter().cloned())
                .current_dir(&program.folder)
                .stdin(input)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        // A group of its own, so that a signal reaches all that a replica has started, and never the daemon.
        let child = command.wrap(ProcessGroup::leader()).spawn()?;
        Ok(Self { child, ended: false })
    }

    /// Tells what it says until it ends or is asked to; returns how it ended.
    async fn live(&mut self, tell: &(impl Fn(News) + Sync), stop: &CancellationToken) -> String {
        let (out, err) = (self.child.stdout().take(), self.child.stderr().take());
        let killed = CancellationToken::new();
        let life = async {
            let how = tokio::select! {
                // Stop first: what ends in the moment it is asked to has not failed.
                biased;
                () = stop.cancelled() => None,
                how = self.end_by_itself(tell) => Some(how),
            };
            if how.is_none() {
                // It may have ended meanwhile, and what is left is killed below anyway.
                let _ = self.child.signal(SIGTERM);
                let _ = timeout(GRACE, self.child.wait()).await;
            }
            // What the process has started goes too; with it go the last holders of its outputs.
            let _ = self.child.start_kill();
            killed.cancel();
            how.unwrap_or_default()
        };
        let told = async { tokio::join!(tell_lines(out, tell), tell_lines(err, tell)) };
        let told = async {
            tokio::select! {
                _ = told => {}
                () = async { killed.cancelled().await; sleep(GONE).await } => {}
            }
        };
        tokio::join!(life, told).0
    }

    async fn end_by_itself(&mut self, tell: &impl Fn(News)) -> String {
        tokio::select! {
            biased;
            status = self.child.wait() => return how(status),
            () = sleep(SETTLED) => tell(News::Up),
        }
        how(self.child.wait().await)
    }

    /// Waits until the killed process is gone.
    async fn end(mut self) {
        let _ = self.child.start_kill();
        self.ended = timeout(GONE, self.child.wait()).await.is_ok();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            // Nothing can be waited for in a drop, so the end is only asked for.
            let _ = self.child.start_kill();
        }
    }
}

fn how(status: io::Result<ExitStatus>) -> String {
    status.map_or_else(|error| error.to_string(), |status| format!("ended with {status}"))
}

async fn tell_lines(pipe: Option<impl AsyncRead + Unpin>, tell: &impl Fn(News)) {
    let Some(pipe) = pipe else { return };
    let mut reader = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        // Cut at a length, because a program that never ends its line would fill the memory.
        match (&mut reader).take(LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                tell(News::Line(text.trim_end_matches(['\r', '\n']).to_owned()));
            }
        }
    }
}
