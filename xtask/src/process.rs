//! Execution of other programs: printed, limited in time, and read line by line if needed.

use anyhow::{Context, Result, anyhow, bail};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of buffered output lines, after which the program waits.
const LINES_IN_FLIGHT: usize = 1024;

pub(crate) struct Process {
    command: Command,
    command_line: String,
    quiet: bool,
    limit: Duration,
}

impl Process {
    pub(crate) fn new(program: impl AsRef<OsStr>, dir: &Path) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.current_dir(dir).stdin(Stdio::null());
        let command_line = Path::new(program)
            .file_name()
            .unwrap_or(program)
            .to_string_lossy()
            .into_owned();
        // One hour is longer than any stage and still ends the wait of a CI machine.
        Self {
            command,
            command_line,
            quiet: false,
            limit: Duration::from_hours(1),
        }
    }

    pub(crate) fn cargo(dir: &Path, args: &[&str]) -> Self {
        Self::new(cargo(), dir).outside_of_package().args(args)
    }

    /// Creates a cargo command with the lowest priority.
    pub(crate) fn cargo_in_background(dir: &Path, args: &[&str]) -> Self {
        Self::new("nice", dir)
            .outside_of_package()
            .args(["-n", "19"])
            .args([cargo()])
            .args(args)
    }

    /// Removes the variables that `cargo run` sets for this program. Cargo compiles a crate again if its
    /// build script reads a changed variable.
    fn outside_of_package(mut self) -> Self {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in names.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            self.command.env_remove(name);
        }
        self
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
        self.command_line = format!(
            "{name}={} {}",
            value.as_ref().to_string_lossy(),
            self.command_line
        );
        self.command.env(name, value);
        self
    }

    /// Sets the time after which the program is killed.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Omits the line that shows the command.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    pub(crate) fn silent(mut self) -> Self {
        self.command.stderr(Stdio::null());
        self
    }

    /// Runs the program and shows its output.
    pub(crate) fn run(mut self) -> Result<()> {
        let mut child = self.spawn()?;
        let deadline = Instant::now() + self.limit;
        self.finish(&mut child, deadline)
    }

    /// Runs the program and returns the lines of its stdout. Prints the lines only after a failure.
    pub(crate) fn lines(self) -> Result<Vec<String>> {
        self.sift(|_| {})
    }

    /// Runs the program as [`Self::lines`] does, and calls `seen` with each line as soon as the line arrives.
    pub(crate) fn sift(self, seen: impl FnMut(&str)) -> Result<Vec<String>> {
        let (lines, outcome) = self.collect(seen)?;
        if outcome.is_err() {
            for line in &lines {
                println!("{line}");
            }
        }
        outcome.map(|()| lines)
    }

    /// Runs the program and returns the lines of its stdout. Prints each line to stderr as soon as the line
    /// arrives.
    pub(crate) fn follow(self) -> Result<Vec<String>> {
        let (lines, outcome) = self.collect(|line| eprintln!("{line}"))?;
        outcome.map(|()| lines)
    }

    /// Runs the program and calls `seen` with every line of its stdout. Returns all lines and the program's
    /// result.
    pub(crate) fn collect(mut self, mut seen: impl FnMut(&str)) -> Result<(Vec<String>, Result<()>)> {
        self.command.stdout(Stdio::piped());
        let mut child = self.spawn()?;
        let incoming = reader(&mut child)?;
        let deadline = Instant::now() + self.limit;
        let mut lines = Vec::new();
        // Ends when the program closes its output, or at the deadline.
        while let Ok(line) = incoming.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            seen(&line);
            lines.push(line);
        }
        Ok((lines, self.finish(&mut child, deadline)))
    }

    fn spawn(&mut self) -> Result<Child> {
        if !self.quiet {
            // On stderr like cargo's progress, because stdout is for results.
            eprintln!("$ {}", self.command_line);
        }
        self.command
            .spawn()
            .with_context(|| format!("`{}` cannot start", self.command_line))
    }

    fn finish(&self, child: &mut Child, deadline: Instant) -> Result<()> {
        match wait(child, deadline) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(anyhow!("`{}` ended with {status}", self.command_line)),
            Ok(None) => Err(anyhow!(
                "`{}` ran longer than {} s and was ended",
                self.command_line,
                self.limit.as_secs()
            )),
            Err(error) => Err(error).with_context(|| format!("`{}`", self.command_line)),
        }
    }
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Reads the output in a thread, so that the time limit applies to a silent program.
fn reader(child: &mut Child) -> Result<Receiver<String>> {
    let Some(stdout) = child.stdout.take() else {
        bail!("cannot read the output of the program");
    };
    let (sender, receiver) = sync_channel(LINES_IN_FLIGHT);
    thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { return };
            if sender
                .send(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())
                .is_err()
            {
                return;
            }
        }
    });
    Ok(receiver)
}

fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    // Short enough to be invisible in the time table.
    let pause = Duration::from_millis(10);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str) -> Process {
        Process::new("sh", Path::new("/")).args(["-c", script])
    }

    #[test]
    fn lines_are_returned_in_order() {
        assert_eq!(sh("echo one; echo two").lines().unwrap(), ["one", "two"]);
    }

    #[test]
    fn every_line_is_passed_at_once() {
        let mut seen = Vec::new();
        sh("echo one; echo two")
            .sift(|line| seen.push(line.to_owned()))
            .unwrap();
        assert_eq!(seen, sh("echo one; echo two").follow().unwrap());
    }

    #[test]
    fn failed_program_is_an_error_with_its_name() {
        let error = sh("exit 3").lines().unwrap_err().to_string();
        assert!(error.contains("sh -c exit 3") && error.contains('3'), "{error}");
    }

    #[test]
    fn program_is_killed_at_its_time_limit() {
        let begun = Instant::now();
        let error = sh("exec sleep 30")
            .limit(Duration::from_millis(50))
            .lines()
            .unwrap_err();
        assert!(error.to_string().contains("ran longer"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn missing_program_is_an_error() {
        assert!(
            Process::new("no-such-program-anywhere", Path::new("/"))
                .run()
                .is_err()
        );
    }
}
