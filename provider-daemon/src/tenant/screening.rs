//! Screening of a group by a provider: a public query whether the provider would bid.

use super::auth::Credentials;
use super::client::{Client, ProviderRequest};
use super::error::ProviderError;
use super::lease::address;
use crate::args::NodeArgs;
use crate::commands::chain::endpoints;
use crate::error::WithHelp;
use akash_provider_chain::Reader;
use akash_provider_core::error::chain_text;
use akash_provider_core::types::{Address, DecCoin, GroupSpec};
use akash_provider_gateway::auth::Scope;
use anyhow::bail;
use http::StatusCode;
use serde::Deserialize;
use std::time::Duration;

/// Maximum length of a provider's reasons, in characters.
const REASON_CHARS_MAX: usize = 16 * 1024;

/// Client that sends screening requests to a provider, and verifies the provider on the chain.
#[derive(Debug)]
pub(crate) struct Screener {
    client: Client,
    chain: Reader,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScreeningResult {
    /// The provider would bid at this price per block.
    Bid(DecCoin),
    /// The provider would not bid, for this reason.
    NoBid(String),
}

/// Public status of a provider. Other fields are ignored.
#[derive(Deserialize)]
struct StatusResponse {
    /// Reclamation window of the provider, in nanoseconds.
    #[serde(default)]
    reclamation_window: u64,
}

/// Response of type `ValidateGroupSpecResult`. Other fields are ignored.
#[derive(Deserialize)]
struct ValidateResponse {
    min_bid_price: DecCoin,
}

impl Screener {
    /// Creates a screener for the registered address of a provider, or for `url`.
    ///
    /// # Errors
    /// Returns an error if the chain query fails, or if the provider has no address.
    pub(crate) async fn new(provider: &Address, url: Option<&str>, node: &NodeArgs) -> anyhow::Result<Self> {
        let chain = Reader::new(endpoints(node).await?);
        let url = address(url, Some(&chain), provider).await?;
        let client = Client::new(provider.clone(), &url, Credentials::None, Some(chain.clone()))?;
        Ok(Self { client, chain })
    }

    /// Returns the URL of the provider's gateway, for error messages.
    pub(crate) fn at(&self) -> String {
        self.client.at()
    }

    pub(crate) const fn chain(&self) -> &Reader {
        &self.chain
    }

    /// Returns the reclamation window that the provider offers; zero for none.
    ///
    /// # Errors
    /// Returns an error if the provider does not respond or cannot be verified.
    pub(crate) async fn reclamation_window(&self) -> anyhow::Result<Duration> {
        let body = self
            .client
            .send(ProviderRequest::get(&["status"], Scope::Status))
            .await?;
        let status: StatusResponse =
            serde_json::from_slice(&body).map_err(|e| self.client.invalid(&chain_text(&e)))?;
        Ok(Duration::from_nanos(status.reclamation_window))
    }

    /// Queries whether the provider would bid on a group, and at which price.
    ///
    /// # Errors
    /// Returns an error if the provider does not respond, cannot be verified or does not support screening.
    pub(crate) async fn screen(&self, group: &GroupSpec) -> anyhow::Result<ScreeningResult> {
        // The API of the network expects a GET request with a body.
        let request = ProviderRequest {
            body: serde_json::to_vec(group)?.into(),
            ..ProviderRequest::get(&["validate"], Scope::Status)
        };
        match self.client.send(request).await {
            Ok(body) => {
                let read = serde_json::from_slice::<ValidateResponse>(&body);
                let read = read.map_err(|e| self.client.invalid(&chain_text(&e)))?;
                Ok(ScreeningResult::Bid(read.min_bid_price))
            }
            Err(ProviderError::Status(response)) if response.status == StatusCode::UNPROCESSABLE_ENTITY => {
                Ok(ScreeningResult::NoBid(
                    response.text.trim().chars().take(REASON_CHARS_MAX).collect(),
                ))
            }
            Err(ProviderError::Status(response)) if response.status == StatusCode::NOT_FOUND => {
                bail!(WithHelp::new(
                    format!("{} does not support screening", self.at()),
                    "the operator of the provider can use --from, which reads chain and cluster"
                ))
            }
            Err(failure) => Err(failure.into()),
        }
    }
}
