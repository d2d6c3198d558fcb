//! `migrate-hostnames` and `migrate-endpoints`: from one of a tenant's deployments to another one, at one provider.

use super::client::Ask;
use super::lease::Tenant;
use crate::args::tenant::MigrateArgs;
use akash_provider_gateway::auth::Scope;
use bytes::Bytes;
use http::Method;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// What can move, in the words of the provider's routes.
#[derive(Debug)]
pub(super) struct Kind {
    path: [&'static str; 2],
    field: &'static str,
    scope: Scope,
}

pub(super) const HOSTNAMES: Kind = Kind {
    path: ["hostname", "migrate"],
    field: "hostnames_to_migrate",
    scope: Scope::HostnameMigrate,
};

pub(super) const ENDPOINTS: Kind = Kind {
    path: ["endpoint", "migrate"],
    field: "endpoints_to_migrate",
    scope: Scope::IpMigrate,
};

pub(super) async fn run(args: &MigrateArgs, home: &Path, kind: &Kind) -> anyhow::Result<ExitCode> {
    let tenant = Tenant::of(&args.access, home).await?;
    let client = tenant.client(&args.provider).await?;
    let body = json!({
        kind.field: args.names, "destination_dseq": args.dseq, "destination_gseq": args.gseq,
    });
    let ask = Ask {
        method: Method::POST,
        body: Bytes::from(body.to_string()),
        ..Ask::get(&kind.path, kind.scope)
    };
    client.ask(ask).await?;
    eprintln!("moved to deployment {}: {}", args.dseq, args.names.join(", "));
    Ok(ExitCode::SUCCESS)
}
