//! Flags of `operator ip`. Names and defaults are those of today's; it has no words for annotations, class and namespace.

use super::common::{CommonArgs, PatienceArgs};
use super::{ConfirmArgs, ForgetArgs};
use crate::args::values;
use akash_provider_core::types::Address;
use akash_provider_k8s::operators::ip::Options;
use akash_provider_k8s::operators::ip::balancer::{AnnotationPrefix, Mode};
use clap::{Args, Subcommand, ValueEnum};

/// Settings of `operator ip`.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub struct IpArgs {
    /// Ask one that runs instead of running one.
    #[command(subcommand)]
    pub action: Option<IpAction>,
    /// The provider whose leases are served.
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub provider: Option<Address>,
    /// Where MetalLB's addresses are.
    #[command(flatten)]
    pub pool: PoolArgs,
    /// Where MetalLB's controller says what it counts, which is compared; without it the port `monitoring` of its
    /// Service `controller`, by way of the API server.
    #[arg(long, value_name = "HOST:PORT", value_parser = endpoint)]
    pub metal_lb_endpoint: Option<String>,
    /// In whose words MetalLB is spoken to.
    #[arg(long, value_enum, default_value = "universe-tf")]
    pub metal_lb_annotations: WordsArg,
    /// The class of new load balancers, where MetalLB is not the one of the cluster that serves those without.
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub load_balancer_class: Option<String>,
    /// Taken because today's operator takes it: nothing listens there with either.
    #[arg(long, value_name = "PORT", default_value_t = 8081, hide = true)]
    pub grpc_port: u16,
    /// Where it works and is asked.
    #[command(flatten)]
    pub common: CommonArgs,
    /// How failures are answered.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// What an operator that runs is asked.
#[derive(Debug, Subcommand)]
pub enum IpAction {
    /// Have the leased addresses of a lease that failed, or are ignored, tried again now; ask it where the operator runs.
    Forget(ForgetArgs),
    /// Confirm the deletion of load balancers that are held because many records went missing; ask it where the
    /// operator runs.
    Confirm(ConfirmArgs),
}

/// Where MetalLB's addresses are; the operator and who counts them have the same.
#[derive(Debug, Clone, Args)]
pub struct PoolArgs {
    /// The pool of MetalLB that addresses are of; `default` for whichever pools it assigns from by itself.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = values::dns_name)]
    pub metal_lb_pool: String,
    /// Namespace of MetalLB: its pools and its controller.
    #[arg(long, value_name = "NAMESPACE", default_value = "metallb-system", value_parser = values::dns_name)]
    pub metal_lb_namespace: String,
}

/// Prefix of the annotations that MetalLB reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WordsArg {
    /// `metallb.universe.tf/…`, as today's operator: every MetalLB reads them; since 0.14.9 it warns of them.
    UniverseTf,
    /// `metallb.io/…`: MetalLB 0.14.9 and later.
    MetallbIo,
    /// Both of them.
    Both,
}

impl IpArgs {
    /// The operator's settings.
    ///
    /// # Errors
    /// The provider is not named.
    pub fn options(&self) -> anyhow::Result<Options> {
        let provider = self.provider.clone();
        let provider = provider.ok_or_else(|| anyhow::anyhow!("--provider: the address of the provider"))?;
        Ok(Options {
            manifest_namespace: self.common.k8s_manifest_ns.clone(),
            mode: Mode {
                pool: self.pool.metal_lb_pool.clone(),
                words: match self.metal_lb_annotations {
                    WordsArg::UniverseTf => AnnotationPrefix::Old,
                    WordsArg::MetallbIo => AnnotationPrefix::New,
                    WordsArg::Both => AnnotationPrefix::Both,
                },
                class: self.load_balancer_class.clone(),
            },
            metallb_namespace: self.pool.metal_lb_namespace.clone(),
            metallb_endpoint: self.metal_lb_endpoint.clone(),
            patience: self.patience.patience(),
            prune_interval: self.patience.prune_interval,
            call_timeout: self.common.kube_call_timeout,
            ..Options::new(provider)
        })
    }
}

fn endpoint(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if !host.is_empty() && host.chars().all(is_host) && port.parse().is_ok_and(|port: u16| port > 0) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is no endpoint; write it as controller.metallb-system.svc:7472"
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
        "`{text}` is no class of load balancers; write it as metallb or example.com/metallb"
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

    fn parsed(words: &[&str]) -> Result<Options, String> {
        let flags = Flags::try_parse_from([&["test"], words].concat());
        let flags = flags.map_err(|error| error.to_string())?;
        flags.ip.options().map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_flag_it_is_as_todays_operator() {
        let given = parsed(&[PROVIDER]).unwrap();
        let own = Options::new(given.provider.clone());
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
            "whose leases they are is said"
        );
    }

    #[test]
    fn what_a_cluster_would_not_take_is_refused_at_once() {
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
