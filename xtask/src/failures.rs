//! Failed tests in the output of a test program, with the lines that explain each failure.

/// Maximum number of output lines per failed test that are repeated at the end.
const LINES: usize = 12;
/// Maximum number of characters of a repeated line.
const CHARACTERS: usize = 300;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestFailure {
    pub(crate) test: String,
    /// Output of the test, from the first panic.
    pub(crate) reason: String,
}

pub(crate) fn read(lines: &[String]) -> Vec<TestFailure> {
    let failed = lines.iter().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.trim_end_matches(" - should panic"))
    });
    failed
        .map(|test| TestFailure {
            test: test.to_owned(),
            reason: reason(lines, test),
        })
        .collect()
}

/// Returns the output of the failed test, starting at the first panic.
fn reason(lines: &[String], test: &str) -> String {
    let heading = format!("---- {test} stdout ----");
    let output = lines
        .iter()
        .skip_while(|line| **line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with("---- "));
    let output: Vec<&String> = output.collect();
    let panic = output.iter().position(|line| line.contains("panicked at"));
    let shown = output[panic.unwrap_or(0)..]
        .iter()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("note: run with"))
        .take(LINES)
        .map(|line| line.chars().take(CHARACTERS).collect());
    shown.collect::<Vec<String>>().join("\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn failed_test_has_the_lines_of_its_panic() {
        let output = lines(
            "test a::good ... ok\ntest a::bad ... FAILED\n\nfailures:\n\n---- a::bad stdout ----\nbefore\n\nthread 'a::bad' panicked at src/a.rs:7:5:\nwrong: 3\nnote: run with `RUST_BACKTRACE=1`\n\n---- other stdout ----\nno\n",
        );
        let failure = TestFailure {
            test: "a::bad".to_owned(),
            reason: "thread 'a::bad' panicked at src/a.rs:7:5:\n    wrong: 3".to_owned(),
        };
        assert_eq!(read(&output), [failure]);
    }

    #[test]
    fn long_output_is_cut() {
        let long = "x".repeat(1_000);
        let body = vec![long.as_str(); 50].join("\n");
        let output = lines(&format!(
            "test bad ... FAILED\n---- bad stdout ----\npanicked at\n{body}"
        ));
        let failures = read(&output);
        assert_eq!(failures[0].reason.lines().count(), LINES);
        assert!(failures[0].reason.len() < (LINES + 1) * (CHARACTERS + 5));
    }

    #[test]
    fn crashed_program_has_no_failed_test() {
        assert_eq!(read(&lines("running 2 tests\ntest a ... ok")), []);
    }
}
