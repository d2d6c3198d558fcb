//! Self-test of the testbed: a cluster is started, used, broken, repaired and stopped, and leaves nothing
//! behind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cluster::{ClusterOptions, Testbed};
use crate::command::{Run, until};
use crate::component::Component;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tier::Tier;
use crate::{mounts, network};

mod node;
mod scale;

/// Time limit of one step.
const WITHIN: Duration = Duration::from_mins(1);

/// Starts, checks and stops a cluster of a tier. Returns one line per result.
///
/// # Errors
/// Fails if a check fails. The cluster is stopped in any case.
pub fn check(options: &ClusterOptions) -> Result<Vec<String>> {
    let begun = Instant::now();
    let cluster = Testbed::up(options)?;
    let mut results = vec![format!(
        "the cluster started in {:.1} s",
        begun.elapsed().as_secs_f64()
    )];
    let outcome = used(&cluster, options, &mut results);
    let remains = Remains::in_cluster(&cluster)?;
    let begun = Instant::now();
    // The cluster is opened again, because a crash test may have replaced it in the same folder.
    let down = Testbed::at(&options.dir)?.map_or(Ok(()), Testbed::down);
    outcome?;
    down?;
    remains.check()?;
    results.push(format!(
        "the cluster stopped in {:.1} s and left no resources",
        begun.elapsed().as_secs_f64()
    ));
    Ok(results)
}

fn used(cluster: &Testbed, options: &ClusterOptions, results: &mut Vec<String>) -> Result<()> {
    stays_up(cluster, options)?;
    results.push("a second `up` changes nothing".to_owned());
    cluster.kubectl(&["create", "namespace", "check"])?;
    cluster.kubectl_input(&["apply", "-f", "-"], include_str!("../manifests/check.yaml"))?;
    eventually("the ReplicaSet of a Deployment", || {
        let names = cluster.kubectl(&["get", "replicasets", "--namespace", "check", "--output", "name"])?;
        holds("the ReplicaSet", &names, "web-")
    })?;
    cluster.kubectl(&["create", "token", "default", "--namespace", "check"])?;
    results.push("controllers work, accounts get tokens".to_owned());
    match options.tier {
        Tier::Api => {}
        Tier::Node => node::check(cluster, results)?,
        Tier::Scale => scale::check(cluster, results)?,
    }
    breaks_and_mends(cluster)?;
    results.push("a killed API server and a paused store recover".to_owned());
    cluster.kubectl(&["delete", "namespace", "check", "--timeout", "60s"])?;
    results.push("a namespace is deleted".to_owned());
    crashes(cluster, options)?;
    results.push("leftovers of a crash do not prevent a start".to_owned());
    Ok(())
}

fn stays_up(cluster: &Testbed, options: &ClusterOptions) -> Result<()> {
    let before = cluster.status();
    let after = Testbed::up(options)?.status();
    if before == after {
        return Ok(());
    }
    Err(Error::new(format!(
        "a second `up` changed the cluster from\n{before}to\n{after}"
    )))
}

fn breaks_and_mends(cluster: &Testbed) -> Result<()> {
    cluster.kill(Component::ApiServer)?;
    refused("an API server that was killed", || {
        cluster.kubectl(&["get", "--raw", "/readyz"])
    })?;
    if cluster.status().is_healthy() {
        return Err(Error::new(
            "a cluster without an API server is reported as healthy",
        ));
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
    eventually("the store responds", || {
        cluster.kubectl(&["get", "--raw", "/readyz"])
    })?;
    // The controllers may have given up, as in a real cluster, where a restart resolves it.
    eventually("the controllers", || cluster.restart_controllers())
}

/// Kills all components at once, and starts the cluster again.
fn crashes(cluster: &Testbed, options: &ClusterOptions) -> Result<()> {
    for component in options.tier.components() {
        cluster.kill(*component)?;
    }
    let again = Testbed::up(options)?;
    if again.status().is_healthy() {
        return Ok(());
    }
    Err(Error::new(format!("after a crash:\n{}", again.status())))
}

/// Layout of a removed cluster, to find remaining resources.
struct Remains {
    layout: Layout,
}

impl Remains {
    fn in_cluster(cluster: &Testbed) -> Result<Self> {
        let layout = Layout::read(cluster.dir())?;
        let layout =
            layout.ok_or_else(|| Error::at(cluster.dir(), "the record of a running cluster is missing"))?;
        Ok(Self { layout })
    }

    /// Checks that all resources were released.
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
                .filter(|line| line.starts_with(&layout.link().0))
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

/// Returns the remaining files and folders of the cluster, except logs and the lock file.
fn there(layout: &Layout) -> Vec<PathBuf> {
    let groups = std::fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten();
    let groups = groups.map(|entry| entry.path().join(&layout.netns));
    let retained = ["testbed.lock", "logs"].map(|name| layout.dir.join(name));
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
        .chain(files.filter(|path| !retained.contains(path)))
        .chain(network)
        .collect()
}

fn names(path: &Path, what: &str) -> bool {
    path.display().to_string().contains(what)
}

/// Returns the command lines that contain one of the names in `what`. Excludes this process and `xtask`.
fn processes_naming(what: &[&str]) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let me = std::process::id().to_string();
    entries
        .filter(|entry| entry.file_name().to_str() != Some(&me))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        // The checkout folder may contain the name.
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
        Ok(_) => Err(Error::new(format!("{what} responds"))),
    }
}

/// Returns an error if `answer` does not contain `wanted`.
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
    fn missing_text_in_a_result_is_an_error() {
        assert_eq!(holds("a", "one two", "two"), Ok(()));
        assert!(holds("a", "one two", "three").is_err());
        assert!(refused("a", || Ok(())).is_err());
        assert_eq!(refused("a", || Err::<(), _>(Error::new("no"))), Ok(()));
    }

    #[test]
    fn process_with_name_of_cluster_is_found() {
        let mut child = std::process::Command::new("sleep").args(["60"]).spawn().unwrap();
        let mut named = std::process::Command::new("sh")
            .args(["-c", "read x", "akash-t-abcdef"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The child has its command line only after `exec`, which may take a moment.
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
