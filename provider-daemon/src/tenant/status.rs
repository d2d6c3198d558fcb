//! `status`: a provider, which anybody may ask.

use super::auth::Credentials;
use super::client::{Ask, Client};
use super::json::Json;
use super::lease::address;
use super::lease_status::print;
use super::trouble::with_causes;
use crate::args::tenant::StatusArgs;
use crate::commands::chain::endpoints;
use akash_provider_chain::Reader;
use akash_provider_gateway::auth::Scope;
use anyhow::bail;
use std::process::ExitCode;

pub(super) async fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    if args.offline && args.provider_url.is_none() {
        bail!("--offline asks no node, so it must be said with --provider-url where the provider is");
    }
    let chain = match args.offline {
        true => None,
        false => Some(Reader::new(endpoints(&args.node).await?)),
    };
    let url = address(args.provider_url.as_deref(), chain.as_ref(), &args.provider).await?;
    let client = Client::new(args.provider.clone(), &url, Credentials::Nothing, chain)?;
    let body = client.ask(Ask::get(&["status"], Scope::Status)).await?;
    let answer = serde_json::from_slice::<Json>(&body).map_err(|e| client.strange(&with_causes(&e)))?;
    if answer.field("cluster").is_none() {
        return Err(client.strange("this is no status of a provider").into());
    }
    print(&answer)?;
    Ok(ExitCode::SUCCESS)
}
