//! Flags of the operators that run in the cluster beside the provider. Names and defaults are those of today's.

mod inventory;

pub use inventory::InventoryArgs;

use super::Output;
use super::kubernetes::IngressArg;
use super::values;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::objects::INGRESS_CLASS;
use akash_provider_k8s::operators::hostname::Options;
use akash_provider_k8s::operators::hostname::queue::Patience;
use akash_provider_k8s::operators::hostname::route::{Controller, GatewayProvider, Mode};
use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What runs in the cluster beside the provider.
#[derive(Debug, Subcommand)]
pub enum OperatorsCommand {
    /// Make a route of every hostname that the provider declares: Ingresses, or HTTPRoutes of the Gateway API.
    Hostname(Box<HostnameArgs>),
    /// Show what the cluster has, over REST and gRPC, and label its nodes with it.
    Inventory(Box<InventoryArgs>),
}

/// Settings of `operator hostname`.
#[derive(Debug, Args)]
pub struct HostnameArgs {
    /// Ask one that runs instead of running one.
    #[command(subcommand)]
    pub action: Option<HostnameAction>,
    /// How HTTP reaches services.
    #[arg(long, value_enum, default_value = "ingress")]
    pub ingress_mode: IngressArg,
    /// The class that Ingresses name, with --ingress-mode ingress.
    #[arg(long, value_name = "NAME", default_value = INGRESS_CLASS, value_parser = values::dns_name)]
    pub ingress_class: String,
    /// Whose annotations Ingresses have: who serves that class.
    #[arg(long, value_enum, default_value = "nginx")]
    pub ingress_controller: ControllerArg,
    /// The Gateway that HTTPRoutes name, with --ingress-mode gateway-api.
    #[arg(long, value_name = "NAME", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_name: String,
    /// Namespace of that Gateway.
    #[arg(long, value_name = "NAMESPACE", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_namespace: String,
    /// Who implements that Gateway: nginx, or any other for the standard's own fields alone. Without it
    /// AP_GATEWAY_IMPLEMENTATION, as charts set it, else nginx.
    #[arg(long, value_name = "NAME")]
    pub gateway_provider: Option<String>,
    /// Size of the Gateway's proxy buffer, with the unit k or m.
    #[arg(long, value_name = "SIZE", default_value = "16k", value_parser = values::buffer_size)]
    pub proxy_buffer_size: String,
    /// The cluster's kubeconfig; without it KUBECONFIG, the user's own, or the account of the pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Manifest and ProviderHost objects.
    #[arg(long, value_name = "NAMESPACE", default_value = "lease", value_parser = values::dns_name)]
    pub k8s_manifest_ns: String,
    /// The address on which it is asked how it is.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub rest_address: IpAddr,
    /// The port on which it is asked how it is.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub rest_port: u16,
    /// How often is forgotten what is of hostnames that are gone.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = values::go_duration)]
    pub prune_interval: Duration,
    /// How often the texts that it shows are made anew.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::go_duration)]
    pub web_refresh_interval: Duration,
    /// First wait after a failure; it doubles up to five minutes.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::go_duration)]
    pub retry_delay: Duration,
    /// How many hostnames are ignored at most; the oldest of them is tried again.
    #[arg(long, value_name = "COUNT", default_value_t = 131_072)]
    pub ignore_list_entry_limit: usize,
    /// For how long a hostname is ignored at most.
    #[arg(long, value_name = "DURATION", default_value = "726h", value_parser = values::go_duration)]
    pub ignore_list_age_limit: Duration,
    /// Refusals in a row after which a hostname is ignored until it changes.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub event_failure_limit: u32,
    /// Limit of one call to the API server.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::go_duration)]
    pub kube_call_timeout: Duration,
}

/// What an operator that runs is asked.
#[derive(Debug, Subcommand)]
pub enum HostnameAction {
    /// Have the hostnames of a lease that failed, or are ignored, tried again now; ask it where the operator runs.
    Forget(ForgetArgs),
}

/// Settings of `operator hostname forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// The lease, as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER.
    pub lease: LeaseId,
    /// The port of the operator on this machine.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub rest_port: u16,
    /// How to print the answer.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Who serves a class of Ingresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ControllerArg {
    /// Ingress-nginx, or who reads its annotations.
    Nginx,
    /// Traefik.
    Traefik,
    /// HAProxy.
    Haproxy,
}

impl HostnameArgs {
    /// The operator's settings; `look` says what is set in the environment.
    #[must_use]
    pub fn options(&self, look: impl Fn(&str) -> Option<String>) -> Options {
        let set = |text: &String| !text.trim().is_empty();
        let provider = self.gateway_provider.clone().filter(set);
        let provider = provider.or_else(|| look("AP_GATEWAY_IMPLEMENTATION").filter(set));
        let provider = match provider.as_deref().map(str::trim) {
            None | Some("nginx") => GatewayProvider::Nginx,
            Some(_) => GatewayProvider::Standard,
        };
        let mode = match self.ingress_mode {
            IngressArg::Ingress => Mode::Ingress {
                class: self.ingress_class.clone(),
                controller: match self.ingress_controller {
                    ControllerArg::Nginx => Controller::Nginx,
                    ControllerArg::Traefik => Controller::Traefik,
                    ControllerArg::Haproxy => Controller::Haproxy,
                },
            },
            IngressArg::GatewayApi => Mode::GatewayApi {
                name: self.gateway_name.clone(),
                namespace: self.gateway_namespace.clone(),
                provider,
                buffer_size: self.proxy_buffer_size.clone(),
            },
        };
        Options {
            manifest_namespace: self.k8s_manifest_ns.clone(),
            mode,
            patience: Patience {
                retry_delay: self.retry_delay,
                refusals: self.event_failure_limit,
                ignored: self.ignore_list_entry_limit,
                ignored_for: self.ignore_list_age_limit,
            },
            prune_interval: self.prune_interval,
            call_timeout: self.kube_call_timeout,
            ..Options::default()
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
        hostname: HostnameArgs,
    }

    fn options(words: &[&str], implementation: Option<&str>) -> Options {
        let words = [&["test"], words].concat();
        let flags = Flags::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        flags.hostname.options(|name| {
            let is_it = name == "AP_GATEWAY_IMPLEMENTATION";
            implementation.filter(|_| is_it).map(str::to_owned)
        })
    }

    #[test]
    fn without_a_flag_it_is_as_todays_operator() {
        let (given, own) = (options(&[], None), Options::default());
        assert_eq!(given.mode, own.mode);
        assert_eq!(
            (given.patience, given.prune_interval),
            (own.patience, own.prune_interval)
        );
        assert_eq!(given.manifest_namespace, own.manifest_namespace);
    }

    #[test]
    fn who_implements_the_gateway_is_said_by_the_flag_or_by_a_chart() {
        for (words, chart, wanted) in [
            (&["--ingress-mode=gateway-api"][..], None, GatewayProvider::Nginx),
            (
                &["--ingress-mode=gateway-api"],
                Some("nginx"),
                GatewayProvider::Nginx,
            ),
            (
                &["--ingress-mode=gateway-api"],
                Some("istio"),
                GatewayProvider::Standard,
            ),
            (&["--ingress-mode=gateway-api"], Some(""), GatewayProvider::Nginx),
            (
                &["--ingress-mode=gateway-api", "--gateway-provider=nginx"],
                Some("istio"),
                GatewayProvider::Nginx,
            ),
        ] {
            let Mode::GatewayApi { provider, .. } = options(words, chart).mode else {
                panic!("{words:?} is no gateway");
            };
            assert_eq!(provider, wanted, "{words:?} {chart:?}");
        }
    }

    #[test]
    fn what_a_cluster_would_not_take_is_refused_at_once() {
        for flag in [
            "--ingress-class=Edge",
            "--gateway-name=",
            "--proxy-buffer-size=16k; return 301",
            "--event-failure-limit=0",
            "--retry-delay=soon",
        ] {
            assert!(Flags::try_parse_from(["test", flag]).is_err(), "{flag}");
        }
    }
}
