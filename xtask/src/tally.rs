//! Running cargo's tests and counting them: a run that ran nothing is a failure, and a skip is told.

use crate::error::{Error, Result};
use crate::process::Process;
use crate::report::Notes;

/// What the test binaries of one run reported, added up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Counts while the lines of a run come in.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    tally: Tally,
    conformance: u64,
    notes: Notes,
}

impl Counter {
    /// One line of a test program; a skip is shown at once.
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

    /// Shows what was counted.
    ///
    /// # Errors
    /// When not one test ran: a filter that fits nothing proves nothing.
    pub(crate) fn finish(self, what: &str) -> Result<Notes> {
        let Tally {
            passed,
            failed,
            ignored,
        } = self.tally;
        println!("{what}: {passed} passed, {failed} failed, {ignored} ignored");
        if passed == 0 {
            return Err(Error::new(format!("{what}: no test ran")));
        }
        Ok(self.notes)
    }

    /// Tests of a port's suite that passed.
    pub(crate) const fn conformance(&self) -> u64 {
        self.conformance
    }
}

/// Runs a `cargo test` whose arguments end behind `--`; shows its results line by line.
///
/// # Errors
/// When a test fails, and when not one test ran.
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

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
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

/// `test cluster::conformance::suite ... ok`: that word in its name makes a test one of a port's suite.
fn is_passed_conformance(line: &str) -> bool {
    let name = line
        .strip_prefix("test ")
        .and_then(|line| line.strip_suffix(" ... ok"));
    name.is_some_and(|name| name.contains("conformance"))
}

/// A line that says something was not tested, and why.
fn skip(line: &str) -> Option<String> {
    // With captured output off, a test's own words follow its name on one line.
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
    fn a_result_line_is_counted() {
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
    fn a_test_of_a_suite_is_known_by_its_name() {
        assert!(is_passed_conformance("test memory::conformance::suite ... ok"));
        assert!(!is_passed_conformance(
            "test memory::conformance::suite ... FAILED"
        ));
        assert!(!is_passed_conformance("test memory::suite ... ok"));
    }

    #[test]
    fn skips_are_found_wherever_they_stand_in_a_line() {
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
