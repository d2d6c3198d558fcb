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
    Unsupported,
}

impl DeclineCode {
    /// All codes, in alphabetical order of their names.
    pub const ALL: [Self; 25] = [
        Self::AlreadyBid,
        Self::Attributes,
        Self::Deposit,
        Self::ExternalPortsExhausted,
        Self::Gpu,
        Self::InsufficientCapacity,
        Self::InvalidGroup,
        Self::LeasedIpsExhausted,
        Self::NoHostnames,
        Self::NoLeasedIps,
        Self::NotForUs,
        Self::OrderFull,
        Self::Price,
        Self::PriceDenom,
        Self::PriceTooHigh,
        Self::Reclamation,
        Self::ReclamationRange,
        Self::Refused,
        Self::SignedBy,
        Self::Storage,
        Self::TooLarge,
        Self::TooManyAuditors,
        Self::TooManyVolumes,
        Self::Unknown,
        Self::Unsupported,
    ];

    /// Returns true if the reason depends only on the group, not on the order. Bid screening returns only
    /// reasons of this kind.
    #[must_use]
    pub const fn needs_only_group(self) -> bool {
        match self {
            // The chain records bids by the ID of the order.
            Self::AlreadyBid | Self::OrderFull => false,
            // The order has the minimum window, the group does not.
            Self::Reclamation => false,
            // Only the chain refuses bids, and a screening sends none.
            Self::Refused => false,
            Self::Attributes
            | Self::Deposit
            | Self::ExternalPortsExhausted
            | Self::Gpu
            | Self::InsufficientCapacity
            | Self::InvalidGroup
            | Self::LeasedIpsExhausted
            | Self::NoHostnames
            | Self::NoLeasedIps
            | Self::NotForUs
            | Self::Price
            | Self::PriceDenom
            | Self::PriceTooHigh
            // The window of the provider, compared with the range of the chain.
            | Self::ReclamationRange
            | Self::SignedBy
            | Self::Storage
            | Self::TooLarge
            | Self::TooManyAuditors
            | Self::TooManyVolumes
            | Self::Unknown
            | Self::Unsupported => true,
        }
    }

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
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for DeclineCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_codes_is_complete() {
        let numbers: Vec<_> = DeclineCode::ALL.iter().map(|code| *code as usize).collect();
        assert_eq!(numbers, Vec::from_iter(0..numbers.len()));
        // The error of serde lists the variants of the type.
        let error = serde_json::from_str::<DeclineCode>("\"x\"")
            .unwrap_err()
            .to_string();
        let listed = error.matches('`').count() / 2 - 1;
        assert_eq!(listed, DeclineCode::ALL.len(), "{error}");
        assert!(DeclineCode::ALL.is_sorted_by_key(|code| code.as_str()));
    }
}
