//! Tests of discovery with a fake API server and a paused clock.

use super::super::super::database::Database;
use super::super::super::database::tests::LIST;
use super::super::super::index::InventoryEvent;
use super::super::super::rules::Rules;
use super::super::super::shared::InventoryOperatorState;
use super::super::runner::DiscoveryRunner;
use super::*;
use crate::change::ObjectChange;
use crate::deletions::{Entries, lines, memory_log};
use crate::operator_state::OperatorIndex;
use akash_provider_core::election::LeadershipGate;
use akash_provider_kube_kernel::calls::KubeCalls;
use kube::Client;
use kube::client::Body;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

const CPU: &str =
    r#"{"processors": [{"id": 0, "total_threads": 2, "vendor": "AuthenticAMD", "model": "AMD EPYC"}]}"#;
const PODS: &str = "/api/v1/namespaces/look/pods";

/// Behavior of the discovery pod of a node.
#[derive(Debug, Clone)]
enum Fate {
    Answers(String),
    /// The pod returns these GPUs and no processors.
    SaysCards(String),
    Refuses(u16, String),
    Silent,
    NeverRuns,
    Waits(&'static str),
    Elsewhere,
    Vanishes,
    MayNot,
}

/// API server that serves only pods.
#[derive(Debug, Default)]
struct Server {
    fates: BTreeMap<String, Fate>,
    pods: BTreeMap<String, Value>,
    made: Vec<String>,
    deleted: Vec<String>,
}

type Answered = Result<http::Response<Body>, std::io::Error>;

fn answer(code: u16, body: impl Into<Vec<u8>>) -> Answered {
    Ok(http::Response::builder()
        .status(code)
        .body(body.into().into())
        .unwrap())
}

fn failure(code: u16, reason: &str) -> Answered {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("{reason} is the reason of the server")});
    answer(code, body.to_string())
}

impl Server {
    fn fate(&self, pod: &str) -> Fate {
        let node = pod.strip_prefix(START).unwrap();
        self.fates.get(node).cloned().unwrap_or(Fate::NeverRuns)
    }

    fn make(&mut self, body: &str) -> Answered {
        let mut pod: Value = serde_json::from_str(body).unwrap();
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        if let Fate::MayNot = self.fate(&name) {
            return failure(403, "Forbidden");
        }
        if self.pods.contains_key(&name) {
            return failure(409, "AlreadyExists");
        }
        self.made.push(name.clone());
        pod["metadata"]["uid"] = json!(format!("u{}", self.made.len()));
        pod["status"] = match self.fate(&name) {
            Fate::NeverRuns => json!({"phase": "Pending"}),
            Fate::Waits(reason) => {
                json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]})
            }
            _ => json!({"phase": "Running"}),
        };
        if let Fate::Elsewhere = self.fate(&name) {
            pod["spec"]["nodeName"] = json!("another");
        }
        let text = pod.to_string();
        if !matches!(self.fate(&name), Fate::Vanishes) {
            self.pods.insert(name, pod);
        }
        answer(201, text)
    }

    fn delete(&mut self, name: &str, body: &str) -> Answered {
        let wanted: Value = serde_json::from_str(body).unwrap();
        let Some(there) = self.pods.get(name) else {
            return failure(404, "NotFound");
        };
        assert_eq!(
            wanted["preconditions"]["uid"], there["metadata"]["uid"],
            "deleted by UID"
        );
        self.pods.remove(name);
        self.deleted.push(name.to_owned());
        answer(
            200,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}).to_string(),
        )
    }

    /// Returns the response to a request, or `None` if the server never responds.
    fn call(&mut self, method: &str, path: &str, query: &str, body: &str) -> Option<Answered> {
        let Some(rest) = path.strip_prefix(PODS) else {
            return Some(failure(403, "Forbidden"));
        };
        let name = rest.trim_start_matches('/');
        Some(match (method, name) {
            ("POST", "") => self.make(body),
            ("GET", "") => {
                assert!(query.contains("labelSelector="), "{query}");
                let ours = |pod: &&Value| {
                    LABELS
                        .iter()
                        .all(|(key, value)| pod["metadata"]["labels"][*key] == *value)
                };
                let item = |pod: &Value| json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": pod["metadata"]});
                let items: Vec<Value> = self.pods.values().filter(ours).map(item).collect();
                let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": items});
                answer(200, list.to_string())
            }
            ("DELETE", name) => self.delete(name, body),
            ("GET", name) if name.ends_with(":8081/proxy/cpu") => {
                match self.fate(name.strip_suffix(":8081/proxy/cpu")?) {
                    Fate::Answers(_) => answer(200, CPU),
                    Fate::SaysCards(_) => answer(500, "/proc/cpuinfo: Permission denied"),
                    _ => return None,
                }
            }
            ("GET", name) => match name.strip_suffix(":8081/proxy/gpu") {
                None => self
                    .pods
                    .get(name)
                    .map_or_else(|| failure(404, "NotFound"), |pod| answer(200, pod.to_string())),
                Some(pod) => match self.fate(pod) {
                    Fate::Answers(text) | Fate::SaysCards(text) => answer(200, text),
                    Fate::Refuses(code, text) => answer(code, text),
                    _ => return None,
                },
            },
            _ => failure(405, "MethodNotAllowed"),
        })
    }
}

/// Cluster of GPU nodes without model labels.
struct World {
    server: Arc<Mutex<Server>>,
    shared: Arc<InventoryOperatorState>,
    until: CancellationToken,
    gate: LeadershipGate,
    /// Entries of the audit log.
    entries: Entries,
    runner: AbortOnDropHandle<()>,
}

fn view(name: &str, boot: &str, count: i64) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        boot: boot.to_owned(),
        version: 1,
        is_ready: true,
        devices: [Some(count), None],
        ..NodeView::default()
    }
}

fn two() -> Fate {
    let cards = [card("a", "10de", "20b5"), card("b", "10de", "20b5")];
    Fate::Answers(json!({ "cards": cards }).to_string())
}

impl World {
    fn with(fates: &[(&str, Fate)], there: Vec<Value>) -> Self {
        let mut server = Server::default();
        let mut nodes = BTreeMap::new();
        for (name, fate) in fates {
            server.fates.insert((*name).to_owned(), fate.clone());
            nodes.insert((*name).to_owned(), view(name, "1", 2));
        }
        for pod in there {
            server
                .pods
                .insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), pod);
        }
        let server = Arc::new(Mutex::new(server));
        let shared = Arc::new(InventoryOperatorState::new(
            Rules::default(),
            Duration::from_secs(3),
            akash_provider_kube_kernel::watch::Definitions::default(),
            true,
        ));
        shared
            .state
            .apply(InventoryEvent::Nodes(ObjectChange::Listed(nodes)));
        shared
            .state
            .apply(InventoryEvent::Classes(ObjectChange::Listed(BTreeMap::new())));
        shared
            .state
            .apply(InventoryEvent::List(Database::read(LIST.as_bytes()).unwrap()));
        let (until, gate) = (CancellationToken::new(), LeadershipGate::new(true));
        let client = client(&server);
        let calls = KubeCalls::new(
            client.clone(),
            Duration::from_secs(10),
            "discover the hardware of a node",
        )
        .guarded(gate.clone());
        // The deletion of a pod does not wait for the full log.
        let (log, entries) = memory_log(true);
        let runner = DiscoveryRunner::new(&shared, &client, calls, options(), log);
        let runner = AbortOnDropHandle::new(tokio::spawn(runner.run(until.clone())));
        Self {
            server,
            shared,
            until,
            gate,
            entries,
            runner,
        }
    }

    fn put(&self, view: NodeView) {
        self.shared
            .state
            .apply(InventoryEvent::Nodes(ObjectChange::Put(view.name.clone(), view)));
    }

    fn made(&self) -> usize {
        self.server.lock().unwrap().made.len()
    }

    fn pods(&self) -> Vec<String> {
        self.server.lock().unwrap().pods.keys().cloned().collect()
    }

    fn a100(&self, node: &str) -> Option<String> {
        let work = self.shared.state.inner().index.work(node);
        let labels = &work.write?.wanted["labels"];
        labels["akash.network/capabilities.gpu.vendor.nvidia.model.a100"]
            .as_str()
            .map(str::to_owned)
    }

    fn error(&self, node: &str) -> Option<String> {
        self.shared.status().nodes[node].discovery.as_ref()?.error.clone()
    }
}

fn client(server: &Arc<Mutex<Server>>) -> Client {
    use http_body_util::BodyExt;
    let server = Arc::clone(server);
    let served = tower::service_fn(move |request: http::Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (method, uri) = (request.method().to_string(), request.uri().clone());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8(body.to_vec()).unwrap();
            let response =
                server
                    .lock()
                    .unwrap()
                    .call(&method, uri.path(), uri.query().unwrap_or_default(), &body);
            match response {
                Some(response) => response,
                None => std::future::pending().await,
            }
        }
    });
    Client::new(served, "default")
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn node_is_discovered_once_and_again_after_a_reboot_or_with_other_devices() {
    let world = World::with(&[("one", two())], Vec::new());
    pass(10).await;
    assert_eq!((world.a100("one").as_deref(), world.made()), (Some("2"), 1));
    assert!(world.pods().is_empty(), "the pod is deleted after its response");
    let status = world.shared.status();
    let seen = status.nodes["one"].discovery.clone().unwrap();
    assert_eq!(
        (seen.cards, seen.is_waiting, seen.error),
        ([("nvidia/20b5".to_owned(), 2)].into(), false, None)
    );
    assert_eq!(status.discovery.unwrap().looks, 1);
    pass(3_600).await;
    assert_eq!(world.made(), 1);
    world.put(NodeView {
        version: 2,
        ..view("one", "2", 2)
    });
    assert_eq!(
        world.a100("one"),
        None,
        "results from before the reboot do not count"
    );
    pass(10).await;
    assert_eq!((world.a100("one").as_deref(), world.made()), (Some("2"), 2));
    world.put(NodeView {
        version: 3,
        ..view("one", "2", 1)
    });
    pass(10).await;
    assert_eq!((world.a100("one").as_deref(), world.made()), (Some("1"), 3));
    // After a restart of its device plugin the node is unchanged.
    world.put(NodeView {
        version: 4,
        ..view("one", "2", 0)
    });
    pass(10).await;
    world.put(NodeView {
        version: 5,
        ..view("one", "2", 1)
    });
    pass(10).await;
    assert_eq!((world.a100("one").as_deref(), world.made()), (Some("1"), 3));
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_is_reported_and_delays_no_other_node() {
    let long = " ".repeat(RESPONSE_MAX + 1);
    let negative = r#"{"cards": -4}"#.to_owned();
    let thousands = json!({"cards": vec![card("", "10de", "20b5"); 3_000]}).to_string();
    let rows = [
        (
            "a-garbage",
            Fate::Answers("<html>".to_owned()),
            "invalid response",
        ),
        ("b-negative", Fate::Answers(negative), "invalid response"),
        (
            "c-thousands",
            Fate::Answers(thousands),
            "3000 cards exceed the limit of a node",
        ),
        ("d-long", Fate::Answers(long.clone()), "longer than 1048576 bytes"),
        (
            "e-broken",
            Fate::Refuses(500, "no\u{1b}[2J database".to_owned()),
            "responds 500 Internal Server Error: no\\u{1b}[2J",
        ),
        ("f-moved", Fate::Refuses(302, String::new()), "responds 302"),
        ("g-silent", Fate::Silent, "does not respond within 5s"),
        ("h-unstarted", Fate::NeverRuns, "the pod does not run"),
        ("i-imageless", Fate::Waits("ErrImagePull"), "ErrImagePull"),
        ("j-elsewhere", Fate::Elsewhere, "the pod runs on another node"),
        (
            "k-vanished",
            Fate::Vanishes,
            "the pod was deleted by another client",
        ),
        (
            "m-long-refusal",
            Fate::Refuses(500, long.clone()),
            "longer than 1048576 bytes",
        ),
        (
            "l-forbidden",
            Fate::MayNot,
            "Forbidden is the reason of the server",
        ),
    ];
    let mut fates: Vec<_> = rows.iter().map(|(name, fate, _)| (*name, fate.clone())).collect();
    fates.push(("z-fine", two()));
    let world = World::with(&fates, Vec::new());
    pass(240).await;
    assert_eq!(world.a100("z-fine").as_deref(), Some("2"));
    for (name, _, expected) in &rows {
        let error = world.error(name).unwrap_or_default();
        assert!(error.contains(expected) && error.len() < 500, "{name}: {error}");
        assert_eq!(world.a100(name), None);
    }
    let status = world.shared.status().discovery.unwrap();
    assert_eq!(
        (status.waiting, status.failing, status.looks),
        (rows.len(), rows.len(), 1)
    );
    world.until.cancel();
    pass(10).await;
    assert!(
        world.runner.is_finished() && world.pods().is_empty(),
        "{:?}",
        world.pods()
    );
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_backs_off_and_succeeds_after_recovery() {
    let world = World::with(&[("one", Fate::Answers("<html>".to_owned()))], Vec::new());
    pass(600).await;
    let tries = world.made();
    assert!((5..=10).contains(&tries), "{tries}");
    pass(3_600).await;
    let later = world.made() - tries;
    assert!((10..=13).contains(&later), "every five minutes: {later}");
    world.server.lock().unwrap().fates.insert("one".to_owned(), two());
    pass(310).await;
    assert_eq!(
        (world.a100("one").as_deref(), world.error("one")),
        (Some("2"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn old_pods_are_deleted_by_label_and_name_and_recorded_and_foreign_pods_stay() {
    let labels: BTreeMap<_, _> = LABELS.into();
    let there = |name: &str, labels: Value| json!({"metadata": {"name": name, "uid": format!("u-{name}"), "labels": labels}});
    let foreign = format!("{START}foreign");
    let pods = vec![
        there(&format!("{START}gone"), json!(labels)),
        there(&format!("{START}one"), json!(labels)),
        there("operator-inventory-5d4f", json!(labels)),
        there(&foreign, json!({"app": "theirs"})),
    ];
    let world = World::with(&[("one", two()), ("foreign", two())], pods);
    pass(30).await;
    assert_eq!(world.a100("one").as_deref(), Some("2"));
    assert_eq!(world.pods(), ["operator-inventory-5d4f", foreign.as_str()]);
    let acts = [
        format!("pod_delete gone discovery_leftover (Pod look/{START}gone, uid u-{START}gone)"),
        format!("pod_delete one discovery_leftover (Pod look/{START}one, uid u-{START}one)"),
        format!("pod_delete one discovery_done (Pod look/{START}one, uid u1)"),
    ];
    let expected = acts.map(|act| [format!("{act} intent"), format!("{act} done")]);
    assert_eq!(lines(&world.entries), expected.concat());
    let error = world.error("foreign").unwrap();
    assert!(
        error.contains("another client") && error.contains("--discovery-namespace"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn standby_creates_and_deletes_no_pod() {
    let labels: BTreeMap<_, _> = LABELS.into();
    let name = format!("{START}gone");
    let left = json!({"metadata": {"name": name, "uid": "u", "labels": labels}});
    let without = World::with(&[("one", two())], Vec::new());
    without.gate.set(false);
    pass(60).await;
    assert_eq!(without.made(), 0);
    let error = without.error("one").unwrap();
    assert!(error.contains("does not lead"), "{error}");
    let world = World::with(&[("one", two())], vec![left]);
    world.gate.set(false);
    pass(60).await;
    assert_eq!((world.made(), world.pods()), (0, vec![name]));
    let error = world.shared.status().discovery.unwrap().error.unwrap();
    assert!(error.contains("does not lead"), "{error}");
    world.gate.set(true);
    pass(120).await;
    assert_eq!((world.a100("one").as_deref(), world.pods().len()), (Some("2"), 0));
}

#[tokio::test(start_paused = true)]
async fn labels_do_not_wait_for_processors() {
    let cards = match two() {
        Fate::Answers(text) => text,
        other => panic!("{other:?}"),
    };
    let world = World::with(&[("one", two()), ("mute", Fate::SaysCards(cards))], Vec::new());
    let processors = |node: &str| {
        let inner = world.shared.state.inner();
        inner.index.processors().get(node).cloned()
    };
    pass(10).await;
    let found = processors("one").unwrap();
    assert_eq!((found[0].model.as_str(), found[0].threads), ("AMD EPYC", 2));
    assert_eq!(processors("mute"), None);
    assert_eq!(
        (world.a100("one").as_deref(), world.a100("mute").as_deref()),
        (Some("2"), Some("2"))
    );
    // A rebooted node keeps its processors, and a new node with the same name does not.
    world.put(NodeView {
        version: 2,
        ..view("one", "2", 2)
    });
    assert!(processors("one").is_some());
    world.put(NodeView {
        version: 3,
        uid: "another".to_owned(),
        ..view("one", "3", 2)
    });
    assert_eq!(processors("one"), None);
    pass(10).await;
    assert!(processors("one").is_some(), "the new node is discovered too");
    world
        .shared
        .state
        .apply(InventoryEvent::Nodes(ObjectChange::Listed(BTreeMap::new())));
    assert_eq!(processors("one"), None);
}
