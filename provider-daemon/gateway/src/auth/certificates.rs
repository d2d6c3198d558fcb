//! Client certificates of tenants, compared with the certificates on the chain.

use super::LookupFault;
use super::lookups::Lookups;
use super::memory::{AuthStore, Fingerprint};
use akash_provider_chain::cert;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Address;
use moka::future::Cache;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of entries per cache.
const CACHED_MAX: u64 = 10_000;
/// Time for which the gateway caches that a certificate is not valid on the chain.
const UNKNOWN_FOR: Duration = Duration::from_secs(15);
/// Maximum time for which a request waits for the chain to confirm a previously valid certificate. After this
/// time, the request is accepted. The response of the chain applies to later requests.
const RECHECK_TIMEOUT: Duration = Duration::from_millis(300);
/// Time for which a failed query is cached, so that the first request of a new connection does not repeat the
/// query.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// Client certificate of a TLS connection. The TLS handshake proved possession of the private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// Account named in the certificate.
    pub owner: Address,
    /// Serial number in decimal digits, as in chain queries.
    pub serial: String,
    /// End of the validity period of the certificate, since the Unix epoch.
    pub not_after: Duration,
    fingerprint: Fingerprint,
}

impl ClientCertificate {
    /// Parses a certificate. Returns `None` if the certificate does not have the format of the Akash network.
    /// The TLS handshake already refuses such certificates.
    #[must_use]
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let facts = cert::read_der(der).ok()?;
        Some(Self {
            owner: facts.owner,
            serial: facts.serial,
            not_after: facts.not_after,
            fingerprint: Sha256::digest(der).into(),
        })
    }
}

/// Caches of certificate checks.
#[derive(Debug)]
pub(super) struct Certificates {
    chain: Arc<dyn ChainQuery>,
    memory: Arc<dyn AuthStore>,
    lookups: Arc<Lookups>,
    valid: Cache<Fingerprint, ()>,
    unknown: moka::sync::Cache<Fingerprint, ()>,
    failed: moka::sync::Cache<Fingerprint, LookupFault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotValid {
    Unknown,
    Fault(LookupFault),
}

impl Certificates {
    /// Creates empty caches. A valid certificate is queried again after `valid_for`.
    pub(super) fn new(
        chain: Arc<dyn ChainQuery>,
        memory: Arc<dyn AuthStore>,
        lookups: Arc<Lookups>,
        valid_for: Duration,
    ) -> Self {
        Self {
            chain,
            memory,
            lookups,
            valid: Cache::builder()
                .max_capacity(CACHED_MAX)
                .time_to_live(valid_for)
                .build(),
            unknown: moka::sync::Cache::builder()
                .max_capacity(CACHED_MAX)
                .time_to_live(UNKNOWN_FOR)
                .build(),
            failed: moka::sync::Cache::builder()
                .max_capacity(CACHED_MAX)
                .time_to_live(FAILED_FOR)
                .build(),
        }
    }

    /// Returns true if the chain stores the same certificate and the certificate is not revoked. If the chain
    /// query fails, a previously valid certificate counts as valid; any other certificate causes an error.
    pub(super) async fn is_valid(
        &self,
        certificate: &ClientCertificate,
        peer: IpAddr,
    ) -> Result<bool, LookupFault> {
        let key = certificate.fingerprint;
        if self.valid.get(&key).await.is_some() {
            return Ok(true);
        }
        // The negative caches come before the chain. Otherwise a refused client that reconnects in a loop costs a query
        // each time.
        if self.unknown.contains_key(&key) {
            return Ok(false);
        }
        if let Some(fault) = self.failed.get(&key) {
            return Err(fault);
        }
        let found = self
            .valid
            // A client may open many connections at once with one certificate: they share this lookup.
            .try_get_with(key, self.look_up(certificate, peer))
            .await;
        match found.map_err(|e| *e) {
            Ok(()) => Ok(true),
            Err(NotValid::Unknown) => {
                self.unknown.insert(key, ());
                Ok(false)
            }
            Err(NotValid::Fault(fault)) => {
                self.failed.insert(key, fault);
                Err(fault)
            }
        }
    }

    /// Queries the chain about a certificate, and returns `Ok` for a valid certificate. A previously valid
    /// certificate stays valid during an outage of the chain. The same applies after [`RECHECK_TIMEOUT`]
    /// without a response.
    async fn look_up(&self, certificate: &ClientCertificate, peer: IpAddr) -> Result<(), NotValid> {
        let key = certificate.fingerprint;
        let lookup = Lookup {
            chain: Arc::clone(&self.chain),
            memory: Arc::clone(&self.memory),
            lookups: Arc::clone(&self.lookups),
        };
        // Only a certificate that was valid before may be accepted without a response. Any other waits for one.
        if !self.memory.has_certificate(&key) {
            return lookup.run(certificate, peer).await;
        }
        let (valid, unknown) = (self.valid.clone(), self.unknown.clone());
        let certificate = certificate.clone();
        // At most one task for each certificate and recheck interval, and it ends soon.
        let task = tokio::spawn(async move {
            let reply = lookup.run(&certificate, peer).await;
            if reply == Err(NotValid::Unknown) {
                unknown.insert(key, ());
                valid.invalidate(&key).await;
            }
            reply
        });
        match timeout(RECHECK_TIMEOUT, task).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }
}

/// Clients and stores for a chain query about a certificate.
struct Lookup {
    chain: Arc<dyn ChainQuery>,
    memory: Arc<dyn AuthStore>,
    lookups: Arc<Lookups>,
}

impl Lookup {
    async fn run(&self, certificate: &ClientCertificate, peer: IpAddr) -> Result<(), NotValid> {
        let key = certificate.fingerprint;
        let query = async {
            let serial = Some(certificate.serial.as_str());
            // The serial only narrows the query. A third party can make a certificate with another account's name and
            // serial, so the bytes decide.
            let published = self.chain.certificates(&certificate.owner, serial).await?;
            let same = |c: &akash_provider_core::chain::Certificate| {
                let bytes = cert::decode_pem(&c.cert);
                c.valid && bytes.is_ok_and(|der| Fingerprint::from(Sha256::digest(der)) == key)
            };
            Ok(published.iter().any(same).then_some(()))
        };
        match self.lookups.query(peer, query).await {
            Ok(Some(())) => {
                self.memory.store_certificate(key);
                Ok(())
            }
            Ok(None) => {
                // Removed permanently, so that a revoked certificate is not accepted during the next outage.
                self.memory.remove_certificate(&key);
                Err(NotValid::Unknown)
            }
            // An outage must not lock out tenants with running workloads. A revocation is delayed until the outage
            // ends.
            Err(LookupFault::Outage) if self.memory.has_certificate(&key) => Ok(()),
            Err(fault) => Err(NotValid::Fault(fault)),
        }
    }
}
