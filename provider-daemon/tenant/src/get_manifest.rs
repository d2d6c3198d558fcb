//! `get-manifest`: the manifest of a lease, as stored by its provider.

use super::json::{Json, compact};
use super::lease::TenantClient;
use super::lease_query::{LeaseQuery, query_each};
use crate::args::GetManifestArgs;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::output::say;
use akash_provider_gateway::auth::Scope;
use bytes::Bytes;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &GetManifestArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    let query = LeaseQuery {
        name: "manifest",
        path: &["manifest"],
        scope: Scope::GetManifest,
        body: Bytes::new(),
        is_valid: |response| matches!(response, Json::List(_)),
    };
    let print = |response: &Json| {
        say(&match args.output {
            DataOutput::Json => compact(response)?,
            DataOutput::Text | DataOutput::Yaml => serde_saphyr::to_string(response)?,
        });
        Ok(())
    };
    query_each(&tenant, &args.lease, &query, print).await
}
