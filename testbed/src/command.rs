//! Execution of a short program with captured output and a time limit.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Exit code; `None` if a signal or the time limit ended the program.
    pub(crate) code: Option<i32>,
}

#[derive(Debug)]
pub(crate) struct Run {
    command: Command,
    command_line: String,
    input: Option<String>,
    limit: Duration,
}

impl Run {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref();
        let command_line = Path::new(program)
            .file_name()
            .unwrap_or(program)
            .to_string_lossy()
            .into_owned();
        // One minute, generous for busy machines.
        Self {
            command: Command::new(program),
            command_line,
            input: None,
            limit: Duration::from_mins(1),
        }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        for arg in args {
            self.command_line.push(' ');
            self.command_line.push_str(&arg.as_ref().to_string_lossy());
            self.command.arg(arg);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sets the standard input.
    pub(crate) fn input(mut self, text: impl Into<String>) -> Self {
        self.input = Some(text.into());
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the program and returns its stdout.
    ///
    /// # Errors
    /// Fails if the program does not start, fails or exceeds its time limit. The error contains its stderr.
    pub(crate) fn stdout(self) -> Result<String> {
        let command_line = self.command_line.clone();
        let outcome = self.outcome()?;
        if outcome.code == Some(0) {
            return Ok(outcome.stdout);
        }
        let stderr = if outcome.stderr.trim().is_empty() {
            outcome.stdout
        } else {
            outcome.stderr
        };
        let how = match outcome.code {
            Some(code) => format!("ended with {code}"),
            None => "was ended".to_owned(),
        };
        Err(Error::new(format!("`{command_line}` {how}: {}", stderr.trim())))
    }

    /// Runs the program and discards its output. Fails if the program fails.
    pub(crate) fn done(self) -> Result<()> {
        self.stdout().map(drop)
    }

    /// Runs the program and returns exit code and output. A failing exit code is not an error.
    pub(crate) fn outcome(mut self) -> Result<CommandOutput> {
        let failed = |line: &str, error| Error::new(format!("`{line}` cannot run: {error}"));
        let stdin = if self.input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut child = self
            .command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&self.command_line, error))?;
        if let (Some(input), Some(mut stdin)) = (self.input.take(), child.stdin.take()) {
            thread::spawn(move || stdin.write_all(input.as_bytes()));
        }
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let code = wait(&mut child, self.limit).map_err(|error| failed(&self.command_line, error))?;
        Ok(CommandOutput {
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
            code,
        })
    }
}

/// Reads a stream in a thread, because a full pipe would block the program.
fn drain(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // Output before an error is still useful.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<i32>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        // Short compared with the programs, which take tens of milliseconds.
        thread::sleep(Duration::from_millis(3));
    }
}

/// Repeats the operation until it succeeds, and returns its result.
///
/// # Errors
/// Fails after `limit`, with the last error.
pub(crate) fn until<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> std::result::Result<T, String>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(reason) if Instant::now() >= deadline => {
                return Err(Error::new(format!(
                    "{what}: condition not reached within {} s: {reason}",
                    limit.as_secs()
                )));
            }
            // Polled programs take some milliseconds themselves.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Run {
        Run::new("sh").args(["-c", script])
    }

    #[test]
    fn stdout_stderr_and_exit_code_are_separate() {
        let outcome = sh("echo out; echo err >&2; exit 3").outcome().unwrap();
        assert_eq!(outcome.stdout, "out\n");
        assert_eq!(outcome.stderr, "err\n");
        assert_eq!(outcome.code, Some(3));
    }

    #[test]
    fn failure_contains_stderr() {
        let error = sh("echo no room >&2; exit 1").done().unwrap_err().to_string();
        assert!(
            error.contains("no room") && error.contains("ended with 1"),
            "{error}"
        );
    }

    #[test]
    fn input_is_passed_to_program() {
        assert_eq!(Run::new("cat").input("a\nb").stdout().unwrap(), "a\nb");
    }

    #[test]
    fn program_is_killed_at_its_time_limit() {
        let begun = Instant::now();
        let run = Run::new("sleep").args(["30"]).limit(Duration::from_millis(50));
        assert!(run.done().is_err());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn polling_fails_with_the_last_error() {
        let error = until("the moon", Duration::from_millis(1), || {
            Err::<(), _>("behind clouds".to_owned())
        });
        assert!(error.unwrap_err().to_string().contains("behind clouds"));
        assert_eq!(until("the sun", Duration::from_secs(1), || Ok(1)), Ok(1));
    }
}
