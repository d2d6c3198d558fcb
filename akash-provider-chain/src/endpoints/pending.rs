//! Deduplication of concurrent identical queries.

use crate::endpoint::QueryResponse;
use crate::fault::NodeError;
use crate::lock::lock;
use akash_provider_core::types::Height;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use std::collections::HashMap;
use std::sync::Mutex;

/// Path, encoded request and height of a query.
pub(super) type QueryKey = (&'static str, Bytes, Option<Height>);
type PendingQuery = BoxFuture<'static, Result<SharedResponse, NodeError>>;

#[derive(Debug, Clone)]
pub(super) struct SharedResponse {
    pub(super) by: usize,
    pub(super) answer: QueryResponse,
}

/// Pending queries. A query is cancelled when its last caller is dropped.
#[derive(Debug, Default)]
pub(super) struct PendingQueries {
    queries: Mutex<HashMap<QueryKey, WeakShared<PendingQuery>>>,
}

impl PendingQueries {
    /// Waits for the response to an identical pending query, or sends the query.
    pub(super) async fn join<Q, F>(&self, key: QueryKey, ask: Q) -> Result<SharedResponse, NodeError>
    where
        Q: FnOnce() -> F,
        F: Future<Output = Result<SharedResponse, NodeError>> + Send + 'static,
    {
        let query = {
            let mut queries = lock(&self.queries);
            match queries.get(&key).and_then(WeakShared::upgrade) {
                Some(query) => query,
                None => {
                    // Queries that lost all callers never reach the removal below.
                    queries.retain(|_, query| query.upgrade().is_some());
                    let query: Shared<PendingQuery> = ask().boxed().shared();
                    // A strong reference would keep a query without callers running.
                    if let Some(weak) = query.downgrade() {
                        queries.insert(key.clone(), weak);
                    }
                    query
                }
            }
        };
        let response = query.clone().await;
        // Later queries are sent again, even while other callers still read this response.
        let mut queries = lock(&self.queries);
        let same = |weak: &WeakShared<PendingQuery>| weak.upgrade().is_some_and(|f| f.ptr_eq(&query));
        if queries.get(&key).is_some_and(same) {
            queries.remove(&key);
        }
        response
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
        let pending = PendingQueries::default();
        let sent = Arc::new(AtomicU32::new(0));
        let ask = || {
            let sent = Arc::clone(&sent);
            move || async move {
                sent.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                let answer = QueryResponse {
                    bytes: Bytes::from_static(b"x"),
                    height: 7,
                };
                Ok(SharedResponse { by: 0, answer })
            }
        };
        let key = |pin| ("/a/b", Bytes::new(), pin);
        let same = (0..10).map(|_| pending.join(key(None), ask()));
        let (same, other) = tokio::join!(futures::future::join_all(same), pending.join(key(Some(7)), ask()));
        assert!(
            same.into_iter()
                .chain([other])
                .all(|l| l.unwrap().answer.height == 7)
        );
        assert_eq!(sent.load(Ordering::Relaxed), 2);
        pending.join(key(None), ask()).await.unwrap();
        assert_eq!(sent.load(Ordering::Relaxed), 3, "a later query is sent again");
        assert!(lock(&pending.queries).is_empty());
    }
}
