//! `send-manifest`: sends the manifest of an SDL to the providers of a deployment's leases.

use super::REMEDIES;
use super::client::{Client, ProviderRequest};
use super::error::{ProviderError, with_short_hashes};
use super::json::compact;
use super::lease::TenantClient;
use super::sdl_location;
use crate::args::SendManifestArgs;
use akash_provider_cli::error::help;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::output::say;
use akash_provider_cli::sdl::read_sdl_with_text;
use akash_provider_core::error::chain_text;
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::Scope;
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Maximum number of attempts while the provider does not have the lease yet.
const ATTEMPTS: u32 = 5;
/// Pause between attempts. All pauses together exceed the block time.
const PAUSE: Duration = Duration::from_secs(2);
const NOT_FOUND: u16 = 404;

/// Result for one provider, with the JSON fields of the Go provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SendResult {
    provider: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(rename = "errorMessage", skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// SDL location of the rejected service or group; not part of the JSON output.
    #[serde(skip)]
    location: Option<String>,
    /// Remedy; printed as text only.
    #[serde(skip)]
    help: Option<String>,
}

pub(super) async fn run(args: &SendManifestArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let (sdl_text, sdl) = read_sdl_with_text(&args.sdl)?;
    for warning in &sdl.warnings {
        eprintln!("warning: {warning}");
    }
    let body = Bytes::from(serde_json::to_vec(&sdl.manifest)?);
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    let leases = tenant.leases(&args.lease).await?;
    // A manifest covers the whole deployment, so each provider gets it once.
    let providers: BTreeSet<Address> = leases.into_iter().map(|lease| lease.provider).collect();
    let mut all = Vec::new();
    for provider in &providers {
        let result = match tenant.client(provider).await {
            Ok(client) => send(&client, args.lease.dseq, &body).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        let mut sent = send_result(provider, result);
        let location = sent
            .reason
            .as_deref()
            .and_then(|reason| sdl_location::find(reason, &sdl_text, &sdl.manifest));
        sent.location = location.map(|location| {
            format!(
                "{}:{}, {}",
                args.sdl.display(),
                location.line,
                location.description
            )
        });
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

/// Sends the manifest, with retries while the provider does not have the lease yet.
async fn send(client: &Client, dseq: u64, body: &Bytes) -> Result<(), ProviderError> {
    let dseq = dseq.to_string();
    let path = ["deployment", dseq.as_str(), "manifest"];
    let mut attempt = 1;
    loop {
        let request = ProviderRequest {
            method: Method::PUT,
            body: body.clone(),
            ..ProviderRequest::get(&path, Scope::SendManifest)
        };
        match client.send(request).await {
            Err(failure) if failure.status() == Some(NOT_FOUND) && attempt < ATTEMPTS => {
                tokio::time::sleep(PAUSE).await;
                attempt += 1;
            }
            other => return other.map(drop),
        }
    }
}

fn send_result(provider: &Address, result: anyhow::Result<()>) -> SendResult {
    let error = result.err();
    let failure = error
        .as_ref()
        .and_then(|error| error.downcast_ref::<ProviderError>());
    SendResult {
        provider: provider.to_string(),
        status: if error.is_none() { "PASS" } else { "FAIL" },
        error: error.as_ref().map(|error| chain_text(error.as_ref())),
        reason: failure.and_then(ProviderError::response_text).map(str::to_owned),
        location: None,
        help: error
            .as_ref()
            .and_then(|error| help(error, &REMEDIES))
            .map(str::to_owned),
    }
}

fn print(all: &[SendResult], output: DataOutput) -> anyhow::Result<()> {
    match output {
        DataOutput::Text => say(&all.iter().map(text).collect::<String>()),
        DataOutput::Json => say(&compact(&all)?),
        DataOutput::Yaml => say(&serde_saphyr::to_string(&all)?),
    }
    Ok(())
}

fn text(sent: &SendResult) -> String {
    let mut text = format!("provider: {}\n\tstatus:       {}\n", sent.provider, sent.status);
    if let Some(error) = &sent.error {
        text.push_str(&format!("\terror:        {}\n", with_short_hashes(error)));
    }
    if let Some(reason) = &sent.reason {
        text.push_str(&format!("\terrorMessage: {}\n", with_short_hashes(reason)));
    }
    if let Some(location) = &sent.location {
        text.push_str(&format!("\tsdl:          {location}\n"));
    }
    if let Some(help) = &sent.help {
        text.push_str(&format!("\thelp:         {help}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::auth::AuthMethod;
    use super::super::error::ErrorResponse;
    use super::*;

    #[test]
    fn prints_results_in_the_three_formats_of_the_go_provider() {
        let provider: Address = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
        let good = send_result(&provider, Ok(()));
        assert_eq!(
            text(&good),
            format!("provider: {provider}\n\tstatus:       PASS\n")
        );
        let rejection = ProviderError::Status(ErrorResponse {
            at: "p".to_owned(),
            status: 429,
            text: "w".to_owned(),
            auth: AuthMethod::Token,
        });
        let bad = send_result(&provider, Err(rejection.into()));
        let error = "p responded with status 429: w";
        assert_eq!(
            text(&bad),
            format!(
                "provider: {provider}\n\tstatus:       FAIL\n\terror:        {error}\n\terrorMessage: w\n\thelp:         wait one minute\n"
            )
        );
        let json = compact(&[good, bad.clone()]).unwrap();
        assert_eq!(
            json,
            format!(
                "[{{\"provider\":\"{provider}\",\"status\":\"PASS\"}},{{\"provider\":\"{provider}\",\"status\":\"FAIL\",\
                 \"error\":\"{error}\",\"errorMessage\":\"w\"}}]\n"
            )
        );
        let yaml = serde_saphyr::to_string(&[bad]).unwrap();
        assert_eq!(
            yaml,
            format!("- provider: {provider}\n  status: FAIL\n  error: \"{error}\"\n  errorMessage: w\n")
        );
    }
}
