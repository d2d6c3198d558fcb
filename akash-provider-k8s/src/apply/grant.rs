//! Rights that a RoleBinding in the namespace of a lease gives to the account of the provider.

use super::item::ItemKind;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::rights;
use akash_provider_kube_model::objects::{LEASE_ROLE, RBAC};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use std::time::Duration;

/// Maximum wait until a new RoleBinding takes effect in the API server.
const GRANTED_LIMIT: Duration = Duration::from_secs(5);
const GRANTED_PAUSE: Duration = Duration::from_millis(10);
const HELP: &str = "help: run `kubectl apply --filename deploy/rbac`, then restart the provider";
/// Checked rights: verb, resource and subresource. The ClusterRole for leases contains these rights.
const RIGHTS: [(&str, &str, Option<&str>); 4] = [
    ("list", "secrets", None),
    ("create", "secrets", None),
    ("get", "pods", Some("log")),
    ("create", "pods", Some("exec")),
];

/// Returns true if the account may bind the ClusterRole and is not an administrator.
pub(crate) async fn may_bind_only(calls: &KubeCalls) -> Result<bool, Error> {
    let attributes = |verb: &str, group: &str, resource: &str, name: Option<&str>| ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let asked = [
        attributes("bind", RBAC, "clusterroles", Some(LEASE_ROLE)),
        attributes("*", "*", "*", None),
    ];
    let reviews =
        asked.map(|attributes| rights::may(calls.client(), calls.limit(), attributes, calls.operation()));
    let allowed = futures::future::try_join_all(reviews).await?;
    Ok(allowed == [true, false])
}

/// Returns true if the account has the rights of the ClusterRole in `namespace`, or in the whole cluster if
/// `namespace` is `None`.
pub(crate) async fn has_lease_rights(calls: &KubeCalls, namespace: Option<&str>) -> Result<bool, Error> {
    let reviews = RIGHTS.map(|(verb, resource, subresource)| {
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: subresource.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        rights::may(calls.client(), calls.limit(), attributes, calls.operation())
    });
    let results = futures::future::try_join_all(reviews).await?;
    Ok(results.into_iter().all(|allowed| allowed))
}

pub(crate) async fn granted(calls: &KubeCalls, home: &str) -> Result<(), Error> {
    let granted = async {
        while !has_lease_rights(calls, Some(home)).await? {
            tokio::time::sleep(GRANTED_PAUSE).await;
        }
        Ok(())
    };
    tokio::time::timeout(GRANTED_LIMIT, granted).await.unwrap_or_else(|_| {
        let message =
            format!("ClusterRole {LEASE_ROLE} gives no rights in namespace {home}: it is missing or outdated\n{HELP}");
        Err(Error::new(ErrorKind::Denied, calls.operation(), message))
    })
}

/// Returns the error for a rejected binding: the account lacks the rights of the ClusterRole and the right to
/// bind the ClusterRole.
pub(crate) fn cannot_bind(home: &str, error: Error) -> Error {
    if !matches!(
        error.kind(),
        ErrorKind::Denied | ErrorKind::Invalid | ErrorKind::NotFound
    ) {
        return error;
    }
    let message = format!("cannot bind ClusterRole {LEASE_ROLE} in namespace {home}: {error}\n{HELP}");
    Error::new(ErrorKind::Denied, error.operation(), message).with_source(error)
}

/// Returns true for a kind that the provider can write only with the RoleBinding in the namespace.
pub(crate) const fn needs_access(kind: ItemKind) -> bool {
    matches!(kind, ItemKind::Secret | ItemKind::Role)
}
