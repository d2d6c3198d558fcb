//! The command line.

pub mod bus;
pub mod cluster;
pub mod compared;
pub mod config;
pub mod devnet;
pub mod environment;
pub mod ha;
pub mod help;
pub mod keys;
pub mod kubernetes;
pub mod limits;
pub mod migrate;
pub mod operator;
pub mod operators;
pub mod pricing;
pub mod query;
pub mod routes;
pub mod rules;
pub mod run;
pub mod settings;
pub mod show;
pub mod state;
pub mod tenant;
pub mod today;
pub mod tools;
pub mod tx;
pub mod values;

pub use bus::{BusArgs, BusCommand};
pub use cluster::ClusterArgs;
pub use config::ConfigCommand;
pub use devnet::DevnetArgs;
pub use ha::HaArgs;
pub use keys::{KeyringArgs, KeysArgs, SignerArgs};
pub use kubernetes::KubernetesArgs;
pub use migrate::MigrateCommand;
pub use operator::OperatorCommand;
pub use operators::OperatorsCommand;
pub use pricing::{PriceCheckArgs, PriceCommand, PricingArgs, Strategy};
pub use query::{NodeArgs, QueryArgs};
pub use run::RunArgs;
pub use state::StateAction;
pub use tenant::TenantCommand;
pub use tools::ToolsCommand;
pub use tx::TxArgs;

use crate::flight::{BundleArgs, ReplayArgs};
use akash_provider_core::types::{Address, Attribute, OrderId};
use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What goes to the log where nobody says it.
pub(crate) const DEFAULT_LEVEL: &str = "warn";

/// An Akash compute provider.
#[derive(Debug, Parser)]
#[command(name = "provider-daemon", version, about, max_term_width = 110)]
pub struct Cli {
    /// What goes to the log on stderr: error, warn, info, debug, trace, or a filter by module.
    #[arg(
        long,
        global = true,
        env = "AP_LOG_LEVEL",
        default_value = DEFAULT_LEVEL,
        alias = "log_level"
    )]
    pub log_level: String,
    /// How lines of the log are written.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "plain",
        alias = "log_format"
    )]
    pub log_format: LogFormat,
    /// Whether lines of the log have colours; without it they do on a terminal.
    #[arg(long, global = true, alias = "log_color", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = values::go_bool)]
    pub log_color: Option<bool>,
    /// Folder of keys, certificates and state; without it `.akash` in the home directory.
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a provider with an embedded market, tenants and an in-memory cluster, and watch it work.
    Dev(Box<DevArgs>),
    /// Serve a development network: the embedded market behind the protocols of a node; or act on one as a tenant.
    Devnet(Box<DevnetArgs>),
    /// Read an SDL file: its manifest, its groups, its hash, or whether it is valid.
    Sdl(SdlArgs),
    /// Say whether an SDL or an order would get a bid, at what price, and node by node why not: of a provider that flags
    /// make, with --from of a real one, or with --provider of one that runs, in its own words.
    Explain(Box<ExplainArgs>),
    /// Make, show, import and export the keys that sign transactions.
    Keys(Box<KeysArgs>),
    /// Ask the chain about providers, orders, leases, money and more.
    #[command(visible_alias = "q")]
    Query(Box<QueryArgs>),
    /// Sign and send transactions.
    Tx(Box<TxArgs>),
    /// Run the provider: follow a chain, bid on its orders, run the leases on a cluster.
    Run(Box<RunArgs>),
    /// Print or check the settings that `run` would have.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// What an operator asks of it while it runs.
    #[command(flatten)]
    Operator(OperatorCommand),
    /// Run what makes objects of the provider's records in the cluster, beside the provider.
    #[command(subcommand, name = "operator")]
    Operators(OperatorsCommand),
    /// Do what changes with a version of the provider, or say what was done.
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Make the decisions of a recorded provider again, and say whether they are the same; with --order or --lease also
    /// what was decided of it and why.
    Replay(ReplayArgs),
    /// Show or reset what a provider stores about the chain, while it is stopped.
    #[command(subcommand)]
    State(StateAction),
    /// Pack a recording, or part of it, for somebody who is to look at it.
    Bundle(BundleArgs),
    /// Read what a provider publishes, from another process.
    #[command(subcommand)]
    Bus(BusCommand),
    /// Look at a price policy before it counts.
    #[command(subcommand)]
    Price(PriceCommand),
    /// Say what the machine has that this runs on.
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// What a tenant asks of providers.
    #[command(flatten)]
    Tenant(TenantCommand),
    /// Print the version and the commit it was built from.
    Version,
    /// Print a completion script for a shell.
    Completions {
        /// The shell that is to complete.
        shell: clap_complete::Shell,
    },
}

impl Cli {
    /// The command line of this process, with the environment's settings where it says nothing.
    ///
    /// It ends the process where the command line is wrong, or asks for help.
    #[must_use]
    pub fn of_process() -> Self {
        let look = |name: &str| std::env::var(name).ok();
        let command = help::with_examples(run::for_a_real_chain(Self::command()));
        let command = environment::read_in(command, is_of_a_real_provider(), look);
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let words = std::env::args_os().collect();
        settings::parse(command, words, names, look).unwrap_or_else(|error| {
            if error.kind() != ErrorKind::Io {
                error.exit()
            }
            // The command line makes sense; a file that it names does not.
            drop(error.print());
            std::process::exit(1)
        })
    }

    /// The home folder.
    ///
    /// # Errors
    /// When neither it nor the user's home directory is known.
    pub fn home(&self) -> anyhow::Result<PathBuf> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        let user = std::env::home_dir().filter(|dir| !dir.as_os_str().is_empty());
        let user = user.context("there is no home directory: say with --home where keys and state are")?;
        Ok(user.join(".akash"))
    }
}

/// A real provider is named where it is typed, not where it is set for something else.
fn is_of_a_real_provider() -> bool {
    let mut words = std::env::args_os();
    words.any(|word| {
        let flag = word
            .to_str()
            .map(|w| w.split_once('=').map_or(w, |(flag, _)| flag));
        matches!(flag, Some("--from" | "--provider"))
    })
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[value(alias = "text")]
    Plain,
    /// One JSON object a line.
    Json,
}

/// How a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of `dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArgs {
    /// SDL files to play; without any, a built-in one.
    pub sdl: Vec<PathBuf>,
    /// Play every SDL to its end (bid, lease, manifest, running, update, close), print a summary and stop; the
    /// exit code is 0 only if every one was served and nothing is left over.
    #[arg(long)]
    pub once: bool,
    /// The provider has whatever attributes, signatures and hardware the SDLs ask for.
    #[arg(long)]
    pub accept_any: bool,
    /// How much time passes between blocks.
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub block_time: Duration,
    /// Tenants with generated orders, on top of the SDL files.
    #[arg(long, default_value_t = 0)]
    pub orders: u32,
    /// How many of them come in a second.
    #[arg(long, default_value_t = 5.0, value_parser = values::rate)]
    pub rate: f64,
    /// Makes generated orders repeatable.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Domain of automatic hostnames; empty for none.
    #[arg(long, default_value = "ingress.localhost")]
    pub deployment_ingress_domain: String,
    /// Unhealthy time after which a lease is closed, as in `run`; 0 for never.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::go_duration)]
    pub unhealthy_limit: Duration,
    /// Keep the market in this file and go on from it: chain, tenants, leases, the circuit breaker.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Run services as processes of this machine instead of in memory: a service's command and args, with its env.
    /// Images are not run, and nothing is isolated: for programs you trust.
    #[arg(long, conflicts_with_all = ["kubeconfig", "orders"])]
    pub processes: bool,
    /// Between provider and market stands a development network: the provider asks, hears and signs over the wire.
    #[arg(long)]
    pub wire: bool,
    /// Remove from the cluster what the embedded chain of this id left there, and stop.
    #[arg(long, value_name = "CHAIN_ID", requires = "kubeconfig")]
    pub remove_leftovers_of: Option<String>,
    /// Where tenants reach the provider; port 0 takes a free one. Without it 127.0.0.1:8443, or a free port when that
    /// is taken, and with --once nowhere.
    #[arg(long, value_name = "ADDRESS")]
    pub gateway_listen_address: Option<SocketAddr>,
    /// Where gRPC is served, with the gateway; without it at the next port.
    #[arg(long, value_name = "ADDRESS")]
    pub gateway_grpc_listen_address: Option<SocketAddr>,
    /// How to print what happens.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// Attributes of the provider besides its hardware: key=value; may be given several times.
    #[arg(long, help_heading = "Cluster", value_parser = values::attribute)]
    pub attribute: Vec<Attribute>,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// A real cluster.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,
    /// The prices.
    #[command(flatten)]
    pub pricing: PricingArgs,
}

/// Settings of `sdl`.
#[derive(Debug, Args)]
pub struct SdlArgs {
    /// Which part of it to print.
    #[arg(value_enum)]
    pub what: SdlPart,
    /// The file; `-` reads standard input.
    pub file: PathBuf,
    /// How to print it: the manifest and the groups as JSON unless said otherwise, what is wrong as lines of text.
    #[arg(long, short, value_enum)]
    pub output: Option<Format>,
    /// Refuse what is accepted with a warning, such as an unknown field.
    #[arg(long)]
    pub strict: bool,
}

/// What `sdl` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SdlPart {
    /// The manifest a tenant sends to the provider.
    Manifest,
    /// The groups a tenant puts on the chain.
    Groups,
    /// The hash of the manifest, as the chain stores it.
    Hash,
    /// Whether it is valid: all its errors and warnings, each with its line.
    Validate,
}

/// A data format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Settings of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The SDL file; `-` reads standard input.
    #[arg(required_unless_present = "order")]
    pub file: Option<PathBuf>,
    /// An open order of the chain instead of an SDL: OWNER/DSEQ/GSEQ/OSEQ.
    #[arg(long, conflicts_with = "file")]
    pub order: Option<OrderId>,
    /// Account of a provider that runs: its gateway is asked what it would do, and --from is not looked at.
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Option<Address>,
    /// Where its gateway is, as https://host:port; without it where it is registered.
    #[arg(long, value_name = "URL", requires = "provider")]
    pub provider_url: Option<String>,
    /// The provider has whatever attributes and signatures the SDL asks for; its hardware stays as given.
    #[arg(long, conflicts_with_all = ["from", "provider"])]
    pub accept_any: bool,
    /// Attributes of the provider besides its hardware: key=value; may be given several times.
    #[arg(long, help_heading = "Cluster", value_parser = values::attribute)]
    pub attribute: Vec<Attribute>,
    /// The provider. With --from it is a real one: its record, leases and bids are read from the chain, and its capacity
    /// from the cluster of --kubeconfig.
    #[command(flatten)]
    pub run: RunArgs,
}

impl ExplainArgs {
    /// Chain and cluster are asked; else nothing is.
    #[must_use]
    pub const fn is_of_a_real_provider(&self) -> bool {
        self.run.signer.from.is_some()
    }
}
