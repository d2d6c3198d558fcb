//! Flags of `operator inventory`. Names and defaults are those of today's.

use super::common::CommonArgs;
use crate::args::values;
use akash_provider_k8s::operators::inventory::discovery;
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
    /// How machines are looked at whose labels do not say what they have.
    #[command(flatten)]
    pub discovery: DiscoveryArgs,
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

/// How machines are looked at: the same whichever process the operator runs in.
#[derive(Debug, Clone, Args)]
pub struct DiscoveryArgs {
    /// Where labels do not say which GPUs a node has, look with a pod of this image that is there for seconds: ours, or
    /// today's. Without it no pod of ours runs on nodes.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub discovery_image: Option<String>,
    /// The program in that image which has `tools psutil serve`, such as provider-daemon.
    #[arg(long, value_name = "PROGRAM", default_value = "provider-services")]
    pub discovery_program: String,
    /// The namespace of those pods; without it that of the operator's own pod where --pod-namespace says it, else
    /// akash-services.
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    pub discovery_namespace: Option<String>,
}

/// Flags of today's operator that are taken and have nothing to act on here.
#[derive(Debug, Default, Args)]
pub struct WithoutEffect {
    /// An answer of a node has a limit that does not change.
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

impl InventoryArgs {
    /// How machines are looked at; `None` where no image is named.
    pub fn discovery(&self) -> Option<discovery::Options> {
        self.discovery.options(self.common.pod_namespace.as_deref())
    }
}

impl DiscoveryArgs {
    /// How machines are looked at; `None` where no image is named. `own` is the namespace of the operator's own pod.
    pub fn options(&self, own: Option<&str>) -> Option<discovery::Options> {
        let namespace = self.discovery_namespace.as_deref().or(own);
        Some(discovery::Options {
            image: self.discovery_image.clone()?,
            program: self.discovery_program.clone(),
            namespace: namespace.unwrap_or(SERVICES).to_owned(),
        })
    }
}

/// Where today's charts run operators.
const SERVICES: &str = "akash-services";

/// The name of an image, as far as a mistake shows.
fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("is no name of an image".to_owned());
    }
    Ok(text.to_owned())
}

/// Where the network keeps its lists; `None` where nobody is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigsUrl(pub Option<Url>);

fn configs_url(text: &str) -> Result<ConfigsUrl, String> {
    if text.is_empty() {
        return Ok(ConfigsUrl(None));
    }
    values::web_url(text).map(|url| ConfigsUrl(Some(url)))
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
        let url = args.gpus.provider_configs_url.0.as_ref().unwrap();
        assert_eq!(url.as_str(), "https://provider-configs.akash.network/");
        let times = [
            args.gpus.registry_query_period,
            args.api_timeout,
            args.retry_delay,
            args.common.web_refresh_interval,
        ];
        assert_eq!(times.map(|time| time.as_secs()), [300, 3, 3, 5]);
        assert_eq!(args.discovery(), None);
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
        let wanted = discovery::Options {
            image: "ghcr.io/akash-network/provider".to_owned(),
            program: "provider-services".to_owned(),
            namespace: "akash-services".to_owned(),
        };
        assert_eq!(args.discovery(), Some(wanted));
        let own = [
            "--discovery-image=x",
            "--pod-namespace=ops",
            "--discovery-namespace=look",
        ];
        assert_eq!(read(&own).unwrap().discovery().unwrap().namespace, "look");
        assert_eq!(read(&own[..2]).unwrap().discovery().unwrap().namespace, "ops");
        assert_eq!(
            read(&own[..1]).unwrap().discovery().unwrap().namespace,
            "akash-services"
        );
        assert!(read(&["--discovery-image=a b"]).is_err() && read(&["--discovery-image="]).is_err());
        assert!(read(&["--provider-configs-url=file:///etc/passwd"]).is_err());
    }
}
