//! A running cluster: start, use, break and stop.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::component::Component;
use crate::error::{Error, Result};
use crate::layout::{ClusterAddresses, Layout, check_name};
use crate::processes::{self, ProcessId, ProcessState};
use crate::tier::Tier;
use crate::{binaries, cgroups, files, images, network, packages};

mod find;
mod hold;
mod objects;
mod status;
mod teardown;

pub use hold::ClusterLock;
pub use status::{ComponentHealth, ComponentStatus, TestbedStatus};

/// Time limit of one attempt to start a component.
const HEALTHY_WITHIN: Duration = Duration::from_mins(1);

/// Maximum time from the signal to the suspension of a component.
const PAUSE_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of attempts to start a component.
const STARTS: u32 = 3;

/// Name of the lock file, which also marks a state directory.
const LOCK: &str = "testbed.lock";

/// Type and location of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Tier of the cluster.
    pub tier: Tier,
    /// Short name, unique among the running clusters.
    pub name: String,
    /// State folder.
    pub dir: PathBuf,
    /// Folder with CustomResourceDefinitions to install, if it exists.
    pub crds: PathBuf,
}

/// A started cluster, identified by its state folder.
#[derive(Debug, Clone)]
pub struct Testbed {
    layout: Layout,
}

impl Testbed {
    /// Starts a cluster, or leaves a healthy cluster unchanged. Removes leftovers of a crashed cluster first.
    ///
    /// # Errors
    /// Fails without root permissions, if a program cannot be built or installed, or if a component does not
    /// become healthy. After a failure, all started components are stopped.
    pub fn up(options: &ClusterOptions) -> Result<Self> {
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
                // The definitions may have changed since the start.
                objects::define(&cluster.layout, &options.crds)?;
                return Ok(cluster);
            }
            eprintln!("removing the unhealthy cluster of an earlier start");
            teardown::run(&cluster.layout)?;
        }
        let mut layout = Layout::new(options.tier, &options.name, &dir, 0, &programs);
        // A crash may have happened before the record was written.
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

    /// Returns the cluster of a state folder, or `None` if the folder describes no cluster.
    ///
    /// # Errors
    /// Fails if the description of the cluster in the folder cannot be read.
    pub fn at(dir: &Path) -> Result<Option<Self>> {
        Ok(Layout::read(dir)?.map(|layout| Self { layout }))
    }

    /// Stops the cluster and removes its processes, containers, mounts and network, but not its logs.
    ///
    /// # Errors
    /// Fails if a resource cannot be removed.
    pub fn down(self) -> Result<()> {
        let _lock = lock(&self.layout.dir)?;
        teardown::run(&self.layout)
    }

    /// Returns the tier.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.layout.tier
    }

    /// Returns the state folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.layout.dir
    }

    /// Returns the audit log with one JSON object per line: writes of the account `akash-provider`, and all requests
    /// of the account `logged`.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// Returns the kubeconfig of the administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// Returns the addresses of the cluster.
    #[must_use]
    pub fn addresses(&self) -> ClusterAddresses {
        self.layout.addresses()
    }

    /// Returns the log file of a component.
    #[must_use]
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component)
    }

    /// Runs kubectl as administrator and returns its output.
    ///
    /// # Errors
    /// Fails if kubectl fails. The error contains its stderr.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        objects::kubectl(&self.layout).args(args).stdout()
    }

    /// Runs kubectl as administrator with `input` and returns its output.
    ///
    /// # Errors
    /// Fails if kubectl fails. The error contains its stderr.
    pub fn kubectl_input(&self, args: &[&str], input: &str) -> Result<String> {
        objects::kubectl(&self.layout).args(args).input(input).stdout()
    }

    /// Runs a program in the network namespace of the node and returns its output.
    ///
    /// # Errors
    /// Fails if the program fails. The error contains its stderr.
    pub fn on_node(&self, program: &str, args: &[&str]) -> Result<String> {
        network::enter(&self.layout, program).args(args).stdout()
    }

    /// Returns the node's network namespace, as an argument of `nsenter --net`.
    #[must_use]
    pub fn network(&self) -> PathBuf {
        network::file(&self.layout.netns)
    }

    /// Returns the path of a program in the cluster's version, such as `kubectl`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.layout.program(name)
    }

    /// Kills a component with SIGKILL.
    ///
    /// # Errors
    /// Fails if the cluster has no such component, or the component does not end.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.check(component)?;
        match self.process(component) {
            Some(process) => process.stop(Duration::ZERO),
            None => Ok(()),
        }
    }

    /// Starts a stopped component and waits until it is healthy. Retries if the component ends or stays
    /// unhealthy. Leaves a healthy component unchanged.
    ///
    /// # Errors
    /// Fails if the component is paused or does not become healthy. The error contains the end of the
    /// component's log.
    pub fn start(&self, component: Component) -> Result<()> {
        self.check(component)?;
        let mut left = STARTS;
        loop {
            if self.state(component) == ProcessState::Gone {
                self.launch(component)?;
            }
            left -= 1;
            match self.await_health(component) {
                Err(error) if left > 0 && self.state(component) != ProcessState::Paused => {
                    eprintln!("{error}\nrestarting the component {component}");
                    self.kill(component)?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Restarts the controllers after an outage of the API server. Without a restart, the controllers would
    /// wait for more than a minute.
    ///
    /// # Errors
    /// Fails if a component does not end or does not become healthy.
    pub fn restart_controllers(&self) -> Result<()> {
        let components = self.layout.tier.components().iter().copied();
        let alone = |part: &Component| matches!(part, Component::ControllerManager | Component::Scheduler);
        for component in components.filter(alone) {
            self.kill(component)?;
            self.start(component)?;
        }
        Ok(())
    }

    /// Suspends a component, with its connections open.
    ///
    /// # Errors
    /// Fails if the cluster has no such component, or the component does not run.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.signal(component, Signal::SIGSTOP)?;
        // A process with many threads stops some time after the signal.
        let began = Instant::now();
        while !matches!(self.state(component), ProcessState::Paused) {
            if began.elapsed() > PAUSE_LIMIT {
                return Err(Error::new(format!(
                    "{component} does not stop within {PAUSE_LIMIT:?} after a signal"
                )));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Resumes a suspended component.
    ///
    /// # Errors
    /// Fails if the cluster has no such component, or the component does not run.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.signal(component, Signal::SIGCONT)
    }

    fn of_tier(self, wanted: Tier) -> Result<Self> {
        if self.layout.tier == wanted {
            return Ok(self);
        }
        let what = format!(
            "a cluster of tier {} runs here, expected {wanted}; stop it first or choose another folder",
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
            // Other components would wait for these with back-off.
            if matches!(
                component,
                Component::Etcd | Component::ApiServer | Component::Containerd
            ) {
                self.start(*component)?;
            } else {
                self.launch(*component)?;
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
            self.start(*component)?;
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
        let process = processes::start(
            &layout.netns,
            &program,
            &args,
            &layout.dir,
            &layout.log(component),
        )?;
        process.write(&layout.pid(component))
    }

    fn await_health(&self, component: Component) -> Result<()> {
        let health = || match status::of(&self.layout, component) {
            ComponentHealth::Healthy => Ok(true),
            ComponentHealth::Gone => Ok(false),
            ComponentHealth::Paused => Err("the component is paused".to_owned()),
            ComponentHealth::Unhealthy(reason) => Err(reason),
        };
        let failure = |reason: &str| {
            let log = self.layout.log(component);
            // The reason is last, because the start of a long output may be cut off.
            Error::new(format!(
                "the end of {}:\n{}\n{component}: {reason}",
                log.display(),
                tail(&log)
            ))
        };
        match crate::command::until("health", HEALTHY_WITHIN, health) {
            Ok(true) => Ok(()),
            Ok(false) => Err(failure("the component ended")),
            Err(error) => Err(failure(&error.to_string())),
        }
    }

    fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        self.check(component)?;
        match self.process(component) {
            Some(process) if process.state() != ProcessState::Gone => process.signal(signal),
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

    fn process(&self, component: Component) -> Option<ProcessId> {
        ProcessId::read(&self.layout.pid(component))
    }

    fn state(&self, component: Component) -> ProcessState {
        self.process(component)
            .map_or(ProcessState::Gone, ProcessId::state)
    }
}

/// Returns an error for a non-empty folder that is not a state folder. An accepted folder will be emptied.
fn check_folder(dir: &Path) -> Result<()> {
    let failed = |error| Error::at(dir, error);
    let is_empty = std::fs::read_dir(dir).map_err(failed)?.next().is_none();
    if is_empty || dir.join(LOCK).exists() || Layout::read(dir)?.is_some() {
        return Ok(());
    }
    Err(Error::at(
        dir,
        "the folder contains other files: choose an empty folder",
    ))
}

/// Locks the folder while a program starts or stops its cluster. The end of the program releases the lock.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = File::create(&path).map_err(|error| Error::at(&path, error))?;
    file.lock().map_err(|error| Error::at(&path, error))?;
    Ok(file)
}

fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    // As many lines as fit on a screen.
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_with_foreign_files_is_refused() {
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
    fn end_of_log_is_returned_and_missing_log_is_empty() {
        let log = std::env::temp_dir().join(format!("testbed-log-{}", std::process::id()));
        assert_eq!(tail(&log), "");
        let lines: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        assert!(tail(&log).starts_with("80\n") && tail(&log).ends_with("99"));
        std::fs::remove_file(&log).unwrap();
    }
}
