//! Flags of `run` and of the operators, and settings files.

pub mod acme;
pub mod audit;
pub mod bus;
pub mod cluster;
mod cluster_domain;
pub mod compared;
pub mod gas;
pub mod global;
pub mod go_flags;
pub mod ha;
mod inventory_operator;
pub mod kubernetes;
pub mod limits;
pub mod metrics;
mod nearest;
mod needs;
pub mod operators;
pub mod orders;
#[cfg(feature = "otlp")]
pub mod otlp;
mod output;
pub mod pricing;
#[cfg(test)]
mod reference;
pub mod routes;
pub mod rules;
pub mod run;
#[cfg(test)]
pub(crate) mod run_line;
pub mod settings;
pub mod show;

pub use audit::{AuditArgs, AuditLogArgs};
pub use bus::BusArgs;
pub use cluster::ClusterArgs;
pub use global::GlobalArgs;
pub use ha::HaArgs;
pub use inventory_operator::InventoryOperatorArgs;
pub use kubernetes::KubernetesArgs;
pub use operators::OperatorsCommand;
pub use orders::OrderHistoryArgs;
#[cfg(feature = "otlp")]
pub use otlp::OtlpArgs;
pub use output::OutputArgs;
pub use pricing::{PricingArgs, Strategy};
pub use run::RunArgs;

use akash_provider_cli::flags::{NodeArgs, Output, SignerArgs};

use akash_provider_cli::values;
