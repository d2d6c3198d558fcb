//! Every knob with its unit and default, and the flag of today's provider it answers to.
//!
//! A file has them by name, durations as text, and only those that differ from the default:
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

/// Settings of a provider. Units are in the types; defaults are the network's where it has one.
///
/// As data for people (JSON, TOML, YAML) a duration is text such as `500ms`, `30s`, `5m` or `1h30m`, one that may be
/// missing `never`. What is missing has its default, but for [`provider`](Self::provider) and
/// [`chain_id`](Self::chain_id); what has another name is refused. [`Config::read`] says which setting is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default = "Config::of_nobody", deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// Account of this provider: it signs every message, and is part of the id of every bid.
    pub provider: Address,
    /// The chain we belong to; a snapshot of another one is refused.
    pub chain_id: String,
    /// Deposit of every bid (`bid-deposit`).
    pub bid_deposit: Coin,
    /// A bid that the chain refuses costs nothing, because it is tried before it is sent: then no node is asked
    /// how many bids an order has.
    pub refused_bids_are_free: bool,
    /// Prices depend on the capacity in use: orders declined for a high price are judged again when capacity comes back.
    pub prices_follow_capacity: bool,
    /// Deposits in other denominations, by preference; used where the chain does not take the first.
    pub other_bid_deposits: Vec<Coin>,
    /// Expected fee of a bid (`gas-prices`), kept back for each bid that is sent. With an amount of 0, no money is kept back:
    /// the fee is not known, or another account pays it.
    pub bid_fee: Coin,
    /// Block time an open bid waits for a lease; `None` for ever (`bid-timeout`, 5 m; 0 = never).
    #[serde(with = "duration::or_never")]
    pub bid_timeout: Option<Duration>,
    /// Block time a lease waits for its manifest; `None` for ever (`manifest-timeout`, 5 m; 0 = never).
    #[serde(with = "duration::or_never")]
    pub manifest_timeout: Option<Duration>,
    /// Window offered in every bid (`reclamation-window`; 0 = not offered).
    #[serde(with = "duration::or_never")]
    pub reclamation_window: Option<Duration>,
    /// Bid only on orders that ask for all of these (attributes of `provider-config`).
    pub required_attributes: Vec<Attribute>,
    /// Most volumes of one unit (4 in today's provider, where it has no flag).
    pub max_volumes_per_unit: u32,
    /// Overcommit in percent; 50 means 1.5 times (`overcommit-pct-cpu`).
    pub overcommit_cpu_percent: u32,
    /// Overcommit in percent (`overcommit-pct-mem`).
    pub overcommit_memory_percent: u32,
    /// Overcommit in percent (`overcommit-pct-storage`).
    pub overcommit_storage_percent: u32,
    /// Ports for random-port endpoints; 0 declines every order that wants one
    /// (`cluster-node-port-quantity`; the default is the size of the usual node port range, 2768).
    pub external_ports: u32,
    /// The backend can lease IPs (its facet is there).
    pub leased_ips: bool,
    /// The backend makes hostnames lead to services (its facet is there). Without it every order with a service
    /// behind the shared HTTP ingress is declined.
    pub hostnames: bool,
    /// Give every ingress service an automatic hostname under this domain
    /// (`deployment-ingress-static-hosts` with `deployment-ingress-domain`).
    pub static_hosts_domain: Option<String>,
    /// Hostnames nobody gets; an entry with a leading dot blocks the domain and everything below it
    /// (`deployment-blocked-hostnames`). The host of our record on the chain is blocked besides.
    pub blocked_hostnames: Vec<String>,
    /// Known unhealthy time after which a lease is given up; `None` never. Unknown does not count.
    #[serde(with = "duration::or_never")]
    pub unhealthy_limit: Option<Duration>,
    /// Time between looks at a deployment's money, in block time (`lease-funds-monitor-interval`, 1 m to 24 h).
    #[serde(with = "duration")]
    pub balance_check_interval: Duration,
    /// Block time between payouts of a lease; `None` for none by schedule (`withdrawal-period`, 24 h; 0 = off).
    #[serde(with = "duration::or_never")]
    pub withdrawal_period: Option<Duration>,
    /// Average time between blocks, to turn blocks into time (6.5 s in today's provider) until enough blocks were
    /// seen to measure it.
    #[serde(with = "duration")]
    pub average_block_time: Duration,
    /// Time between full scans of chain, cluster and ledger.
    #[serde(with = "duration")]
    pub scan_interval: Duration,
    /// Window of the circuit breaker.
    #[serde(with = "duration")]
    pub breaker_window: Duration,
    /// Own closes within the window that are always allowed.
    pub breaker_floor: u32,
    /// Share of leases, in percent, that may be closed within the window.
    pub breaker_percent: u32,
    /// Most own closes within the window, however many leases there are; the floor counts all the same.
    pub breaker_ceiling: u32,
    /// How long after a start nothing is ended by our own decision.
    #[serde(with = "duration")]
    pub breaker_warmup: Duration,
    /// The breaker had tripped before the restart.
    pub breaker_tripped: bool,
    /// Owners for whom alone the breaker had tripped before the restart; of more than 64 it is shut for all.
    pub breaker_held_owners: BTreeSet<Address>,
    /// How long a second endpoint may stay unreachable before the one-endpoint rule applies.
    #[serde(with = "duration")]
    pub witness_grace: Duration,
    /// How long a new leader waits before it closes anything: until transactions of the old one have expired.
    #[serde(with = "duration")]
    pub takeover_grace: Duration,
    /// Manifest requests that may wait for one deployment; more are refused.
    pub manifest_queue_limit: u32,
    /// How long the cluster may take to become ready at the start (`cluster-wait-ready-duration`).
    #[serde(with = "duration")]
    pub cluster_ready_timeout: Duration,
    /// How long a drain may take at the end before what is left is reported and dropped.
    #[serde(with = "duration")]
    pub shutdown_grace: Duration,
    /// Limit of one chain query (`rpc-query-timeout`, 1 m).
    #[serde(with = "duration")]
    pub query_timeout: Duration,
    /// Limit of one call to the cluster.
    #[serde(with = "duration")]
    pub cluster_timeout: Duration,
    /// Limit of one price calculation as a whole, waiting for a free process included.
    #[serde(with = "duration")]
    pub pricing_timeout: Duration,
    /// Limit of one transaction until its outcome is known (`tx-broadcast-timeout`).
    #[serde(with = "duration")]
    pub tx_timeout: Duration,
    /// Limit of a tenant's manifest request (120 s in today's gateway).
    #[serde(with = "duration")]
    pub manifest_request_timeout: Duration,
}

impl Config {
    /// The settings in a part of a file, such as a section of a TOML file or a value of a JSON one.
    ///
    /// # Errors
    /// Names the setting, what it is, and what it must be: what cannot be read, an account or a chain that is missing,
    /// and what [`Config::validate`] has against it.
    pub fn read<'de, D: Deserializer<'de>>(part: D) -> Result<Self, InvalidConfig> {
        let read: Self = serde_path_to_error::deserialize(part).map_err(|error| {
            let path = error.path().to_string();
            // What is wrong with the whole has no path of its own.
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

    /// The defaults of no provider on no chain: what a file has to say itself.
    fn of_nobody() -> Self {
        Self::new(Address::nobody(), "")
    }

    /// The defaults for a provider.
    #[must_use]
    pub fn new(provider: Address, chain_id: impl Into<String>) -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            provider,
            chain_id: chain_id.into(),
            bid_deposit: Coin {
                denom: "uact".into(),
                amount: 500_000,
            },
            refused_bids_are_free: false,
            prices_follow_capacity: false,
            other_bid_deposits: Vec::new(),
            bid_fee: Coin {
                denom: "uakt".into(),
                amount: 0,
            },
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

    /// All configured deposits of a bid, by preference.
    pub fn bid_deposits(&self) -> impl Iterator<Item = &Coin> {
        std::iter::once(&self.bid_deposit).chain(&self.other_bid_deposits)
    }

    /// Checks that the settings make sense together.
    ///
    /// # Errors
    /// Names the setting, the value and what it must be.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        if self.provider == Address::nobody() {
            let mend = "must be the provider's account, akash1…";
            return Err(InvalidConfig::missing("provider", mend));
        }
        if self.chain_id.is_empty() {
            let mend = "must name the chain, such as akashnet-2";
            return Err(InvalidConfig::missing("chain_id", mend));
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

/// A setting that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting {name}{}: {mend}", shown(.value.as_deref()))]
pub struct InvalidConfig {
    name: Cow<'static, str>,
    value: Option<String>,
    mend: Cow<'static, str>,
}

fn shown(value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!(" = {value}"))
}

impl InvalidConfig {
    fn new(name: &'static str, value: impl std::fmt::Debug, mend: &'static str) -> Self {
        Self {
            name: name.into(),
            value: Some(format!("{value:?}")),
            mend: mend.into(),
        }
    }

    const fn missing(name: &'static str, mend: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            value: None,
            mend: Cow::Borrowed(mend),
        }
    }

    /// The problem says the value.
    fn unread(name: String, problem: String) -> Self {
        Self {
            name: name.into(),
            value: None,
            mend: problem.into(),
        }
    }

    /// Name of the setting.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value, for people; empty where it is missing or in [`mend`](Self::mend).
    #[must_use]
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// What it must be.
    #[must_use]
    pub fn mend(&self) -> &str {
        &self.mend
    }
}
