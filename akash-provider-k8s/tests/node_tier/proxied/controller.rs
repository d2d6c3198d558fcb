//! A controller of routes with a real proxy: it watches routes, services and their endpoints, has the proxy lead as they
//! say, and tells in their status that it took them.

use super::routes::{self, Follows, Led, Place, Seen};
use akash_provider_k8s::objects::HTTPRoute;
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

/// What it watches.
const KINDS: usize = 4;

type Loaded = BTreeMap<String, Led>;

/// A controller at work; it ends, and its proxy with it, when it is dropped.
pub(crate) struct Controller {
    port: u16,
    loaded: watch::Receiver<Loaded>,
    #[expect(dead_code, reason = "dropping them ends them")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// Where the objects of a kind go.
type PartOf = fn(&mut Seen) -> &mut routes::Objects;

/// What was seen, how many kinds were listed, and that there is news.
#[derive(Debug, Default)]
struct Board {
    seen: Mutex<(Seen, usize)>,
    news: Notify,
}

impl Controller {
    /// Starts one; its proxy leads what there is once everything was listed.
    pub(crate) async fn start(client: &Client, name: &str, follows: Follows) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let proxy = tokio::task::spawn_blocking(move || Proxy::start(&dir).unwrap());
        let proxy = proxy.await.unwrap();
        let port = proxy.port();
        let board = Arc::new(Board::default());
        let (sender, loaded) = watch::channel(Loaded::new());
        let kinds: [(ApiResource, PartOf); KINDS] = [
            (ApiResource::erase::<Ingress>(&()), |seen| &mut seen.ingresses),
            (ApiResource::erase::<HTTPRoute>(&()), |seen| &mut seen.routes),
            (ApiResource::erase::<Service>(&()), |seen| &mut seen.services),
            (ApiResource::erase::<EndpointSlice>(&()), |seen| &mut seen.slices),
        ];
        let mut tasks: Vec<_> = kinds
            .into_iter()
            .map(|(resource, part)| {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
                AbortOnDropHandle::new(tokio::spawn(follow(api, Arc::clone(&board), part)))
            })
            .collect();
        let serving = serve(client.clone(), proxy, follows, board, sender);
        tasks.push(AbortOnDropHandle::new(tokio::spawn(serving)));
        Self { port, loaded, tasks }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits until its proxy leads a hostname to a service by an object of this kind and namespace.
    pub(crate) async fn until_led(&self, hostname: &str, kind: &str, namespace: &str, service: &str) {
        let mut loaded = self.loaded.clone();
        let is_led = |all: &Loaded| {
            all.get(hostname).is_some_and(|led| {
                (led.kind, led.namespace.as_str(), led.service.as_str()) == (kind, namespace, service)
            })
        };
        let outcome = tokio::time::timeout(super::PATIENCE, loaded.wait_for(is_led)).await;
        let is_met = outcome.is_ok_and(|met| met.is_ok());
        let leads = self.loaded.borrow().get(hostname).cloned();
        assert!(is_met, "{hostname} to {kind} {namespace}/{service}: {leads:?}");
    }

    /// Waits until its proxy does not know a hostname.
    pub(crate) async fn until_gone(&self, hostname: &str) {
        let mut loaded = self.loaded.clone();
        let gone = loaded.wait_for(|all| !all.contains_key(hostname));
        let outcome = tokio::time::timeout(super::PATIENCE, gone).await;
        assert!(outcome.is_ok_and(|met| met.is_ok()), "{hostname} is led still");
    }
}

/// Takes the objects of a kind, for ever.
async fn follow(api: Api<DynamicObject>, board: Arc<Board>, part: fn(&mut Seen) -> &mut routes::Objects) {
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = routes::Objects::new();
    let mut was_listed = false;
    while let Some(event) = events.next().await {
        let mut seen = board.seen.lock().unwrap();
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
        board.news.notify_one();
    }
}

fn read(object: &DynamicObject) -> (Place, Value) {
    let meta = &object.metadata;
    let place = (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    );
    (place, serde_json::to_value(object).unwrap())
}

/// Has the proxy lead what there is, for ever. What is taken is said before the proxy leads it: a route is accepted when
/// it is understood, and no standard says that requests follow it by then.
async fn serve(
    client: Client,
    mut proxy: Proxy,
    follows: Follows,
    board: Arc<Board>,
    loaded: watch::Sender<Loaded>,
) {
    let port = proxy.port();
    loop {
        board.news.notified().await;
        let (led, said) = {
            let seen = board.seen.lock().unwrap();
            if seen.1 < KINDS {
                continue;
            }
            (routes::led(&seen.0, &follows), unsaid(&seen.0, &follows, port))
        };
        for (resource, (namespace, name), status) in said {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
            let patch = json!({"status": status});
            // One that is gone by now is no matter.
            let _ = api
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
        }
        if *loaded.borrow() == led {
            continue;
        }
        let backends = led
            .iter()
            .map(|(name, led)| (name.clone(), led.backend.clone()))
            .collect();
        let loading = tokio::task::spawn_blocking(move || {
            let outcome = proxy.load(&backends);
            (proxy, outcome)
        });
        let (back, outcome) = loading.await.unwrap();
        proxy = back;
        outcome.unwrap();
        loaded.send_replace(led);
    }
}

/// Routes whose status does not say yet what is so.
fn unsaid(seen: &Seen, follows: &Follows, port: u16) -> Vec<(ApiResource, Place, Value)> {
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
        let said = routes::said(seen, place, route, follows)?;
        Some((ApiResource::erase::<HTTPRoute>(&()), place, route, said))
    });
    let all = ingresses.chain(routes);
    let new = all.filter(|(_, _, object, status)| object.get("status") != Some(status));
    new.map(|(resource, place, _, status)| (resource, place.clone(), status))
        .collect()
}
