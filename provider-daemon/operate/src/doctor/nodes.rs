//! Capacity of the cluster: nodes, storage classes, GPUs and leased addresses, as the provider counts them.

use super::DoctorContext;
use super::check::Check;
use super::kubernetes::{ClusterConnection, NoCluster};
use crate::explain::first_inventory;
use akash_provider_cli::plain::count;
use akash_provider_core::inventory::{IgnoredKind, IgnoredResource, LeasedIpUsage, Metrics};
use akash_provider_core::types::Address;
use akash_provider_k8s::inventory::KubeInventory;
use std::time::Duration;

const SUBJECT: &str = "capacity";
const LIMIT: Duration = Duration::from_millis(4500);
/// Maximum number of lines about ignored resources.
const IGNORED_MAX: usize = 20;

pub(super) async fn checks(
    context: &DoctorContext<'_>,
    cluster: Result<ClusterConnection, NoCluster>,
) -> Vec<Check> {
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(absence) => return vec![Check::skipped(SUBJECT, absence.reason())],
    };
    // Without the account, pods of own leases count as foreign. The offered resources are the same.
    let account = context
        .account
        .clone()
        .or_else(|| Address::from_bytes(&[1; 20]).ok());
    let Some(account) = account else {
        return vec![Check::skipped(SUBJECT, "the account is unknown")];
    };
    let settings = context
        .args
        .kubernetes
        .settings(account, context.chain_id.unwrap_or_default());
    let options = context.args.cluster.inventory_options();
    let inventory = KubeInventory::start(&cluster.client, &settings, &options);
    match first_inventory(&inventory, context.remaining(LIMIT)).await {
        Ok(update) => {
            let mut checks = judge(&update.inventory.metrics());
            if context.args.kubernetes.ip_operator {
                checks.push(judge_addresses(update.leased_ips.as_ref()));
            }
            checks
        }
        Err(error) => vec![Check::failure(
            SUBJECT,
            format!("{error:#}"),
            "run `kubectl apply --filename deploy/rbac`; on a large or distant cluster, run `doctor` near the API server",
        )],
    }
}

fn judge(metrics: &Metrics) -> Vec<Check> {
    let is_closed = |ignored: &&IgnoredResource| ignored.kind() == IgnoredKind::ClosedNode;
    let closed = metrics.ignored.iter().filter(is_closed).count();
    let nodes = metrics.nodes.len();
    let mut checks = vec![if nodes == 0 {
        Check::failure(
            SUBJECT,
            "no node is offered to tenants",
            "run `kubectl label node NODE akash.network=true` for each node for tenants",
        )
    } else if closed >= nodes {
        Check::failure(
            SUBJECT,
            "no node accepts new pods",
            "apply the remedies of the nodes that are not offered",
        )
    } else {
        Check::ok(SUBJECT, summary(metrics))
    }];
    let ignored = metrics.ignored.iter().take(IGNORED_MAX);
    checks.extend(ignored.map(|ignored| Check::warning("not offered", ignored.reason(), ignored.help())));
    let more = metrics.ignored.len().saturating_sub(IGNORED_MAX);
    if more > 0 {
        let detail = format!("{} more", count(more, "resource"));
        checks.push(Check::warning(
            "not offered",
            detail,
            "run `explain` for the complete list",
        ));
    }
    checks
}

fn summary(metrics: &Metrics) -> String {
    let mut parts = vec![count(metrics.nodes.len(), "node")];
    let gpus = metrics.gpus_by_model().into_iter();
    parts.extend(gpus.map(|((vendor, model), gpus)| format!("{} × {vendor}/{model}", gpus.allocatable)));
    let classes: Vec<&str> = metrics.storage.keys().map(String::as_str).collect();
    parts.push(match classes.is_empty() {
        true => "no storage class".to_owned(),
        false => format!("storage classes {}", classes.join(", ")),
    });
    parts.join(", ")
}

fn judge_addresses(usage: Option<&LeasedIpUsage>) -> Check {
    const SUBJECT: &str = "leased IP addresses";
    const HELP: &str =
        "create an IPAddressPool of MetalLB for leases, or set --ip-pool-size; see docs/operators.md";
    match usage {
        None => Check::failure(SUBJECT, "the address pools of MetalLB are unknown", HELP),
        Some(usage) if usage.total == 0 => {
            Check::failure(SUBJECT, "no address in the pools of MetalLB", HELP)
        }
        Some(usage) => Check::ok(SUBJECT, format!("{} of {} in use", usage.in_use, usage.total)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use akash_provider_core::inventory::{GpuMetrics, NodeMetrics};

    #[test]
    fn capacity_without_a_node_is_a_failure() {
        assert_eq!(judge(&Metrics::default())[0].severity(), Severity::Failure);
        let gpu = GpuMetrics {
            vendor: "nvidia".into(),
            model: "a100".into(),
            count: 4,
            ..GpuMetrics::default()
        };
        let node = NodeMetrics {
            gpus: vec![gpu.clone(), gpu],
            ..NodeMetrics::default()
        };
        let metrics = Metrics {
            nodes: vec![node],
            ignored: vec![IgnoredResource::new(IgnoredKind::Gpu, "x", ""); IGNORED_MAX + 2],
            ..Metrics::default()
        };
        let checks = judge(&metrics);
        assert_eq!(checks[0].detail(), "1 node, 8 × nvidia/a100, no storage class");
        assert_eq!(checks.len(), IGNORED_MAX + 2);
        assert_eq!(checks[IGNORED_MAX + 1].detail(), "2 resources more");
        assert!(
            checks[1..]
                .iter()
                .all(|check| check.severity() == Severity::Warning)
        );
    }

    #[test]
    fn address_pools_must_have_addresses() {
        let usage = |total| LeasedIpUsage {
            total,
            ..LeasedIpUsage::default()
        };
        assert_eq!(judge_addresses(None).severity(), Severity::Failure);
        assert_eq!(judge_addresses(Some(&usage(0))).severity(), Severity::Failure);
        assert_eq!(judge_addresses(Some(&usage(4))).severity(), Severity::Ok);
    }
}
