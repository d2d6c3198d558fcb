//! Flags of `explain`.

use akash_provider_cli::values;
use akash_provider_core::types::{Address, Attribute, OrderId};
use akash_provider_service::args::RunArgs;
use akash_provider_service::args::run::{OUTPUT_OF_A_RESULT, PRICES};
use clap::builder::ArgPredicate;
use clap::{Args, Command};
use std::path::PathBuf;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// SDL file; `-` reads standard input
    #[arg(required_unless_present = "order")]
    pub file: Option<PathBuf>,
    /// Open order on the chain instead of an SDL, as OWNER/DSEQ/GSEQ/OSEQ
    #[arg(long, conflicts_with = "file")]
    pub order: Option<OrderId>,
    /// Account of a running provider; its gateway is queried, and --from is ignored
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Option<Address>,
    /// URL of the provider of --provider, as https://host:port [default: the registered URL]
    #[arg(long, value_name = "URL", requires = "provider")]
    pub provider_url: Option<String>,
    /// Give the provider all attributes and signatures that the SDL requires, but no additional hardware
    #[arg(long, conflicts_with_all = ["from", "provider"])]
    pub accept_any: bool,
    /// Attribute of the provider in addition to its hardware, as key=value; repeatable
    #[arg(long, help_heading = "Cluster", value_parser = values::attribute)]
    pub attribute: Vec<Attribute>,
    /// Provider to explain. With `--from` its record, leases and bids are read from the chain, and its capacity from
    /// the cluster of `--kubeconfig`.
    #[command(flatten)]
    pub run: RunArgs,
}

impl ExplainArgs {
    /// Returns whether the command queries the real chain and cluster.
    #[must_use]
    pub const fn is_of_a_real_provider(&self) -> bool {
        self.run.signer.from.is_some()
    }
}

/// Flags that affect bids. Other flags in the same help sections do not affect bids.
const CHANGE_BIDS: [&str; 9] = [
    "bid-deposit",
    "reclamation-window",
    "overcommit-pct-cpu",
    "overcommit-pct-mem",
    "overcommit-pct-storage",
    "ip-operator",
    "ip-pool-size",
    "k8s-manifest-ns",
    "kube-call-timeout",
];

/// Removes the trial defaults of `explain` if the command line has `--from`. Hides the flags that do not affect
/// bids.
#[must_use]
pub fn for_a_real_chain(explain: Command) -> Command {
    explain.mut_args(|arg| match arg.get_long() {
        Some(price) if PRICES.contains(&price) => arg.default_value_if("from", ArgPredicate::IsPresent, "0"),
        Some("kubeconfig") => arg.help("Kubeconfig of the cluster of the provider"),
        Some("cluster-k8s") => arg.help("Use the cluster of --kubeconfig, KUBECONFIG or this pod"),
        Some("output") => arg.help(OUTPUT_OF_A_RESULT),
        Some(flag) if CHANGE_BIDS.contains(&flag) => arg,
        Some("shutdown-grace") => arg.hide(true),
        _ => match arg.get_help_heading() {
            Some(heading) if changes_no_bid(heading) => arg.hide(true),
            _ => arg,
        },
    })
}

fn changes_no_bid(heading: &str) -> bool {
    [
        "Bids",
        "Bus",
        "Leases",
        "Fee",
        "High availability",
        "Kubernetes",
        "Recording",
        "Rules",
    ]
    .contains(&heading)
        || heading.starts_with("Gateway")
}
