//! A bounded queue from a backend to one consumer. The backend can change queued items. If the consumer is
//! too slow, the backend replaces the queued items with a notice.

use futures::stream::{self, BoxStream, StreamExt};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// Locks a mutex, even if another thread panicked while holding the lock. The data must be consistent at
/// every point where a holder can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct FeedQueue<T> {
    queue: Mutex<FeedBuffer<T>>,
    ready: Notify,
}

struct FeedBuffer<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// Sender of the queue. After the sender is dropped, the stream returns the queued items and ends.
pub(crate) struct Feed<T> {
    // The consumer owns the queue, so that a dropped consumer frees it and is detected.
    shared: Weak<FeedQueue<T>>,
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Feed<T> {
    pub(crate) fn new() -> (Self, BoxStream<'static, T>) {
        let shared = Arc::new(FeedQueue {
            queue: Mutex::new(FeedBuffer {
                items: VecDeque::new(),
                closed: false,
            }),
            ready: Notify::new(),
        });
        let feed = Self {
            shared: Arc::downgrade(&shared),
        };
        let stream = stream::unfold(shared, |shared| async move {
            loop {
                {
                    let mut queue = lock(&shared.queue);
                    if let Some(item) = queue.items.pop_front() {
                        drop(queue);
                        return Some((item, shared));
                    }
                    if queue.closed {
                        return None;
                    }
                }
                shared.ready.notified().await;
            }
        });
        (feed, stream.boxed())
    }

    /// Changes the queued items. Returns false if the consumer was dropped.
    pub(crate) fn update(&self, change: impl FnOnce(&mut VecDeque<T>)) -> bool {
        let Some(shared) = self.shared.upgrade() else {
            return false;
        };
        change(&mut lock(&shared.queue).items);
        shared.ready.notify_one();
        true
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.queue).closed = true;
            shared.ready.notify_one();
        }
    }
}
