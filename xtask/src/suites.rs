//! Runs test programs in parallel. Many of them wait most of the time, and cargo runs them in sequence.

mod second;

use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use crate::failures;
use crate::process::Process;
use crate::report::Notes;
use crate::tally::Counter;
use crate::workspace::Workspace;
use second::{FailedProgram, SecondRun};

/// Number of concurrent test programs, and of test threads in each.
#[derive(Debug, Clone, Copy)]
struct Parallelism {
    programs: usize,
    /// Number of test threads of each program.
    threads: &'static str,
}

/// Parallelism of tests that need no cluster.
const ALONE: Parallelism = Parallelism {
    programs: 2,
    threads: "4",
};
/// Parallelism of tests on a cluster. These tests mostly wait, so more tests run in parallel.
const ON_A_CLUSTER: Parallelism = Parallelism {
    programs: 3,
    threads: "8",
};

/// Test program to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    program: PathBuf,
    /// Folder of the program's package, in which the program runs.
    folder: PathBuf,
}

/// Runs built tests. A failed test is repeated alone. If the repetition passes, the notes list the test as unstable.
///
/// # Errors
/// Fails if a test fails, if no test ran, or if no conformance test ran.
pub(crate) fn run(what: &str, suites: Vec<Suite>) -> Result<Notes> {
    let (counter, second) = ran(suites, ALONE, &[]);
    let conformance = counter.conformance();
    let notes = counter.finish(what)?;
    println!("conformance: {conformance} passed");
    let notes = second.finish(notes)?;
    if conformance == 0 {
        bail!("no conformance test ran");
    }
    Ok(notes)
}

/// Runs built tests as [`run`] does, on a cluster and with an environment variable. A run without a
/// conformance test is not an error.
///
/// # Errors
/// Fails if a test fails, or if no test ran.
pub(crate) fn run_with(what: &str, suites: Vec<Suite>, variable: (&str, &OsStr)) -> Result<Notes> {
    let (counter, second) = ran(suites, ON_A_CLUSTER, &[variable]);
    second.finish(counter.finish(what)?)
}

/// Builds the test programs of `cargo test` with these arguments.
pub(crate) fn build(workspace: &Workspace, cargo: &[&str]) -> Result<Vec<Suite>> {
    let build = [cargo, &["--no-run", "--message-format=json-render-diagnostics"]].concat();
    let mut suites = Vec::new();
    for line in workspace.cargo(&build).quiet().lines()? {
        suites.extend(read(&line));
    }
    Ok(suites)
}

fn ran(
    mut suites: Vec<Suite>,
    together: Parallelism,
    environment: &[(&str, &OsStr)],
) -> (Counter, SecondRun) {
    // Large programs take the longest, and the last one to start should be short.
    suites.sort_by_key(|suite| std::fs::metadata(&suite.program).map_or(0, |file| file.len()));
    let mut counter = Counter::default();
    let failed = side_by_side(suites, together, environment, &mut counter);
    (counter, SecondRun::new(&failed, environment))
}

fn process(suite: &Suite, threads: &str, environment: &[(&str, &OsStr)]) -> Process {
    let program = Process::new(&suite.program, &suite.folder)
        .args(["--show-output"])
        .env("RUST_TEST_THREADS", threads);
    let with = |program: Process, (name, value): &(&str, &OsStr)| program.env(name, value);
    environment.iter().fold(program, with)
}

/// Runs the programs in parallel. The last program in `suites` starts first. Prints the output of failed
/// programs, and returns these programs.
fn side_by_side(
    suites: Vec<Suite>,
    together: Parallelism,
    environment: &[(&str, &OsStr)],
    counter: &mut Counter,
) -> Vec<FailedProgram> {
    let waiting = Mutex::new(suites);
    let (done, ended) = channel();
    thread::scope(|scope| {
        for _ in 0..together.programs {
            let (waiting, done) = (&waiting, done.clone());
            scope.spawn(move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(suite) = next() {
                    let ran = process(&suite, together.threads, environment).collect(|_| {});
                    if done.send((suite, ran)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut failed = Vec::new();
        for (suite, ran) in ended {
            let (lines, outcome) = ran.unwrap_or_else(|error| (Vec::new(), Err(error)));
            lines.iter().for_each(|line| counter.see(line));
            if let Err(error) = outcome {
                lines.iter().for_each(|line| println!("{line}"));
                failed.push(FailedProgram {
                    suite,
                    error: format!("{error:#}"),
                    tests: failures::read(&lines),
                });
            }
        }
        failed
    })
}

/// Reads the test program from a message of cargo.
fn read(line: &str) -> Option<Suite> {
    let message: Value = serde_json::from_str(line).ok()?;
    if !message["profile"]["test"].as_bool()? {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    Some(Suite {
        program: message["executable"].as_str()?.into(),
        folder: manifest.parent()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn shell(script: &str, name: &str) -> Suite {
        let program = std::env::temp_dir().join(format!("xtask-suite-{name}-{}", std::process::id()));
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).unwrap();
        Suite {
            program,
            folder: "/".into(),
        }
    }

    #[test]
    fn test_programs_are_found_in_messages_of_cargo() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/core/Cargo.toml","profile":{"test":true},"executable":"/w/target/engine-1"}"#;
        let suite = Suite {
            program: "/w/target/engine-1".into(),
            folder: "/w/core".into(),
        };
        assert_eq!(read(line), Some(suite));
        assert_eq!(read(&line.replace("true", "false")), None);
        assert_eq!(read(&line.replace("\"/w/target/engine-1\"", "null")), None);
        assert_eq!(read(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(read("Compiling"), None);
    }

    #[test]
    fn all_tests_are_counted_and_failed_programs_reported() {
        let good = "test \"$OF_THE_SUITE\" = given || exit 1; echo 'test a::conformance ... ok'; echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        // The output is printed and must not look like a test result of this test run.
        let bad = "echo broken; exit 101";
        let suites = vec![shell(good, "good"), shell(bad, "bad"), shell(good, "again")];
        let programs: Vec<PathBuf> = suites.iter().map(|suite| suite.program.clone()).collect();
        let mut counter = Counter::default();
        let failed = side_by_side(
            suites,
            ALONE,
            &[("OF_THE_SUITE", OsStr::new("given"))],
            &mut counter,
        );
        programs
            .iter()
            .for_each(|program| std::fs::remove_file(program).unwrap());
        assert_eq!(counter.conformance(), 2);
        let [failed] = &failed[..] else {
            panic!("{} programs failed", failed.len())
        };
        assert!(failed.error.contains("suite-bad"), "{}", failed.error);
        assert!(counter.finish("tests").is_ok());
        assert!(
            SecondRun::new(std::slice::from_ref(failed), &[])
                .finish(Notes::new())
                .is_err()
        );
    }
}
