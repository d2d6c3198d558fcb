//! Whether the circuit breaker has tripped, kept for the next start.
//!
//! The bus tells each change at once, but a reader that is too slow loses some of what it tells. So what the bus has
//! lost is asked of the provider itself, and so is how it was in the end.

use akash_provider_core::bus::{Delivery, EventStream};
use akash_provider_core::types::Event;
use futures::StreamExt;
use std::future::Future;
use tokio_util::sync::CancellationToken;

/// Follows the facts until the end. `now` asks the provider whether its breaker has tripped; `None` where that is not
/// known, and then what is kept stays as it is.
pub(crate) async fn follow<F>(
    mut facts: EventStream,
    now: impl Fn() -> F,
    keep: impl Fn(bool),
    until: CancellationToken,
) where
    F: Future<Output = Option<bool>>,
{
    loop {
        let delivery = tokio::select! {
            biased;
            delivery = facts.next() => delivery,
            () = until.cancelled() => None,
        };
        let tripped = match delivery {
            Some(Delivery::Event { event, .. }) => change(&event),
            Some(Delivery::Lagged(_)) => now().await,
            None => break,
        };
        if let Some(tripped) = tripped {
            keep(tripped);
        }
    }
    if let Some(tripped) = now().await {
        keep(tripped);
    }
}

/// Whether an event trips the circuit breaker or releases it.
fn change(event: &Event) -> Option<bool> {
    match event {
        Event::BreakerTripped { .. } => Some(true),
        Event::BreakerReleased => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::bus::{Bus, LocalBus};
    use akash_provider_core::types::Topic;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// What is kept after these events, of which the oldest are lost; `ends` says so at the end as well.
    async fn kept(events: &[Event], status: Option<bool>, ends: bool) -> Vec<bool> {
        let bus = LocalBus::with_limit(4);
        let facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
        for event in events {
            bus.publish(Topic::Facts, Arc::new(event.clone())).await.unwrap();
        }
        let kept: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (keeping, until) = (Arc::clone(&kept), CancellationToken::new());
        let keep = move |tripped| keeping.lock().unwrap().push(tripped);
        let following = tokio::spawn(follow(facts, move || async move { status }, keep, until.clone()));
        if ends {
            until.cancel();
            following.await.unwrap();
        } else {
            // Everything that can be done is done before time goes on.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let kept = kept.lock().unwrap();
        kept.clone()
    }

    fn other() -> Event {
        Event::DriftFound { findings: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_bus_has_lost_is_asked_for() {
        let tripped = Event::BreakerTripped { wanted: 4 };
        let alone = std::slice::from_ref(&tripped);
        assert_eq!(kept(alone, None, false).await, [true]);
        let mut lost = vec![tripped.clone()];
        lost.extend((0..20).map(|_| other()));
        assert_eq!(kept(&lost, Some(true), false).await, [true], "it was lost");
        // What is not known changes nothing.
        assert!(kept(&lost, None, false).await.is_empty());
        // What came after what was lost counts more than what was known then.
        let mut again = lost;
        again.extend([tripped, Event::BreakerReleased]);
        assert_eq!(kept(&again, Some(false), false).await, [false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_what_the_provider_says_then() {
        assert_eq!(
            kept(&[Event::BreakerReleased], Some(true), true).await,
            [false, true]
        );
        assert_eq!(kept(&[Event::BreakerReleased], None, true).await, [false]);
    }
}
