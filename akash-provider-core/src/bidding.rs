//! Whether to bid: a pure decision, and a decline is a value with its reason.
//!
//! ```text
//!  should_bid ──► Capacity::fit ──► check_bid_count ──► price_request ──► a strategy ──► judge_price
//!  may we         is there room     does it take one    of what it would get             is it worth it
//! ```
//! The engine goes this way with every order and keeps what it reserves; [`screen()`] goes it with a copy and keeps
//! nothing. Everything is passed in, so nothing that is known can be stale.

pub mod attributes;
pub mod capabilities;
pub mod limits;
mod price;
mod profile;
mod screen;
mod signed_by;
mod size;

pub use capabilities::Capabilities;
pub use price::{check_price, judge_price, price_request};
pub use profile::accepting_profile;
#[cfg(feature = "runtime")]
pub use screen::screen;
pub use screen::{Offer, Verdict, consider};
pub use signed_by::{AUDITORS_MAX, auditors};
pub(crate) use size::cut;
pub use size::{COMPARISONS_MAX, UNITS_MAX, check_size};

use crate::config::Config;
use crate::types::{
    Attribute, AuditedAttributes, Coin, DeclineCode, EndpointKind, GroupSpec, MarketParams, Order,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Why we do not bid. `code` is for counting, `Display` for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decline {
    /// The order asks for attributes we do not declare.
    #[error("the order asks for {key}={value}, which this provider does not declare")]
    Attributes {
        /// Key of the first unmatched requirement.
        key: String,
        /// Its value as the order asks for it.
        value: String,
    },
    /// We bid only on orders that ask for our configured attributes.
    #[error("this provider bids only on orders that ask for {key}={value}")]
    NotForUs {
        /// Key of the first configured attribute that the order lacks.
        key: String,
        /// Its value as it is configured.
        value: String,
    },
    /// No declared storage capability has all attributes of a volume.
    #[error("unit {unit}: volume `{volume}` wants {wanted}, which no declared storage capability offers")]
    Storage {
        /// Resource id of the unit.
        unit: u32,
        /// Name of the volume in its unit.
        volume: String,
        /// Attributes that the volume asks for, for people.
        wanted: String,
    },
    /// None of the acceptable GPU models is declared.
    #[error("unit {unit}: none of the GPU models {wanted} is declared by this provider")]
    Gpu {
        /// Resource id of the unit.
        unit: u32,
        /// Models that the unit accepts, for people.
        wanted: String,
    },
    /// A unit has too many volumes.
    #[error("unit {unit} has {volumes} volumes; at most {limit} are served")]
    TooManyVolumes {
        /// Resource id of the unit.
        unit: u32,
        /// Volumes that the unit asks for.
        volumes: u32,
        /// Most volumes of a unit that are served, as configured.
        limit: u32,
    },
    /// The required audits are missing.
    #[error("the order asks for signatures: {missing}")]
    SignedBy {
        /// Signatures that are missing, for people.
        missing: String,
    },
    /// It names more auditors than are asked.
    #[error("the order names {auditors} auditors; orders with more than {limit} are not looked at")]
    TooManyAuditors {
        /// Auditors that the order names.
        auditors: u32,
        /// Most auditors that are asked about one order.
        limit: u32,
    },
    /// Looking at it would cost more than one order may.
    #[error("the order takes {value} {what}; orders with more than {limit} are not looked at")]
    TooLarge {
        /// What there is too much of.
        what: String,
        /// How much of it.
        value: u64,
        /// Most of it that an order may take.
        limit: u64,
    },
    /// The group breaks a limit of the network.
    #[error("the group is invalid: {problem}")]
    InvalidGroup {
        /// Which limit is broken and where, for people.
        problem: String,
    },
    /// The order asks for a reclamation window that we do not offer.
    #[error(
        "the order asks for a reclamation window of at least {wanted_s} s; this provider offers {offered}"
    )]
    Reclamation {
        /// Shortest window that the order accepts, in seconds, rounded up.
        wanted_s: u64,
        /// Window we offer in seconds, or `none`, for people.
        offered: String,
    },
    /// The chain takes no bid with the window this provider offers.
    #[error(
        "this provider offers a reclamation window of {offered_s} s; the chain takes {min_s} s to {max_s} s"
    )]
    ReclamationRange {
        /// Window we offer, in whole seconds.
        offered_s: u64,
        /// Shortest the chain takes, in seconds.
        min_s: u64,
        /// Longest the chain takes, in seconds.
        max_s: u64,
    },
    /// The order takes no more bids.
    #[error("the order has {bids} bids already; the chain takes another one only up to {limit}")]
    OrderFull {
        /// Bids that count: open, active and closed ones.
        bids: u32,
        /// The chain's `order_max_bids`; a bid gets in while there are no more than these.
        limit: u32,
    },
    /// Our deposit is not accepted.
    #[error("the configured bid deposit {configured} is below what the chain asks: {minimum}")]
    Deposit {
        /// Deposits that we would pay, for people.
        configured: String,
        /// What the chain accepts.
        minimum: String,
    },
    /// The cluster has no room for all of its replicas.
    #[error("{message}")]
    InsufficientCapacity {
        /// What was missing, in one line.
        message: String,
    },
    /// Services are to be reached by hostname and the backend makes none lead anywhere.
    #[error("the order wants {wanted} services behind hostnames and this provider's cluster serves none")]
    NoHostnames {
        /// Endpoints behind hostnames that the order has.
        wanted: u32,
    },
    /// Leased IPs are wanted and the backend has none.
    #[error("no leased IPs available: the order wants {wanted} and this provider leases none")]
    NoLeasedIps {
        /// Leased IPs that the order needs.
        wanted: u32,
    },
    /// Not enough leased IPs are free.
    #[error("insufficient number of IPs: unable to reserve {wanted}, {free} are free")]
    LeasedIpsExhausted {
        /// Leased IPs that the order needs.
        wanted: u32,
        /// Leased IPs neither in use nor promised.
        free: u32,
    },
    /// Not enough external ports are free.
    #[error("the order wants {wanted} external ports, {free} are free")]
    ExternalPortsExhausted {
        /// External ports that the order needs.
        wanted: u32,
        /// External ports that no reservation holds.
        free: u32,
    },
    /// No price could be calculated.
    #[error("no price: {message}")]
    Price {
        /// What went wrong, for people.
        message: String,
    },
    /// The price is in another denomination than the order's.
    #[error("the price is in {price}, the order in {order}")]
    PriceDenom {
        /// Denomination of the price that was calculated.
        price: String,
        /// Denomination that the tenant pays in.
        order: String,
    },
    /// The price is above what the tenant pays.
    #[error("the price {price} is above the tenant's maximum {maximum}")]
    PriceTooHigh {
        /// Price that was calculated, with its denomination.
        price: String,
        /// Most that the tenant pays for the group per block, with its denomination.
        maximum: String,
    },
    /// The chain refused the bid.
    #[error("the chain refused the bid: {message}")]
    Refused {
        /// The chain's words, for people.
        message: String,
    },
    /// We have bid on this order before; the chain allows one bid ever.
    #[error("this provider has bid on the order before and the chain allows one bid ever")]
    AlreadyBid,
    /// What is needed to decide could not be found out.
    #[error("not decided: {message}")]
    Unknown {
        /// What went wrong, for people.
        message: String,
    },
}

impl Decline {
    /// The reason alone.
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
        }
    }

    /// True when the same order might be worth a bid later, because what is missing can come back.
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

/// What is known about ourselves and the market when an order is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Our attributes as the chain has them at this moment; `None` while we are not registered, and then nothing is
    /// bid on.
    pub attributes: Option<&'a [Attribute]>,
    /// What auditors have signed about us.
    pub audited: &'a [AuditedAttributes],
    /// Market parameters; `None` while they are not known, and then nothing is checked against them.
    pub params: Option<&'a MarketParams>,
    /// Bids of others on the order that count against the chain's limit; `None` where they were not counted. Looked at
    /// once the order has a place ([`check_bid_count`]).
    pub bids: Option<u32>,
}

/// Whether we may bid on an order.
///
/// The checks and their order are the network's: placement attributes, our own required attributes,
/// capabilities, number of volumes, signatures, limits of the group. Then what the chain would refuse a bid
/// for although it is never looked at by today's provider: the reclamation window and the deposit. Before all
/// of them an order is left alone that would cost too much to look at ([`check_size`]).
///
/// # Errors
/// The first reason not to bid.
pub fn should_bid(order: &Order, facts: &Facts<'_>, config: &Config) -> Result<(), Decline> {
    check(order, facts, config).map_err(Decline::shortened)
}

fn check(order: &Order, facts: &Facts<'_>, config: &Config) -> Result<(), Decline> {
    let group = &*order.spec;
    // Before all other checks, because their cost grows with the order.
    check_size(group)?;
    let ours = facts.attributes.ok_or_else(|| Decline::Unknown {
        message: "this provider is not registered on the chain".to_owned(),
    })?;
    // It needs our attributes, and still comes before any of them is compared.
    size::check_comparisons(group, facts, config)?;
    let requirements = &group.requirements;
    if let Some(unmet) = attributes::first_unmet(&requirements.attributes, ours) {
        let Attribute { key, value } = unmet.clone();
        return Err(Decline::Attributes { key, value });
    }
    if let Some(lacking) = attributes::first_unmet(&config.required_attributes, &requirements.attributes) {
        let Attribute { key, value } = lacking.clone();
        return Err(Decline::NotForUs { key, value });
    }
    Capabilities::of(ours).check(&group.resources)?;
    check_volumes(group, config.max_volumes_per_unit)?;
    check_hostnames(group, config)?;
    signed_by::check(&requirements.signed_by, &requirements.attributes, facts.audited)?;
    limits::check_group(group).map_err(|e| Decline::InvalidGroup {
        problem: e.to_string(),
    })?;
    check_reclamation(order.reclamation_min_window, facts.params, config)?;
    facts
        .params
        .map_or(Ok(()), |params| check_deposit(params, config))
}

/// A service that nobody can reach is no use to its tenant.
fn check_hostnames(group: &GroupSpec, config: &Config) -> Result<(), Decline> {
    let endpoints = group.resources.iter().flat_map(|unit| &unit.resources.endpoints);
    let behind_hostnames = endpoints.filter(|endpoint| endpoint.kind == EndpointKind::SharedHttp);
    match u32::try_from(behind_hostnames.count()).unwrap_or(u32::MAX) {
        wanted if wanted > 0 && !config.hostnames => Err(Decline::NoHostnames { wanted }),
        _ => Ok(()),
    }
}

/// Whether an order still takes a bid. `bids` are its open, active and closed ones; lost ones do not count.
///
/// The chain refuses a bid when there are *more* than its limit, so one more than the limit gets in.
///
/// # Errors
/// [`Decline::OrderFull`].
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

fn check_reclamation(
    wanted: Option<Duration>,
    params: Option<&MarketParams>,
    config: &Config,
) -> Result<(), Decline> {
    // A window of zero is none, on either side.
    let offered = config.reclamation_window.filter(|w| !w.is_zero());
    let wanted = wanted.filter(|w| !w.is_zero());
    if let Some(wanted) = wanted.filter(|wanted| offered.is_none_or(|o| o < *wanted)) {
        return Err(Decline::Reclamation {
            wanted_s: whole_seconds_up(wanted),
            offered: offered.map_or_else(|| "none".to_owned(), |o| format!("{} s", o.as_secs())),
        });
    }
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

/// So that a limit read back from a decline is one that holds.
fn whole_seconds_up(window: Duration) -> u64 {
    window
        .as_secs()
        .saturating_add(u64::from(window.subsec_nanos() > 0))
}

/// The deposits that a bid may have: those of the configured ones that the chain takes, by preference; all of them
/// while its parameters are not known. Which of them is paid is a matter of what the account has.
pub fn deposits<'a>(config: &'a Config, params: Option<&MarketParams>) -> impl Iterator<Item = &'a Coin> {
    let taken = move |deposit: &&Coin| {
        let enough = |least: &Coin| least.denom == deposit.denom && deposit.amount >= least.amount;
        params.is_none_or(|params| params.bid_min_deposits.iter().any(enough))
    };
    config.bid_deposits().filter(taken)
}

/// Whether the chain takes any of the configured deposits.
///
/// # Errors
/// [`Decline::Deposit`].
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

/// `key=value` pairs for a decline, shortened where a tenant made them very long.
fn show_attributes(attributes: &[Attribute]) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = attributes
        .iter()
        .take(SHOWN)
        .map(|a| format!("{}={}", a.key, a.value))
        .collect();
    if attributes.len() > SHOWN {
        shown.push(format!("and {} more", attributes.len() - SHOWN));
    }
    shown.join(", ")
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
