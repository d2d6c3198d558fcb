//! Flags of the Kubernetes backend.

pub use super::cluster_domain::{ClusterDomainArgs, blocked_with_names_below};
use super::inventory_operator::InventoryOperatorArgs;
use super::operators::{DiscoveryArgs, EmbeddedOperatorArg, GpuListArgs, NamesArgs, PoolArgs};
pub use super::routes::IngressArg;
use super::routes::{ControllerArg, RoutesArgs};
use super::values;
use akash_provider_cli::setting::HaRule;
use akash_provider_core::types::Address;
use akash_provider_k8s::settings::{Drift, Egress, IngressMode, Isolation, KubeSettings, ProxyPods};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Kubernetes cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes")]
pub struct KubernetesArgs {
    /// Run leases on the cluster of this kubeconfig instead of in memory
    #[arg(long, value_name = "FILE")]
    #[arg(add = HaRule::LOCATION)]
    pub kubeconfig: Option<PathBuf>,
    /// Existing namespace of the Manifest, ProviderHost and ProviderLeasedIP objects
    #[arg(long, default_value = "lease", env = "AP_K8S_MANIFEST_NS")]
    pub k8s_manifest_ns: String,
    /// Public host name of the cluster, at which tenants reach node ports
    #[arg(long, default_value = "localhost", env = "AP_CLUSTER_PUBLIC_HOSTNAME")]
    pub cluster_public_hostname: String,
    /// Domain of the cluster.
    #[command(flatten)]
    pub domain: ClusterDomainArgs,
    /// Isolate leases with network policies
    #[arg(long, default_value_t = true)]
    pub deployment_network_policies_enabled: bool,
    /// Runtime class of pods, for example gvisor; none uses the default of the cluster
    #[arg(long, default_value = "none")]
    pub deployment_runtime_class: String,
    /// Name of the image pull secret of every pod
    #[arg(long, default_value = "")]
    pub docker_image_pull_secrets_name: String,
    /// CPU overcommitment, in percent
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub overcommit_pct_cpu: u32,
    /// Memory overcommitment, in percent
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub overcommit_pct_mem: u32,
    /// Ephemeral storage overcommitment, in percent
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub overcommit_pct_storage: u32,
    /// Isolation level of the pods of new leases
    #[arg(long, value_enum, default_value = "baseline")]
    pub isolation: IsolationArg,
    /// Create a ResourceQuota for every lease with an isolation level other than legacy
    #[arg(long, default_value_t = true)]
    pub lease_quota: bool,
    /// Handling of externally changed workloads and Services of leases; network policies are always repaired
    #[arg(long, value_enum, default_value = "heal")]
    pub drift: DriftArg,
    /// Also store registry passwords as clear text in the Manifest objects, so that the Go provider can read
    /// them
    #[arg(long)]
    pub plain_registry_passwords: bool,
    /// Networks that pods must not connect to, in addition to nodes and API servers
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = network,
          default_values_t = Egress::default().closed)]
    pub closed_networks: Vec<String>,
    /// Networks of DNS resolvers that pods reach on port 53, even in closed networks
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = network,
          default_values_t = Egress::default().resolvers)]
    pub resolver_networks: Vec<String>,
    /// Labels of the DNS resolvers in kube-system that pods of leases reach on port 53
    #[arg(
        long,
        value_name = "LABEL=VALUE",
        value_delimiter = ',',
        value_parser = values::label,
        default_value = "k8s-app=kube-dns"
    )]
    pub resolver_pods: Vec<(String, String)>,
    /// Routing of HTTP.
    #[command(flatten)]
    pub routes: RoutesArgs,
    /// Namespace of the proxy that connects to pods of leases [default: by --ingress-controller]
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    pub ingress_proxy_namespace: Option<String>,
    /// Labels of the proxy pods that connect to pods of leases [default: by --ingress-controller]
    #[arg(long, value_name = "LABEL=VALUE", value_delimiter = ',', value_parser = values::label)]
    pub ingress_proxy_labels: Vec<(String, String)>,
    /// Inventory operator as the source of the capacity.
    #[command(flatten)]
    pub inventory: InventoryOperatorArgs,
    /// Operators to run in this process instead of in separate pods; `none` disables them
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    #[arg(add = HaRule::OPERATOR)]
    pub with_operators: Option<Vec<EmbeddedOperatorArg>>,
    /// Checks of hostnames by the embedded hostname operator.
    #[command(flatten)]
    pub names: NamesArgs,
    /// Nodes and storage classes that the embedded inventory operator offers, as YAML or YAML file [default:
    /// all nodes]
    #[arg(long, value_name = "FILE|YAML")]
    #[arg(add = HaRule::EqualContentOrValue)]
    pub inventory_config: Option<String>,
    /// GPU list of the embedded inventory operator.
    #[command(flatten)]
    pub gpus: GpuListArgs,
    /// Hardware discovery of the embedded inventory operator.
    #[command(flatten)]
    pub discovery: DiscoveryArgs,
    /// Offer leased IP addresses; requires an IP operator, embedded or in the cluster
    #[arg(long)]
    pub ip_operator: bool,
    /// Maximum number of IP addresses that the provider offers; 0 offers all addresses of MetalLB's
    /// IPAddressPools
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub ip_pool_size: u32,
    /// MetalLB address pool.
    #[command(flatten)]
    pub pool: PoolArgs,
    /// Timeout of one call to the API server
    #[arg(long, default_value = "4s", value_parser = values::duration)]
    #[arg(add = HaRule::MACHINE)]
    pub kube_call_timeout: std::time::Duration,
    /// Time for which the provider keeps lease events; the API server deletes them after one hour
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = values::go_duration)]
    #[arg(add = HaRule::OUTPUT)]
    pub event_history: std::time::Duration,
}

/// Isolation level of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IsolationArg {
    /// As in the Go provider
    Legacy,
    /// Pod Security `baseline`, seccomp and reduced capabilities
    Baseline,
}

/// Handling of objects that were changed externally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DriftArg {
    /// Repair the object immediately
    Heal,
    /// Report the change, and repair the object with the next deploy
    Report,
}

impl KubernetesArgs {
    /// Returns whether `--with-operators` names this operator.
    #[must_use]
    pub fn runs(&self, operator: EmbeddedOperatorArg) -> bool {
        let wanted = self.with_operators.as_deref().unwrap_or_default();
        wanted.contains(&operator)
    }

    /// Returns the proxy pods that the flags for namespace and labels select. Without these flags, returns
    /// the proxy pods of the common charts for `--ingress-controller`.
    fn proxies(&self) -> Vec<ProxyPods> {
        let namespace = self.ingress_proxy_namespace.iter();
        let namespace: Vec<_> = namespace
            .map(|name| ("kubernetes.io/metadata.name".to_owned(), name.clone()))
            .collect();
        let pods = self.ingress_proxy_labels.clone();
        if !namespace.is_empty() || !pods.is_empty() {
            return vec![ProxyPods { namespace, pods }];
        }
        match self.routes.ingress_controller {
            ControllerArg::Nginx => vec![ProxyPods::nginx()],
            ControllerArg::Traefik => vec![ProxyPods::named("traefik")],
            ControllerArg::Haproxy => ["kubernetes-ingress", "haproxy-ingress"]
                .map(ProxyPods::named)
                .to_vec(),
        }
    }

    /// Returns the settings of the Kubernetes backend.
    #[must_use]
    pub fn settings(&self, provider: Address, chain_id: &str) -> KubeSettings {
        let level = |percent: u32| 1.0 + f64::from(percent) / 100.0;
        let mut settings = KubeSettings::new(provider);
        settings.chain_id = chain_id.to_owned();
        settings.manifest_namespace = self.k8s_manifest_ns.clone();
        settings.public_hostname = self.cluster_public_hostname.clone();
        settings.ingress = match self.routes.ingress_mode {
            IngressArg::Ingress => IngressMode::Ingress,
            IngressArg::GatewayApi => IngressMode::GatewayApi {
                name: self.routes.gateway_name.clone(),
                namespace: self.routes.gateway_namespace.clone(),
                buffer_size: self.routes.proxy_buffer_size.clone(),
            },
        };
        settings.proxies = self.proxies();
        settings.network_policies = self.deployment_network_policies_enabled;
        settings.runtime_class = self.deployment_runtime_class.clone();
        settings.pull_secret = self.docker_image_pull_secrets_name.trim().to_owned();
        settings.commit.cpu = level(self.overcommit_pct_cpu);
        settings.commit.memory = level(self.overcommit_pct_mem);
        settings.commit.storage = level(self.overcommit_pct_storage);
        settings.isolation = match self.isolation {
            IsolationArg::Legacy => Isolation::Legacy,
            IsolationArg::Baseline => Isolation::Baseline,
        };
        settings.egress.closed = self.closed_networks.clone();
        settings.egress.resolvers = self.resolver_networks.clone();
        settings.egress.resolver_pods = self.resolver_pods.clone();
        settings.quota = self.lease_quota;
        settings.drift = match self.drift {
            DriftArg::Heal => Drift::Heal,
            DriftArg::Report => Drift::Report,
        };
        settings.plain_registry_passwords = self.plain_registry_passwords;
        settings.leased_ips = self.ip_operator;
        settings.leased_ip_pool = self.ip_pool_size;
        settings.metallb_pool = self.pool.metal_lb_pool.clone();
        settings.metallb_namespace = self.pool.metal_lb_namespace.clone();
        settings.call_timeout = self.kube_call_timeout;
        settings.event_history = self.event_history;
        settings
    }
}

/// Parses a network such as `10.0.0.0/8`, or a single address. Clears the bits beyond the prefix length.
///
/// # Errors
/// Returns the reason if the text is invalid.
fn network(text: &str) -> Result<String, String> {
    akash_provider_k8s::settings::network(text).map(|network| network.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_cli::flags::with_go_booleans;
    use clap::{CommandFactory, FromArgMatches, Parser};

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        kubernetes: KubernetesArgs,
    }

    fn settings(words: &[&str]) -> KubeSettings {
        let words = [&["test"], words].concat();
        let provider = Address::from_bytes(&[1; 20]).unwrap();
        with_go_booleans(Flags::command())
            .try_get_matches_from(words)
            .and_then(|matches| Flags::from_arg_matches(&matches))
            .map(|flags| flags.kubernetes.settings(provider, "chain-1"))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn has_the_defaults_of_the_backend() {
        let provider = Address::from_bytes(&[1; 20]).unwrap();
        let (given, own) = (settings(&[]), KubeSettings::new(provider));
        assert_eq!((&given.egress, given.quota), (&own.egress, own.quota));
        assert_eq!(given.plain_registry_passwords, own.plain_registry_passwords);
        assert_eq!((given.event_history, given.drift), (own.event_history, own.drift));
        assert!(given.network_policies);
        let gateway = settings(&["--ingress-mode=gateway-api"]).ingress;
        assert_eq!(gateway, IngressMode::gateway_api());
    }

    #[test]
    fn has_a_flag_for_every_lease_setting() {
        let given = settings(&[
            "--lease-quota=false",
            "--plain-registry-passwords",
            "--closed-networks=10.1.2.3/8,fd00::/8",
            "--resolver-networks=169.254.25.10",
            "--resolver-pods=app=coredns,tier=dns",
            "--ingress-mode=gateway-api",
            "--gateway-name=edge",
            "--gateway-namespace=edge.system",
            "--proxy-buffer-size=32k",
            "--event-history=2h",
            "--drift=report",
            "--deployment-network-policies-enabled=F",
        ]);
        assert_eq!(
            (given.event_history.as_secs(), given.drift),
            (7200, Drift::Report)
        );
        assert!(
            !given.network_policies && settings(&["--deployment-network-policies-enabled"]).network_policies
        );
        assert!(!given.quota && given.plain_registry_passwords);
        assert_eq!(given.egress.closed, ["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(given.egress.resolvers, ["169.254.25.10/32"]);
        let pods = [("app", "coredns"), ("tier", "dns")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(given.egress.resolver_pods, pods);
        let gateway = IngressMode::GatewayApi {
            name: "edge".to_owned(),
            namespace: "edge.system".to_owned(),
            buffer_size: "32k".to_owned(),
        };
        assert_eq!(given.ingress, gateway);
    }

    #[test]
    fn rejects_values_that_kubernetes_would_reject() {
        for (flag, mend) in [
            ("--closed-networks=10.0.0.0/33", "`10.0.0.0/8`"),
            ("--closed-networks=", "`10.0.0.0/8`"),
            ("--resolver-networks=dns.example", "`10.0.0.0/8`"),
            ("--resolver-pods=coredns", "such as k8s-app=kube-dns"),
            ("--resolver-pods==x", "such as k8s-app=kube-dns"),
            ("--resolver-pods=app=a b", "such as k8s-app=kube-dns"),
            ("--gateway-name=Edge", "lowercase letters"),
            ("--gateway-namespace=", "lowercase letters"),
            ("--proxy-buffer-size=16k;", "such as 16k"),
            ("--proxy-buffer-size=0k", "such as 16k"),
        ] {
            let error = Flags::try_parse_from(["test", flag]).err().unwrap().to_string();
            assert!(error.contains(mend), "{flag}: {error}");
        }
    }

    #[test]
    fn admits_the_proxy_of_the_controller_or_of_the_flags() {
        let label = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
        let edge = label("kubernetes.io/metadata.name", "edge");
        for (words, wanted) in [
            (&[][..], vec![ProxyPods::nginx()]),
            (
                &["--ingress-controller=traefik"],
                vec![ProxyPods::named("traefik")],
            ),
            (
                &["--ingress-controller=haproxy"],
                ["kubernetes-ingress", "haproxy-ingress"]
                    .map(ProxyPods::named)
                    .to_vec(),
            ),
            (
                &["--ingress-proxy-namespace=edge"],
                vec![ProxyPods {
                    namespace: edge.clone(),
                    pods: Vec::new(),
                }],
            ),
            (
                &[
                    "--ingress-controller=traefik",
                    "--ingress-proxy-namespace=edge",
                    "--ingress-proxy-labels=app=proxy",
                ],
                vec![ProxyPods {
                    namespace: edge.clone(),
                    pods: label("app", "proxy"),
                }],
            ),
        ] {
            assert_eq!(settings(words).proxies, wanted, "{words:?}");
        }
    }
}
