//! Screening of a group by a provider: a public query whether the provider would bid.

use super::auth::TenantCredentials;
use super::client::{Client, ProviderRequest};
use super::error::ProviderError;
use super::lease::address;
use akash_provider_chain::Reader;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::NodeArgs;
use akash_provider_cli::node::endpoints;
use akash_provider_cli::plain;
use akash_provider_core::error::chain_text;
use akash_provider_core::inventory::IgnoredResource;
use akash_provider_core::types::{Address, DecCoin, DeclineCode, GroupSpec};
use akash_provider_gateway::DECLINE_JSON;
use akash_provider_gateway::auth::Scope;
use anyhow::bail;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Maximum length of a provider's reasons, in characters.
const REASON_CHARS_MAX: usize = 16 * 1024;

/// Maximum number of ignored resources that are read.
const IGNORED_MAX: usize = 64;

/// Client for screening requests to a provider. The chain is used to verify the provider.
#[derive(Debug)]
pub struct Screener {
    client: Client,
    chain: Reader,
}

/// Response of a provider to a screening request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreeningResult {
    /// The provider would bid at this price per block.
    Bid(DecCoin),
    /// The provider would not bid.
    NoBid(ScreeningRefusal),
}

/// Reasons why a provider would not bid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScreeningRefusal {
    /// Reason as a code; `None` if the response contains no known code.
    pub code: Option<DeclineCode>,
    /// All reasons, separated by semicolons.
    pub reasons: String,
    /// Resources that the provider does not offer.
    pub ignored: Vec<IgnoredResource>,
}

impl ScreeningRefusal {
    /// Parses the response of a provider, and truncates all texts. If the format of the response is unknown,
    /// `reasons` contains the text of the response.
    fn parse(text: &str) -> Self {
        let short = |text: &str| text.trim().chars().take(REASON_CHARS_MAX).collect::<String>();
        let Ok(read) = serde_json::from_str::<DeclineResponse>(text) else {
            return Self {
                reasons: short(text),
                ..Self::default()
            };
        };
        let ignored = read.ignored.iter().take(IGNORED_MAX).map(|resource| {
            let text = |text| short(&plain::line(text));
            IgnoredResource::new(resource.kind(), text(resource.reason()), text(resource.help()))
        });
        Self {
            // A code of a later version is unknown.
            code: serde_json::from_value(read.code).ok(),
            reasons: short(&read.reasons.join("; ")),
            ignored: ignored.collect(),
        }
    }
}

/// Response of a provider that declines the group; unknown fields are ignored.
#[derive(Deserialize)]
struct DeclineResponse {
    #[serde(default)]
    code: Value,
    reasons: Vec<String>,
    #[serde(default)]
    ignored: Vec<IgnoredResource>,
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
    pub async fn new(provider: &Address, url: Option<&str>, node: &NodeArgs) -> anyhow::Result<Self> {
        let chain = Reader::new(endpoints(node).await?);
        let url = address(url, Some(&chain), provider).await?;
        let client = Client::new(
            provider.clone(),
            &url,
            TenantCredentials::None,
            Some(chain.clone()),
        )?;
        Ok(Self { client, chain })
    }

    /// Returns the URL of the provider's gateway, for error messages.
    pub fn at(&self) -> String {
        self.client.at()
    }

    /// Returns the reader of the chain. The screener verifies the provider with this reader.
    #[must_use]
    pub const fn chain(&self) -> &Reader {
        &self.chain
    }

    /// Returns the reclamation window that the provider offers; zero for none.
    ///
    /// # Errors
    /// Returns an error if the provider does not respond or cannot be verified.
    pub async fn reclamation_window(&self) -> anyhow::Result<Duration> {
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
    pub async fn screen(&self, group: &GroupSpec) -> anyhow::Result<ScreeningResult> {
        // The API of the network expects a GET request with a body.
        let request = ProviderRequest {
            body: serde_json::to_vec(group)?.into(),
            accept: Some(DECLINE_JSON),
            ..ProviderRequest::get(&["validate"], Scope::Status)
        };
        match self.client.send(request).await {
            Ok(body) => {
                let read = serde_json::from_slice::<ValidateResponse>(&body);
                let read = read.map_err(|e| self.client.invalid(&chain_text(&e)))?;
                Ok(ScreeningResult::Bid(read.min_bid_price))
            }
            Err(ProviderError::Status(response)) if response.status == StatusCode::UNPROCESSABLE_ENTITY => {
                Ok(ScreeningResult::NoBid(ScreeningRefusal::parse(&response.text)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::inventory::IgnoredKind;

    #[test]
    fn decline_is_read_from_json_and_from_the_text_of_other_programs() {
        let response = r#"{"code":"gpu","reasons":["a","b"],"ignored":[
            {"kind":"gpu","reason":"x\nforged","help":"y"}],"new":1}"#;
        let refusal = ScreeningRefusal::parse(response);
        assert_eq!(
            (refusal.code, &*refusal.reasons),
            (Some(DeclineCode::Gpu), "a; b")
        );
        let [ignored] = &refusal.ignored[..] else {
            panic!("{refusal:?}")
        };
        assert_eq!((ignored.kind(), ignored.help()), (IgnoredKind::Gpu, "y"));
        assert!(!ignored.reason().contains('\n'), "{ignored}");
        let later = ScreeningRefusal::parse(r#"{"code":"of a later version","reasons":["a"]}"#);
        assert_eq!((later.code, &*later.reasons), (None, "a"));
        let text = ScreeningRefusal::parse("no GPU\n");
        assert_eq!((text.code, &*text.reasons), (None, "no GPU"));
    }
}
