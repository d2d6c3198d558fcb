//! `status`: the public status of a provider.

use super::auth::TenantCredentials;
use super::client::{Client, ProviderRequest};
use super::json::Json;
use super::lease::address;
use super::lease::offline_without_url;
use super::lease_query::print;
use crate::args::StatusArgs;
use akash_provider_chain::Reader;
use akash_provider_cli::node::endpoints;
use akash_provider_core::error::chain_text;
use akash_provider_gateway::auth::Scope;
use anyhow::bail;
use std::process::ExitCode;

pub(super) async fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    if args.offline && args.provider_url.is_none() {
        bail!(offline_without_url());
    }
    let chain = match args.offline {
        true => None,
        false => Some(Reader::new(endpoints(&args.node).await?)),
    };
    let url = address(args.provider_url.as_deref(), chain.as_ref(), &args.provider).await?;
    let client = Client::new(args.provider.clone(), &url, TenantCredentials::None, chain)?;
    let body = client
        .send(ProviderRequest::get(&["status"], Scope::Status))
        .await?;
    let response = serde_json::from_slice::<Json>(&body).map_err(|e| client.invalid(&chain_text(&e)))?;
    if response.field("cluster").is_none() {
        return Err(client.invalid("the response is not a provider status").into());
    }
    print(&response, args.output)?;
    Ok(ExitCode::SUCCESS)
}
