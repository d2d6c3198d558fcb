//! Flags of the commands for development.

pub mod devnet;

pub use devnet::DevnetArgs;

use akash_provider_cli::flags::Output;
use akash_provider_cli::values;
use akash_provider_core::types::Attribute;
use akash_provider_service::args::{ClusterArgs, KubernetesArgs, PricingArgs};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

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
