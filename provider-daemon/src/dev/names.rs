//! Who is who in the embedded market.

use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::Address;
use anyhow::Context;

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

/// The key of the provider that speaks to its market over the wire. Anybody knows it.
///
/// # Errors
/// Never, in practice: the bytes are fixed.
pub fn provider_key() -> anyhow::Result<PrivateKey> {
    PrivateKey::from_bytes(b"embedded-provider-of-everybody-1").context("the provider's key")
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
