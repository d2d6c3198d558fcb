//! Settings of a provider, with unit, default, and the corresponding flag of the Go provider.
//!
//! A configuration file contains the settings by name, and durations as text. A setting can be omitted to use
//! its default:
//!
//! ```
//! # use akash_provider_core::Config;
//! # use std::time::Duration;
//! let part = serde_json::json!({
//!     "provider": "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm",
//!     "chain_id": "akashnet-2",
//!     "manifest_timeout": "10m",
//!     "bid_timeout": "never",
//!     "bid_deposit": {"denom": "uact", "amount": "600000"},
//! });
//! let config = Config::read(part).unwrap();
//! assert_eq!((config.manifest_timeout, config.bid_timeout), (Some(Duration::from_secs(600)), None));
//! assert_eq!(config.query_timeout, Duration::from_secs(60));
//! ```

mod duration;
#[cfg(test)]
mod tests;

use crate::types::{Address, Attribute, Coin};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

/// Settings of a provider. The type of a setting defines its unit. The comment of a setting also names the
/// corresponding flag of the Go provider. Parentheses after a flag contain its default or its special values.
///
/// In files (JSON, TOML, YAML), a duration is a text such as `500ms`, `30s`, `5m` or `1h30m`. An optional
/// duration can be `never`. A missing setting has its default value. Only [`provider`](Self::provider) and
/// [`chain_id`](Self::chain_id) are required. Unknown names are refused. The error of [`Config::read`] names
/// the invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default = "Config::of_nobody", deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// Chain account of the provider. This account signs every message.
    pub provider: Address,
    /// Chain id of the Akash network. The provider refuses a snapshot of another chain.
    pub chain_id: String,
    /// Deposit of every bid. Flag of the Go provider: `bid-deposit`.
    pub bid_deposit: Coin,
    /// Whether each bid is simulated before it is sent, so that a refused bid costs no fee. With `true`, the
    /// number of bids of an order is not queried.
    pub refused_bids_are_free: bool,
    /// Whether prices depend on the capacity in use. With `true`, the provider evaluates an order again
    /// after capacity is freed, if the order was declined because of a high price.
    pub prices_follow_capacity: bool,
    /// Deposits in other denominations than `bid_deposit`, in order of preference. Used if the chain does not
    /// accept `bid_deposit`, or if the account cannot pay it.
    pub other_bid_deposits: Vec<Coin>,
    /// Expected fee of a bid, reserved for each sent bid. Use 0 if the fee is unknown or another account pays
    /// it. Flag of the Go provider: `gas-prices`.
    pub bid_fee: Coin,
    /// Maximum time an open bid waits for a lease, in block time; `None` means no limit. Flag of the Go
    /// provider: `bid-timeout` (5 m; 0 = never).
    #[serde(with = "duration::or_never")]
    pub bid_timeout: Option<Duration>,
    /// Maximum time a lease waits for its manifest, in block time; `None` means no limit. Flag of the Go
    /// provider: `manifest-timeout` (5 m; 0 = never).
    #[serde(with = "duration::or_never")]
    pub manifest_timeout: Option<Duration>,
    /// Reclamation window offered in every bid. Flag of the Go provider: `reclamation-window` (0 = not
    /// offered).
    #[serde(with = "duration::or_never")]
    pub reclamation_window: Option<Duration>,
    /// Attributes that an order must require. The provider declines orders that do not require all of them.
    /// Go provider: `attributes` in the `provider-config` file.
    pub required_attributes: Vec<Attribute>,
    /// Maximum number of volumes per unit. The Go provider always uses 4.
    pub max_volumes_per_unit: u32,
    /// CPU overcommit in percent, where 50 means 1.5 times the physical capacity. Flag of the Go provider:
    /// `overcommit-pct-cpu`.
    pub overcommit_cpu_percent: u32,
    /// Memory overcommit in percent, as for CPU. Flag of the Go provider: `overcommit-pct-mem`.
    pub overcommit_memory_percent: u32,
    /// Storage overcommit in percent, as for CPU. Flag of the Go provider: `overcommit-pct-storage`.
    pub overcommit_storage_percent: u32,
    /// Number of external ports for random-port endpoints; the default is 2768. With 0, orders with such
    /// endpoints are declined. Flag of the Go provider: `cluster-node-port-quantity`.
    pub external_ports: u32,
    /// Whether the cluster can assign leased IPs to tenants.
    pub leased_ips: bool,
    /// Whether the backend routes hostnames. If not, orders with a service behind the shared HTTP ingress are
    /// declined.
    pub hostnames: bool,
    /// Domain for automatic hostnames. Every ingress service gets a hostname in this domain. Flags of the Go
    /// provider: `deployment-ingress-static-hosts` with `deployment-ingress-domain`.
    pub static_hosts_domain: Option<String>,
    /// Hostnames that tenants cannot use. A leading dot blocks the domain and all its subdomains. Flag of the
    /// Go provider: `deployment-blocked-hostnames`.
    ///
    /// The host in the provider record on the chain is always blocked.
    pub blocked_hostnames: Vec<String>,
    /// Total unhealthy time after which the provider closes the lease of a workload. `None` means no limit.
    ///
    /// Good health and a new version of the manifest reset the total. Time with unknown health or during an
    /// outage does not count.
    #[serde(with = "duration::or_never")]
    pub unhealthy_limit: Option<Duration>,
    /// Interval between checks of a deployment's escrow balance, in block time. Flag of the Go provider:
    /// `lease-funds-monitor-interval` (1 m to 24 h).
    #[serde(with = "duration")]
    pub balance_check_interval: Duration,
    /// Interval between withdrawals of the earnings of a lease, in block time; `None` disables periodic
    /// withdrawals. Flag of the Go provider: `withdrawal-period` (24 h; 0 = off).
    #[serde(with = "duration::or_never")]
    pub withdrawal_period: Option<Duration>,
    /// Average block time that the provider assumes before it has observed enough blocks. The Go provider
    /// uses 6.5 s.
    #[serde(with = "duration")]
    pub average_block_time: Duration,
    /// Interval between full scans, which compare the chain, the cluster and the engine.
    #[serde(with = "duration")]
    pub scan_interval: Duration,
    /// Time window in which the circuit breaker counts the leases that the provider closes.
    #[serde(with = "duration")]
    pub breaker_window: Duration,
    /// Number of closes by the provider that are always allowed within
    /// [`breaker_window`](Self::breaker_window), even if `breaker_percent` allows fewer.
    pub breaker_floor: u32,
    /// Percentage of all leases that the provider may close within [`breaker_window`](Self::breaker_window).
    pub breaker_percent: u32,
    /// Maximum number of closes by the provider within [`breaker_window`](Self::breaker_window), even if
    /// `breaker_percent` allows more. A higher `breaker_floor` takes precedence.
    pub breaker_ceiling: u32,
    /// Length of the warm-up period, which starts when the workloads are listed for the first time. During
    /// this period, the circuit breaker does not permit the provider to close a lease.
    #[serde(with = "duration")]
    pub breaker_warmup: Duration,
    /// Whether the circuit breaker had tripped before the restart.
    pub breaker_tripped: bool,
    /// Owners for which the circuit breaker had tripped before the restart. If the set has more than 64
    /// owners, the breaker trips for all owners.
    pub breaker_held_owners: BTreeSet<Address>,
    /// Maximum wait for an unreachable second chain endpoint, before the provider treats a lease as closed.
    /// After this time, the response of the first endpoint is sufficient.
    #[serde(with = "duration")]
    pub witness_grace: Duration,
    /// Time that a new leader waits before it closes a lease. During this time, transactions of the old
    /// leader expire.
    #[serde(with = "duration")]
    pub takeover_grace: Duration,
    /// Maximum number of pending manifest requests per deployment. Further requests are refused.
    pub manifest_queue_limit: u32,
    /// Maximum time to wait for the cluster at the start. Flag of the Go provider:
    /// `cluster-wait-ready-duration`.
    #[serde(with = "duration")]
    pub cluster_ready_timeout: Duration,
    /// Maximum time to finish pending work at shutdown. The remaining work is logged and dropped.
    #[serde(with = "duration")]
    pub shutdown_grace: Duration,
    /// Timeout of one chain query. Flag of the Go provider: `rpc-query-timeout` (1 m).
    #[serde(with = "duration")]
    pub query_timeout: Duration,
    /// Timeout of one call to the cluster.
    #[serde(with = "duration")]
    pub cluster_timeout: Duration,
    /// Timeout of one price calculation. Includes the wait for a free pricing process.
    #[serde(with = "duration")]
    pub pricing_timeout: Duration,
    /// Timeout of one transaction until its outcome is known. Flag of the Go provider:
    /// `tx-broadcast-timeout`.
    #[serde(with = "duration")]
    pub tx_timeout: Duration,
    /// Timeout of a tenant's manifest request. The gateway of the Go provider uses 120 s.
    #[serde(with = "duration")]
    pub manifest_request_timeout: Duration,
}

impl Config {
    /// Reads the settings from a part of a file, such as a section of a TOML file or a value of a JSON file.
    ///
    /// # Errors
    /// Returns an error for an unreadable value or a missing `provider` or `chain_id`, and the errors of
    /// [`Config::validate`].
    pub fn read<'de, D: Deserializer<'de>>(part: D) -> Result<Self, InvalidConfig> {
        let read: Self = serde_path_to_error::deserialize(part).map_err(|error| {
            let path = error.path().to_string();
            // An error of the whole document has no path.
            let name = if path == "." {
                "the settings".to_owned()
            } else {
                path
            };
            InvalidConfig::unread(name, error.inner().to_string())
        })?;
        read.validate()?;
        Ok(read)
    }

    fn of_nobody() -> Self {
        Self::new(Address::nobody(), "")
    }

    /// Creates the default settings of a provider.
    #[must_use]
    pub fn new(provider: Address, chain_id: impl Into<String>) -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            provider,
            chain_id: chain_id.into(),
            bid_deposit: Coin::new("uact", 500_000),
            refused_bids_are_free: false,
            prices_follow_capacity: false,
            other_bid_deposits: Vec::new(),
            bid_fee: Coin::new("uakt", 0),
            bid_timeout: Some(5 * MINUTE),
            manifest_timeout: Some(5 * MINUTE),
            reclamation_window: None,
            required_attributes: Vec::new(),
            max_volumes_per_unit: 4,
            overcommit_cpu_percent: 0,
            overcommit_memory_percent: 0,
            overcommit_storage_percent: 0,
            external_ports: 2768,
            leased_ips: false,
            hostnames: true,
            static_hosts_domain: None,
            blocked_hostnames: Vec::new(),
            unhealthy_limit: Some(24 * 60 * MINUTE),
            balance_check_interval: 10 * MINUTE,
            withdrawal_period: Some(24 * 60 * MINUTE),
            average_block_time: Duration::from_millis(6500),
            scan_interval: 10 * MINUTE,
            breaker_window: 10 * MINUTE,
            breaker_floor: 3,
            breaker_percent: 10,
            breaker_ceiling: 10,
            breaker_warmup: 5 * MINUTE,
            breaker_tripped: false,
            breaker_held_owners: BTreeSet::new(),
            witness_grace: 10 * MINUTE,
            takeover_grace: Duration::from_secs(75),
            manifest_queue_limit: 16,
            cluster_ready_timeout: 5 * MINUTE,
            shutdown_grace: Duration::from_secs(30),
            query_timeout: MINUTE,
            cluster_timeout: 2 * MINUTE,
            pricing_timeout: MINUTE,
            tx_timeout: 2 * MINUTE,
            manifest_request_timeout: 2 * MINUTE,
        }
    }

    /// Returns all configured deposits of a bid, in order of preference.
    pub fn bid_deposits(&self) -> impl Iterator<Item = &Coin> {
        std::iter::once(&self.bid_deposit).chain(&self.other_bid_deposits)
    }

    /// Checks every setting, and combinations of settings.
    ///
    /// # Errors
    /// Returns an error with the setting, its value and the accepted values.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        if self.provider == Address::nobody() {
            let help = "missing; set the address of the provider's account, such as akash1…";
            return Err(InvalidConfig::missing("provider", help));
        }
        if self.chain_id.is_empty() {
            let help = "missing; set the id of the chain, such as akashnet-2";
            return Err(InvalidConfig::missing("chain_id", help));
        }
        let interval = self.balance_check_interval;
        if interval < Duration::from_secs(60) || interval > Duration::from_secs(24 * 3600) {
            return Err(InvalidConfig::new(
                "balance_check_interval",
                interval,
                "must be from 1 m to 24 h",
            ));
        }
        if let Some(period) = self.withdrawal_period.filter(|p| *p < interval) {
            return Err(InvalidConfig::new(
                "withdrawal_period",
                period,
                "must not be below balance_check_interval",
            ));
        }
        let positive = [
            ("average_block_time", self.average_block_time),
            ("scan_interval", self.scan_interval),
            ("breaker_window", self.breaker_window),
            ("cluster_ready_timeout", self.cluster_ready_timeout),
            ("query_timeout", self.query_timeout),
            ("cluster_timeout", self.cluster_timeout),
            ("pricing_timeout", self.pricing_timeout),
            ("tx_timeout", self.tx_timeout),
            ("manifest_request_timeout", self.manifest_request_timeout),
        ];
        if let Some((name, value)) = positive.into_iter().find(|(_, d)| d.is_zero()) {
            return Err(InvalidConfig::new(name, value, "must be above zero"));
        }
        Ok(())
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting {name}{}: {help}", value_suffix(.value.as_deref()))]
pub struct InvalidConfig {
    name: Cow<'static, str>,
    value: Option<String>,
    help: Cow<'static, str>,
}

fn value_suffix(value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!(" = {value}"))
}

impl InvalidConfig {
    fn new(name: &'static str, value: impl std::fmt::Debug, help: &'static str) -> Self {
        Self {
            name: name.into(),
            value: Some(format!("{value:?}")),
            help: help.into(),
        }
    }

    const fn missing(name: &'static str, help: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            value: None,
            help: Cow::Borrowed(help),
        }
    }

    /// Creates the error for a setting that could not be read. `problem` contains the value.
    fn unread(name: String, problem: String) -> Self {
        Self {
            name: name.into(),
            value: None,
            help: problem.into(),
        }
    }

    /// Returns the name of the setting.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value as text. The text is empty if the setting is missing, or if [`help`](Self::help)
    /// already contains the value.
    #[must_use]
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// Returns the accepted values.
    #[must_use]
    pub fn help(&self) -> &str {
        &self.help
    }
}
