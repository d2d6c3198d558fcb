//! Operators for a Kubernetes cluster, each with an HTTP port for its status.

pub mod commands;
mod embedded;
pub mod hostname;
pub mod inventory;
pub mod ip;
mod metrics;
mod pod;
mod process;
mod responses;
pub mod serve;

pub(crate) use embedded::EmbeddedOperators;
pub use embedded::OperatorPlan;
pub(crate) use pod::identity;
