//! Debian package of the daemon: program, alias, systemd unit, user, completions and manual pages.

use super::build::Platform;
use super::{PROGRAM, empty, pack};
use crate::process::Process;
use crate::workspace::entries;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Paths in the folder of the archive, and in the package.
const FILES: [(&str, &str); 15] = [
    ("provider-daemon", "usr/bin/provider-daemon"),
    ("provider-services", "usr/bin/provider-services"),
    (
        "deploy/systemd/provider-daemon.service",
        "usr/lib/systemd/system/provider-daemon.service",
    ),
    (
        "deploy/systemd/sysusers.conf",
        "usr/lib/sysusers.d/provider-daemon.conf",
    ),
    ("deploy/systemd/environment", "etc/akash-provider/environment"),
    ("deploy", "usr/share/provider-daemon/deploy"),
    (
        "completions/provider-daemon.bash",
        "usr/share/bash-completion/completions/provider-daemon",
    ),
    (
        "completions/provider-services.bash",
        "usr/share/bash-completion/completions/provider-services",
    ),
    (
        "completions/provider-daemon.fish",
        "usr/share/fish/vendor_completions.d/provider-daemon.fish",
    ),
    (
        "completions/provider-services.fish",
        "usr/share/fish/vendor_completions.d/provider-services.fish",
    ),
    (
        "completions/_provider-daemon",
        "usr/share/zsh/vendor-completions/_provider-daemon",
    ),
    (
        "completions/_provider-services",
        "usr/share/zsh/vendor-completions/_provider-services",
    ),
    ("man", "usr/share/man/man1"),
    (
        "provider-daemon.licences.txt",
        "usr/share/doc/provider-daemon/copyright",
    ),
    (
        "provider-daemon.cdx.json",
        "usr/share/doc/provider-daemon/provider-daemon.cdx.json",
    ),
];

/// Builds the package from the folder of the archive, in the folder `to`.
pub(super) fn build(from: &Path, platform: &Platform, version: &str, to: &Path) -> Result<()> {
    let scratch = to.join(format!(".deb-{}", platform.debian));
    let (data, control) = (scratch.join("data"), scratch.join("control"));
    empty(&data)?;
    for (file, place) in FILES {
        copy(&from.join(file), &data.join(place))?;
    }
    Process::new("gzip", &data)
        .args(["--no-name", "-9", "--recursive", "usr/share/man"])
        .quiet()
        .run()?;
    copy(&from.join("deploy/debian"), &control)?;
    let files = files(&data)?;
    let write = |name: &str, text: String| {
        let path = control.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    write("control", fields(platform, version, size(&files)?))?;
    let names = files.iter().filter_map(|file| file.strip_prefix(&data).ok());
    let sums = Process::new("md5sum", &data).args(names).quiet().lines()?;
    write("md5sums", sums.join("\n") + "\n")?;
    let members = ["debian-binary", "control.tar.gz", "data.tar.gz"].map(|name| scratch.join(name));
    let [format, control_archive, data_archive] = &members;
    fs::write(format, "2.0\n").with_context(|| format.display().to_string())?;
    pack::archive(&control, ".", control_archive)?;
    pack::archive(&data, ".", data_archive)?;
    let package = to.join(format!("{PROGRAM}_{version}_{}.deb", platform.debian));
    pack::ar(&members.each_ref().map(PathBuf::as_path), &package)?;
    fs::remove_dir_all(&scratch).with_context(|| scratch.display().to_string())
}

/// Copies a file, a link or a folder.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    Process::new("cp", folder)
        .args(["--recursive", "--no-dereference", "--no-target-directory"])
        .args([from, to])
        .quiet()
        .run()
}

/// Returns the sorted paths of all files below a folder, without links.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the size of files in KiB. Each file is rounded up, so that the sum does not depend on the file system.
fn size(files: &[PathBuf]) -> Result<u64> {
    let sizes = files.iter().map(|file| {
        let data = fs::metadata(file).with_context(|| file.display().to_string())?;
        Ok(data.len().div_ceil(1024))
    });
    sizes.sum()
}

fn fields(platform: &Platform, version: &str, size: u64) -> String {
    format!(
        "Package: {PROGRAM}\n\
         Version: {version}\n\
         Architecture: {}\n\
         Maintainer: Akash Network <hello@akash.network>\n\
         Homepage: https://akash.network\n\
         Installed-Size: {size}\n\
         Depends: systemd | systemd-standalone-sysusers\n\
         Recommends: ca-certificates\n\
         Suggests: bc, curl, jq\n\
         Conflicts: provider\n\
         Replaces: provider\n\
         Section: net\n\
         Priority: optional\n\
         Description: Akash compute provider\n \
         The daemon follows the Akash chain, bids on orders, and runs leases on a\n \
         Kubernetes cluster. The alias provider-services accepts the command lines\n \
         of the Go provider.\n",
        platform.debian,
    )
}
