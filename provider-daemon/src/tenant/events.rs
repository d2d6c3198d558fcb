//! `lease-events`: what the cluster says about a lease.

use super::follow::{Listening, chosen, follow};
use super::json::{Json, pretty};
use super::lease::Tenant;
use super::resume::Shown;
use crate::args::tenant::EventsArgs;
use akash_provider_gateway::auth::Scope;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &EventsArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = Tenant::of(&args.lease.access, home).await?;
    let listening = Listening {
        what: "kubeevents",
        scope: Scope::Events,
        query: chosen(&args.service, args.follow),
        follows: args.follow.then_some(|_| Shown::events()),
        show: &|lease, event| pretty(&event.with("lease_id", Json::of_lease(lease))).map(Some),
    };
    follow(&tenant, &args.lease, &listening).await
}
