//! The bid decision as pure functions. A declined order is a value that contains the reason.
//!
//! ```text
//!  should_bid ──► Capacity::fit ──► check_bid_count ──► price_request ──► a strategy ──► judge_price
//!  may bid        enough capacity   bids left           of the reserved units            worth a bid
//! ```
//! The engine runs these steps for every order and reserves the capacity. [`screen()`] runs the steps on a
//! copy of the capacity and reserves nothing. All data of a decision is passed as arguments, so the functions
//! use no stale state.

pub mod attributes;
pub mod capabilities;
pub mod limits;
mod price;
mod profile;
mod screen;
mod signed_by;
mod size;
pub(crate) mod unsupported;

pub use capabilities::Capabilities;
pub use price::{check_denom, check_price, judge_price, price_request};
pub use profile::accepting_profile;
#[cfg(feature = "runtime")]
pub use screen::screen;
pub use screen::{Offer, OrderVerdict, evaluate};
pub use signed_by::{AUDITORS_MAX, auditors};
pub(crate) use size::cut;
pub use size::{COMPARISONS_MAX, UNITS_MAX, check_size};

use crate::config::Config;
use crate::types::{
    Attribute, AuditedAttributes, Coin, DeclineCode, EndpointKind, GroupSpec, MarketParams, Order,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Reason why the provider does not bid on an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decline {
    /// The order requires attributes that the provider does not declare.
    #[error("the order requires {key}={value}, which this provider does not declare")]
    Attributes {
        /// Key of the first required attribute that the provider does not declare.
        key: String,
        /// Value that the order requires for the attribute `key`.
        value: String,
    },
    /// The order lacks an attribute that the configuration requires of orders.
    #[error("this provider bids only on orders that require {key}={value}")]
    NotForUs {
        /// Key of the first configured attribute that the order lacks.
        key: String,
        /// Configured value of the attribute `key`.
        value: String,
    },
    /// No declared storage capability has all attributes of a volume.
    #[error("unit {unit}: volume `{volume}` requires {wanted}, which no declared storage capability offers")]
    Storage {
        /// Resource id of the unit with the volume.
        unit: u32,
        /// Name of the volume.
        volume: String,
        /// Attributes that the volume requires, as text.
        wanted: String,
    },
    /// The provider declares none of the GPU models that the order accepts.
    #[error("unit {unit}: none of the GPU models {wanted} is declared by this provider")]
    Gpu {
        /// Resource id of the unit.
        unit: u32,
        /// GPU models that the unit accepts, as text.
        wanted: String,
    },
    /// A unit has too many volumes.
    #[error("unit {unit} has {volumes} volumes; the limit is {limit}")]
    TooManyVolumes {
        /// Resource id of the unit.
        unit: u32,
        /// Number of volumes that the unit requests.
        volumes: u32,
        /// Maximum number of volumes per unit in the configuration.
        limit: u32,
    },
    /// The provider lacks an audit that the order requires.
    #[error("the order requires signatures: {missing}")]
    SignedBy {
        /// Missing signatures of auditors, as text.
        missing: String,
    },
    /// The order names more auditors than the provider queries.
    #[error("the order names {auditors} auditors; the limit is {limit}")]
    TooManyAuditors {
        /// Number of auditors in the order.
        auditors: u32,
        /// Maximum number of auditors queried for one order.
        limit: u32,
    },
    /// Evaluating the order would need too much work.
    #[error("the order has {value} {what}; the limit is {limit}")]
    TooLarge {
        /// Name of the quantity that exceeds its limit.
        what: String,
        /// Value of the quantity in the order.
        value: u64,
        /// Maximum value that one order may have.
        limit: u64,
    },
    /// The group violates a limit of the Akash network.
    #[error("the group is invalid: {problem}")]
    InvalidGroup {
        /// Violated limit, and its place in the group, as text.
        problem: String,
    },
    /// The order requires a reclamation window that the provider does not offer.
    #[error(
        "the order requires a reclamation window of at least {wanted_s} s; this provider offers {offered}"
    )]
    Reclamation {
        /// Minimum reclamation window of the order, in seconds, rounded up.
        wanted_s: u64,
        /// Text with the reclamation window of the provider in seconds, or the text `none`.
        offered: String,
    },
    /// The chain does not accept the reclamation window of this provider.
    #[error(
        "this provider offers a reclamation window of {offered_s} s; the chain accepts {min_s} s to {max_s} s"
    )]
    ReclamationRange {
        /// Reclamation window that the provider offers, in whole seconds.
        offered_s: u64,
        /// Minimum reclamation window that the chain accepts, in seconds.
        min_s: u64,
        /// Maximum reclamation window that the chain accepts, in seconds.
        max_s: u64,
    },
    /// The order has reached the maximum number of bids.
    #[error(
        "the order already has {bids} bids or more; the chain accepts another bid only on an order with at most {limit}"
    )]
    OrderFull {
        /// Number of open, active and closed bids on the order. After a refusal by the chain, the exact
        /// number is unknown, and this field is `limit` plus 1.
        bids: u32,
        /// The chain parameter `order_max_bids`. The chain refuses a bid if the number of bids exceeds this
        /// value.
        limit: u32,
    },
    /// The chain accepts none of the configured bid deposits.
    #[error("the configured bid deposit {configured} is below the minimum of the chain: {minimum}")]
    Deposit {
        /// Bid deposits in the configuration, as text.
        configured: String,
        /// Deposits that the chain accepts, as text.
        minimum: String,
    },
    /// The cluster cannot place all replicas of the order.
    #[error("{message}")]
    InsufficientCapacity {
        /// Description of the missing capacity, in one line.
        message: String,
    },
    /// The order needs hostnames, and the cluster does not route hostnames.
    #[error(
        "the order needs hostnames for {wanted} services and this provider's cluster serves no hostnames"
    )]
    NoHostnames {
        /// Number of endpoints of the order that need hostnames.
        wanted: u32,
    },
    /// The order requests a feature that no cluster offers.
    #[error("the order requires {wanted}, which this provider does not offer")]
    Unsupported {
        /// Feature and the attribute that requests it, as text.
        wanted: String,
    },
    /// The order needs leased IPs, and the cluster has no pool of leased IPs.
    #[error("no leased IPs available: the order needs {wanted} and this provider leases none")]
    NoLeasedIps {
        /// Number of leased IPs that the order needs.
        wanted: u32,
    },
    /// Too few leased IPs are free.
    #[error("insufficient number of IPs: unable to reserve {wanted}, {free} are free")]
    LeasedIpsExhausted {
        /// Number of leased IPs that the order needs.
        wanted: u32,
        /// Number of leased IPs that are free and not reserved.
        free: u32,
    },
    /// Too few external ports are free.
    #[error("the order needs {wanted} external ports, {free} are free")]
    ExternalPortsExhausted {
        /// Number of external ports that the order needs.
        wanted: u32,
        /// Number of external ports without a reservation.
        free: u32,
    },
    /// The price calculation failed.
    #[error("no price: {message}")]
    Price {
        /// Cause of the failed price calculation, as text.
        message: String,
    },
    /// The calculated price has another denomination than the order.
    #[error("the calculated price is in {price}, but the order has a price in {order}")]
    PriceDenom {
        /// Denomination of the calculated price.
        price: String,
        /// Denomination in which the tenant pays.
        order: String,
    },
    /// The price is above the maximum of the order.
    #[error("the price {price} is above the tenant's maximum {maximum}")]
    PriceTooHigh {
        /// Calculated price, with its denomination.
        price: String,
        /// Maximum price of the group per block, with its denomination.
        maximum: String,
    },
    /// The chain refused the bid.
    #[error("the chain refused the bid: {message}")]
    Refused {
        /// Error text of the chain.
        message: String,
    },
    /// The provider has already bid on this order. The chain allows one bid per provider and order, even
    /// after the bid is closed.
    #[error("this provider has already bid on the order and the chain allows one bid per order")]
    AlreadyBid,
    /// Data that the decision needs could not be read.
    #[error("cannot decide whether to bid: {message}")]
    Unknown {
        /// Cause of the failed read, as text.
        message: String,
    },
}

impl Decline {
    /// Returns the machine-readable code of the reason.
    #[must_use]
    pub const fn code(&self) -> DeclineCode {
        match self {
            Self::Attributes { .. } => DeclineCode::Attributes,
            Self::NotForUs { .. } => DeclineCode::NotForUs,
            Self::Storage { .. } => DeclineCode::Storage,
            Self::Gpu { .. } => DeclineCode::Gpu,
            Self::TooManyVolumes { .. } => DeclineCode::TooManyVolumes,
            Self::SignedBy { .. } => DeclineCode::SignedBy,
            Self::TooManyAuditors { .. } => DeclineCode::TooManyAuditors,
            Self::TooLarge { .. } => DeclineCode::TooLarge,
            Self::InvalidGroup { .. } => DeclineCode::InvalidGroup,
            Self::Reclamation { .. } => DeclineCode::Reclamation,
            Self::ReclamationRange { .. } => DeclineCode::ReclamationRange,
            Self::OrderFull { .. } => DeclineCode::OrderFull,
            Self::Deposit { .. } => DeclineCode::Deposit,
            Self::InsufficientCapacity { .. } => DeclineCode::InsufficientCapacity,
            Self::NoHostnames { .. } => DeclineCode::NoHostnames,
            Self::NoLeasedIps { .. } => DeclineCode::NoLeasedIps,
            Self::LeasedIpsExhausted { .. } => DeclineCode::LeasedIpsExhausted,
            Self::ExternalPortsExhausted { .. } => DeclineCode::ExternalPortsExhausted,
            Self::Price { .. } => DeclineCode::Price,
            Self::PriceDenom { .. } => DeclineCode::PriceDenom,
            Self::PriceTooHigh { .. } => DeclineCode::PriceTooHigh,
            Self::Refused { .. } => DeclineCode::Refused,
            Self::AlreadyBid => DeclineCode::AlreadyBid,
            Self::Unknown { .. } => DeclineCode::Unknown,
            Self::Unsupported { .. } => DeclineCode::Unsupported,
        }
    }

    /// Returns true if the provider may bid on the same order later, for example after capacity was freed.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::InsufficientCapacity { .. }
                | Self::LeasedIpsExhausted { .. }
                | Self::ExternalPortsExhausted { .. }
                | Self::Price { .. }
                | Self::PriceDenom { .. }
                | Self::PriceTooHigh { .. }
                | Self::Unknown { .. }
        )
    }
}

/// Data for a bid decision: the provider's attributes, the market parameters and the number of competing
/// bids.
#[derive(Debug, Clone, Copy)]
pub struct OrderContext<'a> {
    /// Registered attributes of the provider. With `None`, the provider is not registered, and every order is
    /// declined.
    pub attributes: Option<&'a [Attribute]>,
    /// Provider attributes that auditors have signed.
    pub audited: &'a [AuditedAttributes],
    /// Market parameters of the chain. With `None`, the checks that need the parameters are skipped.
    pub params: Option<&'a MarketParams>,
    /// Number of other providers' bids that count towards the chain's limit for the order. With `None`, the
    /// number is not checked.
    pub bids: Option<u32>,
}

/// Checks whether the provider may bid on an order.
///
/// [`check_size`] runs first. The following checks run in this order: unsupported features, attributes that
/// the order requires, attributes that the provider requires of orders, capabilities, number of volumes,
/// hostnames, signatures, limits of the group, reclamation window, deposit. The Go provider does not perform
/// the last two checks.
///
/// # Errors
/// Returns the first reason not to bid.
pub fn should_bid(order: &Order, facts: &OrderContext<'_>, config: &Config) -> Result<(), Decline> {
    check(order, facts, config).map_err(Decline::shortened)
}

fn check(order: &Order, facts: &OrderContext<'_>, config: &Config) -> Result<(), Decline> {
    let group = &*order.spec;
    // First, because the cost of all other checks grows with the order.
    check_size(group)?;
    let ours = facts.attributes.ok_or_else(|| Decline::Unknown {
        message: "this provider is not registered on the chain".to_owned(),
    })?;
    // The estimate needs the attributes of the provider, and must run before any attribute is compared.
    size::check_comparisons(group, facts, config)?;
    unsupported::check(group)?;
    let requirements = &group.requirements;
    if let Some(unmet) = attributes::first_unmet(&requirements.attributes, ours) {
        let Attribute { key, value } = unmet.clone();
        return Err(Decline::Attributes { key, value });
    }
    if let Some(lacking) = attributes::first_unmet(&config.required_attributes, &requirements.attributes) {
        let Attribute { key, value } = lacking.clone();
        return Err(Decline::NotForUs { key, value });
    }
    Capabilities::from_attributes(ours).check(&group.resources)?;
    check_volumes(group, config.max_volumes_per_unit)?;
    check_hostnames(group, config)?;
    signed_by::check(&requirements.signed_by, &requirements.attributes, facts.audited)?;
    limits::check_group(group).map_err(|e| Decline::InvalidGroup {
        problem: e.to_string(),
    })?;
    check_reclamation(order.reclamation_min_window, config.reclamation_window)?;
    check_reclamation_range(facts.params, config)?;
    facts
        .params
        .map_or(Ok(()), |params| check_deposit(params, config))
}

/// Declines an order with services behind hostnames if the cluster does not route hostnames.
fn check_hostnames(group: &GroupSpec, config: &Config) -> Result<(), Decline> {
    let endpoints = group.resources.iter().flat_map(|unit| &unit.resources.endpoints);
    let behind_hostnames = endpoints.filter(|endpoint| endpoint.kind == EndpointKind::SharedHttp);
    match u32::try_from(behind_hostnames.count()).unwrap_or(u32::MAX) {
        wanted if wanted > 0 && !config.hostnames => Err(Decline::NoHostnames { wanted }),
        _ => Ok(()),
    }
}

/// Checks whether an order accepts another bid. `bids` is the number of open, active and closed bids. Lost
/// bids do not count.
///
/// The chain refuses a bid only if the number of bids is above the limit. An order can therefore get one bid
/// more than the limit.
///
/// # Errors
/// Returns [`Decline::OrderFull`].
pub const fn check_bid_count(bids: u32, params: &MarketParams) -> Result<(), Decline> {
    let limit = params.order_max_bids;
    if bids > limit {
        Err(Decline::OrderFull { bids, limit })
    } else {
        Ok(())
    }
}

fn check_volumes(group: &GroupSpec, limit: u32) -> Result<(), Decline> {
    for resources in group.resources.iter().map(|u| &u.resources) {
        let volumes = u32::try_from(resources.storage.len()).unwrap_or(u32::MAX);
        if volumes > limit {
            return Err(Decline::TooManyVolumes {
                unit: resources.id,
                volumes,
                limit,
            });
        }
    }
    Ok(())
}

/// Checks that the reclamation window `offered` is at least the window `wanted` of an order. Zero is the same
/// as `None`.
///
/// # Errors
/// Returns [`Decline::Reclamation`].
pub fn check_reclamation(wanted: Option<Duration>, offered: Option<Duration>) -> Result<(), Decline> {
    let offered = offered.filter(|w| !w.is_zero());
    let wanted = wanted.filter(|w| !w.is_zero());
    if let Some(wanted) = wanted.filter(|wanted| offered.is_none_or(|o| o < *wanted)) {
        return Err(Decline::Reclamation {
            wanted_s: whole_seconds_up(wanted),
            offered: offered.map_or_else(|| "none".to_owned(), |o| format!("{} s", o.as_secs())),
        });
    }
    Ok(())
}

fn check_reclamation_range(params: Option<&MarketParams>, config: &Config) -> Result<(), Decline> {
    let offered = config.reclamation_window.filter(|w| !w.is_zero());
    let (Some(offered), Some(params)) = (offered, params) else {
        return Ok(());
    };
    if offered < params.min_reclamation_window || offered > params.max_reclamation_window {
        return Err(Decline::ReclamationRange {
            offered_s: offered.as_secs(),
            min_s: whole_seconds_up(params.min_reclamation_window),
            max_s: params.max_reclamation_window.as_secs(),
        });
    }
    Ok(())
}

/// Rounds a minimum duration up to whole seconds. A lower value would be less than the minimum.
fn whole_seconds_up(window: Duration) -> u64 {
    window
        .as_secs()
        .saturating_add(u64::from(window.subsec_nanos() > 0))
}

/// Returns the configured deposits that the chain accepts, in the sequence of the configuration. If `params`
/// is `None`, returns all configured deposits.
pub fn deposits<'a>(config: &'a Config, params: Option<&MarketParams>) -> impl Iterator<Item = &'a Coin> {
    let taken = move |deposit: &&Coin| {
        let enough = |least: &Coin| least.denom == deposit.denom && deposit.amount >= least.amount;
        params.is_none_or(|params| params.bid_min_deposits.iter().any(enough))
    };
    config.bid_deposits().filter(taken)
}

/// Checks that the chain accepts at least one of the configured deposits.
///
/// # Errors
/// Returns [`Decline::Deposit`].
pub fn check_deposit(params: &MarketParams, config: &Config) -> Result<(), Decline> {
    if deposits(config, Some(params)).next().is_some() {
        return Ok(());
    }
    let list = |coins: Vec<String>| {
        if coins.is_empty() {
            "no deposit at all".to_owned()
        } else {
            coins.join(" or ")
        }
    };
    Err(Decline::Deposit {
        configured: list(config.bid_deposits().map(ToString::to_string).collect()),
        minimum: list(params.bid_min_deposits.iter().map(ToString::to_string).collect()),
    })
}

/// Formats at most twelve attributes as `key=value` pairs.
fn show_attributes(attributes: &[Attribute]) -> String {
    const SHOWN: usize = 12;
    let mut texts: Vec<String> = attributes
        .iter()
        .take(SHOWN)
        .map(|a| format!("{}={}", a.key, a.value))
        .collect();
    if attributes.len() > SHOWN {
        texts.push(format!("and {} more", attributes.len() - SHOWN));
    }
    texts.join(", ")
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
