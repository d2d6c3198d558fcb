//! Command line: commands, flags and their help.

pub mod audit;
pub mod bus;
pub mod cluster;
mod cluster_domain;
pub mod compared;
pub mod config;
pub mod devnet;
pub mod doctor;
pub mod environment;
pub mod go_flags;
pub mod ha;
pub mod help;
pub mod keys;
pub mod kubernetes;
pub mod limits;
pub mod metrics;
pub mod migrate;
mod nearest;
pub mod operator;
pub mod operators;
pub mod orders;
#[cfg(feature = "otlp")]
pub mod otlp;
mod output;
pub mod pricing;
pub mod query;
#[cfg(test)]
mod reference;
pub mod routes;
pub mod rules;
pub mod run;
pub mod settings;
pub mod show;
pub mod state;
pub mod tools;
pub mod tx;

pub use audit::{AuditArgs, AuditLogArgs};
pub use bus::{BusArgs, BusCommand};
pub use cluster::ClusterArgs;
pub use config::ConfigCommand;
pub use devnet::DevnetArgs;
pub use doctor::DoctorArgs;
pub use ha::HaArgs;
pub use keys::KeysArgs;
pub use kubernetes::KubernetesArgs;
pub use migrate::MigrateCommand;
pub use operator::OperatorCommand;
pub use operators::OperatorsCommand;
pub use orders::OrderHistoryArgs;
#[cfg(feature = "otlp")]
pub use otlp::OtlpArgs;
pub use pricing::{PriceCheckArgs, PriceCommand, PricingArgs, Strategy};
pub use query::QueryArgs;
pub use run::RunArgs;
pub use state::StateAction;
pub use tools::ToolsCommand;
pub use tx::TxArgs;

pub use akash_provider_cli::flags::{Format, KeyringArgs, NodeArgs, Output, SignerArgs};
pub use akash_provider_tenant::args::TenantCommand;

use crate::flight::{BundleArgs, ReplayArgs};
use akash_provider_cli::setting::{FileKey, HaRule};
use akash_provider_cli::values;
use akash_provider_core::types::{Address, Attribute, OrderId};
use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const DEFAULT_LEVEL: &str = "warn";

/// An Akash compute provider.
#[derive(Debug, Parser)]
#[command(name = "provider-daemon", version, about, max_term_width = help::WIDTH_MAX)]
pub struct Cli {
    /// Log level or filter: error, warn, info, debug, trace, off, or MODULE=LEVEL
    #[arg(
        long,
        global = true,
        env = "AP_LOG_LEVEL",
        default_value = DEFAULT_LEVEL,
        alias = "log_level"
    )]
    #[arg(add = HaRule::OUTPUT)]
    pub log_level: String,
    /// Format of log lines on stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "plain",
        alias = "log_format"
    )]
    #[arg(add = HaRule::OUTPUT)]
    pub log_format: LogFormat,
    /// Color log lines [default: true on a terminal]
    #[arg(long, global = true, alias = "log_color", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = values::go_bool)]
    #[arg(add = HaRule::OUTPUT)]
    pub log_color: Option<bool>,
    /// Directory of keys, certificates and state [default: ~/.akash]
    #[arg(long, global = true, value_name = "DIR")]
    #[arg(add = HaRule::LOCATION, add = FileKey::Excluded)]
    pub home: Option<PathBuf>,
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a provider with an embedded market, simulated tenants and an in-memory cluster
    Dev(Box<DevArgs>),
    /// Serve an embedded market over the protocols of a node, or act as a tenant on such a network
    Devnet(Box<DevnetArgs>),
    /// Validate an SDL file, or print its manifest, groups or hash
    Sdl(SdlArgs),
    /// Explain whether an SDL or an order gets a bid: the price, or the reasons for the refusal, per node
    Explain(Box<ExplainArgs>),
    /// Create, show, import and export signing keys
    Keys(Box<KeysArgs>),
    /// Query the chain: providers, orders, leases, balances and more
    #[command(visible_alias = "q")]
    Query(Box<QueryArgs>),
    /// Sign and send transactions.
    Tx(Box<TxArgs>),
    /// Run the provider: follow the chain, bid on orders, run leases on a cluster
    Run(Box<RunArgs>),
    /// Print or check the settings of `run`
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check key, chain, account, certificate, DNS, cluster and machine of a provider, with a remedy per problem
    Doctor(Box<DoctorArgs>),
    /// Commands that control a running provider.
    #[command(flatten)]
    Operator(OperatorCommand),
    /// Run an operator that creates cluster objects from the provider's records
    #[command(subcommand, name = "operator")]
    Operators(OperatorsCommand),
    /// List or run the migrations of a new provider version
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Replay a recording and compare the decisions; --order and --lease print all decisions on one order or
    /// lease
    Replay(ReplayArgs),
    /// Show or reset the chain state of a stopped provider
    #[command(subcommand)]
    State(StateAction),
    /// Pack a recording, or a part of it, into an archive for a bug report
    Bundle(BundleArgs),
    /// Read the events that a provider publishes
    #[command(subcommand)]
    Bus(BusCommand),
    /// Check a price policy before it is used
    #[command(subcommand)]
    Price(PriceCommand),
    /// Report the hardware of this machine
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Commands of tenants.
    #[command(flatten)]
    Tenant(TenantCommand),
    /// Print the version and the commit of the build
    Version,
    /// Print a completion script for a shell
    Completions {
        /// Shell to generate the script for
        shell: clap_complete::Shell,
    },
}

impl Cli {
    /// Parses the command line of this process; unset flags use the environment and files. Exits the process
    /// if the command line is invalid, or after printing help.
    #[must_use]
    pub fn from_process() -> Self {
        let look = |name: &str| std::env::var(name).ok();
        let command = help::with_examples(run::for_a_real_chain(Self::command()));
        let command = environment::read_in(command, is_of_a_real_provider(), look);
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let words = std::env::args_os().collect();
        settings::parse(command, words, names, look).unwrap_or_else(|error| {
            if error.kind() != ErrorKind::Io {
                error.exit()
            }
            // The command line is valid, but a file that it names is not.
            drop(error.print());
            std::process::exit(1)
        })
    }

    /// Returns the home directory of the provider.
    ///
    /// # Errors
    /// Returns an error if `--home` is not set and the user has no home directory.
    pub fn home(&self) -> anyhow::Result<PathBuf> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        let user = std::env::home_dir().filter(|dir| !dir.as_os_str().is_empty());
        let user =
            user.context("the user has no home directory; set --home to the directory of keys and state")?;
        Ok(user.join(".akash"))
    }
}

/// Returns true if the command line contains `--from` or `--provider`. Ignores environment variables, which
/// users set for other commands.
fn is_of_a_real_provider() -> bool {
    let mut words = std::env::args_os();
    words.any(|word| {
        let flag = word
            .to_str()
            .map(|w| w.split_once('=').map_or(w, |(flag, _)| flag));
        matches!(flag, Some("--from" | "--provider"))
    })
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text.
    #[value(alias = "text")]
    Plain,
    /// One JSON object per line.
    Json,
}

/// Arguments of `dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArgs {
    /// SDL files to deploy [default: a built-in SDL]
    pub sdl: Vec<PathBuf>,
    /// Deploy, update and close each SDL once, print a summary and exit: code 0 if all succeeded
    #[arg(long)]
    pub once: bool,
    /// Give the provider all attributes, signatures and hardware that the SDLs require
    #[arg(long)]
    pub accept_any: bool,
    /// Time between two blocks
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub block_time: Duration,
    /// Number of generated orders, in addition to the SDL files
    #[arg(long, default_value_t = 0)]
    pub orders: u32,
    /// Number of generated orders per second
    #[arg(long, default_value_t = 5.0, value_parser = values::rate)]
    pub rate: f64,
    /// Seed of the generated orders
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Domain of automatic hostnames; empty disables them
    #[arg(long, default_value = "ingress.localhost")]
    pub deployment_ingress_domain: String,
    /// Close a lease after this time in an unhealthy state; 0 disables the limit
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::go_duration)]
    pub unhealthy_limit: Duration,
    /// File that stores the market between runs: chain, tenants, leases, circuit breaker
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Run services as local processes without isolation, from their command, args and env; images are not used
    #[arg(long, conflicts_with_all = ["kubeconfig", "orders"])]
    pub processes: bool,
    /// Connect the provider to the market through a development network, over the protocols of a node
    #[arg(long)]
    pub wire: bool,
    /// Delete from the cluster the objects of the embedded chain with this ID, then exit
    #[arg(long, value_name = "CHAIN_ID", requires = "kubeconfig")]
    pub remove_leftovers_of: Option<String>,
    /// Listen address of the gateway; port 0 chooses a port [default: 127.0.0.1:8443; none with --once]
    #[arg(long, value_name = "ADDRESS")]
    pub gateway_listen_address: Option<SocketAddr>,
    /// Listen address of the gRPC gateway [default: the port after the gateway's]
    #[arg(long, value_name = "ADDRESS")]
    pub gateway_grpc_listen_address: Option<SocketAddr>,
    /// Output format of events
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// Attribute of the provider in addition to its hardware, as key=value; repeatable
    #[arg(long, help_heading = "Cluster", value_parser = values::attribute)]
    pub attribute: Vec<Attribute>,
    /// In-memory cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Kubernetes cluster.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,
    /// Prices.
    #[command(flatten)]
    pub pricing: PricingArgs,
}

/// Arguments of `sdl`.
#[derive(Debug, Args)]
pub struct SdlArgs {
    /// Part of the SDL to print
    #[arg(value_enum)]
    pub what: SdlPart,
    /// SDL file; `-` reads standard input
    pub file: PathBuf,
    /// Output format [default: json for manifest and groups, text for validate]
    #[arg(long, short, value_enum)]
    pub output: Option<Format>,
    /// Treat warnings, such as an unknown field, as errors
    #[arg(long)]
    pub strict: bool,
}

/// Output of `sdl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SdlPart {
    /// Manifest that a tenant sends to the provider
    Manifest,
    /// Groups that a tenant puts on the chain
    Groups,
    /// Hash of the manifest, as the chain stores it
    Hash,
    /// Errors and warnings of the SDL, with line numbers
    Validate,
}

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
