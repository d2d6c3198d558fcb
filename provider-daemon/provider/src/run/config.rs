//! Configuration of the engine from the settings of `run`.

use crate::args::RunArgs;
use crate::args::gas::gas_price;
use crate::args::kubernetes::blocked_with_names_below;
use crate::args::pricing::Strategy;
use crate::error::help;
use crate::provider_file::ProviderFile;
use akash_provider_chain::gas::GasConfig;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::Config;
use akash_provider_core::config::InvalidConfig;
use akash_provider_core::manifest::{check_hostname, is_wildcard};
use akash_provider_core::types::{Address, Coin};
use anyhow::{Context, anyhow, bail};
use std::time::Duration;
use url::Url;

/// Time to wait for the cluster at the start: practically unlimited.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Adds a message to an error about prices. Adds a remedy if the error has none.
#[must_use]
pub fn invalid_prices(error: anyhow::Error) -> anyhow::Error {
    const MESSAGE: &str = "invalid prices (--bid-price-…)";
    match help(&error) {
        Some(_) => error.context(MESSAGE),
        None => error.context(WithHelp::new(
            MESSAGE,
            "correct the flags `--bid-price-…` or the price file",
        )),
    }
}

/// Creates the configuration from flags and the `--provider-config` file. A zero duration disables a limit.
///
/// # Errors
/// Returns an error that names the flag of an invalid setting.
pub fn config(args: &RunArgs, provider: Address, chain_id: &str) -> anyhow::Result<Config> {
    let set = |duration: Duration| (!duration.is_zero()).then_some(duration);
    let mut config = Config::new(provider, chain_id);
    let mut deposits = deposits(&args.bids.bid_deposit)?.into_iter();
    config.bid_deposit = deposits
        .next()
        .context("--bid-deposit has no amount, such as 500000uact")?;
    config.other_bid_deposits = deposits.collect();
    let (denom, price) = gas_price(&args.gas.gas_prices)?;
    let mut gas = GasConfig::default();
    gas.denom = denom;
    gas.price = price;
    gas.granter = args.gas.fee_granter.clone();
    config.bid_fee = gas.bid_fee();
    // One bid of each shape is simulated before it is sent, so a rejected bid costs no fee.
    config.refused_bids_are_free = true;
    // A policy may define steps of scarcity.
    config.prices_follow_capacity = args.pricing.bid_price_strategy == Strategy::Policy;
    config.bid_timeout = set(args.bids.bid_timeout);
    config.reclamation_window = set(args.bids.reclamation_window);
    config.manifest_timeout = set(args.leases.manifest_timeout);
    config.withdrawal_period = set(args.leases.withdrawal_period);
    config.balance_check_interval = args.leases.lease_funds_monitor_interval;
    config.query_timeout = args.leases.rpc_query_timeout;
    let domain = args.leases.deployment_ingress_domain.trim();
    check_domain(domain)?;
    if args.leases.deployment_ingress_static_hosts {
        if domain.is_empty() {
            bail!(WithHelp::new(
                "--deployment-ingress-static-hosts requires --deployment-ingress-domain",
                "add --deployment-ingress-domain with a domain such as ingress.example.com"
            ));
        }
        config.static_hosts_domain = Some(domain.to_owned());
    }
    let file = args
        .provider_config
        .as_deref()
        .filter(|f| !f.as_os_str().is_empty());
    let record = file.map(ProviderFile::read).transpose()?;
    config.blocked_hostnames = blocked_hostnames(args, record.as_ref());
    // An order must require each of these attributes. Without a file there is no such condition.
    config.required_attributes = record.map(|record| record.attributes).unwrap_or_default();
    config.external_ports = args.cluster.cluster_node_port_quantity;
    config.overcommit_cpu_percent = args.kubernetes.overcommit_pct_cpu;
    config.overcommit_memory_percent = args.kubernetes.overcommit_pct_mem;
    config.overcommit_storage_percent = args.kubernetes.overcommit_pct_storage;
    config.shutdown_grace = args.shutdown_grace;
    args.rules.apply(&mut config);
    config.cluster_ready_timeout = CLUSTER_TIMEOUT;
    config.validate().map_err(|error| flag_error(&error))?;
    Ok(config)
}

/// Checks that the ingress domain can be the parent of hostnames.
fn check_domain(domain: &str) -> anyhow::Result<()> {
    let fault = match check_hostname(&domain.to_lowercase()) {
        _ if domain.is_empty() => return Ok(()),
        Err(fault) => fault.to_string(),
        Ok(()) if is_wildcard(domain) => "is a wildcard".to_owned(),
        Ok(()) => return Ok(()),
    };
    let bare = domain.split_once("://").map_or(domain, |(_, rest)| rest);
    let bare = bare.split([':', '/']).next().unwrap_or_default();
    let bare = bare.trim_start_matches("*.").trim_matches('.').to_lowercase();
    let is_usable = check_hostname(&bare).is_ok() && !is_wildcard(&bare);
    let right = if is_usable { &bare } else { "ingress.example.com" };
    bail!(WithHelp::new(
        format!("--deployment-ingress-domain `{domain}` {fault}"),
        format!("write a domain without scheme, wildcard, port and outer dots, such as `{right}`")
    ))
}

/// Converts an error in the engine settings to a message that names the flag.
fn flag_error(error: &InvalidConfig) -> WithHelp {
    const FLAGS: [(&str, &str); 3] = [
        ("balance_check_interval", "--lease-funds-monitor-interval"),
        ("withdrawal_period", "--withdrawal-period"),
        ("query_timeout", "--rpc-query-timeout"),
    ];
    let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == error.name()) else {
        let message = format!("invalid setting {} = {}", error.name(), error.value());
        return WithHelp::new(message, error.help());
    };
    let remedy = FLAGS
        .iter()
        .fold(error.help().to_owned(), |remedy, (name, flag)| {
            remedy.replace(name, flag)
        });
    WithHelp::new(format!("invalid value {} for {flag}", error.value()), remedy)
}

/// Returns the hostnames denied to tenants: `--deployment-blocked-hostnames`, the provider's hostnames and
/// their subdomains, and all names below the cluster domain.
fn blocked_hostnames(args: &RunArgs, record: Option<&ProviderFile>) -> Vec<String> {
    let host = record.and_then(|record| Url::parse(&record.host).ok());
    let host = host.as_ref().and_then(Url::host_str);
    let own = [args.kubernetes.cluster_public_hostname.as_str()];
    let own = own.into_iter().chain(host);
    let own = own.chain(args.gateway.certificate_domain.iter().map(String::as_str));
    let cluster = args.cluster_domain();
    let own = blocked_with_names_below(own.chain(cluster.as_deref()));
    let named = args.leases.deployment_blocked_hostnames.iter();
    // Charts of the Go provider separate lists in variables by spaces.
    let named = named.flat_map(|names| names.split_whitespace());
    named.map(str::to_owned).chain(own).collect()
}

fn deposits(texts: &[String]) -> anyhow::Result<Vec<Coin>> {
    let coin = |text: &String| {
        let coin = text.trim().parse::<Coin>();
        coin.map_err(|e| {
            anyhow!(WithHelp::new(
                format!("--bid-deposit {text}: {e}"),
                "expected an amount such as 500000uact"
            ))
        })
    };
    texts.iter().map(coin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::message_text;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn requires_a_valid_ingress_domain() {
        for good in [
            "",
            "ingress.example.com",
            "Ingress.Example.com",
            "ingress.localhost",
            "internal",
        ] {
            assert!(check_domain(good).is_ok(), "{good}");
        }
        for (bad, right) in [
            ("*.x", "x"),
            ("*.example.com", "example.com"),
            ("https://x/", "x"),
            (".x", "x"),
            ("x.", "x"),
            ("a_b.c", "ingress.example.com"),
            ("a.b:80", "a.b"),
            ("a..b", "ingress.example.com"),
            ("10.0.0.1", "ingress.example.com"),
            ("x.cluster.local", "ingress.example.com"),
        ] {
            let message = message_text(&check_domain(bad).unwrap_err());
            assert!(
                message.contains(&format!("`{bad}`")) && message.contains(&format!("such as `{right}`")),
                "{message}"
            );
        }
    }

    #[test]
    fn denies_the_name_of_the_provider_to_tenants() {
        let of = |words: &[&str], host: Option<&str>| {
            let flags = Flags::parse_from([&["run"], words].concat());
            let record = host.map(|host| ProviderFile {
                host: host.to_owned(),
                ..ProviderFile::default()
            });
            blocked_hostnames(&flags.run, record.as_ref())
        };
        let words = [
            "--cluster-public-hostname=provider.example.com",
            "--certificate-domain=.gateway.example.com, other.example.com",
            "--deployment-blocked-hostnames=.blocked.example, ,bank.example",
        ];
        assert_eq!(
            of(&words, Some("https://api.example.com:8443")),
            [
                ".blocked.example",
                "bank.example",
                ".provider.example.com",
                ".api.example.com",
                ".gateway.example.com",
                ".other.example.com"
            ]
        );
        assert!(of(&["--cluster-public-hostname="], None).is_empty());
        let words = [
            "--cluster-public-hostname=localhost",
            "--cluster-k8s",
            "--cluster-domain=corp.internal.",
        ];
        assert_eq!(of(&words, None), ["localhost", ".corp.internal"]);
    }
}
