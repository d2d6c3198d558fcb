//! `lease-status`, and how any question is put to the providers of leases.

use super::client::Ask;
use super::json::{Json, pretty};
use super::lease::Tenant;
use super::trouble::{Trouble, with_causes};
use super::{overview, wait};
use crate::args::tenant::{LeaseArgs, LeaseStatusArgs, SentOutput};
use crate::say;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Scope;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

/// The question behind it.
pub(super) const STATUS: Question<'static> = Question {
    name: "status",
    path: &["status"],
    scope: Scope::Status,
    is_right: |answer| answer.field("services").is_some(),
};

pub(super) async fn run(args: &LeaseStatusArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = Tenant::of(&args.lease.access, home).await?;
    if let Some(limit) = args.wait {
        wait::until_available(&tenant, &args.lease, limit).await?;
    }
    let output = args.output.unwrap_or_else(usual);
    let print = |answer: &Json| {
        say(&match output {
            SentOutput::Text => overview::text(answer),
            SentOutput::Json => pretty(answer)?,
            SentOutput::Yaml => serde_saphyr::to_string(answer)?,
        });
        Ok(())
    };
    each(&tenant, &args.lease, &STATUS, print).await
}

/// A table for eyes; for scripts what the network's tool prints.
fn usual() -> SentOutput {
    if std::io::stdout().is_terminal() {
        SentOutput::Text
    } else {
        SentOutput::Json
    }
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
    /// Parts of the path below that of the lease.
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
    if which.provider.is_some() {
        for lease in chosen(tenant, which).await? {
            print(&one(tenant, &lease, question).await?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut all, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for lease in chosen(tenant, which).await? {
        let entry = Json::Fields(Vec::new()).with("lease_id", Json::of_lease(&lease));
        all.push(match one(tenant, &lease, question).await {
            Ok(answer) => entry.with(question.name, answer),
            Err(error) => {
                // Told in the list as well, for a script that reads nothing but the output.
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

/// The one lease where a provider is named; otherwise every live one.
///
/// # Errors
/// There is none, or the chain cannot be asked.
pub(super) async fn chosen(tenant: &Tenant, which: &LeaseArgs) -> anyhow::Result<Vec<LeaseId>> {
    match &which.provider {
        Some(provider) => Ok(vec![tenant.lease(which, provider).await?]),
        None => tenant.leases(which).await,
    }
}

/// The answer about one lease.
///
/// # Errors
/// Its provider's trouble, or the chain's.
pub(super) async fn one(tenant: &Tenant, lease: &LeaseId, question: &Question<'_>) -> anyhow::Result<Json> {
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(lease);
    let path: Vec<&str> = ids
        .iter()
        .map(String::as_str)
        .chain(question.path.iter().copied())
        .collect();
    let body = client.ask(Ask::get(&path, question.scope)).await?;
    let answer = serde_json::from_slice::<Json>(&body).map_err(|e| client.strange(&with_causes(&e)))?;
    // A 200 alone proves nothing: any web server may be behind the address.
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
