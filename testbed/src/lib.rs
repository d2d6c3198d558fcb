//! Kubernetes for tests without Docker. API server, controllers, kubelet and containers are processes of this
//! machine, in a network namespace of the cluster.
//!
//! `cargo xtask cluster up --tier api` starts a cluster, and a test finds it:
//!
//! ```no_run
//! # fn main() -> Result<(), testbed::Error> {
//! use testbed::{Testbed, Component, Tier};
//!
//! // Prints `skipped: …` and returns nothing where no cluster of this tier runs.
//! let Some(cluster) = Testbed::from_env(Tier::Api)? else {
//!     return Ok(());
//! };
//! // No other test runs while this one breaks the cluster. Other tests hold `cluster.shared()`.
//! let _alone = cluster.exclusive()?;
//! println!("{}", cluster.kubeconfig().display());
//! cluster.kill(Component::ApiServer)?;
//! cluster.start(Component::ApiServer)?;
//! # Ok(())
//! # }
//! ```
//!
//! Modules: [`Tier`] and [`Component`] list the parts, `layout` has paths and addresses, `binaries` and
//! `packages` provide programs, `network`, `mounts` and `cgroups` manage resources of the machine, `images`
//! builds container images, `processes` tracks processes, and [`Testbed`] combines them. [`Proxy`] is an HTTP
//! proxy for routes. [`recordings`] reads recordings of a live chain and of the Go provider.

mod binaries;
mod cgroups;
mod check;
pub mod clients;
mod cluster;
mod command;
mod component;
mod error;
mod files;
mod images;
mod layout;
mod mounts;
mod network;
mod packages;
mod pebble;
mod ports;
mod processes;
mod proxy;
pub mod recordings;
mod redis;
mod tier;

pub use cluster::{ClusterLock, ClusterOptions, ComponentHealth, ComponentStatus, Testbed, TestbedStatus};
pub use component::Component;
pub use error::{Error, Result};
pub use layout::ClusterAddresses;
pub use tier::Tier;

pub use binaries::{build, helm};
pub use check::check;
pub use network::obstacle;
pub use packages::faketime;
pub use pebble::Pebble;
pub use ports::free_port;
pub use proxy::{Proxy, ProxyBackend};
pub use redis::Redis;
