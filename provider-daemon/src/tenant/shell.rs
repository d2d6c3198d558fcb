//! `lease-shell`: a command in a service, with this terminal or without. Its exit code is ours.
//!
//! ```text
//!  100 output   101 errors   102 result, as JSON   103 failure        from the provider
//!  104 input    105 terminal size                                     to the provider
//! ```

mod escape;
mod terminal;
mod words;

use super::client::Ask;
use super::lease::Tenant;
use super::lease_status::lease_path;
use super::output::{Gone, Output};
use super::stream::{Heard, Hearing, Speaking, Stream};
use super::trouble::{Trouble, shortened};
use crate::args::tenant::ShellArgs;
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

/// Bytes of input in one frame.
const CHUNK: usize = 4096;
/// Chunks of input that wait for the provider.
const WAITING: usize = 16;
/// What shells add to the number of a signal that ended something.
const BY_SIGNAL: i32 = 128;
/// What shells say of a command that could not be run.
const NOT_RUN: u8 = 1;
/// What ssh says of a session that was left.
const LEFT: u8 = 255;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Outcome {
    #[serde(default)]
    exit_code: i64,
    #[serde(default)]
    message: String,
}

/// How the session ended.
#[derive(Debug)]
enum Over {
    /// The command ended; its exit code becomes that of this process.
    Ended(Outcome),
    /// Nobody reads its output any more.
    Unread,
    /// We were told to stop.
    Stopped(i32),
    /// Whoever typed has left; the command may go on.
    Left,
}

pub(super) async fn run(args: &ShellArgs, home: &Path) -> anyhow::Result<ExitCode> {
    // Before anything is asked: a command that cannot be sent needs no provider.
    let words = words::of(&args.command)?;
    let terminal = args.tty.then(Terminal::of_process).transpose()?;
    let tenant = Tenant::of(&args.lease.access, home).await?;
    let lease = the_lease(&tenant, args).await?;
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(&lease);
    let path: Vec<&str> = ids.iter().map(String::as_str).chain(["shell"]).collect();
    let query = query(args, words);
    let ask = Ask {
        query: &query,
        ..Ask::get(&path, Scope::Shell)
    };
    let stream = client.open(ask).await?;
    // Signals are heard before the terminal is raw: one in between would leave it so.
    let mut stop = Stop::new(args.tty)?;
    if terminal.is_some() {
        eprintln!("{}", escape::HINT);
    }
    // From here on the terminal is the command's; it is given back when this goes out of scope, whatever happens.
    let raw = terminal.as_ref().map(Terminal::raw).transpose()?;
    let over = tokio::select! {
        biased;
        signal = stop.wait() => Ok(Over::Stopped(signal)),
        over = session(stream, args, terminal) => over,
    };
    // Given back before anything is printed: in a raw terminal the end of a line does not go to its beginning.
    drop(raw);
    Ok(match over? {
        Over::Ended(outcome) => exit_code(&outcome),
        Over::Unread => ExitCode::SUCCESS,
        Over::Left => {
            eprintln!("left; what runs there may go on");
            ExitCode::from(LEFT)
        }
        Over::Stopped(signal) => {
            eprintln!("stopped by signal {signal}");
            ExitCode::from(u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX))
        }
    })
}

/// A shell is in one lease.
async fn the_lease(tenant: &Tenant, args: &ShellArgs) -> anyhow::Result<LeaseId> {
    if let Some(provider) = &args.lease.provider {
        return tenant.lease(&args.lease, provider).await;
    }
    let leases = tenant.leases(&args.lease).await?;
    if let [one] = leases.as_slice() {
        return Ok(one.clone());
    }
    let all: Vec<String> = leases.iter().map(ToString::to_string).collect();
    bail!(
        "the deployment has several leases: say with --provider, --gseq and --oseq in which one\n  {}",
        all.join("\n  ")
    )
}

fn query(args: &ShellArgs, words: Vec<String>) -> Vec<(String, String)> {
    let flag = |is_set: bool| if is_set { "1" } else { "0" }.to_owned();
    let mut query = vec![
        ("service".to_owned(), args.service.clone()),
        ("podIndex".to_owned(), args.replica_index.to_string()),
        ("tty".to_owned(), flag(args.tty)),
        ("stdin".to_owned(), flag(args.stdin || args.tty)),
    ];
    let numbered = words.into_iter().enumerate();
    query.extend(numbered.map(|(at, word)| (format!("cmd{at}"), word)));
    query
}

/// Signals that end a command; the terminal's own go to the command as input.
struct Stop {
    interrupt: Option<Signal>,
    others: [(i32, Signal); 3],
}

impl Stop {
    fn new(is_tty: bool) -> std::io::Result<Self> {
        let one = |kind: SignalKind| Ok::<_, std::io::Error>((kind.as_raw_value(), signal(kind)?));
        Ok(Self {
            // With a terminal Ctrl-C is a key like others, and goes to the command.
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

    /// The number of the signal that came.
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

/// Both directions side by side: a command that writes while it is written to must not stand still.
async fn session(stream: Stream, args: &ShellArgs, terminal: Option<Terminal>) -> anyhow::Result<Over> {
    let (mut hearing, mut speaking) = stream.split();
    let input = (args.stdin || args.tty).then(read_input).transpose()?;
    let is_typed = terminal.is_some();
    let over = tokio::select! {
        biased;
        // Hearing first: a result that has come counts although there is more to send.
        over = listen(&mut hearing) => over?,
        over = talk(&mut speaking, input, terminal, is_typed) => over?,
    };
    speaking.goodbye().await;
    Ok(over)
}

/// Shows what the command writes until its result comes.
async fn listen(hearing: &mut Hearing) -> Result<Over, Trouble> {
    let (mut stdout, mut stderr) = (Output::stdout(), Output::stderr());
    loop {
        let bytes = match hearing.next().await? {
            Some(Heard::Binary(bytes)) => bytes,
            Some(Heard::Text(_)) => continue,
            None => return Err(hearing.cut("the command's result did not come".to_owned())),
        };
        let (shown, rest) = match bytes.first() {
            Some(&STDOUT) => (&mut stdout, bytes.slice(1..)),
            Some(&STDERR) => (&mut stderr, bytes.slice(1..)),
            Some(&RESULT) => return outcome(hearing, &bytes.slice(1..)).map(Over::Ended),
            Some(&FAILURE) => {
                return Err(hearing.failed());
            }
            // Kinds of frames that this version does not know.
            Some(_) | None => continue,
        };
        if shown.show(&rest).await == Err(Gone) {
            return Ok(Over::Unread);
        }
    }
}

fn outcome(hearing: &Hearing, json: &Bytes) -> Result<Outcome, Trouble> {
    serde_json::from_slice(json).map_err(|e| hearing.strange(&format!("a result that is none: {e}")))
}

/// Some providers say 0 of a command that did not run, and tell so in words alone.
fn exit_code(outcome: &Outcome) -> ExitCode {
    if !outcome.message.is_empty() {
        eprintln!("error: {}", shortened(&outcome.message));
    }
    ExitCode::from(code(outcome))
}

fn code(outcome: &Outcome) -> u8 {
    match (u8::try_from(outcome.exit_code), outcome.message.is_empty()) {
        (Ok(0), false) | (Err(_), _) => NOT_RUN,
        (Ok(code), _) => code,
    }
}

/// Sends input and sizes of the terminal; returns when whoever types leaves.
///
/// # Errors
/// It cannot be gone on with.
async fn talk(
    speaking: &mut Speaking,
    mut input: Option<mpsc::Receiver<Vec<u8>>>,
    mut terminal: Option<Terminal>,
    is_typed: bool,
) -> anyhow::Result<Over> {
    let mut escape = Escape::Start;
    loop {
        let frame = tokio::select! {
            // The size first, so that a command that draws knows it before the first key.
            biased;
            size = sizes(&mut terminal) => match size {
                Ok(size) => size_frame(size),
                Err(error) => return Err(error),
            },
            bytes = inputs(&mut input) => match bytes {
                Some(bytes) if is_typed => match escape.of(&bytes) {
                    (_, true) => return Ok(Over::Left),
                    (sent, false) if sent.is_empty() => continue,
                    (sent, false) => framed(STDIN, &sent),
                },
                Some(bytes) => framed(STDIN, &bytes),
                None => {
                    input = None;
                    // A terminal has no end of its own: that is a character like others.
                    if is_typed {
                        continue;
                    }
                    framed(STDIN, &[])
                }
            },
        };
        if !speaking.say(frame).await {
            // Whoever listens will hear why.
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

/// Reads standard input on a thread of its own, which nothing but the end of the program can end while it waits.
fn read_input() -> anyhow::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let reading = move || {
        let mut stdin = std::io::stdin();
        let mut chunk = vec![0; CHUNK];
        loop {
            match stdin.read(&mut chunk) {
                // The channel ends with its sender, which is how the end of the input is told.
                Ok(0) => return,
                Ok(read) => {
                    let bytes = chunk.get(..read).unwrap_or_default().to_vec();
                    if sender.blocking_send(bytes).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!("standard input ends: {error}");
                    return;
                }
            }
        }
    };
    // No task of the runtime, which would have one that waits for input for ever.
    let thread = std::thread::Builder::new()
        .name("input".to_owned())
        .spawn(reading);
    thread.context("a thread that reads standard input")?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Outcome {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_exit_code_is_the_command_s_and_never_0_with_a_reason() {
        assert_eq!(code(&read(r#"{"exit_code":0}"#)), 0);
        assert_eq!(code(&read(r#"{"exit_code":3}"#)), 3);
        assert_eq!(code(&read(r#"{"exit_code":137,"message":"x"}"#)), 137);
        assert_eq!(code(&read(r#"{"exit_code":0,"message":"does not exist"}"#)), 1);
        assert_eq!(code(&read(r#"{"exit_code":-1}"#)), 1);
        assert_eq!(code(&read(r#"{"exit_code":256}"#)), 1);
    }

    #[test]
    fn frames_are_the_network_s() {
        assert_eq!(size_frame((100, 40)), [105, 0, 100, 0, 40]);
        assert_eq!(framed(STDIN, b"ls\n"), b"hls\n");
        assert_eq!(framed(STDIN, b""), b"h");
    }
}
