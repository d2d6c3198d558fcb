//! What runs beside the provider and turns its records into objects of the cluster.

pub mod hostname;
pub mod inventory;
