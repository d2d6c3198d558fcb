//! Existing objects of the kinds without a watch. An object written earlier may have been deleted manually.
//!
//! ```text
//! deploy    one list per kind of the lease, in its namespace
//! start     first deploy of every lease: one list per kind in the whole cluster, shared by all leases
//! findings  one new list per kind in the whole cluster
//! ```
//!
//! Secrets are listed only in the namespace of the records, and in the namespaces of leases with registry logins.

use super::ClusterContext;
use crate::apply::item::{ItemKind, ObjectId};
use crate::apply::plan::{ExistingObject, ExistingObjects};
use crate::apply::{self, ReadScope};
use crate::labels;
use akash_provider_core::error::Error;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_model::crd::convert;
use akash_provider_kube_model::objects;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

pub(super) const UNWATCHED: [ItemKind; 5] = [
    ItemKind::ResourceQuota,
    ItemKind::Secret,
    ItemKind::ServiceAccount,
    ItemKind::Role,
    ItemKind::RoleBinding,
];

/// Duration for which deploys share the lists of all objects in the cluster, from the first use. Sharing
/// saves API calls after a start.
const START: Duration = Duration::from_secs(30);
/// Maximum number of concurrent lists.
const LISTS: usize = 4;

pub(crate) type ByNamespace = HashMap<String, ExistingObjects>;

/// Objects of the whole cluster, as one list for each kind.
#[derive(Default)]
struct Lists([OnceCell<ByNamespace>; UNWATCHED.len()]);

impl Lists {
    /// Lists the objects of a kind on first use. Secrets are listed only in the namespace `records`.
    async fn get(
        &self,
        kind: ItemKind,
        records: &str,
        calls: &KubeCalls,
    ) -> Result<Option<&ByNamespace>, Error> {
        let place = UNWATCHED.iter().position(|unwatched| *unwatched == kind);
        let Some(cell) = place.and_then(|n| self.0.get(n)) else {
            return Ok(None);
        };
        let list = || async {
            let place = (kind == ItemKind::Secret).then_some(records);
            let found = apply::selected(calls, kind, place, labels::SELECTOR, ReadScope::Metadata).await?;
            let mut all = ByNamespace::new();
            add(&mut all, kind, found);
            Ok(all)
        };
        // A failed list is retried by the next caller.
        cell.get_or_try_init(list).await.map(Some)
    }
}

/// Lists of objects of the whole cluster. The first deploys of all leases share these lists during [`START`].
#[derive(Default)]
pub(crate) struct StartupLists(Mutex<StartupPhase>);

#[derive(Default)]
enum StartupPhase {
    #[default]
    Pending,
    Active {
        since: Instant,
        lists: Arc<Lists>,
        deployed: HashSet<String>,
    },
    Done,
}

impl StartupLists {
    /// Returns the shared lists for the first deploy in a namespace. Returns `None` for later deploys, and
    /// after the period [`START`]. If `deploys` is true, this call counts as a deploy.
    fn lists(&self, namespace: &str, deploys: bool) -> Option<Arc<Lists>> {
        // Each change is one assignment or one call to the set.
        let mut phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The period starts with the first query, not with the process: leases may come late.
        if matches!(*phase, StartupPhase::Pending) {
            *phase = StartupPhase::Active {
                since: Instant::now(),
                lists: Arc::default(),
                deployed: HashSet::new(),
            };
        }
        match &mut *phase {
            StartupPhase::Active {
                since,
                lists,
                deployed,
            } if since.elapsed() < START => {
                // A second deploy follows a change and needs current objects.
                let is_first = !deployed.contains(namespace);
                if deploys {
                    deployed.insert(namespace.to_owned());
                }
                is_first.then(|| Arc::clone(lists))
            }
            StartupPhase::Pending | StartupPhase::Active { .. } | StartupPhase::Done => {
                // Permanent, and frees the lists, which may be large.
                *phase = StartupPhase::Done;
                None
            }
        }
    }
}

impl ClusterContext {
    /// Returns the existing objects of `kinds` in the namespace of a lease.
    pub(super) async fn there(
        &self,
        namespace: &str,
        kinds: &BTreeSet<ItemKind>,
        operation: &'static str,
    ) -> Result<ExistingObjects, Error> {
        let lists = self.start.lists(namespace, true);
        let (lists, calls) = (lists.as_deref(), &self.calls(operation));
        let of_kind = |kind: ItemKind| {
            async move {
                if let Some(lists) = lists.filter(|_| kind != ItemKind::Secret)
                    && let Some(all) = lists.get(kind, "", calls).await?
                {
                    let mut there = all.get(namespace).cloned().unwrap_or_default();
                    there.retain(|id, _| id.kind == kind);
                    return Ok(there);
                }
                let found = apply::listed(calls, kind, Some(namespace), parts_of(kind)).await?;
                Ok(found
                    .into_iter()
                    .map(|(meta, data)| entry(kind, meta, data))
                    .collect())
            }
            .boxed()
        };
        let lists: Vec<BoxFuture<'_, Result<ExistingObjects, Error>>> =
            kinds.iter().copied().map(of_kind).collect();
        let found: Vec<ExistingObjects> = stream::iter(lists).buffer_unordered(LISTS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns true if the Secret `secret` of a recorded lease exists in the manifest namespace.
    pub(super) async fn is_there(
        &self,
        lease_namespace: &str,
        secret: &str,
        operation: &'static str,
    ) -> Result<bool, Error> {
        let home = &self.settings.manifest_namespace;
        let id = ObjectId::new(ItemKind::Secret, secret);
        if let Some(lists) = self.start.lists(lease_namespace, false)
            && let Some(all) = lists.get(ItemKind::Secret, home, &self.calls(operation)).await?
        {
            return Ok(is_in(all, home, &id));
        }
        let (api, limit) = (self.secrets(), self.settings.call_timeout);
        let there = crate::error::within(limit, operation, api.get_metadata_opt(secret)).await?;
        Ok(there.is_some_and(|secret| secret.metadata.deletion_timestamp.is_none()))
    }

    /// Lists the existing objects in the whole cluster, with one list request for each kind.
    pub(crate) async fn all_there(&self, operation: &'static str) -> Result<ByNamespace, Error> {
        let calls = &self.calls(operation);
        let list = |kind: ItemKind, place: Option<String>| {
            async move {
                let found = apply::selected(
                    calls,
                    kind,
                    place.as_deref(),
                    labels::SELECTOR,
                    ReadScope::Metadata,
                );
                Ok((kind, found.await?))
            }
            .boxed()
        };
        let kinds = UNWATCHED.into_iter().filter(|kind| *kind != ItemKind::Secret);
        let secrets = self.homes_of_logins().into_iter();
        let secrets = secrets.chain([self.settings.manifest_namespace.clone()]);
        let lists: Vec<BoxFuture<'_, Result<_, Error>>> = kinds
            .map(|kind| list(kind, None))
            .chain(secrets.map(|home| list(ItemKind::Secret, Some(home))))
            .collect();
        let found: Vec<_> = stream::iter(lists).buffer_unordered(LISTS).try_collect().await?;
        let mut all = ByNamespace::new();
        for (kind, objects) in found {
            add(&mut all, kind, objects);
        }
        Ok(all)
    }
}

impl ClusterContext {
    /// Returns the namespaces of leases with registry logins. Omits namespaces in which the provider cannot
    /// read Secrets.
    fn homes_of_logins(&self) -> Vec<String> {
        let manifests = self.manifests().state();
        let ours = manifests.iter().filter(|manifest| self.is_ours(manifest));
        let homes = ours.filter_map(|manifest| {
            let recorded = convert::from_manifest(manifest).ok()?.deployment;
            let home = recorded.lease.namespace();
            let view = self.state.lease_in(&home);
            let mut services = recorded.group.services.iter();
            let has_login = services.any(|service| objects::login(service).is_some());
            (has_login && view.namespace.is_some() && self.has_access(&view)).then_some(home)
        });
        homes.collect()
    }
}

/// Returns true if the object exists and is not being deleted.
pub(crate) fn is_in(all: &ByNamespace, namespace: &str, id: &ObjectId) -> bool {
    let found = all.get(namespace).and_then(|there| there.get(id));
    found.is_some_and(|found| !found.is_deleting)
}

/// Returns the parts of an object to read. A comparison of Secrets needs their data, because the provider
/// stores no hash of a password.
const fn parts_of(kind: ItemKind) -> ReadScope {
    if matches!(kind, ItemKind::Secret) {
        ReadScope::Data
    } else {
        ReadScope::Metadata
    }
}

fn add(all: &mut ByNamespace, kind: ItemKind, found: Vec<(ObjectMeta, crate::apply::item::Data)>) {
    for (meta, data) in found {
        let namespace = meta.namespace.clone().unwrap_or_default();
        let (id, found) = entry(kind, meta, data);
        all.entry(namespace).or_default().insert(id, found);
    }
}

fn entry(kind: ItemKind, meta: ObjectMeta, data: crate::apply::item::Data) -> (ObjectId, ExistingObject) {
    let id = ObjectId::new(kind, meta.name.unwrap_or_default());
    let found = ExistingObject {
        is_deleting: meta.deletion_timestamp.is_some(),
        data,
    };
    (id, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_without_a_watch_is_listed() {
        let unwatched = ItemKind::ALL.into_iter().filter(|kind| !kind.is_watched());
        assert_eq!(
            unwatched.collect::<BTreeSet<_>>(),
            UNWATCHED.into_iter().collect::<BTreeSet<_>>()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_of_the_start_serves_each_lease_once_and_expires() {
        let start = StartupLists::default();
        assert!(
            start.lists("a", false).is_some(),
            "a query does not count as a deploy"
        );
        assert!(start.lists("a", true).is_some());
        assert!(
            start.lists("a", true).is_none(),
            "the shared list lacks later changes"
        );
        assert!(start.lists("b", true).is_some());
        tokio::time::advance(START).await;
        assert!(start.lists("c", true).is_none(), "the list has expired");
    }
}
