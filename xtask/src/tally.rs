//! Counts the results of cargo's tests. A run in which no test ran fails, and skipped tests are reported.

use crate::process::Process;
use crate::report::Notes;
use anyhow::{Result, bail};

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Counter of the results in the output of test programs.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    tally: Tally,
    conformance: u64,
    notes: Notes,
}

impl Counter {
    /// Counts the result in an output line. Prints a skipped test at once.
    pub(crate) fn see(&mut self, line: &str) {
        if let Some(found) = parse(line) {
            self.tally.add(&found);
        } else if let Some(note) = skip(line) {
            println!("{note}");
            self.notes.push(note);
        } else if is_passed_conformance(line) {
            self.conformance += 1;
        }
    }

    /// Prints the numbers of passed, failed and ignored tests.
    ///
    /// # Errors
    /// Fails if no test ran.
    pub(crate) fn finish(self, what: &str) -> Result<Notes> {
        let Tally {
            passed,
            failed,
            ignored,
        } = self.tally;
        println!("{what}: {passed} passed, {failed} failed, {ignored} ignored");
        if passed == 0 {
            bail!("{what}: no test ran");
        }
        Ok(self.notes)
    }

    /// Number of passed conformance tests.
    pub(crate) const fn conformance(&self) -> u64 {
        self.conformance
    }
}

/// Runs `cargo test` and prints its results.
///
/// # Errors
/// Fails if a test fails, or if no test ran.
pub(crate) fn run(what: &str, tests: Process) -> Result<Notes> {
    let mut counter = Counter::default();
    tests.sift(|line| counter.see(line))?;
    counter.finish(what)
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// Parses `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn parse(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut tally = Tally::default();
    for count in counts.split("; ") {
        let Some((number, what)) = count.split_once(' ') else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        match what {
            "passed" => tally.passed = number,
            "failed" => tally.failed = number,
            "ignored" => tally.ignored = number,
            _ => {}
        }
    }
    Some(tally)
}

/// Returns `true` for a line such as `test cluster::conformance::suite ... ok`.
fn is_passed_conformance(line: &str) -> bool {
    let name = line
        .strip_prefix("test ")
        .and_then(|line| line.strip_suffix(" ... ok"));
    name.is_some_and(|name| name.contains("conformance"))
}

/// Returns the reason why a test was skipped.
fn skip(line: &str) -> Option<String> {
    // Without captured output, the output of a test follows its name on the same line.
    if let Some(at) = line.find("skipped: ") {
        return Some(line[at..].to_owned());
    }
    let (name, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    Some(format!("ignored: {name}{}", reason.replacen(", ", ": ", 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_line_is_counted() {
        let line = "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        assert_eq!(
            parse(line),
            Some(Tally {
                passed: 12,
                failed: 2,
                ignored: 1
            })
        );
    }

    #[test]
    fn other_lines_are_not_counted() {
        assert_eq!(parse("running 12 tests"), None);
        assert_eq!(parse("test result"), None);
        assert_eq!(parse("test hash::is_stable ... ok"), None);
    }

    #[test]
    fn conformance_test_is_recognized_by_its_name() {
        assert!(is_passed_conformance("test memory::conformance::suite ... ok"));
        assert!(!is_passed_conformance(
            "test memory::conformance::suite ... FAILED"
        ));
        assert!(!is_passed_conformance("test memory::suite ... ok"));
    }

    #[test]
    fn skips_are_found_anywhere_in_a_line() {
        assert_eq!(skip("skipped: no folder").as_deref(), Some("skipped: no folder"));
        assert_eq!(
            skip("test sdl::golden ... skipped: no folder").as_deref(),
            Some("skipped: no folder")
        );
        let ignored = "test real::cluster ... ignored, needs a node";
        assert_eq!(
            skip(ignored).as_deref(),
            Some("ignored: real::cluster: needs a node")
        );
        assert_eq!(skip("test real::cluster ... ok"), None);
    }
}
