//! Who is who in the embedded market.

use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::Address;
use anyhow::Context;

/// Chain id of an embedded market; where its leases are on a real cluster, a time is added to it.
pub const CHAIN_ID: &str = "dev";
/// The auditor who signs for a provider that accepts anything.
pub const AUDITOR: &str = "dev-auditor";
/// The SDL that is played when none is given.
pub const SAMPLE: &str = include_str!("../../samples/web.yaml");
/// The same, where services run as processes.
pub const PROCESS_SAMPLE: &str = include_str!("../../samples/processes.yaml");

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
    Ok(tenant_key(number)?.address().clone())
}

/// The key of a tenant: anybody can know it, so that anybody can be that tenant.
///
/// # Errors
/// Never, in practice: the bytes are a key.
pub fn tenant_key(number: u32) -> anyhow::Result<PrivateKey> {
    let bytes = format!("embedded-tenant-of-dev{number:010}");
    Ok(PrivateKey::from_bytes(bytes.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenant_is_somebody_else() {
        let all: Vec<Address> = [0, 1, u32::MAX].map(|n| tenant(n).unwrap()).into();
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }
}
