//! Store for results of chain queries, so that tenants can authenticate during an outage of the chain.

use akash_provider_core::types::Address;
use std::fmt;

/// Maximum number of stored accounts, and of stored certificates. A full store evicts entries.
pub const STORED_MAX: u64 = 50_000;

/// Compressed secp256k1 public key of an account.
pub type PublicKeyBytes = [u8; 33];
/// SHA-256 of the DER bytes of a certificate.
pub type Fingerprint = [u8; 32];

/// Store of public keys and certificates that the chain has confirmed.
///
/// # Behavior
/// - A stored entry is returned until a caller removes the entry. A full store can evict old entries.
/// - Removing a missing entry succeeds.
/// - If the backend cannot read or write, the backend logs the error and returns no entry. The gateway then
///   queries the chain again.
pub trait AuthStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the public key of an account. The key of an account never changes.
    fn key(&self, account: &Address) -> Option<PublicKeyBytes>;
    /// Stores the public key of an account.
    fn store_key(&self, account: &Address, key: PublicKeyBytes);
    /// Returns true if this fingerprint is stored. Only fingerprints of valid certificates are stored.
    fn has_certificate(&self, certificate: &Fingerprint) -> bool;
    /// Stores the fingerprint of a valid certificate.
    fn store_certificate(&self, certificate: Fingerprint);
    /// Removes the fingerprint of a certificate that is no longer valid.
    fn remove_certificate(&self, certificate: &Fingerprint);
}

/// [`AuthStore`] that loses its entries when the process ends.
#[derive(Debug)]
pub struct InMemory {
    keys: moka::sync::Cache<Address, PublicKeyBytes>,
    certificates: moka::sync::Cache<Fingerprint, ()>,
}

impl Default for InMemory {
    fn default() -> Self {
        Self {
            keys: moka::sync::Cache::new(STORED_MAX),
            certificates: moka::sync::Cache::new(STORED_MAX),
        }
    }
}

impl AuthStore for InMemory {
    fn key(&self, account: &Address) -> Option<PublicKeyBytes> {
        self.keys.get(account)
    }
    fn store_key(&self, account: &Address, key: PublicKeyBytes) {
        self.keys.insert(account.clone(), key);
    }
    fn has_certificate(&self, certificate: &Fingerprint) -> bool {
        self.certificates.contains_key(certificate)
    }
    fn store_certificate(&self, certificate: Fingerprint) {
        self.certificates.insert(certificate, ());
    }
    fn remove_certificate(&self, certificate: &Fingerprint) {
        self.certificates.invalidate(certificate);
    }
}
