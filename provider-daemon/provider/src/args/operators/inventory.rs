//! Flags of `operator inventory`, with the names and defaults of the Go provider.

use super::common::{CommonArgs, DeletionLogArgs};
use akash_provider_cli::setting::{HaRule, Reloaded};
use akash_provider_cli::values;
use akash_provider_operators::inventory::{InventoryOperatorOptions, discovery};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Arguments of `operator inventory`.
#[derive(Debug, Args)]
pub struct InventoryArgs {
    /// Offered nodes and storage classes, as YAML or YAML file [default: all nodes, no persistent storage]
    #[arg(long, value_name = "FILE|YAML")]
    pub config: Option<String>,
    /// GPU list.
    #[command(flatten)]
    pub gpus: GpuListArgs,
    /// Directory that stores the last GPU list between restarts
    #[arg(long, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
    /// Maximum time that a client waits for the first complete inventory
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::go_duration)]
    pub api_timeout: Duration,
    /// Port of the gRPC server [default: the port `grpc` of this pod, else 8081]
    #[arg(long, value_name = "PORT")]
    pub grpc_port: Option<u16>,
    /// Hardware discovery on nodes without labels.
    #[command(flatten)]
    pub discovery: DiscoveryArgs,
    /// Back-off after a failed label write, doubled after each further failure up to five minutes
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::go_duration)]
    pub retry_delay: Duration,
    /// Options common to all operators.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Audit log.
    #[command(flatten)]
    pub deletions: DeletionLogArgs,
    /// Flags of the Go operator that have no effect here.
    #[command(flatten)]
    pub without_effect: WithoutEffect,
}

/// Source of the GPU list, for the operator in a pod and the embedded operator.
#[derive(Debug, Clone, Args)]
pub struct GpuListArgs {
    /// Base URL of the GPU list, to which /devices/gpus is appended; empty disables the download
    #[arg(long, value_name = "URL", default_value = "https://provider-configs.akash.network", value_parser = configs_url)]
    #[arg(add = HaRule::OPERATOR)]
    pub provider_configs_url: ConfigsUrl,
    /// Interval at which the GPU list is downloaded, or read from --gpu-list
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::go_duration)]
    #[arg(add = HaRule::OPERATOR)]
    pub registry_query_period: Duration,
    /// File with the GPU list, instead of the download; read again every --registry-query-period
    #[arg(long, value_name = "FILE")]
    #[arg(add = HaRule::EqualContent, add = Reloaded)]
    pub gpu_list: Option<PathBuf>,
}

/// Hardware discovery, for the operator in a pod and the embedded operator.
#[derive(Debug, Clone, Args)]
pub struct DiscoveryArgs {
    /// Image of short-lived pods that find the GPUs of nodes without labels [default: no discovery pods]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    #[arg(add = HaRule::OPERATOR)]
    pub discovery_image: Option<String>,
    /// Program in the discovery image that provides `tools psutil serve`
    #[arg(long, value_name = "PROGRAM", default_value = "provider-services")]
    #[arg(add = HaRule::OPERATOR)]
    pub discovery_program: String,
    /// Namespace of the discovery pods [default: --pod-namespace, else akash-services]
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    #[arg(add = HaRule::OPERATOR)]
    pub discovery_namespace: Option<String>,
}

/// Flags of the Go operator that are accepted without effect.
#[derive(Debug, Default, Args)]
pub struct WithoutEffect {
    /// No effect: the timeout of a node response is fixed
    #[arg(long, hide = true, value_name = "DURATION")]
    pub query_timeout: Option<String>,
    /// No effect: the state of deleted nodes is not retained
    #[arg(long, hide = true, value_name = "DURATION")]
    pub prune_interval: Option<String>,
    /// No effect: no node is ignored permanently
    #[arg(long, hide = true, value_name = "COUNT")]
    pub ignore_list_entry_limit: Option<String>,
    /// No effect: no node is ignored permanently
    #[arg(long, hide = true, value_name = "DURATION")]
    pub ignore_list_age_limit: Option<String>,
    /// No effect: no node is ignored permanently
    #[arg(long, hide = true, value_name = "COUNT")]
    pub event_failure_limit: Option<String>,
}

impl InventoryArgs {
    /// Returns the options of the inventory operator.
    ///
    /// # Errors
    /// Returns an error if the audit log cannot be started.
    pub fn options(&self) -> anyhow::Result<InventoryOperatorOptions> {
        let mut options = InventoryOperatorOptions::default();
        options.retry_delay = self.retry_delay;
        options.call_timeout = self.common.kube_call_timeout;
        options.discovery = self.discovery();
        options.deletions = self.deletions.start()?;
        Ok(options)
    }

    /// Returns the discovery options, or `None` without an image.
    pub fn discovery(&self) -> Option<discovery::DiscoveryOptions> {
        self.discovery.options(self.common.pod_namespace.as_deref())
    }
}

impl DiscoveryArgs {
    /// Returns the discovery options, or `None` without an image. `own` is the namespace of the operator's pod.
    pub fn options(&self, own: Option<&str>) -> Option<discovery::DiscoveryOptions> {
        let mut options = discovery::DiscoveryOptions::new(self.discovery_image.as_deref()?);
        options.program = self.discovery_program.clone();
        if let Some(namespace) = self.discovery_namespace.as_deref().or(own) {
            options.namespace = namespace.to_owned();
        }
        Some(options)
    }
}

/// Parses the name of an image. Rejects obvious mistakes only.
fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("invalid image name".to_owned());
    }
    Ok(text.to_owned())
}

/// Base URL of the GPU list, or `None` if downloads are disabled.
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
    fn has_the_defaults_of_the_go_operator() {
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
    fn accepts_all_flags_of_the_go_operator() {
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
        let wanted = discovery::DiscoveryOptions::new("ghcr.io/akash-network/provider");
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
