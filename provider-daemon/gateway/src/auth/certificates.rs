//! Certificates of tenants: what TLS has seen, compared with what is on the chain.

use super::LookupFault;
use super::lookups::Lookups;
use super::memory::{Fingerprint, Memory};
use akash_provider_chain::cert;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Address;
use moka::future::Cache;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Entries of each of the three caches. One that is pushed out costs a question to the chain and nothing else.
const AT_HAND_MAX: u64 = 10_000;
/// One that is not on the chain is looked for again after so long.
const UNKNOWN_FOR: Duration = Duration::from_secs(15);
/// How long the chain is waited for about a certificate that it has shown to be valid before. Its answer counts even
/// when it comes later.
const KNOWN_PATIENCE: Duration = Duration::from_millis(300);
/// A question in vain is not put again for so long: a request asks what its connection has just asked.
const UNANSWERED_FOR: Duration = Duration::from_secs(1);

/// A tenant's certificate as TLS has seen it; its holder has its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Whose it says it is.
    pub owner: Address,
    /// Serial number in decimal, the form in which the chain is asked for it.
    pub serial: String,
    /// End of its validity, since the Unix epoch.
    pub not_after: Duration,
    fingerprint: Fingerprint,
}

impl ClientCertificate {
    /// Reads what TLS was shown; `None` when it is not of the network's form, which TLS refuses before.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<Self> {
        let facts = cert::read_der(der).ok()?;
        Some(Self {
            owner: facts.owner,
            serial: facts.serial,
            not_after: facts.not_after,
            fingerprint: Sha256::digest(der).into(),
        })
    }
}

/// What is known of certificates.
#[derive(Debug)]
pub(super) struct Certificates {
    chain: Arc<dyn ChainQuery>,
    memory: Arc<dyn Memory>,
    lookups: Arc<Lookups>,
    valid: Cache<Fingerprint, ()>,
    unknown: moka::sync::Cache<Fingerprint, ()>,
    unanswered: moka::sync::Cache<Fingerprint, LookupFault>,
}

/// Why a certificate does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotValid {
    Unknown,
    Fault(LookupFault),
}

impl Certificates {
    /// A valid one is compared again after `valid_for`.
    pub(super) fn new(
        chain: Arc<dyn ChainQuery>,
        memory: Arc<dyn Memory>,
        lookups: Arc<Lookups>,
        valid_for: Duration,
    ) -> Self {
        Self {
            chain,
            memory,
            lookups,
            valid: Cache::builder()
                .max_capacity(AT_HAND_MAX)
                .time_to_live(valid_for)
                .build(),
            unknown: moka::sync::Cache::builder()
                .max_capacity(AT_HAND_MAX)
                .time_to_live(UNKNOWN_FOR)
                .build(),
            unanswered: moka::sync::Cache::builder()
                .max_capacity(AT_HAND_MAX)
                .time_to_live(UNANSWERED_FOR)
                .build(),
        }
    }

    /// True when the same bytes are on the chain and not revoked. While the chain is away, what was true when it
    /// was last asked counts.
    pub(super) async fn is_valid(
        &self,
        certificate: &ClientCertificate,
        peer: IpAddr,
    ) -> Result<bool, LookupFault> {
        let key = certificate.fingerprint;
        if self.valid.get(&key).await.is_some() {
            return Ok(true);
        }
        // The negative caches come before the chain, or a refused client that connects in a loop costs a question
        // each time.
        if self.unknown.contains_key(&key) {
            return Ok(false);
        }
        if let Some(fault) = self.unanswered.get(&key) {
            return Err(fault);
        }
        let found = self
            .valid
            // A client may open many connections at once with one certificate: they share this look-up.
            .try_get_with(key, self.look_up(certificate, peer))
            .await;
        match found.map_err(|e| *e) {
            Ok(()) => Ok(true),
            Err(NotValid::Unknown) => {
                self.unknown.insert(key, ());
                Ok(false)
            }
            Err(NotValid::Fault(fault)) => {
                self.unanswered.insert(key, fault);
                Err(fault)
            }
        }
    }

    /// What the chain says, and of a certificate that it knew what it said last where it takes its time.
    async fn look_up(&self, certificate: &ClientCertificate, peer: IpAddr) -> Result<(), NotValid> {
        let key = certificate.fingerprint;
        let question = Question {
            chain: Arc::clone(&self.chain),
            memory: Arc::clone(&self.memory),
            lookups: Arc::clone(&self.lookups),
        };
        // Only a certificate that was valid before may be let in without an answer. Any other has to wait for one.
        if !self.memory.has_certificate(&key) {
            return question.ask(certificate, peer).await;
        }
        let (valid, unknown) = (self.valid.clone(), self.unknown.clone());
        let certificate = certificate.clone();
        // One at most for each certificate and time between two looks, and it ends soon.
        let asking = tokio::spawn(async move {
            let answer = question.ask(&certificate, peer).await;
            if answer == Err(NotValid::Unknown) {
                unknown.insert(key, ());
                valid.invalidate(&key).await;
            }
            answer
        });
        match timeout(KNOWN_PATIENCE, asking).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }
}

/// What a question to the chain needs, wherever it is waited for.
struct Question {
    chain: Arc<dyn ChainQuery>,
    memory: Arc<dyn Memory>,
    lookups: Arc<Lookups>,
}

impl Question {
    async fn ask(&self, certificate: &ClientCertificate, peer: IpAddr) -> Result<(), NotValid> {
        let key = certificate.fingerprint;
        let question = async {
            let serial = Some(certificate.serial.as_str());
            // The serial only narrows the question. Anybody can make a certificate with somebody else's name and
            // serial, so the bytes decide.
            let published = self.chain.certificates(&certificate.owner, serial).await?;
            let same = |c: &akash_provider_core::chain::Certificate| {
                let bytes = cert::der_of(&c.cert);
                c.valid && bytes.is_ok_and(|der| Fingerprint::from(Sha256::digest(der)) == key)
            };
            Ok(published.iter().any(same).then_some(()))
        };
        match self.lookups.ask(peer, question).await {
            Ok(Some(())) => {
                self.memory.keep_certificate(key);
                Ok(())
            }
            Ok(None) => {
                // Forgotten for good, so that a revoked certificate does not come back with the next outage.
                self.memory.forget_certificate(&key);
                Err(NotValid::Unknown)
            }
            // An outage must not lock out tenants whose workloads run on. It delays a revocation for as long as it
            // lasts.
            Err(LookupFault::Outage) if self.memory.has_certificate(&key) => Ok(()),
            Err(fault) => Err(NotValid::Fault(fault)),
        }
    }
}
