//! Flags of `migrate`, with the names and defaults of the Go provider.

use akash_provider_cli::flags::Output;
use akash_provider_cli::setting::NoVariable;
use akash_provider_cli::values;
use akash_provider_service::args::AuditLogArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Actions of `migrate`.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// List the migrations and their states
    List(MigrateListArgs),
    /// Run the migrations: admit the Gateway to the namespaces of existing leases
    Run(Box<MigrateRunArgs>),
}

/// Arguments of `migrate list`.
#[derive(Debug, Args)]
pub struct MigrateListArgs {
    /// State file of the migrations [default: migrations.json in the home directory]
    #[arg(long, value_name = "FILE")]
    pub migrations_state_path: Option<PathBuf>,
    /// Output format of the list
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Arguments of `migrate run`.
#[derive(Debug, Args)]
pub struct MigrateRunArgs {
    /// State file of the migrations [default: migrations.json in the home directory]
    #[arg(long, value_name = "FILE")]
    pub migrations_state_path: Option<PathBuf>,
    /// Kubeconfig of the cluster [default: KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the Gateway that takes over the hostnames
    #[arg(long, value_name = "NAME", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_name: String,
    /// Namespace of the Gateway that takes over the hostnames
    #[arg(long, value_name = "NAMESPACE", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_namespace: String,
    /// Namespace of the Manifest objects; leases without a Manifest are skipped
    #[arg(long, value_name = "NAMESPACE", default_value = "lease", value_parser = values::dns_name)]
    pub k8s_manifest_ns: String,
    /// Timeout of one call to the API server
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::go_duration)]
    pub kube_call_timeout: Duration,
    /// Output format of the result
    #[arg(long, short, value_enum, default_value = "text", add = NoVariable)]
    pub output: Output,
    /// Audit log.
    #[command(flatten)]
    pub audit: AuditLogArgs,
}
