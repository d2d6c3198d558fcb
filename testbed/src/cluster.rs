//! A running cluster: bringing it up, asking it, breaking parts of it, taking it down.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::component::Component;
use crate::error::{Error, Result};
use crate::layout::{Addresses, Layout, check_name};
use crate::processes::{self, Known, State};
use crate::tier::Tier;
use crate::{binaries, cgroups, files, images, network, packages};

mod find;
mod hold;
mod objects;
mod status;
mod teardown;

pub use hold::Hold;
pub use status::{ComponentStatus, Health, Status};

/// Longer than a component takes on a machine that builds something else beside it.
const HEALTHY_WITHIN: Duration = Duration::from_mins(2);

/// How often a component is started before that counts as failed.
const STARTS: u32 = 3;

/// The file whose lock is held by whoever changes a cluster, and the mark of a state folder.
const LOCK: &str = "testbed.lock";

/// Which cluster, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much of a Kubernetes.
    pub tier: Tier,
    /// A short name: clusters of different names stand side by side.
    pub name: String,
    /// Its state folder.
    pub dir: PathBuf,
    /// A folder with CustomResourceDefinitions; one that is not there holds none.
    pub crds: PathBuf,
}

/// A cluster that came up, known by its state folder.
#[derive(Debug, Clone)]
pub struct Cluster {
    layout: Layout,
}

impl Cluster {
    /// Brings a cluster up; one that is up and healthy is left as it is. What a run that died left in its
    /// folder is taken away first.
    ///
    /// # Errors
    /// When this is not root, programs cannot be had, or a component does not become healthy: with the end of
    /// its log. What had started by then is taken down.
    pub fn up(options: &Options) -> Result<Self> {
        check_name(&options.name)?;
        if let Some(obstacle) = network::obstacle() {
            return Err(Error::new(obstacle));
        }
        packages::install(options.tier)?;
        let programs = binaries::build(&[options.tier])?;
        files::create_dir(&options.dir)?;
        let dir = options
            .dir
            .canonicalize()
            .map_err(|error| Error::at(&options.dir, error))?;
        check_folder(&dir)?;
        let _lock = lock(&dir)?;
        if let Some(layout) = Layout::read(&dir)? {
            let cluster = Self { layout };
            if cluster.status().is_healthy() {
                let cluster = cluster.of_tier(options.tier)?;
                // They may have changed since it came up.
                objects::define(&cluster.layout, &options.crds)?;
                return Ok(cluster);
            }
            eprintln!("taking away what is left of a cluster that is not healthy");
            teardown::run(&cluster.layout)?;
        }
        let mut layout = Layout::new(options.tier, &options.name, &dir, 0, &programs);
        // A run that died before it could write its record.
        teardown::run(&layout)?;
        network::create(&mut layout)?;
        let cluster = Self { layout };
        match cluster.furnish(&options.crds) {
            Ok(()) => Ok(cluster),
            Err(error) => {
                teardown::run(&cluster.layout)?;
                Err(error)
            }
        }
    }

    /// The cluster of a state folder; nothing when none came up there.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub fn at(dir: &Path) -> Result<Option<Self>> {
        Ok(Layout::read(dir)?.map(|layout| Self { layout }))
    }

    /// Takes it down: processes, containers, mounts, network. The logs stay.
    ///
    /// # Errors
    /// When something of it cannot be taken away.
    pub fn down(self) -> Result<()> {
        let _lock = lock(&self.layout.dir)?;
        teardown::run(&self.layout)
    }

    /// How much of a Kubernetes it is.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.layout.tier
    }

    /// Its state folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.layout.dir
    }

    /// The log of the writes of the account `akash-provider`: one JSON object of `audit.k8s.io` a line.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// The kubeconfig of its administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// Where it can be reached.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.layout.addresses()
    }

    /// The file a component's output goes to.
    #[must_use]
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component)
    }

    /// Runs kubectl as the administrator and returns what it prints.
    ///
    /// # Errors
    /// When it fails: with what it says.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        objects::kubectl(&self.layout).args(args).stdout()
    }

    /// Runs kubectl as the administrator, which reads `input`, and returns what it prints.
    ///
    /// # Errors
    /// When it fails: with what it says.
    pub fn kubectl_input(&self, args: &[&str], input: &str) -> Result<String> {
        objects::kubectl(&self.layout).args(args).input(input).stdout()
    }

    /// Runs a program in the cluster's network, as one of its node, and returns what it prints.
    ///
    /// # Errors
    /// When it fails: with what it says.
    pub fn on_node(&self, program: &str, args: &[&str]) -> Result<String> {
        network::enter(&self.layout, program).args(args).stdout()
    }

    /// The network namespace of its node, as `nsenter --net` takes it.
    #[must_use]
    pub fn network(&self) -> PathBuf {
        network::file(&self.layout.netns)
    }

    /// The path of a program of this cluster's version, such as `kubectl`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.layout.program(name)
    }

    /// Ends a component as a crash would: without a warning.
    ///
    /// # Errors
    /// When the cluster has no such component, or it does not end.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.check(component)?;
        match self.known(component) {
            Some(known) => known.stop(Duration::ZERO),
            None => Ok(()),
        }
    }

    /// Starts a component that ended, and waits until it is healthy; one that runs is left as it is. One that ends
    /// again on its way is started again, as a supervisor would: an API server gives up when its store is slow.
    ///
    /// # Errors
    /// When it does not become healthy: with the end of its log.
    pub fn start(&self, component: Component) -> Result<()> {
        self.check(component)?;
        let mut left = STARTS;
        loop {
            if self.state(component) == State::Gone {
                self.launch(component)?;
            }
            left -= 1;
            match self.await_health(component) {
                Err(error) if left > 0 && self.state(component) == State::Gone => {
                    eprintln!("{error}\n{component} is started again");
                }
                outcome => return outcome,
            }
        }
    }

    /// Starts those that act alone anew, after the API server was away. In the field they lose an election within
    /// ten seconds, end and are started again; without elections they would wait with growing pauses, a minute and
    /// more.
    ///
    /// # Errors
    /// When one does not end or does not become healthy.
    pub fn restart_controllers(&self) -> Result<()> {
        let components = self.layout.tier.components().iter().copied();
        let alone = |part: &Component| matches!(part, Component::ControllerManager | Component::Scheduler);
        for component in components.filter(alone) {
            self.kill(component)?;
            self.start(component)?;
        }
        Ok(())
    }

    /// Stops a component in its tracks; its connections stay open and answer nothing.
    ///
    /// # Errors
    /// When the cluster has no such component, or it does not run.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.signal(component, Signal::SIGSTOP)
    }

    /// Lets a paused component go on.
    ///
    /// # Errors
    /// When the cluster has no such component, or it does not run.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.signal(component, Signal::SIGCONT)
    }

    fn of_tier(self, wanted: Tier) -> Result<Self> {
        if self.layout.tier == wanted {
            return Ok(self);
        }
        let what = format!(
            "a cluster of tier {} is up here, wanted is {wanted}; take it down first or choose another folder",
            self.layout.tier
        );
        Err(Error::at(&self.layout.dir, what))
    }

    fn furnish(&self, crds: &Path) -> Result<()> {
        let record =
            serde_json::to_string_pretty(&self.layout).map_err(|error| Error::new(error.to_string()))?;
        files::plain(&self.layout.record(), &record)?;
        files::write(&self.layout)?;
        if self.layout.tier == Tier::Node {
            cgroups::create(&self.layout.netns)?;
        }
        for component in self.layout.tier.components() {
            // The others would wait for it with growing pauses.
            self.launch(*component)?;
            if matches!(
                component,
                Component::Etcd | Component::ApiServer | Component::Containerd
            ) {
                self.await_health(*component)?;
            }
            if *component == Component::ApiServer {
                files::write_authority(&self.layout)?;
                objects::create(&self.layout)?;
                objects::define(&self.layout, crds)?;
            }
            if *component == Component::Containerd {
                images::import(&self.layout)?;
            }
        }
        for component in self.layout.tier.components() {
            self.await_health(*component)?;
        }
        objects::await_ready(&self.layout)
    }

    fn launch(&self, component: Component) -> Result<()> {
        let layout = &self.layout;
        let program = match component {
            Component::Containerd => PathBuf::from("/usr/bin/containerd"),
            _ => layout.program(component.program()),
        };
        let args = component.arguments(layout);
        let known = processes::start(
            &layout.netns,
            &program,
            &args,
            &layout.dir,
            &layout.log(component),
        )?;
        known.write(&layout.pid(component))
    }

    fn await_health(&self, component: Component) -> Result<()> {
        let health = || match status::of(&self.layout, component) {
            Health::Healthy => Ok(true),
            Health::Gone => Ok(false),
            Health::Paused => Err("it is paused".to_owned()),
            Health::Unhealthy(reason) => Err(reason),
        };
        let told = |reason: &str| {
            let log = self.layout.log(component);
            Error::new(format!(
                "{component}: {reason}; the end of {}:\n{}",
                log.display(),
                tail(&log)
            ))
        };
        match crate::command::until("health", HEALTHY_WITHIN, health) {
            Ok(true) => Ok(()),
            Ok(false) => Err(told("it ended")),
            Err(error) => Err(told(&error.to_string())),
        }
    }

    fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        self.check(component)?;
        match self.known(component) {
            Some(known) if known.state() != State::Gone => known.signal(signal),
            _ => Err(Error::new(format!("{component} does not run"))),
        }
    }

    fn check(&self, component: Component) -> Result<()> {
        let components = self.layout.tier.components();
        if components.contains(&component) {
            return Ok(());
        }
        let names: Vec<&str> = components.iter().map(|component| component.as_str()).collect();
        Err(Error::new(format!(
            "a cluster of tier {} has no {component}; it has {}",
            self.layout.tier,
            names.join(", ")
        )))
    }

    fn known(&self, component: Component) -> Option<Known> {
        Known::read(&self.layout.pid(component))
    }

    fn state(&self, component: Component) -> State {
        self.known(component).map_or(State::Gone, Known::state)
    }
}

/// A state folder is ours from the start: what lies in it is deleted, so it was empty or holds our mark.
fn check_folder(dir: &Path) -> Result<()> {
    let failed = |error| Error::at(dir, error);
    let is_empty = std::fs::read_dir(dir).map_err(failed)?.next().is_none();
    if is_empty || dir.join(LOCK).exists() || Layout::read(dir)?.is_some() {
        return Ok(());
    }
    Err(Error::at(
        dir,
        "it holds files that are not a cluster's: choose an empty folder",
    ))
}

/// One program at a time brings up or takes down what is in a folder; the kernel ends the lock with its holder.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = File::create(&path).map_err(|error| Error::at(&path, error))?;
    file.lock().map_err(|error| Error::at(&path, error))?;
    Ok(file)
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    // As much as fits on a screen.
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_files_of_others_is_not_taken() {
        let dir = std::env::temp_dir().join(format!("testbed-folder-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("data")).unwrap();
        let error = check_folder(&dir).unwrap_err().to_string();
        assert!(error.contains("choose an empty folder"), "{error}");
        std::fs::write(dir.join(LOCK), "").unwrap();
        assert_eq!(check_folder(&dir), Ok(()));
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        assert_eq!(check_folder(&dir), Ok(()));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_end_of_a_log_is_shown_and_no_log_is_no_error() {
        let log = std::env::temp_dir().join(format!("testbed-log-{}", std::process::id()));
        assert_eq!(tail(&log), "");
        let lines: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        assert!(tail(&log).starts_with("80\n") && tail(&log).ends_with("99"));
        std::fs::remove_file(&log).unwrap();
    }
}
