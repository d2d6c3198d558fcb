//! Conversions between the messages of the Akash network and the types of the core crate. No other module
//! uses both of these.
//!
//! Incoming messages are validated: ids can be parsed, amounts are numbers, states are known. Outgoing
//! messages have the same bytes as the messages of the Go tools, including the empty fields that the Go tools
//! always encode.

mod ids;
mod messages;
mod money;
mod records;
mod requests;
mod resources;
pub mod responses;
mod tenants;
#[cfg(test)]
mod tests;

pub use ids::{address, bid_id, deployment_id, group_id, lease_id, order_id};
pub use messages::{from_any, to_any, wire_offer};
pub(crate) use money::dec_coin_from_text;
pub use money::wire_dec_coin;
pub use records::{
    account, audited, bid, block_header, certificate, coin_balance, deployment, group, lease, lease_record,
    market_params, order, provider,
};
pub(crate) use records::{audited_by, close_reason, event_address};
pub use requests::{
    auditor_request, balance_request, bid_request, bids_request, certificates_request, deployment_leases,
    deployment_request, group_request, lease_request, leases_request, order_request, orders_request,
};
pub use resources::{group_spec, wire_group_spec};
pub use tenants::{tenant_from_any, tenant_to_any};

/// Message with a missing or invalid field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {why}")]
pub struct Malformed {
    /// Path of the missing or invalid field.
    pub part: String,
    /// Reason why the field is invalid.
    pub why: String,
}

/// Maximum number of characters of an untrusted text in an error.
const EXCERPT_MAX: usize = 120;

impl Malformed {
    pub(crate) fn new(part: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            why: why.into(),
        }
    }

    /// Puts the name of the enclosing field before the path.
    fn within(self, outer: &str) -> Self {
        Self {
            part: format!("{outer}.{}", self.part),
            why: self.why,
        }
    }
}

/// Returns the start of an untrusted text, at most 120 characters, escaped for error messages.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(EXCERPT_MAX)
        .flat_map(char::escape_default)
        .collect();
    if text.chars().nth(EXCERPT_MAX).is_some() {
        short.push('…');
    }
    short
}

fn required<T>(part: &str, value: Option<T>) -> Result<T, Malformed> {
    value.ok_or_else(|| Malformed::new(part, "is missing"))
}

fn height(part: &str, value: i64) -> Result<u64, Malformed> {
    u64::try_from(value).map_err(|_| Malformed::new(part, format!("{value} is not a height")))
}

fn unknown_state(number: i32) -> Malformed {
    Malformed::new("state", format!("unknown state {number}"))
}
