//! Flags of `operator ip`, with the names and defaults of the Go provider, and additional flags for MetalLB.

use super::common::{CommonArgs, DeletionLogArgs, RetryArgs};
use super::{ConfirmArgs, ForgetArgs};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::values;
use akash_provider_core::types::Address;
use akash_provider_operators::ip::IpOperatorOptions;
use akash_provider_operators::ip::balancer::AnnotationPrefix;
use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `operator ip`.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub struct IpArgs {
    /// Action on a running operator.
    #[command(subcommand)]
    pub action: Option<IpAction>,
    /// Account of the provider; the operator creates load balancers for its leases only
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub provider: Option<Address>,
    /// MetalLB address pool.
    #[command(flatten)]
    pub pool: PoolArgs,
    /// Metrics endpoint of the MetalLB controller [default: the port `monitoring` of its Service `controller`]
    #[arg(long, value_name = "HOST:PORT", value_parser = endpoint)]
    pub metal_lb_endpoint: Option<String>,
    /// Prefix of the annotations that MetalLB reads
    #[arg(long, value_enum, default_value = "universe-tf")]
    pub metal_lb_annotations: AnnotationPrefixArg,
    /// Class of new load balancers, if MetalLB does not serve the default class
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub load_balancer_class: Option<String>,
    /// No effect: there is no gRPC server
    #[arg(long, value_name = "PORT", default_value_t = 8081, hide = true)]
    pub grpc_port: u16,
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

/// Actions on a running IP operator.
#[derive(Debug, Subcommand)]
pub enum IpAction {
    /// Retry the failed and ignored addresses of a lease now, in the operator on this machine
    Forget(ForgetArgs),
    /// Confirm load balancer deletions that the operator on this machine withholds because many records
    /// disappeared
    Confirm(ConfirmArgs),
}

/// MetalLB address pool, for the operator and for the inventory of the provider.
#[derive(Debug, Clone, Args)]
pub struct PoolArgs {
    /// MetalLB pool of the leased IP addresses; `default` means all pools with automatic assignment
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = values::dns_name)]
    pub metal_lb_pool: String,
    /// Namespace of MetalLB with its pools and controller
    #[arg(long, value_name = "NAMESPACE", default_value = "metallb-system", value_parser = values::dns_name)]
    pub metal_lb_namespace: String,
}

/// Prefix of MetalLB annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnnotationPrefixArg {
    /// `metallb.universe.tf/…`, as in the Go provider: works with all versions; deprecated since 0.14.9
    UniverseTf,
    /// `metallb.io/…`: MetalLB 0.14.9 and later
    MetallbIo,
    /// Both prefixes
    Both,
}

impl IpArgs {
    /// Returns the options of the IP operator.
    ///
    /// # Errors
    /// Returns an error if `--provider` is not set, or if the audit log cannot be started.
    pub fn options(&self) -> anyhow::Result<IpOperatorOptions> {
        let provider = self.provider.clone();
        let provider = provider.ok_or_else(|| {
            anyhow::anyhow!(WithHelp::new(
                "missing --provider",
                "add --provider with the address of the provider"
            ))
        })?;
        let mut options = IpOperatorOptions::new(provider);
        options.manifest_namespace = self.common.k8s_manifest_ns.clone();
        options.mode.pool = self.pool.metal_lb_pool.clone();
        options.mode.words = match self.metal_lb_annotations {
            AnnotationPrefixArg::UniverseTf => AnnotationPrefix::Old,
            AnnotationPrefixArg::MetallbIo => AnnotationPrefix::New,
            AnnotationPrefixArg::Both => AnnotationPrefix::Both,
        };
        options.mode.class = self.load_balancer_class.clone();
        options.metallb_namespace = self.pool.metal_lb_namespace.clone();
        options.metallb_endpoint = self.metal_lb_endpoint.clone();
        options.patience = self.retry.policy();
        options.prune_interval = self.retry.prune_interval;
        options.call_timeout = self.common.kube_call_timeout;
        options.deletions = self.deletions.start()?;
        Ok(options)
    }
}

fn endpoint(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if !host.is_empty() && host.chars().all(is_host) && port.parse().is_ok_and(|port: u16| port > 0) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "invalid endpoint `{text}`; expected HOST:PORT, such as controller.metallb-system.svc:7472"
    ))
}

fn class(text: &str) -> Result<String, String> {
    let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let prefix = text.rsplit_once('/').map(|(prefix, _)| values::dns_name(prefix));
    if (1..=63).contains(&name.len()) && name.chars().all(is_name) && !matches!(prefix, Some(Err(_))) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "invalid load balancer class `{text}`; expected a class such as metallb or example.com/metallb"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        ip: IpArgs,
    }

    const PROVIDER: &str = "--provider=akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";

    fn parsed(words: &[&str]) -> Result<IpOperatorOptions, String> {
        let flags = Flags::try_parse_from([&["test"], words].concat());
        let flags = flags.map_err(|error| error.to_string())?;
        flags.ip.options().map_err(|error| error.to_string())
    }

    #[test]
    fn has_the_defaults_of_the_go_operator() {
        let given = parsed(&[PROVIDER]).unwrap();
        let own = IpOperatorOptions::new(given.provider.clone());
        assert_eq!((&given.mode, given.patience), (&own.mode, own.patience));
        assert_eq!(
            (given.mode.words, given.mode.class),
            (AnnotationPrefix::Old, None)
        );
        assert_eq!(given.prune_interval, own.prune_interval);
        assert_eq!(
            (
                given.manifest_namespace.as_str(),
                given.metallb_namespace.as_str()
            ),
            ("lease", "metallb-system")
        );
        for accepted in [
            "--grpc-port=8081",
            "--metal-lb-endpoint=[::1]:7472",
            "--metal-lb-endpoint=controller:7472",
        ] {
            assert!(parsed(&[PROVIDER, accepted]).is_ok(), "{accepted}");
        }
        assert!(
            parsed(&[]).unwrap_err().contains("--provider"),
            "the provider is set"
        );
    }

    #[test]
    fn rejects_values_that_kubernetes_would_reject() {
        for flag in [
            "--metal-lb-pool=Public",
            "--metal-lb-endpoint=controller",
            "--metal-lb-endpoint=:7472",
            "--metal-lb-endpoint=controller:0",
            "--metal-lb-endpoint=http://controller/x:1",
            "--load-balancer-class=a b",
            "--load-balancer-class=",
            "--event-failure-limit=0",
            "--provider=akash1nobody",
        ] {
            assert!(parsed(&[PROVIDER, flag]).is_err(), "{flag}");
        }
        assert!(parsed(&[PROVIDER, "--load-balancer-class=example.com/metallb"]).is_ok());
    }
}
