//! A supervisor process between the provider and a price script. The supervisor kills all descendants of the
//! script.
//!
//! If the parent of a descendant exits, the descendant becomes a child of the supervisor, regardless of its
//! session, process group or environment. On SIGTERM, the supervisor kills all of them.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::process::{Command, ExitCode};

/// Exit code of a supervisor after SIGTERM: 128 plus the number of the signal, as in shells.
const ENDED: u8 = 143;

/// Runs a price script as its supervisor, see
/// [`ShellScriptConfig::supervisor`](super::ShellScriptConfig::supervisor). The script uses the standard
/// streams of this process. Returns the exit code of the script. On SIGTERM, kills all descendants. If a
/// signal ends the script, the same signal ends this process.
///
/// Must be called before this process starts a thread or another process.
///
/// # Errors
/// Returns an error when the program cannot be started.
pub fn supervise(program: &OsStr) -> io::Result<ExitCode> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGCHLD]);
    // Before the start, so that no signal is lost. The standard library unblocks the signals for the program.
    signals.thread_block()?;
    let script = Command::new(program).spawn()?.id();
    let is_script = |pid: Pid| u32::try_from(pid.as_raw()) == Ok(script);
    loop {
        if signals.wait()? == Signal::SIGTERM {
            kill_children()?;
            return Ok(ExitCode::from(ENDED));
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if is_script(pid) => {
                    return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if is_script(pid) => {
                    signals.thread_unblock()?;
                    raise(signal)?;
                    // Reached only for a signal that this process ignores, such as SIGPIPE.
                    return Ok(ExitCode::from(
                        u8::try_from(128 + signal as i32).unwrap_or(u8::MAX),
                    ));
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                // An orphaned descendant of the script.
                Ok(_) => {}
            }
        }
    }
}

/// Kills all descendants of this process. The children of a killed process become children of this process,
/// and are killed next.
fn kill_children() -> io::Result<()> {
    loop {
        for child in children()? {
            // Fails only for a process that has exited.
            let _ = kill(child, Signal::SIGKILL);
        }
        match waitpid(None, None) {
            Err(Errno::ECHILD) => return Ok(()),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn children() -> io::Result<Vec<Pid>> {
    let own = getpid().to_string();
    let all = fs::read_dir("/proc")?.flatten();
    let children = all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The second field, in parentheses, can contain any text. State and parent follow it.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (parent == own).then_some(Pid::from_raw(pid))
    });
    Ok(children.collect())
}
