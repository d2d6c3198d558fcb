//! How the components of a cluster are.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::Cluster;
use crate::command::Run;
use crate::component::Component;
use crate::layout::{Addresses, Layout};
use crate::network;
use crate::processes::{Known, State};
use crate::tier::Tier;

/// A component answers this fast, or it is not well.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// How a component is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It runs and says that it is well.
    Healthy,
    /// It runs and does not say so: why.
    Unhealthy(String),
    /// It was stopped in its tracks.
    Paused,
    /// It does not run.
    Gone,
}

/// One component of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentStatus {
    /// Its name.
    pub name: String,
    /// Its process, while it runs.
    pub pid: Option<i32>,
    /// How it is.
    pub health: Health,
}

/// A cluster, part by part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// How much of a Kubernetes it is.
    pub tier: Tier,
    /// Its state folder.
    pub dir: PathBuf,
    /// Its network namespace.
    pub netns: String,
    /// The kubeconfig of its administrator.
    pub kubeconfig: PathBuf,
    /// The kubectl of its version.
    pub kubectl: PathBuf,
    /// Where it can be reached.
    pub addresses: Addresses,
    /// Its components, in the order they start.
    pub components: Vec<ComponentStatus>,
}

impl Cluster {
    /// Asks every component how it is.
    #[must_use]
    pub fn status(&self) -> Status {
        let layout = &self.layout;
        let component = |component: &Component| ComponentStatus {
            name: component.to_string(),
            pid: self
                .known(*component)
                .filter(|known| known.state() != State::Gone)
                .map(|known| known.pid),
            health: of(layout, *component),
        };
        Status {
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

impl Status {
    /// Whether every component is healthy.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.components
            .iter()
            .all(|component| component.health == Health::Healthy)
    }
}

impl fmt::Display for Status {
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

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Unhealthy(reason) => write!(f, "unhealthy: {reason}"),
            Self::Paused => f.write_str("paused"),
            Self::Gone => f.write_str("not running"),
        }
    }
}

/// Asks a component how it is.
pub(super) fn of(layout: &Layout, component: Component) -> Health {
    match Known::read(&layout.pid(component)).map_or(State::Gone, Known::state) {
        State::Gone => Health::Gone,
        State::Paused => Health::Paused,
        State::Runs => match probe(layout, component).limit(ANSWERS_WITHIN).stdout() {
            Ok(_) => Health::Healthy,
            Err(error) => Health::Unhealthy(in_short(&error.to_string())),
        },
    }
}

/// What went wrong stands behind the command line; an API server goes on to list all that is well.
fn in_short(error: &str) -> String {
    let (_, reason) = error.split_once("` ").unwrap_or(("", error));
    // A line on a screen.
    reason.chars().take(200).collect()
}

/// The program that ends well when the component is well.
fn probe(layout: &Layout, component: Component) -> Run {
    let node = layout.addresses().node;
    let get = |url: &str| {
        let (server, path) = url.rsplit_once('/').unwrap_or((url, ""));
        let kubectl = layout.program("kubectl").display().to_string();
        network::enter(layout, &kubectl)
            .args(["--server", server, "--insecure-skip-tls-verify"])
            // A name that nobody knows, or kubectl would ask for one: health is told to everyone.
            .args(["--username", "anyone", "--password", "none"])
            .args(["get", "--raw", &format!("/{path}")])
            // Nobody's own configuration is looked at.
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

    fn status(health: &[Health]) -> Status {
        let layout = layout(Tier::Api, 2);
        let component = |health: &Health| ComponentStatus {
            name: "etcd".to_owned(),
            pid: (*health != Health::Gone).then_some(7),
            health: health.clone(),
        };
        Status {
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
    fn one_part_that_is_not_well_is_enough() {
        assert!(status(&[Health::Healthy, Health::Healthy]).is_healthy());
        for health in [Health::Gone, Health::Paused, Health::Unhealthy("no".to_owned())] {
            assert!(!status(&[Health::Healthy, health]).is_healthy());
        }
    }

    #[test]
    fn a_reason_is_short_and_without_the_command() {
        assert_eq!(
            in_short("`kubectl get` ended with 1: no route"),
            "ended with 1: no route"
        );
        assert_eq!(in_short(&"x".repeat(1000)).len(), 200);
    }

    #[test]
    fn kubeconfig_and_kubectl_stand_on_lines_of_their_own() {
        let text = status(&[Health::Healthy, Health::Gone]).to_string();
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
