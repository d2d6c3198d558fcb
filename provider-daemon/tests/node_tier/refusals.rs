//! The cluster will not let go of something, or will not take it.

use crate::corner::{Corner, eventually, patience};
use crate::tenant::{Leased, Tenant, web};
use serde_json::json;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::sleep;

/// A namespace that cannot end keeps its lease, its record and its capacity until it can.
pub(crate) async fn stuck(corner: &Corner) {
    let tenant = Tenant::new(corner, 3, &web("stuck")).run().await;
    let ns = tenant.lease.namespace();
    corner.kubectl(&["create", "configmap", "held", "--namespace", &ns]);
    let finalizers = |value: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{value}}}}}"#);
        corner.kubectl(&[
            "patch",
            "configmap",
            "held",
            "--namespace",
            &ns,
            "--type=merge",
            "--patch",
            &patch,
        ]);
    };
    finalizers(r#"["example.com/held"]"#);
    tenant.close();
    let phase = "jsonpath={.status.phase}";
    let ending = || async { corner.kubectl(&["get", "namespace", &ns, "--output", phase]) == "Terminating" };
    eventually("the namespace is ending", ending).await;
    sleep(Duration::from_secs(10)).await;
    assert!(is_held(&tenant), "its capacity is not given to others");
    assert_ne!(tenant.records(), "", "its record stays");
    finalizers("null");
    tenant.gone().await;
    assert!(!is_held(&tenant), "its capacity is free");
}

fn is_held(tenant: &Leased<'_>) -> bool {
    let status = tenant.corner.world.status();
    let held = status.inventory.active.iter().chain(&status.inventory.pending);
    held.into_iter().any(|r| r.order == tenant.lease.order)
}

/// A manifest that was accepted and that admission refuses is tried until it is let through.
pub(crate) async fn refused(corner: &Corner) {
    let tenant = Tenant::new(corner, 4, &web("refused")).lease().await;
    let ns = tenant.lease.namespace();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "node-tier"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"],
            }]},
            "validations": [{"expression": "false", "message": "no workloads today"}],
        },
    });
    let names = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [ns, "lease"]});
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "node-tier"},
        "spec": {
            "policyName": "node-tier", "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchExpressions": [names]}},
        },
    });
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string();
    block_in_place(|| corner.testbed.kubectl_input(&["apply", "--filename", "-"], &both)).unwrap();
    let probe = [
        "create",
        "deployment",
        "probe",
        "--image=x",
        "--namespace=lease",
        "--dry-run=server",
    ];
    // An admission policy takes effect a moment after it was made.
    let in_force = || async { block_in_place(|| corner.testbed.kubectl(&probe)).is_err() };
    eventually("the policy is in force", in_force).await;

    tenant.send().await.unwrap();
    let there = || async { !tenant.namespaces().is_empty() };
    eventually("its namespace", there).await;
    sleep(Duration::from_secs(3)).await;
    let made = ["get", "deployments,pods", "--namespace", &ns, "--output", "name"];
    assert_eq!(corner.kubectl(&made), "");
    let kinds = "validatingadmissionpolicybindings,validatingadmissionpolicies";
    corner.kubectl(&["delete", kinds, "node-tier"]);
    let running = tokio::time::timeout(patience() * 2, tenant.runs());
    running.await.expect("it runs once it is let through");
    tenant.close();
    tenant.gone().await;
}
