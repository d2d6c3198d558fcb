//! Flags of the Kubernetes backend.

use super::values;
use akash_provider_core::types::Address;
use akash_provider_k8s::settings::{CommitLevels, IngressMode, Isolation, Settings};
use clap::{ArgAction, Args, ValueEnum};
use std::path::PathBuf;

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
    /// Isolate leases by network policies.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
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
    /// How HTTP reaches services.
    #[arg(long, value_enum, default_value = "ingress")]
    pub ingress_mode: IngressArg,
    /// The cluster runs an operator that gives addresses to ProviderLeasedIP objects: leased addresses are offered.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub ip_operator: bool,
    /// Addresses that the operator has for leases; more are never promised.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub ip_pool_size: u32,
    /// Limit of one call to the API server.
    #[arg(long, default_value = "4s", value_parser = values::duration)]
    pub kube_call_timeout: std::time::Duration,
}

/// What pods may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IsolationArg {
    /// As the Go provider makes them.
    Legacy,
    /// Pod Security `baseline`, seccomp, fewer capabilities.
    Baseline,
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
    /// The settings of the backend.
    #[must_use]
    pub fn settings(&self, provider: Address, chain_id: &str) -> Settings {
        let level = |percent: u32| 1.0 + f64::from(percent) / 100.0;
        Settings {
            chain_id: chain_id.to_owned(),
            manifest_namespace: self.k8s_manifest_ns.clone(),
            public_hostname: self.cluster_public_hostname.clone(),
            ingress: match self.ingress_mode {
                IngressArg::Ingress => IngressMode::Ingress,
                IngressArg::GatewayApi => IngressMode::gateway_api(),
            },
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
            leased_ips: self.ip_operator,
            leased_ip_pool: self.ip_pool_size,
            call_timeout: self.kube_call_timeout,
            ..Settings::new(provider)
        }
    }
}
