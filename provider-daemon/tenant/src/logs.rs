//! `lease-logs`: log lines of services.

use super::follow::{Subscription, TAIL, follow, service_query};
use super::json::{Json, lease_id, pretty};
use super::lease::TenantClient;
use super::resume::PrintedMessages;
use crate::args::LogsArgs;
use akash_provider_cli::flags::Output;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Scope;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &LogsArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    let mut query = service_query(&args.service, args.follow);
    if args.tail >= 0 {
        query.push((TAIL.to_owned(), args.tail.to_string()));
    }
    let subscription = Subscription {
        endpoint: "logs",
        scope: Scope::Logs,
        query,
        new_history: args
            .follow
            .then_some(|query| PrintedMessages::lines(!query.iter().any(|(name, _)| name == TAIL))),
        show: &|lease, line| match args.output {
            Output::Text => Ok(text(lease, &line)),
            Output::Json => pretty(&line.with("lease_id", lease_id(lease))).map(Some),
        },
    };
    follow(&tenant, &args.lease, &subscription).await
}

/// Formats a log line as the Go provider does, with its escape sequences unchanged.
fn text(lease: &LeaseId, line: &Json) -> Option<String> {
    let name = line.field("name")?.text()?;
    let message = line.field("message")?.text()?;
    Some(format!("[{lease}][{name}] {message}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_a_line_with_lease_and_pod() {
        let lease =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/7/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        let id = lease.parse().unwrap();
        let line = serde_json::from_str(r#"{"name":"web-1","message":"[a] b"}"#).unwrap();
        assert_eq!(text(&id, &line), Some(format!("[{lease}][web-1] [a] b\n")));
        assert_eq!(text(&id, &Json::Null), None);
    }
}
