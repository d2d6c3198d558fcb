//! `cargo xtask verify`: the gate. It reads the sources and writes nothing but build output.
//!
//! What it finds and a program can mend, `cargo xtask fix` mends.

mod advisories;
mod licences;
mod lints;
mod manifests;
mod packages;
mod reasons;
mod rooms;
mod semver;

use crate::error::Result;
use crate::report::{Kind, Notes, Report};
use crate::workspace::Workspace;
use crate::{alone, docs, layers, prose, survey};
pub(crate) use manifests::version;
pub(crate) use reasons::write_weights;

const WASM: &str = "wasm32-unknown-unknown";

/// Runs every check and prints the table.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut report = Report::default();
    stages(workspace, &mut report);
    report.finish()
}

/// The checks as stages of a longer command, cheap ones first. True when all of them held.
pub(crate) fn stages(workspace: &Workspace, report: &mut Report) -> bool {
    let held = [
        report.stage(Kind::Run, "formatting", || {
            done(workspace.cargo(&["fmt", "--all", "--check"]).run())
        }),
        report.stage(Kind::Run, "lints of each member", || done(lints::run(workspace))),
        report.stage(Kind::Run, "length of files", || rooms::run(workspace)),
        report.stage(Kind::Run, "licences, bans, sources", || licences::run(workspace)),
        report.stage(Kind::Run, "known holes", || advisories::run(workspace)),
        report.stage(Kind::Run, "reasons of dependencies", || {
            done(reasons::run(workspace))
        }),
        report.stage(Kind::Run, "manifests", || done(manifests::run(workspace))),
        report.stage(Kind::Run, "public types", || done(survey::unreached(workspace))),
        report.stage(Kind::Run, "migration tables", || {
            done(survey::migrating(workspace))
        }),
        report.stage(Kind::Run, "prose", || prose::verify(workspace)),
        report.stage(Kind::Run, "links", || done(docs::links(workspace))),
        report.stage(Kind::Run, "layers", || done(layers::run(workspace))),
        report.stage(Kind::Build, "clippy", || done(clippy(workspace))),
        report.stage(Kind::Build, "each crate alone", || done(alone::run(workspace))),
        report.stage(Kind::Build, "packages", || done(packages::run(workspace))),
        report.stage(Kind::Build, "versions", || semver::run(workspace)),
        report.stage(Kind::Build, "the pure core on wasm", || done(wasm(workspace))),
        report.stage(Kind::Build, "documentation", || done(docs::build(workspace))),
    ];
    held.iter().all(|held| *held)
}

fn done(outcome: Result<()>) -> Result<Notes> {
    outcome.map(|()| Notes::new())
}

fn clippy(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ])
        .run()
}

/// The same code screens bids in a browser, so the core without its default features must build for one.
fn wasm(workspace: &Workspace) -> Result<()> {
    let rustup = |args: &[&str]| crate::process::Process::new("rustup", &workspace.root).args(args);
    let installed = rustup(&["target", "list", "--installed"]).lines()?;
    if !installed.iter().any(|target| target == WASM) {
        rustup(&["target", "add", WASM]).run()?;
    }
    workspace
        .cargo(&[
            "check",
            "--locked",
            "-p",
            "akash-provider-core",
            "--no-default-features",
            "--target",
            WASM,
        ])
        .run()
}
