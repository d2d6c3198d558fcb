//! What a program that runs a provider names: `use akash_provider_core::prelude::*;`.
//!
//! The builder and the handle, the ports with their backends in memory, and what is written on the crate's front page.
//! A backend of one's own names what else it needs by its room.

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
