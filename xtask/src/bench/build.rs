//! Durations and CPU times of builds from scratch: of the program, and of the tests in a fresh clone.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::figures::Figure;
use crate::workspace::Workspace;

const CORE: [&str; 3] = ["build", "-p", "akash-provider-core"];
/// Arguments of the first cargo command in the README.
const RELEASE: [&str; 4] = ["build", "--release", "-p", "provider-daemon"];
/// Cargo arguments for a build of all tests, as in the test command.
const TESTS: [&str; 6] = [
    "build",
    "--workspace",
    "--all-features",
    "--lib",
    "--bins",
    "--tests",
];
/// Clock ticks per second in `/proc`.
const TICKS: f64 = 100.0;
const CPU: &str = "s of a core";

/// Measures a first build of the core with all dependencies, as for an embedder.
pub(super) fn core(workspace: &Workspace) -> Result<Figure> {
    let (seconds, ()) = cold(workspace, &CORE, |_| Ok(()))?;
    Ok(Figure::new("core_cold_build_s", seconds, "s"))
}

/// Measures the release build, then the test build.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    let begun = processor_seconds()?;
    let (release, ()) = cold(workspace, &RELEASE, |_| Ok(()))?;
    let between = processor_seconds()?;
    found.extend([
        Figure::new("build_release_cold_cpu_s", between - begun, CPU),
        Figure::new("build_release_cold_s", release, "s"),
    ]);
    let (tests, ()) = cold(workspace, &TESTS, |_| Ok(()))?;
    let ended = processor_seconds()?;
    found.extend([
        Figure::new("build_test_cold_cpu_s", ended - between, CPU),
        Figure::new("build_test_cold_s", tests, "s"),
    ]);
    Ok(())
}

/// Runs a build with an empty target folder, calls `look`, and deletes the folder. Returns the build time in
/// seconds, and the result of `look`.
fn cold<T>(
    workspace: &Workspace,
    command: &[&str],
    look: impl FnOnce(&Path) -> Result<T>,
) -> Result<(f64, T)> {
    let folder = workspace.scratch("cold-build")?;
    clear(&folder)?;
    // Dependencies are fetched first, because the network is not part of the measurement.
    workspace.cargo(&["fetch", "--locked", "--quiet"]).run()?;
    let begun = Instant::now();
    let build = workspace.cargo(command).args(["--locked", "--quiet"]);
    build.env("CARGO_TARGET_DIR", &folder).run()?;
    let seconds = begun.elapsed().as_secs_f64();
    let seen = look(&folder)?;
    clear(&folder)?;
    Ok((seconds, seen))
}

/// Returns the CPU time of ended child processes, in seconds.
fn processor_seconds() -> Result<f64> {
    let path = "/proc/self/stat";
    let stat = fs::read_to_string(path).context(path)?;
    waited_for(&stat).with_context(|| format!("unexpected content of {path}: {stat}"))
}

fn waited_for(stat: &str) -> Option<f64> {
    // The second field may contain any text, the following fields do not.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / TICKS)
}

fn clear(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_children_is_read_after_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 10 20 0 0 11 12 250 50 20 0 1 0 100";
        assert_eq!(waited_for(stat), Some(3.0));
        assert_eq!(waited_for("7 (cut) S 1"), None);
    }

    #[test]
    fn stat_file_of_this_process_is_readable() {
        assert!(processor_seconds().unwrap() >= 0.0);
    }
}
