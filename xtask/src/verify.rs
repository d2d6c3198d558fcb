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

use crate::report::{Notes, StageKind, StageReport};
use crate::workspace::Workspace;
use crate::{alone, docs, layers, prose, survey};
use anyhow::Result;
pub(crate) use reasons::write_weights;

/// Extent of the checks that compile code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All checks of `cargo xtask verify`.
    Full,
    /// The checks of the test command. Omits what rarely differs from the other checks and takes minutes: sets of
    /// features, a build of the packaged core, and the documentation of the tools.
    Quick,
}

const WASM: &str = "wasm32-unknown-unknown";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut report = StageReport::default();
    sources(workspace, &mut report);
    builds(workspace, &mut report, StageKind::Build, Extent::Full);
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

/// Runs the checks that compile code, as stages of this kind. These checks take minutes.
pub(crate) fn builds(workspace: &Workspace, report: &mut StageReport, kind: StageKind, extent: Extent) {
    let mut stage = |name, check: fn(&Workspace, Extent) -> Result<Notes>| {
        report.stage(kind, name, || check(workspace, extent))
    };
    stage("clippy", |workspace, _| done(clippy(workspace)));
    stage("packages", |workspace, extent| {
        done(packages::run(workspace, extent))
    });
    stage("versions", |workspace, _| semver::run(workspace));
    stage("the pure core on wasm", |workspace, _| done(wasm(workspace)));
    stage("documentation", |workspace, extent| {
        done(docs::build(workspace, extent))
    });
    stage("each crate alone", |workspace, extent| {
        done(alone::run(workspace, extent))
    });
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
