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

use crate::alone::Scope;
use crate::report::{Notes, StageKind, StageReport};
use crate::workspace::Workspace;
use crate::{alone, docs, layers, prose, survey};
use anyhow::Result;
pub(crate) use reasons::write_weights;

const WASM: &str = "wasm32-unknown-unknown";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut report = StageReport::default();
    sources(workspace, &mut report);
    builds(workspace, &mut report, StageKind::Build, Scope::All);
    report.finish()
}

/// Runs the checks that read only the sources. These checks take seconds.
pub(crate) fn sources(workspace: &Workspace, report: &mut StageReport) {
    let mut stage = |name, check: fn(&Workspace) -> Result<Notes>| {
        report.stage(StageKind::Run, name, || check(workspace))
    };
    stage("formatting", |workspace| {
        done(workspace.cargo(&["fmt", "--all", "--check"]).run())
    });
    stage("lints of each member", |workspace| done(lints::run(workspace)));
    stage("length of files", file_length::run);
    stage("licences, bans, sources", licences::run);
    stage("known vulnerabilities", advisories::run);
    stage("reasons of dependencies", |workspace| {
        done(reasons::run(workspace))
    });
    stage("manifests", |workspace| done(manifests::run(workspace)));
    stage("structure", |workspace| done(survey::structure(workspace)));
    stage("migration tables", |workspace| done(survey::migrating(workspace)));
    stage("prose", prose::verify);
    stage("log messages", |workspace| done(docs::verify_messages(workspace)));
    stage("links", |workspace| done(docs::links(workspace)));
    stage("layers", |workspace| done(layers::run(workspace)));
}

/// Runs the checks that compile code, as stages of this kind. These checks take minutes. `scope` selects the crates that
/// are compiled separately.
pub(crate) fn builds(workspace: &Workspace, report: &mut StageReport, kind: StageKind, scope: Scope) {
    let mut stage =
        |name, check: fn(&Workspace) -> Result<Notes>| report.stage(kind, name, || check(workspace));
    stage("clippy", |workspace| done(clippy(workspace)));
    stage("packages", |workspace| done(packages::run(workspace)));
    stage("versions", semver::run);
    stage("the pure core on wasm", |workspace| done(wasm(workspace)));
    stage("documentation", |workspace| done(docs::build(workspace)));
    report.stage(kind, "each crate alone", || done(alone::run(workspace, scope)));
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

/// Checks that the core without default features compiles for WebAssembly.
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
