//! A Redis for a test: a server or a sentinel, on a port of loopback.

use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::packages;

/// Longest wait until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// One that runs. It ends at once when this is dropped.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    /// Starts `redis-server` or `redis-sentinel` in a folder, and waits until it listens at the port that the words say.
    /// Prints `skipped: …` and returns nothing where this machine has none and none can be installed.
    ///
    /// # Errors
    /// It does not start, or does not listen in time.
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
            if began.elapsed() > PATIENCE {
                return Err(Error::new(format!(
                    "{name} does not listen at {port} within {PATIENCE:?}"
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(redis))
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// It does nothing more until [`Redis::go_on`], and its connections stay.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// It goes on where it was.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let gone = |error: String| Error::new(format!("the Redis at {}: {error}", self.port));
        let pid = i32::try_from(self.child.id()).map_err(|error| gone(error.to_string()))?;
        kill(Pid::from_raw(pid), signal).map_err(|error| gone(error.to_string()))
    }

    /// Ends it at once, and waits until it is gone.
    pub fn kill(&mut self) {
        // One that has ended by itself is what was asked for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
