//! Helm charts of a release.

use super::{empty, pack};
use crate::process::Process;
use crate::workspace::{Workspace, entries};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Packages the charts in `deploy/chart` with the version of the release. Builds Helm if it is missing.
pub(super) fn package(workspace: &Workspace, version: &str, to: &Path) -> Result<()> {
    let helm = testbed::helm()?;
    let scratch = to.join(".charts");
    for folder in entries(&workspace.root().join("deploy/chart"))? {
        if !folder.join("Chart.yaml").exists() {
            continue;
        }
        empty(&scratch)?;
        Process::new(&helm, &scratch)
            .args([Path::new("package"), &folder])
            .args(["--version", version, "--app-version", version])
            .quiet()
            .lines()?;
        repack(&scratch, to)?;
    }
    fs::remove_dir_all(&scratch).with_context(|| scratch.display().to_string())
}

/// Packs the only chart in `scratch` again, because Helm writes the time of the build into the archive.
fn repack(scratch: &Path, to: &Path) -> Result<()> {
    let found = entries(scratch)?;
    let archive = found.first().context("`helm package` wrote no chart")?;
    let unpacked = scratch.join("chart");
    empty(&unpacked)?;
    Process::new("tar", &unpacked)
        .args(["--extract", "--file"])
        .args([archive])
        .quiet()
        .run()?;
    let name = archive.file_name().unwrap_or_default();
    for chart in entries(&unpacked)? {
        let chart = chart
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        pack::archive(&unpacked, &chart, &to.join(name))?;
    }
    Ok(())
}
