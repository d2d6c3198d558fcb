//! `get-manifest`: the manifest as the provider has it.

use super::json::{Json, compact};
use super::lease::Tenant;
use super::lease_status::{Question, each};
use crate::args::Format;
use crate::args::tenant::GetManifestArgs;
use crate::say;
use akash_provider_gateway::auth::Scope;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(args: &GetManifestArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = Tenant::of(&args.lease.access, home).await?;
    let question = Question {
        name: "manifest",
        path: &["manifest"],
        scope: Scope::GetManifest,
        is_right: |answer| matches!(answer, Json::List(_)),
    };
    let print = |answer: &Json| {
        say(&match args.output {
            Format::Json => compact(answer)?,
            Format::Yaml => serde_saphyr::to_string(answer)?,
        });
        Ok(())
    };
    each(&tenant, &args.lease, &question, print).await
}
