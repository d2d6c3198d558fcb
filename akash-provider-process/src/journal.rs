//! What happened, for those who ask later and those who follow.

use akash_provider_core::Error;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::VecDeque;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Items kept of a lease.
const KEPT: usize = 1000;
/// Items that wait for a follower; a slower one loses the oldest.
const WAITING: usize = 256;

/// The last items of a lease, each of a service. Followers' streams end when it is dropped.
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
    /// Adds an item of a service.
    pub(crate) fn push(&mut self, service: &str, item: T) {
        // Bounded, because a service that talks without end would fill the memory.
        if self.items.len() >= KEPT {
            self.items.pop_front();
        }
        self.items.push_back((service.to_owned(), item.clone()));
        // Nobody follows: that is no failure.
        let _ = self.followers.send((service.to_owned(), item));
    }

    /// The items of these services (none for all), oldest first.
    pub(crate) fn of<'a>(&'a self, services: &'a [String]) -> impl DoubleEndedIterator<Item = &'a T> {
        let wanted = self
            .items
            .iter()
            .filter(|(service, _)| is_wanted(services, service));
        wanted.map(|(_, item)| item)
    }

    /// What is given first, then, when followed, what comes.
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
        // Subscribed here and not at the first read. The caller holds the lock, so nothing is lost between
        // the items kept and those to come.
        let rest = stream::unfold(self.followers.subscribe(), move |mut items| {
            let services = services.clone();
            async move {
                loop {
                    match items.recv().await {
                        Ok((service, item)) if is_wanted(&services, &service) => {
                            return Some((Ok(item), items));
                        }
                        // A follower who is too slow loses items rather than holding the service up.
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
