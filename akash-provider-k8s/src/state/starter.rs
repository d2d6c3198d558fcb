//! Starts the watches.

use super::cache::Cache;
use super::shared::CacheShared;
use super::watches::WatchReporter;
use super::{CachedKind, Definitions, WatchedKind};
use crate::labels;
use crate::task;
use akash_provider_kube_kernel::watch::{Bookkeeping, Decoded, Follower, FromObject, ListerWatcher, Sink};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::runtime::reflector::Store;
use kube::{Api, Client};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Starts the watches one by one.
pub(super) struct Starter<'a> {
    pub(super) client: &'a Client,
    /// Namespace of the custom resources.
    pub(super) namespace: &'a str,
    /// Shared watch of CustomResourceDefinitions, for kinds that the cluster does not serve yet.
    pub(super) definitions: &'a Definitions,
    pub(super) shared: Arc<CacheShared>,
    pub(super) tasks: Vec<AbortOnDropHandle<()>>,
}

impl Starter<'_> {
    pub(super) fn cluster<K: WatchedKind + kube::Resource<Scope = ClusterResourceScope>>(
        &mut self,
    ) -> Store<K> {
        self.start(Api::all(self.client.clone()))
    }

    pub(super) fn everywhere<K: WatchedKind + kube::Resource<Scope = NamespaceResourceScope>>(
        &mut self,
    ) -> Store<K> {
        self.start(Api::all(self.client.clone()))
    }

    /// Watches a kind without a label selector, because any object of this kind can weaken the isolation of a
    /// lease.
    pub(super) fn unlabelled<K: WatchedKind + kube::Resource<Scope = NamespaceResourceScope>>(
        &mut self,
    ) -> Store<K> {
        self.start_selected("", Api::all(self.client.clone()))
    }

    pub(super) fn manifests<K: WatchedKind + kube::Resource<Scope = NamespaceResourceScope>>(
        &mut self,
    ) -> Store<K> {
        self.start(Api::namespaced(self.client.clone(), self.namespace))
    }

    fn start<K: WatchedKind>(&mut self, api: Api<Decoded<K>>) -> Store<K> {
        self.start_selected(labels::SELECTOR, api)
    }

    fn start_selected<K: WatchedKind>(&mut self, selector: &'static str, api: Api<Decoded<K>>) -> Store<K> {
        let (cache, store) = Cache::new(Arc::clone(&self.shared));
        self.follow(K::KIND, selector, api, cache);
        store
    }

    pub(super) fn follow<T, S>(&mut self, kind: CachedKind, labels: &'static str, api: Api<T>, sink: S)
    where
        T: kube::Resource + FromObject + 'static,
        S: Sink<T> + 'static,
    {
        let follower = Follower {
            api,
            labels,
            fields: "".into(),
            is_metadata: false,
            reading: ListerWatcher::new::<Bookkeeping>(),
            definitions: self.definitions.clone(),
            sink,
            report: WatchReporter {
                kind,
                watches: Arc::clone(&self.shared.watches),
            },
            watch_config: self.shared.watch_config,
        };
        self.tasks.push(task::spawn("watch of workloads", follower.run()));
    }
}
