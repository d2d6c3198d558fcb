//! Output of all results.

use super::check::{Area, Check, Severity};
use akash_provider_cli::flags::Output;
use akash_provider_cli::plain;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// Exit code for at least one failure. Code 1: the checks could not run. Code 2: invalid command line.
const FAILED: u8 = 3;
const WIDTH: usize = 8;

#[derive(Debug, Serialize)]
struct DoctorEntry {
    area: Area,
    #[serde(flatten)]
    check: Check,
}

#[derive(Debug, Default)]
pub(super) struct DoctorReport {
    entries: Vec<DoctorEntry>,
}

impl DoctorReport {
    pub(super) fn add(&mut self, area: Area, checks: Vec<Check>) {
        self.entries
            .extend(checks.into_iter().map(|check| DoctorEntry { area, check }));
    }

    fn count(&self, severity: Severity) -> usize {
        let of_it = self
            .entries
            .iter()
            .filter(|entry| entry.check.severity() == severity);
        of_it.count()
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self.count(Severity::Failure) {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(FAILED),
        }
    }

    /// Formats all results, sorted by area.
    ///
    /// # Errors
    /// Returns an error if the results cannot be serialized.
    pub(super) fn render(&mut self, output: Output, took: Duration) -> anyhow::Result<String> {
        self.entries.sort_by_key(|entry| entry.area);
        match output {
            Output::Text => Ok(self.text(took)),
            Output::Json => self.json(took),
        }
    }

    fn text(&self, took: Duration) -> String {
        let mut text = String::new();
        for DoctorEntry { check, .. } in &self.entries {
            let (subject, detail) = (one_line(check.subject()), one_line(check.detail()));
            // Writing into a `String` does not fail.
            let _ = writeln!(text, "{:WIDTH$} {subject}: {detail}", check.severity().name());
            if let Some(help) = check.help() {
                let _ = writeln!(text, "{:WIDTH$} help: {}", "", one_line(help));
            }
        }
        let _ = writeln!(
            text,
            "\n{}, {}, {} ok, {} skipped in {:.1} s",
            plain::count(self.count(Severity::Failure), "failure"),
            plain::count(self.count(Severity::Warning), "warning"),
            self.count(Severity::Ok),
            self.count(Severity::Skipped),
            took.as_secs_f64()
        );
        text
    }

    fn json(&self, took: Duration) -> anyhow::Result<String> {
        let severity = self.entries.iter().map(|entry| entry.check.severity()).max();
        let all = serde_json::json!({
            "severity": severity.unwrap_or(Severity::Ok),
            "failures": self.count(Severity::Failure),
            "warnings": self.count(Severity::Warning),
            "seconds": took.as_secs_f64(),
            "checks": self.entries,
        });
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}

/// Joins the lines of an error text with `; `.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    plain::line(&lines.join("; ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_and_warning_are_printed_with_their_remedy() {
        let mut report = DoctorReport::default();
        report.add(
            Area::Dns,
            vec![Check::warning("dns", "no\naddress", "create the record")],
        );
        report.add(Area::Key, vec![Check::ok("key", "akash1")]);
        assert_eq!(report.exit_code(), ExitCode::SUCCESS);
        let text = report.render(Output::Text, Duration::from_millis(450)).unwrap();
        assert_eq!(
            text,
            "ok       key: akash1\nwarning  dns: no; address\n         help: create the record\n\n0 failures, 1 warning, \
             1 ok, 0 skipped in 0.5 s\n"
        );
        report.add(
            Area::Chain,
            vec![Check::failure("node", "dead", "start the node")],
        );
        assert_eq!(report.exit_code(), ExitCode::from(FAILED));
        let json = report.render(Output::Json, Duration::ZERO).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["severity"], "failure");
        assert_eq!(json["checks"][1]["help"], "start the node");
        assert_eq!(json["checks"][1]["area"], "chain");
    }
}
