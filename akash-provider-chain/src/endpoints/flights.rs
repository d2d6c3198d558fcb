//! Deduplication of concurrent identical queries.

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

/// Response, with the index of the endpoint.
#[derive(Debug, Clone)]
pub(super) struct Landed {
    pub(super) by: usize,
    pub(super) answer: Answer,
}

/// Pending queries. A query is cancelled when its last caller is dropped.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flying: Mutex<HashMap<Key, WeakShared<Flight>>>,
}

impl Flights {
    /// Waits for an identical pending query, or sends the query.
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
                    // Queries that lost all callers never reach the removal below.
                    flying.retain(|_, flight| flight.upgrade().is_some());
                    let flight: Shared<Flight> = ask().boxed().shared();
                    // A strong reference would keep a query without callers running.
                    if let Some(weak) = flight.downgrade() {
                        flying.insert(key.clone(), weak);
                    }
                    flight
                }
            }
        };
        let landed = flight.clone().await;
        // Later queries are sent again, even while other callers still read this response.
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
    async fn identical_queries_are_sent_once() {
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
        assert_eq!(asked.load(Ordering::Relaxed), 3, "a later query is sent again");
        assert!(lock(&flights.flying).is_empty());
    }
}
