//! Settings of the Kubernetes backend.

use crate::leased_ips::AddressCount;
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::audit::DeletionLog;
use akash_provider_kube_kernel::watch::Definitions;
use ipnet::IpNet;
use k8s_openapi::api::rbac::v1::Subject;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Settings of the backend. [`KubeSettings::new`] gives the defaults.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KubeSettings {
    /// Address of the provider. Objects of other providers are never changed.
    pub provider: Address,
    /// ID of the chain, written to namespaces to distinguish leases of different chains.
    pub chain_id: String,
    /// Namespace of the Manifest, ProviderHost and ProviderLeasedIP objects (`--k8s-manifest-ns`).
    pub manifest_namespace: String,
    /// Host name at which node ports are reachable (`--cluster-public-hostname`).
    pub public_hostname: String,
    /// Kind of the objects for HTTP routes (`--ingress-mode`).
    pub ingress: IngressMode,
    /// Proxy pods that may connect to the pods of leases.
    pub proxies: Vec<ProxyPods>,
    /// Whether network policies isolate leases (`--deployment-network-policies-enabled`).
    pub network_policies: bool,
    /// Runtime class of pods; empty or `none` for the default of the cluster (`--deployment-runtime-class`).
    pub runtime_class: String,
    /// Image pull secret of all pods, in addition to the registry login of each service
    /// (`--docker-image-pull-secrets-name`).
    pub pull_secret: String,
    /// Ratios of resource limits to resource requests.
    pub commit: CommitLevels,
    /// Isolation level of new leases.
    pub isolation: Isolation,
    /// Networks that pods of leases may reach, and networks that are blocked.
    pub egress: Egress,
    /// Whether each lease has a ResourceQuota.
    pub quota: bool,
    /// Reaction to objects that other clients change.
    pub drift: Drift,
    /// Whether registry passwords are also written to the Manifest in plain text, for a migration back to the
    /// Go provider.
    pub plain_registry_passwords: bool,
    /// Whether the provider offers leased IP addresses (`--ip-operator`).
    pub leased_ips: bool,
    /// Maximum number of leased addresses (`--ip-pool-size`); 0 for the size of MetalLB's pools. While this
    /// size is unknown, no address is offered.
    pub leased_ip_pool: u32,
    /// MetalLB pool of the leased addresses; `default` if MetalLB chooses the pool (`--metal-lb-pool`).
    pub metallb_pool: String,
    /// Namespace of MetalLB's pools (`--metal-lb-namespace`).
    pub metallb_namespace: String,
    /// Shared count of addresses in the pools of MetalLB.
    pub leased_ip_count: LeasedIpCount,
    /// Shared watch of CustomResourceDefinitions; one per process.
    pub definitions: Definitions,
    /// User or ServiceAccount that is bound to the lease ClusterRole in the namespace of each lease.
    ///
    /// The backend sets this field to its own account. If this account has the rights in the whole cluster,
    /// the field is `None`.
    pub lease_account: Option<Subject>,
    /// Timeout of one call to the API server.
    pub call_timeout: Duration,
    /// Maximum wait until a tenant's command starts. The container runtime can be slow on a busy node.
    pub command_start_timeout: Duration,
    /// Duration for which events of a lease are stored.
    pub event_history: Duration,
    /// Maximum memory for unread log lines of one tenant, in bytes.
    pub log_memory_per_tenant: usize,
    /// Maximum memory for unread log lines of all tenants together, in bytes.
    pub log_memory: usize,
    /// Audit log of the deletions outside of teardowns.
    pub deletions: DeletionLog,
}

impl KubeSettings {
    /// Returns the default settings of a provider.
    #[must_use]
    pub fn new(provider: Address) -> Self {
        Self {
            provider,
            chain_id: String::new(),
            manifest_namespace: "lease".to_owned(),
            public_hostname: String::new(),
            ingress: IngressMode::Ingress,
            proxies: vec![ProxyPods::nginx()],
            network_policies: true,
            runtime_class: String::new(),
            pull_secret: String::new(),
            commit: CommitLevels::default(),
            isolation: Isolation::Baseline,
            egress: Egress::default(),
            quota: true,
            drift: Drift::Heal,
            plain_registry_passwords: false,
            leased_ips: false,
            leased_ip_pool: 0,
            metallb_pool: "default".to_owned(),
            metallb_namespace: "metallb-system".to_owned(),
            leased_ip_count: LeasedIpCount::default(),
            definitions: Definitions::default(),
            lease_account: None,
            call_timeout: Duration::from_secs(4),
            command_start_timeout: Duration::from_secs(15),
            event_history: Duration::from_secs(7 * 24 * 3600),
            // A maximum line for each of 128 replicas; usual lines take some kilobytes per stream.
            log_memory_per_tenant: 128 << 20,
            // Limits the memory of the provider for the streams of many tenants.
            log_memory: 1 << 30,
            deletions: DeletionLog::default(),
        }
    }
}

/// Shared count of addresses in the MetalLB pools for leases. The inventory or the IP operator updates the count.
#[derive(Debug, Clone)]
pub struct LeasedIpCount(Arc<watch::Sender<Option<Arc<AddressCount>>>>);

impl Default for LeasedIpCount {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl LeasedIpCount {
    /// Returns the last count; `None` before the first count.
    #[must_use]
    pub fn known(&self) -> Option<Arc<AddressCount>> {
        self.0.borrow().clone()
    }

    /// Stores a count. Returns true if the count changed.
    pub fn set(&self, count: AddressCount) -> bool {
        self.0.send_if_modified(|current| {
            let is_new = current.as_deref() != Some(&count);
            if is_new {
                *current = Some(Arc::new(count));
            }
            is_new
        })
    }

    /// Subscribes to changes of the count.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Arc<AddressCount>>> {
        self.0.subscribe()
    }
}

impl PartialEq for LeasedIpCount {
    /// Returns true for any two values, so that a comparison of settings ignores the number of leased IPs.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl KubeSettings {
    /// Returns the size of the address pool, and the number of addresses used outside the leases of this
    /// provider.
    ///
    /// The setting `leased_ip_pool` limits the addresses for leases; 0 means no limit. Before the first
    /// count, returns this limit and 0, or `None` without a limit.
    #[must_use]
    pub fn leased_pool(&self) -> Option<(u32, u32)> {
        let most = self.leased_ip_pool;
        match self.leased_ip_count.known() {
            None => (most > 0).then_some((most, 0)),
            Some(count) if most == 0 => Some((count.total, count.others)),
            Some(count) => {
                let limit = most.saturating_add(count.others);
                Some((count.total.min(limit), count.others))
            }
        }
    }
}

/// Pods of a proxy, selected by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyPods {
    /// Labels that select the namespaces of the pods; empty for all namespaces.
    pub namespace: Vec<(String, String)>,
    /// Labels of the pods; empty for all pods in the selected namespaces.
    pub pods: Vec<(String, String)>,
}

impl ProxyPods {
    const APP_NAME: &str = "app.kubernetes.io/name";

    /// Returns a selector for the pods of ingress-nginx. The Go provider selects the same pods.
    #[must_use]
    pub fn nginx() -> Self {
        Self {
            namespace: Self::named("ingress-nginx").pods,
            ..Self::named("ingress-nginx")
        }
    }

    /// Returns a selector for the pods of the application `app` in any namespace. No pod of a lease matches,
    /// because tenants cannot set labels of pods.
    #[must_use]
    pub fn named(app: &str) -> Self {
        Self {
            namespace: Vec::new(),
            pods: vec![(Self::APP_NAME.to_owned(), app.to_owned())],
        }
    }
}

/// Kind of the objects for HTTP routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IngressMode {
    /// Ingress objects of class `akash-ingress-class`.
    Ingress,
    /// HTTPRoutes of the Gateway API.
    GatewayApi {
        /// Name of the Gateway (`--gateway-name`).
        name: String,
        /// Namespace of the Gateway (`--gateway-namespace`).
        namespace: String,
        /// Default size of the proxy buffers for responses, for example `16k` (`--proxy-buffer-size`).
        buffer_size: String,
    },
}

impl IngressMode {
    /// Returns Gateway API mode with the default names: Gateway `akash-gateway` in the namespace `akash-gateway`.
    #[must_use]
    pub fn gateway_api() -> Self {
        Self::GatewayApi {
            name: "akash-gateway".to_owned(),
            namespace: "akash-gateway".to_owned(),
            buffer_size: "16k".to_owned(),
        }
    }
}

/// Ratios of limit to request: 1.0 for equality, 1.5 for a limit 50 % above the request.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CommitLevels {
    /// Ratio for CPU: 1 plus `--overcommit-pct-cpu` / 100.
    pub cpu: f64,
    /// Ratio for memory: 1 plus `--overcommit-pct-mem` / 100.
    pub memory: f64,
    /// Ratio for ephemeral storage: 1 plus `--overcommit-pct-storage` / 100.
    pub storage: f64,
}

impl Default for CommitLevels {
    fn default() -> Self {
        Self {
            cpu: 1.0,
            memory: 1.0,
            storage: 1.0,
        }
    }
}

/// Isolation level of the pods of a lease. A new setting changes running leases only through
/// `KubeCluster::harden`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// Level of the Go provider: no seccomp profile, all default capabilities, no quota, no Pod Security.
    Legacy,
    /// Pod Security `baseline`, seccomp `RuntimeDefault`, fewer capabilities, quota.
    Baseline,
}

impl Isolation {
    /// Returns the value of the annotation [`ISOLATION`](akash_provider_kube_kernel::labels::ISOLATION).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Baseline => "baseline",
        }
    }

    /// Returns the other isolation level.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Baseline,
            Self::Baseline => Self::Legacy,
        }
    }

    /// Returns the isolation level in the annotation of a namespace, or `Legacy` without the annotation.
    #[must_use]
    pub fn from_annotation(annotation: Option<&str>) -> Self {
        match annotation {
            Some("baseline") => Self::Baseline,
            _ => Self::Legacy,
        }
    }
}

/// Reaction to workloads and Services that other clients change or delete. Isolation objects are always
/// repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// Repair the objects immediately.
    Heal,
    /// Log the change, and restore the objects with the next deploy.
    Report,
}

/// Networks outside of the lease namespace that pods may reach, and networks that are blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Egress {
    /// Networks to which pods must not connect, in addition to nodes and API servers.
    pub closed: Vec<String>,
    /// Addresses of nodes and API servers, to which pods must not connect.
    pub infrastructure: Vec<String>,
    /// Networks of DNS resolvers such as node-local DNS, to which pods may connect on port 53 (UDP and TCP).
    pub resolvers: Vec<String>,
    /// Labels of the DNS resolver pods in `kube-system`, to which pods may connect on port 53.
    pub resolver_pods: Vec<(String, String)>,
    /// Endpoints of the API server, to which services with read permissions may connect.
    pub api_servers: Vec<SocketAddr>,
}

impl Default for Egress {
    /// Blocks the private, link-local and shared networks. DNS resolvers remain reachable on port 53.
    fn default() -> Self {
        let owned = |list: &[&str]| list.iter().map(|&s| s.to_owned()).collect();
        Self {
            closed: owned(&[
                "10.0.0.0/8",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "100.64.0.0/10",
                "169.254.0.0/16",
                "fc00::/7",
                "fe80::/10",
            ]),
            infrastructure: Vec::new(),
            resolvers: owned(&["169.254.20.10/32"]),
            resolver_pods: vec![("k8s-app".to_owned(), "kube-dns".to_owned())],
            api_servers: Vec::new(),
        }
    }
}

/// Parses a network for [`Egress`]: `address/length`, or an address. Ignores address bits after the prefix.
///
/// # Errors
/// The problem and the remedy.
pub fn network(text: &str) -> Result<IpNet, String> {
    let trimmed = text.trim();
    let network = trimmed.parse::<IpNet>().ok();
    let network = network.or_else(|| trimmed.parse::<IpAddr>().ok().map(IpNet::from));
    network.map(|network| network.trunc()).ok_or_else(|| {
        // Shortened for the message.
        let short: String = text.chars().take(80).collect();
        format!("invalid network `{short}`; use a form like `10.0.0.0/8` or `fc00::/7`")
    })
}
