//! How a tenant is known to a provider: by a token, or by a certificate.
//!
//! A token is good for one provider, one purpose and a quarter of an hour: whoever gets hold of it, the provider
//! itself included, can do nothing else with it.

use crate::args::tenant::AuthType;
use akash_provider_chain::Reader;
use akash_provider_chain::cert::{CertError, KeyFile, KeyFiles, OwnCertificate};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::Scope;
use akash_provider_gateway::auth::token::{Algorithm, encode};
use anyhow::{Context, bail};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Life of a token, as with today's tool.
const TOKEN_FOR: Duration = Duration::from_secs(15 * 60);
/// A token begins a little earlier than now: providers give no leeway, and clocks are never quite the same.
const TOKEN_BEFORE: Duration = Duration::from_secs(30);

/// By what one is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// Not at all, as for what anybody may ask.
    Nothing,
    /// A token, made anew for each request.
    Token,
    /// A certificate, shown in the handshake before any request.
    Certificate,
}

/// What makes one known.
#[derive(Debug, Clone)]
pub(super) enum Credentials {
    /// Nothing: anybody may ask.
    Nothing,
    /// The key that signs tokens.
    Key(Arc<PrivateKey>),
    /// The certificate that is shown.
    Certificate(Arc<OwnCertificate>),
}

impl Credentials {
    /// Those of an account.
    ///
    /// # Errors
    /// There is no certificate, or no provider would take it.
    pub(super) async fn of(
        auth: AuthType,
        key: &Arc<PrivateKey>,
        home: &Path,
        chain: Option<&Reader>,
    ) -> anyhow::Result<Self> {
        match auth {
            AuthType::Jwt => Ok(Self::Key(Arc::clone(key))),
            AuthType::Mtls => {
                let own = certificate(key, home)?;
                // A provider ends the connection of a revoked certificate without a word, so it is told here.
                if let Some(chain) = chain {
                    check_on_chain(&own, chain).await?;
                }
                Ok(Self::Certificate(Arc::new(own)))
            }
        }
    }

    pub(super) const fn means(&self) -> Means {
        match self {
            Self::Nothing => Means::Nothing,
            Self::Key(_) => Means::Token,
            Self::Certificate(_) => Means::Certificate,
        }
    }

    /// A new token for one purpose; `None` where none is needed.
    pub(super) fn token(&self, provider: &Address, scope: Scope) -> Option<String> {
        let Self::Key(key) = self else {
            return None;
        };
        // A clock before 1970 makes a token that is over; the provider's answer names the clock.
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        Some(token(key, provider, scope, now))
    }
}

fn token(key: &PrivateKey, provider: &Address, scope: Scope, now: Duration) -> String {
    let begins = now.saturating_sub(TOKEN_BEFORE);
    // Granular although it is for one purpose: only tokens of this kind name the provider that they are for.
    let claims = json!({
        "iss": key.address().as_str(),
        "iat": begins.as_secs(), "nbf": begins.as_secs(), "exp": (begins + TOKEN_FOR).as_secs(),
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
        Err(CertError::Absent { path }) => bail!(
            "there is no certificate at {}: make one with `tx cert generate client` and put it on the chain with \
             `tx cert publish client`, or use --auth-type jwt",
            path.display()
        ),
        read => read.context("the certificate in the home folder")?,
    };
    let facts = own.info();
    let now = UNIX_EPOCH.elapsed().context("the clock is before 1970")?;
    // Said here, for a provider ends such a handshake without a reason.
    if !facts.is_valid_at(now) {
        bail!(
            "certificate {} is out of its time: make another one with `tx cert generate client --overwrite` and \
             publish it",
            facts.serial
        );
    }
    if !facts.client {
        bail!(
            "certificate {} is not for clients; make one with `tx cert generate client`",
            facts.serial
        );
    }
    Ok(own)
}

async fn check_on_chain(own: &OwnCertificate, chain: &Reader) -> anyhow::Result<()> {
    let facts = own.info();
    let serial = &facts.serial;
    let found = chain.certificates(&facts.owner, Some(serial)).await;
    let found = found.context("asking the chain about your certificate")?;
    match found.first() {
        None => bail!("certificate {serial} is not on the chain: put it there with `tx cert publish client`"),
        Some(found) if !found.valid => bail!(
            "certificate {serial} is revoked, for good: make another one with `tx cert generate client --overwrite` \
             and publish it"
        ),
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
    fn a_token_is_for_one_provider_one_purpose_and_a_quarter_of_an_hour() {
        let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
        let [here, elsewhere] = [8, 9].map(|n| PrivateKey::from_bytes(&[n; 32]).unwrap().address().clone());
        let now = Duration::from_secs(1_795_257_230);
        let text = token(&key, &here, Scope::Status, now);
        let token = Token::parse(&text).unwrap();
        assert!(token.is_signed_by(key.address(), key.public()));
        let claims = Claims::read(&token.claims, &here).unwrap();
        assert_eq!(claims.issuer, *key.address());
        assert_eq!(claims.check_time(now), Ok(()));
        assert!(claims.check_time(now + TOKEN_FOR).is_err());
        assert_eq!(claims.lifetime(), TOKEN_FOR);
        let shown = format!("{:?}", claims.access);
        assert!(shown.contains("Status") && !shown.contains("Shell"), "{shown}");
        let there = Claims::read(&token.claims, &elsewhere).unwrap();
        assert_eq!(there.access, Access::OtherProviders);
    }
}
