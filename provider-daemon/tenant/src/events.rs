//! `lease-events`: cluster events of a lease.

use super::follow::{Subscription, follow, service_query};
use super::json::{lease_id, pretty};
use super::lease::TenantClient;
use super::resume::PrintedMessages;
use crate::args::EventsArgs;
use akash_provider_gateway::auth::Scope;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &EventsArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    let subscription = Subscription {
        endpoint: "kubeevents",
        scope: Scope::Events,
        query: service_query(&args.service, args.follow),
        new_history: args.follow.then_some(|_| PrintedMessages::events()),
        show: &|lease, event| pretty(&event.with("lease_id", lease_id(lease))).map(Some),
    };
    follow(&tenant, &args.lease, &subscription).await
}
