//! Flags of the operators that run in the cluster beside the provider, with the names and defaults of the Go operators.

pub mod common;
mod ip;
mod names;

pub use ip::{AnnotationPrefixArg, IpAction, IpArgs, PoolArgs};
mod inventory;

pub use inventory::{DiscoveryArgs, GpuListArgs, InventoryArgs};
pub use names::{NamesArgs, ProofArg};

use super::Output;
use super::cluster_domain::{ClusterDomainArgs, blocked_with_names_below};
use super::output::OutputArgs;
use super::routes::{IngressArg, RoutesArgs};
use super::values;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::engine::hostnames::HostnameLedger;
use akash_provider_core::types::LeaseId;
use akash_provider_operators::hostname::HostnameOperatorOptions;
use akash_provider_operators::hostname::certificate::{Issuer, IssuerKind};
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use common::{CommonArgs, DeletionLogArgs, RetryArgs};
use std::time::Duration;

/// Operators that run in the cluster beside the provider.
#[derive(Debug, Subcommand)]
pub enum OperatorsCommand {
    /// Create routes for declared hostnames: Ingresses, or HTTPRoutes of the Gateway API
    Hostname(Box<HostnameArgs>),
    /// Create load balancers for leased IP addresses, assigned by MetalLB
    Ip(Box<IpArgs>),
    /// Show the status of the operators that are embedded in the running provider
    Status(OutputArgs),
    /// Serve the inventory of the cluster over REST and gRPC, and label its nodes
    Inventory(Box<InventoryArgs>),
}

/// Arguments of `operator hostname`.
#[derive(Debug, Args)]
pub struct HostnameArgs {
    /// Action on a running operator.
    #[command(subcommand)]
    pub action: Option<HostnameAction>,
    /// Routing of HTTP.
    #[command(flatten)]
    pub routes: RoutesArgs,
    /// Hostnames that never get a route; a leading dot includes all names below the domain
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub deployment_blocked_hostnames: Vec<String>,
    /// Public host name of the provider; tenants get no route for it and its subdomains, except automatic
    /// hostnames
    #[arg(long, value_name = "NAME")]
    pub cluster_public_hostname: Option<String>,
    /// Domain of the cluster; names below this domain get no route.
    #[command(flatten)]
    pub domain: ClusterDomainArgs,
    /// Issuer from which cert-manager requests a certificate for each hostname (Ingress mode only)
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    pub tls_issuer: Option<String>,
    /// Kind of the issuer; an Issuer must exist in the namespace of each lease
    #[arg(long, value_enum, default_value = "ClusterIssuer")]
    pub tls_issuer_kind: IssuerKindArg,
    /// Time to wait for the status of a new Ingress before the HTTPRoute of the same hostname is deleted
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = values::go_duration)]
    pub handover_wait: Duration,
    /// After a change of --ingress-mode, keep the routes of the previous mode
    #[arg(long)]
    pub keep_other_routes: bool,
    /// Checks of hostnames.
    #[command(flatten)]
    pub names: NamesArgs,
    /// Domain of automatic hostnames, as for `run`; its hostnames need no proof of ownership
    #[arg(long, value_name = "DOMAIN")]
    pub deployment_ingress_domain: Option<String>,
    /// Options common to all operators.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Retries.
    #[command(flatten)]
    pub retry: RetryArgs,
    /// Audit log.
    #[command(flatten)]
    pub deletions: DeletionLogArgs,
}

/// Actions on a running hostname operator.
#[derive(Debug, Subcommand)]
pub enum HostnameAction {
    /// Retry the failed and ignored hostnames of a lease now, in the operator on this machine
    Forget(ForgetArgs),
    /// Confirm route deletions that the operator on this machine withholds because many records disappeared
    Confirm(ConfirmArgs),
}

/// Arguments of `operator … forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// Lease to retry, as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER
    pub lease: LeaseId,
    /// Port on which the operator listens on this machine
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub rest_port: u16,
    /// Output format of the response
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Arguments of `operator … confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// Port on which the operator listens on this machine.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub rest_port: u16,
    /// Output format of the response.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Operators that a provider can embed in its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EmbeddedOperatorArg {
    /// No embedded operators
    None,
    /// Routes of hostnames
    Hostname,
    /// Load balancers of leased addresses
    Ip,
    /// Inventory and labels of nodes
    Inventory,
}

/// Scope of a certificate issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum IssuerKindArg {
    /// One issuer for the whole cluster
    ClusterIssuer,
    /// One issuer in each namespace
    Issuer,
}

impl HostnameArgs {
    /// Returns the options of the hostname operator.
    ///
    /// # Errors
    /// Returns an error if flags contradict each other, or if the audit log cannot be started.
    pub fn options(&self) -> anyhow::Result<HostnameOperatorOptions> {
        let mut options = HostnameOperatorOptions::default();
        options.manifest_namespace = self.common.k8s_manifest_ns.clone();
        options.plan.mode = self.routes.mode();
        options.plan.issuer = self.issuer()?;
        options.plan.keep_other_routes = self.keep_other_routes;
        options.plan.blocked = self.blocked();
        options.plan.proof = self.names.rule(self.deployment_ingress_domain.as_deref())?;
        options.handover = self.handover_wait;
        options.patience = self.retry.policy();
        options.prune_interval = self.retry.prune_interval;
        options.call_timeout = self.common.kube_call_timeout;
        options.deletions = self.deletions.start()?;
        Ok(options)
    }

    /// Returns the hostnames that get no route: the blocked hostnames, the names of the provider and the
    /// cluster, and their subdomains.
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
            bail!(WithHelp::new(
                "--tls-issuer requires --ingress-mode ingress: with the Gateway API the listeners of the Gateway have the certificates",
                "set the certificates at the listeners of the Gateway, or annotate the Gateway for cert-manager"
            ));
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
    use akash_provider_k8s::audit::DeletionLog;
    use akash_provider_operators::hostname::route::{GatewayProvider, Mode};
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        hostname: HostnameArgs,
    }

    fn options(words: &[&str], implementation: Option<&str>) -> HostnameOperatorOptions {
        let implementation = implementation.map(|name| format!("--gateway-implementation={name}"));
        let words = ["test"].into_iter().chain(words.iter().copied());
        let words = words.chain(implementation.as_deref());
        let flags = Flags::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        let options = flags.hostname.options();
        options.unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn has_the_defaults_of_the_go_operator() {
        let (given, own) = (options(&[], None), HostnameOperatorOptions::default());
        assert_eq!((given.plan, given.handover), (own.plan, own.handover));
        assert_eq!(
            (given.patience, given.prune_interval),
            (own.patience, own.prune_interval)
        );
        assert_eq!(given.manifest_namespace, own.manifest_namespace);
    }

    #[test]
    fn reads_the_gateway_implementation_from_flag_or_chart() {
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
                panic!("{words:?}: not a gateway");
            };
            assert_eq!(provider, wanted, "{words:?} {chart:?}");
        }
    }

    #[test]
    fn creates_no_route_for_names_of_cluster_and_provider() {
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
    fn requires_ingress_mode_for_certificates() {
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
    fn rejects_values_that_kubernetes_would_reject() {
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

    /// Any operator as a process.
    #[derive(Parser)]
    struct Operators {
        #[command(subcommand)]
        command: OperatorsCommand,
    }

    #[tokio::test]
    async fn audit_log_of_deletions_needs_its_flag_for_each_operator() {
        let folder = tempfile::tempdir().unwrap();
        let folder = format!("--audit-log={}", folder.path().display());
        let provider = "--provider=akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
        for operator in [&["hostname"][..], &["ip", provider], &["inventory"]] {
            for (flags, has_log) in [
                (&[][..], false),
                (&["--audit-log=none"], false),
                (&[&*folder], true),
            ] {
                let words = [&["test"], operator, flags].concat();
                let parsed = Operators::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
                let deletions = match parsed.command {
                    OperatorsCommand::Hostname(args) => args.options().unwrap().deletions,
                    OperatorsCommand::Ip(args) => args.options().unwrap().deletions,
                    OperatorsCommand::Inventory(args) => args.options().unwrap().deletions,
                    OperatorsCommand::Status(_) => panic!("not a process"),
                };
                let is_default = format!("{deletions:?}") == format!("{:?}", DeletionLog::default());
                assert_eq!(is_default, !has_log, "{operator:?} {flags:?}");
            }
        }
    }
}
