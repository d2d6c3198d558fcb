//! A network namespace per cluster, with one link to the host.
//!
//! Creating the link reserves the number of its addresses: if two clusters start at the same time, only one
//! can create it.

use std::path::{Path, PathBuf};

use crate::command::Run;
use crate::error::{Error, Result};
use crate::layout::{CLUSTERS_MAX, Layout};

/// Returns why this machine cannot run a cluster, if known.
#[must_use]
pub fn obstacle() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        let why = "a cluster needs root, for its network namespace and its containers: run it with sudo -E";
        return Some(why.to_owned());
    }
    // In a container without the capability, root is not sufficient.
    let tried = Run::new("unshare").args(["--net", "true"]).done();
    tried
        .err()
        .map(|error| format!("cannot create a network namespace on this machine: {error}"))
}

/// Creates the network namespace and the link. Stores the first free cluster number in the layout.
pub(crate) fn create(layout: &mut Layout) -> Result<()> {
    ip(&["netns", "add", &layout.netns])?;
    let mut last = Error::new("no number is free");
    for index in 0..CLUSTERS_MAX {
        layout.index = index;
        match claim(layout) {
            Ok(true) => return furnish(layout),
            Ok(false) => {}
            Err(error) => last = error,
        }
    }
    let names = Run::new("ip")
        .args(["-brief", "link"])
        .stdout()
        .unwrap_or_default();
    let used = names.lines().filter(|line| line.starts_with("akash")).count();
    Err(Error::new(format!(
        "no address range is free among {CLUSTERS_MAX} ({used} are used by clusters): {last}"
    )))
}

/// Deletes an existing namespace with its link and routes.
pub(crate) fn delete(layout: &Layout) -> Result<()> {
    if !exists(&layout.netns) {
        return Ok(());
    }
    // The kernel deletes a namespace later. Deleting the link frees the number at once.
    let links = Run::new("ip")
        .args(["-n", &layout.netns, "-brief", "link"])
        .stdout()?;
    for link in links_of_testbed(&links) {
        inside(layout, &["link", "delete", link])?;
    }
    ip(&["netns", "delete", &layout.netns])
}

/// Returns the interfaces of the testbed. Each line of `links` has the form `NAME@PEER …`.
fn links_of_testbed(links: &str) -> impl Iterator<Item = &str> {
    links
        .lines()
        .filter_map(|line| line.split(['@', ' ']).next())
        .filter(|name| name.starts_with("akash"))
}

pub(crate) fn exists(netns: &str) -> bool {
    file(netns).exists()
}

/// Path of a namespace.
pub(crate) fn file(netns: &str) -> PathBuf {
    Path::new("/run/netns").join(netns)
}

/// Tries to create the link for the cluster number in the layout. Returns `false` if a route already contains
/// the addresses.
fn claim(layout: &Layout) -> Result<bool> {
    let addresses = layout.addresses();
    let routes = Run::new("ip")
        .args(["-4", "route", "show", "table", "all"])
        .stdout()?;
    if is_routed(&routes, &layout.inside()) || is_routed(&routes, &format!("{}/30", addresses.host)) {
        return Ok(false);
    }
    let (host, node) = layout.link();
    let made = Run::new("ip")
        .args([
            "link",
            "add",
            &host,
            "type",
            "veth",
            "peer",
            "name",
            &node,
            "netns",
            &layout.netns,
        ])
        .outcome()?;
    match made.code {
        Some(0) => Ok(true),
        _ if made.stderr.contains("File exists") => Ok(false),
        _ => Err(Error::new(format!(
            "`ip link add {host}`: {}",
            made.stderr.trim()
        ))),
    }
}

/// Returns true if a routing table contains an address in `range`. Compares only whole octets.
fn is_routed(routes: &str, range: &str) -> bool {
    let (address, bits) = range.split_once('/').unwrap_or((range, "32"));
    let fixed = bits.parse::<usize>().unwrap_or(32) / 8;
    let prefix: String = address
        .split('.')
        .take(fixed)
        .map(|octet| format!("{octet}."))
        .collect();
    routes.split_whitespace().any(|word| word.starts_with(&prefix))
}

/// Configures addresses, routes and forwarding.
fn furnish(layout: &Layout) -> Result<()> {
    let addresses = layout.addresses();
    let (host, node) = layout.link();
    let (at_host, at_node) = (addresses.host.to_string(), addresses.node.to_string());
    ip(&["addr", "add", &format!("{at_host}/30"), "dev", &host])?;
    ip(&["link", "set", &host, "up"])?;
    ip(&["route", "add", &layout.inside(), "via", &at_node])?;
    inside(layout, &["addr", "add", &format!("{at_node}/30"), "dev", &node])?;
    inside(layout, &["link", "set", &node, "up"])?;
    inside(layout, &["link", "set", "lo", "up"])?;
    // Programs of the node reach Services too, because kube-proxy rewrites packets that have a route. Without
    // a default route nothing connects to the internet.
    inside(
        layout,
        &["route", "add", &addresses.services, "dev", "lo", "src", &at_node],
    )?;
    // Executed in the namespace, because /proc/sys/net shows the namespace of the reader.
    enter(layout, "sh")
        .args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        .done()
}

fn ip(args: &[&str]) -> Result<()> {
    Run::new("ip").args(args).done()
}

fn inside(layout: &Layout, args: &[&str]) -> Result<()> {
    ip(&[&["-n", &layout.netns], args].concat())
}

/// Returns a command for a program in the cluster's network namespace.
pub(crate) fn enter(layout: &Layout, program: &str) -> Run {
    let network = format!("--net={}", file(&layout.netns).display());
    Run::new("nsenter").args([&network, "--", program])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_of_the_testbed_are_deleted() {
        let links = "lo               UNKNOWN  00:00:00:00:00:00 <LOOPBACK,UP>\nakash3n@if6 UP 5a:00:00:00:00:01 <UP>\n";
        assert_eq!(links_of_testbed(links).collect::<Vec<_>>(), ["akash3n"]);
    }

    #[test]
    fn range_with_a_route_is_in_use() {
        let routes = "default via 10.0.0.1 dev eth0\n10.99.4.0/30 dev akash4h\nlocal 10.203.0.1 dev lo\n";
        assert!(is_routed(routes, "10.99.4.1/30"));
        assert!(!is_routed(routes, "10.99.5.1/30"));
        assert!(!is_routed(routes, "10.99.40.1/30"));
        assert!(is_routed(routes, "10.203.0.0/16"));
        assert!(!is_routed(routes, "10.20.0.0/16"));
    }
}
