//! Machine-readable codes of decline reasons.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Reason of a [`Decline`](crate::bidding::Decline) without its details. Statuses, events and logs contain
/// the code in `snake_case`. A code does not change between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is documented at the decline of its name")]
pub enum DeclineCode {
    AlreadyBid,
    Attributes,
    Deposit,
    ExternalPortsExhausted,
    Gpu,
    InsufficientCapacity,
    InvalidGroup,
    LeasedIpsExhausted,
    NoHostnames,
    NoLeasedIps,
    NotForUs,
    OrderFull,
    Price,
    PriceDenom,
    PriceTooHigh,
    Reclamation,
    ReclamationRange,
    Refused,
    SignedBy,
    Storage,
    TooLarge,
    TooManyAuditors,
    TooManyVolumes,
    Unknown,
}

impl DeclineCode {
    /// Returns the code as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AlreadyBid => "already_bid",
            Self::Attributes => "attributes",
            Self::Deposit => "deposit",
            Self::ExternalPortsExhausted => "external_ports_exhausted",
            Self::Gpu => "gpu",
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::InvalidGroup => "invalid_group",
            Self::LeasedIpsExhausted => "leased_ips_exhausted",
            Self::NoHostnames => "no_hostnames",
            Self::NoLeasedIps => "no_leased_ips",
            Self::NotForUs => "not_for_us",
            Self::OrderFull => "order_full",
            Self::Price => "price",
            Self::PriceDenom => "price_denom",
            Self::PriceTooHigh => "price_too_high",
            Self::Reclamation => "reclamation",
            Self::ReclamationRange => "reclamation_range",
            Self::Refused => "refused",
            Self::SignedBy => "signed_by",
            Self::Storage => "storage",
            Self::TooLarge => "too_large",
            Self::TooManyAuditors => "too_many_auditors",
            Self::TooManyVolumes => "too_many_volumes",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for DeclineCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
