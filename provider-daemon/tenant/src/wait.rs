//! `lease-status --wait`: waits until every service of the leases is available.

use super::auth::AuthMethod;
use super::error::{ProviderError, Retry, shortened};
use super::json::Json;
use super::lease::TenantClient;
use super::lease_query::{STATUS, query_lease, selected_leases};
use super::overview::services;
use crate::args::LeaseArgs;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::types::LeaseId;
use anyhow::bail;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Pause between two rounds of queries.
const PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of services in a progress line.
const NAMED_MAX: usize = 5;
const NOT_FOUND: u16 = 404;

/// Waits until every service is available, and prints progress to stderr.
///
/// # Errors
/// Returns an error with the unavailable services after the timeout, or at once if waiting cannot help.
pub(super) async fn until_available(
    tenant: &TenantClient,
    which: &LeaseArgs,
    limit: Duration,
) -> anyhow::Result<()> {
    // Declared outside of the timeout, so that the error can contain the last value.
    let mut missing = "no response yet".to_owned();
    let waited = timeout(limit, watch(tenant, which, &mut missing)).await;
    waited.unwrap_or_else(|_| {
        let limit = humantime::format_duration(limit);
        bail!(WithHelp::new(
            format!("not every service is available after {limit}: {missing}"),
            "see `lease-events` and `lease-logs`, or wait longer with `--wait=1h`"
        ))
    })
}

async fn watch(tenant: &TenantClient, which: &LeaseArgs, missing: &mut String) -> anyhow::Result<()> {
    // Queried once, because the queries below detect a closed lease.
    let leases = selected_leases(tenant, which).await?;
    let version = tenant.version(which.dseq).await?;
    loop {
        let mut now = Vec::new();
        for lease in &leases {
            if let Some(text) = missing_of(tenant, lease, version.as_deref()).await? {
                now.push(match leases.len() {
                    1 => text,
                    _ => format!("{text} at {}", lease.provider),
                });
            }
        }
        if now.is_empty() {
            eprintln!("all replicas of every service are available");
            return Ok(());
        }
        let now = now.join(", ");
        // Only changes are printed, to keep the output of a long wait short.
        if *missing != now {
            eprintln!("waiting: {now}");
            *missing = now;
        }
        sleep(PAUSE).await;
    }
}

/// Returns the missing or outdated services of a lease. Returns `None` if all services are available.
async fn missing_of(
    tenant: &TenantClient,
    lease: &LeaseId,
    version: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let answer = match query_lease(tenant, lease, &STATUS).await {
        Ok(answer) => answer,
        Err(error) => {
            // Providers reject closed leases and unknown leases with the same status, so the chain is queried.
            if let Some(over) = tenant.is_over(lease).await {
                bail!(over);
            }
            if !is_temporary(&error) {
                return Err(error);
            }
            return Ok(Some(shortened(&format!("{error:#}"))));
        }
    };
    if let Some(text) = version.and_then(|version| outdated(&answer, version)) {
        return Ok(Some(text));
    }
    let all = services(&answer);
    if all.is_empty() {
        return Ok(Some("no services yet".to_owned()));
    }
    let late: Vec<_> = all.iter().filter(|service| !service.is_available()).collect();
    let summary = late.iter().take(NAMED_MAX);
    let summary =
        summary.map(|service| format!("{} {} {}", service.name, service.ready(), service.summary()));
    let mut summary = summary.collect::<Vec<_>>().join(", ");
    if late.len() > NAMED_MAX {
        summary.push_str(&format!(" and {} more", late.len() - NAMED_MAX));
    }
    Ok((!late.is_empty()).then_some(summary))
}

/// Returns an error text if the provider has not deployed the manifest `version`. Returns `None` if this
/// version is deployed, or if the provider reports no manifest.
fn outdated(status: &Json, version: &str) -> Option<String> {
    let manifest = status.field("manifest")?;
    let short = |version: &str| shortened(version.get(..12).unwrap_or(version));
    let accepted = manifest.at("version").text().unwrap_or_default();
    if accepted != version {
        return Some(format!(
            "the provider has manifest version {}, the chain has {}; run `send-manifest`",
            short(accepted),
            short(version)
        ));
    }
    let is_deployed = matches!(manifest.at("deployed"), Json::Bool(true));
    (!is_deployed).then(|| format!("manifest version {} is not deployed yet", short(version)))
}

/// Returns true if a retry may succeed.
fn is_temporary(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<ProviderError>() {
        Some(failure) => {
            failure.status() == Some(NOT_FOUND) || failure.retry(AuthMethod::None) == Retry::Outage
        }
        // The address of the provider cannot be queried on the chain.
        None => error.downcast_ref::<akash_provider_core::Error>().is_some(),
    }
}
