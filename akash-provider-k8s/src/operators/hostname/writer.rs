//! The one writer: does what the index says is to be done, a few names at a time, and tells what came of it.
//!
//! A name that moves has its new route before the old one goes, so that it leads somewhere at every moment. A controller
//! whose admission refuses a second route of a name gets the old one deleted first. What a route refers to is written
//! before it, and its certificate asked for after it.

use super::index::{Delete, Write};
use super::shared::{Next, Shared, Turn};
use crate::apply::Calls;
use crate::labels;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::without_star;
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Names that are worked at at once.
const AT_ONCE: usize = 8;

/// The writer, which runs while its provider leads.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) calls: Calls,
    pub(super) prune_interval: Duration,
    /// Longest wait at the end for what is under way.
    pub(super) grace: Duration,
}

impl Writer {
    /// Works until the end, and finishes what it began.
    pub(super) async fn run(self, until: CancellationToken) {
        // The term before may have ended in the middle of something.
        self.shared.inner().queue.restart();
        let mut jobs = FuturesUnordered::new();
        let mut pruning = interval(self.prune_interval);
        loop {
            let mut due = None;
            while jobs.len() < AT_ONCE {
                match self.shared.next(Instant::now()) {
                    Next::Turn(turn) => jobs.push(self.work(turn)),
                    // Whoever waits for the same lock, or for this thread, comes in between.
                    Next::More => tokio::task::yield_now().await,
                    Next::Nothing(then) => {
                        due = then;
                        break;
                    }
                }
                if until.is_cancelled() {
                    break;
                }
            }
            let later = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = until.cancelled() => break,
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
                () = self.shared.news.notified(), if jobs.len() < AT_ONCE => {}
                () = later => {}
                _ = pruning.tick() => self.shared.prune(),
            }
        }
        let rest = async { while jobs.next().await.is_some() {} };
        if timeout(self.grace, rest).await.is_err() {
            tracing::warn!("some routes were still being written at the end; the next start looks at them");
        }
    }

    async fn work(&self, turn: Turn) {
        let outcome = self.carry_out(&turn).await;
        self.shared.finish(&turn, outcome, Instant::now());
    }

    async fn carry_out(&self, turn: &Turn) -> Result<(), Error> {
        let (name, work) = (&turn.name, &turn.work);
        // One that cannot be written keeps nobody from the route, which refers to it only once it is accepted.
        let filtered = match &work.filter {
            Some(filter) => self.write(name, filter).await,
            None => Ok(()),
        };
        let mut written = match &work.write {
            Some(write) => self.write(name, write).await,
            None => Ok(()),
        };
        for delete in &work.deletes {
            self.delete(name, delete).await?;
        }
        if let (Err(_), Some(write), false) = (&written, &work.write, work.deletes.is_empty()) {
            written = self.write(name, write).await;
        }
        written?;
        filtered?;
        match &work.certificate {
            Some(certificate) => self.write(name, certificate).await,
            None => Ok(()),
        }
    }

    async fn write(&self, name: &str, write: &Write) -> Result<(), Error> {
        let (namespace, object, resource) = (&write.namespace, &without_star(name), &write.sort.resource());
        let kind = resource.kind.as_str();
        let meta = match &write.uid {
            Some(uid) => {
                if write.take_over {
                    self.calls.take_over_as(resource, namespace, object).await?;
                }
                tracing::info!(
                    hostname = name,
                    kind,
                    namespace,
                    differs = write.at,
                    "an object is written anew"
                );
                self.calls
                    .apply_again(resource, namespace, object, uid, &write.body)
                    .await?
            }
            None => {
                // Looked at before it is made: an object of somebody else must not be taken over.
                let there = self.calls.metadata(resource, namespace, object).await?;
                if let Some(there) = there {
                    return Err(occupied(self.calls.operation(), &there, &write.body));
                }
                tracing::info!(hostname = name, kind, namespace, "an object is made");
                self.calls
                    .apply_new(resource, namespace, object, &write.body)
                    .await?
            }
        };
        self.shared.written(name, write, &meta);
        Ok(())
    }

    async fn delete(&self, name: &str, delete: &Delete) -> Result<(), Error> {
        let (namespace, resource) = (&delete.namespace, delete.sort.resource());
        tracing::info!(
            hostname = name,
            kind = resource.kind,
            namespace,
            "an object is deleted"
        );
        self.calls
            .delete_as(&resource, namespace, &without_star(name), Some(&delete.uid), None)
            .await?;
        self.shared.deleted(name, delete);
        Ok(())
    }
}

/// There is an object of that name that the watch does not show: ours a moment too early, or somebody else's.
fn occupied(operation: &'static str, there: &ObjectMeta, wanted: &Value) -> Error {
    let lease_there = there.labels.as_ref().and_then(labels::lease_of);
    let own: Option<labels::Labels> = wanted
        .pointer("/metadata/labels")
        .and_then(|labels| serde_json::from_value(labels.clone()).ok());
    if lease_there.is_some() && lease_there == own.as_ref().and_then(labels::lease_of) {
        let message = "its route is there already, which the watch has not said yet";
        return Error::new(ErrorKind::Conflict, operation, message).transient();
    }
    let message = "somebody else's object has its name in the namespace of its lease; it is not touched, and the name \
                   has no route until it is deleted";
    Error::new(ErrorKind::Conflict, operation, message)
}
