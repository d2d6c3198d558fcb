//! `cargo xtask dist`: builds the release archive of the daemon, with statically linked programs.
//!
//! The archive contains no path, no user name and no time of the building machine.

use crate::process::Process;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "provider-daemon";
/// Program with the operators only.
const OPERATORS: &str = "provider-operators";
/// Platform of the archive. Other platforms need a C cross compiler.
const TARGET: &str = "x86_64-unknown-linux-musl";
const SHELLS: [(&str, &str); 3] = [
    ("bash", "provider-daemon.bash"),
    ("zsh", "_provider-daemon"),
    ("fish", "provider-daemon.fish"),
];

/// Builds the archive in `target/dist-archives` and prints its path and checksum.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let programs = build(workspace, &[PROGRAM, OPERATORS])?;
    let version = workspace
        .members()
        .find(|member| member.name == PROGRAM)
        .map_or("0.0.0", |member| &member.version);
    let name = format!("{PROGRAM}-{version}-{TARGET}");
    let archives = workspace.scratch("dist-archives")?;
    let folder = archives.join(&name);
    // A file of an earlier build must not get into the archive.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    collect(workspace, &programs, &folder)?;
    let archive = archives.join(format!("{name}.tar.gz"));
    pack(&archives, &name, &archive)?;
    let sums = Process::new("sha256sum", &archives)
        .args([&format!("{name}.tar.gz")])
        .lines()?
        .join("\n");
    let list = archives.join("SHA256SUMS");
    fs::write(&list, format!("{sums}\n")).with_context(|| list.display().to_string())?;
    println!("{}", archive.display());
    println!("{sums}");
    for program in [PROGRAM, OPERATORS] {
        println!("{program}: {:.1} MiB", mebibytes(&programs.join(program))?);
    }
    Ok(())
}

/// Returns the size of a file in MiB.
pub(crate) fn mebibytes(path: &Path) -> Result<f64> {
    let data = fs::metadata(path).with_context(|| path.display().to_string())?;
    #[expect(clippy::cast_precision_loss, reason = "a file has fewer bytes than 2^52")]
    let bytes = data.len() as f64;
    Ok(bytes / f64::from(1 << 20))
}

/// Builds the statically linked daemon with the profile `dist`, and returns its path.
pub(crate) fn daemon(workspace: &Workspace) -> Result<PathBuf> {
    Ok(build(workspace, &[PROGRAM])?.join(PROGRAM))
}

/// Builds statically linked programs with the profile `dist`, and returns their folder.
fn build(workspace: &Workspace, programs: &[&str]) -> Result<PathBuf> {
    let root = workspace.root();
    let added = Process::new("rustup", root)
        .args(["target", "add", TARGET])
        .quiet()
        .run();
    added.with_context(|| format!("cannot install the standard library of {TARGET}"))?;
    workspace
        .cargo(&[
            "build",
            "--locked",
            "--profile",
            "dist",
            "-p",
            PROGRAM,
            "--target",
            TARGET,
        ])
        .args(programs.iter().flat_map(|program| ["--bin", program]))
        // The C code of dependencies needs no C library, so the compiler of this machine is sufficient.
        .env("CC_x86_64_unknown_linux_musl", "cc")
        // The default of the allocator is four arenas per core, and each arena retains memory.
        .env("JEMALLOC_SYS_WITH_MALLOC_CONF", "narenas:2")
        .env(
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS",
            flags(root)?.join(" "),
        )
        .run()?;
    Ok(workspace.built(TARGET, "dist", ""))
}

/// Returns the flags of the compiler: LLD with identical code folding, and no path of this machine in the program.
fn flags(root: &Path) -> Result<Vec<String>> {
    let lines = Process::new("rustc", root)
        .args(["--print", "sysroot"])
        .quiet()
        .lines()?;
    let sysroot = lines.first().map_or("", |line| line.trim());
    let linker = format!("{sysroot}/lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld");
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

/// Copies everything for the archive to `folder`: programs, licence, completions, and the files of `deploy`.
fn collect(workspace: &Workspace, programs: &Path, folder: &Path) -> Result<()> {
    let root = workspace.root();
    let completions = folder.join("completions");
    fs::create_dir_all(&completions).with_context(|| completions.display().to_string())?;
    for (from, name) in [(programs, PROGRAM), (programs, OPERATORS), (root, "LICENSE")] {
        let from = from.join(name);
        fs::copy(&from, folder.join(name)).with_context(|| from.display().to_string())?;
    }
    for (shell, file) in SHELLS {
        let script = Process::new(programs.join(PROGRAM), root)
            .args(["completions", shell])
            .quiet()
            .lines()?;
        let path = completions.join(file);
        fs::write(&path, script.join("\n") + "\n").with_context(|| path.display().to_string())?;
    }
    Process::new("cp", root)
        .args(["-r", "deploy"])
        .args([folder])
        .run()
}

/// Packs the folder `name` without the times and the user names of this machine.
fn pack(archives: &Path, name: &str, archive: &Path) -> Result<()> {
    Process::new("tar", archives)
        .args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ])
        .args(["--mode=u=rwX,go=rX", "--use-compress-program=gzip --no-name -9"])
        .args(["--create", "--file"])
        .args([archive])
        .args([name])
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn archives_of_equal_files_have_equal_bytes() {
        let folder = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        let mut archives = Vec::new();
        // Another order of creation, and other times.
        for names in [["a", "b"], ["b", "a"]] {
            let name = folder.join("name");
            fs::create_dir_all(&name).unwrap();
            for file in names {
                fs::write(name.join(file), file).unwrap();
            }
            let file = fs::File::options().write(true).open(name.join("a")).unwrap();
            let old = SystemTime::now() - Duration::from_secs(1000 * archives.len() as u64);
            file.set_modified(old).unwrap();
            let archive = folder.join("archive.tar.gz");
            pack(&folder, "name", &archive).unwrap();
            archives.push(fs::read(&archive).unwrap());
            fs::remove_dir_all(&folder).unwrap();
        }
        assert!(archives[0].len() > 50 && archives[0] == archives[1]);
    }
}
