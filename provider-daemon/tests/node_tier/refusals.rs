//! Tests in which the cluster refuses to delete or to accept an object.

use crate::fixture::{MarketFixture, eventually, wait_limit};
use crate::tenant::{Tenant, TenantLease, web};
use serde_json::json;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::sleep;

/// Asserts that the provider retains a lease, its record and its capacity while the namespace terminates.
pub(crate) async fn stuck(fixture: &MarketFixture) {
    let tenant = Tenant::new(fixture, 3, &web("stuck")).run().await;
    let ns = tenant.lease.namespace();
    fixture.kubectl(&["create", "configmap", "held", "--namespace", &ns]);
    let finalizers = |value: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{value}}}}}"#);
        fixture.kubectl(&[
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
    let ending = || async { fixture.kubectl(&["get", "namespace", &ns, "--output", phase]) == "Terminating" };
    eventually("the namespace is ending", ending).await;
    sleep(Duration::from_secs(10)).await;
    assert!(is_reserved(&tenant), "the capacity is free too early");
    assert_ne!(tenant.records(), "", "the record is deleted too early");
    finalizers("null");
    tenant.gone().await;
    assert!(!is_reserved(&tenant), "the capacity is still reserved");
}

fn is_reserved(tenant: &TenantLease<'_>) -> bool {
    let status = tenant.fixture.world.status();
    let reservations = status.inventory.active.iter().chain(&status.inventory.pending);
    reservations.into_iter().any(|r| r.order == tenant.lease.order)
}

/// Makes Kubernetes refuse the Deployments of an accepted manifest. Asserts that the provider retries.
pub(crate) async fn refused(fixture: &MarketFixture) {
    let tenant = Tenant::new(fixture, 4, &web("refused")).lease().await;
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
    block_in_place(|| {
        fixture
            .testbed
            .kubectl_input(&["apply", "--filename", "-"], &both)
    })
    .unwrap();
    let probe = [
        "create",
        "deployment",
        "probe",
        "--image=x",
        "--namespace=lease",
        "--dry-run=server",
    ];
    // An admission policy takes effect after a moment.
    let in_force = || async { block_in_place(|| fixture.testbed.kubectl(&probe)).is_err() };
    eventually("the policy is in force", in_force).await;

    tenant.send().await.unwrap();
    let there = || async { !tenant.namespaces().is_empty() };
    eventually("the namespace exists", there).await;
    sleep(Duration::from_secs(3)).await;
    let made = ["get", "deployments,pods", "--namespace", &ns, "--output", "name"];
    assert_eq!(fixture.kubectl(&made), "");
    let kinds = "validatingadmissionpolicybindings,validatingadmissionpolicies";
    fixture.kubectl(&["delete", kinds, "node-tier"]);
    let running = tokio::time::timeout(wait_limit() * 2, tenant.runs());
    running
        .await
        .expect("the lease does not run after the policy is deleted");
    tenant.close();
    tenant.gone().await;
}
