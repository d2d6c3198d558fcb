//! A bounded queue from one backend to one listener, over which the backend keeps control: where a listener
//! is too slow, the backend itself replaces what waits by something that says so.

use futures::stream::{self, BoxStream, StreamExt};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// Locks a mutex whose data is whole at every point where a holder could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    ready: Notify,
}

struct Queue<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// The backend's end. Dropping it ends the stream once what waits has been read.
pub(crate) struct Feed<T> {
    // The listener owns the queue, so one that has gone away costs nothing and is noticed.
    shared: Weak<Shared<T>>,
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Feed<T> {
    /// A feed and its listener's stream.
    pub(crate) fn new() -> (Self, BoxStream<'static, T>) {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
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

    /// Changes what waits; false when nobody listens any more.
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
