//! Changes the network policies of leases to admit a Gateway, so that hostnames can move to HTTPRoutes.
//!
//! A provider that starts with `--ingress-mode gateway-api` admits the Gateway in the policies of the leases
//! that it applied. This module covers leases that another provider program created. The policies of such
//! leases are not rewritten before `harden`.

use akash_provider_core::error::Error;
use akash_provider_kube_kernel::error::within;
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::pages;
use akash_provider_kube_kernel::write_client::WriteClient;
use akash_provider_kube_model::crd::Manifest;
use akash_provider_kube_model::objects::RESTRICTIONS;
use json_patch::{Patch as JsonPatch, PatchOperation};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const OPEN: &str = "open policies to a gateway";
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Maximum number of causes in [`OpenedPolicies::why`].
const NAMED: usize = 20;

/// Result of [`open_to_gateway`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenedPolicies {
    /// Number of policies that now admit the namespace of the Gateway.
    pub opened: usize,
    /// Number of policies that already admitted the namespace of the Gateway and were not written.
    pub were_open: usize,
    /// Number of policies that could not be changed.
    pub failed: usize,
    /// Causes of the first twenty failures.
    pub why: Vec<String>,
}

/// Adds the namespace of a Gateway to the network policy of every lease with a Manifest in the namespace
/// `records`.
///
/// A policy that another client changes at the same time counts as failed. The next call tries this policy
/// again.
///
/// # Errors
/// Returns an error and changes nothing if Manifests or policies cannot be listed.
pub async fn open_to_gateway(
    client: &WriteClient,
    records: &str,
    gateway: &str,
    limit: Duration,
) -> Result<OpenedPolicies, Error> {
    let client = client.client();
    let mut opened = OpenedPolicies::default();
    let manifests: Api<Manifest> = Api::namespaced(client.clone(), records);
    let manifests = pages::metadata(&manifests, ListParams::default(), limit, OPEN).await?;
    // A Manifest is named after the namespace of its lease.
    let leases: BTreeSet<_> = manifests
        .into_iter()
        .filter_map(|manifest| manifest.metadata.name)
        .collect();
    for policy in policies(client, limit).await? {
        let namespace = policy.metadata.namespace.clone().unwrap_or_default();
        if !leases.contains(&namespace) {
            continue;
        }
        if is_open(&policy, gateway) {
            opened.were_open += 1;
            continue;
        }
        let api: Api<NetworkPolicy> = Api::namespaced(client.clone(), &namespace);
        let patch = Patch::<()>::Json(opening(&policy, gateway));
        let params = PatchParams::default();
        match within(limit, OPEN, api.patch(RESTRICTIONS, &params, &patch)).await {
            Ok(_) => opened.opened += 1,
            Err(error) => {
                opened.failed += 1;
                if opened.why.len() < NAMED {
                    opened
                        .why
                        .push(format!("namespace {namespace}: {}", error.message()));
                }
            }
        }
    }
    Ok(opened)
}

/// Returns the policies with the name [`RESTRICTIONS`] in the namespaces of all leases.
async fn policies(client: &Client, limit: Duration) -> Result<Vec<NetworkPolicy>, Error> {
    let api: Api<NetworkPolicy> = Api::all(client.clone());
    let params = ListParams::default()
        .labels(labels::SELECTOR)
        .fields(&format!("metadata.name={RESTRICTIONS}"));
    let mut policies = pages::objects(&api, params, limit, OPEN).await?;
    policies.retain(is_of_a_lease);
    Ok(policies)
}

/// Returns true if the policy is in the namespace of a lease.
fn is_of_a_lease(policy: &NetworkPolicy) -> bool {
    let labelled = policy
        .metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::NAMESPACE));
    labelled.is_some() && labelled == policy.metadata.namespace.as_ref()
}

/// Returns true if the policy admits all pods of the Gateway namespace on every port.
fn is_open(policy: &NetworkPolicy, gateway: &str) -> bool {
    let rules = policy.spec.iter().flat_map(|spec| spec.ingress.iter().flatten());
    let at_every_port = rules.filter(|rule| rule.ports.iter().flatten().next().is_none());
    let mut peers = at_every_port.flat_map(|rule| rule.from.iter().flatten());
    peers.any(|peer| {
        let selector = peer.namespace_selector.as_ref();
        let names = selector.and_then(|selector| selector.match_labels.as_ref());
        peer.pod_selector.is_none()
            && names.is_some_and(|names| {
                names.len() == 1 && names.get(NAMESPACE_NAME).is_some_and(|n| n == gateway)
            })
    })
}

fn opening(policy: &NetworkPolicy, gateway: &str) -> JsonPatch {
    let rule = json!({"from": [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: gateway}}}]});
    let has_rules = policy.spec.as_ref().is_some_and(|spec| spec.ingress.is_some());
    let add = if has_rules {
        json!({"op": "add", "path": "/spec/ingress/-", "value": rule})
    } else {
        json!({"op": "add", "path": "/spec/ingress", "value": [rule]})
    };
    let version = policy.metadata.resource_version.as_deref().unwrap_or_default();
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    let operations: Vec<PatchOperation> = [test, add]
        .into_iter()
        // Both values are valid operations.
        .filter_map(|operation| serde_json::from_value(operation).ok())
        .collect();
    JsonPatch(operations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn policy(ingress: &Value) -> NetworkPolicy {
        let labels = json!({labels::MANAGED: "true", labels::NAMESPACE: "home"});
        serde_json::from_value(json!({
            "metadata": {"name": RESTRICTIONS, "namespace": "home", "resourceVersion": "7", "labels": labels},
            "spec": {"podSelector": {}, "ingress": ingress},
        }))
        .unwrap()
    }

    #[test]
    fn policy_is_open_if_it_admits_the_whole_gateway_namespace() {
        let gate = json!({"matchLabels": {NAMESPACE_NAME: "gates"}});
        for (ingress, open) in [
            (json!([{"from": [{"namespaceSelector": gate}]}]), true),
            (
                json!([{}, {"from": [{"podSelector": {}}, {"namespaceSelector": gate}]}]),
                true,
            ),
            (json!([]), false),
            (Value::Null, false),
            (
                json!([{"from": [{"namespaceSelector": gate, "podSelector": {}}]}]),
                false,
            ),
            (
                json!([{"from": [{"namespaceSelector": gate}], "ports": [{"port": 80}]}]),
                false,
            ),
            (
                json!([{"from": [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "other"}}}]}]),
                false,
            ),
            (
                json!([{"from": [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "gates", "a": "b"}}}]}]),
                false,
            ),
        ] {
            let policy = policy(&ingress);
            assert!(is_of_a_lease(&policy));
            assert_eq!(is_open(&policy, "gates"), open, "{ingress}");
            let mut changed = serde_json::to_value(&policy).unwrap();
            json_patch::patch(&mut changed, &opening(&policy, "gates")).unwrap();
            assert!(
                is_open(&serde_json::from_value(changed).unwrap(), "gates"),
                "{ingress}"
            );
        }
        let mut other = policy(&json!([]));
        other.metadata.namespace = Some("kube-system".to_owned());
        assert!(!is_of_a_lease(&other));
    }
}
