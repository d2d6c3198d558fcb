//! Would a provider bid on a group? Its own gateway says; anybody may ask.

use super::auth::Credentials;
use super::client::{Ask, Client};
use super::lease::address;
use super::trouble::{Trouble, with_causes};
use crate::args::NodeArgs;
use crate::commands::chain::endpoints;
use akash_provider_chain::Reader;
use akash_provider_core::types::{Address, DecCoin, GroupSpec};
use akash_provider_gateway::auth::Scope;
use anyhow::bail;
use http::StatusCode;
use serde::Deserialize;

/// Characters of reasons that are read; ours has no more to say.
const WORDS_MAX: usize = 16 * 1024;

/// A provider that is asked, and the chain that vouches for it.
#[derive(Debug)]
pub(crate) struct Screener {
    client: Client,
    chain: Reader,
}

/// What it says of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Screened {
    /// It would bid, at this price per block.
    Bid(DecCoin),
    /// It would not, in its own words.
    NoBid(String),
}

/// The network's `ValidateGroupSpecResult`; fields that this version does not know are passed over.
#[derive(Deserialize)]
struct Validated {
    min_bid_price: DecCoin,
}

impl Screener {
    /// The provider at its registered address, or at a given one.
    ///
    /// # Errors
    /// The chain cannot be asked, or the provider has no address.
    pub(crate) async fn new(provider: &Address, url: Option<&str>, node: &NodeArgs) -> anyhow::Result<Self> {
        let chain = Reader::new(endpoints(node).await?);
        let url = address(url, Some(&chain), provider).await?;
        let client = Client::new(provider.clone(), &url, Credentials::Nothing, Some(chain.clone()))?;
        Ok(Self { client, chain })
    }

    /// Where it is, for people.
    pub(crate) fn at(&self) -> String {
        self.client.at()
    }

    /// The chain that vouches for the provider, for further questions of the caller.
    pub(crate) const fn chain(&self) -> &Reader {
        &self.chain
    }

    /// Asks about a group.
    ///
    /// # Errors
    /// It does not answer, is somebody else, or answers no such questions.
    pub(crate) async fn screen(&self, group: &GroupSpec) -> anyhow::Result<Screened> {
        // A GET with a body, because so the network's gateways take this question.
        let ask = Ask {
            body: serde_json::to_vec(group)?.into(),
            ..Ask::get(&["validate"], Scope::Status)
        };
        match self.client.ask(ask).await {
            Ok(body) => {
                let read = serde_json::from_slice::<Validated>(&body);
                let read = read.map_err(|e| self.client.strange(&with_causes(&e)))?;
                Ok(Screened::Bid(read.min_bid_price))
            }
            Err(Trouble::Answer(no)) if no.status == StatusCode::UNPROCESSABLE_ENTITY => {
                Ok(Screened::NoBid(no.text.trim().chars().take(WORDS_MAX).collect()))
            }
            Err(Trouble::Answer(no)) if no.status == StatusCode::NOT_FOUND => {
                bail!(
                    "{} does not say on what it would bid; its operator learns it from chain and cluster, with --from",
                    self.at()
                )
            }
            Err(trouble) => Err(trouble.into()),
        }
    }
}
