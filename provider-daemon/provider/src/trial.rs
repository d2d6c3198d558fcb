//! Accounts, samples and limits of the embedded market of `dev`. `explain` uses them for a provider without a
//! chain.

use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::market::network_params;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{Address, GroupSpec};
use anyhow::Context;
use std::time::Duration;

/// Chain ID of the embedded market. On a Kubernetes cluster, the chain ID also contains the genesis time.
pub const CHAIN_ID: &str = "dev";
/// Auditor that signs the provider's attributes if `--accept-any` is set.
pub const AUDITOR: &str = "dev-auditor";
/// SDL that `dev` deploys if the command line names no SDL.
pub const SAMPLE: &str = include_str!("trial/web.yaml");
/// SDL that `dev --processes` deploys if the command line names no SDL.
pub const PROCESS_SAMPLE: &str = include_str!("trial/processes.yaml");

/// Returns the account of the provider.
///
/// # Errors
/// Returns an error only for an invalid constant.
pub fn provider() -> anyhow::Result<Address> {
    Ok(Address::from_bytes(b"embedded-provider-01")?)
}

/// Returns the private key of the provider for `--wire`. This key is no secret.
///
/// # Errors
/// Returns an error only for an invalid constant.
pub fn provider_key() -> anyhow::Result<PrivateKey> {
    PrivateKey::from_bytes(b"embedded-provider-of-everybody-1")
        .context("invalid built-in key of the provider")
}

/// Returns the account of a tenant.
///
/// # Errors
/// Returns an error only for an invalid number.
pub fn tenant(number: u32) -> anyhow::Result<Address> {
    Ok(tenant_key(number)?.address().clone())
}

/// Returns the private key of a tenant. This key is no secret.
///
/// # Errors
/// Returns an error only for an invalid number.
pub fn tenant_key(number: u32) -> anyhow::Result<PrivateKey> {
    let bytes = format!("embedded-tenant-of-dev{number:010}");
    Ok(PrivateKey::from_bytes(bytes.as_bytes())?)
}

/// Returns the widest reclamation window of these SDLs, or `None` if no SDL requests a window. The result is
/// not below the minimum window of the chain.
pub fn widest_reclamation<'a>(sdls: impl IntoIterator<Item = &'a Sdl>) -> Option<Duration> {
    let wanted = sdls.into_iter().filter_map(|sdl| sdl.reclamation_min_window);
    let least = network_params().min_reclamation_window;
    wanted.max().map(|window| window.max(least))
}

/// Returns the largest number of volumes of one resource unit.
pub fn most_volumes<'a>(groups: impl IntoIterator<Item = &'a GroupSpec>) -> u32 {
    let units = groups.into_iter().flat_map(|g| &g.resources);
    let most = units.map(|u| u.resources.storage.len()).max().unwrap_or(0);
    u32::try_from(most).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_different_accounts_for_tenants() {
        let all: Vec<Address> = [0, 1, u32::MAX].map(|n| tenant(n).unwrap()).into();
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }
}
