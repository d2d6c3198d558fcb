//! Authentication of a tenant at a provider: by a token or by a certificate.
//!
//! A token is valid for one provider, one purpose and 15 minutes. A third party that obtains the token can
//! therefore not use it at another provider or for another purpose.

use crate::args::AuthType;
use akash_provider_chain::Reader;
use akash_provider_chain::cert::{CertError, KeyFile, KeyFiles, OwnCertificate};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::Scope;
use akash_provider_gateway::auth::token::{Algorithm, encode};
use anyhow::{Context, bail};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Lifetime of a token, as in the Go provider.
const TOKEN_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Tolerance for provider clocks that are behind. The validity of a token starts earlier by this duration.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(30);

/// Remedy for a certificate that is no longer valid.
const RENEW: &str = "run `tx cert generate client --overwrite` and `tx cert publish client`";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthMethod {
    /// No authentication, for public endpoints.
    None,
    /// Signed token, created for each request.
    Token,
    /// Client certificate in the TLS handshake.
    Certificate,
}

#[derive(Debug, Clone)]
pub(super) enum TenantCredentials {
    /// No credentials, for public endpoints.
    None,
    /// Key that signs tokens.
    Key(Arc<PrivateKey>),
    /// Client certificate.
    Certificate(Arc<OwnCertificate>),
}

impl TenantCredentials {
    /// Loads the credentials of an account.
    ///
    /// # Errors
    /// Returns an error if the certificate is missing, or if providers would reject it.
    pub(super) async fn for_account(
        auth: AuthType,
        key: &Arc<PrivateKey>,
        home: &Path,
        chain: Option<&Reader>,
    ) -> anyhow::Result<Self> {
        match auth {
            AuthType::Jwt => Ok(Self::Key(Arc::clone(key))),
            AuthType::Mtls => {
                let own = certificate(key, home)?;
                // A provider closes the connection for a revoked certificate without a reason, so the certificate is
                // checked first.
                if let Some(chain) = chain {
                    check_on_chain(&own, chain).await?;
                }
                Ok(Self::Certificate(Arc::new(own)))
            }
        }
    }

    pub(super) const fn method(&self) -> AuthMethod {
        match self {
            Self::None => AuthMethod::None,
            Self::Key(_) => AuthMethod::Token,
            Self::Certificate(_) => AuthMethod::Certificate,
        }
    }

    /// Returns a new token for `scope`, or `None` without a key.
    pub(super) fn token(&self, provider: &Address, scope: Scope) -> Option<String> {
        let Self::Key(key) = self else {
            return None;
        };
        // A clock before 1970 results in an expired token, and the response of the provider mentions the clock.
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        Some(token(key, provider, scope, now))
    }
}

fn token(key: &PrivateKey, provider: &Address, scope: Scope, now: Duration) -> String {
    let start = now.saturating_sub(CLOCK_TOLERANCE);
    // Only granular tokens name the provider, so a token for one purpose is granular too.
    let claims = json!({
        "iss": key.address().as_str(),
        "iat": start.as_secs(), "nbf": start.as_secs(), "exp": (start + TOKEN_LIFETIME).as_secs(),
        "version": "v1",
        "leases": {
            "access": "granular",
            "permissions": [{ "provider": provider.as_str(), "access": "scoped", "scope": [scope.as_str()] }],
        },
    });
    encode(Algorithm::Es256k, key.address(), &claims, |text| key.sign(text))
}

fn certificate(key: &PrivateKey, home: &Path) -> anyhow::Result<OwnCertificate> {
    let files = KeyFiles::new(home, key);
    let own = match files.read(KeyFile::Current) {
        Err(CertError::Absent { path }) => bail!(WithHelp::new(
            format!("no certificate at {}", path.display()),
            "run `tx cert generate client` and `tx cert publish client`, or use --auth-type jwt"
        )),
        read => read.context("cannot read the certificate in the home directory")?,
    };
    let facts = own.info();
    let now = UNIX_EPOCH.elapsed().context("the system clock is before 1970")?;
    // Checked here because a provider closes such a handshake without a reason.
    if !facts.is_valid_at(now) {
        let problem = if now < facts.not_before {
            "is not yet valid; the clock of this machine may be wrong"
        } else {
            "is expired"
        };
        bail!(WithHelp::new(
            format!("certificate {} {problem}", facts.serial),
            RENEW
        ));
    }
    if !facts.client {
        bail!(WithHelp::new(
            format!("certificate {} is not a client certificate", facts.serial),
            "run `tx cert generate client`"
        ));
    }
    Ok(own)
}

async fn check_on_chain(own: &OwnCertificate, chain: &Reader) -> anyhow::Result<()> {
    let facts = own.info();
    let serial = &facts.serial;
    let found = chain.certificates(&facts.owner, Some(serial)).await;
    let found = found.context("cannot query the certificate on the chain")?;
    match found.first() {
        None => bail!(WithHelp::new(
            format!("certificate {serial} is not on the chain"),
            "run `tx cert publish client`"
        )),
        Some(found) if !found.valid => {
            bail!(WithHelp::new(
                format!("certificate {serial} is revoked on the chain"),
                RENEW
            ))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_gateway::auth::Access;
    use akash_provider_gateway::auth::claims::Claims;
    use akash_provider_gateway::auth::token::Token;

    #[test]
    fn limits_a_token_to_one_provider_one_purpose_and_15_minutes() {
        let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
        let [here, elsewhere] = [8, 9].map(|n| PrivateKey::from_bytes(&[n; 32]).unwrap().address().clone());
        let now = Duration::from_secs(1_795_257_230);
        let text = token(&key, &here, Scope::Status, now);
        let token = Token::parse(&text).unwrap();
        assert!(token.is_signed_by(key.address(), key.public()));
        let claims = Claims::read(&token.claims, &here).unwrap();
        assert_eq!(claims.issuer, *key.address());
        assert_eq!(claims.check_time(now), Ok(()));
        assert!(claims.check_time(now + TOKEN_LIFETIME).is_err());
        assert_eq!(claims.lifetime(), TOKEN_LIFETIME);
        let access = format!("{:?}", claims.access);
        assert!(access.contains("Status") && !access.contains("Shell"), "{access}");
        let there = Claims::read(&token.claims, &elsewhere).unwrap();
        assert_eq!(there.access, Access::OtherProviders);
    }
}
