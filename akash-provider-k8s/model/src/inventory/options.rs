//! Settings of the capacity count.

use super::storage::StorageOptions;
use akash_provider_kube_kernel::watch::{Definitions, WatchConfig};
use std::time::Duration;

/// Settings of the capacity count. [`CapacityOptions::default`] is suitable if nodes and storage classes have their
/// `akash.network` labels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapacityOptions {
    /// Settings of persistent storage.
    pub storage: StorageOptions,
    /// Duration for which changes are collected before an inventory update is published.
    pub gather: Duration,
    /// Maximum wait for storage objects before the first inventory update. After this time, the update omits
    /// unread storage.
    pub patience: Duration,
    /// Timeouts and back-off of the watches.
    pub watch_config: WatchConfig,
    /// Shared watch of CustomResourceDefinitions; one per process.
    pub definitions: Definitions,
    /// Whether the inventory watches pools and load balancers, to count the leased addresses. If false, the IP
    /// operator of the same process counts the addresses.
    pub counts_addresses: bool,
}

impl Default for CapacityOptions {
    fn default() -> Self {
        let mut watch_config = WatchConfig::default();
        watch_config.page_size = 250;
        Self {
            storage: StorageOptions::default(),
            gather: Duration::from_millis(75),
            patience: Duration::from_secs(20),
            watch_config,
            definitions: Definitions::default(),
            counts_addresses: true,
        }
    }
}
