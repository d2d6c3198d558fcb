//! The conformance suite of [`Bus`].
//!
//! ```
//! use akash_provider_core::bus::{LocalBus, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! conformance::suite(&LocalBus::new(), &conformance::Setup::default()).await;
//! # }
//! ```

use super::{Bus, Delivery, EventStream};
use crate::conformance::{Rule, SearchResult};
use crate::types::{Address, DeploymentId, Event, Topic};
use std::sync::Arc;
use std::time::Duration;

/// Parameters of the suite for one bus.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Setup {
    /// Maximum time of one delivery.
    pub timeout: Duration,
    /// Number of 4 KiB events for a subscriber that does not read. The number must exceed the queue length of
    /// one subscriber.
    pub flood: u32,
}

impl Default for Setup {
    /// Returns a timeout of five seconds, and 5000 events for [`Setup::flood`].
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            flood: 5000,
        }
    }
}

fn fact(number: u32) -> Arc<Event> {
    Arc::new(Event::BreakerTripped { wanted: number })
}

/// Creates a large event. The total size of [`Setup::flood`] large events exceeds the buffers of a
/// connection.
fn large(number: u32) -> Arc<Event> {
    let owner = Address::from_bytes(&[7; 20]).expect("20 bytes are an address");
    let group = DeploymentId::new(owner, number.into()).group(1);
    Arc::new(Event::BidsNotCounted {
        order: group.order(1),
        message: "x".repeat(4096),
    })
}

async fn next(stream: &mut EventStream, rule: &Rule) -> Delivery {
    match rule.find("subscribe", stream, Some).await {
        SearchResult::Item(delivery) => delivery,
        SearchResult::Ended => rule.broken("a subscriber's stream was expected to go on and ended"),
        SearchResult::Late => rule.broken(format!(
            "a subscriber was expected to get the next delivery within {:?} and did not",
            rule.timeout()
        )),
    }
}

async fn gets(stream: &mut EventStream, expected: &Delivery, rule: &Rule) {
    let got = next(stream, rule).await;
    rule.holds(
        got == *expected,
        format!("a subscriber was expected to get {expected:?} next and got {got:?}"),
    );
}

impl Setup {
    fn rule(&self, name: &'static str) -> Rule {
        Rule::new(name, self.timeout)
    }
}

/// Runs every check on a bus without other publishers.
///
/// # Panics
/// Panics when the bus violates a rule. The message names the rule.
pub async fn suite(bus: &dyn Bus, setup: &Setup) {
    subscribers_get_their_topics_in_order(bus, setup).await;
    retained_topics_keep_their_last_event(bus, setup).await;
    a_slow_subscriber_receives_the_number_of_lost_events(bus, setup).await;
    a_dropped_subscriber_does_not_affect_others(bus, setup).await;
}

/// Checks that every subscriber receives all events of its topics in order, and no other events.
///
/// # Panics
/// Panics when the bus violates the rule.
pub async fn subscribers_get_their_topics_in_order(bus: &dyn Bus, setup: &Setup) {
    let rule = setup.rule("subscribers get their topics in order");
    let mut facts = rule.ok("subscribe", bus.subscribe(&[Topic::Facts])).await;
    let both = [Topic::InventoryNodes, Topic::Facts];
    let mut all = rule.ok("subscribe", bus.subscribe(&both)).await;
    for number in 0..10 {
        let topic = both[usize::from(number % 3 != 0)];
        rule.ok("publish", bus.publish(topic, fact(number))).await;
        rule.ok("publish", bus.publish(Topic::ManifestStatus, fact(100)))
            .await;
    }
    for number in 0..10 {
        let topic = both[usize::from(number % 3 != 0)];
        let event = fact(number);
        let expected = Delivery::Event { topic, event };
        gets(&mut all, &expected, &rule).await;
        if topic == Topic::Facts {
            gets(&mut facts, &expected, &rule).await;
        }
    }
}

/// Checks that the last event of a status topic is retained, and that other topics retain nothing.
///
/// # Panics
/// Panics when the bus violates the rule.
pub async fn retained_topics_keep_their_last_event(bus: &dyn Bus, setup: &Setup) {
    let rule = setup.rule("retained topics keep their last event");
    for topic in Topic::ALL {
        for number in 0..2 {
            rule.ok("publish", bus.publish(topic, fact(number))).await;
        }
        let last = rule.ok("last", bus.last(topic)).await;
        let expected = topic.is_retained().then(|| fact(1));
        rule.holds(
            last == expected,
            format!(
                "`last` of `{}` was expected to be {expected:?} and is {last:?}",
                topic.name()
            ),
        );
    }
}

/// Checks that every event is delivered in order or counted as lost, and that the queue of a subscriber is
/// bounded.
///
/// # Panics
/// Panics when the bus violates the rule.
pub async fn a_slow_subscriber_receives_the_number_of_lost_events(bus: &dyn Bus, setup: &Setup) {
    let rule = setup.rule("a slow subscriber receives the number of lost events");
    let mut stream = rule.ok("subscribe", bus.subscribe(&[Topic::Facts])).await;
    for number in 0..setup.flood {
        rule.ok("publish", bus.publish(Topic::Facts, large(number))).await;
    }
    let (mut accounted, mut lagged) = (0, false);
    while accounted < u64::from(setup.flood) {
        match next(&mut stream, &rule).await {
            Delivery::Lagged(lost) => {
                let lost = lost.unwrap_or(0);
                rule.holds(
                    lost > 0,
                    "`Lagged` was expected to count lost events and counted none",
                );
                lagged = true;
                accounted += lost;
            }
            Delivery::Event { event, .. } => {
                let number = u32::try_from(accounted).unwrap_or(u32::MAX);
                rule.holds(
                    event == large(number),
                    format!("after {accounted} events, lost ones counted, the next was expected to be number {number}"),
                );
                accounted += 1;
            }
        }
    }
    rule.holds(
        accounted == u64::from(setup.flood),
        format!(
            "each of {} events was expected to be delivered or counted as lost once; the total is {accounted}",
            setup.flood
        ),
    );
    rule.holds(
        lagged,
        format!(
            "the queue of a subscriber that does not read was expected to have a limit below {} events \
             (Setup::flood): no event was lost",
            setup.flood
        ),
    );
}

/// Checks that a dropped subscriber does not affect other subscribers.
///
/// # Panics
/// Panics when the bus violates the rule.
pub async fn a_dropped_subscriber_does_not_affect_others(bus: &dyn Bus, setup: &Setup) {
    let rule = setup.rule("a dropped subscriber does not affect others");
    let gone = rule.ok("subscribe", bus.subscribe(&[Topic::Facts])).await;
    let mut stays = rule.ok("subscribe", bus.subscribe(&[Topic::Facts])).await;
    drop(gone);
    rule.ok("publish", bus.publish(Topic::Facts, fact(7))).await;
    let (topic, event) = (Topic::Facts, fact(7));
    let expected = Delivery::Event { topic, event };
    gets(&mut stays, &expected, &rule).await;
}

#[cfg(test)]
mod tests;
