//! `send-manifest`: the manifest of an SDL, to every provider that has a lease of the deployment.

use super::client::{Ask, Client};
use super::json::compact;
use super::lease::Tenant;
use super::places;
use super::trouble::{Trouble, with_causes, with_short_hashes};
use crate::args::tenant::{SendManifestArgs, SentOutput};
use crate::commands::read_sdl_with_text;
use crate::say;
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::Scope;
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Times a provider is asked that does not know of the lease yet.
const ATTEMPTS: u32 = 5;
/// Time between them: together, more than a block.
const PAUSE: Duration = Duration::from_secs(2);
const NOT_FOUND: u16 = 404;

/// What came of it at one provider, as today's tool prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Sent {
    provider: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(rename = "errorMessage", skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    /// Where the SDL has what the words name; for people alone, as today's tool has no field for it.
    #[serde(skip)]
    place: Option<String>,
}

pub(super) async fn run(args: &SendManifestArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let (sdl_text, sdl) = read_sdl_with_text(&args.sdl)?;
    for warning in &sdl.warnings {
        eprintln!("warning: {warning}");
    }
    let body = Bytes::from(serde_json::to_vec(&sdl.manifest)?);
    let tenant = Tenant::of(&args.lease.access, home).await?;
    let leases = tenant.leases(&args.lease).await?;
    // A manifest is for the whole deployment, so a provider with two leases of it gets it once.
    let providers: BTreeSet<Address> = leases.into_iter().map(|lease| lease.provider).collect();
    let mut all = Vec::new();
    for provider in &providers {
        let result = match tenant.client(provider).await {
            Ok(client) => send(&client, args.lease.dseq, &body).await.map_err(|trouble| {
                let words = trouble.words().map(str::to_owned);
                (with_causes(&trouble), words)
            }),
            Err(error) => Err((format!("{error:#}"), None)),
        };
        let mut sent = sent(provider, result);
        let place = sent
            .words
            .as_deref()
            .and_then(|words| places::of_refusal(words, &sdl_text, &sdl.manifest));
        sent.place = place.map(|place| format!("{}:{}, {}", args.sdl.display(), place.line, place.what));
        all.push(sent);
    }
    print(&all, args.output)?;
    let has_failed = all.iter().any(|sent| sent.error.is_some());
    Ok(if has_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// A lease that was made a moment ago is not known to its provider yet.
async fn send(client: &Client, dseq: u64, body: &Bytes) -> Result<(), Trouble> {
    let dseq = dseq.to_string();
    let path = ["deployment", dseq.as_str(), "manifest"];
    let mut attempt = 1;
    loop {
        let ask = Ask {
            method: Method::PUT,
            body: body.clone(),
            ..Ask::get(&path, Scope::SendManifest)
        };
        match client.ask(ask).await {
            Err(trouble) if trouble.status() == Some(NOT_FOUND) && attempt < ATTEMPTS => {
                tokio::time::sleep(PAUSE).await;
                attempt += 1;
            }
            other => return other.map(drop),
        }
    }
}

fn sent(provider: &Address, result: Result<(), (String, Option<String>)>) -> Sent {
    let (error, words) = match result {
        Ok(()) => (None, None),
        Err((error, words)) => (Some(error), words),
    };
    Sent {
        provider: provider.to_string(),
        status: if error.is_none() { "PASS" } else { "FAIL" },
        error,
        words,
        place: None,
    }
}

fn print(all: &[Sent], output: SentOutput) -> anyhow::Result<()> {
    match output {
        SentOutput::Text => say(&all.iter().map(text).collect::<String>()),
        SentOutput::Json => say(&compact(&all)?),
        SentOutput::Yaml => say(&serde_saphyr::to_string(&all)?),
    }
    Ok(())
}

fn text(sent: &Sent) -> String {
    let mut text = format!("provider: {}\n\tstatus:       {}\n", sent.provider, sent.status);
    if let Some(error) = &sent.error {
        text.push_str(&format!("\terror:        {}\n", with_short_hashes(error)));
    }
    if let Some(words) = &sent.words {
        text.push_str(&format!("\terrorMessage: {}\n", with_short_hashes(words)));
    }
    if let Some(place) = &sent.place {
        text.push_str(&format!("\tsdl:          {place}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_it_is_printed_in_the_three_shapes_of_today_s_tool() {
        let provider: Address = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
        let good = sent(&provider, Ok(()));
        assert_eq!(
            text(&good),
            format!("provider: {provider}\n\tstatus:       PASS\n")
        );
        let bad = sent(&provider, Err(("e".to_owned(), Some("w".to_owned()))));
        assert_eq!(
            text(&bad),
            format!("provider: {provider}\n\tstatus:       FAIL\n\terror:        e\n\terrorMessage: w\n")
        );
        let json = compact(&[good, bad.clone()]).unwrap();
        assert_eq!(
            json,
            format!(
                "[{{\"provider\":\"{provider}\",\"status\":\"PASS\"}},{{\"provider\":\"{provider}\",\"status\":\"FAIL\",\
                 \"error\":\"e\",\"errorMessage\":\"w\"}}]\n"
            )
        );
        let yaml = serde_saphyr::to_string(&[bad]).unwrap();
        assert_eq!(
            yaml,
            format!("- provider: {provider}\n  status: FAIL\n  error: e\n  errorMessage: w\n")
        );
    }
}
