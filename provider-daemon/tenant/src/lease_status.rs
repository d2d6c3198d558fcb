//! `lease-status`.

use super::json::Json;
use super::lease::TenantClient;
use super::lease_query::{STATUS, print, query_each};
use super::{overview, wait};
use crate::args::LeaseStatusArgs;
use akash_provider_cli::flags::DataOutput;
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
    let show = |response: &Json| {
        if output != DataOutput::Text {
            return print(response, output);
        }
        say(&overview::text(response));
        Ok(())
    };
    query_each(&tenant, &args.lease, &STATUS, show).await
}

/// Returns the default format: a table on a terminal, otherwise the JSON of the Go provider.
fn default_output() -> DataOutput {
    if std::io::stdout().is_terminal() {
        DataOutput::Text
    } else {
        DataOutput::Json
    }
}
