//! `lease-status`, and how any question is put to the providers of leases.

use super::client::Ask;
use super::json::{Json, pretty};
use super::lease::Tenant;
use super::trouble::{Trouble, with_causes};
use crate::args::tenant::LeaseArgs;
use crate::gateway::auth::Scope;
use crate::say;
use akash_provider_core::types::LeaseId;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &LeaseArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = Tenant::of(&args.access, home).await?;
    let question = Question {
        name: "status",
        path: &["status"],
        scope: Scope::Status,
        is_right: |answer| answer.field("services").is_some(),
    };
    each(&tenant, args, &question, print).await
}

/// Prints as the network's tool prints a status.
pub(super) fn print(answer: &Json) -> anyhow::Result<()> {
    say(&pretty(answer)?);
    Ok(())
}

/// A question about a lease.
#[derive(Debug)]
pub(super) struct Question<'a> {
    /// What the answer is called beside a lease.
    pub(super) name: &'static str,
    /// Below the lease.
    pub(super) path: &'a [&'a str],
    pub(super) scope: Scope,
    /// True for what can be an answer.
    pub(super) is_right: fn(&Json) -> bool,
}

/// Asks one provider where one is named, and prints its answer; otherwise every provider that has a live lease, and
/// prints a list with an entry for each lease.
///
/// # Errors
/// The one provider's trouble, or none could be asked.
pub(super) async fn each(
    tenant: &Tenant,
    which: &LeaseArgs,
    question: &Question<'_>,
    print: impl Fn(&Json) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    if let Some(provider) = &which.provider {
        let lease = tenant.lease(which, provider).await?;
        print(&one(tenant, &lease, question).await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut all, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for lease in tenant.leases(which).await? {
        let entry = Json::Fields(Vec::new()).with("lease_id", Json::of_lease(&lease));
        all.push(match one(tenant, &lease, question).await {
            Ok(answer) => entry.with(question.name, answer),
            Err(error) => {
                code = ExitCode::FAILURE;
                let text = format!("{error:#}");
                eprintln!("error: lease {lease}: {text}");
                entry.with("error", Json::Text(text))
            }
        });
    }
    print(&Json::List(all))?;
    Ok(code)
}

async fn one(tenant: &Tenant, lease: &LeaseId, question: &Question<'_>) -> anyhow::Result<Json> {
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(lease);
    let path: Vec<&str> = ids
        .iter()
        .map(String::as_str)
        .chain(question.path.iter().copied())
        .collect();
    let body = client.ask(Ask::get(&path, question.scope)).await?;
    let answer = serde_json::from_slice::<Json>(&body).map_err(|e| client.strange(&with_causes(&e)))?;
    if !(question.is_right)(&answer) {
        let trouble: Trouble = client.strange(&format!("this is no {} of a lease", question.name));
        return Err(trouble.into());
    }
    Ok(answer)
}

/// What every path of a lease begins with.
pub(super) fn lease_path(lease: &LeaseId) -> [String; 4] {
    let order = &lease.order;
    [
        "lease".to_owned(),
        order.deployment().dseq.to_string(),
        order.group.gseq.to_string(),
        order.oseq.to_string(),
    ]
}
