//! Does the testbed hold what it promises? A cluster of its own comes up, is used, broken, mended and taken down,
//! and nothing of it stays.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Options};
use crate::command::{Run, until};
use crate::component::Component;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tier::Tier;
use crate::{mounts, network};

mod node;
mod scale;

/// Longer than any single thing takes on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

/// Checks a tier from up to down; returns what was shown, a line each.
///
/// # Errors
/// When something does not hold; the cluster is taken down all the same.
pub fn check(options: &Options) -> Result<Vec<String>> {
    let begun = Instant::now();
    let cluster = Cluster::up(options)?;
    let mut shown = vec![format!("up in {:.1} s", begun.elapsed().as_secs_f64())];
    let outcome = used(&cluster, options, &mut shown);
    let remains = Remains::of(&cluster)?;
    let begun = Instant::now();
    // Taken down as it is by then: whoever brought it up again did so in the same folder.
    let down = Cluster::at(&options.dir)?.map_or(Ok(()), Cluster::down);
    outcome?;
    down?;
    remains.check()?;
    shown.push(format!(
        "down in {:.1} s, nothing stays",
        begun.elapsed().as_secs_f64()
    ));
    Ok(shown)
}

fn used(cluster: &Cluster, options: &Options, shown: &mut Vec<String>) -> Result<()> {
    stays_up(cluster, options)?;
    shown.push("a second `up` leaves it as it is".to_owned());
    cluster.kubectl(&["create", "namespace", "check"])?;
    cluster.kubectl_input(&["apply", "-f", "-"], include_str!("../manifests/check.yaml"))?;
    eventually("the ReplicaSet of a Deployment", || {
        let names = cluster.kubectl(&["get", "replicasets", "--namespace", "check", "--output", "name"])?;
        holds("its ReplicaSet", &names, "web-")
    })?;
    cluster.kubectl(&["create", "token", "default", "--namespace", "check"])?;
    shown.push("controllers act, accounts get tokens".to_owned());
    match options.tier {
        Tier::Api => {}
        Tier::Node => node::check(cluster, shown)?,
        Tier::Scale => scale::check(cluster, shown)?,
    }
    breaks_and_mends(cluster)?;
    shown.push("an API server that was killed comes back, a paused store too".to_owned());
    cluster.kubectl(&["delete", "namespace", "check", "--timeout", "60s"])?;
    shown.push("a namespace ends".to_owned());
    crashes(cluster, options)?;
    shown.push("the leftovers of a crash are in nobody's way".to_owned());
    Ok(())
}

/// `up` on what is up changes nothing.
fn stays_up(cluster: &Cluster, options: &Options) -> Result<()> {
    let before = cluster.status();
    let after = Cluster::up(options)?.status();
    if before == after {
        return Ok(());
    }
    Err(Error::new(format!(
        "a second `up` changed it from\n{before}to\n{after}"
    )))
}

fn breaks_and_mends(cluster: &Cluster) -> Result<()> {
    cluster.kill(Component::ApiServer)?;
    refused("an API server that was killed", || {
        cluster.kubectl(&["get", "--raw", "/readyz"])
    })?;
    if cluster.status().is_healthy() {
        return Err(Error::new("a cluster without an API server calls itself healthy"));
    }
    cluster.start(Component::ApiServer)?;
    cluster.kubectl(&["get", "deployment", "web", "--namespace", "check"])?;
    cluster.pause(Component::Etcd)?;
    let write = [
        "create",
        "configmap",
        "x",
        "--namespace",
        "check",
        "--request-timeout",
        "2s",
    ];
    let paused = refused("a paused store", || cluster.kubectl(&write));
    cluster.resume(Component::Etcd)?;
    paused?;
    eventually("the store answers", || {
        cluster.kubectl(&["get", "--raw", "/readyz"])
    })?;
    // Its controllers may have lost their patience, as they do in the field; a new start is what heals them there.
    eventually("the controllers", || cluster.restart_controllers())
}

/// Everything dies at once, as when the machine's power goes; then somebody asks for a cluster again.
fn crashes(cluster: &Cluster, options: &Options) -> Result<()> {
    for component in options.tier.components() {
        cluster.kill(*component)?;
    }
    let again = Cluster::up(options)?;
    if again.status().is_healthy() {
        return Ok(());
    }
    Err(Error::new(format!("after a crash:\n{}", again.status())))
}

/// What a cluster borrows from the machine.
struct Remains {
    layout: Layout,
}

impl Remains {
    fn of(cluster: &Cluster) -> Result<Self> {
        let layout = Layout::read(cluster.dir())?;
        let layout =
            layout.ok_or_else(|| Error::at(cluster.dir(), "the record of a running cluster is gone"))?;
        Ok(Self { layout })
    }

    /// Whether all of it was given back.
    fn check(&self) -> Result<()> {
        let layout = &self.layout;
        let mut left: Vec<String> = Vec::new();
        let mut paths = mounts::under(&layout.dir)?;
        paths.extend(mounts::under(&layout.run_dir())?);
        paths.extend(there(layout));
        left.extend(paths.iter().map(|path| path.display().to_string()));
        if network::exists(&layout.netns) {
            left.push(format!("network namespace {}", layout.netns));
        }
        let links = Run::new("ip").args(["-brief", "link"]).stdout()?;
        left.extend(
            links
                .lines()
                .filter(|line| line.starts_with(&layout.wire().0))
                .map(str::to_owned),
        );
        left.extend(processes_naming(&[
            &layout.netns,
            &layout.dir.display().to_string(),
        ]));
        if left.is_empty() {
            return Ok(());
        }
        Err(Error::new(format!("`down` left:\n  {}", left.join("\n  "))))
    }
}

/// Files and folders of ours that are still there; the logs are meant to be.
fn there(layout: &Layout) -> Vec<PathBuf> {
    let groups = std::fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten();
    let groups = groups.map(|entry| entry.path().join(&layout.netns));
    let kept = ["testbed.lock", "logs"].map(|name| layout.dir.join(name));
    let files = std::fs::read_dir(&layout.dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let network = std::fs::read_dir("/var/lib/cni/results")
        .into_iter()
        .flatten()
        .flatten();
    let network = network
        .map(|entry| entry.path())
        .filter(|path| names(path, &layout.netns));
    groups
        .chain([layout.run_dir(), Path::new("/sys/fs/cgroup").join(&layout.netns)])
        .filter(|path| path.exists())
        .chain(files.filter(|path| !kept.contains(path)))
        .chain(network)
        .collect()
}

fn names(path: &Path, what: &str) -> bool {
    path.display().to_string().contains(what)
}

/// Command lines that speak of one of these, but our own.
fn processes_naming(what: &[&str]) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let me = std::process::id().to_string();
    entries
        .filter(|entry| entry.file_name().to_str() != Some(&me))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        // Whoever checks from a folder of this name is not what is looked for.
        .filter(|line| !line.contains("xtask") && what.iter().any(|what| line.contains(what)))
        .collect()
}

fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T>) -> Result<()> {
    until(what, WITHIN, || {
        ask().map(drop).map_err(|error| error.to_string())
    })
}

fn refused<T>(what: &str, ask: impl FnOnce() -> Result<T>) -> Result<()> {
    match ask() {
        Err(_) => Ok(()),
        Ok(_) => Err(Error::new(format!("{what} answers"))),
    }
}

/// Whether an answer holds what it should.
fn holds(what: &str, answer: &str, wanted: &str) -> Result<()> {
    if answer.contains(wanted) {
        return Ok(());
    }
    Err(Error::new(format!(
        "{what}: `{}` lacks `{wanted}`",
        answer.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_lacks_what_it_should_hold_is_told() {
        assert_eq!(holds("a", "one two", "two"), Ok(()));
        assert!(holds("a", "one two", "three").is_err());
        assert!(refused("a", || Ok(())).is_err());
        assert_eq!(refused("a", || Err::<(), _>(Error::new("no"))), Ok(()));
    }

    #[test]
    fn a_process_that_names_a_cluster_is_found() {
        let mut child = std::process::Command::new("sleep").args(["60"]).spawn().unwrap();
        let mut named = std::process::Command::new("sh")
            .args(["-c", "read x", "akash-t-abcdef"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It has its name once it has become the program, which on a busy machine takes a moment.
        let begun = std::time::Instant::now();
        let mut found = processes_naming(&["akash-t-abcdef"]);
        while found.is_empty() && begun.elapsed() < std::time::Duration::from_secs(10) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            found = processes_naming(&["akash-t-abcdef"]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        drop(named.stdin.take());
        named.wait().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
