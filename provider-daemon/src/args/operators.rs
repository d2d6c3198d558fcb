//! Flags of the operators that run in the cluster beside the provider. Names and defaults are those of today's.

pub mod common;

use super::Output;
use super::operator::Printed;
use super::routes::RoutesArgs;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::operators::hostname::Options;
use clap::{Args, Subcommand, ValueEnum};
use common::{CommonArgs, PatienceArgs};

/// What runs in the cluster beside the provider.
#[derive(Debug, Subcommand)]
pub enum OperatorsCommand {
    /// Make a route of every hostname that the provider declares: Ingresses, or HTTPRoutes of the Gateway API.
    Hostname(Box<HostnameArgs>),
    /// Say how the operators are that run in the process of the provider that runs with the home folder.
    Status(Printed),
}

/// Settings of `operator hostname`.
#[derive(Debug, Args)]
pub struct HostnameArgs {
    /// Ask one that runs instead of running one.
    #[command(subcommand)]
    pub action: Option<HostnameAction>,
    /// How hostnames become routes.
    #[command(flatten)]
    pub routes: RoutesArgs,
    /// Where it works and is asked.
    #[command(flatten)]
    pub common: CommonArgs,
    /// How failures are answered.
    #[command(flatten)]
    pub patience: PatienceArgs,
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

/// Operators that a provider may run in its own process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InsideArg {
    /// None of them: they run in pods of their own, or not at all.
    None,
    /// Routes of hostnames.
    Hostname,
}

impl HostnameArgs {
    /// The operator's settings; `look` says what is set in the environment.
    #[must_use]
    pub fn options(&self, look: impl Fn(&str) -> Option<String>) -> Options {
        Options {
            manifest_namespace: self.common.k8s_manifest_ns.clone(),
            mode: self.routes.mode(look),
            patience: self.patience.patience(),
            prune_interval: self.patience.prune_interval,
            call_timeout: self.common.kube_call_timeout,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_k8s::operators::hostname::route::{GatewayProvider, Mode};
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
