//! Accounts of services with read permissions in their lease.

use super::LeaseObjects;
use super::context::RenderContext;
use akash_provider_core::manifest::Service;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use serde_json::{Value, json};

/// Permissions that a service can request.
const PERMISSIONS: [&str; 3] = ["deployment", "logs", "events"];
const READ: [&str; 3] = ["get", "list", "watch"];
/// ClusterRole in `deploy/rbac` with the rights of the provider in the namespace of a lease.
pub const LEASE_ROLE: &str = "akash-provider-rs-lease";
/// Name of the binding to the ClusterRole. The colon prevents conflicts with the bindings of services.
pub const ACCESS: &str = "akash-provider:access";
/// API group of roles and role bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn permissions(service: &Service) -> &[String] {
    let params = service.params.as_ref();
    let permissions = params.and_then(|params| params.permissions.as_ref());
    permissions
        .and_then(|permissions| permissions.read.as_deref())
        .unwrap_or_default()
}

pub(super) fn render(cx: &RenderContext<'_>, service: &Service, objects: &mut LeaseObjects) {
    let permissions = permissions(service);
    if permissions.is_empty() {
        return;
    }
    let name = service.name.as_str();
    let meta = || cx.meta(name, cx.account_labels(name));
    objects.service_accounts.push(ServiceAccount {
        metadata: meta(),
        ..ServiceAccount::default()
    });
    objects.roles.push(Role {
        metadata: meta(),
        rules: Some(
            permissions
                .iter()
                .flat_map(|permission| rules(permission))
                .collect(),
        ),
    });
    objects.role_bindings.push(RoleBinding {
        metadata: meta(),
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "Role".to_owned(),
            name: name.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: name.to_owned(),
            namespace: Some(cx.name.clone()),
            ..Subject::default()
        }]),
    });
}

/// Renders the RoleBinding that gives the provider's account the ClusterRole of leases.
pub(super) fn access(cx: &RenderContext<'_>) -> Option<RoleBinding> {
    let account = cx.settings.lease_account.clone()?;
    Some(RoleBinding {
        metadata: cx.meta(ACCESS, cx.labels()),
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: LEASE_ROLE.to_owned(),
        },
        subjects: Some(vec![account]),
    })
}

/// Returns the rules for every sequence of distinct permissions, including the empty sequence.
#[must_use]
pub fn all_permissions() -> Vec<Value> {
    let mut lists: Vec<Vec<&str>> = vec![Vec::new()];
    let mut next = 0;
    while let Some(list) = lists.get(next).cloned() {
        let others = PERMISSIONS.into_iter().filter(|other| !list.contains(other));
        lists.extend(others.map(|other| [list.as_slice(), &[other]].concat()));
        next += 1;
    }
    let rules = lists.iter().map(|list| {
        list.iter()
            .flat_map(|permission| rules(permission))
            .collect::<Vec<_>>()
    });
    rules.map(|rules| json!(rules)).collect()
}

/// Returns the rules of a permission. An unknown permission has no rules.
fn rules(permission: &str) -> Vec<PolicyRule> {
    // No permission includes Secrets, because those contain the registry logins of all services.
    match permission {
        "deployment" => vec![
            rule("apps", &["deployments", "statefulsets"], &READ),
            rule("", &["pods", "services"], &READ),
        ],
        "logs" => vec![
            rule("", &["pods"], &READ),
            rule("", &["pods/log"], &["get"]),
            rule("apps", &["deployments", "statefulsets"], &READ),
        ],
        "events" => vec![rule("", &["events"], &READ)],
        _ => Vec::new(),
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|&s| s.to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
