//! A real Kubernetes for tests, without Docker: API server, controllers, kubelet and containers, each a process
//! of its own in a network namespace of its own.
//!
//! A person brings one up with `cargo xtask cluster up --tier api`, and a test finds it:
//!
//! ```no_run
//! # fn main() -> Result<(), testbed::Error> {
//! use testbed::{Cluster, Component, Tier};
//!
//! // Prints `skipped: …` and returns nothing where no cluster of this tier runs.
//! let Some(cluster) = Cluster::from_env(Tier::Api)? else {
//!     return Ok(());
//! };
//! // Nobody else's test runs while this one breaks things; the others hold `cluster.shared()`.
//! let _alone = cluster.exclusive()?;
//! println!("{}", cluster.kubeconfig().display());
//! cluster.kill(Component::ApiServer)?;
//! cluster.start(Component::ApiServer)?;
//! # Ok(())
//! # }
//! ```
//!
//! The rooms: [`Tier`] and [`Component`] say what there is, `layout` where each thing lies and which addresses it
//! has, `binaries` and `packages` where programs come from, `network`, `mounts` and `cgroups` what is lent
//! from the machine and given back, `images` what containers are made of, `processes` who is ours, and [`Cluster`] puts them together.
//! [`Proxy`] is a proxy that runs beside a cluster.
//! [`recordings`] reads what was recorded of a live chain and of the Go provider.

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
mod ports;
mod processes;
mod proxy;
pub mod recordings;
mod redis;
mod tier;

pub use cluster::{Cluster, ComponentStatus, Health, Hold, Options, Status};
pub use component::Component;
pub use error::{Error, Result};
pub use layout::Addresses;
pub use tier::Tier;

pub use binaries::build;
pub use check::check;
pub use network::obstacle;
pub use packages::faketime;
pub use ports::free_port;
pub use proxy::{Backend, Proxy};
pub use redis::Redis;
