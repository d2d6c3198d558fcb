//! Flags of the commands with which tenants deploy and look after leases, named as in today's tool.

use super::query::NodeArgs;
use super::{Format, SignerArgs, values};
use akash_provider_core::types::Address;
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// What a tenant asks of providers.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Send the manifest of an SDL to every provider that has a lease of the deployment.
    SendManifest(Box<SendManifestArgs>),
    /// Read the manifest back from the provider.
    GetManifest(Box<GetManifestArgs>),
    /// How the services of a lease are, and where they can be reached.
    LeaseStatus(Box<LeaseStatusArgs>),
    /// How one service of a lease is.
    ServiceStatus(Box<ServiceStatusArgs>),
    /// What the services of a lease write.
    LeaseLogs(Box<LogsArgs>),
    /// What the cluster says about a lease.
    LeaseEvents(Box<EventsArgs>),
    /// Run a command in a service.
    LeaseShell(Box<ShellArgs>),
    /// How a provider is.
    Status(Box<StatusArgs>),
    /// Move hostnames from one of your deployments to another one at the same provider.
    MigrateHostnames(Box<MigrateArgs>),
    /// Move leased IP endpoints from one of your deployments to another one at the same provider.
    MigrateEndpoints(Box<MigrateArgs>),
    /// Print the manifest of an SDL.
    SdlToManifest(SdlToManifestArgs),
    /// Print the namespace that a lease has on the provider's cluster.
    #[command(visible_alias = "cluster-ns")]
    ShowClusterNs(ClusterNsArgs),
}

/// Who is asked, and how one is known there.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Provider")]
pub struct AccessArgs {
    /// How the provider knows who asks: by a token signed with the key, or by the certificate in the home folder.
    #[arg(long, value_enum, default_value = "jwt")]
    pub auth_type: AuthType,
    /// Where the provider is, as https://host:port; the chain is not asked about provider and lease then.
    #[arg(long, value_name = "URL", requires = "provider")]
    pub provider_url: Option<String>,
    /// Ask no node; only with --provider-url, and at a provider with a certificate of a public authority.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub offline: bool,
    /// The tenant; nobody but the key's own account can be one.
    #[arg(long, hide = true)]
    pub owner: Option<Address>,
    /// Taken and without effect: nothing is signed that has a mode.
    #[arg(long, hide = true)]
    pub sign_mode: Option<String>,
    /// The key.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Nodes.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// How one is known to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthType {
    /// A token.
    Jwt,
    /// A certificate that is on the chain.
    Mtls,
}

/// Which leases.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Lease")]
pub struct LeaseArgs {
    /// Number of the deployment.
    #[arg(long)]
    pub dseq: u64,
    /// Number of the group.
    #[arg(long)]
    pub gseq: Option<u32>,
    /// Number of the group's order.
    #[arg(long)]
    pub oseq: Option<u32>,
    /// The provider; without it, every provider that has a live lease of the deployment.
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Option<Address>,
    /// Who is asked.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Settings of `send-manifest`.
#[derive(Debug, Args)]
pub struct SendManifestArgs {
    /// The SDL; `-` reads standard input.
    pub sdl: PathBuf,
    /// How to print what came of it.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: SentOutput,
    /// Which leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// How `send-manifest` and `lease-status` print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SentOutput {
    /// For people.
    Text,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Settings of `lease-status`.
#[derive(Debug, Args)]
pub struct LeaseStatusArgs {
    /// How to print it; without it a table where a terminal shows it, and JSON where a program reads it.
    #[arg(long, short, value_enum)]
    pub output: Option<SentOutput>,
    /// Wait until every service is available, for so long at most; 10m where no time is given.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10m",
          value_parser = values::duration)]
    pub wait: Option<Duration>,
    /// Which leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Settings of `get-manifest`.
#[derive(Debug, Args)]
pub struct GetManifestArgs {
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "yaml")]
    pub output: Format,
    /// Which lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Settings of `service-status`.
#[derive(Debug, Args)]
pub struct ServiceStatusArgs {
    /// Name of the service in the SDL.
    #[arg(long)]
    pub service: String,
    /// Which lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Settings of `lease-logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Only these services, with commas between them.
    #[arg(long, default_value = "")]
    pub service: String,
    /// Go on with what is written from then on.
    #[arg(long, short, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub follow: bool,
    /// Only so many of the last lines; -1 for all.
    #[arg(long, short, default_value_t = -1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-1..))]
    pub tail: i32,
    /// How to print lines.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: super::Output,
    /// Which leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Settings of `lease-events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only about these services, with commas between them.
    #[arg(long, default_value = "")]
    pub service: String,
    /// Go on with what happens from then on.
    #[arg(long, short, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub follow: bool,
    /// Taken and without effect: providers show all events they have.
    #[arg(long, short, default_value_t = -1, allow_negative_numbers = true, hide = true)]
    pub tail: i32,
    /// Which leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Settings of `lease-shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Name of the service in the SDL.
    pub service: String,
    /// The command and its words; one word is split at its spaces, but not within double quotes. Words that begin
    /// with `-` come after `--`.
    #[arg(required = true)]
    pub command: Vec<String>,
    /// Give the command this command's input.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub stdin: bool,
    /// Give the command this terminal, input included.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub tty: bool,
    /// In this replica of the service, from 0.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=0x7fff_ffff))]
    pub replica_index: u32,
    /// Which lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Settings of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Account of the provider that is asked.
    #[arg(value_name = "ADDRESS")]
    pub provider: Address,
    /// Where it is, as https://host:port; the chain is not asked for that then.
    #[arg(long, value_name = "URL")]
    pub provider_url: Option<String>,
    /// Ask no node; only with --provider-url, and at a provider with a certificate of a public authority.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub offline: bool,
    /// Nodes.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Settings of `migrate-hostnames` and `migrate-endpoints`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Names of what moves.
    #[arg(required = true)]
    pub names: Vec<String>,
    /// Number of the deployment it moves to.
    #[arg(long)]
    pub dseq: u64,
    /// Number of the group it moves to.
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
    /// The provider of both deployments.
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Address,
    /// Who is asked.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Settings of `sdl-to-manifest`.
#[derive(Debug, Args)]
pub struct SdlToManifestArgs {
    /// The SDL; `-` reads standard input.
    pub sdl: PathBuf,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "json")]
    pub output: Format,
}

/// Settings of `show-cluster-ns`.
#[derive(Debug, Args)]
pub struct ClusterNsArgs {
    /// Account of the deployment's tenant.
    #[arg(long)]
    pub owner: Address,
    /// Number of the deployment.
    #[arg(long)]
    pub dseq: u64,
    /// Number of the group.
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
    /// Number of the group's order.
    #[arg(long, default_value_t = 1)]
    pub oseq: u32,
    /// Account of the provider.
    #[arg(long)]
    pub provider: Address,
}
