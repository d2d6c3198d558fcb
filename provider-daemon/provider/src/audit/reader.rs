//! Command that prints the log, also while the provider runs.

use super::files::EXTENSION;
use super::line::AuditLine;
use crate::args::audit::AuditArgs;
use crate::flight::wall_ms;
use crate::numbered_files::files;
use akash_provider_chain::regular_file;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

/// Reader of audit log lines. Selects lines by start time and subject.
pub(super) struct AuditReader {
    /// Start of the listed period, in milliseconds since the Unix epoch.
    pub(super) start: u64,
    /// Subject of the listed acts; `None` for all.
    pub(super) subject: Option<String>,
    /// Number of lines that cannot be decoded.
    pub(super) broken: u64,
}

impl AuditReader {
    /// Calls `visit` with each matching line, the oldest first.
    pub(super) fn read(&mut self, dir: &Path, mut visit: impl FnMut(&AuditLine)) -> anyhow::Result<()> {
        for path in files(dir, EXTENSION)? {
            let reading = || format!("cannot read {}", path.display());
            let file = match regular_file::open(&path) {
                // Removed by the provider in the meantime.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                file => file.with_context(reading)?,
            };
            let mut file = BufReader::new(file);
            let mut text = Vec::new();
            // The size of a line is limited by the size of its file.
            while file.read_until(b'\n', &mut text).with_context(reading)? > 0 {
                self.take(&text, &mut visit);
                text.clear();
            }
        }
        Ok(())
    }

    fn take(&mut self, text: &[u8], visit: &mut impl FnMut(&AuditLine)) {
        let Ok(line) = serde_json::from_slice::<AuditLine>(text) else {
            // A line without a line feed may be complete soon. An empty line is the end of a truncated line.
            let is_complete = text.ends_with(b"\n") && !text.trim_ascii().is_empty();
            self.broken += u64::from(is_complete);
            return;
        };
        let is_wanted = self
            .subject
            .as_ref()
            .is_none_or(|subject| *subject == line.subject);
        if is_wanted && line.is_since(self.start) {
            visit(&line);
        }
    }
}

/// Prints the log of a home directory.
///
/// # Errors
/// Returns an error if the log is missing or unreadable.
pub fn run(args: &AuditArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let Some(dir) = args.directory(home) else {
        bail!(WithHelp::new(
            "--audit-log none: no audit log to read",
            "set --audit-log to the directory of the log"
        ));
    };
    if !dir.is_dir() {
        bail!(WithHelp::new(
            format!("no audit log in {}", dir.display()),
            "set --home or --audit-log as for `run`"
        ));
    }
    let age = u64::try_from(args.since.as_millis()).unwrap_or(u64::MAX);
    let mut reader = AuditReader {
        start: wall_ms().saturating_sub(age),
        subject: args.lease.as_ref().map(ToString::to_string),
        broken: 0,
    };
    let output = args.printed.output;
    let mut lines = 0u64;
    reader.read(&dir, |line| {
        lines += 1;
        match output {
            Output::Text => say(&line.to_text()),
            Output::Json => say(&line.to_json()),
        }
    })?;
    if lines == 0 && output == Output::Text {
        say("no acts within this time\n");
    }
    if reader.broken > 0 {
        eprintln!(
            "warning: lines that cannot be decoded: {}; a crash of the machine may have truncated them",
            reader.broken
        );
    }
    Ok(ExitCode::SUCCESS)
}
