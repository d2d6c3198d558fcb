//! A route controller with a real proxy. The controller watches routes, services and endpoints, configures
//! the proxy and writes the status of the routes.

use super::routes::{self, ObjectKey, ObservedObjects, Scope, Target};
use akash_provider_kube_model::objects::HTTPRoute;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use testbed::Proxy;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

/// Number of watched kinds.
const KINDS: usize = 4;

type Loaded = BTreeMap<String, Target>;

/// A running controller with its proxy. Dropping the value stops both.
pub(crate) struct Controller {
    port: u16,
    loaded: watch::Receiver<Loaded>,
    #[expect(dead_code, reason = "dropping the tasks stops them")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

type Selector = fn(&mut ObservedObjects) -> &mut routes::Objects;

/// Observed objects, number of listed kinds, and notification of changes.
#[derive(Debug, Default)]
struct Cache {
    seen: Mutex<(ObservedObjects, usize)>,
    changed: Notify,
}

impl Controller {
    /// Starts a controller. The controller configures its proxy after all kinds were listed.
    pub(crate) async fn start(client: &Client, name: &str, follows: Scope) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let proxy = tokio::task::spawn_blocking(move || Proxy::start(&dir).unwrap());
        let proxy = proxy.await.unwrap();
        let port = proxy.port();
        let cache = Arc::new(Cache::default());
        let (sender, loaded) = watch::channel(Loaded::new());
        let kinds: [(ApiResource, Selector); KINDS] = [
            (ApiResource::erase::<Ingress>(&()), |seen| &mut seen.ingresses),
            (ApiResource::erase::<HTTPRoute>(&()), |seen| &mut seen.routes),
            (ApiResource::erase::<Service>(&()), |seen| &mut seen.services),
            (ApiResource::erase::<EndpointSlice>(&()), |seen| &mut seen.slices),
        ];
        let mut tasks: Vec<_> = kinds
            .into_iter()
            .map(|(resource, part)| {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
                AbortOnDropHandle::new(tokio::spawn(follow(api, Arc::clone(&cache), part)))
            })
            .collect();
        let serving = serve(client.clone(), proxy, follows, cache, sender);
        tasks.push(AbortOnDropHandle::new(tokio::spawn(serving)));
        Self { port, loaded, tasks }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the proxy routes a hostname to a service, through an object of this kind and namespace.
    pub(crate) async fn until_routed(&self, hostname: &str, kind: &str, namespace: &str, service: &str) {
        let mut loaded = self.loaded.clone();
        let is_routed = |all: &Loaded| {
            all.get(hostname).is_some_and(|target| {
                (target.kind, target.namespace.as_str(), target.service.as_str())
                    == (kind, namespace, service)
            })
        };
        let outcome = tokio::time::timeout(super::WAIT_LIMIT, loaded.wait_for(is_routed)).await;
        let is_met = outcome.is_ok_and(|met| met.is_ok());
        let targets = self.loaded.borrow().get(hostname).cloned();
        assert!(is_met, "{hostname} to {kind} {namespace}/{service}: {targets:?}");
    }

    pub(crate) async fn until_not_routed(&self, hostname: &str) {
        let mut loaded = self.loaded.clone();
        let gone = loaded.wait_for(|all| !all.contains_key(hostname));
        let outcome = tokio::time::timeout(super::WAIT_LIMIT, gone).await;
        assert!(
            outcome.is_ok_and(|met| met.is_ok()),
            "{hostname} still has a route"
        );
    }
}

/// Watches one kind and stores its objects in the cache.
async fn follow(
    api: Api<DynamicObject>,
    cache: Arc<Cache>,
    part: fn(&mut ObservedObjects) -> &mut routes::Objects,
) {
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = routes::Objects::new();
    let mut was_listed = false;
    while let Some(event) = events.next().await {
        let mut seen = cache.seen.lock().unwrap();
        match event {
            Ok(watcher::Event::Apply(object)) => {
                let (place, value) = read(&object);
                part(&mut seen.0).insert(place, value);
            }
            Ok(watcher::Event::Delete(object)) => drop(part(&mut seen.0).remove(&read(&object).0)),
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                let (place, value) = read(&object);
                listed.insert(place, value);
            }
            Ok(watcher::Event::InitDone) => {
                *part(&mut seen.0) = std::mem::take(&mut listed);
                seen.1 += usize::from(!std::mem::replace(&mut was_listed, true));
            }
            Err(error) => println!("the controller's watch: {error}"),
        }
        drop(seen);
        cache.changed.notify_one();
    }
}

fn read(object: &DynamicObject) -> (ObjectKey, Value) {
    let meta = &object.metadata;
    let place = (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    );
    (place, serde_json::to_value(object).unwrap())
}

/// Writes the status of the routes, then updates the proxy. The Gateway API allows that an accepted route is
/// not in use yet.
async fn serve(
    client: Client,
    mut proxy: Proxy,
    follows: Scope,
    cache: Arc<Cache>,
    loaded: watch::Sender<Loaded>,
) {
    let port = proxy.port();
    loop {
        cache.changed.notified().await;
        let (targets, statuses) = {
            let seen = cache.seen.lock().unwrap();
            if seen.1 < KINDS {
                continue;
            }
            (
                routes::targets(&seen.0, &follows),
                outdated_statuses(&seen.0, &follows, port),
            )
        };
        for (resource, (namespace, name), status) in statuses {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
            let patch = json!({"status": status});
            // A route that was deleted meanwhile is ignored.
            let _ = api
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
        }
        if *loaded.borrow() == targets {
            continue;
        }
        let backends = targets
            .iter()
            .map(|(name, target)| (name.clone(), target.backend.clone()))
            .collect();
        let loading = tokio::task::spawn_blocking(move || {
            let outcome = proxy.load(&backends);
            (proxy, outcome)
        });
        let (back, outcome) = loading.await.unwrap();
        proxy = back;
        outcome.unwrap();
        loaded.send_replace(targets);
    }
}

fn outdated_statuses(
    seen: &ObservedObjects,
    follows: &Scope,
    port: u16,
) -> Vec<(ApiResource, ObjectKey, Value)> {
    if follows.is_silent {
        return Vec::new();
    }
    let address = json!({"loadBalancer": {"ingress": [
        {"ip": "127.0.0.1", "ports": [{"port": port, "protocol": "TCP"}]},
    ]}});
    let ours = seen
        .ingresses
        .iter()
        .filter(|(_, ingress)| routes::is_of_class(ingress, follows));
    let ingresses = ours.map(|(place, ingress)| {
        (
            ApiResource::erase::<Ingress>(&()),
            place,
            ingress,
            address.clone(),
        )
    });
    let routes = seen.routes.iter().filter_map(|(place, route)| {
        let statuses = routes::gateway_status(seen, place, route, follows)?;
        Some((ApiResource::erase::<HTTPRoute>(&()), place, route, statuses))
    });
    let all = ingresses.chain(routes);
    let new = all.filter(|(_, _, object, status)| object.get("status") != Some(status));
    new.map(|(resource, place, _, status)| (resource, place.clone(), status))
        .collect()
}
