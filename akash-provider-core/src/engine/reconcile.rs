//! Reconciliation: brings the machines in line with the state of chain and cluster.

mod addresses;
mod chain;
mod cluster;
mod scan;

pub(super) use scan::Scan;
