//! One bus for the own process and others for those outside.

use super::{Bus, EventStream};
use crate::error::Error;
use crate::feed::lock;
use crate::runtime::Outlet;
use crate::types::{Event, Topic};
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Publishes on one bus and passes everything on to others, none of which can hold up the first.
///
/// Subscribers and [`Bus::last`] are served by the first. What goes to each other waits in a queue of its own: facts
/// that find no room there are lost and counted in the log, the latest status of each topic is published until the
/// bus has it.
///
/// ```
/// use akash_provider_core::bus::{Bus, FanOut, LocalBus};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let elsewhere = Arc::new(LocalBus::new());
/// let bus = FanOut::new(Arc::new(LocalBus::new()), vec![elsewhere]);
/// # let _: &dyn Bus = &bus;
/// # }
/// ```
#[derive(Debug)]
pub struct FanOut {
    first: Arc<dyn Bus>,
    /// Empty once they were let go.
    others: Mutex<Vec<Outlet>>,
}

impl FanOut {
    /// Must be called within a Tokio runtime: each of the others has a task there.
    #[must_use]
    pub fn new(first: Arc<dyn Bus>, others: Vec<Arc<dyn Bus>>) -> Self {
        let others = others.into_iter().map(Outlet::start).collect();
        let others = Mutex::new(others);
        Self { first, others }
    }

    /// Lets the others take what waits for them, each for at most `limit`, and passes nothing on to them any more.
    /// Dropping the bus instead gives up what waits.
    pub async fn finish(&self, limit: Duration) {
        let others = std::mem::take(&mut *lock(&self.others));
        let others = others.into_iter().map(|outlet| outlet.finish(limit));
        futures::future::join_all(others).await;
    }
}

#[async_trait]
impl Bus for FanOut {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
        for outlet in &*lock(&self.others) {
            // What finds no room is counted there.
            outlet.hand_over(topic, Arc::clone(&event));
        }
        self.first.publish(topic, event).await
    }

    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error> {
        self.first.subscribe(topics).await
    }

    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
        self.first.last(topic).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{Delivery, LocalBus};
    use futures::StreamExt;

    fn fact(wanted: u32) -> Arc<Event> {
        Arc::new(Event::BreakerTripped { wanted })
    }

    #[derive(Debug)]
    struct Hangs;

    #[async_trait]
    impl Bus for Hangs {
        async fn publish(&self, _: Topic, _: Arc<Event>) -> Result<(), Error> {
            std::future::pending().await
        }
        async fn subscribe(&self, _: &[Topic]) -> Result<EventStream, Error> {
            std::future::pending().await
        }
        async fn last(&self, _: Topic) -> Result<Option<Arc<Event>>, Error> {
            std::future::pending().await
        }
    }

    #[cfg(feature = "conformance")]
    #[tokio::test(start_paused = true)]
    async fn it_conforms_also_beside_a_bus_that_hangs() {
        let bus = FanOut::new(Arc::new(LocalBus::new()), vec![Arc::new(Hangs)]);
        crate::bus::conformance::suite(&bus, &crate::bus::conformance::Setup::default()).await;
    }

    #[tokio::test]
    async fn others_get_everything_in_order() {
        let other = Arc::new(LocalBus::new());
        let mut facts = other.subscribe(&[Topic::Facts]).await.unwrap();
        let bus = FanOut::new(
            Arc::new(LocalBus::new()),
            vec![Arc::clone(&other) as Arc<dyn Bus>],
        );
        for number in 0..100 {
            bus.publish(Topic::Facts, fact(number)).await.unwrap();
        }
        bus.finish(Duration::from_secs(5)).await;
        for number in 0..100 {
            let event = fact(number);
            let topic = Topic::Facts;
            assert_eq!(facts.next().await, Some(Delivery::Event { topic, event }));
        }
    }
}
