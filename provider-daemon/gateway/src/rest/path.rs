//! Ids in request paths, and the errors for invalid ids.

use super::reply::{self, RejectionReply};
use akash_provider_core::types::{Address, DeploymentId, LeaseId};
use http::StatusCode;
use serde::Deserialize;

/// Ids in the path of a lease, unparsed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LeasePath {
    dseq: String,
    gseq: String,
    oseq: String,
}

impl LeasePath {
    pub(crate) fn lease(&self, owner: &Address, provider: &Address) -> Result<LeaseId, RejectionReply> {
        let deployment = deployment(owner, &self.dseq)?;
        let short =
            |text: &str| number(text, u64::from(u32::MAX)).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        Ok(deployment
            .group(short(&self.gseq)?)
            .order(short(&self.oseq)?)
            .bid(provider.clone()))
    }
}

pub(super) fn deployment(owner: &Address, dseq: &str) -> Result<DeploymentId, RejectionReply> {
    Ok(DeploymentId::new(owner.clone(), number(dseq, u64::MAX)?))
}

fn number(text: &str, max: u64) -> Result<u64, RejectionReply> {
    let invalid = |why| reply::text(StatusCode::BAD_REQUEST, bad_number("Uint", text, why)).into();
    parse_number(text, max).map_err(invalid)
}

/// Parses a decimal number that is at most `max`. The error is a text such as `value out of range`.
fn parse_number(text: &str, max: u64) -> Result<u64, &'static str> {
    // Rust's parser accepts a leading `+`; the network's does not.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    let parsed = text.parse().ok().filter(|n| *n <= max);
    parsed.ok_or("value out of range")
}

/// Returns the error text of the Go provider for an invalid number or boolean.
pub(crate) fn bad_number(what: &str, text: &str, why: &str) -> String {
    // Client data: repeated in the response, but only up to a length.
    let short: String = text.chars().take(64).collect();
    format!("strconv.Parse{what}: parsing {short:?}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_within_their_range() {
        assert_eq!(parse_number("0", 9), Ok(0));
        assert_eq!(parse_number("18446744073709551615", u64::MAX), Ok(u64::MAX));
        for text in ["", "x", "-1", "+1", "1_0", " 1", "1.0", "0x1"] {
            assert_eq!(parse_number(text, 9), Err("invalid syntax"), "{text}");
        }
        assert_eq!(parse_number("10", 9), Err("value out of range"));
        assert_eq!(
            parse_number("99999999999999999999", u64::MAX),
            Err("value out of range")
        );
        let text = bad_number("Uint", "x", "invalid syntax");
        assert_eq!(text, "strconv.ParseUint: parsing \"x\": invalid syntax");
    }
}
