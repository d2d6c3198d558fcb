//! Authentication and permissions of callers.
//!
//! ```text
//!  certificate (TLS) ──► on the chain, not revoked? ──┐
//!                                                     ├──► Identity ──► permits(scope, target)?
//!  token (header) ──► signed by its issuer's key? ────┘
//! ```
//! Both credentials identify the account of the tenant, so request paths do not contain the owner. A failed chain query
//! is an outage, never a refusal.

mod access;
mod certificates;
pub mod claims;
mod issuers;
mod lookups;
pub mod memory;
pub mod token;
mod validity;

pub use crate::clock::Clock;
pub use access::{Access, AccessTarget, DeploymentGrant, Identity, Scope, Scopes, Services};
pub(crate) use certificates::ClientCertificate;
pub(crate) use validity::CredentialValidity;

use super::settings::GatewayLimits;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::error::Error;
use akash_provider_core::types::Address;
use certificates::Certificates;
use claims::{ClaimFault, Claims};
use issuers::Issuers;
use lookups::Lookups;
use memory::AuthStore;
use moka::sync::Cache;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use token::Token;

/// Maximum number of cached tokens. Signature verification costs a hundred times as much as a lookup.
const TOKENS_MAX: u64 = 20_000;
/// Maximum age of a cached token. Each use checks the validity period of the token.
const TOKENS_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The `Authorization` header does not have the form `Bearer TOKEN`.
    Header,
    /// The request has both a certificate and a token.
    Ambiguous,
    /// The token is malformed, or its signature is invalid.
    Token,
    /// A claim of the token is missing, invalid or not permitted.
    Claims,
    /// The token is expired.
    Expired,
    /// The caller is not authenticated, or lacks permission for the request.
    Unauthorized,
    /// The chain query for the credential failed.
    Outage,
    /// The caller's IP network has named too many unknown accounts in the last minute.
    TooMany,
}

impl Denial {
    /// Returns the name of this reason in the statistics.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Ambiguous => "ambiguous",
            Self::Token => "token",
            Self::Claims => "claims",
            Self::Expired => "expired",
            Self::Unauthorized => "unauthorized",
            Self::Outage => "chain_outage",
            Self::TooMany => "unknown_accounts",
        }
    }

    /// Returns the `message` of the JSON response. If the Go provider has the same reason, the text is the
    /// same.
    #[must_use]
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Header => "invalid authorization header",
            Self::Ambiguous => "auth: ambiguous authentication. may not use mTLS and JWT at the same time",
            Self::Token => "JWT is invalid",
            Self::Claims => "JWT has invalid claims",
            Self::Expired => "JWT is expired",
            Self::Unauthorized => "unauthorized access",
            Self::Outage => "cannot query the chain to authenticate the caller; try again",
            Self::TooMany => "too many unknown accounts from this address; try again in a minute",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupFault {
    /// The chain query failed.
    Outage,
    /// The caller's IP network has named too many unknown accounts in the last minute.
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

/// Credentials of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestCredentials<'a> {
    /// The `Authorization` header, if there is one.
    pub header: Option<&'a [u8]>,
    /// The client certificate of the TLS connection, if any.
    pub certificate: Option<&'a ClientCertificate>,
    /// Address of the client. Chain queries for unknown accounts and certificates count against the IP
    /// network of this address.
    pub peer: IpAddr,
}

#[derive(Debug)]
struct VerifiedToken {
    claims: Claims,
    identity: Arc<Identity>,
}

/// Identifies callers by certificate or token.
#[derive(Debug)]
pub(crate) struct Authenticator {
    provider: Address,
    issuers: Issuers,
    certificates: Certificates,
    lookups: Arc<Lookups>,
    tokens: Cache<[u8; 32], Arc<VerifiedToken>>,
    lifetime_max: Option<Duration>,
    clock: Clock,
}

impl Authenticator {
    /// Creates an authenticator. Tokens with a lifetime above `lifetime_max` are refused. A confirmed
    /// certificate is looked up on the chain again after `limits.recheck`.
    #[must_use]
    pub(crate) fn new(
        provider: Address,
        chain: Arc<dyn ChainQuery>,
        memory: Arc<dyn AuthStore>,
        lifetime_max: Option<Duration>,
        limits: &GatewayLimits,
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

    /// Returns the identity of a caller, or `None` without credentials.
    ///
    /// # Errors
    /// The credentials are invalid, or cannot be checked.
    pub(crate) async fn identify(
        &self,
        credentials: RequestCredentials<'_>,
    ) -> Result<Option<Arc<Identity>>, Denial> {
        match (credentials.header, credentials.certificate) {
            (None, None) => Ok(None),
            (Some(header), certificate) => {
                // A malformed header is an error of its own even beside a certificate; only a well-formed one makes the
                // request ambiguous.
                let token = bearer(header).ok_or(Denial::Header)?;
                if certificate.is_some() {
                    return Err(Denial::Ambiguous);
                }
                self.by_token(token, credentials.peer).await.map(Some)
            }
            (None, Some(certificate)) => self.by_certificate(certificate, credentials.peer).await.map(Some),
        }
    }

    /// Returns true if a certificate is valid on the chain. Otherwise, the caller must close the connection.
    ///
    /// # Errors
    /// [`LookupFault`]: the chain query failed, or the client's IP network exceeded the limit for unknown
    /// accounts.
    pub(crate) async fn is_certificate_valid(
        &self,
        certificate: &ClientCertificate,
        peer: IpAddr,
    ) -> Result<bool, LookupFault> {
        self.certificates.is_valid(certificate, peer).await
    }

    /// Queries the chain about an account that the client named. If the account is unknown (`Ok(None)`), the
    /// query counts towards the limit of the client's IP network.
    pub(super) async fn query_chain<T>(
        &self,
        peer: IpAddr,
        query: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Option<T>, LookupFault> {
        self.lookups.query(peer, query).await
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
        // The key is a hash of the whole text, signature included: a cached token never represents another one with the
        // same claims, and an entry of the cache stores 32 bytes instead of up to 16 KiB.
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let verified = match self.tokens.get(&hash) {
            Some(verified) => verified,
            None => {
                let verified = Arc::new(self.verify(text, peer).await?);
                // An expired token never takes a place in the cache.
                verified.claims.check_time(self.clock.now())?;
                self.tokens.insert(hash, Arc::clone(&verified));
                verified
            }
        };
        // The cache only proves the signature. The token may have expired since it was inserted.
        verified.claims.check_time(self.clock.now())?;
        Ok(Arc::clone(&verified.identity))
    }

    async fn verify(&self, text: &str, peer: IpAddr) -> Result<VerifiedToken, Denial> {
        let token = Token::parse(text).ok_or(Denial::Token)?;
        let issuer = claims::issuer(&token.claims).ok_or(Denial::Token)?;
        // An account without a key on the chain cannot have signed anything, so the response is that of a wrong
        // signature.
        let key = self.issuers.key(&issuer, peer).await?.ok_or(Denial::Token)?;
        if !token.is_signed_by(&issuer, &key.key) {
            // Wrong signatures for real accounts cost as much as unknown accounts.
            if !key.is_proven {
                self.lookups.count_unknown(peer);
            }
            return Err(Denial::Token);
        }
        // Stored before the claims are checked: the signature alone proves that the account is in use.
        self.issuers.store(&issuer, &key);
        // Claims are read only now: unsigned claims are not worth the work and get no detailed refusal.
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
        tracing::debug!(owner = %identity.owner, token = identity.token_id.as_deref(), "token accepted");
        Ok(VerifiedToken {
            claims,
            identity: Arc::new(identity),
        })
    }
}

/// Returns the token of an `Authorization` header with the scheme `Bearer`. The case of the scheme is
/// ignored.
pub(crate) fn bearer(header: &[u8]) -> Option<&str> {
    let mut words = std::str::from_utf8(header).ok()?.split_ascii_whitespace();
    let scheme = words.next()?;
    let token = words.next()?;
    (words.next().is_none() && scheme.eq_ignore_ascii_case("bearer")).then_some(token)
}

#[cfg(test)]
mod tests;
