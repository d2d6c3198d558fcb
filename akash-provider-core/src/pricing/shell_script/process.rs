//! One process in a group of its own, with bounded output, that does not outlive the call that runs it.

use nix::sys::signal::Signal;
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// Most that is read of standard output, in bytes. A price has some forty digits; the rest is for blanks.
pub(super) const STDOUT_LIMIT: usize = 64 * 1024;
/// Most that is kept of standard error, in bytes; of more, the end.
const STDERR_KEPT: usize = 4 * 1024;

/// How a process ended.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// The end of it.
    pub(super) stderr: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum RunError {
    Start(io::Error),
    Io(io::Error),
    TooMuchOutput,
}

/// Variables of the provider that a script gets: what programs need to run at all and to reach the network, and what
/// the scripts of the network's operators read.
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
/// What a variable that is meant for scripts may begin with, besides the parts of the locale.
const PASSED_PREFIXES: [&str; 2] = ["PRICE_", "LC_"];

/// What a script gets of the provider's own environment: a list of what is allowed, because the rest holds keys and
/// passphrases, and nobody knows all of their names.
fn inherited(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    environment.filter(|(name, _)| name.to_str().is_some_and(is_passed))
}

/// True for the name of a variable that a script gets.
pub(super) fn is_passed(name: &str) -> bool {
    PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Runs a program: writes `input` while it takes it, reads what it prints, and waits until its outputs are
/// closed and it has exited. Dropped before the end, or ended by an error, it kills the whole process group; a
/// supervisor before the program kills everything that the program started.
///
/// The process is waited for only after its outputs are closed. Until then it keeps its id even when it has
/// exited, so the group that is killed is never another one that got the same number.
pub(super) async fn run(
    program: &Path,
    supervisor: &[OsString],
    environment: [(&str, &str); 2],
    input: Vec<u8>,
) -> Result<Outcome, RunError> {
    if !supervisor.is_empty() {
        // Otherwise the supervisor reports it as a failure of the script.
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
    let mut group = Group {
        child,
        is_supervised: !supervisor.is_empty(),
        ended: false,
    };
    let stdin = group.child.stdin().take();
    let stdout = group.child.stdout().take();
    let stderr = group.child.stderr().take();

    let write = async {
        if let Some(mut stdin) = stdin {
            // A script need not read its input; then the pipe breaks, which is no failure.
            let _ = stdin.write_all(&input).await;
        }
    };
    let read = async {
        // Both at once, because a script that fills one of them waits until it is read.
        let (stdout, stderr) = tokio::try_join!(read_all(stdout), read_end(stderr))?;
        let status = group.child.wait().await.map_err(RunError::Io)?;
        Ok(Outcome {
            status,
            stdout,
            stderr,
        })
    };
    tokio::pin!(read);
    // What it printed counts, be it that it never read its input.
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

/// A process group that is killed when it is dropped before it has ended.
struct Group {
    child: Box<dyn ChildWrapper>,
    is_supervised: bool,
    ended: bool,
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            // Fails only when no process is left in it. The runtime collects the exit status.
            let _ = match self.child.id().map(i32::try_from) {
                // Not killed: the supervisor kills what has left the group.
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
        // One byte more shows that there was too much.
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
    let mut kept = Vec::new();
    let Some(mut pipe) = pipe else {
        return Ok(kept);
    };
    while pipe.read_buf(&mut kept).await.map_err(RunError::Io)? > 0 {
        // At twice the size, so that not every read moves what is kept.
        if kept.len() > 2 * STDERR_KEPT {
            kept.drain(..kept.len() - STDERR_KEPT);
        }
    }
    kept.drain(..kept.len().saturating_sub(STDERR_KEPT));
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gets_no_secret_of_the_provider() {
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
