//! `lease-logs`: what services write, line by line.

use super::follow::{Listening, TAIL, chosen, follow};
use super::json::{Json, pretty};
use super::lease::Tenant;
use super::resume::Shown;
use crate::args::Output;
use crate::args::tenant::LogsArgs;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Scope;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &LogsArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = Tenant::of(&args.lease.access, home).await?;
    let mut query = chosen(&args.service, args.follow);
    if args.tail >= 0 {
        query.push((TAIL.to_owned(), args.tail.to_string()));
    }
    let listening = Listening {
        what: "logs",
        scope: Scope::Logs,
        query,
        follows: args
            .follow
            .then_some(|query| Shown::lines(!query.iter().any(|(name, _)| name == TAIL))),
        show: &|lease, line| match args.output {
            Output::Text => Ok(text(lease, &line)),
            Output::Json => pretty(&line.with("lease_id", Json::of_lease(lease))).map(Some),
        },
    };
    follow(&tenant, &args.lease, &listening).await
}

/// A line as today's tool prints it. Colours and the like in it are the service's own, and are left to it.
fn text(lease: &LeaseId, line: &Json) -> Option<String> {
    let name = line.field("name")?.text()?;
    let message = line.field("message")?.text()?;
    Some(format!("[{lease}][{name}] {message}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_lease_and_its_pod() {
        let lease =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/7/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        let id = lease.parse().unwrap();
        let line = serde_json::from_str(r#"{"name":"web-1","message":"[a] b"}"#).unwrap();
        assert_eq!(text(&id, &line), Some(format!("[{lease}][web-1] [a] b\n")));
        assert_eq!(text(&id, &Json::Null), None);
    }
}
