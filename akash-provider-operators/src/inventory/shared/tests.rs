//! Tests of the order of writes, with a paused clock, and of the report.

use super::super::discovery::{Cards, NodeIdentity, Processor};
use super::super::index::InventoryWork;
use super::super::node::NodeView;
use super::*;
use crate::change::ObjectChange;
use crate::operator_state::{WorkItem, WriterStep};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::inventory::{ClusterSpec, NodeInventory, NodeSpec, Quantity};
use akash_provider_kube_kernel::watch::Definitions;
use serde_json::json;
use std::collections::BTreeMap;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(3);

fn view(name: &str, version: u64) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version,
        is_ready: true,
        ..NodeView::default()
    }
}

fn put(shared: &InventoryOperatorState, view: NodeView) {
    let change = ObjectChange::Put(view.name.clone(), view);
    shared.state.apply(InventoryEvent::Nodes(change));
}

fn shared(nodes: &[&str]) -> InventoryOperatorState {
    let shared = InventoryOperatorState::new(Rules::default(), FIRST, Definitions::default(), false);
    let listed = nodes.iter().map(|name| ((*name).to_owned(), view(name, 1)));
    shared
        .state
        .apply(InventoryEvent::Nodes(ObjectChange::Listed(listed.collect())));
    shared
        .state
        .apply(InventoryEvent::Classes(ObjectChange::Listed(BTreeMap::new())));
    shared
}

/// Returns the next work item, or the time of the next item if none is due.
fn next(shared: &InventoryOperatorState, now: Instant) -> Result<WorkItem<InventoryWork>, Option<Instant>> {
    loop {
        match shared.state.next(now) {
            WriterStep::WorkItem(turn) => return Ok(turn),
            WriterStep::More => {}
            WriterStep::Nothing(due) => return Err(due),
        }
    }
}

fn taken(shared: &InventoryOperatorState, turn: &WorkItem<InventoryWork>, version: u64, now: Instant) {
    let meta = json!({
        "name": turn.name, "uid": format!("uid-{}", turn.name), "resourceVersion": version.to_string(),
        "labels": {"akash.network": "true"},
    });
    shared.written(&turn.name, serde_json::from_value(meta).unwrap());
    shared.state.finish(turn, Ok(()), now);
}

#[tokio::test(start_paused = true)]
async fn failed_node_backs_off_without_delaying_other_nodes() {
    let shared = shared(&["bad", "good"]);
    let refused = |kind| Err(Error::new(kind, "test", "no"));
    let begun = Instant::now();
    let mut now = begun;
    let mut waits = Vec::new();
    for round in 0..10 {
        let turn = next(&shared, now).unwrap();
        assert_eq!(turn.name, "bad");
        if round == 0 {
            let other = next(&shared, now).unwrap();
            assert_eq!(
                other.name, "good",
                "while the first is running, and after its failure"
            );
            taken(&shared, &other, 2, now);
        }
        // A permanent refusal is retried too.
        let kind = if round % 2 == 0 {
            ErrorKind::Invalid
        } else {
            ErrorKind::Denied
        };
        shared.state.finish(&turn, refused(kind), now);
        // An update of the kubelet does not shorten the back-off.
        put(&shared, view("bad", 100 + round));
        let due = next(&shared, now).unwrap_err().unwrap();
        waits.push((due - now).as_secs());
        now = due;
    }
    assert_eq!(waits, [3, 6, 12, 24, 48, 96, 192, 300, 300, 300]);
    let status = shared.status();
    assert_eq!((status.counts.written, status.counts.failed), (1, 10));
    assert!(status.nodes["good"].is_written && !status.nodes["bad"].is_written);
    assert_eq!(status.nodes["bad"].setbacks, 10);
    // With other devices the node is retried at once.
    put(
        &shared,
        NodeView {
            devices: [Some(1), None],
            ..view("bad", 200)
        },
    );
    assert_eq!(next(&shared, begun).unwrap().name, "bad");
}

#[tokio::test(start_paused = true)]
async fn labels_reverted_by_another_client_back_off() {
    let shared = shared(&["one"]);
    let now = Instant::now();
    let mut version = 1;
    let mut undo = |now: Instant| {
        let turn = next(&shared, now).unwrap();
        version += 1;
        taken(&shared, &turn, version, now);
        assert!(next(&shared, now).is_err(), "the written node is settled");
        // A late watch event changes nothing.
        put(&shared, view("one", 1));
        assert!(next(&shared, now).is_err());
        version += 1;
        put(&shared, view("one", version));
        next(&shared, now).unwrap_err().unwrap()
    };
    let second = undo(now);
    let third = undo(second);
    assert_eq!(((second - now).as_secs(), (third - second).as_secs()), (3, 6));
    assert_eq!(
        shared.status().nodes["one"].error.as_deref(),
        Some("another client reverts the object; find that client and stop its writes")
    );
}

#[tokio::test]
async fn no_node_is_reported_as_written_before_the_initial_lists() {
    let shared = InventoryOperatorState::new(Rules::default(), FIRST, Definitions::default(), false);
    shared.counted(Ok(count(ClusterSpec::default())));
    let listed = BTreeMap::from([("one".to_owned(), view("one", 1))]);
    shared
        .state
        .apply(InventoryEvent::Nodes(ObjectChange::Listed(listed)));
    let status = shared.status();
    assert!(!status.is_ready && !status.nodes["one"].is_written);
    assert!(next(&shared, Instant::now()).is_err());
    let none = ObjectChange::Listed(BTreeMap::new());
    shared.state.apply(InventoryEvent::Classes(none));
    assert!(shared.status().is_ready);
    taken(
        &shared,
        &next(&shared, Instant::now()).unwrap(),
        2,
        Instant::now(),
    );
    assert!(shared.status().nodes["one"].is_written);
}

fn count(spec: ClusterSpec) -> LazyInventory {
    LazyInventory::new(move || Arc::new(NodeInventory::new(&spec)))
}

#[test]
fn report_follows_the_rules_at_once() {
    let shared = InventoryOperatorState::new(
        Rules::new(["a".to_owned()]).unwrap(),
        FIRST,
        Definitions::default(),
        false,
    );
    let node = |name: &str| NodeSpec {
        name: name.to_owned(),
        storage_classes: vec!["a".to_owned(), "b".to_owned()],
        ..NodeSpec::default()
    };
    let classes = ["a", "b"].map(|class| (class.to_owned(), Quantity::default()));
    shared.counted(Ok(count(ClusterSpec {
        nodes: vec![node("one"), node("two")],
        storage: classes.into(),
        ignored: Vec::new(),
    })));
    let mut reports = shared.reports.subscribe();
    let metrics = reports.borrow_and_update().clone().unwrap().metrics().clone();
    assert_eq!(metrics.storage.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(metrics.nodes[0].storage_classes, ["a"]);
    shared.counted(Err("away".to_owned()));
    assert!(
        !reports.has_changed().unwrap(),
        "an unchanged report is not published"
    );
    assert_eq!(shared.status().count_error.as_deref(), Some("away"));
    let mut rules = Rules::default();
    rules
        .exclude(super::super::rules::Pattern::new("one").unwrap())
        .unwrap();
    shared.choose(InventoryEvent::Rules(rules));
    let metrics = reports.borrow_and_update().clone().unwrap().metrics().clone();
    assert_eq!(metrics.nodes.len(), 1);
    assert!(metrics.storage.is_empty() && metrics.nodes[0].storage_classes.is_empty());
}

#[test]
fn discovered_processors_are_reported_at_once() {
    let shared = shared(&["one"]);
    let node = NodeSpec {
        name: "one".to_owned(),
        ..NodeSpec::default()
    };
    shared.counted(Ok(count(ClusterSpec::from_nodes([node]))));
    let mut reports = shared.reports.subscribe();
    assert!(
        reports
            .borrow_and_update()
            .as_ref()
            .unwrap()
            .processors
            .is_empty()
    );
    let machine = NodeIdentity::from_node(&view("one", 1));
    let seen = Processor::read(br#"{"processors": [{"id": 0, "model": "AMD EPYC"}]}"#).unwrap();
    shared
        .state
        .apply(InventoryEvent::Found("one".to_owned(), machine, Cards::default()));
    shared.choose(InventoryEvent::Processors("one".to_owned(), seen.clone()));
    assert!(reports.has_changed().unwrap());
    assert_eq!(
        reports.borrow_and_update().as_ref().unwrap().processors["one"],
        seen
    );
    // The node was not discovered.
    shared.choose(InventoryEvent::Processors("two".to_owned(), seen));
    assert!(!reports.has_changed().unwrap());
}

#[tokio::test]
async fn five_thousand_nodes_are_written_in_seconds() {
    let names: Vec<_> = (0..5_000).map(|at| format!("n{at:04}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let shared = shared(&names);
    let begun = std::time::Instant::now();
    let mut written = 0;
    while let Ok(turn) = next(&shared, Instant::now()) {
        taken(&shared, &turn, 2, Instant::now());
        written += 1;
    }
    assert_eq!(written, 5_000);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    // New rules reconcile all nodes.
    let mut rules = Rules::default();
    rules
        .exclude(super::super::rules::Pattern::new(".*").unwrap())
        .unwrap();
    shared.choose(InventoryEvent::Rules(rules));
    assert_eq!(next(&shared, Instant::now()).unwrap().name, "n0000");
}
