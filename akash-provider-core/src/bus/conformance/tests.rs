use super::*;
use crate::bus::LocalBus;
use crate::error::ErrorKind;
use futures::StreamExt;
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, Weak};

#[tokio::test]
async fn the_local_bus_conforms() {
    suite(&LocalBus::new(), &Setup::default()).await;
    suite(&LocalBus::with_limit(16), &Setup::default()).await;
}

#[tokio::test]
async fn pointers_to_a_bus_conform() {
    let shared: Arc<dyn Bus> = Arc::new(LocalBus::new());
    suite(&shared, &Setup::default()).await;
    suite(&(Box::new(LocalBus::new()) as Box<dyn Bus>), &Setup::default()).await;
}

/// Violation of one rule of the bus contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    LosesInSilence,
    KeepsEverything,
    PublishHangs,
    SubscribeHangs,
    LastHangs,
    KeepsFacts,
    KeepsFirst,
    TellsAllTopics,
    TellsNobody,
    Repeats,
    WaitsForReaders,
    LosesOne,
    Reorders,
    SharesAStream,
    CountsNothing,
    FailsWithoutReaders,
}

use Mistake as M;

const CAUGHT: [(Mistake, &str); 16] = [
    (
        M::LosesInSilence,
        "a slow subscriber receives the number of lost events: after 0 events, lost ones counted",
    ),
    (
        M::KeepsEverything,
        "was expected to have a limit below 2500 events (Setup::flood)",
    ),
    (
        M::PublishHangs,
        "`publish` was expected to respond within 5s and did not",
    ),
    (
        M::SubscribeHangs,
        "`subscribe` was expected to respond within 5s and did not",
    ),
    (
        M::LastHangs,
        "`last` was expected to respond within 5s and did not",
    ),
    (
        M::KeepsFacts,
        "`last` of `akash.provider.facts` was expected to be None",
    ),
    (
        M::KeepsFirst,
        "was expected to be Some(BreakerTripped { wanted: 1 })",
    ),
    (
        M::TellsAllTopics,
        "subscribers get their topics in order: a subscriber was expected to get",
    ),
    (
        M::TellsNobody,
        "was expected to get the next delivery within 5s and did not",
    ),
    (
        M::WaitsForReaders,
        "a slow subscriber receives the number of lost events: `publish` was expected to respond within 5s",
    ),
    (
        M::LosesOne,
        "subscribers get their topics in order: a subscriber was expected to get",
    ),
    (
        M::Reorders,
        "subscribers get their topics in order: a subscriber was expected to get",
    ),
    (
        M::SharesAStream,
        "subscribers get their topics in order: a subscriber was expected to get the next delivery",
    ),
    (
        M::CountsNothing,
        "a slow subscriber receives the number of lost events: `Lagged` was expected to count",
    ),
    (
        M::FailsWithoutReaders,
        "a dropped subscriber does not affect others: `publish` was expected to succeed",
    ),
    (
        M::Repeats,
        "subscribers get their topics in order: a subscriber was expected to get",
    ),
];

#[derive(Debug)]
struct FaultyBus {
    truth: LocalBus,
    retained: std::sync::Mutex<std::collections::BTreeMap<Topic, Arc<Event>>>,
    mistake: Mistake,
    waiting: std::sync::atomic::AtomicUsize,
    readers: std::sync::Mutex<Vec<Weak<()>>>,
}

fn is_gone(reader: &Weak<()>) -> bool {
    reader.strong_count() == 0
}

#[async_trait::async_trait]
impl Bus for FaultyBus {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), crate::Error> {
        if self.mistake == M::PublishHangs {
            std::future::pending::<()>().await;
        }
        // Like the buffers of a connection, which accept 8 MiB before the peer reads.
        let bytes = serde_json::to_vec(&event).map_or(0, |text| text.len());
        let waiting = self
            .waiting
            .fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        if self.mistake == M::WaitsForReaders && waiting > 8 << 20 {
            std::future::pending::<()>().await;
        }
        if self.mistake == M::LosesOne && *event == *fact(4) {
            return Ok(());
        }
        let gone = crate::feed::lock(&self.readers)
            .iter()
            .filter(|r| is_gone(r))
            .count();
        let is_one_gone = gone > 0 && gone < crate::feed::lock(&self.readers).len();
        if self.mistake == M::FailsWithoutReaders && is_one_gone {
            return Err(crate::Error::new(
                ErrorKind::Internal,
                "publish",
                "a subscriber was closed",
            ));
        }
        if self.mistake == M::Reorders && topic == Topic::Facts && *event == *fact(4) {
            self.truth.publish(topic, fact(5)).await?;
        }
        let mut retained = crate::feed::lock(&self.retained).clone();
        retained.entry(topic).or_insert_with(|| Arc::clone(&event));
        *crate::feed::lock(&self.retained) = retained;
        if self.mistake == M::Repeats {
            self.truth.publish(topic, Arc::clone(&event)).await?;
        }
        self.truth.publish(topic, event).await
    }
    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, crate::Error> {
        let all = Topic::ALL;
        let topics = if self.mistake == M::TellsAllTopics {
            &all[..]
        } else {
            topics
        };
        let stream = self.truth.subscribe(topics).await?;
        let reader = Arc::new(());
        let is_first = {
            let mut readers = crate::feed::lock(&self.readers);
            readers.retain(|reader| !is_gone(reader));
            readers.push(Arc::downgrade(&reader));
            readers.len() == 1
        };
        let delayed = move |delivery| {
            let _held = &reader;
            delivery
        };
        let stream = stream.map(delayed).boxed();
        match self.mistake {
            M::SubscribeHangs => std::future::pending().await,
            M::SharesAStream if !is_first => Ok(futures::stream::pending().boxed()),
            M::CountsNothing => {
                let uncounted = |delivery| match delivery {
                    Delivery::Lagged(_) => Delivery::Lagged(None),
                    event => event,
                };
                Ok(stream.map(uncounted).boxed())
            }
            M::TellsNobody => Ok(futures::stream::pending().boxed()),
            M::LosesInSilence => {
                let is_delivered = |d: &Delivery| futures::future::ready(!matches!(d, Delivery::Lagged(_)));
                Ok(stream.filter(is_delivered).boxed())
            }
            _ => Ok(stream),
        }
    }
    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, crate::Error> {
        let last = self.truth.last(topic).await?;
        let retained = crate::feed::lock(&self.retained).get(&topic).cloned();
        match self.mistake {
            M::LastHangs => std::future::pending().await,
            M::KeepsFacts if topic == Topic::Facts => Ok(retained),
            M::KeepsFirst if topic.is_retained() => Ok(retained),
            _ => Ok(last),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_mistake_is_detected() {
    for (mistake, expected) in CAUGHT {
        let limit = if mistake == M::KeepsEverything {
            1 << 20
        } else {
            1024
        };
        let liar = FaultyBus {
            truth: LocalBus::with_limit(limit),
            retained: Default::default(),
            mistake,
            waiting: Default::default(),
            readers: Default::default(),
        };
        let setup = Setup {
            flood: 2500,
            ..Setup::default()
        };
        let failure = crate::conformance::verdict(suite(&liar, &setup)).await;
        let failure = failure.unwrap_or_else(|| panic!("{mistake:?} is not detected"));
        assert!(
            failure.contains(expected),
            "{mistake:?} is detected with another message: {failure}"
        );
    }
}

/// A bus with unbounded queues. Only the TCP buffers limit the number of unread events.
#[derive(Debug, Default)]
struct TcpBus {
    readers: Mutex<Vec<TcpStream>>,
}

#[async_trait::async_trait]
impl Bus for TcpBus {
    async fn publish(&self, _: Topic, event: Arc<Event>) -> Result<(), crate::Error> {
        let bytes = serde_json::to_vec(&event).unwrap();
        let readers: Vec<TcpStream> = crate::feed::lock(&self.readers)
            .iter()
            .map(|reader| reader.try_clone().unwrap())
            .collect();
        for mut reader in readers {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                match reader.write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == IoErrorKind::WouldBlock => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        Ok(())
    }

    async fn subscribe(&self, _: &[Topic]) -> Result<EventStream, crate::Error> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reading = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (writing, _) = listener.accept().unwrap();
        writing.set_nonblocking(true).unwrap();
        crate::feed::lock(&self.readers).push(writing);
        let read = move || {
            let mut byte = [0];
            reading.read_exact(&mut byte).unwrap();
            Delivery::Event {
                topic: Topic::Facts,
                event: fact(byte[0].into()),
            }
        };
        Ok(futures::stream::repeat_with(read).boxed())
    }

    async fn last(&self, _: Topic) -> Result<Option<Arc<Event>>, crate::Error> {
        Ok(None)
    }
}

#[tokio::test]
async fn the_flood_exceeds_the_buffers_of_a_connection() {
    let setup = Setup {
        timeout: std::time::Duration::from_millis(200),
        ..Setup::default()
    };
    let failure = crate::conformance::verdict(a_slow_subscriber_receives_the_number_of_lost_events(
        &TcpBus::default(),
        &setup,
    ))
    .await;
    let failure = failure.expect("a bus without a limit is detected");
    let expected = "`publish` was expected to respond within 200ms and did not";
    assert!(failure.contains(expected), "{failure}");
}
