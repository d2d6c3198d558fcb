//! Chain and cluster as they are, and the machines brought in line with them.

mod addresses;
mod chain;
mod cluster;
mod scan;

pub(super) use scan::Scan;
