//! Tenant access to a running lease: logs, events and commands.
//!
//! The caches of [`ObjectCache`] map pods to services. Only the streams of logs and commands are calls to the API server.

mod budget;
mod events;
mod exec;
mod lines;
mod logs;
mod pods;

use crate::settings::KubeSettings;
use crate::state::{EVERYWHERE, ObjectCache};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use futures::Stream;
use futures::stream::BoxStream;
use kube::Client;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Access to the logs, events and containers of the leases of one cluster.
#[derive(Clone)]
pub struct Access {
    client: Client,
    state: Arc<ObjectCache>,
    call_timeout: Duration,
    command_start_timeout: Duration,
    tools: exec::Tools,
    log_memory: Arc<budget::LogMemoryBudget>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Creates the access to the logs, events and containers of the leases in `state`.
    #[must_use]
    pub fn new(client: Client, state: Arc<ObjectCache>, settings: &KubeSettings) -> Self {
        Self {
            client,
            state,
            call_timeout: settings.call_timeout,
            command_start_timeout: settings.command_start_timeout,
            tools: exec::Tools::default(),
            log_memory: Arc::new(budget::LogMemoryBudget::new(
                settings.log_memory_per_tenant,
                settings.log_memory,
            )),
        }
    }

    /// Returns an error unless the caches contain the lease and all `services`.
    fn check(&self, operation: &'static str, lease: &LeaseId, services: &[String]) -> Result<(), Error> {
        // Outdated caches may lack a lease that exists.
        if !self.state.is_known() {
            let message = "the watches of the cluster are not synchronized";
            return Err(Error::new(ErrorKind::Unavailable, operation, message));
        }
        let missing = |message| Err(Error::new(ErrorKind::NotFound, operation, message));
        if !self.state.has(lease) {
            return missing(format!("lease {lease} is unknown"));
        }
        let view = self.state.lease(lease);
        for service in services {
            if !crate::state::has_service(&view, service) {
                return missing(format!("lease {lease} has no service `{service}`"));
            }
        }
        Ok(())
    }

    /// Returns true after a teardown has deleted all pods of the lease. Returns false while the caches are
    /// outdated.
    fn is_over(&self, namespace: &str) -> bool {
        let view = self.state.lease_in(namespace);
        let going = view
            .namespace
            .as_ref()
            .map(|n| n.metadata.deletion_timestamp.is_some());
        let over = match going {
            None => true,
            // Pods may log until the last one is deleted.
            Some(going) => going && view.pods.is_empty(),
        };
        // Outdated caches may lack a lease that exists.
        over && self.state.is_known()
    }
}

/// Waits for a change to an object of the lease.
async fn touch(touched: &mut broadcast::Receiver<Arc<str>>, namespace: &str) {
    loop {
        match touched.recv().await {
            Ok(home) if *home != *namespace && *home != *EVERYWHERE => {}
            // The state was dropped; the other branches of the caller end the wait.
            Err(RecvError::Closed) => std::future::pending().await,
            // One of the missed changes may concern this lease.
            Ok(_) | Err(RecvError::Lagged(_)) => return,
        }
    }
}

/// Stream of the items that a task sends. Dropping the stream stops the task.
struct TaskStream<T> {
    items: mpsc::Receiver<T>,
    #[expect(dead_code, reason = "dropping the handle stops the task")]
    task: AbortOnDropHandle<()>,
}

impl<T> Stream for TaskStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.items.poll_recv(cx)
    }
}

/// Spawns a task and returns the stream of its items. At most `waiting` items are buffered.
fn task_stream<T, F>(waiting: usize, task: impl FnOnce(mpsc::Sender<T>) -> F) -> BoxStream<'static, T>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, items) = mpsc::channel(waiting);
    let task = AbortOnDropHandle::new(tokio::spawn(task(sender)));
    Box::pin(TaskStream { items, task })
}
