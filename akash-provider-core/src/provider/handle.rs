//! The handle for requests to a running provider.

use super::statistics::LeaseEarnings;
use super::{Lifecycle, ProviderStatistics};
use crate::RestartState;
use crate::engine::reservations::Capacity;
use crate::engine::{Leadership, Refusal, RefusalKind, Reply, Request, Response, Status};
use crate::error::{Error, ErrorKind};
use crate::inventory::Explanation;
use crate::manifest::{Hashes, Manifest};
use crate::runtime::handle_requests::{self, HandleRequest};
use crate::runtime::lifecycle::ProviderProgress;
use crate::runtime::meter::Meter;
use crate::types::{Address, CloseReason, DeploymentId, GroupId, GroupSpec, LeaseId};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// A handle to a provider. A clone is cheap.
///
/// # Behavior
/// - Every request gets exactly one response within
///   [`manifest_request_timeout`](crate::config::Config::manifest_request_timeout).
/// - While the provider is stopping, requests are refused with [`RefusalKind::Stopping`].
/// - After the provider has stopped, or was dropped without running, every request gets a response at once.
#[derive(Debug, Clone)]
pub struct ProviderHandle {
    asks: mpsc::Sender<HandleRequest>,
    progress: watch::Receiver<ProviderProgress>,
    /// Status when the provider was built.
    first_status: Arc<Status>,
    last_status: Arc<OnceLock<Arc<Status>>>,
    limit: Duration,
    meter: Meter,
}

impl ProviderHandle {
    pub(crate) fn new(
        asks: mpsc::Sender<HandleRequest>,
        progress: watch::Receiver<ProviderProgress>,
        first_status: Arc<Status>,
        last_status: Arc<OnceLock<Arc<Status>>>,
        limit: Duration,
    ) -> Self {
        Self {
            asks,
            progress,
            first_status,
            last_status,
            limit,
            meter: Meter::default(),
        }
    }

    pub(crate) fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Returns the counts of the provider since its start, without waiting.
    #[must_use]
    pub fn statistics(&self) -> ProviderStatistics {
        self.meter.statistics()
    }

    /// Returns the earnings of a lease, without waiting. Returns `None` until a chain snapshot contains the
    /// lease.
    #[must_use]
    pub fn earnings(&self, lease: &LeaseId) -> Option<LeaseEarnings> {
        self.meter.earnings(lease)
    }

    /// Submits a validated manifest of a tenant. `hashes` is the hash of the manifest, or the hashes that
    /// [`crate::manifest::parse`] returned. If the result is `Ok`, the manifest is stored durably.
    ///
    /// # Errors
    /// Returns the refusals of [`RefusalKind`]. After `Unavailable`, the manifest can be submitted again.
    pub async fn submit_manifest(
        &self,
        deployment: &DeploymentId,
        manifest: Arc<Manifest>,
        hashes: impl Into<Hashes>,
    ) -> Result<(), Refusal> {
        self.done(Request::SubmitManifest {
            deployment: deployment.clone(),
            manifest,
            hashes: hashes.into(),
        })
        .await
    }

    /// Moves hostnames from other leases of the same tenant to a lease.
    ///
    /// # Errors
    /// - `NoLease`: the lease has no deployed workload.
    /// - `Hostname`: the lease cannot get one of the hostnames.
    /// - `Rejected`: the manifest of the lease lacks one of the hostnames.
    /// - `NotLeader`: this instance is a standby.
    /// - `Busy`, `Stopping` and `Unavailable`: as for all requests.
    pub async fn transfer_hostnames(&self, lease: &LeaseId, hostnames: Vec<String>) -> Result<(), Refusal> {
        let lease = lease.clone();
        self.done(Request::TransferHostnames { lease, hostnames }).await
    }

    /// Closes a lease. `reason` must be one of the reasons that a provider can record on the chain.
    ///
    /// # Errors
    /// Returns `NoLease` if this provider has no such active lease, `Rejected` for an invalid `reason`, and
    /// `NotLeader` on a standby. Like all requests, can return `Busy`, `Stopping` and `Unavailable`.
    pub async fn end_lease(&self, lease: &LeaseId, reason: CloseReason) -> Result<(), Refusal> {
        let lease = lease.clone();
        self.done(Request::EndLease { lease, reason }).await
    }

    /// Compares the state of the provider with the chain and the cluster. Returns the differences, one line
    /// each. Repairs the differences unless `dry_run` is true.
    ///
    /// # Errors
    /// Like all requests, can return `Busy`, `Stopping` and `Unavailable`. Also returns `Unavailable` if the
    /// chain or the cluster cannot be queried.
    pub async fn scan(&self, dry_run: bool) -> Result<Vec<String>, Refusal> {
        match self.request(Request::Scan { dry_run }).await? {
            Reply::Scan(findings) => Ok(findings),
            reply @ Reply::Done => Err(handle_requests::misplaced(&reply)),
        }
    }

    /// Releases the circuit breaker for all owners.
    ///
    /// # Errors
    /// Returns `NotLeader` on a standby. Like all requests, can return `Busy`, `Stopping` and `Unavailable`.
    pub async fn release_breaker(&self) -> Result<(), Refusal> {
        self.done(Request::ReleaseBreaker).await
    }

    /// Releases the circuit breaker that has tripped for one owner.
    ///
    /// # Errors
    /// Returns [`RefusalKind::Rejected`] if the breaker has not tripped for this owner, and `NotLeader` on a
    /// standby. Like all requests, can return `Busy`, `Stopping` and `Unavailable`.
    pub async fn release_breaker_for(&self, owner: Address) -> Result<(), Refusal> {
        self.done(Request::ReleaseBreakerFor { owner }).await
    }

    /// Sets whether this instance leads. The change takes effect before the method returns.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] when the provider has stopped, and [`ErrorKind::Timeout`] if the
    /// provider does not respond in time. After a timeout, the change can still take effect.
    pub async fn set_leadership(&self, leadership: Leadership) -> Result<(), Error> {
        self.ask("set leadership", |reply| {
            HandleRequest::Leadership(leadership, reply)
        })
        .await
    }

    /// Restores the state that the previous process or the previous leader stored. The state takes effect
    /// before the method returns. At a take-over, call this method before [`ProviderHandle::set_leadership`].
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] when the provider has stopped, and [`ErrorKind::Timeout`] if the
    /// provider does not respond in time. After a timeout, the state can still take effect.
    pub async fn restore_state(&self, state: &RestartState) -> Result<(), Error> {
        let state = state.clone();
        self.ask("remind", |reply| HandleRequest::RestoreState(state, reply))
            .await
    }

    /// Stops sending bids, and shows the reason `why` in the status. With `None`, bids are sent again, and the open
    /// orders are evaluated again. Existing bids and leases are not affected. The change takes effect before the method
    /// returns.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] when the provider has stopped, and [`ErrorKind::Timeout`] if the
    /// provider does not respond in time. After a timeout, the change can still take effect.
    pub async fn hold_bids(&self, why: Option<&str>) -> Result<(), Error> {
        let why = why.map(Into::into);
        self.ask("hold bids", |reply| HandleRequest::HoldBids(why, reply))
            .await
    }

    /// Retries all orders that were declined because of their price. Call this method after the prices of the
    /// strategy have changed.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] when the provider has stopped, and [`ErrorKind::Timeout`] if the
    /// provider does not respond in time.
    pub async fn prices_changed(&self) -> Result<(), Error> {
        self.ask("judge prices again", HandleRequest::PricesChanged).await
    }

    /// Returns the current status. Before the provider runs, returns the initial status, with the lifecycle
    /// `init`. After the provider has stopped, returns the last status. In these two cases, the call does not
    /// wait.
    ///
    /// The unhealthy time of each lease can be one second behind.
    pub async fn status(&self) -> Arc<Status> {
        let unknown = || Status {
            lifecycle: self.lifecycle(),
            ..Status::default()
        };
        self.try_status().await.unwrap_or_else(|| Arc::new(unknown()))
    }

    /// Returns the current status, or `None` if the provider is running but does not respond.
    pub async fn try_status(&self) -> Option<Arc<Status>> {
        let progress = *self.progress.borrow();
        // The provider does not respond before it runs, and callers must not wait for that.
        if !progress.begun && progress.lifecycle == Lifecycle::Init {
            return Some(Arc::clone(&self.first_status));
        }
        match self.ask("status", HandleRequest::Status).await {
            Ok(status) => Some(status),
            Err(_) => self.last_status.get().cloned(),
        }
    }

    /// Returns a copy of the free capacity. Callers can test whether a group fits into this copy. Returns
    /// `None` while the capacity is unknown.
    ///
    /// [`crate::bidding::screen()`] evaluates an order with the copy, and [`explain`](Capacity::explain)
    /// returns the capacity of each node.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] after the provider has stopped, and [`ErrorKind::Timeout`] if the
    /// provider does not respond in time.
    pub async fn capacity(&self) -> Result<Option<Capacity>, Error> {
        let capacity = self.ask("capacity", HandleRequest::Capacity).await?;
        Ok(capacity.map(|copy| *copy))
    }

    /// Explains for every node whether a group currently fits. Returns `None` while the capacity is unknown.
    ///
    /// # Errors
    /// Returns the errors of [`Self::capacity`], and [`ErrorKind::Internal`] if the evaluation fails.
    pub async fn explain(&self, group: &GroupSpec) -> Result<Option<Explanation>, Error> {
        let Some(capacity) = self.capacity().await? else {
            return Ok(None);
        };
        let group = group.clone();
        let judging = tokio::task::spawn_blocking(move || capacity.explain(&group));
        let failed = |error| Error::new(ErrorKind::Internal, "explain", format!("{error}"));
        judging.await.map(Some).map_err(failed)
    }

    /// Returns whether the chain lists this lease as active and owned by this provider.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] after the provider has stopped, and [`ErrorKind::Timeout`] if the
    /// provider does not respond in time.
    pub async fn has_lease(&self, lease: &LeaseId) -> Result<bool, Error> {
        let lease = lease.clone();
        self.ask("has lease", |reply| HandleRequest::HasLease(lease, reply))
            .await
    }

    /// Returns the active lease of this provider for a group, or `None` if the chain lists no such lease.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] after the provider has stopped, and [`ErrorKind::Timeout`] if the
    /// provider does not respond in time.
    pub async fn lease_of(&self, group: &GroupId) -> Result<Option<LeaseId>, Error> {
        let group = group.clone();
        self.ask("lease of a group", |reply| HandleRequest::LeaseOf(group, reply))
            .await
    }

    /// Waits until the cluster, the capacity and the chain have been read. A ready provider can be a standby
    /// or unregistered on the chain. The status of the provider shows these states.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Stopped`] if the provider stops before it is ready.
    pub async fn wait_ready(&self) -> Result<(), Error> {
        let over = |p: &ProviderProgress| p.lifecycle >= Lifecycle::Shutdown;
        let ready = |p: &ProviderProgress| p.lifecycle == Lifecycle::Running && p.chain_known;
        let mut progress = self.progress.clone();
        match progress.wait_for(|p| over(p) || ready(p)).await {
            Ok(p) if ready(&p) => Ok(()),
            Ok(_) | Err(_) => Err(stopped("wait until ready")),
        }
    }

    /// Returns the current lifecycle phase of the provider.
    #[must_use]
    pub fn lifecycle(&self) -> Lifecycle {
        self.progress.borrow().lifecycle
    }

    /// Returns a stream of the current and all later lifecycle phases. The stream ends after
    /// [`Lifecycle::Done`]. A slow reader can miss phases, but not the last phase.
    #[must_use]
    pub fn lifecycle_changes(&self) -> BoxStream<'static, Lifecycle> {
        let mut progress = self.progress.clone();
        let first = progress.borrow_and_update().lifecycle;
        let later = stream::unfold((progress, first), |(mut progress, last)| async move {
            if last == Lifecycle::Done {
                return None;
            }
            // The sender enters `Done` before it is dropped, so no phase is missed on an error.
            let next = progress.wait_for(|p| p.lifecycle != last).await.ok()?.lifecycle;
            Some((next, (progress, next)))
        });
        stream::iter([first]).chain(later).boxed()
    }

    async fn done(&self, request: Request) -> Result<(), Refusal> {
        match self.request(request).await? {
            Reply::Done => Ok(()),
            reply @ Reply::Scan(_) => Err(handle_requests::misplaced(&reply)),
        }
    }

    async fn request(&self, request: Request) -> Response {
        let (reply, answer) = oneshot::channel();
        // Not awaited: a full queue contains more requests than the provider can process in time.
        match self.asks.try_send(HandleRequest::Request(request, reply)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(handle_requests::busy()),
            Err(TrySendError::Closed(_)) => return Err(handle_requests::stopping()),
        }
        match timeout(self.limit, answer).await {
            Ok(Ok(response)) => response,
            // The reply was dropped, so the provider has stopped.
            Ok(Err(_)) => Err(handle_requests::stopping()),
            Err(_) => Err(Refusal::new(
                RefusalKind::Unavailable,
                format!("no response within {:?}; try again", self.limit),
            )),
        }
    }

    async fn ask<T>(
        &self,
        operation: &'static str,
        ask: impl FnOnce(oneshot::Sender<T>) -> HandleRequest,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let asking = async {
            self.asks.send(ask(reply)).await.map_err(|_| stopped(operation))?;
            answer.await.map_err(|_| stopped(operation))
        };
        match timeout(self.limit, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                operation,
                format!(
                    "the provider is not running, or did not respond within {:?}",
                    self.limit
                ),
            )),
        }
    }
}

fn stopped(operation: &'static str) -> Error {
    Error::new(ErrorKind::Stopped, operation, "the provider has stopped")
}
