//! Stages of a long command: duration, notes and result.

use anyhow::{Result, ensure};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Time limit of all builds from a fresh clone, on two cores.
const BUILD_BUDGET: Duration = Duration::from_mins(22);
/// Time limit of all tests without a cluster, on two cores.
const RUN_BUDGET: Duration = Duration::from_mins(10);
/// Time limit of the tests with a real API server.
const API_BUDGET: Duration = Duration::from_mins(5);
/// Time limit of the tests with a real node.
const NODE_BUDGET: Duration = Duration::from_mins(6);

/// Kind of a stage. The kind determines the time limit of the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StageKind {
    Build,
    Run,
    Api,
    Node,
    /// Runs beside the tests, with the lowest priority. Has no time limit of its own.
    Background,
}

/// Lines to repeat at the end, such as skipped tests.
pub(crate) type Notes = Vec<String>;

#[derive(Debug)]
struct Stage {
    name: &'static str,
    kind: StageKind,
    took: Duration,
    outcome: Result<Notes>,
}

/// Results of the stages of one command, in order.
#[derive(Debug, Default)]
pub(crate) struct StageReport {
    stages: Vec<Stage>,
}

impl StageReport {
    /// Runs a stage and stores its result. Returns `true` on success.
    pub(crate) fn stage(
        &mut self,
        kind: StageKind,
        name: &'static str,
        work: impl FnOnce() -> Result<Notes>,
    ) -> bool {
        eprintln!("── {name}");
        let begun = Instant::now();
        let outcome = work();
        if let Err(error) = &outcome {
            eprintln!("── {name} failed: {error:#}");
            eprintln!("── {name} failed with {}", free_resources());
        }
        let has_passed = outcome.is_ok();
        self.stages.push(Stage {
            name,
            kind,
            took: begun.elapsed(),
            outcome,
        });
        has_passed
    }

    /// Adds the stages of another report.
    pub(crate) fn extend(&mut self, other: Self) {
        self.stages.extend(other.stages);
    }

    /// Prints the table. Fails if a stage failed.
    pub(crate) fn finish(self) -> Result<()> {
        print!("{}", self.table());
        let failed: Vec<&str> = self
            .stages
            .iter()
            .filter(|stage| stage.outcome.is_err())
            .map(|stage| stage.name)
            .collect();
        ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
        Ok(())
    }

    fn table(&self) -> String {
        let mut out = String::from("\nstage                      kind        seconds  outcome\n");
        for stage in &self.stages {
            let outcome = if stage.outcome.is_ok() { "ok" } else { "FAILED" };
            let kind = format!("{:?}", stage.kind).to_lowercase();
            let _ = writeln!(
                out,
                "{:<26} {kind:<10} {:>8.1}  {outcome}",
                stage.name,
                stage.took.as_secs_f64()
            );
        }
        for (kind, what, budget) in [
            (StageKind::Build, "all builds", BUILD_BUDGET),
            (StageKind::Run, "all tests", RUN_BUDGET),
            (StageKind::Api, "all on an API server", API_BUDGET),
            (StageKind::Node, "all on a node", NODE_BUDGET),
        ] {
            if !self.stages.iter().any(|stage| stage.kind == kind) {
                continue;
            }
            let took = self.total(kind);
            let verdict = if took <= budget { "within" } else { "OVER" };
            let _ = writeln!(
                out,
                "{what:<26} total      {:>8.1}  {verdict} its budget of {} s",
                took.as_secs_f64(),
                budget.as_secs()
            );
        }
        for stage in &self.stages {
            let lines: &[String] = match &stage.outcome {
                Ok(notes) => notes,
                Err(error) => &[format!("{error:#}")],
            };
            for (line, times) in counted(lines) {
                let times = if times > 1 {
                    format!("{times} × ")
                } else {
                    String::new()
                };
                let _ = writeln!(out, "{}: {times}{line}", stage.name);
            }
        }
        out
    }

    fn total(&self, kind: StageKind) -> Duration {
        self.stages
            .iter()
            .filter(|stage| stage.kind == kind)
            .map(|stage| stage.took)
            .sum()
    }
}

/// Returns each distinct line with its count, in order of first occurrence.
fn counted(lines: &[String]) -> Vec<(&str, usize)> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for line in lines {
        match counted.iter_mut().find(|(counted_line, _)| counted_line == line) {
            Some((_, times)) => *times += 1,
            None => counted.push((line, 1)),
        }
    }
    counted
}

/// Returns the available memory and disk space. If the disk is full, errors of tests often do not mention the
/// disk.
fn free_resources() -> String {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find(|line| line.starts_with("MemAvailable:"));
    let disk = std::process::Command::new("df").args(["-h", "."]).output();
    let disk = disk.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    format!(
        "{}; disk: {}",
        memory.unwrap_or("unknown memory"),
        disk.unwrap_or_default().lines().last().unwrap_or("unknown")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &'static str, kind: StageKind, seconds: u64, outcome: Result<Notes>) -> Stage {
        Stage {
            name,
            kind,
            took: Duration::from_secs(seconds),
            outcome,
        }
    }

    #[test]
    fn each_kind_has_its_own_time_limit() {
        let report = StageReport {
            stages: vec![
                stage("clippy", StageKind::Build, 1321, Ok(vec![])),
                stage(
                    "tests",
                    StageKind::Run,
                    600,
                    Ok(["a note", "another", "a note"].map(str::to_owned).to_vec()),
                ),
            ],
        };
        let table = report.table();
        assert!(table.contains("1321.0  OVER its budget of 1320 s"), "{table}");
        assert!(table.contains("600.0  within its budget of 600 s"), "{table}");
        assert!(table.contains("tests: 2 × a note\ntests: another\n"), "{table}");
        assert!(!table.contains("all on a node"), "{table}");
        report.finish().unwrap();
    }

    #[test]
    fn failed_stage_fails_the_command_and_later_stages_run() {
        let mut report = StageReport::default();
        assert!(!report.stage(StageKind::Run, "first", || anyhow::bail!("no")));
        assert!(report.stage(StageKind::Run, "second", || Ok(vec![])));
        assert_eq!(report.finish().unwrap_err().to_string(), "failed: first");
    }
}
