//! Stored results of chain queries, so that tenants keep their access during an outage of the chain.

use akash_provider_core::types::Address;
use std::fmt;

/// Maximum number of stored accounts, and maximum number of stored certificates. The oldest are removed first. An entry
/// takes some hundred bytes.
pub const STORED_MAX: u64 = 50_000;

/// A compressed public key.
pub type PublicKeyBytes = [u8; 33];
/// SHA-256 of a certificate's bytes.
pub type Fingerprint = [u8; 32];

/// Keys and certificates that the chain has confirmed.
///
/// # Behavior
/// - a stored entry is found until the entry is removed, or evicted in favor of newer entries
/// - removing a missing entry succeeds
/// - a backend that cannot read or write logs the error and finds nothing: the chain is queried again
pub trait Memory: fmt::Debug + Send + Sync + 'static {
    /// Returns the key of an account. A key never changes.
    fn key(&self, account: &Address) -> Option<PublicKeyBytes>;
    /// Stores the key of an account.
    fn store_key(&self, account: &Address, key: PublicKeyBytes);
    /// Returns true if a certificate was valid at its last check.
    fn has_certificate(&self, certificate: &Fingerprint) -> bool;
    /// Stores a valid certificate.
    fn store_certificate(&self, certificate: Fingerprint);
    /// Removes a certificate that is no longer valid.
    fn remove_certificate(&self, certificate: &Fingerprint);
}

/// Memory without persistence.
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

impl Memory for InMemory {
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
