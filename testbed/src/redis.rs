//! A Redis server or sentinel for tests, on loopback.

use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::packages;

/// Maximum wait until the server listens.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// A running server, killed when dropped.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    /// Starts `redis-server` or `redis-sentinel` in a folder, and waits until it listens at the port. Prints
    /// `skipped: …` and returns `None` if the program is missing and cannot be installed.
    ///
    /// # Errors
    /// Fails if the program does not start, or does not listen in time.
    pub fn start(name: &str, port: u16, folder: &Path, words: &[String]) -> Result<Option<Self>> {
        let program = match packages::redis() {
            Ok(program) => program,
            Err(error) => {
                println!("skipped: {error}");
                return Ok(None);
            }
        };
        let mut command = Command::new(program);
        command.arg0(name).args(words).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| Error::new(format!("{name}: {error}")))?;
        let redis = Self { child, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > WAIT_LIMIT {
                return Err(Error::new(format!(
                    "{name} does not listen at {port} within {WAIT_LIMIT:?}"
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(redis))
    }

    /// Listening port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Suspends the process until [`Redis::go_on`]. Connections stay open.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Resumes the suspended process.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let gone = |error: String| Error::new(format!("the Redis at {}: {error}", self.port));
        let pid = i32::try_from(self.child.id()).map_err(|error| gone(error.to_string()))?;
        kill(Pid::from_raw(pid), signal).map_err(|error| gone(error.to_string()))
    }

    /// Kills the process and waits until it has ended.
    pub fn kill(&mut self) {
        // A process that has already ended is not an error.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
