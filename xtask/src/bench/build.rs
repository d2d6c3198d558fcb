//! Figures of builds from nothing: what a newcomer waits for, and what a clean clone pays before its first test.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::figures::Figure;
use crate::workspace::Workspace;

const CORE: [&str; 3] = ["build", "-p", "akash-provider-core"];
/// The command that README begins with builds this.
const RELEASE: [&str; 4] = ["build", "--release", "-p", "provider-daemon"];
/// What the test command builds before it runs anything.
const TESTS: [&str; 6] = [
    "build",
    "--workspace",
    "--all-features",
    "--lib",
    "--bins",
    "--tests",
];
const BINARY: &str = "release/provider-daemon";
/// Clock ticks of a second, as Linux counts processor time for programs.
const TICKS: f64 = 100.0;
const CPU: &str = "s of a core";
const MIB: f64 = 1_048_576.0;

/// What an embedder waits for: the core and all it needs.
pub(super) fn core(workspace: &Workspace) -> Result<Figure> {
    let (seconds, ()) = cold(workspace, &CORE, |_| Ok(()))?;
    Ok(Figure::new("core_cold_build_s", seconds, "s"))
}

/// All others, one after the other. What a build takes of the processors is read as Linux tells it.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    let begun = processor_seconds()?;
    let (release, bytes) = cold(workspace, &RELEASE, |folder| size(&folder.join(BINARY)))?;
    let between = processor_seconds()?;
    found.extend([
        Figure::new("build_release_cold_cpu_s", between - begun, CPU),
        Figure::new("build_release_cold_s", release, "s"),
        Figure::new("binary_mib", bytes / MIB, "MiB"),
    ]);
    let (tests, ()) = cold(workspace, &TESTS, |_| Ok(()))?;
    let ended = processor_seconds()?;
    found.extend([
        Figure::new("build_test_cold_cpu_s", ended - between, CPU),
        Figure::new("build_test_cold_s", tests, "s"),
    ]);
    Ok(())
}

/// Builds into a folder that is empty before and gone after `look` has seen what came of it; seconds.
fn cold<T>(
    workspace: &Workspace,
    command: &[&str],
    look: impl FnOnce(&Path) -> Result<T>,
) -> Result<(f64, T)> {
    let folder = workspace.scratch("cold-build")?;
    clear(&folder)?;
    // Fetched first: the network is not what is measured.
    workspace.cargo(&["fetch", "--locked", "--quiet"]).run()?;
    let begun = Instant::now();
    let build = workspace.cargo(command).args(["--locked", "--quiet"]);
    build.env("CARGO_TARGET_DIR", &folder).run()?;
    let seconds = begun.elapsed().as_secs_f64();
    let seen = look(&folder)?;
    clear(&folder)?;
    Ok((seconds, seen))
}

/// What every program that this one started, and has waited for, took of the processors.
fn processor_seconds() -> Result<f64> {
    let path = "/proc/self/stat";
    let stat = fs::read_to_string(path).map_err(|error| Error::new(format!("{path}: {error}")))?;
    waited_for(&stat).ok_or_else(|| Error::new(format!("{path} has another form: {stat}")))
}

fn waited_for(stat: &str) -> Option<f64> {
    // The second field may hold anything; what follows it does not.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / TICKS)
}

fn size(path: &Path) -> Result<f64> {
    let data = fs::metadata(path).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    #[expect(clippy::cast_precision_loss, reason = "a file has fewer bytes than 2^52")]
    let bytes = data.len() as f64;
    Ok(bytes)
}

fn clear(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).map_err(|error| Error::new(format!("{}: {error}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 10 20 0 0 11 12 250 50 20 0 1 0 100";
        assert_eq!(waited_for(stat), Some(3.0));
        assert_eq!(waited_for("7 (cut) S 1"), None);
    }

    #[test]
    fn this_process_has_such_a_file() {
        assert!(processor_seconds().unwrap() >= 0.0);
    }
}
