//! Equal questions under way share one answer.

use crate::endpoint::Answer;
use crate::fault::NodeError;
use crate::lock::lock;
use akash_provider_core::types::Height;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use std::collections::HashMap;
use std::sync::Mutex;

/// Path, request and height.
pub(super) type Key = (&'static str, Bytes, Option<Height>);
type Flight = BoxFuture<'static, Result<Landed, NodeError>>;

/// An answer and who gave it.
#[derive(Debug, Clone)]
pub(super) struct Landed {
    pub(super) by: usize,
    pub(super) answer: Answer,
}

/// Questions under way. They live as long as somebody waits for them.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flying: Mutex<HashMap<Key, WeakShared<Flight>>>,
}

impl Flights {
    /// Waits for the answer to an equal question under way, or asks.
    pub(super) async fn join<Q, F>(&self, key: Key, ask: Q) -> Result<Landed, NodeError>
    where
        Q: FnOnce() -> F,
        F: Future<Output = Result<Landed, NodeError>> + Send + 'static,
    {
        let flight = {
            let mut flying = lock(&self.flying);
            match flying.get(&key).and_then(WeakShared::upgrade) {
                Some(flight) => flight,
                None => {
                    // Questions whose askers all went away end without coming to the removal below.
                    flying.retain(|_, flight| flight.upgrade().is_some());
                    let flight: Shared<Flight> = ask().boxed().shared();
                    // A strong one would keep a question alive that nobody waits for any more.
                    if let Some(weak) = flight.downgrade() {
                        flying.insert(key.clone(), weak);
                    }
                    flight
                }
            }
        };
        let landed = flight.clone().await;
        // The next question is a new one, also while others still read this answer.
        let mut flying = lock(&self.flying);
        let same = |weak: &WeakShared<Flight>| weak.upgrade().is_some_and(|f| f.ptr_eq(&flight));
        if flying.get(&key).is_some_and(same) {
            flying.remove(&key);
        }
        landed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn equal_questions_are_asked_once() {
        let flights = Flights::default();
        let asked = Arc::new(AtomicU32::new(0));
        let ask = || {
            let asked = Arc::clone(&asked);
            move || async move {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                let answer = Answer {
                    bytes: Bytes::from_static(b"x"),
                    height: 7,
                };
                Ok(Landed { by: 0, answer })
            }
        };
        let key = |pin| ("/a/b", Bytes::new(), pin);
        let same = (0..10).map(|_| flights.join(key(None), ask()));
        let (same, other) = tokio::join!(futures::future::join_all(same), flights.join(key(Some(7)), ask()));
        assert!(
            same.into_iter()
                .chain([other])
                .all(|l| l.unwrap().answer.height == 7)
        );
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        flights.join(key(None), ask()).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 3, "a later question is asked anew");
        assert!(lock(&flights.flying).is_empty());
    }
}
