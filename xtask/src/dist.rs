//! `cargo xtask dist`: builds the files of a release: archives with statically linked programs, Debian packages, bills
//! of materials, charts and checksums.
//!
//! The files contain no path, no user name and no time of the building machine, so two builds give equal bytes.

mod build;
mod charts;
mod deb;
mod licences;
mod pack;
mod packages;
mod sbom;
#[cfg(test)]
mod tests;

use crate::process::Process;
use crate::workspace::{Workspace, entries};
use anyhow::{Context, Result, bail};
use build::Platform;
use std::fs;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "provider-daemon";
/// Program with the operators only.
const OPERATORS: &str = "provider-operators";
/// Name of the Go provider's program. The daemon started by this name accepts the same command lines.
const ALIAS: &str = "provider-services";
const SHELLS: [(&str, &str, &str); 3] = [("bash", "", ".bash"), ("zsh", "_", ""), ("fish", "", ".fish")];
/// Maximum size of a program, in MiB.
const MEBIBYTES_MAX: f64 = 40.0;

/// Arguments of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct DistArgs {
    /// Builds only for the processor of this machine
    #[arg(long)]
    native: bool,
}

/// Builds the release in `target/dist-archives`, and prints the checksums of its files.
pub(crate) fn run(workspace: &Workspace, args: &DistArgs) -> Result<()> {
    let release = Release::new(workspace, workspace.scratch("dist-archives")?)?;
    let native = Platform::native()?;
    release.assemble(
        native,
        &build::programs(workspace, native, &[PROGRAM, OPERATORS])?,
    )?;
    let mut skipped = Vec::new();
    for other in build::PLATFORMS
        .iter()
        .filter(|other| !args.native && !other.is_native())
    {
        match other.missing_toolchain(workspace.root()) {
            Some(reason) => skipped.push(format!("skipped: {}: {reason}", other.triple)),
            None => release.assemble(other, &build::programs(workspace, other, &[PROGRAM, OPERATORS])?)?,
        }
    }
    charts::package(workspace, &release.version, &release.folder)?;
    for line in release.checksums()?.iter().chain(&skipped) {
        println!("{line}");
    }
    Ok(())
}

/// Builds the statically linked daemon for this machine with the profile `dist`, and returns its path.
pub(crate) fn daemon(workspace: &Workspace) -> Result<PathBuf> {
    Ok(build::programs(workspace, Platform::native()?, &[PROGRAM])?.join(PROGRAM))
}

/// Returns the size of a file in MiB.
pub(crate) fn mebibytes(path: &Path) -> Result<f64> {
    let data = fs::metadata(path).with_context(|| path.display().to_string())?;
    #[expect(clippy::cast_precision_loss, reason = "a file has fewer bytes than 2^52")]
    let bytes = data.len() as f64;
    Ok(bytes / f64::from(1 << 20))
}

/// Creates an empty folder, and removes an older folder with its files.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// Release of one version.
#[derive(Debug)]
struct Release<'a> {
    workspace: &'a Workspace,
    version: String,
    /// Folder of the release's files.
    folder: PathBuf,
}

impl<'a> Release<'a> {
    fn new(workspace: &'a Workspace, folder: PathBuf) -> Result<Self> {
        // Files of an earlier build must not get into the release.
        empty(&folder)?;
        let daemon = workspace.members().find(|member| member.name == PROGRAM);
        let version = daemon.context("the workspace has no daemon")?.version.clone();
        Ok(Self {
            workspace,
            version,
            folder,
        })
    }

    /// Returns the name of the archive and of its folder.
    fn name(&self, platform: &Platform) -> String {
        format!("{PROGRAM}-{}-{}", self.version, platform.triple)
    }

    /// Writes archive, Debian package, bill of materials and licences for a platform. The platform of this machine
    /// is first, because its programs print the completions and manual pages of all platforms.
    fn assemble(&self, platform: &Platform, programs: &Path) -> Result<()> {
        let name = self.name(platform);
        let folder = self.folder.join(&name);
        empty(&folder)?;
        let root = self.workspace.root();
        for (from, name) in [(programs, PROGRAM), (programs, OPERATORS), (root, "LICENSE")] {
            deb::copy(&from.join(name), &folder.join(name))?;
        }
        for program in [PROGRAM, OPERATORS] {
            let size = mebibytes(&folder.join(program))?;
            println!("{program} for {}: {size:.1} MiB", platform.triple);
            if size > MEBIBYTES_MAX {
                bail!("{program} is larger than {MEBIBYTES_MAX} MiB: see `[profile.dist]` in Cargo.toml");
            }
        }
        let alias = folder.join(ALIAS);
        std::os::unix::fs::symlink(PROGRAM, &alias).with_context(|| alias.display().to_string())?;
        generate(&self.folder.join(self.name(Platform::native()?)), &folder)?;
        self.document(platform, &name)?;
        Process::new("cp", root)
            .args(["--recursive", "deploy"])
            .args([&folder])
            .quiet()
            .run()?;
        pack::archive(&self.folder, &name, &self.folder.join(format!("{name}.tar.gz")))?;
        deb::build(&folder, platform, &self.version, &self.folder)
    }

    /// Writes the bill of materials and the licences of all packages in the daemon, beside and into the folder
    /// `name`.
    fn document(&self, platform: &Platform, name: &str) -> Result<()> {
        let components = packages::components(self.workspace, platform.triple)?;
        let checksums = packages::checksums(self.workspace)?;
        for (ending, text) in [
            ("cdx.json", sbom::text(&components, &checksums)?),
            ("licences.txt", licences::text(&components)?),
        ] {
            for path in [
                self.folder.join(format!("{name}.{ending}")),
                self.folder.join(name).join(format!("{PROGRAM}.{ending}")),
            ] {
                fs::write(&path, &text).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Writes the SHA-256 checksums of all files to `SHA256SUMS`, and returns its lines.
    fn checksums(&self) -> Result<Vec<String>> {
        let files = entries(&self.folder)?.into_iter().filter(|path| path.is_file());
        let names = files.filter_map(|path| path.file_name().map(ToOwned::to_owned));
        let sums = Process::new("sha256sum", &self.folder)
            .args(names)
            .quiet()
            .lines()?;
        let list = self.folder.join("SHA256SUMS");
        fs::write(&list, sums.join("\n") + "\n").with_context(|| list.display().to_string())?;
        Ok(sums)
    }
}

/// Writes the completions of the program and of its alias, and the manual pages. `programs` is a folder with programs
/// for this machine.
fn generate(programs: &Path, folder: &Path) -> Result<()> {
    let completions = folder.join("completions");
    empty(&completions)?;
    for name in [PROGRAM, ALIAS] {
        for (shell, prefix, suffix) in SHELLS {
            let script = Process::new(programs.join(name), folder)
                .args(["completions", shell])
                .quiet()
                .lines()?;
            let path = completions.join(format!("{prefix}{name}{suffix}"));
            fs::write(&path, script.join("\n") + "\n").with_context(|| path.display().to_string())?;
        }
    }
    Process::new(programs.join(PROGRAM), folder)
        .args(["man-pages", "man"])
        .quiet()
        .run()
}
