//! What the cluster holds of ours, kept current by one shared set of watches.

use crate::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use crate::labels;
use crate::settings::Settings;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::reflector::{self, Lookup, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use tokio_util::task::AbortOnDropHandle;

/// Caches of everything with our label.
#[derive(Debug)]
pub struct State {
    /// Namespaces of leases.
    pub namespaces: Store<Namespace>,
    /// Workloads without persistent volumes.
    pub deployments: Store<Deployment>,
    /// Workloads with persistent volumes.
    pub stateful_sets: Store<StatefulSet>,
    /// Pods of leases.
    pub pods: Store<Pod>,
    /// Services of leases.
    pub services: Store<Service>,
    /// Policies of leases.
    pub policies: Store<NetworkPolicy>,
    /// Manifests, in the manifest namespace.
    pub manifests: Store<Manifest>,
    /// Declared hostnames, in the manifest namespace.
    pub hosts: Store<ProviderHost>,
    /// Declared addresses, in the manifest namespace.
    pub ips: Store<ProviderLeasedIP>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl State {
    /// Starts the watches; they end when the state is dropped.
    #[must_use]
    pub fn start(client: &Client, settings: &Settings) -> Self {
        let ns = settings.manifest_namespace.as_str();
        let mut tasks = Vec::new();
        Self {
            namespaces: follow(Api::all(client.clone()), &mut tasks),
            deployments: follow(Api::all(client.clone()), &mut tasks),
            stateful_sets: follow(Api::all(client.clone()), &mut tasks),
            pods: follow(Api::all(client.clone()), &mut tasks),
            services: follow(Api::all(client.clone()), &mut tasks),
            policies: follow(Api::all(client.clone()), &mut tasks),
            manifests: follow(Api::namespaced(client.clone(), ns), &mut tasks),
            hosts: follow(Api::namespaced(client.clone(), ns), &mut tasks),
            ips: follow(Api::namespaced(client.clone(), ns), &mut tasks),
            tasks,
        }
    }
}

fn follow<K>(api: Api<K>, tasks: &mut Vec<AbortOnDropHandle<()>>) -> Store<K>
where
    K: kube::Resource<DynamicType = ()>
        + Lookup<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().labels(labels::SELECTOR);
    let stream: BoxStream<'static, _> = watcher(api, config).default_backoff().reflect(writer).boxed();
    tasks.push(AbortOnDropHandle::new(tokio::spawn(
        stream.for_each(|_| async {}),
    )));
    reader
}
