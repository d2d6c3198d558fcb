//! Watches with a misbehaving API server: observed state, reported errors, and number of requests.

mod listing;
mod logs;
mod nodes;
mod objects;
mod records;
mod rollouts;
mod server;
mod silence;

use akash_provider_core::cluster::{ClusterChange, Health, Outage};
use akash_provider_core::error::ErrorKind;
use akash_provider_k8s::state::{CachedKind, ObjectCache, WatchConfig};
use futures::StreamExt;
use objects::{deployment, lease, manifest, namespace, settings};
use serde_json::json;
use server::{Part, Reply, Request, Server, bookmark, client, event};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

type Changes = futures::stream::BoxStream<'static, Result<ClusterChange, akash_provider_core::error::Error>>;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The default configuration with shorter intervals.
fn watch_config() -> WatchConfig {
    let mut config = WatchConfig::default();
    config.proof = ms(200);
    config.steady = Duration::from_secs(2);
    config.wait_first = ms(20);
    config.wait_max = ms(160);
    config.wait_absent = ms(100);
    config.grace = ms(500);
    config
}

fn started(server: &Server, watch_config: WatchConfig) -> ObjectCache {
    ObjectCache::start_with(&server.client(), &settings(), watch_config)
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let met = async {
        while !condition() {
            sleep(ms(5)).await;
        }
    };
    assert!(
        timeout(Duration::from_secs(10), met).await.is_ok(),
        "never: {what}"
    );
}

async fn next(changes: &mut Changes) -> ClusterChange {
    let next = timeout(Duration::from_secs(10), changes.next()).await;
    next.expect("a change within 10 s")
        .expect("no end")
        .expect("no error")
}

/// Health of a lease that lacks a replica for an unknown reason.
const UNEXPLAINED: Health = Health::Out(Outage::Unexplained);

fn snapshot(of: &[(u64, Health)]) -> ClusterChange {
    let health = of.iter().map(|(dseq, health)| (lease(*dseq), *health));
    ClusterChange::Snapshot {
        health: health.collect(),
    }
}

fn changed(dseq: u64, health: Health) -> ClusterChange {
    let lease = lease(dseq);
    ClusterChange::Health { lease, health }
}

/// Replies to list requests: the lists contain the objects of one healthy lease. Returns `None` for other
/// requests.
fn one_lease(request: &Request) -> Option<Reply> {
    if request.is_watch() {
        return None;
    }
    match request.resource.as_str() {
        "namespaces" => Some(Reply::list("10", vec![namespace(1, "1")])),
        "manifests" => Some(Reply::list("10", vec![manifest(1, 1)])),
        "deployments" => Some(Reply::list("10", vec![deployment(1, 1, "1")])),
        _ => None,
    }
}

#[tokio::test]
async fn lists_use_labels_and_pages() {
    let server = Server::start(|request, nth| {
        if request.is_watch() || request.resource != "namespaces" {
            return None;
        }
        let (item, next) = [(1, "two"), (2, "three"), (3, "")][nth.min(2)];
        Some(Reply::page("10", vec![namespace(item, "1")], next))
    })
    .await;
    let state = started(&server, watch_config());
    timeout(Duration::from_secs(20), state.ready()).await.unwrap();
    let lists = server.calls("namespaces", false);
    let asked: Vec<_> = lists
        .iter()
        .map(|r| (r.get("limit"), r.get("continue")))
        .collect();
    assert_eq!(asked, [("500", ""), ("500", "two"), ("500", "three")]);
    assert!(
        lists
            .iter()
            .all(|r| r.get("labelSelector") == "akash.network%3Dtrue")
    );
    assert_eq!(state.leases().len(), 3);
    until("a watch", || !server.calls("namespaces", true).is_empty()).await;
    let watch = server.calls("namespaces", true).remove(0);
    assert_eq!(
        (watch.get("resourceVersion"), watch.get("allowWatchBookmarks")),
        ("10", "true")
    );
    let manifests = server.calls("manifests", false).remove(0);
    assert!(
        manifests.path.ends_with("/namespaces/lease/manifests"),
        "{}",
        manifests.path
    );
}

#[tokio::test]
async fn quiet_cluster_gets_no_requests() {
    let server = Server::start(|request, _| one_lease(request)).await;
    let state = started(&server, watch_config());
    state.ready().await;
    sleep(ms(300)).await;
    let before = server.count();
    assert_eq!(before, 28, "one list and one watch per kind");
    let mut changes = state.changes();
    assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
    for _ in 0..1000 {
        state.lease_status(&lease(1)).unwrap();
    }
    sleep(ms(1500)).await;
    assert_eq!(server.count(), before);
}

#[tokio::test]
async fn change_stream_starts_with_snapshot() {
    let server = Server::start(|request, nth| {
        if request.resource == "deployments" && request.is_watch() && nth == 0 {
            let bad = Part::Bytes(format!("{}\n", event("MODIFIED", &deployment(1, 0, "11"))).into_bytes());
            let good = Part::Bytes(format!("{}\n", event("MODIFIED", &deployment(1, 1, "12"))).into_bytes());
            return Some(Reply::Stream(vec![
                Part::Pause(ms(200)),
                bad,
                Part::Pause(ms(200)),
                good,
                Part::Stall,
            ]));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    let mut changes = state.changes();
    assert_eq!(
        next(&mut changes).await,
        ClusterChange::Lost,
        "the initial state is unknown"
    );
    assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
    assert_eq!(next(&mut changes).await, changed(1, UNEXPLAINED));
    assert_eq!(next(&mut changes).await, changed(1, Health::Good));
    assert_eq!(next(&mut state.changes()).await, snapshot(&[(1, Health::Good)]));
    drop(state);
    assert!(
        timeout(Duration::from_secs(20), changes.next())
            .await
            .unwrap()
            .is_none(),
        "the stream ends with the state"
    );
}

#[tokio::test]
async fn expired_version_causes_list_and_snapshot() {
    for as_event in [true, false] {
        let server = Server::start(move |request, nth| {
            if request.resource == "deployments" {
                let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
                return match (request.is_watch(), nth) {
                    (true, 0) if as_event => Some(Reply::watch(&[event("ERROR", &gone)], Some(Part::Stall))),
                    (true, 0) => Some(Reply::status(410, "Expired")),
                    (false, 1) => Some(Reply::list("20", vec![deployment(1, 0, "15")])),
                    _ => one_lease(request),
                };
            }
            one_lease(request)
        })
        .await;
        let state = started(&server, watch_config());
        let mut changes = state.changes();
        assert_eq!(next(&mut changes).await, ClusterChange::Lost);
        assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
        assert_eq!(
            next(&mut changes).await,
            snapshot(&[(1, UNEXPLAINED)]),
            "health is retained meanwhile"
        );
        until("a watch from the new version", || {
            server.calls("deployments", true).len() == 2
        })
        .await;
        assert_eq!(server.calls("deployments", true)[1].get("resourceVersion"), "20");
        assert_eq!(server.calls("deployments", false).len(), 2);
    }
}

#[tokio::test]
async fn retry_after_of_overloaded_server_is_respected() {
    let server = Server::start(|request, nth| {
        if request.resource != "pods" || nth > 0 || request.is_watch() {
            return None;
        }
        let busy = json!({
            "kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "busy",
            "details": {"retryAfterSeconds": 2},
        });
        Some(Reply::Json(429, Vec::new(), busy))
    })
    .await;
    let state = started(&server, watch_config());
    timeout(Duration::from_secs(8), state.ready()).await.unwrap();
    let lists = server.calls("pods", false);
    assert_eq!(lists.len(), 2);
    let waited = lists[1].at - lists[0].at;
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
}

/// A rejection by API Priority and Fairness has no status object.
#[tokio::test]
async fn rejection_by_priority_and_fairness_is_retried() {
    for retry in [true, false] {
        let server = Server::start(|request, nth| {
            let busy = || Reply::Text(429, vec![("retry-after", "1".to_owned())], "Too many requests");
            (request.resource == "pods" && nth < 1 && !request.is_watch()).then(busy)
        })
        .await;
        let state = ObjectCache::start_with(&client(server.port, retry), &settings(), watch_config());
        timeout(Duration::from_secs(8), state.ready()).await.unwrap();
        let lists = server.calls("pods", false);
        assert_eq!(lists.len(), 2, "{retry}");
        let waited = lists[1].at - lists[0].at;
        assert!(waited >= ms(990), "{retry}: {waited:?}");
    }
}

#[tokio::test]
async fn interrupted_watch_resumes_at_its_version() {
    let server = Server::start(|request, nth| {
        if request.resource == "deployments" && request.is_watch() {
            let whole = Part::Bytes(format!("{}\n", event("MODIFIED", &deployment(1, 0, "11"))).into_bytes());
            let half = Part::Bytes(b"{\"type\":\"MODIFIED\",\"object\":{\"meta".to_vec());
            return match nth {
                0 => Some(Reply::Stream(vec![whole, half, Part::Cut])),
                1 => Some(Reply::Nothing),
                2 => Some(Reply::watch(
                    &[event("MODIFIED", &deployment(1, 1, "12"))],
                    Some(Part::Stall),
                )),
                _ => None,
            };
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    let mut changes = state.changes();
    assert_eq!(next(&mut changes).await, ClusterChange::Lost);
    assert!(matches!(next(&mut changes).await, ClusterChange::Snapshot { .. }));
    until("the lease is healthy again", || {
        state.health(&lease(1)) == Health::Good && server.calls("deployments", true).len() > 2
    })
    .await;
    let from: Vec<_> = server.calls("deployments", true);
    let from: Vec<_> = from.iter().map(|r| r.get("resourceVersion").to_owned()).collect();
    assert_eq!(from, ["10", "11", "11"]);
    assert_eq!(server.calls("deployments", false).len(), 1, "no second list");
    assert!(state.is_known());
}

#[tokio::test]
async fn bookmarks_advance_the_version() {
    let server = Server::start(|request, nth| {
        if request.resource == "deployments" && request.is_watch() && nth == 0 {
            return Some(Reply::watch(&[bookmark("50")], None));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    until("a second watch", || server.calls("deployments", true).len() == 2).await;
    assert_eq!(server.calls("deployments", true)[1].get("resourceVersion"), "50");
    assert!(state.is_known());
}

#[tokio::test]
async fn invalid_watch_event_causes_one_list() {
    let server = Server::start(|request, nth| {
        if request.resource == "deployments" && request.is_watch() && nth < 3 {
            return Some(Reply::Stream(vec![
                Part::Bytes(b"}{ what\n".to_vec()),
                Part::Stall,
            ]));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    until("everything is listed again", || {
        server.calls("deployments", false).len() == 2
    })
    .await;
    let again = server.calls("deployments", false)[1].at;
    let before = server
        .calls("deployments", true)
        .into_iter()
        .filter(|r| r.at < again);
    assert_eq!(before.count(), 3);
    until("the watch works again", || {
        state.watches()[&CachedKind::Deployments].down_since.is_none()
    })
    .await;
    let watch = &state.watches()[&CachedKind::Deployments];
    assert!(watch.failures >= 3 && watch.last_error.is_some(), "{watch:?}");
    assert_eq!(state.health(&lease(1)), Health::Good);
}

#[tokio::test]
async fn invalid_object_is_reported_and_hides_no_other() {
    let server = Server::start(|request, _| {
        if request.resource == "manifests" && !request.is_watch() {
            let mut garbage = manifest(2, 1);
            garbage["spec"]["group"]["services"] = json!("none");
            return Some(Reply::list("10", vec![garbage, manifest(1, 1)]));
        }
        if request.resource == "namespaces" && !request.is_watch() {
            return Some(Reply::list("10", vec![namespace(1, "1"), namespace(2, "1")]));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    state.ready().await;
    let wanted = snapshot(&[(1, Health::Good), (2, Health::Unknown)]);
    assert_eq!(next(&mut state.changes()).await, wanted);
    let unreadable = state.unreadable();
    assert_eq!(unreadable.len(), 1);
    assert_eq!(
        (unreadable[0].0, &unreadable[0].1),
        (CachedKind::Manifests, &lease(2).namespace())
    );
}

#[tokio::test]
async fn dead_connection_differs_from_quiet_connection() {
    let mut quiet = watch_config();
    quiet.idle = ms(400);
    quiet.start_timeout = ms(300);
    let dead = Arc::new(AtomicBool::new(false));
    let is_dead = Arc::clone(&dead);
    let server = Server::start(move |request, _| {
        if request.resource == "deployments" && request.is_watch() && is_dead.load(Ordering::Relaxed) {
            return Some(Reply::Nothing);
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, quiet);
    let mut changes = state.changes();
    assert_eq!(next(&mut changes).await, ClusterChange::Lost);
    assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
    // A server without bookmarks: the watch is restarted without a warning.
    until("the watch is restarted", || {
        server.calls("deployments", true).len() >= 3
    })
    .await;
    assert!(timeout(ms(50), changes.next()).await.is_err());
    assert_eq!(server.calls("deployments", false).len(), 1);
    dead.store(true, Ordering::Relaxed);
    assert_eq!(next(&mut changes).await, ClusterChange::Lost);
    let status = state.lease_status(&lease(1)).unwrap_err();
    assert_eq!(status.kind(), ErrorKind::Unavailable);
    dead.store(false, Ordering::Relaxed);
    assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
}

#[tokio::test]
async fn watches_that_end_at_once_are_restarted_with_back_off() {
    let server = Server::start(|request, _| {
        if request.is_watch() {
            return Some(Reply::Stream(Vec::new()));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    let mut changes = state.changes();
    assert_eq!(next(&mut changes).await, ClusterChange::Lost);
    assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
    assert_eq!(
        next(&mut changes).await,
        ClusterChange::Lost,
        "the state of an unwatched kind is unknown"
    );
    sleep(Duration::from_secs(3)).await;
    let starts = state.watches()[&CachedKind::Deployments].starts;
    // Waits of at least 20, 40, 80 and then 160 ms, within about 3.5 s.
    assert!((8..=40).contains(&starts), "{starts}");
    assert!(server.count() < 500, "{}", server.count());
    let lists = server.calls("deployments", false).len();
    assert_eq!(lists, 1, "no second list");
}

#[tokio::test]
async fn undefined_kind_is_requested_after_its_definition_appears() {
    let served = Arc::new(AtomicBool::new(false));
    let is_served = Arc::clone(&served);
    let server = Server::start(move |request, _| {
        if request.resource == "customresourcedefinitions" && request.is_watch() {
            let object = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"name": "providerleasedips.akash.network", "resourceVersion": "11"},
            });
            let line = format!("{}\n", event("ADDED", &object)).into_bytes();
            return Some(Reply::Stream(vec![
                Part::Pause(ms(600)),
                Part::Bytes(line),
                Part::Stall,
            ]));
        }
        if request.resource == "providerleasedips" && !is_served.load(Ordering::Relaxed) {
            return Some(Reply::Text(404, Vec::new(), "404 page not found\n"));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    timeout(Duration::from_secs(20), state.ready()).await.unwrap();
    let asked = || server.calls("providerleasedips", false).len();
    sleep(ms(400)).await;
    assert_eq!(asked(), 1, "the kind is not defined");
    until("the definition is observed", || asked() > 2).await;
    // The kind is served some time after its definition.
    served.store(true, Ordering::Relaxed);
    until("the kind is synchronized", || {
        state.watches()[&CachedKind::Ips].synced
    })
    .await;
    assert_eq!(server.calls("customresourcedefinitions", false).len(), 1);
}

#[tokio::test]
async fn unserved_kind_is_awaited() {
    let served = Arc::new(AtomicBool::new(false));
    let is_served = Arc::clone(&served);
    let server = Server::start(move |request, _| {
        // No event announces the definition.
        if request.resource == "customresourcedefinitions" {
            return Some(Reply::status(403, "Forbidden"));
        }
        if request.resource == "providerleasedips" && !is_served.load(Ordering::Relaxed) {
            return Some(Reply::Text(404, Vec::new(), "404 page not found\n"));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    timeout(Duration::from_secs(20), state.ready()).await.unwrap();
    let watch = &state.watches()[&CachedKind::Ips];
    let awaited = "the cluster does not serve providerleasedips.akash.network yet";
    assert_eq!(watch.awaited.as_deref(), Some(awaited));
    assert!(state.is_known() && !watch.synced);
    sleep(ms(500)).await;
    let asked = server.calls("providerleasedips", false).len();
    assert!((2..10).contains(&asked), "{asked}");
    let mut changes = state.changes();
    assert!(matches!(next(&mut changes).await, ClusterChange::Snapshot { .. }));
    served.store(true, Ordering::Relaxed);
    assert!(matches!(next(&mut changes).await, ClusterChange::Snapshot { .. }));
    assert_eq!(next(&mut changes).await, ClusterChange::RecordsLost);
    until("the kind is synchronized", || {
        state.watches()[&CachedKind::Ips].synced
    })
    .await;
    assert_eq!(state.watches()[&CachedKind::Ips].awaited, None);
}

#[tokio::test]
async fn health_is_unknown_without_manifests() {
    let server = Server::start(|request, _| {
        if request.resource == "manifests" {
            return Some(Reply::status(404, "NotFound"));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    until("stated", || {
        state.watches()[&CachedKind::Manifests].awaited.is_some()
    })
    .await;
    assert!(timeout(ms(300), state.ready()).await.is_err());
    assert!(!state.is_known());
    assert_eq!(next(&mut state.changes()).await, ClusterChange::Lost);
}

#[tokio::test]
async fn unavailable_server_at_start_is_awaited() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let state = ObjectCache::start_with(&client(address.port(), false), &settings(), watch_config());
    let mut changes = state.changes();
    assert_eq!(next(&mut changes).await, ClusterChange::Lost);
    sleep(ms(700)).await;
    let watch = &state.watches()[&CachedKind::Namespaces];
    assert!(watch.down_for().is_some_and(|down| down > ms(500)), "{watch:?}");
    assert!((3..30).contains(&watch.failures), "{watch:?}");
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let _server = Server::on(listener, |request, _| one_lease(request));
    assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
}

#[tokio::test]
async fn slow_subscriber_gets_a_snapshot() {
    let server = Server::start(|request, nth| {
        if request.resource == "deployments" && request.is_watch() && nth == 0 {
            let flip = |n: u32| event("MODIFIED", &deployment(1, n % 2, &format!("{}", 11 + n)));
            let flips: Vec<_> = (0..5000).map(flip).collect();
            return Some(Reply::watch(&flips, Some(Part::Stall)));
        }
        one_lease(request)
    })
    .await;
    let state = started(&server, watch_config());
    let mut changes = state.changes();
    assert_eq!(next(&mut changes).await, ClusterChange::Lost);
    assert!(matches!(next(&mut changes).await, ClusterChange::Snapshot { .. }));
    let last = |state: &ObjectCache| {
        let web = state.lease(&lease(1)).deployments.get("web").cloned();
        web.and_then(|d| d.metadata.resource_version.clone())
    };
    until("all events were observed", || {
        last(&state).as_deref() == Some("5010")
    })
    .await;
    assert_eq!(next(&mut changes).await, snapshot(&[(1, Health::Good)]));
    assert!(timeout(ms(100), changes.next()).await.is_err(), "no older change");
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_leases_are_ready_within_three_seconds() {
    let server = Server::start(|request, nth| {
        if request.is_watch() {
            return None;
        }
        let all: Vec<_> = match request.resource.as_str() {
            "namespaces" => (1..=1000).map(|n| namespace(n, "1")).collect(),
            "manifests" => (1..=1000).map(|n| manifest(n, 1)).collect(),
            "deployments" => (1..=1000).map(|n| deployment(n, 1, "1")).collect(),
            "pods" => (1..=1000).map(|n| objects::pod(n, "web-0", "1")).collect(),
            _ => return None,
        };
        let page = all.chunks(500).nth(nth)?;
        Some(Reply::page(
            "10",
            page.to_vec(),
            if nth == 0 { "more" } else { "" },
        ))
    })
    .await;
    let began = Instant::now();
    let state = started(&server, WatchConfig::default());
    state.ready().await;
    let took = began.elapsed();
    println!("1,000 leases, ready in {took:?}, {} calls", server.count());
    let ClusterChange::Snapshot { health } = next(&mut state.changes()).await else {
        panic!("expected a snapshot");
    };
    assert_eq!(health.len(), 1000);
    assert!(health.values().all(|h| *h == Health::Good));
    assert!(took <= Duration::from_secs(3), "{took:?}");
}
