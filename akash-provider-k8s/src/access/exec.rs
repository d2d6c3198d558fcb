//! Commands inside a running service.

mod hangup;

pub(super) use hangup::Tools;

use super::Access;
use super::pods::{Replica, Unreachable, pick};
use crate::error::from_kube;
use akash_provider_core::cluster::{ExecIo, ExecRequest};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use futures::stream::BoxStream;
use futures::{SinkExt, StreamExt};
use hangup::Session;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy};
use tokio::time::timeout;

/// Operation name in the errors of [`Access::exec`]. Tenant clients print this text, followed by the reason.
const EXEC: &str = "remote command execute error";
/// Buffer size in each direction, in bytes.
const BUFFER: usize = 64 * 1024;
/// Texts of container runtimes for an executable that does not exist.
const EXECUTABLE_MISSING: [&str; 3] = [
    "executable file not found",
    "no such file or directory",
    "not found in $PATH",
];

fn refused(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, EXEC, message)
}

impl From<Unreachable> for Error {
    fn from(why: Unreachable) -> Self {
        let kind = match why {
            Unreachable::NoService | Unreachable::OutOfRange(_) => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        refused(kind, why.to_string())
    }
}

impl Access {
    /// Runs a command and returns its exit code. Dropping the future closes the connection.
    ///
    /// # Errors
    /// `NotFound` for an unknown lease, service or replica. `Unavailable` if the replica is not ready or the
    /// connection breaks. `Invalid` for an empty command or a missing executable. An exit code always comes from
    /// the command.
    pub async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error> {
        self.check(EXEC, lease, &[])?;
        if request.command.is_empty() {
            return Err(refused(ErrorKind::Invalid, "the command is empty"));
        }
        let view = self.state.lease(lease);
        let replica = pick(&view, &request.service, request.replica)?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &lease.namespace());
        let params = AttachParams {
            container: replica.container.clone(),
            stdin: io.stdin.is_some(),
            stdout: true,
            // A terminal has a single output stream; the API server rejects stderr with a terminal.
            stderr: !request.tty,
            tty: request.tty,
            max_stdin_buf_size: Some(BUFFER),
            max_stdout_buf_size: Some(BUFFER),
            max_stderr_buf_size: Some(BUFFER),
        };
        let command = &request.command;
        let mut session = Session::new(self, lease.namespace(), replica.clone(), command).await?;
        let begun = pods.exec(&replica.name, session.command(command), &params);
        let process = match timeout(self.command_start_timeout, begun).await {
            Ok(Ok(process)) => process,
            Ok(Err(error)) => {
                // The command did not start, so there is nothing to stop.
                session.over();
                return Err(not_started(error));
            }
            // The command may have started: dropping the session stops it.
            Err(_) => return Err(too_slow(self.command_start_timeout)),
        };
        let status = converse(process, io, request.tty).await?;
        session.over();
        match outcome(&status)? {
            code if session.is_missing(code, command).await => Err(no_such_command()),
            code => Ok(code),
        }
    }
}

/// Runs a command of the provider itself, without input and with little output.
async fn run(access: &Access, namespace: &str, replica: &Replica, command: &[&str]) -> kube::Result<Status> {
    let pods: Api<Pod> = Api::namespaced(access.client.clone(), namespace);
    let params = AttachParams {
        container: replica.container.clone(),
        ..AttachParams::default()
    };
    let mut process = pods.exec(&replica.name, command.iter().copied(), &params).await?;
    let ended = match process.take_status() {
        Some(status) => status.await,
        None => None,
    };
    Ok(ended.unwrap_or_default())
}

fn not_started(error: kube::Error) -> Error {
    match &error {
        kube::Error::Api(status) if is_executable_missing(&status.message) => no_such_command(),
        kube::Error::Api(status) if status.code == 404 => Unreachable::NotRunning.into(),
        _ => from_kube(EXEC, error),
    }
}

fn is_executable_missing(message: &str) -> bool {
    EXECUTABLE_MISSING.iter().any(|text| message.contains(text))
}

fn too_slow(limit: Duration) -> Error {
    let message = format!("the command did not start within {limit:?}; try again");
    refused(ErrorKind::Timeout, message)
}

fn no_such_command() -> Error {
    let message = "command could not be executed because it does not exist";
    refused(ErrorKind::Invalid, message)
}

/// Copies input and output until the command ends. Returns the final status of the command.
async fn converse(mut process: AttachedProcess, io: ExecIo, tty: bool) -> Result<Status, Error> {
    let broken = || refused(ErrorKind::Unavailable, "command execution failed");
    let status = process.take_status().ok_or_else(broken)?;
    let stdout = deliver(process.stdout(), io.stdout);
    let stderr = deliver(process.stderr(), io.stderr);
    let stdin = feed(io.stdin, process.stdin(), tty);
    let resize = resize(io.resize, process.terminal_size());
    let output = async { tokio::try_join!(stdout, stderr) };
    let input = async { tokio::join!(stdin, resize) };
    let mut input = Box::pin(input);
    let mut output = Box::pin(output);
    let mut fed = false;
    // The end of the output ends the command: the input may never end.
    loop {
        tokio::select! {
            done = &mut output => {
                done.map_err(|e| {
                    refused(ErrorKind::Unavailable, "the reader of the output disconnected").with_source(e)
                })?;
                break;
            }
            _ = &mut input, if !fed => fed = true,
        }
    }
    status.await.ok_or_else(broken)
}

/// Copies output to its reader.
async fn deliver(
    from: Option<impl AsyncRead + Unpin>,
    mut to: Box<dyn AsyncWrite + Send + Unpin>,
) -> std::io::Result<()> {
    let Some(mut from) = from else {
        return Ok(());
    };
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = tokio::io::AsyncReadExt::read(&mut from, &mut buffer).await?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        to.write_all(bytes).await?;
        // A prompt has no newline and must be shown at once.
        to.flush().await?;
    }
}

/// Copies input to the command, and closes the command's input after the last byte. The input of a terminal
/// stays open, because a closed input would end the output.
async fn feed(
    from: Option<Box<dyn AsyncRead + Send + Unpin>>,
    to: Option<impl AsyncWrite + Unpin>,
    tty: bool,
) {
    let (Some(mut from), Some(mut to)) = (from, to) else {
        return;
    };
    // The command may end before it has read all input.
    let _ = copy(&mut from, &mut to).await;
    if tty {
        std::future::pending::<()>().await;
    }
    let _ = to.shutdown().await;
}

async fn resize(
    mut sizes: BoxStream<'static, (u16, u16)>,
    to: Option<impl futures::Sink<TerminalSize> + Unpin>,
) {
    let Some(mut to) = to else { return };
    while let Some((width, height)) = sizes.next().await {
        if to.send(TerminalSize { width, height }).await.is_err() {
            return;
        }
    }
}

/// Returns the exit code in a final status.
fn outcome(status: &Status) -> Result<i32, Error> {
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|d| d.causes.iter().flatten());
    let mut codes = causes.filter(|c| c.reason.as_deref() == Some("ExitCode"));
    let code = codes.find_map(|c| c.message.as_deref()?.parse::<i32>().ok());
    let message = status.message.as_deref().unwrap_or_default();
    match code {
        // Some runtimes report a missing executable with the exit code of a shell.
        Some(126 | 127) if is_executable_missing(message) => Err(no_such_command()),
        Some(0) | None if is_executable_missing(message) => Err(no_such_command()),
        Some(code) if code != 0 => Ok(code),
        _ => {
            let text = format!("command execution failed: {message}");
            // The command may have run: a retry could run it twice.
            Err(refused(ErrorKind::Unavailable, text.trim_end_matches(": ")).permanent())
        }
    }
}

#[cfg(test)]
mod tests;
