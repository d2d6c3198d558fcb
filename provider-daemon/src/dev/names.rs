//! Who is who in the embedded market.

use akash_provider_core::types::Address;

/// Its chain id.
pub const CHAIN_ID: &str = "dev";
/// The auditor who signs for a provider that accepts anything.
pub const AUDITOR: &str = "dev-auditor";
/// The SDL that is played when none is given.
pub const SAMPLE: &str = include_str!("../../samples/web.yaml");

/// The provider's account.
///
/// # Errors
/// Never, in practice: the bytes are fixed.
pub fn provider() -> anyhow::Result<Address> {
    Ok(Address::from_bytes(b"embedded-provider-01")?)
}

/// The account of a tenant.
///
/// # Errors
/// Never, in practice: the number fits.
pub fn tenant(number: u32) -> anyhow::Result<Address> {
    Ok(Address::from_bytes(
        format!("embedded-ten-{number:07}").as_bytes(),
    )?)
}
