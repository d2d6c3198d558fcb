//! Flags of the operators that run in the cluster beside the provider. Names and defaults are those of today's.

pub mod common;
mod ip;
mod names;

pub use ip::{IpAction, IpArgs, PoolArgs, WordsArg};
mod inventory;

pub use inventory::{DiscoveryArgs, GpuListArgs, InventoryArgs};
pub use names::{NamesArgs, ProofArg};

use super::Output;
use super::kubernetes::{ClusterDomainArgs, IngressArg, blocked_with_names_below};
use super::operator::Printed;
use super::routes::RoutesArgs;
use super::values;
use akash_provider_core::engine::hostnames::HostnameLedger;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::operators::hostname::Options;
use akash_provider_k8s::operators::hostname::certificate::{Issuer, IssuerKind};
use akash_provider_k8s::operators::hostname::index::Plan;
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use common::{CommonArgs, PatienceArgs};
use std::time::Duration;

/// What runs in the cluster beside the provider.
#[derive(Debug, Subcommand)]
pub enum OperatorsCommand {
    /// Make a route of every hostname that the provider declares: Ingresses, or HTTPRoutes of the Gateway API.
    Hostname(Box<HostnameArgs>),
    /// Make a load balancer of every address that the provider leases, which MetalLB gives an address to.
    Ip(Box<IpArgs>),
    /// Say how the operators are that run in the process of the provider that runs with the home folder.
    Status(Printed),
    /// Show what the cluster has, over REST and gRPC, and label its nodes with it.
    Inventory(Box<InventoryArgs>),
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
    /// Hostnames that get no route, whoever declared them; a leading dot stands for a domain and all below it.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub deployment_blocked_hostnames: Vec<String>,
    /// Host of the provider, as `run` has it; it and all names below it get no route, automatic hostnames excepted.
    #[arg(long, value_name = "NAME")]
    pub cluster_public_hostname: Option<String>,
    /// Names of the cluster, which get no route either.
    #[command(flatten)]
    pub domain: ClusterDomainArgs,
    /// Ask cert-manager for a certificate of every hostname, signed by this issuer; with --ingress-mode ingress.
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    pub tls_issuer: Option<String>,
    /// What kind of issuer that is; of an Issuer every lease's namespace needs one.
    #[arg(long, value_enum, default_value = "ClusterIssuer")]
    pub tls_issuer_kind: IssuerKindArg,
    /// How long an Ingress is there before the HTTPRoute of its name goes, where its controller does not say that it
    /// serves it. An HTTPRoute is waited for until its Gateway has accepted it.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = values::go_duration)]
    pub handover_wait: Duration,
    /// Leave the routes of the other --ingress-mode where they are.
    #[arg(long)]
    pub keep_other_routes: bool,
    /// What is found out about hostnames.
    #[command(flatten)]
    pub names: NamesArgs,
    /// The domain of automatic hostnames, as `run` has it; these need no proof.
    #[arg(long, value_name = "DOMAIN")]
    pub deployment_ingress_domain: Option<String>,
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
    /// Confirm the deletion of routes that are held because many records went missing; ask it where the operator runs.
    Confirm(ConfirmArgs),
}

/// Settings of `operator … forget`.
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

/// Settings of `operator … confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// Port of the operator on this machine.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub rest_port: u16,
    /// Output format of the response.
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
    /// Load balancers of leased addresses.
    Ip,
    /// Labels of nodes.
    Inventory,
}

/// Where an issuer of certificates is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum IssuerKindArg {
    /// One for the whole cluster.
    ClusterIssuer,
    /// One in each namespace.
    Issuer,
}

impl HostnameArgs {
    /// The operator's settings.
    ///
    /// # Errors
    /// Flags that contradict each other.
    pub fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            manifest_namespace: self.common.k8s_manifest_ns.clone(),
            plan: Plan {
                mode: self.routes.mode(),
                issuer: self.issuer()?,
                keep_other_routes: self.keep_other_routes,
                blocked: self.blocked(),
                proof: self.names.rule(self.deployment_ingress_domain.as_deref())?,
            },
            handover: self.handover_wait,
            patience: self.patience.patience(),
            prune_interval: self.patience.prune_interval,
            call_timeout: self.common.kube_call_timeout,
            ..Options::default()
        })
    }

    /// Hostnames that get no route: those of the flag, and the provider's and the cluster's own with all names below.
    fn blocked(&self) -> HostnameLedger {
        let cluster = self.domain.get();
        let own = [&self.cluster_public_hostname, &cluster].into_iter().flatten();
        let mut blocked = blocked_with_names_below(own.map(String::as_str));
        blocked.extend(self.deployment_blocked_hostnames.iter().cloned());
        HostnameLedger::new(&blocked).with_automatic(self.deployment_ingress_domain.as_deref())
    }

    fn issuer(&self) -> anyhow::Result<Option<Issuer>> {
        let Some(name) = self.tls_issuer.clone() else {
            return Ok(None);
        };
        if self.routes.ingress_mode == IngressArg::GatewayApi {
            bail!(
                "--tls-issuer is for --ingress-mode ingress: with the Gateway API certificates belong to the listeners of \
                 the Gateway; give them there, or annotate the Gateway for cert-manager"
            );
        }
        let kind = match self.tls_issuer_kind {
            IssuerKindArg::ClusterIssuer => IssuerKind::ClusterIssuer,
            IssuerKindArg::Issuer => IssuerKind::Issuer,
        };
        Ok(Some(Issuer { name, kind }))
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
        let implementation = implementation.map(|name| format!("--gateway-implementation={name}"));
        let words = ["test"].into_iter().chain(words.iter().copied());
        let words = words.chain(implementation.as_deref());
        let flags = Flags::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        let options = flags.hostname.options();
        options.unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn without_a_flag_it_is_as_todays_operator() {
        let (given, own) = (options(&[], None), Options::default());
        assert_eq!((given.plan, given.handover), (own.plan, own.handover));
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
            let Mode::GatewayApi { provider, .. } = options(words, chart).plan.mode else {
                panic!("{words:?} is no gateway");
            };
            assert_eq!(provider, wanted, "{words:?} {chart:?}");
        }
    }

    #[test]
    fn names_of_the_cluster_and_of_the_provider_get_no_route() {
        let words = [
            "--cluster-domain=corp.internal.",
            "--cluster-public-hostname=provider.example.com",
            "--deployment-ingress-domain=ingress.provider.example.com",
            "--deployment-blocked-hostnames=.blocked.example",
        ];
        let blocked = options(&words, None).plan.blocked;
        for name in [
            "web.lease.svc.corp.internal",
            "*.corp.internal",
            "provider.example.com",
            "api.provider.example.com",
            "shop.blocked.example",
        ] {
            assert!(blocked.is_blocked(name), "{name}");
        }
        for name in ["corp.example.com", "a1b2.ingress.provider.example.com"] {
            assert!(!blocked.is_blocked(name), "{name}");
        }
    }

    #[test]
    fn certificates_are_for_ingresses_alone() {
        let asked = |words: &[&str]| {
            let words = [&["test", "--tls-issuer=letsencrypt"], words].concat();
            let flags = Flags::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            flags.hostname.options().map(|options| options.plan.issuer)
        };
        let issuer = |kind| {
            let name = "letsencrypt".to_owned();
            Some(Issuer { name, kind })
        };
        assert_eq!(asked(&[]).unwrap(), issuer(IssuerKind::ClusterIssuer));
        assert_eq!(
            asked(&["--tls-issuer-kind=Issuer"]).unwrap(),
            issuer(IssuerKind::Issuer)
        );
        let refused = asked(&["--ingress-mode=gateway-api"]).unwrap_err().to_string();
        assert!(refused.contains("listeners of the Gateway"), "{refused}");
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
