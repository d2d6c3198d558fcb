//! Commands in the container of a service. Each message is a binary frame. The first byte is the type of the message.
//!
//! ```text
//!  100 output   101 errors   102 result, as JSON   103 failure        to the client
//!  104 input    105 terminal size                                     from the client
//! ```

use super::query::ShellRequest;
use super::socket::{StreamClose, StreamSocket};
use crate::App;
use crate::rest::reply::encode;
use akash_provider_core::cluster::ExecIo;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use serde::Serialize;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Mutex, watch};
use tokio_tungstenite::tungstenite::Message;

const STDOUT: u8 = 100;
const STDERR: u8 = 101;
const RESULT: u8 = 102;
const FAILURE: u8 = 103;
const STDIN: u8 = 104;
const SIZE: u8 = 105;

/// Size of the buffer for each direction, in bytes.
const PIPE: usize = 64 * 1024;
/// Maximum number of output bytes in one frame.
const CHUNK: usize = 16 * 1024;
/// Prefix of error messages that the client of the Go provider displays.
const PREFIX: &str = "remote command execute error";
/// Exit code that is reported for a command that could not run.
const NOT_RUN: i32 = 1;

#[derive(Debug, Serialize, PartialEq, Eq)]
struct ShellResult {
    exit_code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum ClientMessage {
    Input(Bytes),
    Size(u16, u16),
    Unknown,
}

fn parse_message(message: &Message) -> ClientMessage {
    let Message::Binary(bytes) = message else {
        return ClientMessage::Unknown;
    };
    match bytes.split_first() {
        Some((&STDIN, _)) => ClientMessage::Input(bytes.slice(1..)),
        Some((&SIZE, &[a, b, c, d])) => {
            ClientMessage::Size(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        _ => ClientMessage::Unknown,
    }
}

fn frame(code: u8, payload: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(payload.len() + 1);
    bytes.put_u8(code);
    bytes.put_slice(payload);
    Message::Binary(bytes.freeze())
}

pub(super) async fn run(app: &App, socket: Box<StreamSocket>, lease: &LeaseId, command: ShellRequest) {
    let Some(shell) = app.cluster.shell() else {
        let text = format!("{PREFIX}: this provider does not support shells");
        let frames = stream::iter([Ok(result(NOT_RUN, Some(text)))]);
        socket.send_all(frames, |_| std::future::ready(())).await;
        return;
    };
    let (stdin_there, stdin_here) = duplex(PIPE);
    let (stdout_there, stdout_here) = duplex(PIPE);
    let (stderr_there, stderr_here) = duplex(PIPE);
    let (size, sizes) = watch::channel(None);
    let io = ExecIo {
        stdin: command.stdin.then(|| Box::new(stdin_there) as _),
        stdout: Box::new(stdout_there),
        stderr: Box::new(stderr_there),
        resize: resizes(sizes),
    };
    // Locked because the handler creates a future for each message. Messages arrive one at a time, so there is no
    // contention.
    let input = command.stdin.then(|| Arc::new(Mutex::new(stdin_here)));
    let outcome = async {
        match shell.exec(lease, command.request, io).await {
            Ok(code) => result(code, None),
            Err(error) => failed(app, lease, &app.settled("exec", error).await).await,
        }
    };
    let frames = until_over(output(STDOUT, stdout_here), output(STDERR, stderr_here), outcome);
    let on_message = |message: Message| {
        let message = parse_message(&message);
        let (input, size) = (input.clone(), size.clone());
        async move { take(message, input, &size).await }
    };
    socket.send_all(frames, on_message).await;
}

/// Merges the frames of standard output and standard error, and appends the result of the command.
fn until_over<'a>(
    stdout: impl Stream<Item = Message> + Send + 'a,
    stderr: impl Stream<Item = Message> + Send + 'a,
    outcome: impl Future<Output = Message> + Send + 'a,
) -> impl Stream<Item = Result<Message, StreamClose>> + Send + 'a {
    // The command runs while its output is read, so both are polled together.
    let output = stream::select(stdout, stderr).map(Some);
    let over = outcome.into_stream().map(|m| (true, Some(m)));
    let merged = stream::select(output.map(|m| (false, m)), over);
    let mut last = None;
    let mut merged = Box::pin(merged);
    stream::poll_fn(move |context| {
        loop {
            match merged.poll_next_unpin(context) {
                // Delayed: the command may end before the last of its output is read from the pipes.
                std::task::Poll::Ready(Some((true, outcome))) => last = outcome,
                std::task::Poll::Ready(Some((false, message))) => {
                    return std::task::Poll::Ready(message.map(Ok));
                }
                std::task::Poll::Ready(None) => return std::task::Poll::Ready(last.take().map(Ok)),
                std::task::Poll::Pending => return std::task::Poll::Pending,
            }
        }
    })
}

fn output(code: u8, from: impl AsyncRead + Send + Unpin) -> impl Stream<Item = Message> + Send {
    stream::unfold((from, vec![0; CHUNK]), move |(mut from, mut buffer)| async move {
        let read = from.read(&mut buffer).await.ok()?;
        let bytes = buffer.get(..read).filter(|b| !b.is_empty())?;
        let message = frame(code, bytes);
        Some((message, (from, buffer)))
    })
}

/// Returns a stream of terminal sizes. Outdated sizes are skipped.
fn resizes(sizes: watch::Receiver<Option<(u16, u16)>>) -> BoxStream<'static, (u16, u16)> {
    stream::unfold(sizes, |mut sizes| async move {
        loop {
            sizes.changed().await.ok()?;
            let newest = *sizes.borrow_and_update();
            if let Some(size) = newest {
                return Some((size, sizes));
            }
        }
    })
    .boxed()
}

async fn take(
    message: ClientMessage,
    input: Option<Arc<Mutex<DuplexStream>>>,
    size: &watch::Sender<Option<(u16, u16)>>,
) {
    match (message, input) {
        (ClientMessage::Input(bytes), Some(input)) => {
            let mut input = input.lock().await;
            // A command may end before it has read everything.
            let written = if bytes.is_empty() {
                input.shutdown().await
            } else {
                input.write_all(&bytes).await
            };
            if let Err(error) = written {
                tracing::trace!(%error, "command closed its input");
            }
        }
        (ClientMessage::Size(width, height), Some(_)) => {
            // Replaces an unread size: while a window is dragged, only its last size matters.
            size.send_replace(Some((width, height)));
        }
        (ClientMessage::Input(_) | ClientMessage::Size(..), None) | (ClientMessage::Unknown, _) => {}
    }
}

fn result(exit_code: i32, message: Option<String>) -> Message {
    let mut text = encode(&ShellResult { exit_code, message });
    text.push('\n');
    frame(RESULT, text.as_bytes())
}

/// Returns the message for a command that did not run. The message contains the exit code [`NOT_RUN`] and the
/// reason. For a reason that the client must not see, returns an empty message of the type [`FAILURE`].
async fn failed(app: &App, lease: &LeaseId, error: &Error) -> Message {
    let is_reason = match error.kind() {
        ErrorKind::Invalid | ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::Timeout => true,
        // A missing lease is not revealed.
        ErrorKind::NotFound => app.has_workload(lease).await,
        _ => false,
    };
    if is_reason {
        return result(NOT_RUN, Some(format!("{PREFIX}: {}", error.message())));
    }
    tracing::debug!(%lease, "{}", akash_provider_core::error::chain_text(error));
    frame(FAILURE, &[])
}

#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(input: &[u8], config: &tokio_tungstenite::tungstenite::protocol::WebSocketConfig) {
    use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket};
    /// Simulated socket: reads return the slice, and written bytes are discarded.
    struct FuzzSocket<'a>(&'a [u8]);
    impl std::io::Read for FuzzSocket<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            std::io::Read::read(&mut self.0, into)
        }
    }
    impl std::io::Write for FuzzSocket<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let check = |message: &Message| match parse_message(message) {
        ClientMessage::Input(bytes) => assert_eq!(bytes.len() + 1, message.len()),
        ClientMessage::Size(..) => assert_eq!(message.len(), 5),
        ClientMessage::Unknown => {}
    };
    check(&Message::Binary(Bytes::copy_from_slice(input)));
    let mut socket = WebSocket::from_raw_socket(FuzzSocket(input), Role::Server, Some(*config));
    // Ends with an error when the input ends, at the latest.
    while let Ok(message) = socket.read() {
        assert!(config.max_message_size.is_none_or(|most| message.len() <= most));
        check(&message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_frames_are_input_sizes_or_ignored() {
        let binary = |bytes: &[u8]| parse_message(&Message::Binary(Bytes::copy_from_slice(bytes)));
        assert_eq!(
            binary(b"hls\n"),
            ClientMessage::Input(Bytes::from_static(b"ls\n"))
        );
        assert_eq!(binary(&[105, 0, 100, 0, 40]), ClientMessage::Size(100, 40));
        for bytes in [&[][..], &[105, 0, 1], &[105, 0, 1, 2, 3, 4], &[100, 1], &[1, 2]] {
            assert_eq!(binary(bytes), ClientMessage::Unknown, "{bytes:?}");
        }
        assert_eq!(parse_message(&Message::text("hls")), ClientMessage::Unknown);
    }

    #[test]
    fn a_result_has_the_format_of_the_go_provider() {
        assert_eq!(result(3, None), frame(102, b"{\"exit_code\":3}\n"));
        let with = result(1, Some("a > b".into()));
        assert_eq!(
            with,
            frame(102, b"{\"exit_code\":1,\"message\":\"a \\u003e b\"}\n")
        );
    }

    #[tokio::test]
    async fn the_outcome_comes_after_all_output() {
        let output = |code| stream::iter([frame(code, b"a"), frame(code, b"b")]);
        let outcome = std::future::ready(result(0, None));
        let all: Vec<_> = until_over(output(STDOUT), output(STDERR), outcome)
            .collect()
            .await;
        assert_eq!(all.len(), 5);
        assert_eq!(all[4], Ok(result(0, None)));
    }
}
