//! `lease-shell`: runs a command in a service, with or without a terminal, and exits with the exit code of the command.
//!
//! ```text
//!  100 output   101 errors   102 result, as JSON   103 failure        from the provider
//!  104 input    105 terminal size                                     to the provider
//! ```

mod arguments;
mod escape;
mod terminal;

use super::client::ProviderRequest;
use super::error::{ProviderError, shortened};
use super::lease::TenantClient;
use super::lease_query::lease_path;
use super::output::{OutputClosed, OutputWriter};
use super::stream::{Data, Stream, StreamReader, StreamWriter};
use crate::args::ShellArgs;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Scope;
use anyhow::{Context, bail};
use bytes::Bytes;
use escape::Escape;
use serde::Deserialize;
use std::future::pending;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use terminal::Terminal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

const STDOUT: u8 = 100;
const STDERR: u8 = 101;
const RESULT: u8 = 102;
const FAILURE: u8 = 103;
const STDIN: u8 = 104;
const SIZE: u8 = 105;

/// Maximum number of bytes of input in one frame.
const CHUNK: usize = 4096;
/// Capacity of the input channel, in chunks of at most [`CHUNK`] bytes.
const CHUNKS_MAX: usize = 16;
/// Offset of the exit code for a process that a signal stopped: the code is the offset plus the signal
/// number, as in shells.
const SIGNAL_BASE: i32 = 128;
/// Exit code for a command that could not run.
const NOT_RUN: u8 = 1;
/// Exit code after the user left the session with `~.`, as in ssh.
const LEFT: u8 = 255;

/// Result of the remote command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ShellExit {
    #[serde(default)]
    exit_code: i64,
    #[serde(default)]
    message: String,
}

#[derive(Debug)]
enum SessionEnd {
    /// The remote command ended. This process exits with the same code.
    Ended(ShellExit),
    /// The standard output of this process was closed.
    Unread,
    /// A signal stopped this process.
    Stopped(i32),
    /// The user left the session; the command may still run.
    Left,
}

pub(super) async fn run(args: &ShellArgs, home: &Path) -> anyhow::Result<ExitCode> {
    // Checked first: an invalid command needs no request.
    let arguments = arguments::parse(&args.command)?;
    let terminal = args.tty.then(Terminal::from_stdin).transpose()?;
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    let lease = selected_lease(&tenant, args).await?;
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(&lease);
    let path: Vec<&str> = ids.iter().map(String::as_str).chain(["shell"]).collect();
    let query = query(args, arguments);
    let request = ProviderRequest {
        query: &query,
        ..ProviderRequest::get(&path, Scope::Shell)
    };
    let stream = client.open(request).await?;
    // Signal handlers are installed first: a signal that stops the process in raw mode would leave the terminal raw.
    let mut stop = StopSignals::new(args.tty)?;
    if terminal.is_some() {
        eprintln!("{}", escape::HINT);
    }
    // The terminal is in raw mode from here on. Dropping `raw` restores the terminal in every case.
    let raw = terminal.as_ref().map(Terminal::raw).transpose()?;
    let end = tokio::select! {
        biased;
        signal = stop.wait() => Ok(SessionEnd::Stopped(signal)),
        end = session(stream, args, terminal) => end,
    };
    // Restored before any output: in raw mode a line feed does not return to the first column.
    drop(raw);
    Ok(match end? {
        SessionEnd::Ended(outcome) => exit_code(&outcome),
        SessionEnd::Unread => ExitCode::SUCCESS,
        SessionEnd::Left => {
            eprintln!("disconnected from the command, which may still be running");
            ExitCode::from(LEFT)
        }
        SessionEnd::Stopped(signal) => {
            eprintln!("lease-shell stopped by signal {signal}");
            ExitCode::from(u8::try_from(SIGNAL_BASE + signal).unwrap_or(u8::MAX))
        }
    })
}

/// Returns the lease for the shell, or an error if several leases match.
async fn selected_lease(tenant: &TenantClient, args: &ShellArgs) -> anyhow::Result<LeaseId> {
    if let Some(provider) = &args.lease.provider {
        return tenant.lease(&args.lease, provider).await;
    }
    let leases = tenant.leases(&args.lease).await?;
    if let [one] = leases.as_slice() {
        return Ok(one.clone());
    }
    let all: Vec<String> = leases.iter().map(ToString::to_string).collect();
    bail!(WithHelp::new(
        format!("the deployment has several leases:\n  {}", all.join("\n  ")),
        "select one with --provider, --gseq and --oseq"
    ))
}

fn query(args: &ShellArgs, arguments: Vec<String>) -> Vec<(String, String)> {
    let flag = |is_set: bool| if is_set { "1" } else { "0" }.to_owned();
    let mut query = vec![
        ("service".to_owned(), args.service.clone()),
        ("podIndex".to_owned(), args.replica_index.to_string()),
        ("tty".to_owned(), flag(args.tty)),
        ("stdin".to_owned(), flag(args.stdin || args.tty)),
    ];
    let numbered = arguments.into_iter().enumerate();
    query.extend(numbered.map(|(at, argument)| (format!("cmd{at}"), argument)));
    query
}

/// Signals that stop this process. With a terminal, Ctrl-C goes to the remote command and does not stop this
/// process.
struct StopSignals {
    interrupt: Option<Signal>,
    others: [(i32, Signal); 3],
}

impl StopSignals {
    fn new(is_tty: bool) -> std::io::Result<Self> {
        let one = |kind: SignalKind| Ok::<_, std::io::Error>((kind.as_raw_value(), signal(kind)?));
        Ok(Self {
            // With a terminal, Ctrl-C is input for the command.
            interrupt: if is_tty {
                None
            } else {
                Some(signal(SignalKind::interrupt())?)
            },
            others: [
                one(SignalKind::terminate())?,
                one(SignalKind::quit())?,
                one(SignalKind::hangup())?,
            ],
        })
    }

    /// Returns the number of the received signal.
    async fn wait(&mut self) -> i32 {
        let [(a, terminate), (b, quit), (c, hangup)] = &mut self.others;
        let interrupted = async {
            match &mut self.interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = terminate.recv() => *a,
            _ = quit.recv() => *b,
            _ = hangup.recv() => *c,
            _ = interrupted => SignalKind::interrupt().as_raw_value(),
        }
    }
}

/// Sends input and receives output concurrently until the session ends.
async fn session(stream: Stream, args: &ShellArgs, terminal: Option<Terminal>) -> anyhow::Result<SessionEnd> {
    let (mut reader, mut writer) = stream.split();
    let input = (args.stdin || args.tty).then(read_input).transpose()?;
    let is_typed = terminal.is_some();
    let end = tokio::select! {
        biased;
        // The reader has priority: a received result counts even if input remains.
        end = receive_output(&mut reader) => end?,
        end = send_input(&mut writer, input, terminal, is_typed) => end?,
    };
    writer.close().await;
    Ok(end)
}

/// Prints the output of the command until its result arrives.
async fn receive_output(reader: &mut StreamReader) -> Result<SessionEnd, ProviderError> {
    let (mut stdout, mut stderr) = (OutputWriter::stdout(), OutputWriter::stderr());
    loop {
        let bytes = match reader.next().await? {
            Some(Data::Binary(bytes)) => bytes,
            Some(Data::Text(_)) => continue,
            None => return Err(reader.interrupted("the provider sent no result of the command".to_owned())),
        };
        let (target, rest) = match bytes.first() {
            Some(&STDOUT) => (&mut stdout, bytes.slice(1..)),
            Some(&STDERR) => (&mut stderr, bytes.slice(1..)),
            Some(&RESULT) => return outcome(reader, &bytes.slice(1..)).map(SessionEnd::Ended),
            Some(&FAILURE) => {
                return Err(reader.failed());
            }
            // Unknown kinds of frames are ignored.
            Some(_) | None => continue,
        };
        if target.write(&rest).await == Err(OutputClosed) {
            return Ok(SessionEnd::Unread);
        }
    }
}

fn outcome(reader: &StreamReader, json: &Bytes) -> Result<ShellExit, ProviderError> {
    serde_json::from_slice(json).map_err(|e| reader.invalid(&format!("invalid command result: {e}")))
}

/// Prints the message of the result and returns the exit code. Code 0 with a message counts as a failure,
/// because some providers report failures in this form.
fn exit_code(outcome: &ShellExit) -> ExitCode {
    if !outcome.message.is_empty() {
        eprintln!("error: {}", shortened(&outcome.message));
    }
    ExitCode::from(code(outcome))
}

fn code(outcome: &ShellExit) -> u8 {
    match (u8::try_from(outcome.exit_code), outcome.message.is_empty()) {
        (Ok(0), false) | (Err(_), _) => NOT_RUN,
        (Ok(code), _) => code,
    }
}

/// Sends input and terminal sizes until the user leaves.
///
/// # Errors
/// Returns an error if the terminal fails.
async fn send_input(
    writer: &mut StreamWriter,
    mut input: Option<mpsc::Receiver<Vec<u8>>>,
    mut terminal: Option<Terminal>,
    is_typed: bool,
) -> anyhow::Result<SessionEnd> {
    let mut escape = Escape::Start;
    loop {
        let frame = tokio::select! {
            // The size has priority: a full-screen program needs it before the first key.
            biased;
            size = sizes(&mut terminal) => match size {
                Ok(size) => size_frame(size),
                Err(error) => return Err(error),
            },
            bytes = inputs(&mut input) => match bytes {
                Some(bytes) if is_typed => match escape.filter(&bytes) {
                    (_, true) => return Ok(SessionEnd::Left),
                    (sent, false) if sent.is_empty() => continue,
                    (sent, false) => framed(STDIN, &sent),
                },
                Some(bytes) => framed(STDIN, &bytes),
                None => {
                    input = None;
                    // The end of a terminal's input is a character (Ctrl-D), which was already sent.
                    if is_typed {
                        continue;
                    }
                    framed(STDIN, &[])
                }
            },
        };
        if !writer.send(frame).await {
            // The reader reports the reason.
            pending::<()>().await;
        }
    }
}

async fn sizes(terminal: &mut Option<Terminal>) -> anyhow::Result<(u16, u16)> {
    match terminal {
        Some(terminal) => terminal.next_size().await,
        None => pending().await,
    }
}

async fn inputs(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(input) => input.recv().await,
        None => pending().await,
    }
}

fn framed(code: u8, bytes: &[u8]) -> Vec<u8> {
    [&[code], bytes].concat()
}

fn size_frame((width, height): (u16, u16)) -> Vec<u8> {
    let ([a, b], [c, d]) = (width.to_be_bytes(), height.to_be_bytes());
    vec![SIZE, a, b, c, d]
}

/// Reads standard input in a thread, because a blocked read cannot be cancelled.
fn read_input() -> anyhow::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
    let reading = move || {
        let mut stdin = std::io::stdin();
        let mut chunk = vec![0; CHUNK];
        loop {
            match stdin.read(&mut chunk) {
                // Dropping the sender signals the end of the input.
                Ok(0) => return,
                Ok(read) => {
                    let bytes = chunk.get(..read).unwrap_or_default().to_vec();
                    if sender.blocking_send(bytes).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot read the standard input, so the remote command receives no more input");
                    return;
                }
            }
        }
    };
    // Not a task: the runtime would wait indefinitely for a blocked read.
    let thread = std::thread::Builder::new()
        .name("input".to_owned())
        .spawn(reading);
    thread.context("cannot start the thread that reads standard input")?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> ShellExit {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn exits_with_the_code_of_the_command_and_never_0_with_a_message() {
        assert_eq!(code(&read(r#"{"exit_code":0}"#)), 0);
        assert_eq!(code(&read(r#"{"exit_code":3}"#)), 3);
        assert_eq!(code(&read(r#"{"exit_code":137,"message":"x"}"#)), 137);
        assert_eq!(code(&read(r#"{"exit_code":0,"message":"does not exist"}"#)), 1);
        assert_eq!(code(&read(r#"{"exit_code":-1}"#)), 1);
        assert_eq!(code(&read(r#"{"exit_code":256}"#)), 1);
    }

    #[test]
    fn encodes_frames_as_the_protocol_requires() {
        assert_eq!(size_frame((100, 40)), [105, 0, 100, 0, 40]);
        assert_eq!(framed(STDIN, b"ls\n"), b"hls\n");
        assert_eq!(framed(STDIN, b""), b"h");
    }
}
