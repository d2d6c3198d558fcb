//! A process in its own process group with bounded output. The process ends when its call ends.

use nix::sys::signal::Signal;
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// Maximum size of standard output, in bytes.
pub(super) const STDOUT_LIMIT: usize = 64 * 1024;
/// Maximum number of bytes that are stored from the end of standard error.
const STDERR_KEPT: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct ProcessOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// Last part of the standard error.
    pub(super) stderr: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum RunError {
    Start(io::Error),
    Io(io::Error),
    TooMuchOutput,
}

/// Names of the environment variables that a script receives from the provider.
const PASSED: [&str; 22] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "AKASH_CHAIN_ID",
    "WHITELIST_URL",
    "DEBUG_BID_SCRIPT",
];
/// Prefixes of environment variables that a script receives in addition to [`PASSED`].
const PASSED_PREFIXES: [&str; 2] = ["PRICE_", "LC_"];

/// Returns the environment variables of the provider that a script receives. Other variables can contain keys
/// and passphrases.
fn inherited(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    environment.filter(|(name, _)| name.to_str().is_some_and(is_passed))
}

/// Returns whether a script receives the provider's environment variable `name`.
pub(super) fn is_passed(name: &str) -> bool {
    PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Runs a program: writes `input`, reads the output, and waits until the program closes its output and exits.
///
/// If the future is dropped or an error occurs, the whole process group is killed. A supervisor also kills
/// descendants that have left the group.
///
/// The process is reaped only after its outputs are closed. Until then, the process id is not reused, so no
/// unrelated process group is killed.
pub(super) async fn run<'a>(
    program: &Path,
    supervisor: &[OsString],
    environment: impl Iterator<Item = (&'a str, &'a str)>,
    input: Vec<u8>,
) -> Result<ProcessOutput, RunError> {
    if !supervisor.is_empty() {
        // Checked here, because otherwise the supervisor would report the failure as a failure of the script.
        is_executable(program).map_err(RunError::Start)?;
    }
    let mut words = supervisor
        .iter()
        .map(OsString::as_os_str)
        .chain([program.as_os_str()]);
    let first = words.next().unwrap_or_default();
    let mut command = CommandWrap::with_new(first, |command| {
        command
            .args(words)
            .env_clear()
            .envs(inherited(std::env::vars_os()))
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    let child = command
        .wrap(ProcessGroup::leader())
        .spawn()
        .map_err(RunError::Start)?;
    let mut group = ScriptGroup {
        child,
        is_supervised: !supervisor.is_empty(),
        ended: false,
    };
    let stdin = group.child.stdin().take();
    let stdout = group.child.stdout().take();
    let stderr = group.child.stderr().take();

    let write = async {
        if let Some(mut stdin) = stdin {
            // A script can ignore its input; the broken pipe is not a failure.
            let _ = stdin.write_all(&input).await;
        }
    };
    let read = async {
        // Concurrently, because a script that fills one pipe waits until the pipe is read.
        let (stdout, stderr) = tokio::try_join!(read_all(stdout), read_end(stderr))?;
        let status = group.child.wait().await.map_err(RunError::Io)?;
        Ok(ProcessOutput {
            status,
            stdout,
            stderr,
        })
    };
    tokio::pin!(read);
    // The output counts, also if the script did not read its input.
    let outcome = tokio::select! {
        biased;
        outcome = &mut read => outcome,
        () = write => read.await,
    }?;
    group.ended = true;
    Ok(outcome)
}

fn is_executable(program: &Path) -> io::Result<()> {
    let mode = program.metadata()?.permissions().mode();
    if mode & 0o111 == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

/// Process group of a program. Dropping the value kills the group, unless `ended` is true.
struct ScriptGroup {
    child: Box<dyn ChildWrapper>,
    is_supervised: bool,
    ended: bool,
}

impl Drop for ScriptGroup {
    fn drop(&mut self) {
        if !self.ended {
            // Fails only if the group has no process left. The runtime reaps the exit status.
            let _ = match self.child.id().map(i32::try_from) {
                // Not SIGKILL, because the supervisor must kill the processes that have left the group.
                Some(Ok(id)) if self.is_supervised => {
                    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM)
                        .map_err(io::Error::from)
                }
                _ => self.child.start_kill(),
            };
        }
    }
}

async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, RunError> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // One byte more detects a too long output.
        let one_more = u64::try_from(STDOUT_LIMIT).unwrap_or(u64::MAX).saturating_add(1);
        pipe.take(one_more)
            .read_to_end(&mut bytes)
            .await
            .map_err(RunError::Io)?;
    }
    if bytes.len() > STDOUT_LIMIT {
        Err(RunError::TooMuchOutput)
    } else {
        Ok(bytes)
    }
}

async fn read_end(pipe: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, RunError> {
    let mut end = Vec::new();
    let Some(mut pipe) = pipe else {
        return Ok(end);
    };
    while pipe.read_buf(&mut end).await.map_err(RunError::Io)? > 0 {
        // Truncated only at twice the size, so that not every read moves the stored text.
        if end.len() > 2 * STDERR_KEPT {
            end.drain(..end.len() - STDERR_KEPT);
        }
    }
    end.drain(..end.len().saturating_sub(STDERR_KEPT));
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_receives_no_secret_of_the_provider() {
        let all = [
            "PATH",
            "LC_ALL",
            "TZ",
            "PRICE_TARGET_CPU",
            "WHITELIST_URL",
            "AKASH_CHAIN_ID",
            "AP_KEY_MNEMONIC",
            "AKASH_KEY_MNEMONIC",
            "AP_KEYRING_PASSPHRASE",
            "AKASH_KEYRING_PASSPHRASE",
            "AP_KEY_PASSPHRASE_FILE",
            "AKASH_NODE",
            "AWS_SECRET_ACCESS_KEY",
            "KUBECONFIG",
            "LD_PRELOAD",
            "price_target_cpu",
        ];
        let environment = all.iter().map(|name| (OsString::from(name), OsString::from("x")));
        let passed: Vec<_> = inherited(environment).map(|(name, _)| name).collect();
        assert_eq!(passed, all[..6]);
    }
}
