//! `cargo xtask verify`: checks the sources. Writes only build output.
//!
//! `cargo xtask fix` fixes the findings that a program can fix.

mod advisories;
mod file_length;
mod licences;
mod lints;
mod manifests;
mod packages;
mod reasons;
mod semver;

use crate::error::Result;
use crate::report::{Kind, Notes, Report};
use crate::workspace::Workspace;
use crate::{alone, docs, layers, prose, survey};
pub(crate) use manifests::version;
pub(crate) use reasons::write_weights;

const WASM: &str = "wasm32-unknown-unknown";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut report = Report::default();
    stages(workspace, &mut report);
    report.finish()
}

/// Runs the checks as stages of a report, cheap checks first. Returns `true` if all passed.
pub(crate) fn stages(workspace: &Workspace, report: &mut Report) -> bool {
    let passed = [
        report.stage(Kind::Run, "formatting", || {
            done(workspace.cargo(&["fmt", "--all", "--check"]).run())
        }),
        report.stage(Kind::Run, "lints of each member", || done(lints::run(workspace))),
        report.stage(Kind::Run, "length of files", || file_length::run(workspace)),
        report.stage(Kind::Run, "licences, bans, sources", || licences::run(workspace)),
        report.stage(Kind::Run, "known vulnerabilities", || advisories::run(workspace)),
        report.stage(Kind::Run, "reasons of dependencies", || {
            done(reasons::run(workspace))
        }),
        report.stage(Kind::Run, "manifests", || done(manifests::run(workspace))),
        report.stage(Kind::Run, "public types", || done(survey::unreached(workspace))),
        report.stage(Kind::Run, "migration tables", || {
            done(survey::migrating(workspace))
        }),
        report.stage(Kind::Run, "prose", || prose::verify(workspace)),
        report.stage(Kind::Run, "log messages", || {
            done(docs::verify_messages(workspace))
        }),
        report.stage(Kind::Run, "links", || done(docs::links(workspace))),
        report.stage(Kind::Run, "layers", || done(layers::run(workspace))),
        report.stage(Kind::Build, "clippy", || done(clippy(workspace))),
        report.stage(Kind::Build, "each crate alone", || done(alone::run(workspace))),
        report.stage(Kind::Build, "packages", || done(packages::run(workspace))),
        report.stage(Kind::Build, "versions", || semver::run(workspace)),
        report.stage(Kind::Build, "the pure core on wasm", || done(wasm(workspace))),
        report.stage(Kind::Build, "documentation", || done(docs::build(workspace))),
    ];
    passed.iter().all(|passed| *passed)
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

/// Checks that the core without its default features compiles for WebAssembly, so that browsers can screen
/// orders.
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
