//! Ids in paths, and what is said of those that are none.

use super::{Refused, answer};
use akash_provider_core::types::{Address, DeploymentId, GroupId, LeaseId, OrderId};
use http::StatusCode;
use serde::Deserialize;

/// The ids in the path of a lease, as they came.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LeasePath {
    dseq: String,
    gseq: String,
    oseq: String,
}

impl LeasePath {
    /// The lease of a tenant with a provider.
    pub(crate) fn lease(&self, owner: &Address, provider: &Address) -> Result<LeaseId, Refused> {
        let deployment = deployment(owner, &self.dseq)?;
        let short =
            |text: &str| number(text, u64::from(u32::MAX)).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        Ok(LeaseId {
            order: OrderId {
                group: GroupId {
                    deployment,
                    gseq: short(&self.gseq)?,
                },
                oseq: short(&self.oseq)?,
            },
            provider: provider.clone(),
        })
    }
}

/// A deployment of a tenant.
pub(super) fn deployment(owner: &Address, dseq: &str) -> Result<DeploymentId, Refused> {
    Ok(DeploymentId {
        owner: owner.clone(),
        dseq: number(dseq, u64::MAX)?,
    })
}

fn number(text: &str, max: u64) -> Result<u64, Refused> {
    parse_number(text, max).map_err(|why| {
        Box::new(answer::text(
            StatusCode::BAD_REQUEST,
            bad_number("Uint", text, why),
        ))
    })
}

/// A number of digits alone.
fn parse_number(text: &str, max: u64) -> Result<u64, &'static str> {
    // Rust's parser takes a leading `+`, which the network's does not.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    let parsed = text.parse().ok().filter(|n| *n <= max);
    parsed.ok_or("value out of range")
}

/// What today's provider says of text that is not what it should be.
pub(crate) fn bad_number(what: &str, text: &str, why: &str) -> String {
    // The text is a stranger's: it goes back into the answer, but not at any length.
    let shown: String = text.chars().take(64).collect();
    format!("strconv.Parse{what}: parsing {shown:?}: {why}")
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
