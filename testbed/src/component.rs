//! The parts of a cluster: their names, programs and arguments.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::layout::Layout;

mod arguments;

/// A process of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Deployments get their ReplicaSets, namespaces end, service accounts get their token.
    ControllerManager,
    /// Pods get their node.
    Scheduler,
    /// Runs containers.
    Containerd,
    /// The node's agent.
    Kubelet,
    /// Services answer on their addresses and node ports.
    KubeProxy,
    /// Simulates nodes and what runs on them.
    Kwok,
}

impl Component {
    /// Every component.
    pub const ALL: [Self; 8] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Containerd,
        Self::Kubelet,
        Self::KubeProxy,
        Self::Kwok,
    ];

    /// Its name, as typed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Kwok => "kwok",
        }
    }

    /// The name of its program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Etcd | Self::Containerd | Self::Kubelet | Self::KubeProxy | Self::Kwok => self.as_str(),
        }
    }

    /// What its program is called with.
    pub(crate) fn arguments(self, layout: &Layout) -> Vec<String> {
        arguments::of(self, layout)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Component {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|component| component.as_str() == text)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|component| component.as_str()).collect();
                Error::new(format!(
                    "there is no component `{text}`; there are {}",
                    names.join(", ")
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for component in Component::ALL {
            assert_eq!(component.to_string().parse(), Ok(component));
        }
        let error = "kube".parse::<Component>().unwrap_err().to_string();
        assert!(error.contains("kube-proxy"), "{error}");
    }
}
