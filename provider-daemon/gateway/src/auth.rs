//! Who is asking, and what may they do?
//!
//! ```text
//!  certificate (TLS) ──► on the chain, not revoked? ──┐
//!                                                     ├──► Identity ──► permits(scope, target)?
//!  token (header) ──► signed by its issuer's key? ────┘
//! ```
//! Both lead to the tenant's account; the owner is never in a path. A chain that cannot be asked is an outage,
//! never a "no".

mod access;
mod certificates;
pub mod claims;
mod issuers;
mod lookups;
pub mod memory;
pub mod token;
mod validity;

pub use access::{Access, DeploymentGrant, Identity, Scope, Scopes, Services, Target};
pub use certificates::ClientCertificate;
pub(crate) use validity::CredentialValidity;

use super::settings::Limits;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::error::Error;
use akash_provider_core::types::Address;
use certificates::Certificates;
use claims::{ClaimFault, Claims};
use issuers::Issuers;
use lookups::Lookups;
use memory::Memory;
use moka::sync::Cache;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use token::Token;

/// Verified tokens at hand: a signature costs a hundred times what looking it up does.
const TOKENS_MAX: u64 = 20_000;
/// For how long; their end and their beginning are checked at each use.
const TOKENS_FOR: Duration = Duration::from_secs(60);

/// Why a caller is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The header is not `Bearer` and a token.
    Header,
    /// Certificate and token at once.
    Ambiguous,
    /// Not a token, or not signed by its issuer.
    Token,
    /// Its claims break a rule.
    Claims,
    /// Its time is over.
    Expired,
    /// Nobody, or not allowed to.
    Unauthorized,
    /// The chain cannot be asked.
    Outage,
    /// Too many strangers from there.
    TooMany,
}

impl Denial {
    /// The words that go to the client, in the `message` of the JSON: those of today's provider, where it has words
    /// for the case.
    #[must_use]
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Header => "invalid authorization header",
            Self::Ambiguous => "auth: ambiguous authentication. may not use mTLS and JWT at the same time",
            Self::Token => "JWT is invalid",
            Self::Claims => "JWT has invalid claims",
            Self::Expired => "JWT is expired",
            Self::Unauthorized => "unauthorized access",
            Self::Outage => "the chain cannot be asked who this is; try again",
            Self::TooMany => "too many unknown accounts from this address; try again in a minute",
        }
    }
}

/// Why the chain gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupFault {
    /// It cannot be asked.
    Outage,
    /// It is not asked for this address any more.
    TooMany,
}

impl From<LookupFault> for Denial {
    fn from(fault: LookupFault) -> Self {
        match fault {
            LookupFault::Outage => Self::Outage,
            LookupFault::TooMany => Self::TooMany,
        }
    }
}

impl From<ClaimFault> for Denial {
    fn from(fault: ClaimFault) -> Self {
        match fault {
            ClaimFault::Invalid => Self::Claims,
            ClaimFault::Expired => Self::Expired,
        }
    }
}

/// Tells the time of day, since the Unix epoch.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// A clock of one's own, such as one that stands still.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Time since the Unix epoch. A clock before 1970 reads as zero.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}

/// What a caller shows.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// The `Authorization` header, if there is one.
    pub header: Option<&'a [u8]>,
    /// The certificate, if TLS has seen one.
    pub certificate: Option<&'a ClientCertificate>,
    /// Address of the other end of the connection; questions to the chain are counted against its network.
    pub peer: IpAddr,
}

/// A token that was verified.
#[derive(Debug)]
struct Verified {
    claims: Claims,
    identity: Arc<Identity>,
}

/// Finds out who a caller is.
#[derive(Debug)]
pub(crate) struct Authenticator {
    provider: Address,
    issuers: Issuers,
    certificates: Certificates,
    lookups: Arc<Lookups>,
    tokens: Cache<[u8; 32], Arc<Verified>>,
    lifetime_max: Option<Duration>,
    clock: Clock,
}

impl Authenticator {
    /// For a provider, asking this chain. A token valid for longer than `lifetime_max` is refused; a certificate is
    /// compared with the chain again after `recheck` of the limits.
    #[must_use]
    pub(crate) fn new(
        provider: Address,
        chain: Arc<dyn ChainQuery>,
        memory: Arc<dyn Memory>,
        lifetime_max: Option<Duration>,
        limits: &Limits,
        clock: Clock,
    ) -> Self {
        let lookups = Arc::new(Lookups::new(limits.unknown_per_network));
        Self {
            provider,
            issuers: Issuers::new(Arc::clone(&chain), Arc::clone(&memory), Arc::clone(&lookups)),
            certificates: Certificates::new(chain, memory, Arc::clone(&lookups), limits.recheck),
            lookups,
            tokens: Cache::builder()
                .max_capacity(TOKENS_MAX)
                .time_to_live(TOKENS_FOR)
                .build(),
            lifetime_max,
            clock,
        }
    }

    /// Who it is; `None` for somebody who shows nothing.
    ///
    /// # Errors
    /// What is shown is wrong, or cannot be judged.
    pub(crate) async fn identify(&self, shown: Credentials<'_>) -> Result<Option<Arc<Identity>>, Denial> {
        match (shown.header, shown.certificate) {
            (None, None) => Ok(None),
            (Some(header), certificate) => {
                // A bad header is an error of its own even beside a certificate; only a good one makes the request
                // ambiguous.
                let token = bearer(header).ok_or(Denial::Header)?;
                if certificate.is_some() {
                    return Err(Denial::Ambiguous);
                }
                self.by_token(token, shown.peer).await.map(Some)
            }
            (None, Some(certificate)) => self.by_certificate(certificate, shown.peer).await.map(Some),
        }
    }

    /// True when a certificate is on the chain, so that its connection may stay.
    ///
    /// # Errors
    /// [`LookupFault`]: it is not known.
    pub(crate) async fn is_welcome(
        &self,
        certificate: &ClientCertificate,
        peer: IpAddr,
    ) -> Result<bool, LookupFault> {
        self.certificates.is_valid(certificate, peer).await
    }

    /// Asks the chain about somebody who was named from an address, within the budget of that address.
    pub(super) async fn ask_about_a_stranger<T>(
        &self,
        peer: IpAddr,
        question: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Option<T>, LookupFault> {
        self.lookups.ask(peer, question).await
    }

    async fn by_certificate(
        &self,
        certificate: &ClientCertificate,
        peer: IpAddr,
    ) -> Result<Arc<Identity>, Denial> {
        let is_over = self.clock.now() > certificate.not_after;
        if is_over || !self.certificates.is_valid(certificate, peer).await? {
            return Err(Denial::Unauthorized);
        }
        let (owner, until) = (certificate.owner.clone(), certificate.not_after);
        Ok(Arc::new(Identity::full(owner, until)))
    }

    async fn by_token(&self, text: &str, peer: IpAddr) -> Result<Arc<Identity>, Denial> {
        // The key is a hash of the whole text, signature included: a cached token never stands for another that
        // claims the same, and 20,000 entries do not keep 16 KiB each.
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let verified = match self.tokens.get(&hash) {
            Some(verified) => verified,
            None => {
                let verified = Arc::new(self.verify(text, peer).await?);
                // A token that is over already never takes a place in the cache.
                verified.claims.check_time(self.clock.now())?;
                self.tokens.insert(hash, Arc::clone(&verified));
                verified
            }
        };
        // The cache says only that the signature was right. The token may have expired since it went in.
        verified.claims.check_time(self.clock.now())?;
        Ok(Arc::clone(&verified.identity))
    }

    async fn verify(&self, text: &str, peer: IpAddr) -> Result<Verified, Denial> {
        let token = Token::parse(text).ok_or(Denial::Token)?;
        let issuer = claims::issuer(&token.claims).ok_or(Denial::Token)?;
        // Without a key on the chain the account cannot have signed anything, so it is told the same as of a wrong
        // signature.
        let key = self.issuers.key(&issuer, peer).await?.ok_or(Denial::Token)?;
        if !token.is_signed_by(&issuer, &key.key) {
            // Whoever asks about real accounts in vain is as dear as who asks about none.
            if !key.is_proven {
                self.lookups.in_vain(peer);
            }
            return Err(Denial::Token);
        }
        // Kept before the claims are judged: the signature alone proves that the account is in use.
        self.issuers.keep(&issuer, &key);
        // Claims are read only now: what is not signed is not worth the work, and gets no detailed refusal.
        let claims = Claims::read(&token.claims, &self.provider)?;
        if self.lifetime_max.is_some_and(|max| claims.lifetime() > max) {
            return Err(Denial::Claims);
        }
        let identity = Identity {
            owner: claims.issuer.clone(),
            access: claims.access.clone(),
            token_id: claims.id.clone(),
            until: claims.expires,
        };
        tracing::debug!(owner = %identity.owner, token = identity.token_id.as_deref(), "a token is accepted");
        Ok(Verified {
            claims,
            identity: Arc::new(identity),
        })
    }
}

/// The token of a header: two words, the first in any case.
pub(crate) fn bearer(header: &[u8]) -> Option<&str> {
    let mut words = std::str::from_utf8(header).ok()?.split_ascii_whitespace();
    let scheme = words.next()?;
    let token = words.next()?;
    (words.next().is_none() && scheme.eq_ignore_ascii_case("bearer")).then_some(token)
}

#[cfg(test)]
mod tests;
