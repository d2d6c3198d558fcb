//! Bounded history of the logs or events of a lease, with live followers.

use akash_provider_core::Error;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::VecDeque;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Maximum number of stored log lines or events of a lease.
const STORED_MAX: usize = 1000;
/// Maximum number of unread items of a follower. Above this number, the follower loses the oldest unread
/// items.
const WAITING: usize = 256;

/// Newest log lines or events of a lease, with the names of their services. Dropping the journal ends the
/// streams of all followers.
#[derive(Debug)]
pub(crate) struct Journal<T> {
    items: VecDeque<(String, T)>,
    followers: broadcast::Sender<(String, T)>,
}

impl<T: Clone> Default for Journal<T> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            followers: broadcast::Sender::new(WAITING),
        }
    }
}

impl<T: Clone + Send + 'static> Journal<T> {
    pub(crate) fn push(&mut self, service: &str, item: T) {
        // Bounded, because a service can write without end.
        if self.items.len() >= STORED_MAX {
            self.items.pop_front();
        }
        self.items.push_back((service.to_owned(), item.clone()));
        // Without followers the send fails, which is no error.
        let _ = self.followers.send((service.to_owned(), item));
    }

    /// Returns the items of `services`, oldest first. An empty `services` selects all services.
    pub(crate) fn items<'a>(&'a self, services: &'a [String]) -> impl DoubleEndedIterator<Item = &'a T> {
        let wanted = self
            .items
            .iter()
            .filter(|(service, _)| is_wanted(services, service));
        wanted.map(|(_, item)| item)
    }

    /// Returns a stream of the items in `first`, and then of new items if `follow` is true.
    pub(crate) fn stream(
        &self,
        first: Vec<T>,
        follow: bool,
        services: Vec<String>,
    ) -> BoxStream<'static, Result<T, Error>> {
        let first = stream::iter(first.into_iter().map(Ok));
        if !follow {
            return first.boxed();
        }
        // Subscribed here, not at the first poll. The caller holds the lock, so no item is missed.
        let rest = stream::unfold(self.followers.subscribe(), move |mut items| {
            let services = services.clone();
            async move {
                loop {
                    match items.recv().await {
                        Ok((service, item)) if is_wanted(&services, &service) => {
                            return Some((Ok(item), items));
                        }
                        // A slow follower loses items and does not block the service.
                        Ok(_) | Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return None,
                    }
                }
            }
        });
        first.chain(rest).boxed()
    }
}

fn is_wanted(services: &[String], service: &String) -> bool {
    services.is_empty() || services.contains(service)
}
