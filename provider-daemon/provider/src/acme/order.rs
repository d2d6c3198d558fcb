//! One order, from the account to the certificate.

use super::Issuer;
use super::challenge::Challenge;
use super::error::{AcmeError, problem_text};
use super::http::AcmeHttp;
use super::store::StoredAccount;
use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use instant_acme::{
    Account, AuthorizationStatus, Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use std::time::Duration;

/// Maximum time for the server to validate the hostname, and to issue the certificate.
pub(super) const POLL_TIME: Duration = Duration::from_mins(1);
const POLL: RetryPolicy = RetryPolicy::new().timeout(POLL_TIME);

impl Issuer {
    /// Orders a certificate. Returns its private key and chain as PEM.
    pub(super) async fn order(&self, http: &AcmeHttp) -> Result<Vec<u8>, AcmeError> {
        let account = self.account(http).await?;
        let names = [Identifier::Dns(self.settings.domain().to_owned())];
        let order = account.new_order(&NewOrder::new(&names)).await;
        let mut order = match order.map_err(AcmeError::from) {
            Err(AcmeError::AccountUnknown) => {
                self.store.remove_account()?;
                return Err(AcmeError::AccountUnknown);
            }
            order => order?,
        };
        let serving = self.respond(&mut order).await?;
        tokio::select! {
            issued = finish(&mut order) => issued,
            () = serving => Err(AcmeError::Slow(POLL_TIME)),
        }
    }

    /// Returns the stored account. Registers an account if no account is stored, or if its settings changed.
    async fn account(&self, http: &AcmeHttp) -> Result<Account, AcmeError> {
        let builder = Account::builder_with_http(Box::new(http.clone()));
        let (email, kid) = (self.settings.email(), self.settings.kid());
        let stored = self.store.account();
        if let Some(account) = stored.filter(|account| account.email == email && account.kid == kid) {
            return Ok(builder.from_credentials(account.credentials).await?);
        }
        let contact = format!("mailto:{email}");
        let contact = [contact.as_str()];
        let new = NewAccount {
            contact: if email.is_empty() { &[] } else { &contact },
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.settings.directory().to_string();
        let binding = self.settings.external_account();
        let (account, credentials) = builder.create(&new, directory, binding.as_ref()).await?;
        self.store.write_account(&StoredAccount {
            email: email.to_owned(),
            kid: kid.to_owned(),
            credentials,
        })?;
        Ok(account)
    }

    /// Starts to respond to the challenge of the hostname. The returned future serves the response.
    async fn respond(&self, order: &mut Order) -> Result<BoxFuture<'static, ()>, AcmeError> {
        // One hostname has one authorization.
        let mut authorizations = order.authorizations();
        let Some(authorization) = authorizations.next().await else {
            return Ok(pending().boxed());
        };
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            return Ok(pending().boxed());
        }
        let offered = authorization.challenges.iter().map(|challenge| &challenge.r#type);
        let (kind, address) = self
            .settings
            .ports()
            .select(offered)
            .ok_or(AcmeError::NoChallenge)?;
        let mut handle = authorization
            .challenge(kind.clone())
            .ok_or(AcmeError::NoChallenge)?;
        let challenge = Challenge {
            kind,
            domain: self.settings.domain().to_owned(),
            token: handle.token.clone(),
            response: handle.key_authorization(),
        };
        let serving = challenge.listen(address).await?;
        handle.set_ready().await?;
        Ok(serving)
    }
}

/// Waits for the validation, and returns the private key and the chain as PEM.
async fn finish(order: &mut Order) -> Result<Vec<u8>, AcmeError> {
    match order.poll_ready(&POLL).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => return Err(AcmeError::Validation(rejection(order).await)),
        // The order contains the reason of the failed validation.
        Err(instant_acme::Error::Api(problem)) => return Err(AcmeError::Validation(problem_text(&problem))),
        Err(error) => return Err(error.into()),
    }
    let mut pem = order.finalize().await?;
    let chain = order.poll_certificate(&POLL).await?;
    pem.push_str(&chain);
    Ok(pem.into_bytes())
}

/// Returns the reason for a failed validation.
async fn rejection(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    if let Some(Ok(mut authorization)) = authorizations.next().await
        && let Ok(state) = authorization.refresh().await
        && let Some(problem) = state
            .challenges
            .iter()
            .find_map(|challenge| challenge.error.as_ref())
    {
        return problem_text(problem);
    }
    "no reason".to_owned()
}
