use super::*;
use crate::cluster::ClusterChange;
use crate::error::ErrorKind;
use crate::types::LeaseId;
use futures::stream;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::time::Instant;

type Item = Result<ClusterChange, Error>;
type Take = BoxStream<'static, Item>;

fn health() -> Item {
    let health: BTreeMap<LeaseId, _> = BTreeMap::new();
    Ok(ClusterChange::Snapshot { health })
}

fn error() -> Item {
    Err(Error::new(ErrorKind::Unavailable, "watch", "gone"))
}

/// Runs `follow`. Each subscription gets the next stream of `takes`. Returns the items received within
/// `limit`, and the start time of each subscription.
async fn followed(takes: Vec<Take>, limit: Duration) -> (Vec<ClusterChange>, Vec<Duration>) {
    let takes = Mutex::new(takes.into_iter());
    let began = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&began);
    let start = Instant::now();
    let (queue, mut items) = mpsc::channel(4);
    let task = tokio::spawn(async move {
        let subscribe = || {
            note.lock().unwrap().push(start.elapsed());
            let next = takes.lock().unwrap().next();
            next.unwrap_or_else(|| stream::pending().boxed())
        };
        follow("cluster", subscribe, Some(ClusterChange::Lost), &queue).await;
    });
    let mut seen = Vec::new();
    while let Ok(Some(item)) = tokio::time::timeout_at(start + limit, items.recv()).await {
        seen.push(item);
    }
    drop(items);
    let ended = tokio::time::timeout(SILENCE * 2, task).await;
    let began = began.lock().unwrap().clone();
    // A task notices the end of the loop only at its next item. The test drops the task with the loop.
    drop(ended);
    (seen, began)
}

fn of(items: Vec<Item>) -> Take {
    stream::iter(items).boxed()
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_lost_once_and_subscribed_again() {
    let open = stream::iter([health()]).chain(stream::pending()).boxed();
    let takes = vec![of(vec![health()]), of(Vec::new()), of(Vec::new()), open];
    let (seen, began) = followed(takes, Duration::from_secs(60)).await;
    let snapshot = health().unwrap();
    assert_eq!(seen, [snapshot.clone(), ClusterChange::Lost, snapshot]);
    assert_eq!(began.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_error_item_is_a_gap_and_the_stream_continues() {
    let take = stream::iter([health(), error(), error(), health()])
        .chain(stream::pending())
        .boxed();
    let (seen, began) = followed(vec![take], Duration::from_secs(60)).await;
    let snapshot = health().unwrap();
    assert_eq!(seen, [snapshot.clone(), ClusterChange::Lost, snapshot]);
    assert_eq!(began.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_panics_is_subscribed_again() {
    let take = stream::poll_fn(|_| panic!("scripted")).boxed();
    let open = stream::iter([health()]).chain(stream::pending()).boxed();
    let (seen, _) = followed(vec![take, open], Duration::from_secs(60)).await;
    assert_eq!(seen, [health().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn w28_a_dead_port_is_retried_with_growing_delays() {
    let takes: Vec<Take> = (0..1_000).map(|_| of(Vec::new())).collect();
    let (seen, began) = followed(takes, Duration::from_secs(600)).await;
    assert_eq!(seen, []);
    assert!(
        (10..=40).contains(&began.len()),
        "{} tries in ten minutes",
        began.len()
    );
    let waits: Vec<_> = began.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(waits[0] <= RETRY_MIN * 3, "{:?}", waits[0]);
    assert!(waits.iter().all(|w| *w <= RETRY_MAX * 2), "{waits:?}");
    assert!(waits.last() >= Some(&RETRY_MAX.mul_f64(0.9)), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn w28_a_stream_of_errors_is_not_read_in_a_hot_loop() {
    let errors = stream::repeat_with(error).boxed();
    let counted = Arc::new(Mutex::new(0));
    let count = Arc::clone(&counted);
    let take = errors.inspect(move |_| *count.lock().unwrap() += 1).boxed();
    followed(vec![take], Duration::from_secs(600)).await;
    let read = *counted.lock().unwrap();
    assert!((10..=60).contains(&read), "{read} errors in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_valid_item_resets_the_retry_delay() {
    let mut takes: Vec<Take> = (0..12).map(|_| of(Vec::new())).collect();
    takes.push(of(vec![health()]));
    let (_, began) = followed(takes, Duration::from_secs(900)).await;
    let last = began.windows(2).last().map(|w| w[1] - w[0]).unwrap();
    assert!(last <= RETRY_MIN * 3, "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_full_slows_the_stream_down() {
    let polled = Arc::new(Mutex::new(0));
    let count = Arc::clone(&polled);
    let endless = stream::repeat_with(health).inspect(move |_| *count.lock().unwrap() += 1);
    let once = Mutex::new(Some(endless.boxed()));
    let (queue, items) = mpsc::channel(4);
    let subscribe = move || once.lock().unwrap().take().unwrap();
    let task = tokio::spawn(async move { follow("cluster", subscribe, None, &queue).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*polled.lock().unwrap(), 5);
    drop(items);
    task.await.unwrap();
}
