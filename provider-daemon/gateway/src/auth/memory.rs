//! What the gateway remembers of the chain, so that tenants keep their access while the chain is away.

use akash_provider_core::types::Address;
use std::fmt;

/// Accounts and certificates remembered; the newest stay. Some hundred bytes each.
pub const REMEMBERED_MAX: u64 = 50_000;

/// A compressed public key.
pub type PublicKeyBytes = [u8; 33];
/// SHA-256 of a certificate's bytes.
pub type Fingerprint = [u8; 32];

/// Keys and certificates that the chain has shown to be true.
///
/// # Behavior
/// - what is kept is found until it is forgotten or pushed out by newer things
/// - forgetting what is not there is fine
/// - a backend that cannot read or write logs it and finds nothing: the chain is asked again
pub trait Memory: fmt::Debug + Send + Sync + 'static {
    /// The key of an account. It never changes.
    fn key(&self, account: &Address) -> Option<PublicKeyBytes>;
    /// Keeps the key of an account.
    fn keep_key(&self, account: &Address, key: PublicKeyBytes);
    /// True when a certificate was valid when the chain was last asked.
    fn has_certificate(&self, certificate: &Fingerprint) -> bool;
    /// Keeps a valid certificate.
    fn keep_certificate(&self, certificate: Fingerprint);
    /// A certificate is no longer valid.
    fn forget_certificate(&self, certificate: &Fingerprint);
}

/// A memory that ends with the process.
#[derive(Debug)]
pub struct Volatile {
    keys: moka::sync::Cache<Address, PublicKeyBytes>,
    certificates: moka::sync::Cache<Fingerprint, ()>,
}

impl Default for Volatile {
    fn default() -> Self {
        Self {
            keys: moka::sync::Cache::new(REMEMBERED_MAX),
            certificates: moka::sync::Cache::new(REMEMBERED_MAX),
        }
    }
}

impl Memory for Volatile {
    fn key(&self, account: &Address) -> Option<PublicKeyBytes> {
        self.keys.get(account)
    }
    fn keep_key(&self, account: &Address, key: PublicKeyBytes) {
        self.keys.insert(account.clone(), key);
    }
    fn has_certificate(&self, certificate: &Fingerprint) -> bool {
        self.certificates.contains_key(certificate)
    }
    fn keep_certificate(&self, certificate: Fingerprint) {
        self.certificates.insert(certificate, ());
    }
    fn forget_certificate(&self, certificate: &Fingerprint) {
        self.certificates.invalidate(certificate);
    }
}
