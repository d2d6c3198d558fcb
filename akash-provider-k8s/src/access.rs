//! What a tenant reads from and does inside a running lease: logs, events, commands.
//!
//! Which pods belong to a service comes from the caches of [`State`]; only the streams themselves are calls.

mod budget;
mod events;
mod exec;
mod lines;
mod logs;
mod pods;

use crate::settings::Settings;
use crate::state::{EVERYWHERE, State};
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

/// Logs, events and commands of the leases of one cluster.
#[derive(Clone)]
pub struct Access {
    client: Client,
    state: Arc<State>,
    call_timeout: Duration,
    command_start_timeout: Duration,
    tools: exec::Tools,
    log_memory: Arc<budget::Budget>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Access by a client, to what `state` knows of.
    #[must_use]
    pub fn new(client: Client, state: Arc<State>, settings: &Settings) -> Self {
        Self {
            client,
            state,
            call_timeout: settings.call_timeout,
            command_start_timeout: settings.command_start_timeout,
            tools: exec::Tools::default(),
            log_memory: Arc::new(budget::Budget::new(
                settings.log_memory_per_tenant,
                settings.log_memory,
            )),
        }
    }

    /// Fails unless the lease and every service named are known.
    fn check(&self, operation: &'static str, lease: &LeaseId, services: &[String]) -> Result<(), Error> {
        // While nothing is watched a lease that is not known may be there all the same.
        if !self.state.known() {
            let message = "the cluster is not being watched at the moment";
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

    /// True when a lease is gone, as far as anybody knows.
    fn is_over(&self, namespace: &str) -> bool {
        let view = self.state.lease_in(namespace);
        let going = view
            .namespace
            .as_ref()
            .map(|n| n.metadata.deletion_timestamp.is_some());
        let over = match going {
            None => true,
            // Pods may write until the last one is gone.
            Some(going) => going && view.pods.is_empty(),
        };
        // In caches that are not up to date an absence means nothing.
        over && self.state.known()
    }
}

/// Waits until something of a lease changed.
async fn touch(touched: &mut broadcast::Receiver<Arc<str>>, namespace: &str) {
    loop {
        match touched.recv().await {
            Ok(home) if *home != *namespace && *home != *EVERYWHERE => {}
            // The state is gone; other branches of the caller end the wait.
            Err(RecvError::Closed) => std::future::pending().await,
            // What was missed may have been about this lease.
            Ok(_) | Err(RecvError::Lagged(_)) => return,
        }
    }
}

/// What a task sends; dropping it ends the task.
struct TaskStream<T> {
    items: mpsc::Receiver<T>,
    #[expect(dead_code, reason = "dropping it ends the task")]
    task: AbortOnDropHandle<()>,
}

impl<T> Stream for TaskStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.items.poll_recv(cx)
    }
}

/// A stream of what a task sends, at most `waiting` items ahead of the reader.
fn task_stream<T, F>(waiting: usize, task: impl FnOnce(mpsc::Sender<T>) -> F) -> BoxStream<'static, T>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, items) = mpsc::channel(waiting);
    let task = AbortOnDropHandle::new(tokio::spawn(task(sender)));
    Box::pin(TaskStream { items, task })
}
