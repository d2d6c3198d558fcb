use super::*;
use crate::error::ErrorKind;
use crate::inventory::IgnoredKind;
use crate::runtime::fakes::{Does, FakeBus, lease};
use crate::types::DeclineCode;

fn status(orders: u64) -> Status {
    Status {
        declines: [(DeclineCode::Price, orders)].into(),
        ..Status::default()
    }
}

fn topics(bus: &FakeBus) -> Vec<Topic> {
    bus.events
        .lock()
        .unwrap()
        .iter()
        .map(|(topic, _)| *topic)
        .collect()
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn only_statuses_that_changed_are_published() {
    let bus = Arc::new(FakeBus::default());
    let mut observer = Observer::start(Arc::clone(&bus) as _);
    observer.statuses(&status(1), Mono(0), Mono(0));
    settle().await;
    assert_eq!(topics(&bus).len(), 7);
    observer.statuses(&status(1), Mono(500), Mono(500));
    settle().await;
    assert_eq!(topics(&bus).len(), 7, "no status had changed");
    observer.statuses(&status(2), Mono(1_000), Mono(1_000));
    settle().await;
    assert_eq!(topics(&bus)[7..], [Topic::BidengineStatus]);
    let topics = topics(&bus);
    assert!(topics.iter().all(|t| t.is_retained()));
}

#[tokio::test(start_paused = true)]
async fn statuses_are_updated_twice_a_second_and_less_often_if_expensive() {
    let mut observer = Observer::start(Arc::new(FakeBus::default()));
    assert_eq!(observer.status_due(), None);
    observer.touch(Mono(7));
    assert_eq!(observer.status_due(), Some(Mono(7)));
    observer.touch(Mono(9));
    assert_eq!(observer.status_due(), Some(Mono(7)));
    observer.statuses(&status(1), Mono(10), Mono(10));
    assert_eq!(observer.status_due(), None);
    observer.touch(Mono(11));
    assert_eq!(observer.status_due(), Some(Mono(510)));
    // A status takes 100 ms to create, at most a fiftieth of the time.
    observer.statuses(&status(2), Mono(600), Mono(700));
    observer.touch(Mono(701));
    assert_eq!(observer.status_due(), Some(Mono(5_700)));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_did_not_fit_in_the_queue_is_published_later() {
    let bus = Arc::new(FakeBus::default());
    let closed = bus.gate.acquire().await.unwrap();
    let mut observer = Observer::start(Arc::clone(&bus) as _);
    let fact = || Arc::new(Event::Withdrawn { lease: lease(1) });
    while observer.outlet.enqueue(Topic::Facts, fact()) {}
    observer.statuses(&status(1), Mono(0), Mono(0));
    drop(closed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    observer.statuses(&status(1), Mono(500), Mono(500));
    observer.finish(Duration::from_secs(1)).await;
    let retained = topics(&bus).into_iter().filter(|t| t.is_retained()).count();
    assert_eq!(retained, 7);
}

#[tokio::test(start_paused = true)]
async fn a_failing_or_panicking_bus_loses_only_that_event() {
    for does in [Does::Fail(ErrorKind::Unavailable), Does::Panic] {
        let bus = Arc::new(FakeBus::default());
        let mut observer = Observer::start(Arc::clone(&bus) as _);
        bus.script.set("publish", does);
        observer.fact(Arc::new(Event::BreakerReleased));
        settle().await;
        bus.script.set("publish", Does::Answer);
        observer.fact(Arc::new(Event::BreakerReleased));
        observer.finish(Duration::from_secs(1)).await;
        assert_eq!(topics(&bus), [Topic::Facts], "{does:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn capacity_of_the_cluster_is_the_sum_of_its_nodes() {
    let node = |name: &str, cpu| NodeMetrics {
        name: name.into(),
        cpu: Pair {
            allocatable: cpu,
            available: cpu / 2,
        },
        ..NodeMetrics::default()
    };
    let metrics = Metrics {
        nodes: vec![node("a", 1_000), node("b", 3_000)],
        ignored: vec![IgnoredResource::new(
            IgnoredKind::Node,
            "node `c`: no label",
            "set the label",
        )],
        ..Metrics::default()
    };
    let body = cluster_capacity(&metrics);
    assert_eq!(body["cpu"], json!({ "allocatable": 4_000, "available": 2_000 }));
    assert_eq!(body["nodes"], 2);
    assert_eq!(body["ignored"], json!(["node `c`: no label"]));
}
