//! The two reasons of HTTP status 403: an admission policy refuses the object, or the ServiceAccount lacks a
//! right.

use crate::world::{World, put, remove};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

/// Creates an admission policy that refuses an operation in these namespaces. Other namespaces are
/// unaffected, because other tests use the same cluster. Waits until the policy takes effect.
pub(crate) async fn refuse(
    world: &World,
    (group, version, resource): (&str, &str, &str),
    operation: &str,
    namespaces: &Value,
) {
    let name = &world.settings.manifest_namespace;
    let rule = json!({
        "apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource],
    });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "not today"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": namespaces},
        },
    });
    for object in [&policy, &binding] {
        put(&world.admin, object, "somebody").await;
    }
}

/// Deletes the policy that [`refuse`] created.
pub(crate) async fn admit(world: &World) {
    for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
        remove(world, kind, &world.settings.manifest_namespace).await;
    }
}

pub(crate) fn forbid(rules: Option<&mut Vec<PolicyRule>>, verb: &str, resource: &str) {
    for rule in rules.into_iter().flatten() {
        if rule.resources.iter().flatten().any(|r| r == resource) {
            rule.verbs.retain(|there| there != verb);
        }
    }
}
