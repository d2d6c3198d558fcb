//! Paths and addresses of a cluster, derived from its folder and number.
//!
//! ```text
//!  host                        network namespace akash-NAME
//!  10.99.N.1 ───── veth ─────  10.99.N.2   API server, kubelet, … and a bridge to the pods
//!  routes: 10.(200+N).0.0/16 via 10.99.N.2     pods 10.(200+N).0.0/17, services 10.(200+N).128.0/17
//! ```

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::component::Component;
use crate::error::{Error, Result};
use crate::tier::Tier;

/// Maximum number of concurrent clusters: one for each second octet of pod addresses, from 200 to 255.
pub(crate) const CLUSTERS_MAX: u8 = 56;
/// Node name of a cluster with a node.
pub(crate) const NODE: &str = "node-1";
/// File with the description of the running cluster.
const RECORD: &str = "cluster.json";

/// Location and number of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) tier: Tier,
    /// Absolute path of the state folder.
    pub(crate) dir: PathBuf,
    /// Name of the cluster's network namespace.
    pub(crate) netns: String,
    /// Number of the cluster on this machine, part of its addresses and link names.
    pub(crate) index: u8,
    /// Folder of the Kubernetes programs, which are built from Go modules.
    pub(crate) programs: PathBuf,
}

/// Addresses of a cluster, all reachable from this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterAddresses {
    /// Address of this machine for programs in the cluster.
    pub host: Ipv4Addr,
    /// Address of the API server, the kubelet and the node ports.
    pub node: Ipv4Addr,
    /// Range of pod addresses.
    pub pods: String,
    /// Range of Service addresses.
    pub services: String,
    /// Address of cluster DNS.
    pub dns: Ipv4Addr,
    /// URL of the API server.
    pub api_server: String,
}

impl Layout {
    pub(crate) fn new(tier: Tier, name: &str, dir: &Path, index: u8, programs: &Path) -> Self {
        Self {
            tier,
            netns: netns(name, dir),
            dir: dir.to_owned(),
            index,
            programs: programs.to_owned(),
        }
    }

    /// Reads the description of the cluster in this folder; `None` if no cluster was started.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(RECORD);
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| {
                Error::at(
                    &path,
                    format!("{error}; delete the folder once nothing in it runs"),
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::at(&path, error)),
        }
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.dir.join(RECORD)
    }

    pub(crate) fn addresses(&self) -> ClusterAddresses {
        let octet = 200_u8.saturating_add(self.index);
        let node = Ipv4Addr::new(10, 99, self.index, 2);
        ClusterAddresses {
            host: Ipv4Addr::new(10, 99, self.index, 1),
            node,
            pods: format!("10.{octet}.0.0/17"),
            services: format!("10.{octet}.128.0/17"),
            // By convention the tenth address of the range.
            dns: Ipv4Addr::new(10, octet, 128, 10),
            api_server: format!("https://{node}:6443"),
        }
    }

    /// Returns the address range of all pods and Services.
    pub(crate) fn inside(&self) -> String {
        format!("10.{}.0.0/16", 200_u8.saturating_add(self.index))
    }

    /// Returns the interface names of the link on this machine and in the namespace.
    pub(crate) fn link(&self) -> (String, String) {
        (format!("akash{}h", self.index), format!("akash{}n", self.index))
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    pub(crate) fn kubeconfig_of(&self, component: Component) -> PathBuf {
        self.dir.join("config").join(format!("{component}.kubeconfig"))
    }

    pub(crate) fn config(&self, file: &str) -> PathBuf {
        self.dir.join("config").join(file)
    }

    /// File with a key or certificate.
    pub(crate) fn secret(&self, file: &str) -> PathBuf {
        self.dir.join("pki").join(file)
    }

    pub(crate) fn data(&self, component: Component) -> PathBuf {
        self.dir.join("data").join(component.as_str())
    }

    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.dir.join("logs").join(format!("{component}.log"))
    }

    /// Returns the path of the audit log.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.dir.join("logs").join("audit.log")
    }

    pub(crate) fn pid(&self, component: Component) -> PathBuf {
        self.dir.join("pids").join(component.as_str())
    }

    /// Socket of containerd. Socket paths are limited to 107 bytes, so the path is short.
    pub(crate) fn containerd_socket(&self) -> PathBuf {
        Path::new("/run").join(&self.netns).join("containerd.sock")
    }

    /// Folder for files that need short paths.
    pub(crate) fn run_dir(&self) -> PathBuf {
        Path::new("/run").join(&self.netns)
    }
}

/// Returns the name of the network namespace: the cluster name, and six digits that differ between folders.
fn netns(name: &str, dir: &Path) -> String {
    let digest = Sha256::digest(dir.as_os_str().as_encoded_bytes());
    let digits: String = digest.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    format!("akash-{name}-{digits}")
}

/// Checks a cluster name, which is part of the names of namespaces, networks and folders.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fits = (1..=20).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if fits {
        return Ok(());
    }
    Err(Error::new(format!(
        "invalid cluster name `{name}`: expected 1 to 20 characters of a-z, 0-9 and -"
    )))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn layout(tier: Tier, index: u8) -> Layout {
        Layout::new(tier, "t", Path::new("/state/t"), index, Path::new("/programs"))
    }

    #[test]
    fn every_number_has_unique_addresses() {
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..CLUSTERS_MAX {
            let addresses = layout(Tier::Api, index).addresses();
            assert!(seen.insert(addresses.node.to_string()));
            assert!(seen.insert(addresses.pods.clone()));
            assert!(seen.insert(layout(Tier::Api, index).inside()));
            assert!(seen.insert(layout(Tier::Api, index).link().0));
        }
        let last = layout(Tier::Api, CLUSTERS_MAX - 1).addresses();
        assert_eq!(last.services, "10.255.128.0/17");
        assert_eq!(last.dns, Ipv4Addr::new(10, 255, 128, 10));
    }

    #[test]
    fn two_folders_never_share_a_namespace() {
        let one = netns("api", Path::new("/a/target/cluster/api"));
        assert_ne!(one, netns("api", Path::new("/b/target/cluster/api")));
        assert_eq!(one, netns("api", Path::new("/a/target/cluster/api")));
    }

    #[test]
    fn interface_names_fit_the_kernel() {
        let (host, node) = layout(Tier::Api, CLUSTERS_MAX - 1).link();
        assert!(host.len() <= 15 && node.len() <= 15 && host != node);
    }

    #[test]
    fn invalid_names_are_refused() {
        assert!(check_name("shared-1").is_ok());
        for bad in ["", "a/b", "A", "..", "a name", &"x".repeat(21)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn record_is_read_back_and_invalid_record_is_reported() {
        let dir = std::env::temp_dir().join(format!("testbed-layout-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert_eq!(Layout::read(&dir), Ok(None));
        let layout = Layout::new(Tier::Node, "t", &dir, 3, Path::new("/p"));
        std::fs::write(layout.record(), serde_json::to_string(&layout).unwrap()).unwrap();
        assert_eq!(Layout::read(&dir), Ok(Some(layout.clone())));
        std::fs::write(layout.record(), "{").unwrap();
        assert!(Layout::read(&dir).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
