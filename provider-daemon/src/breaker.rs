//! For whom the circuit breaker has tripped, kept for the next start.
//!
//! The bus tells each change at once, but a reader that is too slow loses some of what it tells. So what the bus has
//! lost is asked of the provider itself, and so is how it was in the end.

use akash_provider_core::Kept;
use akash_provider_core::bus::{Delivery, EventStream};
use futures::StreamExt;
use std::future::Future;
use tokio_util::sync::CancellationToken;

/// Follows the facts until the end, from what is kept (`shut`). `now` asks the provider how its breaker is; `None`
/// where that is not known, and then what is kept stays as it is.
pub(crate) async fn follow<F>(
    mut facts: EventStream,
    mut shut: Kept,
    now: impl Fn() -> F,
    keep: impl Fn(&Kept),
    until: CancellationToken,
) where
    F: Future<Output = Option<Kept>>,
{
    loop {
        let delivery = tokio::select! {
            biased;
            // Facts before the end: what was told before it is to be kept too.
            delivery = facts.next() => delivery,
            () = until.cancelled() => None,
        };
        let changed = match delivery {
            Some(Delivery::Event { event, .. }) => shut.note(&event),
            Some(Delivery::Lagged(_)) => now().await.map(|now| shut = now).is_some(),
            None => break,
        };
        if changed {
            keep(&shut);
        }
    }
    // What was told after the end was seen is in the provider's status.
    if let Some(shut) = now().await {
        keep(&shut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::bus::{Bus, LocalBus};
    use akash_provider_core::types::{Address, Event, Topic};
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// What is kept after these events, of which the oldest are lost; `ends` says so at the end as well.
    async fn kept(events: &[Event], status: Option<Kept>, ends: bool) -> Vec<Kept> {
        let bus = LocalBus::with_limit(4);
        let facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
        for event in events {
            bus.publish(Topic::Facts, Arc::new(event.clone())).await.unwrap();
        }
        let kept: Arc<Mutex<Vec<Kept>>> = Arc::default();
        let (keeping, until) = (Arc::clone(&kept), CancellationToken::new());
        let keep = move |shut: &Kept| keeping.lock().unwrap().push(shut.clone());
        let now = move || {
            let status = status.clone();
            async move { status }
        };
        let following = tokio::spawn(follow(facts, Kept::default(), now, keep, until.clone()));
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

    fn all(for_all: bool) -> Kept {
        let owners = BTreeSet::new();
        Kept {
            breaker_tripped: for_all,
            breaker_held_owners: owners,
        }
    }

    fn owner(number: u8) -> Address {
        Address::from_bytes(&[number; 20]).unwrap()
    }

    fn alone(owners: &[u8]) -> Kept {
        Kept {
            breaker_tripped: false,
            breaker_held_owners: owners.iter().map(|n| owner(*n)).collect(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn owners_are_kept_each_until_he_is_released() {
        let trip = |number| Event::BreakerTrippedFor {
            owner: owner(number),
            wanted: 4,
        };
        let release = Event::BreakerReleasedFor { owner: owner(1) };
        let told = [trip(1), trip(2), other(), release];
        assert_eq!(
            kept(&told, None, false).await,
            [alone(&[1]), alone(&[1, 2]), alone(&[2])]
        );
        let told = [
            trip(1),
            Event::BreakerTripped { wanted: 4 },
            Event::BreakerReleased,
        ];
        let kept_last = kept(&told, None, false).await.pop();
        assert_eq!(kept_last, Some(Kept::default()), "it is for each of them too");
        let lost: Vec<Event> = (0..20).map(|_| other()).chain([trip(3)]).collect();
        let known = Some(alone(&[1]));
        assert_eq!(kept(&lost, known, false).await, [alone(&[1]), alone(&[1, 3])]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_bus_has_lost_is_asked_for() {
        let tripped = Event::BreakerTripped { wanted: 4 };
        let alone = std::slice::from_ref(&tripped);
        assert_eq!(kept(alone, None, false).await, [all(true)]);
        let mut lost = vec![tripped.clone()];
        lost.extend((0..20).map(|_| other()));
        assert_eq!(
            kept(&lost, Some(all(true)), false).await,
            [all(true)],
            "it was lost"
        );
        // What is not known changes nothing.
        assert!(kept(&lost, None, false).await.is_empty());
        // What came after what was lost counts more than what was known then.
        let mut again = lost;
        again.extend([tripped, Event::BreakerReleased]);
        let kept_then = kept(&again, Some(all(false)), false).await;
        assert_eq!(kept_then, [false, true, false].map(all));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_what_the_provider_says_then() {
        let tripped = [Event::BreakerTripped { wanted: 4 }];
        assert_eq!(
            kept(&tripped, Some(all(false)), true).await,
            [true, false].map(all)
        );
        assert_eq!(kept(&tripped, None, true).await, [all(true)]);
    }
}
