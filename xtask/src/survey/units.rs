//! Size of builds according to cargo's build plan, without a build.

use anyhow::{Context, Result};
use serde_json::Value;

use super::count;
use crate::figures::Figure;
use crate::workspace::Workspace;

/// Environment variable that makes a stable cargo accept unstable options.
const NIGHTLY: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

#[derive(Debug, PartialEq, Eq)]
struct BuildSize {
    units: usize,
    /// Number of compilation units of external crates.
    of_dependencies: usize,
    /// Number of test programs.
    executables: usize,
}

/// Returns the numbers of compilation units and test programs, for the test and the release build.
pub(super) fn figures(workspace: &Workspace) -> Result<Vec<Figure>> {
    let tests = plan(workspace, &["test", "--no-run", "--workspace", "--all-features"])?;
    let program = plan(workspace, &["build", "--release", "-p", "provider-daemon"])?;
    Ok(vec![
        count("units_of_tests", tests.units, "units"),
        count("units_of_tests_of_dependencies", tests.of_dependencies, "units"),
        count("test_executables", tests.executables, "programs"),
        count("units_of_program", program.units, "units"),
    ])
}

fn plan(workspace: &Workspace, what: &[&str]) -> Result<BuildSize> {
    let asked = ["--locked", "-Z", "unstable-options", "--unit-graph"];
    let cargo = workspace
        .cargo(&[what, &asked[..]].concat())
        .env(NIGHTLY.0, NIGHTLY.1);
    let text = cargo.quiet().lines()?.concat();
    read(&text).context("cannot parse cargo's build plan; its format may have changed")
}

fn read(text: &str) -> Option<BuildSize> {
    let graph: Value = serde_json::from_str(text).ok()?;
    let units = graph["units"].as_array()?;
    let is_foreign = |unit: &&Value| {
        unit["pkg_id"]
            .as_str()
            .is_some_and(|id| id.starts_with("registry+"))
    };
    Some(BuildSize {
        units: units.len(),
        of_dependencies: units.iter().filter(is_foreign).count(),
        executables: units.iter().filter(|unit| unit["mode"] == "test").count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_is_counted_by_origin_and_kind_of_units() {
        let text = r#"{"version":1,"units":[
            {"pkg_id":"registry+https://example.com#a@1.0.0","mode":"build"},
            {"pkg_id":"path+file:///w/core#0.1.0","mode":"build"},
            {"pkg_id":"path+file:///w/core#0.1.0","mode":"test"}],"roots":[2]}"#;
        let expected = BuildSize {
            units: 3,
            of_dependencies: 1,
            executables: 1,
        };
        assert_eq!(read(text), Some(expected));
        assert_eq!(read("{}"), None);
    }
}
