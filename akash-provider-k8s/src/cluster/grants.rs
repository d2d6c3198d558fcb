//! Rights in the namespaces of leases: a RoleBinding of the provider's account to one ClusterRole.
//!
//! Secrets, logs and commands need these rights. A binding gives them to the provider's account in one
//! namespace.
//!
//! | account of the provider | bindings |
//! |---|---|
//! | administrator | none |
//! | has the rights in the whole cluster, may not bind the role | none |
//! | has the rights in the whole cluster, may bind the role | yes, to replace the cluster-wide rights |
//! | any other | yes |

use super::heal::write;
use super::{ClusterContext, KubeCluster};
use crate::apply::grant::{cannot_bind, granted, has_lease_rights, may_bind_only};
use crate::apply::item::{Item, ItemKind};
use crate::apply::plan::{ExistingObject, ExistingObjects, WatchedObjects, compare};
use crate::error::within;
use crate::state::{CachedKind, LeaseView};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_model::objects::{ACCESS, LEASE_ROLE, RBAC};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use std::collections::BTreeSet;

/// Namespace that every cluster has and that belongs to no lease.
const NO_LEASE: &str = "kube-system";
const ACCOUNT: &str = "system:serviceaccount:";

impl ClusterContext {
    /// Determines whether the account of the provider needs bindings. Later calls use the stored result.
    pub(super) async fn identify(&self, operation: &'static str) -> Result<(), Error> {
        let found = self.account.get_or_try_init(|| async {
            let calls = self.calls(operation);
            if has_lease_rights(&calls, None).await? && !may_bind_only(&calls).await? {
                return Ok(None);
            }
            let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
            let (params, review) = (PostParams::default(), SelfSubjectReview::default());
            let call = api.create(&params, &review);
            let review = within(self.settings.call_timeout, operation, call).await?;
            let user = review.status.and_then(|status| status.user_info?.username);
            match self.is_confined(operation).await {
                Ok(true) => {}
                Ok(false) => {
                    let help = "run `kubectl apply --filename deploy/rbac/confined.yaml` to limit the permissions";
                    tracing::warn!(
                        help,
                        "the Kubernetes account of the provider can give itself permissions outside the namespaces of leases"
                    );
                }
                Err(error) => tracing::debug!(%error, "cannot check whether the Kubernetes account can give itself permissions outside the namespaces of leases"),
            }
            Ok(user.map(|user| subject(&user)))
        });
        found.await.map(drop)
    }

    /// Tries to bind the ClusterRole outside of lease namespaces, as a dry run. Returns false if this is
    /// permitted.
    async fn is_confined(&self, operation: &'static str) -> Result<bool, Error> {
        let binding = RoleBinding {
            metadata: ObjectMeta {
                name: Some(ACCESS.to_owned()),
                ..ObjectMeta::default()
            },
            role_ref: RoleRef {
                api_group: RBAC.to_owned(),
                kind: "ClusterRole".to_owned(),
                name: LEASE_ROLE.to_owned(),
            },
            subjects: None,
        };
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), NO_LEASE);
        let call = api.create(&params, &binding);
        match within(self.settings.call_timeout, operation, call).await {
            Ok(_) => Ok(false),
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Invalid) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the account to bind in the namespace of each lease. Returns `None` if no binding is needed, or
    /// if [`ClusterContext::identify`] was not called.
    pub(super) fn lease_account(&self) -> Option<Subject> {
        self.account.get().cloned().flatten()
    }

    /// Lists the objects of `kinds` in the namespace of a lease. If the namespace exists, this function first
    /// binds the provider's account to the lease role.
    pub(super) async fn opened(
        &self,
        home: &str,
        items: &[Item],
        is_new: bool,
        mut kinds: BTreeSet<ItemKind>,
        operation: &'static str,
    ) -> Result<ExistingObjects, Error> {
        let mut there = ExistingObjects::new();
        if is_new {
            kinds.remove(&ItemKind::Secret);
        } else {
            self.open_access(home, items, &mut there, operation).await?;
        }
        there.extend(self.there(home, &kinds, operation).await?);
        Ok(there)
    }

    /// Restores the RoleBinding of the provider in an existing namespace. Without this RoleBinding, the
    /// provider cannot list all objects of the namespace.
    async fn open_access(
        &self,
        home: &str,
        items: &[Item],
        there: &mut ExistingObjects,
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(item) = items.iter().find(|item| item.id.is_access()) else {
            return Ok(());
        };
        let listed = || self.state.has_listed(CachedKind::RoleBindings);
        self.until_seen(listed).await;
        let live = self.state.lease_in(home).find(&item.id);
        if let Some(restored) = compare(item, live.as_ref()) {
            let calls = self.calls(operation);
            let written = write(&calls, home, &restored, live.as_ref()).await;
            written.map_err(|error| cannot_bind(home, error))?;
            granted(&calls, home).await?;
        }
        there.insert(item.id.clone(), ExistingObject::default());
        Ok(())
    }

    /// Returns true if the Secrets in the namespace of a lease can be read.
    pub(super) fn has_access(&self, view: &LeaseView) -> bool {
        let mut bindings = view.role_bindings.keys();
        self.lease_account().is_none() || bindings.any(|name| name == ACCESS)
    }
}

impl KubeCluster {
    /// Returns false if the admission policy of `deploy/rbac/confined.yaml` does not restrict the account.
    ///
    /// # Errors
    /// The errors of the API server.
    pub async fn is_confined(&self) -> Result<bool, Error> {
        self.inner().is_confined("is_confined").await
    }
}

fn subject(user: &str) -> Subject {
    let account = user.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, name)) => Subject {
            kind: "ServiceAccount".to_owned(),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            ..Subject::default()
        },
        None => Subject {
            api_group: Some(RBAC.to_owned()),
            kind: "User".to_owned(),
            name: user.to_owned(),
            ..Subject::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_and_users_are_distinguished() {
        let account = subject("system:serviceaccount:lease:akash-provider");
        assert_eq!(
            (
                account.kind.as_str(),
                account.name.as_str(),
                account.namespace.as_deref()
            ),
            ("ServiceAccount", "akash-provider", Some("lease"))
        );
        let user = subject("operator");
        assert_eq!(
            (user.kind.as_str(), user.name.as_str(), user.namespace),
            ("User", "operator", None)
        );
    }
}
