//! Feeds the objects of one watch into its cache and into the index of leases.

use super::{CacheShared, WatchedKind};
use akash_provider_kube_kernel::watch::{Decoded, Sink};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use std::sync::Arc;
use tokio::time::Instant;

/// Cache of the objects of one kind. The cache also updates the index of leases.
pub(super) struct Cache<K: WatchedKind> {
    writer: Writer<K>,
    store: Store<K>,
    shared: Arc<CacheShared>,
    /// Invalid objects of the current list, with the reason.
    unreadable: Vec<(ObjectMeta, String)>,
}

impl<K: WatchedKind> Cache<K> {
    pub(super) fn new(shared: Arc<CacheShared>) -> (Self, Store<K>) {
        let writer = Writer::default();
        let store = writer.as_reader();
        let cache = Self {
            writer,
            store: store.clone(),
            shared,
            unreadable: Vec::new(),
        };
        (cache, store)
    }

    /// Removes an object from the cache because its new version cannot be decoded.
    fn forget(&mut self, meta: &ObjectMeta) {
        let mut key = ObjectRef::new(meta.name.as_deref().unwrap_or_default());
        key.namespace.clone_from(&meta.namespace);
        if let Some(before) = self.store.get(&key) {
            self.writer.apply_watcher_event(&Event::Delete((*before).clone()));
        }
    }
}

impl<K: WatchedKind> Sink<Decoded<K>> for Cache<K> {
    fn begin(&mut self) {
        self.unreadable.clear();
        self.writer.apply_watcher_event(&Event::Init);
    }

    fn page(&mut self, objects: Vec<Decoded<K>>) {
        for Decoded(object) in objects {
            match object {
                Ok(object) if !object.is_of_a_lease() => {}
                Ok(mut object) => {
                    object.trim();
                    self.writer.apply_watcher_event(&Event::InitApply(object));
                }
                Err(invalid) => {
                    warn_unreadable::<K>(&invalid.metadata, &invalid.error);
                    self.unreadable.push((invalid.metadata, invalid.error));
                }
            }
        }
    }

    fn complete(&mut self, asked: Instant) {
        // The cache is updated first, because receivers of the signal read it.
        self.writer.apply_watcher_event(&Event::InitDone);
        let unreadable = std::mem::take(&mut self.unreadable);
        self.shared.replaced(&self.store.state(), &unreadable, asked);
    }

    fn applied(&mut self, object: Decoded<K>) {
        match object.0 {
            Ok(object) if !object.is_of_a_lease() => {}
            Ok(mut object) => {
                object.trim();
                let key = ObjectRef::from_obj(&object);
                self.writer.apply_watcher_event(&Event::Apply(object));
                if let Some(object) = self.store.get(&key) {
                    self.shared.applied(&object);
                }
            }
            Err(invalid) => {
                warn_unreadable::<K>(&invalid.metadata, &invalid.error);
                self.forget(&invalid.metadata);
                self.shared.unreadable::<K>(&invalid.metadata, &invalid.error);
            }
        }
    }

    fn deleted(&mut self, object: Decoded<K>) {
        match object.0 {
            Ok(object) if !object.is_of_a_lease() => {}
            Ok(object) => {
                let meta = object.meta().clone();
                // The cache is updated first, because receivers of the signal read it.
                self.writer.apply_watcher_event(&Event::Delete(object));
                self.shared.deleted::<K>(&meta);
            }
            Err(invalid) => {
                self.forget(&invalid.metadata);
                self.shared.deleted::<K>(&invalid.metadata);
            }
        }
    }
}

fn warn_unreadable<K: WatchedKind>(meta: &ObjectMeta, why: &str) {
    let (kind, name) = (K::KIND, meta.name.as_deref().unwrap_or_default());
    tracing::warn!(%kind, name, why, "cannot decode Kubernetes object, ignoring the object until it changes; fix or delete the object");
}
