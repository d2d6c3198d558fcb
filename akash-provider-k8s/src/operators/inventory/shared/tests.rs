//! Whose labels are written when, with a clock that stands still.

use super::*;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::inventory::NodeMetrics;
use serde_json::json;

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

fn shared(nodes: &[&str]) -> Shared {
    let shared = Shared::new(Rules::default(), FIRST);
    shared.change(|inner| {
        nodes.iter().for_each(|name| inner.put(view(name, 1)));
        inner.are_known = true;
        inner.classes = Some(BTreeMap::new());
    });
    shared
}

/// What the API server answers to a write.
fn taken(turn: &Turn, version: u64) -> ObjectMeta {
    serde_json::from_value(json!({
        "name": turn.name, "uid": format!("uid-{}", turn.name), "resourceVersion": version.to_string(),
        "labels": {"akash.network": "true"},
    }))
    .unwrap()
}

fn refused() -> Error {
    Error::new(ErrorKind::Denied, "test", "no")
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_waits_ever_longer_and_holds_nobody_up() {
    let shared = shared(&["bad", "good"]);
    let begun = Instant::now();
    let mut now = begun;
    let mut waits = Vec::new();
    for round in 0..10 {
        let turn = shared.next(now).unwrap();
        assert_eq!(turn.name, "bad");
        if round == 0 {
            let other = shared.next(now).unwrap();
            assert_eq!(
                other.name, "good",
                "while the first is under way, and after it failed"
            );
            shared.finish(&other, Ok(taken(&other, 2)), now);
        }
        shared.finish(&turn, Err(refused()), now);
        let due = shared.next(now).unwrap_err().unwrap();
        waits.push((due - now).as_secs());
        now = due;
    }
    assert_eq!(waits, [3, 6, 12, 24, 48, 96, 192, 300, 300, 300]);
    let status = shared.inner().status();
    assert_eq!((status.counts.written, status.counts.failed), (1, 10));
    assert!(status.nodes["good"].is_written && !status.nodes["bad"].is_written);
    // It is another machine now: tried at once.
    let before = begun + Duration::from_secs(1);
    shared.change(|inner| {
        inner.put(NodeView {
            devices: [Some(1), None],
            ..view("bad", 3)
        })
    });
    assert_eq!(shared.next(before).unwrap().name, "bad");
}

#[tokio::test(start_paused = true)]
async fn who_undoes_our_labels_does_not_make_us_hurry() {
    let shared = shared(&["one"]);
    let now = Instant::now();
    let mut version = 1;
    let mut undo = |now: Instant| {
        let turn = shared.next(now).unwrap();
        version += 1;
        shared.finish(&turn, Ok(taken(&turn, version)), now);
        assert!(shared.next(now).is_err(), "written, it is at rest");
        // A watch that is late tells nothing new.
        shared.change(|inner| inner.put(view("one", 1)));
        assert!(shared.next(now).is_err());
        version += 1;
        shared.change(|inner| inner.put(view("one", version)));
        shared.next(now).unwrap_err().unwrap()
    };
    let second = undo(now);
    let third = undo(second);
    assert_eq!(((second - now).as_secs(), (third - second).as_secs()), (3, 6));
}

#[tokio::test(start_paused = true)]
async fn before_nodes_were_listed_nothing_is_written_and_a_node_of_the_name_is_another() {
    let shared = Shared::new(Rules::default(), FIRST);
    shared.change(|inner| inner.put(view("one", 1)));
    assert!(shared.next(Instant::now()).is_err());
    shared.change(|inner| inner.are_known = true);
    let turn = shared.next(Instant::now()).unwrap();
    shared.change(|inner| {
        inner.put(NodeView {
            uid: "new".to_owned(),
            ..view("one", 9)
        })
    });
    shared.finish(&turn, Ok(taken(&turn, 5)), Instant::now());
    assert!(
        shared.inner().nodes["one"].view.labels.is_empty(),
        "the answer was about the old one"
    );
    // A term that ended in the middle of a write begins anew.
    let _cut = shared.next(Instant::now());
    shared.restart();
    assert!(shared.next(Instant::now()).is_ok());
}

#[test]
fn what_is_shown_follows_the_rules_at_once() {
    let shared = Shared::new(Rules::new(["a".to_owned()]).unwrap(), FIRST);
    let node = |name: &str| NodeMetrics {
        name: name.to_owned(),
        storage_classes: vec!["a".to_owned(), "b".to_owned()],
        ..NodeMetrics::default()
    };
    shared.change(|inner| {
        let mut metrics = Metrics {
            nodes: vec![node("one"), node("two")],
            ..Metrics::default()
        };
        for class in ["a", "b"] {
            metrics
                .storage
                .insert(class.to_owned(), akash_provider_core::inventory::Pair::default());
        }
        inner.counted = Some(metrics);
    });
    let mut told = shared.shown.subscribe();
    let shown = told.borrow_and_update().clone().unwrap().metrics.clone();
    assert_eq!(shown.storage.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(shown.nodes[0].storage_classes, ["a"]);
    shared.change(|_| ());
    assert!(!told.has_changed().unwrap(), "nothing new is not told");
    shared.change(|inner| {
        let mut rules = Rules::default();
        rules
            .exclude(super::super::rules::Pattern::new("one").unwrap())
            .unwrap();
        inner.rules = Arc::new(rules);
    });
    let shown = told.borrow_and_update().clone().unwrap().metrics.clone();
    assert_eq!(shown.nodes.len(), 1);
    assert!(shown.storage.is_empty() && shown.nodes[0].storage_classes.is_empty());
}

#[tokio::test]
async fn five_thousand_nodes_are_written_in_seconds_and_looked_at_once() {
    let names: Vec<_> = (0..5_000).map(|at| format!("n{at}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let shared = shared(&names);
    let begun = std::time::Instant::now();
    let mut written = 0;
    while let Ok(turn) = shared.next(Instant::now()) {
        shared.finish(&turn, Ok(taken(&turn, 2)), Instant::now());
        written += 1;
    }
    assert_eq!(written, 5_000);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    // Other rules are looked at for all of them.
    shared.change(|inner| {
        let mut rules = Rules::default();
        rules
            .exclude(super::super::rules::Pattern::new(".*").unwrap())
            .unwrap();
        inner.rules = Arc::new(rules);
        inner.look_again();
    });
    assert_eq!(shared.next(Instant::now()).unwrap().name, "n0");
}
