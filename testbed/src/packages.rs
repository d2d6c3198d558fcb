//! What comes from the distribution: installed by us where we may, named where we may not.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::Run;
use crate::error::{Error, Result};
use crate::tier::Tier;

/// A package, and a file that is there when it is installed.
struct Package {
    name: &'static str,
    files: &'static [&'static str],
}

const fn package(name: &'static str, files: &'static [&'static str]) -> Package {
    Package { name, files }
}

/// What every tier needs.
const ALWAYS: [Package; 3] = [
    package(
        "iproute2",
        &["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"],
    ),
    package("openssl", &["/usr/bin/openssl"]),
    package("util-linux", &["/usr/bin/nsenter"]),
];
/// What a node needs.
const NODE: [Package; 7] = [
    package("containerd", &["/usr/bin/containerd"]),
    package("runc", &["/usr/sbin/runc", "/usr/bin/runc"]),
    package("containernetworking-plugins", &["/usr/lib/cni/bridge"]),
    package("conntrack", &["/usr/sbin/conntrack", "/usr/bin/conntrack"]),
    package("iptables", &["/usr/sbin/iptables", "/sbin/iptables"]),
    package("busybox-static", &["/bin/busybox", "/usr/bin/busybox"]),
    // What stands before the routes of hostnames.
    package("haproxy", &["/usr/sbin/haproxy"]),
];

/// The server and the sentinel of Redis are this one program under two names. Its package starts no service.
const REDIS: Package = package("redis-tools", &["/usr/bin/redis-check-rdb"]);

/// Shows a program another clock on the wall.
const FAKETIME: Package = package(
    "libfaketime",
    &[
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    ],
);

/// Installs what the tier needs and the machine lacks.
pub(crate) fn install(tier: Tier) -> Result<()> {
    let node: &[Package] = if tier == Tier::Node { &NODE } else { &[] };
    add(ALWAYS.iter().chain(node))
}

/// The program that is a Redis server when it is called `redis-server`, and a sentinel when it is called
/// `redis-sentinel`; installed where the machine lacks it.
/// Where that fails, the text names the command that would.
pub(crate) fn redis() -> Result<PathBuf> {
    add([&REDIS].into_iter())?;
    Ok(REDIS.files.iter().map(PathBuf::from).collect())
}

/// The library that, loaded before all others, shows a program another clock on the wall; installed where the machine
/// lacks it.
///
/// # Errors
/// It cannot be installed. The text names the command that would.
pub fn faketime() -> Result<PathBuf> {
    add([&FAKETIME].into_iter())?;
    let found = FAKETIME
        .files
        .iter()
        .map(PathBuf::from)
        .find(|file| file.exists());
    found.ok_or_else(|| Error::new("libfaketime is installed, and lies elsewhere than was thought"))
}

fn add<'a>(packages: impl Iterator<Item = &'a Package> + Clone) -> Result<()> {
    let missing = || lacking(packages.clone(), |file| Path::new(file).exists());
    if missing().is_empty() {
        return Ok(());
    }
    // `apt-get update` fails while another one runs, and clusters and tests start at the same time.
    let path = std::env::temp_dir().join("akash-provider-testbed.packages.lock");
    let file = File::create(&path).and_then(|file| file.lock().map(|()| file));
    let _installing = file.map_err(|error| Error::new(format!("cannot lock {}: {error}", path.display())))?;
    let lacking = missing();
    if lacking.is_empty() {
        return Ok(());
    }
    let command = format!("apt-get install -y --no-install-recommends {}", lacking.join(" "));
    let mend = |error| {
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
    // A machine that is fresh has no lists yet, and one that is old has stale ones.
    apt(&["update"]).and_then(|()| apt(&args)).map_err(mend)
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
    fn only_what_is_lacking_is_asked_for() {
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
