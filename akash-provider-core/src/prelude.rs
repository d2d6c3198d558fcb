//! Types for a program that runs a provider: `use akash_provider_core::prelude::*;`.
//!
//! The prelude contains the builder and the handle, the ports with their in-memory backends, and the types in
//! the example of the crate documentation. For a custom backend, import further types from their modules.

pub use crate::bus::{Bus, Delivery, LocalBus};
pub use crate::chain::{ChainClient, Inclusion, MemoryChain};
pub use crate::cluster::{Cluster, MemoryCluster};
pub use crate::config::Config;
pub use crate::inventory::InventorySource;
pub use crate::inventory::node_inventory::{NodeInventory, StaticInventorySource};
pub use crate::inventory::spec::{ClusterSpec, NodeSpec};
pub use crate::market::{MarketConfig, TenantMsg};
pub use crate::pricing::PricingStrategy;
pub use crate::pricing::scale::{Scale, ScaleConfig, parse_storage_scales};
pub use crate::provider::{Provider, ProviderHandle};
pub use crate::sdl;
pub use crate::types::{Address, BlockTime, Event, Msg, ProviderRecord, Topic};
