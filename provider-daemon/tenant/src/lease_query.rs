//! Queries about leases to their providers.

use super::REMEDIES;
use super::client::ProviderRequest;
use super::error::ProviderError;
use super::json::{Json, lease_id, pretty};
use super::lease::TenantClient;
use crate::args::LeaseArgs;
use akash_provider_cli::error::stderr_text;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::output::say;
use akash_provider_core::error::chain_text;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Scope;
use bytes::Bytes;
use http::Method;
use std::process::ExitCode;

#[derive(Debug)]
pub(super) struct LeaseQuery<'a> {
    /// Name of the response in messages, and field name in a printed list.
    pub(super) name: &'static str,
    /// Path segments after the path of the lease.
    pub(super) path: &'a [&'a str],
    pub(super) scope: Scope,
    /// Body of a `POST` request; empty for a `GET` request.
    pub(super) body: Bytes,
    /// Checks whether a value is a valid response.
    pub(super) is_valid: fn(&Json) -> bool,
}

pub(super) const STATUS: LeaseQuery<'static> = LeaseQuery {
    name: "status",
    path: &["status"],
    scope: Scope::Status,
    body: Bytes::new(),
    is_valid: |response| response.field("services").is_some(),
};

/// Prints a response: JSON in the form of the Go provider, or YAML.
pub(super) fn print(response: &Json, output: DataOutput) -> anyhow::Result<()> {
    say(&match output {
        DataOutput::Json => pretty(response)?,
        DataOutput::Text | DataOutput::Yaml => serde_saphyr::to_string(response)?,
    });
    Ok(())
}

/// Queries the provider that `--provider` selects, and prints the response. Without this flag, queries each
/// provider with an active lease, and prints a list.
///
/// # Errors
/// Returns the error of the single provider, or an error if no lease is found.
pub(super) async fn query_each(
    tenant: &TenantClient,
    which: &LeaseArgs,
    query: &LeaseQuery<'_>,
    print: impl Fn(&Json) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    if which.provider.is_some() {
        for lease in selected_leases(tenant, which).await? {
            print(&query_lease(tenant, &lease, query).await?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut all, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for lease in selected_leases(tenant, which).await? {
        let entry = Json::Fields(Vec::new()).with("lease_id", lease_id(&lease));
        all.push(match query_lease(tenant, &lease, query).await {
            Ok(response) => entry.with(query.name, response),
            Err(error) => {
                // The list contains the error too, for scripts that read standard output only.
                code = ExitCode::FAILURE;
                let text = chain_text(error.as_ref());
                report(&lease, error);
                entry.with("error", Json::Text(text))
            }
        });
    }
    print(&Json::List(all))?;
    Ok(code)
}

/// Prints the failure of one lease, with its remedy.
pub(super) fn report(lease: &LeaseId, error: anyhow::Error) {
    eprintln!(
        "{}",
        stderr_text(&error.context(format!("lease {lease}")), &REMEDIES)
    );
}

/// With `--provider`, returns the lease of the deployment at this provider. Without this flag, returns all
/// active leases of the deployment.
///
/// # Errors
/// Returns an error if no lease is found, or if the chain query fails.
pub(super) async fn selected_leases(
    tenant: &TenantClient,
    which: &LeaseArgs,
) -> anyhow::Result<Vec<LeaseId>> {
    match &which.provider {
        Some(provider) => Ok(vec![tenant.lease(which, provider).await?]),
        None => tenant.leases(which).await,
    }
}

/// Queries the provider of one lease.
///
/// # Errors
/// Returns an error if the request to the provider or the chain query fails.
pub(super) async fn query_lease(
    tenant: &TenantClient,
    lease: &LeaseId,
    query: &LeaseQuery<'_>,
) -> anyhow::Result<Json> {
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(lease);
    let path: Vec<&str> = ids
        .iter()
        .map(String::as_str)
        .chain(query.path.iter().copied())
        .collect();
    let method = if query.body.is_empty() {
        Method::GET
    } else {
        Method::POST
    };
    let request = ProviderRequest {
        method,
        body: query.body.clone(),
        ..ProviderRequest::get(&path, query.scope)
    };
    let body = client.send(request).await?;
    let response = serde_json::from_slice::<Json>(&body).map_err(|e| client.invalid(&chain_text(&e)))?;
    // Any web server may respond with status 200, so the body is checked.
    if !(query.is_valid)(&response) {
        let error: ProviderError = client.invalid(&format!("the response is not a lease {}", query.name));
        return Err(error.into());
    }
    Ok(response)
}

/// Returns the first path segments of all lease endpoints.
pub(super) fn lease_path(lease: &LeaseId) -> [String; 4] {
    let order = &lease.order;
    [
        "lease".to_owned(),
        order.deployment().dseq.to_string(),
        order.group.gseq.to_string(),
        order.oseq.to_string(),
    ]
}
