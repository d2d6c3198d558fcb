//! Status of the components of a cluster.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::Testbed;
use crate::command::Run;
use crate::component::Component;
use crate::layout::{ClusterAddresses, Layout};
use crate::network;
use crate::processes::{ProcessId, ProcessState};
use crate::tier::Tier;

/// Maximum response time of a healthy component.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Health of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComponentHealth {
    /// The component runs and reports that it is healthy.
    Healthy,
    /// The component runs, but is unhealthy for this reason.
    Unhealthy(String),
    /// The process is suspended.
    Paused,
    /// The process does not run.
    Gone,
}

/// Status of one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentStatus {
    /// Name.
    pub name: String,
    /// Process id, if running.
    pub pid: Option<i32>,
    /// Health.
    pub health: ComponentHealth,
}

/// Status of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestbedStatus {
    /// Tier of the cluster.
    pub tier: Tier,
    /// State folder.
    pub dir: PathBuf,
    /// Name of the cluster's network namespace.
    pub netns: String,
    /// Kubeconfig of the administrator.
    pub kubeconfig: PathBuf,
    /// kubectl of the cluster's version.
    pub kubectl: PathBuf,
    /// Addresses of the cluster.
    pub addresses: ClusterAddresses,
    /// Components in the order of their start.
    pub components: Vec<ComponentStatus>,
}

impl Testbed {
    /// Returns the status of every component.
    #[must_use]
    pub fn status(&self) -> TestbedStatus {
        let layout = &self.layout;
        let component = |component: &Component| ComponentStatus {
            name: component.to_string(),
            pid: self
                .process(*component)
                .filter(|process| process.state() != ProcessState::Gone)
                .map(|process| process.pid),
            health: of(layout, *component),
        };
        TestbedStatus {
            tier: layout.tier,
            dir: layout.dir.clone(),
            netns: layout.netns.clone(),
            kubeconfig: layout.kubeconfig(),
            kubectl: layout.program("kubectl"),
            addresses: layout.addresses(),
            components: layout.tier.components().iter().map(component).collect(),
        }
    }
}

impl TestbedStatus {
    /// Returns whether every component is healthy.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.components
            .iter()
            .all(|component| component.health == ComponentHealth::Healthy)
    }
}

impl fmt::Display for TestbedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tier: {}", self.tier)?;
        writeln!(f, "state: {}", self.dir.display())?;
        writeln!(f, "namespace: {}", self.netns)?;
        writeln!(f, "kubeconfig: {}", self.kubeconfig.display())?;
        writeln!(f, "kubectl: {}", self.kubectl.display())?;
        let at = &self.addresses;
        writeln!(
            f,
            "host: {}\nnode: {}\napi server: {}",
            at.host, at.node, at.api_server
        )?;
        writeln!(f, "pods: {}\nservices: {}", at.pods, at.services)?;
        for ComponentStatus { name, pid, health } in &self.components {
            let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            writeln!(f, "{name:<20} pid {pid:<8} {health}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ComponentHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Unhealthy(reason) => write!(f, "unhealthy: {reason}"),
            Self::Paused => f.write_str("paused"),
            Self::Gone => f.write_str("not running"),
        }
    }
}

pub(super) fn of(layout: &Layout, component: Component) -> ComponentHealth {
    match ProcessId::read(&layout.pid(component)).map_or(ProcessState::Gone, ProcessId::state) {
        ProcessState::Gone => ComponentHealth::Gone,
        ProcessState::Paused => ComponentHealth::Paused,
        ProcessState::Runs => match probe(layout, component).limit(ANSWERS_WITHIN).stdout() {
            Ok(_) => ComponentHealth::Healthy,
            Err(error) => ComponentHealth::Unhealthy(in_short(&error.to_string())),
        },
    }
}

/// Returns the error without its command line, cut to 200 characters.
fn in_short(error: &str) -> String {
    let (_, reason) = error.split_once("` ").unwrap_or(("", error));
    // One line on a screen.
    reason.chars().take(200).collect()
}

/// Returns the command that checks a component. The exit code 0 means that the component is healthy.
fn probe(layout: &Layout, component: Component) -> Run {
    let node = layout.addresses().node;
    let get = |url: &str| {
        let (server, path) = url.rsplit_once('/').unwrap_or((url, ""));
        let kubectl = layout.program("kubectl").display().to_string();
        network::enter(layout, &kubectl)
            .args(["--server", server, "--insecure-skip-tls-verify"])
            // Any user name, because kubectl would prompt for one. The health endpoint needs no
            // authentication.
            .args(["--username", "anyone", "--password", "none"])
            .args(["get", "--raw", &format!("/{path}")])
            // Ignore the caller's configuration.
            .env("KUBECONFIG", "/dev/null")
    };
    match component {
        Component::Etcd => get("http://127.0.0.1:2379/health"),
        Component::ApiServer => get(&format!("https://{node}:6443/readyz")),
        Component::ControllerManager => get(&format!("https://{node}:10257/healthz")),
        Component::Scheduler => get(&format!("https://{node}:10259/healthz")),
        Component::Kubelet => get("http://127.0.0.1:10248/healthz"),
        Component::KubeProxy => get(&format!("http://{node}:10256/healthz")),
        Component::Kwok => get(&format!("http://{node}:10247/healthz")),
        Component::Containerd => {
            let socket = layout.containerd_socket().display().to_string();
            Run::new("ctr").args(["--address", &socket, "version"])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::layout;

    fn status(health: &[ComponentHealth]) -> TestbedStatus {
        let layout = layout(Tier::Api, 2);
        let component = |health: &ComponentHealth| ComponentStatus {
            name: "etcd".to_owned(),
            pid: (*health != ComponentHealth::Gone).then_some(7),
            health: health.clone(),
        };
        TestbedStatus {
            tier: layout.tier,
            dir: layout.dir.clone(),
            netns: layout.netns.clone(),
            kubeconfig: layout.kubeconfig(),
            kubectl: layout.program("kubectl"),
            addresses: layout.addresses(),
            components: health.iter().map(component).collect(),
        }
    }

    #[test]
    fn one_unhealthy_component_makes_the_cluster_unhealthy() {
        assert!(status(&[ComponentHealth::Healthy, ComponentHealth::Healthy]).is_healthy());
        for health in [
            ComponentHealth::Gone,
            ComponentHealth::Paused,
            ComponentHealth::Unhealthy("no".to_owned()),
        ] {
            assert!(!status(&[ComponentHealth::Healthy, health]).is_healthy());
        }
    }

    #[test]
    fn reason_is_shortened_without_the_command() {
        assert_eq!(
            in_short("`kubectl get` ended with 1: no route"),
            "ended with 1: no route"
        );
        assert_eq!(in_short(&"x".repeat(1000)).len(), 200);
    }

    #[test]
    fn kubeconfig_and_kubectl_are_printed_on_separate_lines() {
        let text = status(&[ComponentHealth::Healthy, ComponentHealth::Gone]).to_string();
        assert!(
            text.lines().any(|line| line == "kubeconfig: /state/t/kubeconfig"),
            "{text}"
        );
        let kubectl = |line: &str| line.starts_with("kubectl: /") && line.ends_with("/kubectl");
        assert!(text.lines().any(kubectl), "{text}");
        assert!(
            text.lines()
                .any(|line| line.ends_with("pid -        not running")),
            "{text}"
        );
    }
}
