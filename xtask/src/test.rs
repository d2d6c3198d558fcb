//! `cargo xtask test`: the test command, which runs every check that a change must pass. A fresh clone needs
//! only rustup and Go. The table at the end of the output compares the durations with their time limits.

use anyhow::{Result, anyhow, bail};
use std::thread;
use std::time::Duration;

use crate::error::from_findings;
use crate::report::{Notes, StageKind, StageReport};
use crate::suites::{self, Suite};
use crate::workspace::{Package, Workspace};
use crate::{docs, sim, tally, tiers, verify};

const SEEDS: sim::Args = sim::Args {
    seeds: 20_000,
    seed: 1,
};
/// Documented examples, which all end with an assertion.
const EXAMPLES: [&str; 8] = [
    "embedded",
    "fixed_price",
    "static_inventory",
    "file_bus",
    "process_cluster",
    "own-chain",
    "own-gateway",
    "sans_io",
];
/// Example that needs a Redis server. Only the test of the example starts this server.
const SERVED: &str = "example-watch_bus";
/// Time limit of an example or of `dev --once`.
const LIMIT: Duration = Duration::from_mins(2);
/// Folder with SDL files. The daemon runs one order for each file.
const SDL: &str = "akash-provider-core/tests/data/sdl";

/// Runs all stages and prints the time table. Fails if a stage fails.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut report = StageReport::default();
    verify::sources(workspace, &mut report);
    let mut suites = None;
    report.stage(StageKind::Build, "build of tests, programs", || {
        suites = Some(build(workspace)?);
        Ok(Notes::new())
    });
    let tiers = tiers::prepare(workspace, &mut report);
    // Tests mostly wait: for their cluster, or for time to pass. The background stages use the processors in this time.
    // All programs of the tests are built before, because a later build would wait for those of the background.
    let background = thread::scope(|scope| {
        let background = scope.spawn(|| background(&workspace.in_background()));
        if let Some(suites) = suites {
            report.stage(StageKind::Run, "tests", || suites::run("tests", suites));
            report.stage(StageKind::Run, "examples", || examples(workspace));
            report.stage(StageKind::Run, "dev --once", || dev_once(workspace));
        }
        tiers::run_all(tiers, &mut report);
        background.join()
    });
    report.extend(background.map_err(|_| anyhow!("the background stages panicked"))?);
    report.finish()
}

/// Runs the stages that need no cluster and no program of the tests, and measure no time.
fn background(workspace: &Workspace) -> StageReport {
    let mut report = StageReport::default();
    verify::builds(
        workspace,
        &mut report,
        StageKind::Background,
        verify::Extent::Quick,
    );
    // Each code block is compiled when it runs.
    report.stage(StageKind::Background, "doctests", || docs::examples(workspace));
    if report.stage(StageKind::Background, "build of the simulation", || {
        sim::build(workspace, sim::Form::Quick).map(|()| Notes::new())
    }) {
        report.stage(StageKind::Background, "exploration", || exploration(workspace));
        report.stage(StageKind::Background, "simulation", || {
            sim::seeds(workspace, sim::Form::Quick, &SEEDS).map(|_| Notes::new())
        });
    }
    report
}

/// Builds programs and tests in one cargo call, so that dependencies are built once. Returns the tests.
fn build(workspace: &Workspace) -> Result<Vec<Suite>> {
    let targets = ["--lib", "--bins", "--tests"];
    workspace
        .cargo(&["build", "--locked", "--workspace", "--all-features"])
        .args(targets)
        .run()?;
    let cargo = ["test", "--locked", "--workspace", "--all-features"];
    suites::build(workspace, &[&cargo[..], &["--tests"]].concat())
}

fn exploration(workspace: &Workspace) -> Result<Notes> {
    let tests = workspace
        .cargo(sim::Form::Quick.command())
        .args(["--test", "explore", "--"])
        .args(["--show-output", "--include-ignored"]);
    tally::run("exploration", tests)
}

fn examples(workspace: &Workspace) -> Result<Notes> {
    let found: Vec<&Package> = workspace.members_under("examples").collect();
    let names: Vec<&str> = found.iter().map(|example| example.name.as_str()).collect();
    from_findings("missing examples", &absent(&names))?;
    let by_themselves = found.iter().filter(|example| example.name != SERVED);
    for program in by_themselves.flat_map(|example| example.binaries()) {
        crate::process::Process::new(workspace.binary(program), &workspace.root)
            .limit(LIMIT)
            .run()?;
    }
    Ok(Notes::new())
}

fn absent(found: &[&str]) -> Vec<String> {
    let wanted = EXAMPLES.iter().map(|name| format!("example-{name}"));
    wanted.filter(|name| !found.contains(&name.as_str())).collect()
}

fn dev_once(workspace: &Workspace) -> Result<Notes> {
    let folder = workspace.root.join(SDL);
    let mut files: Vec<_> = workspace
        .files("yaml")?
        .into_iter()
        .filter(|file| file.parent() == Some(&folder))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("no SDL file in {SDL}");
    }
    crate::process::Process::new(workspace.binary("provider-daemon"), &workspace.root)
        .args(["dev", "--once", "--accept-any", "--block-time", "50ms"])
        .args(files)
        .limit(LIMIT)
        .run()?;
    Ok(Notes::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_example_is_reported() {
        let all: Vec<String> = EXAMPLES.iter().map(|name| format!("example-{name}")).collect();
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        assert!(absent(&names).is_empty());
        assert_eq!(absent(&names[1..]), ["example-embedded"]);
    }
}
