//! `migrate-hostnames` and `migrate-endpoints`: move names between deployments of a tenant at one provider.

use super::client::ProviderRequest;
use super::lease::TenantClient;
use crate::args::MigrateArgs;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_gateway::auth::Scope;
use bytes::Bytes;
use http::Method;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Kind of migration (hostnames or endpoints), with its path and field name in the provider API.
#[derive(Debug)]
pub(super) struct Migration {
    path: [&'static str; 2],
    field: &'static str,
    scope: Scope,
}

pub(super) const HOSTNAMES: Migration = Migration {
    path: ["hostname", "migrate"],
    field: "hostnames_to_migrate",
    scope: Scope::HostnameMigrate,
};

pub(super) const ENDPOINTS: Migration = Migration {
    path: ["endpoint", "migrate"],
    field: "endpoints_to_migrate",
    scope: Scope::IpMigrate,
};

pub(super) async fn run(args: &MigrateArgs, home: &Path, kind: &Migration) -> anyhow::Result<ExitCode> {
    let tenant = TenantClient::from_args(&args.access, home).await?;
    let client = tenant.client(&args.provider).await?;
    let body = json!({
        kind.field: args.names, "destination_dseq": args.dseq, "destination_gseq": args.gseq,
    });
    let request = ProviderRequest {
        method: Method::POST,
        body: Bytes::from(body.to_string()),
        ..ProviderRequest::get(&kind.path, kind.scope)
    };
    client.send(request).await?;
    match args.output {
        Output::Text => eprintln!(
            "hostnames or leased IPs moved to deployment {}: {}",
            args.dseq,
            args.names.join(", ")
        ),
        Output::Json => say(&format!(
            "{}\n",
            json!({ "dseq": args.dseq, "moved": args.names })
        )),
    }
    Ok(ExitCode::SUCCESS)
}
