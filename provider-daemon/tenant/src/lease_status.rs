//! `lease-status`.

use super::json::{Json, pretty};
use super::lease::TenantClient;
use super::lease_query::{STATUS, query_each};
use super::{overview, wait};
use crate::args::{LeaseStatusArgs, SentOutput};
use akash_provider_cli::output::say;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &LeaseStatusArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    if let Some(limit) = args.wait {
        wait::until_available(&tenant, &args.lease, limit).await?;
    }
    let output = args.output.unwrap_or_else(default_output);
    let print = |response: &Json| {
        say(&match output {
            SentOutput::Text => overview::text(response),
            SentOutput::Json => pretty(response)?,
            SentOutput::Yaml => serde_saphyr::to_string(response)?,
        });
        Ok(())
    };
    query_each(&tenant, &args.lease, &STATUS, print).await
}

/// Returns the default format: a table on a terminal, otherwise the JSON of the Go provider.
fn default_output() -> SentOutput {
    if std::io::stdout().is_terminal() {
        SentOutput::Text
    } else {
        SentOutput::Json
    }
}
