//! Accounts of services that may read of their own lease.

use super::LeaseObjects;
use super::context::Context;
use akash_provider_core::manifest::Service;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use serde_json::{Value, json};

/// The permissions that allow anything.
const PERMISSIONS: [&str; 3] = ["deployment", "logs", "events"];
const READ: [&str; 3] = ["get", "list", "watch"];
/// ClusterRole with the rights that the provider needs in the namespace of a lease, from `deploy/rbac`.
pub(crate) const LEASE_ROLE: &str = "akash-provider-rs-lease";
/// Name of the binding to it. No service has a name with a colon.
pub(crate) const ACCESS: &str = "akash-provider:access";
/// API group of roles and bindings.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// What a service asks to read; empty for none.
pub(super) fn permissions(service: &Service) -> &[String] {
    let params = service.params.as_ref();
    let permissions = params.and_then(|params| params.permissions.as_ref());
    permissions
        .and_then(|permissions| permissions.read.as_deref())
        .unwrap_or_default()
}

/// Account, role and binding, named like the service.
pub(super) fn render(cx: &Context<'_>, service: &Service, objects: &mut LeaseObjects) {
    let words = permissions(service);
    if words.is_empty() {
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
        rules: Some(words.iter().flat_map(|word| rules(word)).collect()),
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

/// Binds the provider's account to the ClusterRole of leases.
pub(super) fn access(cx: &Context<'_>) -> Option<RoleBinding> {
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

/// The rules of all lists of different permissions, in every order.
pub(crate) fn all_permissions() -> Vec<Value> {
    let mut lists: Vec<Vec<&str>> = vec![Vec::new()];
    let mut next = 0;
    while let Some(list) = lists.get(next).cloned() {
        let others = PERMISSIONS.into_iter().filter(|word| !list.contains(word));
        lists.extend(others.map(|word| [list.as_slice(), &[word]].concat()));
        next += 1;
    }
    let rules = lists
        .iter()
        .map(|list| list.iter().flat_map(|word| rules(word)).collect::<Vec<_>>());
    rules.map(|rules| json!(rules)).collect()
}

/// What a word allows. Words this version does not know allow nothing.
fn rules(word: &str) -> Vec<PolicyRule> {
    // No word leads to Secrets: the registry logins of all services of the lease are among them.
    match word {
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
