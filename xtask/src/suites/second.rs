//! Second run of failed tests, each without other tests.

use anyhow::Result;
use std::ffi::OsStr;

use super::{Suite, process};
use crate::error::from_findings;
use crate::failures::TestFailure;
use crate::report::Notes;

/// Maximum number of tests that run again; more failures probably have a common cause.
const SECOND_RUNS: usize = 3;

/// Failed test program.
pub(super) struct FailedProgram {
    pub(super) suite: Suite,
    pub(super) error: String,
    pub(super) tests: Vec<TestFailure>,
}

#[derive(Debug, Default)]
pub(super) struct SecondRun {
    /// Tests that failed and then passed.
    unstable: Vec<String>,
    /// Tests that failed twice, and programs that failed without a failed test.
    failed: Vec<String>,
}

impl SecondRun {
    /// Runs each failed test again, without other tests.
    pub(super) fn new(failed: &[FailedProgram], environment: &[(&str, &OsStr)]) -> Self {
        let mut second = Self::default();
        let is_common = failed.iter().map(|program| program.tests.len()).sum::<usize>() > SECOND_RUNS;
        for program in failed {
            if program.tests.is_empty() {
                second.failed.push(program.error.clone());
            }
            for TestFailure { test, reason } in &program.tests {
                let finding = format!("{test}:\n    {reason}");
                let passes = || {
                    let one = process(&program.suite, "1", environment).args(["--exact", test]);
                    one.sift(|_| {}).is_ok()
                };
                if !is_common && passes() {
                    second.unstable.push(format!("unstable: {finding}"));
                } else {
                    second.failed.push(finding);
                }
            }
        }
        second
    }

    /// Adds the unstable tests to the notes. Fails if a test failed twice.
    pub(super) fn finish(self, mut notes: Notes) -> Result<Notes> {
        let Self { unstable, failed } = self;
        if !failed.is_empty() {
            return from_findings("failed tests", &[failed, unstable].concat()).map(|()| notes);
        }
        notes.extend(unstable);
        Ok(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shell;
    use super::*;

    /// Creates `tests` failed tests of the program `script`, and repeats these tests.
    fn second(script: &str, name: &str, tests: usize) -> Result<Notes> {
        let suite = shell(script, name);
        let program = suite.program.clone();
        let failure = |number| TestFailure {
            test: format!("a::test{number}"),
            reason: "panicked".to_owned(),
        };
        let failed = FailedProgram {
            suite,
            error: String::new(),
            tests: (0..tests).map(failure).collect(),
        };
        let second = SecondRun::new(&[failed], &[]).finish(vec!["a note".to_owned()]);
        std::fs::remove_file(program).unwrap();
        second
    }

    #[test]
    fn test_that_passes_alone_is_reported_as_unstable() {
        let alone = r#"test "$RUST_TEST_THREADS $*" = "1 --show-output --exact a::test0""#;
        let notes = second(alone, "alone", 1).unwrap();
        assert_eq!(notes, ["a note", "unstable: a::test0:\n    panicked"]);
    }

    #[test]
    fn test_that_fails_twice_fails_the_stage_with_its_reason() {
        let error = second("exit 101", "twice", 1).unwrap_err().to_string();
        assert_eq!(error, "failed tests:\n  a::test0:\n    panicked");
    }

    #[test]
    fn many_failures_fail_the_stage_without_a_second_run() {
        assert!(second("exit 0", "few", SECOND_RUNS).is_ok());
        assert!(second("exit 0", "many", SECOND_RUNS + 1).is_err());
    }
}
