//! `show-cluster-ns`: the namespace of a lease in the cluster of its provider.

use crate::args::ClusterNsArgs;
use akash_provider_cli::output::say;
use akash_provider_core::types::{DeploymentId, GroupId, LeaseId, OrderId};
use std::process::ExitCode;

pub(super) fn run(args: &ClusterNsArgs) -> ExitCode {
    let deployment = DeploymentId {
        owner: args.owner.clone(),
        dseq: args.dseq,
    };
    let group = GroupId {
        deployment,
        gseq: args.gseq,
    };
    let lease = LeaseId {
        order: OrderId {
            group,
            oseq: args.oseq,
        },
        provider: args.provider.clone(),
    };
    say(&format!("{}\n", lease.namespace()));
    ExitCode::SUCCESS
}
