//! `service-status`: the status of one service of a lease.

use super::lease::TenantClient;
use super::lease_query::{LeaseQuery, print, query_each};
use crate::args::ServiceStatusArgs;
use akash_provider_gateway::auth::Scope;
use bytes::Bytes;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &ServiceStatusArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    let query = LeaseQuery {
        name: "status",
        path: &["service", &args.service, "status"],
        scope: Scope::Status,
        body: Bytes::new(),
        is_valid: |response| response.field("available").is_some(),
    };
    query_each(&tenant, &args.lease, &query, |response| {
        print(response, args.output)
    })
    .await
}
