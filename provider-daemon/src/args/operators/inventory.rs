//! Flags of `operator inventory`. Names and defaults are those of today's.

use super::common::CommonArgs;
use crate::args::values;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Settings of `operator inventory`.
#[derive(Debug, Args)]
pub struct InventoryArgs {
    /// Which nodes and storage classes are offered: a file whose name ends in yaml, which is read again when it changes,
    /// or the YAML itself. Without it every node is offered, and no persistent storage.
    #[arg(long, value_name = "FILE|YAML")]
    pub config: Option<String>,
    /// Where the list of GPUs is.
    #[command(flatten)]
    pub gpus: GpuListArgs,
    /// A folder in which the last list of GPUs is kept over restarts.
    #[arg(long, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
    /// How long who asks for a cluster that was not counted yet waits.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::go_duration)]
    pub api_timeout: Duration,
    /// The port of gRPC; without it the port `grpc` of its own pod, else 8081.
    #[arg(long, value_name = "PORT")]
    pub grpc_port: Option<u16>,
    /// First wait after labels could not be written; it doubles up to five minutes.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::go_duration)]
    pub retry_delay: Duration,
    /// Where it works and is asked.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of today's operator that have nothing to act on.
    #[command(flatten)]
    pub without_effect: WithoutEffect,
}

/// Where the list of GPUs is: the same whichever process the operator runs in.
#[derive(Debug, Clone, Args)]
pub struct GpuListArgs {
    /// Where the network's list of GPUs is asked for, as URL/devices/gpus; empty for nowhere.
    #[arg(long, value_name = "URL", default_value = "https://provider-configs.akash.network", value_parser = configs_url)]
    pub provider_configs_url: ConfigsUrl,
    /// How often the list of GPUs is asked for.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::go_duration)]
    pub registry_query_period: Duration,
    /// A list of GPUs in a file, instead of the network's; it is read again as often.
    #[arg(long, value_name = "FILE")]
    pub gpu_list: Option<PathBuf>,
}

/// Flags of today's operator that are taken and have nothing to act on here.
#[derive(Debug, Default, Args)]
pub struct WithoutEffect {
    /// No pod of ours runs on nodes.
    #[arg(long, hide = true, value_name = "IMAGE")]
    pub discovery_image: Option<String>,
    /// Nodes are not asked.
    #[arg(long, hide = true, value_name = "DURATION")]
    pub query_timeout: Option<String>,
    /// Nothing is kept of nodes that are gone.
    #[arg(long, hide = true, value_name = "DURATION")]
    pub prune_interval: Option<String>,
    /// Nothing is ignored for good.
    #[arg(long, hide = true, value_name = "COUNT")]
    pub ignore_list_entry_limit: Option<String>,
    /// The same.
    #[arg(long, hide = true, value_name = "DURATION")]
    pub ignore_list_age_limit: Option<String>,
    /// The same.
    #[arg(long, hide = true, value_name = "COUNT")]
    pub event_failure_limit: Option<String>,
}

impl WithoutEffect {
    /// The flag that somebody may rely on, where it is set.
    pub fn relied_on(&self) -> Option<&'static str> {
        self.discovery_image.as_ref().map(|_| "--discovery-image")
    }
}

/// Where the network keeps its lists; `None` where nobody is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigsUrl(pub Option<Url>);

fn configs_url(text: &str) -> Result<ConfigsUrl, String> {
    if text.is_empty() {
        return Ok(ConfigsUrl(None));
    }
    let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err("is no URL of http or https".to_owned());
    }
    Ok(ConfigsUrl(Some(url)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        inventory: InventoryArgs,
    }

    fn read(words: &[&str]) -> Result<InventoryArgs, clap::Error> {
        let words = [&["test"], words].concat();
        Flags::try_parse_from(words).map(|flags| flags.inventory)
    }

    #[test]
    fn without_a_flag_it_is_as_todays_operator() {
        let args = read(&[]).unwrap();
        let ports = (
            args.common.rest_address.to_string(),
            args.common.rest_port,
            args.grpc_port,
        );
        assert_eq!(ports, ("0.0.0.0".to_owned(), None, None));
        let url = args.gpus.provider_configs_url.0.unwrap();
        assert_eq!(url.as_str(), "https://provider-configs.akash.network/");
        let times = [
            args.gpus.registry_query_period,
            args.api_timeout,
            args.retry_delay,
            args.common.web_refresh_interval,
        ];
        assert_eq!(times.map(|time| time.as_secs()), [300, 3, 3, 5]);
        assert!(args.without_effect.relied_on().is_none());
    }

    #[test]
    fn todays_flags_are_all_taken() {
        let args = read(&[
            "--discovery-image=ghcr.io/akash-network/provider",
            "--pod-namespace=akash-services",
            "--query-timeout=2s",
            "--k8s-manifest-ns=lease",
            "--prune-interval=10m",
            "--ignore-list-entry-limit=1",
            "--ignore-list-age-limit=1h",
            "--event-failure-limit=3",
            "--provider-configs-url=",
        ]);
        let args = args.unwrap();
        assert_eq!(args.gpus.provider_configs_url, ConfigsUrl(None));
        assert_eq!(args.without_effect.relied_on(), Some("--discovery-image"));
        assert!(read(&["--provider-configs-url=file:///etc/passwd"]).is_err());
    }
}
