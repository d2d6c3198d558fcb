//! Distribution packages. A missing package is installed if possible. Otherwise the error names the package.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::Run;
use crate::error::{Error, Result};
use crate::tier::Tier;

/// Package to install, and its files.
struct Package {
    name: &'static str,
    files: &'static [&'static str],
}

const fn package(name: &'static str, files: &'static [&'static str]) -> Package {
    Package { name, files }
}

/// Packages for every tier.
const ALWAYS: [Package; 3] = [
    package(
        "iproute2",
        &["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"],
    ),
    package("openssl", &["/usr/bin/openssl"]),
    package("util-linux", &["/usr/bin/nsenter"]),
];
const NODE: [Package; 7] = [
    package("containerd", &["/usr/bin/containerd"]),
    package("runc", &["/usr/sbin/runc", "/usr/bin/runc"]),
    package("containernetworking-plugins", &["/usr/lib/cni/bridge"]),
    package("conntrack", &["/usr/sbin/conntrack", "/usr/bin/conntrack"]),
    package("iptables", &["/usr/sbin/iptables", "/sbin/iptables"]),
    package("busybox-static", &["/bin/busybox", "/usr/bin/busybox"]),
    // Proxy for routes of hostnames.
    package("haproxy", &["/usr/sbin/haproxy"]),
];

/// Package of the Redis server and sentinel. The installation starts no service.
const REDIS: Package = package("redis-tools", &["/usr/bin/redis-check-rdb"]);

/// Package of a library that changes a program's clock.
const FAKETIME: Package = package(
    "libfaketime",
    &[
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    ],
);

pub(crate) fn install(tier: Tier) -> Result<()> {
    let node: &[Package] = if tier == Tier::Node { &NODE } else { &[] };
    add(ALWAYS.iter().chain(node))
}

/// Returns the Redis program, which is a server or a sentinel depending on its name. Installs a missing
/// package.
pub(crate) fn redis() -> Result<PathBuf> {
    add([&REDIS].into_iter())?;
    Ok(REDIS.files.iter().map(PathBuf::from).collect())
}

/// Returns the path of a library that changes the clock of a program. The caller sets LD_PRELOAD to this
/// path. Installs a missing package.
///
/// # Errors
/// Fails if the package cannot be installed. The error names the command to install the package.
pub fn faketime() -> Result<PathBuf> {
    add([&FAKETIME].into_iter())?;
    let found = FAKETIME
        .files
        .iter()
        .map(PathBuf::from)
        .find(|file| file.exists());
    found.ok_or_else(|| Error::new("libfaketime is installed in an unexpected folder"))
}

fn add<'a>(packages: impl Iterator<Item = &'a Package> + Clone) -> Result<()> {
    let missing = || lacking(packages.clone(), |file| Path::new(file).exists());
    if missing().is_empty() {
        return Ok(());
    }
    // Concurrent runs of `apt-get update` fail, and clusters and tests start at the same time.
    let path = std::env::temp_dir().join("akash-provider-testbed.packages.lock");
    let file = File::create(&path).and_then(|file| file.lock().map(|()| file));
    let _installing = file.map_err(|error| Error::new(format!("cannot lock {}: {error}", path.display())))?;
    let lacking = missing();
    if lacking.is_empty() {
        return Ok(());
    }
    let command = format!("apt-get install -y --no-install-recommends {}", lacking.join(" "));
    let with_remedy = |error| {
        Error::new(format!(
            "{error}\nthe tests need these programs; install them with: {command}"
        ))
    };
    eprintln!("installing {}", lacking.join(" "));
    let apt = |args: &[&str]| {
        Run::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .limit(Duration::from_mins(10))
            .done()
    };
    let args = [&["install", "-y", "--no-install-recommends"], &lacking[..]].concat();
    // A fresh machine has no package lists, and an old one has outdated lists.
    apt(&["update"]).and_then(|()| apt(&args)).map_err(with_remedy)
}

fn lacking<'a>(
    packages: impl Iterator<Item = &'a Package>,
    exists: impl Fn(&str) -> bool,
) -> Vec<&'static str> {
    packages
        .filter(|package| !package.files.iter().any(|file| exists(file)))
        .map(|package| package.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_packages_are_installed() {
        let all = || ALWAYS.iter().chain(&NODE);
        assert!(lacking(all(), |_| true).is_empty());
        assert_eq!(
            lacking(ALWAYS.iter(), |file| file.starts_with("/usr/bin")),
            Vec::<&str>::new()
        );
        assert_eq!(
            lacking(all(), |file| file != "/usr/bin/containerd"),
            ["containerd"]
        );
        assert_eq!(lacking(all(), |_| false).len(), ALWAYS.len() + NODE.len());
    }
}
