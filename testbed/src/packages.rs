//! What comes from the distribution: installed by us where we may, named where we may not.

use std::path::Path;
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

/// Installs what the tier needs and the machine lacks.
pub(crate) fn install(tier: Tier) -> Result<()> {
    let lacking = lacking(tier, |file| Path::new(file).exists());
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
    let args = [&["install", "-y", "--no-install-recommends"], lacking.as_slice()].concat();
    // A machine that is fresh has no lists yet, and one that is old has stale ones.
    apt(&["update"]).and_then(|()| apt(&args)).map_err(mend)
}

fn lacking(tier: Tier, exists: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let node: &[Package] = if tier == Tier::Node { &NODE } else { &[] };
    ALWAYS
        .iter()
        .chain(node)
        .filter(|package| !package.files.iter().any(|file| exists(file)))
        .map(|package| package.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_lacking_is_asked_for() {
        assert!(lacking(Tier::Node, |_| true).is_empty());
        assert_eq!(
            lacking(Tier::Api, |file| file.starts_with("/usr/bin")),
            Vec::<&str>::new()
        );
        assert_eq!(
            lacking(Tier::Node, |file| file != "/usr/bin/containerd"),
            ["containerd"]
        );
        assert_eq!(lacking(Tier::Node, |_| false).len(), ALWAYS.len() + NODE.len());
    }
}
