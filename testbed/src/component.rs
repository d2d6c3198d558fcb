//! Components of a cluster: names, programs and arguments.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

mod arguments;

/// A process of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Controllers, for example for Deployments, namespaces and service accounts.
    ControllerManager,
    /// Scheduler of pods.
    Scheduler,
    /// Container runtime.
    Containerd,
    /// Node agent.
    Kubelet,
    /// Proxy of Services and node ports.
    KubeProxy,
    /// Simulator of nodes and their pods.
    Kwok,
}

impl Component {
    /// All components.
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

    /// Returns the name used on the command line.
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

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Etcd | Self::Containerd | Self::Kubelet | Self::KubeProxy | Self::Kwok => self.as_str(),
        }
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
                    "unknown component `{text}`: expected one of {}",
                    names.join(", ")
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for component in Component::ALL {
            assert_eq!(component.to_string().parse(), Ok(component));
        }
        let error = "kube".parse::<Component>().unwrap_err().to_string();
        assert!(error.contains("kube-proxy"), "{error}");
    }
}
