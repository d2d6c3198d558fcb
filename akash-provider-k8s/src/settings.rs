//! What an operator chooses about Kubernetes.

use crate::state::Definitions;
use akash_provider_core::types::Address;
use ipnet::IpNet;
use k8s_openapi::api::rbac::v1::Subject;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Settings of the backend. [`Settings::new`] gives the defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The provider; objects of others are never touched.
    pub provider: Address,
    /// Id of the chain; written to namespaces, so that leases of two chains are told apart.
    pub chain_id: String,
    /// Namespace of the Manifest, ProviderHost and ProviderLeasedIP objects (`--k8s-manifest-ns`).
    pub manifest_namespace: String,
    /// Host under which node ports are reached (`--cluster-public-hostname`).
    pub public_hostname: String,
    /// How HTTP reaches a service (`--ingress-mode`).
    pub ingress: IngressMode,
    /// Pods of proxies, which reach the pods of leases.
    pub proxies: Vec<ProxyPods>,
    /// Isolation of leases by network policies (`--deployment-network-policies-enabled`).
    pub network_policies: bool,
    /// Runtime class of pods; empty or `none` for the cluster's default (`--deployment-runtime-class`).
    pub runtime_class: String,
    /// Pull secret that every pod names besides its own (`--docker-image-pull-secrets-name`).
    pub pull_secret: String,
    /// How much more is promised than reserved.
    pub commit: CommitLevels,
    /// What pods may do.
    pub isolation: Isolation,
    /// Where pods may connect to.
    pub egress: Egress,
    /// A ResourceQuota per lease.
    pub quota: bool,
    /// What others change of leases that we applied.
    pub drift: Drift,
    /// Registry passwords are also written in clear into the Manifest, as the Go provider does and needs after
    /// a change back.
    pub plain_registry_passwords: bool,
    /// Leased IPs are offered (`--ip-operator`).
    pub leased_ips: bool,
    /// Most addresses that leases may have (`--ip-pool-size`); 0 for as many as MetalLB's pools have, and for none while
    /// those are not known.
    pub leased_ip_pool: u32,
    /// Pool of MetalLB that addresses are of; `default` for whichever it assigns from by itself (`--metal-lb-pool`).
    pub metallb_pool: String,
    /// Namespace of MetalLB's pools (`--metal-lb-namespace`).
    pub metallb_namespace: String,
    /// What is counted of those pools, by the inventory for the whole backend.
    pub leased_ip_count: LeasedIpCount,
    /// Who says when a kind comes that the cluster does not have; one for all of a process.
    pub definitions: Definitions,
    /// Account that is bound to the ClusterRole of leases in the namespace of each lease. The backend sets it to the account
    /// of its client, unless that has the rights of this role in the whole cluster.
    pub lease_account: Option<Subject>,
    /// Limit of one call to the API server.
    pub call_timeout: Duration,
    /// Longest wait for a tenant's command to start. It waits for the container's runtime too, which takes its
    /// time on a busy node, and holds up nobody but the tenant who asked.
    pub command_start_timeout: Duration,
    /// Events of a lease are remembered so long.
    pub event_history: Duration,
    /// Memory for log lines of one tenant that wait for their reader, in bytes.
    pub log_memory_per_tenant: usize,
    /// Memory for log lines of all tenants together, in bytes.
    pub log_memory: usize,
}

impl Settings {
    /// The defaults for a provider.
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
            // A full line of 128 replicas; lines of usual length take some kilobytes for each stream.
            log_memory_per_tenant: 128 << 20,
            // So that the streams of several tenants cannot fill the provider's memory.
            log_memory: 1 << 30,
        }
    }
}

/// How many addresses leases may have, and how many of those others have taken: one count for all who share it.
#[derive(Debug, Clone, Default)]
pub struct LeasedIpCount(Arc<Mutex<Option<(u32, u32)>>>);

impl LeasedIpCount {
    /// Addresses there are, and those that others have; `None` while that was never known.
    #[must_use]
    pub fn known(&self) -> Option<(u32, u32)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the count; true when it is another one by that.
    pub(crate) fn set(&self, count: (u32, u32)) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.replace(count) != Some(count)
    }
}

impl PartialEq for LeasedIpCount {
    /// What is counted is no setting: two of them differ in nothing.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Settings {
    /// The pool of leased addresses: how many there are, and how many of them others have. At most `leased_ip_pool` are
    /// for leases, where that is set. `None` while nobody knows.
    #[must_use]
    pub fn leased_pool(&self) -> Option<(u32, u32)> {
        let most = self.leased_ip_pool;
        match self.leased_ip_count.known() {
            None => (most > 0).then_some((most, 0)),
            Some((total, taken)) if most == 0 => Some((total, taken)),
            Some((total, taken)) => Some((total.min(most.saturating_add(taken)), taken)),
        }
    }
}

/// Pods of a proxy, by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyPods {
    /// Labels of their namespaces; empty for all namespaces.
    pub namespace: Vec<(String, String)>,
    /// Labels of the pods; empty for all pods of these namespaces.
    pub pods: Vec<(String, String)>,
}

impl ProxyPods {
    const APP_NAME: &str = "app.kubernetes.io/name";

    /// Pods of ingress-nginx in its namespace, as the Go provider admits them.
    #[must_use]
    pub fn nginx() -> Self {
        Self {
            namespace: Self::named("ingress-nginx").pods,
            ..Self::named("ingress-nginx")
        }
    }

    /// Pods of an application in any namespace. Tenants give no labels to their pods.
    #[must_use]
    pub fn named(app: &str) -> Self {
        Self {
            namespace: Vec::new(),
            pods: vec![(Self::APP_NAME.to_owned(), app.to_owned())],
        }
    }
}

/// How HTTP reaches a service.
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
        /// Size of the proxy's buffer, for example `16k` (`--proxy-buffer-size`).
        buffer_size: String,
    },
}

impl IngressMode {
    /// Gateway API with the network's default names.
    #[must_use]
    pub fn gateway_api() -> Self {
        Self::GatewayApi {
            name: "akash-gateway".to_owned(),
            namespace: "akash-gateway".to_owned(),
            buffer_size: "16k".to_owned(),
        }
    }
}

/// By how much a limit may be above its request: 1.0 is not at all, 1.5 is half as much again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommitLevels {
    /// Processor (`--overcommit-pct-cpu` / 100 + 1).
    pub cpu: f64,
    /// Memory (`--overcommit-pct-mem` / 100 + 1).
    pub memory: f64,
    /// Ephemeral storage (`--overcommit-pct-storage` / 100 + 1).
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

/// What the pods of a lease may do. A lease keeps the level it was made with until `harden`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// As the Go provider makes pods: no seccomp profile, all default capabilities, no quota, no Pod Security.
    Legacy,
    /// Pod Security `baseline`, seccomp `RuntimeDefault`, without the capabilities nobody needs.
    Baseline,
}

impl Isolation {
    /// The word of the annotation [`ISOLATION`](crate::labels::ISOLATION).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Baseline => "baseline",
        }
    }

    /// Returns the other level.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Baseline,
            Self::Baseline => Self::Legacy,
        }
    }

    /// The level an annotation names; a namespace without one was made by another provider.
    #[must_use]
    pub fn of(annotation: Option<&str>) -> Self {
        match annotation {
            Some("baseline") => Self::Baseline,
            _ => Self::Legacy,
        }
    }
}

/// What becomes of workloads and Services that others change or delete. Policies are put right at once in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// They are put right at once.
    Heal,
    /// They are told, and put right by the next deploy of the lease.
    Report,
}

/// Where pods may connect to outside their namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// Networks that are closed, besides nodes and API servers.
    pub closed: Vec<String>,
    /// Addresses of nodes and API servers, as networks; closed too.
    pub infrastructure: Vec<String>,
    /// Resolvers reached on port 53, UDP and TCP, whatever is closed: as networks (node-local DNS).
    pub resolvers: Vec<String>,
    /// Labels of the resolver's pods in `kube-system`.
    pub resolver_pods: Vec<(String, String)>,
    /// Backends of the API server: services that may read of their lease reach these and nothing else that is
    /// closed.
    pub api_servers: Vec<SocketAddr>,
}

impl Default for Egress {
    /// Private, link-local, shared and local ranges closed, in IPv4 and IPv6; kube-dns and node-local DNS open.
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

/// A network as [`Egress`] has it, `address/length`, or an address alone; bits beyond the length do not count.
///
/// # Errors
/// What is wrong with the text, and the mend.
pub fn network(text: &str) -> Result<IpNet, String> {
    let trimmed = text.trim();
    let network = trimmed.parse::<IpNet>().ok();
    let network = network.or_else(|| trimmed.parse::<IpAddr>().ok().map(IpNet::from));
    network.map(|network| network.trunc()).ok_or_else(|| {
        // Longer than any network, short enough for a message.
        let shown: String = text.chars().take(80).collect();
        format!("`{shown}` is no network; write it as `10.0.0.0/8` or `fc00::/7`")
    })
}
