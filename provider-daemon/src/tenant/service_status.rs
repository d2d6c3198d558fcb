//! `service-status`: one service of a lease.

use super::lease::Tenant;
use super::lease_status::{Question, each, print};
use crate::args::tenant::ServiceStatusArgs;
use akash_provider_gateway::auth::Scope;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &ServiceStatusArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = Tenant::of(&args.lease.access, home).await?;
    let question = Question {
        name: "status",
        path: &["service", &args.service, "status"],
        scope: Scope::Status,
        is_right: |answer| answer.field("available").is_some(),
    };
    each(&tenant, &args.lease, &question, print).await
}
