//! What is there of the kinds that no watch holds: what was written once may have been deleted by hand.
//!
//! ```text
//! deploy    a list of each kind the lease has, in its namespace
//! start     the first deploy of every lease: one list of each kind in the whole cluster answers for all
//! findings  the same, anew
//! ```
//!
//! Secrets are listed only in the namespace of the records, and in the namespaces of leases with registry logins.

use super::Inner;
use crate::apply::item::{Id, Kind};
use crate::apply::plan::{Found, There};
use crate::apply::{Calls, Read};
use crate::crd::convert;
use crate::{labels, objects};
use akash_provider_core::error::Error;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// The kinds that no watch holds.
pub(super) const UNWATCHED: [Kind; 5] = [
    Kind::ResourceQuota,
    Kind::Secret,
    Kind::ServiceAccount,
    Kind::Role,
    Kind::RoleBinding,
];

/// A start deploys a thousand leases within seconds; after that a list of the whole cluster is too old.
const START: Duration = Duration::from_secs(30);
/// Lists that the API server is asked for at once.
const LISTS: usize = 4;

/// What is there by namespace.
pub(crate) type ByNamespace = HashMap<String, There>;

/// Lists of the whole cluster, each made when it is first asked for.
#[derive(Default)]
struct Lists([OnceCell<ByNamespace>; UNWATCHED.len()]);

impl Lists {
    /// The list of a kind; of Secrets those in the namespace of the records.
    async fn of(&self, kind: Kind, records: &str, calls: &Calls) -> Result<Option<&ByNamespace>, Error> {
        let place = UNWATCHED.iter().position(|unwatched| *unwatched == kind);
        let Some(cell) = place.and_then(|n| self.0.get(n)) else {
            return Ok(None);
        };
        let list = || async {
            let place = (kind == Kind::Secret).then_some(records);
            let found = calls
                .selected(kind, place, labels::SELECTOR, Read::Metadata)
                .await?;
            let mut all = ByNamespace::new();
            add(&mut all, kind, found);
            Ok(all)
        };
        // A list that failed is made again by whoever asks next.
        cell.get_or_try_init(list).await.map(Some)
    }
}

/// The start of this process, in which every lease is deployed once.
#[derive(Default)]
pub(crate) struct Start(Mutex<Phase>);

#[derive(Default)]
enum Phase {
    #[default]
    Ahead,
    Lasts {
        since: Instant,
        lists: Arc<Lists>,
        deployed: HashSet<String>,
    },
    Over,
}

impl Start {
    /// The lists that answer for a namespace that is deployed for the first time; `None` for any other.
    fn lists(&self, namespace: &str, deploys: bool) -> Option<Arc<Lists>> {
        // Each change is one assignment or one call to the set.
        let mut phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The start begins with the first question, not with the process: leases may come late.
        if matches!(*phase, Phase::Ahead) {
            *phase = Phase::Lasts {
                since: Instant::now(),
                lists: Arc::default(),
                deployed: HashSet::new(),
            };
        }
        match &mut *phase {
            Phase::Lasts {
                since,
                lists,
                deployed,
            } if since.elapsed() < START => {
                // A second deploy comes from a change and needs what is there then.
                let is_first = !deployed.contains(namespace);
                if deploys {
                    deployed.insert(namespace.to_owned());
                }
                is_first.then(|| Arc::clone(lists))
            }
            Phase::Ahead | Phase::Lasts { .. } | Phase::Over => {
                // For good, and without the lists: they may be large.
                *phase = Phase::Over;
                None
            }
        }
    }
}

impl Inner {
    /// What is there of some kinds in the namespace of a lease that is deployed.
    pub(super) async fn there(
        &self,
        namespace: &str,
        kinds: &BTreeSet<Kind>,
        operation: &'static str,
    ) -> Result<There, Error> {
        let lists = self.start.lists(namespace, true);
        let (lists, calls) = (lists.as_deref(), &self.calls(operation));
        let of_kind = |kind: Kind| {
            async move {
                if let Some(lists) = lists.filter(|_| kind != Kind::Secret)
                    && let Some(all) = lists.of(kind, "", calls).await?
                {
                    let mut there = all.get(namespace).cloned().unwrap_or_default();
                    there.retain(|id, _| id.kind == kind);
                    return Ok(there);
                }
                let found = calls.listed(kind, Some(namespace), parts_of(kind)).await?;
                Ok(found
                    .into_iter()
                    .map(|(meta, data)| entry(kind, meta, data))
                    .collect())
            }
            .boxed()
        };
        let lists: Vec<BoxFuture<'_, Result<There, Error>>> = kinds.iter().copied().map(of_kind).collect();
        let found: Vec<There> = stream::iter(lists).buffer_unordered(LISTS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Whether a Secret of the manifest namespace is there, for a lease that is recorded.
    pub(super) async fn is_there(
        &self,
        lease_namespace: &str,
        secret: &str,
        operation: &'static str,
    ) -> Result<bool, Error> {
        let home = &self.settings.manifest_namespace;
        let id = Id {
            kind: Kind::Secret,
            name: secret.to_owned(),
        };
        if let Some(lists) = self.start.lists(lease_namespace, false)
            && let Some(all) = lists.of(Kind::Secret, home, &self.calls(operation)).await?
        {
            return Ok(is_in(all, home, &id));
        }
        let (api, limit) = (self.secrets(), self.settings.call_timeout);
        let there = crate::error::within(limit, operation, api.get_metadata_opt(secret)).await?;
        Ok(there.is_some_and(|secret| secret.metadata.deletion_timestamp.is_none()))
    }

    /// What is there in the whole cluster: one list of each kind.
    pub(crate) async fn all_there(&self, operation: &'static str) -> Result<ByNamespace, Error> {
        let calls = &self.calls(operation);
        let list = |kind: Kind, place: Option<String>| {
            async move {
                let found = calls.selected(kind, place.as_deref(), labels::SELECTOR, Read::Metadata);
                Ok((kind, found.await?))
            }
            .boxed()
        };
        let kinds = UNWATCHED.into_iter().filter(|kind| *kind != Kind::Secret);
        let secrets = self.homes_of_logins().into_iter();
        let secrets = secrets.chain([self.settings.manifest_namespace.clone()]);
        let lists: Vec<BoxFuture<'_, Result<_, Error>>> = kinds
            .map(|kind| list(kind, None))
            .chain(secrets.map(|home| list(Kind::Secret, Some(home))))
            .collect();
        let found: Vec<_> = stream::iter(lists).buffer_unordered(LISTS).try_collect().await?;
        let mut all = ByNamespace::new();
        for (kind, objects) in found {
            add(&mut all, kind, objects);
        }
        Ok(all)
    }
}

impl Inner {
    /// Namespaces of leases whose records have registry logins, as far as their Secrets can be read.
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

/// True for an object that is there to stay.
pub(crate) fn is_in(all: &ByNamespace, namespace: &str, id: &Id) -> bool {
    let found = all.get(namespace).and_then(|there| there.get(id));
    found.is_some_and(|found| !found.is_deleting)
}

/// A login is compared with the one that is there, since no hash of it is kept.
const fn parts_of(kind: Kind) -> Read {
    if matches!(kind, Kind::Secret) {
        Read::Data
    } else {
        Read::Metadata
    }
}

fn add(all: &mut ByNamespace, kind: Kind, found: Vec<(ObjectMeta, crate::apply::item::Data)>) {
    for (meta, data) in found {
        let namespace = meta.namespace.clone().unwrap_or_default();
        let (id, found) = entry(kind, meta, data);
        all.entry(namespace).or_default().insert(id, found);
    }
}

fn entry(kind: Kind, meta: ObjectMeta, data: crate::apply::item::Data) -> (Id, Found) {
    let id = Id {
        kind,
        name: meta.name.unwrap_or_default(),
    };
    let found = Found {
        is_deleting: meta.deletion_timestamp.is_some(),
        data,
    };
    (id, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_is_not_watched_is_looked_for() {
        let unwatched = Kind::ALL.into_iter().filter(|kind| !kind.is_watched());
        assert_eq!(
            unwatched.collect::<BTreeSet<_>>(),
            UNWATCHED.into_iter().collect::<BTreeSet<_>>()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_of_the_start_answers_once_for_each_lease_and_not_for_long() {
        let start = Start::default();
        assert!(
            start.lists("a", false).is_some(),
            "who only asks is still to be deployed"
        );
        assert!(start.lists("a", true).is_some());
        assert!(
            start.lists("a", true).is_none(),
            "what was done since is not in it"
        );
        assert!(start.lists("b", true).is_some());
        tokio::time::advance(START).await;
        assert!(start.lists("c", true).is_none(), "it is too old");
    }
}
