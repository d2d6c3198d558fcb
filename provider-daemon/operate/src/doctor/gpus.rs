//! GPUs of the nodes that are offered to tenants: device plugin, driver and runtime class.

use super::DoctorContext;
use super::check::{Check, listed};
use super::cluster_read::{LIMIT, Needed, judge_existence, read};
use super::kubernetes::{ClusterConnection, NoCluster};
use akash_provider_cli::plain::count;
use akash_provider_k8s::inventory::Vendor;
use akash_provider_k8s::labels::MANAGED;
use akash_provider_operators::inventory::node::has_gpu_label;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeSet;

const DRIVERS: &str = "GPU drivers";
const RUNTIME: Needed = Needed {
    subject: "runtime class",
    without: "pods with GPUs of NVIDIA are not created",
    help: "create the RuntimeClass `nvidia` for the NVIDIA container runtime; see docs/kubernetes.md",
};
/// Name of the RuntimeClass for pods with NVIDIA GPUs.
const CLASS: &str = "nvidia";
/// Labels with the version of the driver, from the tools of the vendors.
const VERSIONS: [&str; 3] = [
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.driver.major",
    "amd.com/gpu.driver-version",
];
/// Maximum number of nodes that are read.
const NODES_MAX: u32 = 500;
/// Maximum number of names that one check lists.
const NAMES_MAX: usize = 4;

#[derive(Debug, Default, PartialEq, Eq)]
struct GpuNode {
    name: String,
    /// Whether a label states that the node has a GPU of NVIDIA.
    has_nvidia_label: bool,
    /// Vendors with at least one allocatable GPU.
    vendors: Vec<Vendor>,
    driver: Option<String>,
}

impl GpuNode {
    /// Returns `None` for a node without a GPU.
    fn new(node: Node) -> Option<Self> {
        let allocatable = node
            .status
            .and_then(|status| status.allocatable)
            .unwrap_or_default();
        let has = |vendor: &Vendor| {
            let quantity = allocatable.get(vendor.resource());
            quantity.is_some_and(|quantity| quantity.0 != "0")
        };
        let labels = node.metadata.labels.unwrap_or_default();
        let gpu = Self {
            name: node.metadata.name.unwrap_or_default(),
            has_nvidia_label: has_gpu_label(&labels, Vendor::Nvidia),
            vendors: Vendor::ALL.into_iter().filter(has).collect(),
            driver: VERSIONS.iter().find_map(|label| labels.get(*label)).cloned(),
        };
        (gpu.has_nvidia_label || !gpu.vendors.is_empty()).then_some(gpu)
    }

    fn is_nvidia(&self) -> bool {
        self.has_nvidia_label || self.vendors.contains(&Vendor::Nvidia)
    }
}

/// Checks the nodes with GPUs. Returns no checks without a cluster connection, because the module `nodes`
/// reports the missing connection.
pub(super) async fn checks(
    context: &DoctorContext<'_>,
    cluster: Result<ClusterConnection, NoCluster>,
) -> Vec<Check> {
    let Ok(cluster) = cluster else {
        return Vec::new();
    };
    let limit = context.remaining(LIMIT);
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let classes: Api<RuntimeClass> = Api::all(cluster.client);
    let params = ListParams::default()
        .labels(&format!("{MANAGED}=true"))
        .limit(NODES_MAX);
    let (nodes, class) = tokio::join!(
        read(limit, nodes.list(&params)),
        read(limit, classes.get_opt(CLASS))
    );
    let Ok(nodes) = nodes else {
        return vec![Check::skipped(DRIVERS, "the nodes are unknown")];
    };
    let nodes: Vec<GpuNode> = nodes.into_iter().filter_map(GpuNode::new).collect();
    let mut checks = judge_drivers(&nodes);
    if nodes.iter().any(GpuNode::is_nvidia) {
        checks.push(judge_existence(
            &RUNTIME,
            &format!("RuntimeClass {CLASS}"),
            &class,
        ));
    }
    checks
}

fn judge_drivers(nodes: &[GpuNode]) -> Vec<Check> {
    if nodes.is_empty() {
        return vec![Check::skipped(DRIVERS, "no offered node has a GPU")];
    }
    let (working, idle): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| !node.vendors.is_empty());
    let mut checks = Vec::new();
    if !idle.is_empty() {
        let names = listed(idle.iter().map(|node| node.name.clone()), NAMES_MAX);
        checks.push(Check::warning(
            DRIVERS,
            format!(
                "{names}: labelled with a GPU of NVIDIA, but no allocatable {}",
                Vendor::Nvidia.resource()
            ),
            "install the driver and the device plugin of NVIDIA on the node, or remove the label",
        ));
    }
    if !working.is_empty() {
        let versions: BTreeSet<&str> = working.iter().filter_map(|node| node.driver.as_deref()).collect();
        let versions = match versions.is_empty() {
            true => "no label with a driver version".to_owned(),
            false => format!(
                "versions {}",
                listed(versions.iter().map(ToString::to_string), NAMES_MAX)
            ),
        };
        let nodes = count(working.len(), "node");
        checks.push(Check::ok(
            DRIVERS,
            format!("{nodes} with allocatable GPUs, {versions}"),
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use serde_json::json;

    fn node(labels: &serde_json::Value, allocatable: &serde_json::Value) -> Option<GpuNode> {
        let node =
            json!({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}});
        GpuNode::new(serde_json::from_value(node).unwrap())
    }

    #[test]
    fn gpus_are_found_by_label_and_by_resource() {
        let none = json!({});
        assert_eq!(node(&none, &json!({"cpu": "4", "nvidia.com/gpu": "0"})), None);
        assert_eq!(
            node(
                &json!({"feature.node.kubernetes.io/pci-0200_10de.present": "true"}),
                &none
            ),
            None
        );
        for label in [
            "nvidia.com/gpu.present",
            "feature.node.kubernetes.io/pci-0302_10de.present",
            "akash.network/capabilities.gpu.vendor.nvidia.model.a100",
        ] {
            let idle = node(&json!({ label: "true" }), &none).unwrap();
            assert!(idle.is_nvidia() && idle.vendors.is_empty(), "{label}");
        }
        let amd = node(
            &json!({"amd.com/gpu.driver-version": "6.8"}),
            &json!({"amd.com/gpu": "2"}),
        )
        .unwrap();
        assert!(
            !amd.is_nvidia() && amd.driver.as_deref() == Some("6.8"),
            "{amd:?}"
        );
    }

    #[test]
    fn labelled_gpu_must_be_allocatable() {
        let severities = |nodes: &[GpuNode]| -> Vec<Severity> {
            judge_drivers(nodes).iter().map(Check::severity).collect()
        };
        assert_eq!(severities(&[]), [Severity::Skipped]);
        let works = || node(&json!({}), &json!({"nvidia.com/gpu": "1"})).unwrap();
        let idle = node(&json!({"nvidia.com/gpu.present": "true"}), &json!({})).unwrap();
        assert_eq!(severities(&[works()]), [Severity::Ok]);
        assert_eq!(severities(&[idle, works()]), [Severity::Warning, Severity::Ok]);
    }
}
