//! Flags of the tenant commands, with the names of the Go provider.

use akash_provider_cli::flags::{DataOutput, NodeArgs, Output, SignerArgs};
use akash_provider_cli::setting::NoVariable;
use akash_provider_cli::values;
use akash_provider_core::types::Address;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Commands of tenants.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Send the manifest of an SDL to the providers of a deployment's leases
    SendManifest(Box<SendManifestArgs>),
    /// Read the manifest of a lease from its provider
    GetManifest(Box<GetManifestArgs>),
    /// Show the services of a lease, with their status and addresses
    LeaseStatus(Box<LeaseStatusArgs>),
    /// Show the status of one service of a lease
    ServiceStatus(Box<ServiceStatusArgs>),
    /// Print the logs of the services of a lease
    LeaseLogs(Box<LogsArgs>),
    /// Print the cluster events of a lease
    LeaseEvents(Box<EventsArgs>),
    /// Run a command in a service
    LeaseShell(Box<ShellArgs>),
    /// Request evidence that a lease runs with confidential computing
    LeaseAttestation(Box<AttestationArgs>),
    /// Show the status of a provider
    Status(Box<StatusArgs>),
    /// Move hostnames to another of your deployments at the same provider
    MigrateHostnames(Box<MigrateArgs>),
    /// Move leased IP endpoints to another of your deployments at the same provider
    MigrateEndpoints(Box<MigrateArgs>),
    /// Print the manifest of an SDL
    SdlToManifest(SdlToManifestArgs),
    /// Print the namespace of a lease in the cluster of its provider
    #[command(visible_alias = "cluster-ns")]
    ShowClusterNs(ClusterNsArgs),
}

/// Provider to query, and the authentication of the tenant.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Provider")]
pub struct AccessArgs {
    /// Authentication: a token signed with the key, or the certificate in the home directory
    #[arg(long, value_enum, default_value = "jwt")]
    pub auth_type: AuthType,
    /// URL of the provider, as https://host:port; the chain is not queried for the provider and the lease
    #[arg(long, value_name = "URL", requires = "provider")]
    pub provider_url: Option<String>,
    /// Do not query the chain; requires --provider-url, and a provider with a certificate of a public CA
    #[arg(long)]
    pub offline: bool,
    /// Tenant account; only the account of the key is valid
    #[arg(long, hide = true)]
    pub owner: Option<Address>,
    /// No effect: the commands sign no transactions
    #[arg(long, hide = true)]
    pub sign_mode: Option<String>,
    /// Signing key.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Nodes of the chain.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Authentication of a tenant at a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthType {
    /// Signed token
    Jwt,
    /// Certificate that is published on the chain
    Mtls,
}

/// Selection of leases.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Lease")]
pub struct LeaseArgs {
    /// Sequence number of the deployment (dseq)
    #[arg(long)]
    pub dseq: u64,
    /// Sequence number of the group (gseq)
    #[arg(long)]
    pub gseq: Option<u32>,
    /// Sequence number of the order (oseq)
    #[arg(long)]
    pub oseq: Option<u32>,
    /// Account of the provider [default: all providers with active leases of the deployment]
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Option<Address>,
    /// Provider to query.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Arguments of `send-manifest`.
#[derive(Debug, Args)]
pub struct SendManifestArgs {
    /// SDL file; `-` reads standard input
    pub sdl: PathBuf,
    /// Output format of the results
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: DataOutput,
    /// Leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `lease-status`.
#[derive(Debug, Args)]
pub struct LeaseStatusArgs {
    /// Output format of the status [default: text on a terminal, else json]
    #[arg(long, short, value_enum)]
    pub output: Option<DataOutput>,
    /// Maximum time to wait until every service is available; --wait alone means 10m [default: no wait]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10m",
          value_parser = values::duration)]
    pub wait: Option<Duration>,
    /// Leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `get-manifest`.
#[derive(Debug, Args)]
pub struct GetManifestArgs {
    /// Output format of the manifest
    #[arg(long, short, value_enum, default_value = "yaml")]
    pub output: DataOutput,
    /// Lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `service-status`.
#[derive(Debug, Args)]
pub struct ServiceStatusArgs {
    /// Name of the service in the SDL
    #[arg(long)]
    pub service: String,
    /// Output format of the status
    #[arg(long, short, value_enum, default_value = "json", add = NoVariable)]
    pub output: DataOutput,
    /// Lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `lease-logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Only these services, comma-separated
    #[arg(long, default_value = "")]
    pub service: String,
    /// Follow the logs: print new lines as they are written
    #[arg(long, short)]
    pub follow: bool,
    /// Number of last lines to print; -1 for all
    #[arg(long, short, default_value_t = -1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-1..))]
    pub tail: i32,
    /// Output format of log lines
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// Leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `lease-events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only events of these services, comma-separated
    #[arg(long, default_value = "")]
    pub service: String,
    /// Follow the events: print new events as they occur
    #[arg(long, short)]
    pub follow: bool,
    /// No effect: providers return all their events
    #[arg(long, short, default_value_t = -1, allow_negative_numbers = true, hide = true)]
    pub tail: i32,
    /// Output format of events
    #[arg(long, short, value_enum, default_value = "json", add = NoVariable)]
    pub output: Output,
    /// Leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `lease-shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Name of the service in the SDL
    pub service: String,
    /// Command and arguments, after `--` if one starts with `-`; a single argument is split at spaces outside quotes
    #[arg(required = true)]
    pub command: Vec<String>,
    /// Connect standard input to the command
    #[arg(long)]
    pub stdin: bool,
    /// Connect this terminal to the command, including its input
    #[arg(long)]
    pub tty: bool,
    /// Index of the service's replica, from 0
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=0x7fff_ffff))]
    pub replica_index: u32,
    /// Lease.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `lease-attestation`.
#[derive(Debug, Args)]
pub struct AttestationArgs {
    /// Output format of the evidence
    #[arg(long, short, value_enum, default_value = "json", add = NoVariable)]
    pub output: DataOutput,
    /// Leases.
    #[command(flatten)]
    pub lease: LeaseArgs,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Account of the provider
    #[arg(value_name = "ADDRESS")]
    pub provider: Address,
    /// Output format of the status
    #[arg(long, short, value_enum, default_value = "json", add = NoVariable)]
    pub output: DataOutput,
    /// URL of the provider, as https://host:port, instead of the URL that the chain stores
    #[arg(long, value_name = "URL")]
    pub provider_url: Option<String>,
    /// Do not query the chain; requires --provider-url, and a provider with a certificate of a public CA
    #[arg(long)]
    pub offline: bool,
    /// Nodes of the chain.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Arguments of `migrate-hostnames` and `migrate-endpoints`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Hostnames, or names of leased IP endpoints, to move to the target deployment
    #[arg(required = true)]
    pub names: Vec<String>,
    /// Sequence number of the target deployment (dseq)
    #[arg(long)]
    pub dseq: u64,
    /// Sequence number of the group in the target deployment (gseq)
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
    /// Account of the provider of both deployments
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Address,
    /// Output format of the result
    #[arg(long, short, value_enum, default_value = "text", add = NoVariable)]
    pub output: Output,
    /// Provider to query.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Arguments of `sdl-to-manifest`.
#[derive(Debug, Args)]
pub struct SdlToManifestArgs {
    /// SDL file; `-` reads standard input
    pub sdl: PathBuf,
    /// Output format of the manifest
    #[arg(long, short, value_enum, default_value = "json")]
    pub output: DataOutput,
}

/// Arguments of `show-cluster-ns`.
#[derive(Debug, Args)]
pub struct ClusterNsArgs {
    /// Account of the tenant that owns the deployment
    #[arg(long)]
    pub owner: Address,
    /// Sequence number of the deployment (dseq)
    #[arg(long)]
    pub dseq: u64,
    /// Sequence number of the group (gseq)
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
    /// Sequence number of the order (oseq)
    #[arg(long, default_value_t = 1)]
    pub oseq: u32,
    /// Account of the provider
    #[arg(long)]
    pub provider: Address,
    /// Output format of the namespace
    #[arg(long, short, value_enum, default_value = "text", add = NoVariable)]
    pub output: Output,
}
