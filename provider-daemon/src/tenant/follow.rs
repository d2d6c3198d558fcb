//! Streams of several leases at once, shown as they come.

use super::client::Ask;
use super::json::Json;
use super::lease::Tenant;
use super::lease_status::lease_path;
use super::output::Output;
use super::stream::{Heard, Hearing};
use super::trouble::with_causes;
use crate::args::tenant::LeaseArgs;
use crate::gateway::auth::Scope;
use akash_provider_core::types::LeaseId;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::process::ExitCode;

/// What is listened to.
pub(super) struct Listening<'a> {
    /// The last part of the path.
    pub(super) what: &'static str,
    pub(super) scope: Scope,
    pub(super) query: Vec<(String, String)>,
    /// How a message is shown; `None` for what is no such message.
    pub(super) show: &'a (dyn Fn(&LeaseId, Json) -> anyhow::Result<Option<String>> + 'a),
}

/// Shows what comes from all leases that are meant, until all streams have ended or nobody reads any more.
///
/// # Errors
/// No lease can be asked. What fails at one of them is told, and the exit code is 1.
pub(super) async fn follow(
    tenant: &Tenant,
    which: &LeaseArgs,
    listening: &Listening<'_>,
) -> anyhow::Result<ExitCode> {
    let mut streams = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for lease in tenant.leases(which).await? {
        match open(tenant, &lease, listening).await {
            Ok(hearing) => streams.push(messages(lease, hearing)),
            Err(error) => {
                code = ExitCode::FAILURE;
                tell(&lease, &error);
            }
        }
    }
    let mut output = Output::stdout();
    let mut all = stream::select_all(streams);
    while let Some((lease, message)) = all.next().await {
        let shown = message.and_then(|json| (listening.show)(&lease, json));
        match shown {
            // A kind of message that this version does not know.
            Ok(None) => {}
            Ok(Some(text)) => {
                if output.show(text.as_bytes()).await.is_err() {
                    return Ok(code);
                }
            }
            Err(error) => {
                code = ExitCode::FAILURE;
                tell(&lease, &error);
            }
        }
    }
    Ok(code)
}

fn tell(lease: &LeaseId, error: &anyhow::Error) {
    eprintln!("error: lease {lease}: {error:#}");
}

async fn open(tenant: &Tenant, lease: &LeaseId, listening: &Listening<'_>) -> anyhow::Result<Hearing> {
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(lease);
    let path: Vec<&str> = ids.iter().map(String::as_str).chain([listening.what]).collect();
    let ask = Ask {
        query: &listening.query,
        ..Ask::get(&path, listening.scope)
    };
    // Nothing is said, so that half is dropped; the other one still answers pings.
    let (hearing, _) = client.open(ask).await?.split();
    Ok(hearing)
}

/// The messages of one stream; one that ends badly ends with the reason.
fn messages(lease: LeaseId, hearing: Hearing) -> BoxStream<'static, (LeaseId, anyhow::Result<Json>)> {
    let next = move |state: Option<(LeaseId, Hearing)>| async move {
        let (lease, mut hearing) = state?;
        match hearing.next().await {
            Ok(None) => None,
            Ok(Some(Heard::Text(bytes) | Heard::Binary(bytes))) => {
                let json = serde_json::from_slice(&bytes);
                let json = json.map_err(|e| hearing.strange(&with_causes(&e)).into());
                Some(((lease.clone(), json), Some((lease, hearing))))
            }
            Err(trouble) => Some(((lease, Err(trouble.into())), None)),
        }
    };
    stream::unfold(Some((lease, hearing)), next).boxed()
}

/// The query that chooses services, as providers read it.
pub(super) fn chosen(service: &str, follow: bool) -> Vec<(String, String)> {
    let mut query = vec![("follow".to_owned(), follow.to_string())];
    if !service.is_empty() {
        query.push(("service".to_owned(), service.to_owned()));
    }
    query
}
