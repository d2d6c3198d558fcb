//! `lease-events`: cluster events of a lease.

use super::follow::{Subscription, follow, service_query};
use super::json::{Json, lease_id, pretty};
use super::lease::TenantClient;
use super::resume::PrintedMessages;
use crate::args::EventsArgs;
use akash_provider_cli::flags::Output;
use akash_provider_cli::plain::line;
use akash_provider_core::types::LeaseId;
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
        show: &|lease, event| match args.output {
            Output::Text => Ok(Some(text(lease, &event))),
            Output::Json => pretty(&event.with("lease_id", lease_id(lease))).map(Some),
        },
    };
    follow(&tenant, &args.lease, &subscription).await
}

/// Formats an event as one line: the lease, the type and reason of the event, its object and the note.
fn text(lease: &LeaseId, event: &Json) -> String {
    let field = |value: &Json, name: &str| line(value.at(name).text().unwrap_or_default()).into_owned();
    let (kind, reason, note) = (field(event, "type"), field(event, "reason"), field(event, "note"));
    let object = event.at("object");
    let object = format!("{}/{}", field(object, "kind"), field(object, "name"));
    format!("[{lease}] {kind} {reason} {object}: {note}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_an_event_as_one_line() {
        let lease =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/7/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        let event =
            r#"{"type":"Normal","reason":"Pulled","note":"a\nb","object":{"kind":"Pod","name":"web-0"}}"#;
        let event = serde_json::from_str(event).unwrap();
        let printed = text(&lease.parse().unwrap(), &event);
        assert_eq!(printed, format!("[{lease}] Normal Pulled Pod/web-0: a\\u000ab\n"));
    }
}
