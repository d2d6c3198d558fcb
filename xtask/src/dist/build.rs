//! Builds of statically linked programs for the platforms of a release.

use crate::process::Process;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Platform of a release.
#[derive(Debug)]
pub(super) struct Platform {
    /// Name of the platform in Rust.
    pub(super) triple: &'static str,
    /// Name of the processor in Rust.
    processor: &'static str,
    /// Name of the processor in Debian.
    pub(super) debian: &'static str,
    /// C compiler on a machine with another processor.
    cross_compiler: &'static str,
    /// Maximum page size of the platform's kernels, as a power of two.
    page_bits: &'static str,
}

pub(super) static PLATFORMS: [Platform; 2] = [
    Platform {
        triple: "x86_64-unknown-linux-musl",
        processor: "x86_64",
        debian: "amd64",
        cross_compiler: "x86_64-linux-gnu-gcc",
        page_bits: "12",
    },
    Platform {
        triple: "aarch64-unknown-linux-musl",
        processor: "aarch64",
        debian: "arm64",
        cross_compiler: "aarch64-linux-gnu-gcc",
        page_bits: "16",
    },
];

impl Platform {
    /// Returns the platform of this machine.
    ///
    /// # Errors
    /// Fails on a processor without a release.
    pub(super) fn native() -> Result<&'static Self> {
        let native = PLATFORMS.iter().find(|platform| platform.is_native());
        native.with_context(|| format!("no release for the processor {}", std::env::consts::ARCH))
    }

    pub(super) fn is_native(&self) -> bool {
        self.processor == std::env::consts::ARCH
    }

    /// Returns the C compiler and linker for this platform.
    const fn compiler(&self, is_native: bool) -> &'static str {
        // The C code of dependencies needs no C library, so the compiler of this machine is sufficient.
        if is_native { "cc" } else { self.cross_compiler }
    }

    /// Returns why this machine cannot build for the platform, with the remedy, or `None` if it can.
    pub(super) fn missing_toolchain(&self, root: &Path) -> Option<String> {
        let compiler = self.compiler(self.is_native());
        let version = Process::new(compiler, root).args(["--version"]).quiet().silent();
        if version.lines().is_err() {
            return Some(format!("no C compiler: install `{compiler}`"));
        }
        let library = self.install_library(root).err()?;
        Some(format!("{library:#}"))
    }

    fn install_library(&self, root: &Path) -> Result<()> {
        Process::new("rustup", root)
            .args(["target", "add", self.triple])
            .quiet()
            .run()
            .with_context(|| format!("cannot install the standard library of {}", self.triple))
    }
}

/// Builds programs for a platform with the profile `dist`, and returns their folder.
pub(super) fn programs(workspace: &Workspace, platform: &Platform, names: &[&str]) -> Result<PathBuf> {
    platform.install_library(workspace.root())?;
    let compiler = platform.compiler(platform.is_native());
    let variable = platform.triple.replace('-', "_");
    let settings = format!("CARGO_TARGET_{}", variable.to_uppercase());
    workspace
        .cargo(&["build", "--locked", "--profile", "dist", "-p", super::PROGRAM])
        .args(["--target", platform.triple])
        .args(names.iter().flat_map(|name| ["--bin", name]))
        .env(&format!("CC_{variable}"), compiler)
        .env(&format!("{settings}_LINKER"), compiler)
        // The default of the allocator is four arenas per core, and each arena retains memory.
        .env("JEMALLOC_SYS_WITH_MALLOC_CONF", "narenas:2")
        .env("JEMALLOC_SYS_WITH_LG_PAGE", platform.page_bits)
        .env(
            &format!("{settings}_RUSTFLAGS"),
            flags(workspace.root())?.join(" "),
        )
        .run()?;
    Ok(workspace.built(platform.triple, "dist", ""))
}

/// Returns the flags of the compiler: LLD with identical code folding, and no path of this machine in the program.
fn flags(root: &Path) -> Result<Vec<String>> {
    let lines = Process::new("rustc", root)
        .args(["--print", "sysroot"])
        .quiet()
        .lines()?;
    let sysroot = lines.first().map_or("", |line| line.trim());
    let processor = std::env::consts::ARCH;
    let linker = format!("{sysroot}/lib/rustlib/{processor}-unknown-linux-gnu/bin/gcc-ld");
    let cargo = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .context("set HOME, so that the folder of cargo is known")?;
    Ok(vec![
        format!("-Clink-arg=-B{linker}"),
        "-Clink-arg=-fuse-ld=lld".to_owned(),
        "-Clink-arg=-Wl,--icf=all".to_owned(),
        // Small tables of relocations, which the program reads at its start.
        "-Clink-arg=-Wl,--pack-dyn-relocs=relr".to_owned(),
        format!("--remap-path-prefix={}=/source", root.display()),
        format!("--remap-path-prefix={cargo}=/cargo"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_compiler_is_named_with_its_package() {
        let platform = Platform {
            processor: "another",
            cross_compiler: "another-linux-gnu-gcc",
            ..PLATFORMS[0]
        };
        let reason = platform.missing_toolchain(Path::new("/")).unwrap();
        assert_eq!(reason, "no C compiler: install `another-linux-gnu-gcc`");
    }
}
