//! Lets a Gateway into the namespaces of leases that were made before it, so that names can be handed over to it.
//!
//! The provider does it for the leases that it applied, at its start with the new mode. Those that another provider made
//! keep their policies until they are hardened; for them there is this.

use crate::crd::Manifest;
use crate::error::within;
use crate::labels;
use crate::objects::RESTRICTIONS;
use crate::pages::{self, PAGE, PAGES};
use akash_provider_core::error::Error;
use json_patch::{Patch as JsonPatch, PatchOperation};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const OPEN: &str = "open policies to a gateway";
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Namespaces that are named of those that failed.
const NAMED: usize = 20;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opened {
    /// Policies that let the Gateway's namespace in from now on.
    pub opened: usize,
    /// Policies that did so before; nothing was written to them.
    pub were_open: usize,
    /// Policies that could not be changed.
    pub failed: usize,
    /// Why, for the first twenty of them.
    pub why: Vec<String>,
}

/// Has the policy of every lease with a Manifest in `records` let in what comes from the namespace of a Gateway. Nothing
/// else of it changes; one that changes meanwhile fails, and the next call looks at it again.
///
/// # Errors
/// Manifests or policies cannot be listed; then none was changed.
pub async fn open_to_gateway(
    client: &Client,
    records: &str,
    gateway: &str,
    limit: Duration,
) -> Result<Opened, Error> {
    let mut opened = Opened::default();
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

/// The policies that close the namespaces of leases.
async fn policies(client: &Client, limit: Duration) -> Result<Vec<NetworkPolicy>, Error> {
    let api: Api<NetworkPolicy> = Api::all(client.clone());
    let params = ListParams::default()
        .labels(labels::SELECTOR)
        .fields(&format!("metadata.name={RESTRICTIONS}"));
    let mut params = params.limit(PAGE);
    let mut found = Vec::new();
    for _ in 0..PAGES {
        let page = within(limit, OPEN, api.list(&params)).await?;
        found.extend(page.items.into_iter().filter(is_of_a_lease));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
    Err(pages::endless(OPEN))
}

/// It says that it is of the namespace that it is in, as those of leases do.
fn is_of_a_lease(policy: &NetworkPolicy) -> bool {
    let said = policy
        .metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::NAMESPACE));
    said.is_some() && said == policy.metadata.namespace.as_ref()
}

/// All pods of the namespace get in, at every port.
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
        // Both are operations as they are written here.
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
    fn a_policy_is_open_when_all_of_the_gateways_namespace_gets_in() {
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
