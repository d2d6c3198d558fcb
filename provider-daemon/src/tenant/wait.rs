//! `lease-status --wait`: until every service is available.

use super::auth::Means;
use super::json::Json;
use super::lease::Tenant;
use super::lease_status::{STATUS, chosen, one};
use super::overview::services;
use super::trouble::{Hope, Trouble, shortened};
use crate::args::tenant::LeaseArgs;
use akash_provider_core::types::LeaseId;
use anyhow::bail;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Time between two rounds of questions, one to each lease.
const PAUSE: Duration = Duration::from_secs(2);
/// Services that a line names.
const NAMED_MAX: usize = 5;
const NOT_FOUND: u16 = 404;

/// Waits, and says what changes, on stderr.
///
/// # Errors
/// The time is over, with what is missing; or waiting does not help.
pub(super) async fn until_available(
    tenant: &Tenant,
    which: &LeaseArgs,
    limit: Duration,
) -> anyhow::Result<()> {
    // Outside of what the time limit cuts off, so that it can be told afterwards.
    let mut missing = "there was no answer yet".to_owned();
    let waited = timeout(limit, watch(tenant, which, &mut missing)).await;
    waited.unwrap_or_else(|_| {
        let limit = humantime::format_duration(limit);
        bail!(
            "not every service is available after {limit}: {missing}; `lease-events` and `lease-logs` say why, and \
             `--wait=1h` waits longer"
        )
    })
}

async fn watch(tenant: &Tenant, which: &LeaseArgs, missing: &mut String) -> anyhow::Result<()> {
    // Once is enough: that a lease ends meanwhile is seen by the questions below.
    let leases = chosen(tenant, which).await?;
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
            eprintln!("every service is available");
            return Ok(());
        }
        let now = now.join(", ");
        // Only what changes is told, so that a long wait is no long output.
        if *missing != now {
            eprintln!("waiting: {now}");
            *missing = now;
        }
        sleep(PAUSE).await;
    }
}

/// What a lease lacks of this version of its manifest; `None` when it lacks nothing.
async fn missing_of(
    tenant: &Tenant,
    lease: &LeaseId,
    version: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let answer = match one(tenant, lease, &STATUS).await {
        Ok(answer) => answer,
        Err(error) => {
            // Providers know nothing of a lease that is over, and it would be waited for like a new one.
            if let Some(over) = tenant.is_over(lease).await {
                bail!(over);
            }
            if !may_pass(&error) {
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
    let told = late.iter().take(NAMED_MAX);
    let told = told.map(|service| format!("{} {} {}", service.name, service.ready(), service.summary()));
    let mut told = told.collect::<Vec<_>>().join(", ");
    if late.len() > NAMED_MAX {
        told.push_str(&format!(" and {} more", late.len() - NAMED_MAX));
    }
    Ok((!late.is_empty()).then_some(told))
}

/// Why services of this status may be of an older version; `None` where the provider does not report versions.
fn outdated(status: &Json, version: &str) -> Option<String> {
    let manifest = status.field("manifest")?;
    let short = |version: &str| shortened(version.get(..12).unwrap_or(version));
    let accepted = manifest.at("version").text().unwrap_or_default();
    if accepted != version {
        return Some(format!(
            "the provider has manifest version {}, the chain has {}; `send-manifest` sends the new one",
            short(accepted),
            short(version)
        ));
    }
    let is_deployed = matches!(manifest.at("deployed"), Json::Bool(true));
    (!is_deployed).then(|| format!("manifest version {} is not deployed yet", short(version)))
}

/// Whoever is away comes back, and a manifest may be on its way. A no to this account stays one.
fn may_pass(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Trouble>() {
        Some(trouble) => trouble.status() == Some(NOT_FOUND) || trouble.hope(Means::Nothing) == Hope::Return,
        // The chain could not be asked where the provider is.
        None => error.downcast_ref::<akash_provider_core::Error>().is_some(),
    }
}
