//! Whether to bid: a pure decision, and a decline is a value with its reason.

use serde::{Deserialize, Serialize};

/// Why we do not bid. `code` is for counting, `Display` for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Decline {
    /// The order asks for attributes we do not declare.
    #[error("the order asks for {key}={value}, which this provider does not declare")]
    Attributes {
        /// Key of the first unmatched requirement.
        key: String,
        /// Its value.
        value: String,
    },
    /// We bid only on orders that ask for our configured attributes.
    #[error("this provider bids only on orders that ask for {key}={value}")]
    NotForUs {
        /// Key of the first configured attribute that the order lacks.
        key: String,
        /// Its value.
        value: String,
    },
    /// No declared storage capability has all attributes of a volume.
    #[error("unit {unit}: volume `{volume}` wants {wanted}, which no declared storage capability offers")]
    Storage {
        /// Resource id.
        unit: u32,
        /// Volume.
        volume: String,
        /// Its attributes.
        wanted: String,
    },
    /// None of the acceptable GPU models is declared.
    #[error("unit {unit}: none of the GPU models {wanted} is declared by this provider")]
    Gpu {
        /// Resource id.
        unit: u32,
        /// The acceptable models.
        wanted: String,
    },
    /// A unit has too many volumes.
    #[error("unit {unit} has {volumes} volumes; at most {limit} are served")]
    TooManyVolumes {
        /// Resource id.
        unit: u32,
        /// Volumes it has.
        volumes: u32,
        /// The limit.
        limit: u32,
    },
    /// The required audits are missing.
    #[error("the order asks for signatures: {missing}")]
    SignedBy {
        /// What is missing.
        missing: String,
    },
    /// The group breaks a limit of the network.
    #[error("the group is invalid: {problem}")]
    InvalidGroup {
        /// What, where.
        problem: String,
    },
    /// The order asks for a reclamation window that we do not offer.
    #[error(
        "the order asks for a reclamation window of at least {wanted_s} s; this provider offers {offered}"
    )]
    Reclamation {
        /// Seconds.
        wanted_s: u64,
        /// What we offer.
        offered: String,
    },
    /// Our deposit is not accepted.
    #[error("the configured bid deposit {configured} is below what the chain asks: {minimum}")]
    Deposit {
        /// As configured.
        configured: String,
        /// What the chain accepts.
        minimum: String,
    },
    /// Nothing fits.
    #[error("{message}")]
    InsufficientCapacity {
        /// What was missing.
        message: String,
    },
    /// Leased IPs are wanted and the backend has none.
    #[error("no leased IPs available: the order wants {wanted} and this provider leases none")]
    NoLeasedIps {
        /// Addresses wanted.
        wanted: u32,
    },
    /// Not enough leased IPs are free.
    #[error("insufficient number of IPs: unable to reserve {wanted}, {free} are free")]
    LeasedIpsExhausted {
        /// Addresses wanted.
        wanted: u32,
        /// Addresses free.
        free: u32,
    },
    /// Not enough external ports are free.
    #[error("the order wants {wanted} external ports, {free} are free")]
    ExternalPortsExhausted {
        /// Ports wanted.
        wanted: u32,
        /// Ports free.
        free: u32,
    },
    /// No price could be calculated.
    #[error("no price: {message}")]
    Price {
        /// Why.
        message: String,
    },
    /// The price is in another denomination than the order's.
    #[error("the price is in {price}, the order in {order}")]
    PriceDenom {
        /// Ours.
        price: String,
        /// The tenant's.
        order: String,
    },
    /// The price is above what the tenant pays.
    #[error("the price {price} is above the tenant's maximum {maximum}")]
    PriceTooHigh {
        /// Ours.
        price: String,
        /// The tenant's.
        maximum: String,
    },
    /// The chain refused the bid.
    #[error("the chain refused the bid: {message}")]
    Refused {
        /// Its words.
        message: String,
    },
    /// We have bid on this order before; the chain allows one bid ever.
    #[error("this provider has bid on the order before and the chain allows one bid ever")]
    AlreadyBid,
    /// What is needed to decide could not be found out.
    #[error("not decided: {message}")]
    Unknown {
        /// Why.
        message: String,
    },
}

impl Decline {
    /// The reason as one short word.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Attributes { .. } => "attributes",
            Self::NotForUs { .. } => "not_for_us",
            Self::Storage { .. } => "storage",
            Self::Gpu { .. } => "gpu",
            Self::TooManyVolumes { .. } => "too_many_volumes",
            Self::SignedBy { .. } => "signed_by",
            Self::InvalidGroup { .. } => "invalid_group",
            Self::Reclamation { .. } => "reclamation",
            Self::Deposit { .. } => "deposit",
            Self::InsufficientCapacity { .. } => "insufficient_capacity",
            Self::NoLeasedIps { .. } => "no_leased_ips",
            Self::LeasedIpsExhausted { .. } => "leased_ips_exhausted",
            Self::ExternalPortsExhausted { .. } => "external_ports_exhausted",
            Self::Price { .. } => "price",
            Self::PriceDenom { .. } => "price_denom",
            Self::PriceTooHigh { .. } => "price_too_high",
            Self::Refused { .. } => "refused",
            Self::AlreadyBid => "already_bid",
            Self::Unknown { .. } => "unknown",
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
                | Self::Unknown { .. }
        )
    }
}
