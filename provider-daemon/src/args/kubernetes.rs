//! Flags of the Kubernetes backend.

use super::operators::{DiscoveryArgs, GpuListArgs, InsideArg, NamesArgs, PoolArgs};
use super::routes::{ControllerArg, RoutesArgs};
use super::values;
use akash_provider_core::types::Address;
use akash_provider_k8s::settings::{
    CommitLevels, Drift, Egress, IngressMode, Isolation, ProxyPods, Settings,
};
use clap::{ArgAction, Args, ValueEnum};
use std::path::PathBuf;

/// Returns the domain of a search list as Kubernetes writes it: `NAMESPACE.svc.DOMAIN svc.DOMAIN DOMAIN`.
fn searched_domain(resolv_conf: &str) -> Option<String> {
    let lists = resolv_conf
        .lines()
        .filter_map(|line| line.trim().strip_prefix("search"));
    let mut domains = lists.flat_map(str::split_whitespace);
    let domain = domains.find_map(|domain| domain.strip_prefix("svc."))?;
    Some(domain.trim_end_matches('.').to_lowercase()).filter(|domain| !domain.is_empty())
}

/// Domain of the cluster, of `run` and of the hostname operator.
#[derive(Debug, Clone, Args)]
pub struct ClusterDomainArgs {
    /// Domain of Services in the cluster; tenants get no names below it [default: that of the search list in
    /// /etc/resolv.conf, else cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,
}

impl ClusterDomainArgs {
    /// Returns the domain of the flag, or the one that a pod of the cluster searches.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        let searched = || searched_domain(&std::fs::read_to_string("/etc/resolv.conf").ok()?);
        self.cluster_domain.clone().or_else(searched)
    }
}

/// Returns entries of a block list that cover each name and all names below it. Names below a name without a dot, as
/// `localhost`, are not covered.
pub fn blocked_with_names_below<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let names = names.into_iter().map(|name| name.trim().trim_matches('.'));
    let entry = |name: &str| {
        let dot = if name.contains('.') { "." } else { "" };
        format!("{dot}{name}")
    };
    names.filter(|name| !name.is_empty()).map(entry).collect()
}

/// A real cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes")]
pub struct KubernetesArgs {
    /// Run leases on the cluster of this kubeconfig instead of in memory.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Manifest, ProviderHost and ProviderLeasedIP objects; it must exist.
    #[arg(long, default_value = "lease", env = "AP_K8S_MANIFEST_NS")]
    pub k8s_manifest_ns: String,
    /// Host under which tenants reach node ports.
    #[arg(long, default_value = "localhost", env = "AP_CLUSTER_PUBLIC_HOSTNAME")]
    pub cluster_public_hostname: String,
    /// Names that are the cluster's own.
    #[command(flatten)]
    pub domain: ClusterDomainArgs,
    /// Isolate leases by network policies.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::go_bool, action = ArgAction::Set)]
    pub deployment_network_policies_enabled: bool,
    /// Runtime class of pods, for example gvisor; none leaves it to the cluster.
    #[arg(long, default_value = "none")]
    pub deployment_runtime_class: String,
    /// Pull secret that every pod names.
    #[arg(long, default_value = "")]
    pub docker_image_pull_secrets_name: String,
    /// By how many percent more processor is promised than there is.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub overcommit_pct_cpu: u32,
    /// By how many percent more memory is promised than there is.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub overcommit_pct_mem: u32,
    /// By how many percent more ephemeral storage is promised than there is.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub overcommit_pct_storage: u32,
    /// What pods of new leases may do.
    #[arg(long, value_enum, default_value = "baseline")]
    pub isolation: IsolationArg,
    /// A ResourceQuota for every lease that is not `legacy`.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::go_bool, action = ArgAction::Set)]
    pub lease_quota: bool,
    /// What becomes of workloads and Services of leases that others change or delete; policies are put right at once in
    /// any case.
    #[arg(long, value_enum, default_value = "heal")]
    pub drift: DriftArg,
    /// Write registry passwords in clear into the records too, as today's provider has them: it needs them there
    /// when the cluster is handed back to it.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub plain_registry_passwords: bool,
    /// Networks that pods may not connect to, in place of these; nodes and API servers are closed besides.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = values::network,
          default_values_t = Egress::default().closed)]
    pub closed_networks: Vec<String>,
    /// Networks of resolvers that pods reach on port 53 whatever is closed, in place of the node's own.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = values::network,
          default_values_t = Egress::default().resolvers)]
    pub resolver_networks: Vec<String>,
    /// Labels of the resolver's pods in `kube-system`, which pods reach on port 53 too.
    #[arg(
        long,
        value_name = "LABEL=VALUE",
        value_delimiter = ',',
        value_parser = values::label,
        default_value = "k8s-app=kube-dns"
    )]
    pub resolver_pods: Vec<(String, String)>,
    /// How hostnames become routes.
    #[command(flatten)]
    pub routes: RoutesArgs,
    /// Namespace of the proxy that reaches the pods of leases [default: by --ingress-controller]
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    pub ingress_proxy_namespace: Option<String>,
    /// Labels of the pods of that proxy [default: by --ingress-controller]
    #[arg(long, value_name = "LABEL=VALUE", value_delimiter = ',', value_parser = values::label)]
    pub ingress_proxy_labels: Vec<(String, String)>,
    /// Operators to run in this process instead of in pods of their own; `none` for none.
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    pub with_operators: Option<Vec<InsideArg>>,
    /// With --with-operators hostname: what is found out about hostnames.
    #[command(flatten)]
    pub names: NamesArgs,
    /// With --with-operators inventory: which nodes and storage classes are offered, as a file whose name ends in yaml or as
    /// the YAML itself. Without it every node is offered, and no persistent storage.
    #[arg(long, value_name = "FILE|YAML")]
    pub inventory_config: Option<String>,
    /// With --with-operators inventory: where the list of GPUs is.
    #[command(flatten)]
    pub gpus: GpuListArgs,
    /// With --with-operators inventory: how machines are looked at.
    #[command(flatten)]
    pub discovery: DiscoveryArgs,
    /// The cluster runs an operator that gives addresses to ProviderLeasedIP objects: leased addresses are offered.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub ip_operator: bool,
    /// Most addresses that leases may have; 0 for as many as MetalLB's IPAddressPools have. Without those it is how many
    /// there are.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub ip_pool_size: u32,
    /// Where MetalLB's addresses are.
    #[command(flatten)]
    pub pool: PoolArgs,
    /// Limit of one call to the API server.
    #[arg(long, default_value = "4s", value_parser = values::duration)]
    pub kube_call_timeout: std::time::Duration,
    /// Events of a lease are remembered so long, beyond the hour for which the API server keeps them.
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = values::go_duration)]
    pub event_history: std::time::Duration,
}

/// What pods may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IsolationArg {
    /// As the Go provider makes them.
    Legacy,
    /// Pod Security `baseline`, seccomp, fewer capabilities.
    Baseline,
}

/// What becomes of objects that others change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DriftArg {
    /// They are put right at once.
    Heal,
    /// They are told, and put right by the next deploy.
    Report,
}

/// How HTTP reaches services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IngressArg {
    /// Ingress objects.
    Ingress,
    /// HTTPRoutes of the Gateway API.
    GatewayApi,
}

impl KubernetesArgs {
    /// Whether an operator runs in this process because a flag says so.
    #[must_use]
    pub fn runs(&self, operator: InsideArg) -> bool {
        let wanted = self.with_operators.as_deref().unwrap_or_default();
        wanted.contains(&operator)
    }

    /// Pods of the proxy that the flags name, or those of the usual charts of the controller.
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

    /// The settings of the backend.
    #[must_use]
    pub fn settings(&self, provider: Address, chain_id: &str) -> Settings {
        let level = |percent: u32| 1.0 + f64::from(percent) / 100.0;
        Settings {
            chain_id: chain_id.to_owned(),
            manifest_namespace: self.k8s_manifest_ns.clone(),
            public_hostname: self.cluster_public_hostname.clone(),
            ingress: match self.routes.ingress_mode {
                IngressArg::Ingress => IngressMode::Ingress,
                IngressArg::GatewayApi => IngressMode::GatewayApi {
                    name: self.routes.gateway_name.clone(),
                    namespace: self.routes.gateway_namespace.clone(),
                    buffer_size: self.routes.proxy_buffer_size.clone(),
                },
            },
            proxies: self.proxies(),
            network_policies: self.deployment_network_policies_enabled,
            runtime_class: self.deployment_runtime_class.clone(),
            pull_secret: self.docker_image_pull_secrets_name.trim().to_owned(),
            commit: CommitLevels {
                cpu: level(self.overcommit_pct_cpu),
                memory: level(self.overcommit_pct_mem),
                storage: level(self.overcommit_pct_storage),
            },
            isolation: match self.isolation {
                IsolationArg::Legacy => Isolation::Legacy,
                IsolationArg::Baseline => Isolation::Baseline,
            },
            egress: Egress {
                closed: self.closed_networks.clone(),
                resolvers: self.resolver_networks.clone(),
                resolver_pods: self.resolver_pods.clone(),
                ..Egress::default()
            },
            quota: self.lease_quota,
            drift: match self.drift {
                DriftArg::Heal => Drift::Heal,
                DriftArg::Report => Drift::Report,
            },
            plain_registry_passwords: self.plain_registry_passwords,
            leased_ips: self.ip_operator,
            leased_ip_pool: self.ip_pool_size,
            metallb_pool: self.pool.metal_lb_pool.clone(),
            metallb_namespace: self.pool.metal_lb_namespace.clone(),
            call_timeout: self.kube_call_timeout,
            event_history: self.event_history,
            ..Settings::new(provider)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        kubernetes: KubernetesArgs,
    }

    fn settings(words: &[&str]) -> Settings {
        let words = [&["test"], words].concat();
        let provider = Address::from_bytes(&[1; 20]).unwrap();
        Flags::try_parse_from(words)
            .map(|flags| flags.kubernetes.settings(provider, "chain-1"))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn without_a_flag_the_backend_has_its_own_defaults() {
        let provider = Address::from_bytes(&[1; 20]).unwrap();
        let (given, own) = (settings(&[]), Settings::new(provider));
        assert_eq!((&given.egress, given.quota), (&own.egress, own.quota));
        assert_eq!(given.plain_registry_passwords, own.plain_registry_passwords);
        assert_eq!((given.event_history, given.drift), (own.event_history, own.drift));
        assert!(given.network_policies);
        let gateway = settings(&["--ingress-mode=gateway-api"]).ingress;
        assert_eq!(gateway, IngressMode::gateway_api());
    }

    #[test]
    fn every_setting_of_a_lease_has_its_flag() {
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
    fn what_a_cluster_would_not_take_is_refused_at_once_with_the_mend() {
        for (flag, mend) in [
            ("--closed-networks=10.0.0.0/33", "write it as `10.0.0.0/8`"),
            ("--closed-networks=", "write it as `10.0.0.0/8`"),
            ("--resolver-networks=dns.example", "write it as `10.0.0.0/8`"),
            ("--resolver-pods=coredns", "write it as k8s-app=kube-dns"),
            ("--resolver-pods==x", "write it as k8s-app=kube-dns"),
            ("--resolver-pods=app=a b", "write it as k8s-app=kube-dns"),
            ("--gateway-name=Edge", "small letters"),
            ("--gateway-namespace=", "small letters"),
            ("--proxy-buffer-size=16k;", "write it as 16k"),
            ("--proxy-buffer-size=0k", "write it as 16k"),
        ] {
            let error = Flags::try_parse_from(["test", flag]).err().unwrap().to_string();
            assert!(error.contains(mend), "{flag}: {error}");
        }
    }

    #[test]
    fn the_proxy_of_the_controller_or_of_the_flags_reaches_leases() {
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

    #[test]
    fn the_domain_of_a_cluster_is_read_from_its_search_list() {
        for (text, domain) in [
            (
                "nameserver 10.96.0.10\nsearch lease.svc.corp.internal svc.corp.internal corp.internal lan\noptions ndots:5",
                Some("corp.internal"),
            ),
            ("search\tsvc.Corp.Internal.\n", Some("corp.internal")),
            ("search svc. example.com", None),
            ("search lan example.com\nnameserver 1.1.1.1", None),
            ("# search svc.commented.internal\n", None),
            ("", None),
        ] {
            assert_eq!(searched_domain(text).as_deref(), domain, "{text}");
        }
    }
}
