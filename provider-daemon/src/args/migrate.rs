//! Flags of `migrate`. Names and defaults are those of today's provider.

use super::{Output, values};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// What changes with a version of the provider.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// List what changes, and what of it was done.
    List(MigrateListArgs),
    /// Do it: let the Gateway into the namespaces of leases that were made before it. Routes are handed over by the
    /// hostname operator.
    Run(Box<MigrateRunArgs>),
}

/// Settings of `migrate list`.
#[derive(Debug, Args)]
pub struct MigrateListArgs {
    /// What was done is kept in this file; without it `migrations.json` in the home folder.
    #[arg(long, value_name = "FILE")]
    pub migrations_state_path: Option<PathBuf>,
    /// How to print the answer.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Settings of `migrate run`.
#[derive(Debug, Args)]
pub struct MigrateRunArgs {
    /// What was done is kept in this file; without it `migrations.json` in the home folder.
    #[arg(long, value_name = "FILE")]
    pub migrations_state_path: Option<PathBuf>,
    /// The cluster's kubeconfig; without it KUBECONFIG, the user's own, or the account of the pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The Gateway that names are handed over to.
    #[arg(long, value_name = "NAME", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_name: String,
    /// Namespace of that Gateway.
    #[arg(long, value_name = "NAMESPACE", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_namespace: String,
    /// Namespace of the Manifest objects; leases without one there are not looked at.
    #[arg(long, value_name = "NAMESPACE", default_value = "lease", value_parser = values::dns_name)]
    pub k8s_manifest_ns: String,
    /// Limit of one call to the API server.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::go_duration)]
    pub kube_call_timeout: Duration,
}
