//! `show-cluster-ns`: the namespace of a lease in the cluster of its provider.

use crate::args::ClusterNsArgs;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_core::types::DeploymentId;
use serde_json::json;
use std::process::ExitCode;

pub(super) fn run(args: &ClusterNsArgs) -> ExitCode {
    let deployment = DeploymentId::new(args.owner.clone(), args.dseq);
    let group = deployment.group(args.gseq);
    let lease = group.order(args.oseq).bid(args.provider.clone());
    let namespace = lease.namespace();
    say(&match args.output {
        Output::Text => format!("{namespace}\n"),
        Output::Json => format!("{}\n", json!({ "namespace": namespace })),
    });
    ExitCode::SUCCESS
}
