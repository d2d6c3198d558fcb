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

/// What tenants' tools show before the reason.
const EXEC: &str = "remote command execute error";
/// Bytes that wait in each direction.
const BUFFER: usize = 64 * 1024;
/// What container runtimes say of a command that is not there.
const NOT_THERE: [&str; 3] = [
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
    /// Runs a command until it ends; its exit code. Dropping the future ends the connection.
    ///
    /// # Errors
    /// `NotFound` for a lease, service or replica that is unknown, `Unavailable` where the replica is not ready
    /// or the connection broke, `Invalid` for a command that is empty or not there. Never an exit code that
    /// the command did not give.
    pub async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error> {
        self.check(EXEC, lease, &[])?;
        if request.command.is_empty() {
            return Err(refused(ErrorKind::Invalid, "there is no command"));
        }
        let view = self.state.lease(lease);
        let replica = pick(&view, &request.service, request.replica)?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &lease.namespace());
        let params = AttachParams {
            container: replica.container.clone(),
            stdin: io.stdin.is_some(),
            stdout: true,
            // A terminal has one output; the API server refuses both.
            stderr: !request.tty,
            tty: request.tty,
            max_stdin_buf_size: Some(BUFFER),
            max_stdout_buf_size: Some(BUFFER),
            max_stderr_buf_size: Some(BUFFER),
        };
        let command = &request.command;
        let mut session = Session::begin(self, lease.namespace(), replica.clone(), command).await?;
        let begun = pods.exec(&replica.name, session.command(command), &params);
        let process = match timeout(self.command_start_timeout, begun).await {
            Ok(Ok(process)) => process,
            Ok(Err(error)) => {
                // Nothing began, so there is nothing to end.
                session.over();
                return Err(not_begun(error));
            }
            // It may have begun all the same: dropping the session ends it.
            Err(_) => return Err(too_slow(self.command_start_timeout)),
        };
        let status = converse(process, io, request.tty).await?;
        session.over();
        match outcome(&status)? {
            code if session.lacks(code, command).await => Err(no_such_command()),
            code => Ok(code),
        }
    }
}

/// Runs a command of our own that has no input and prints next to nothing; how it ended.
async fn ask(access: &Access, namespace: &str, replica: &Replica, command: &[&str]) -> kube::Result<Status> {
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

/// The API server did not begin the command.
fn not_begun(error: kube::Error) -> Error {
    match &error {
        kube::Error::Api(status) if is_not_there(&status.message) => no_such_command(),
        kube::Error::Api(status) if status.code == 404 => Unreachable::NotRunning.into(),
        _ => from_kube(EXEC, error),
    }
}

fn is_not_there(message: &str) -> bool {
    NOT_THERE.iter().any(|text| message.contains(text))
}

fn too_slow(limit: Duration) -> Error {
    let message = format!("the command did not begin within {limit:?}; try again");
    refused(ErrorKind::Timeout, message)
}

fn no_such_command() -> Error {
    let message = "command could not be executed because it does not exist";
    refused(ErrorKind::Invalid, message)
}

/// Moves bytes until the command ends; what the server says of its end.
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
    // The output decides when it is over: the input may never end.
    loop {
        tokio::select! {
            done = &mut output => {
                done.map_err(|e| {
                    refused(ErrorKind::Unavailable, "the reader of the command is gone").with_source(e)
                })?;
                break;
            }
            _ = &mut input, if !fed => fed = true,
        }
    }
    status.await.ok_or_else(broken)
}

/// Output to whoever reads it; an error when nobody does.
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
        // A prompt has no line end and must be seen at once.
        to.flush().await?;
    }
}

/// Input to the command, and its end. A terminal has no end: closing it would lose its output, and who types
/// has a key for it.
async fn feed(
    from: Option<Box<dyn AsyncRead + Send + Unpin>>,
    to: Option<impl AsyncWrite + Unpin>,
    tty: bool,
) {
    let (Some(mut from), Some(mut to)) = (from, to) else {
        return;
    };
    // A command may end before it read everything.
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

/// The exit code that a final status gives.
fn outcome(status: &Status) -> Result<i32, Error> {
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|d| d.causes.iter().flatten());
    let mut codes = causes.filter(|c| c.reason.as_deref() == Some("ExitCode"));
    let code = codes.find_map(|c| c.message.as_deref()?.parse::<i32>().ok());
    let message = status.message.as_deref().unwrap_or_default();
    match code {
        // Some runtimes say it with the code of a shell.
        Some(126 | 127) if is_not_there(message) => Err(no_such_command()),
        Some(0) | None if is_not_there(message) => Err(no_such_command()),
        Some(code) if code != 0 => Ok(code),
        _ => {
            let text = format!("command execution failed: {message}");
            // It may have run: trying again could do it twice.
            Err(refused(ErrorKind::Unavailable, text.trim_end_matches(": ")).permanent())
        }
    }
}

#[cfg(test)]
mod tests;
