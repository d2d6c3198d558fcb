//! Self-test of simulated nodes: nodes become ready, and their pods run.

use super::{eventually, holds};
use crate::cluster::Testbed;
use crate::error::Result;

/// Number of simulated nodes.
const NODES: usize = 100;

pub(super) fn check(cluster: &Testbed, results: &mut Vec<String>) -> Result<()> {
    let nodes: String = (0..NODES).map(node).collect();
    cluster.kubectl_input(&["create", "-f", "-"], &nodes)?;
    cluster.kubectl(&[
        "wait",
        "--for",
        "condition=Ready",
        "node",
        "--all",
        "--timeout",
        "60s",
    ])?;
    results.push(format!("{NODES} simulated nodes are ready"));
    let many = [
        "scale",
        "deployment/web",
        "--namespace",
        "check",
        "--replicas",
        "200",
    ];
    cluster.kubectl(&many)?;
    eventually("200 pods", || {
        let path = "jsonpath=ready:{.status.readyReplicas};";
        let ready = cluster.kubectl(&[
            "get",
            "deployment",
            "web",
            "--namespace",
            "check",
            "--output",
            path,
        ])?;
        holds("pods", &ready, "ready:200;")
    })?;
    results.push("200 pods run on them".to_owned());
    Ok(())
}

fn node(number: usize) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: fake-{number}\n  annotations: {{kwok.x-k8s.io/node: fake}}\n  \
         labels: {{akash.network: \"true\"}}\nstatus:\n  allocatable: {{cpu: \"32\", memory: 256Gi, pods: \"110\"}}\n  \
         capacity: {{cpu: \"32\", memory: 256Gi, pods: \"110\"}}\n---\n"
    )
}
