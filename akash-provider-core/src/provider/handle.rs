//! The handle: what others ask of a running provider.

use super::Lifecycle;
use crate::Kept;
use crate::engine::reservations::Capacity;
use crate::engine::{Leadership, Refusal, RefusalKind, Reply, Request, Response, Status};
use crate::error::{Error, ErrorKind};
use crate::inventory::Explanation;
use crate::manifest::{Hashes, Manifest};
use crate::runtime::asks::{self, Ask};
use crate::runtime::lifecycle::Progress;
use crate::types::{Address, CloseReason, DeploymentId, GroupId, GroupSpec, LeaseId};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// A handle to a provider; cheap to clone.
///
/// # Behavior
/// - every request gets exactly one answer, within
///   [`manifest_request_timeout`](crate::config::Config::manifest_request_timeout)
/// - once the provider is stopping, requests are refused with [`RefusalKind::Stopping`]
/// - once it has stopped, or was dropped without having run, nothing hangs
#[derive(Debug, Clone)]
pub struct ProviderHandle {
    asks: mpsc::Sender<Ask>,
    progress: watch::Receiver<Progress>,
    /// As it was built.
    first_status: Arc<Status>,
    last_status: Arc<OnceLock<Arc<Status>>>,
    limit: Duration,
}

impl ProviderHandle {
    pub(crate) const fn new(
        asks: mpsc::Sender<Ask>,
        progress: watch::Receiver<Progress>,
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
        }
    }

    /// Hands in a tenant's manifest, checked in itself, with its hash, or those that [`crate::manifest::parse`] found.
    /// When it returns `Ok` the manifest is durable.
    ///
    /// # Errors
    /// See [`RefusalKind`]. After `Unavailable` nothing was kept, or the same manifest may be handed in again.
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

    /// Moves hostnames to a lease from other leases of the same tenant.
    ///
    /// # Errors
    /// `NoLease`, `Hostname` when a name belongs to another tenant, and those every request may meet.
    pub async fn transfer_hostnames(&self, lease: &LeaseId, hostnames: Vec<String>) -> Result<(), Refusal> {
        let lease = lease.clone();
        self.done(Request::TransferHostnames { lease, hostnames }).await
    }

    /// Ends a lease for one of the provider's reasons.
    ///
    /// # Errors
    /// `NoLease`, `NotLeader`, and those every request may meet.
    pub async fn end_lease(&self, lease: &LeaseId, reason: CloseReason) -> Result<(), Refusal> {
        let lease = lease.clone();
        self.done(Request::EndLease { lease, reason }).await
    }

    /// Compares chain, cluster and ledger now; returns the differences, one line each. With `dry_run`
    /// nothing is mended.
    ///
    /// # Errors
    /// `Unavailable` when chain or cluster cannot be asked, and those every request may meet.
    pub async fn scan(&self, dry_run: bool) -> Result<Vec<String>, Refusal> {
        match self.request(Request::Scan { dry_run }).await? {
            Reply::Scan(findings) => Ok(findings),
            reply @ Reply::Done => Err(asks::misplaced(&reply)),
        }
    }

    /// Releases the circuit breaker.
    ///
    /// # Errors
    /// Those every request may meet.
    pub async fn release_breaker(&self) -> Result<(), Refusal> {
        self.done(Request::ReleaseBreaker).await
    }

    /// Releases the circuit breaker for an owner for whom alone it has tripped.
    ///
    /// # Errors
    /// Those every request may meet, and [`RefusalKind::Rejected`] when it has not.
    pub async fn release_breaker_for(&self, owner: Address) -> Result<(), Refusal> {
        self.done(Request::ReleaseBreakerFor { owner }).await
    }

    /// Says whether this instance may write; takes effect before it returns.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped.
    pub async fn set_leadership(&self, leadership: Leadership) -> Result<(), Error> {
        self.ask("set leadership", |reply| Ask::Leadership(leadership, reply))
            .await
    }

    /// From here on it is as was kept, by this provider before it started or by the one that led before it; takes
    /// effect before it returns. Whoever takes over is told before [`ProviderHandle::set_leadership`].
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped.
    pub async fn remind(&self, kept: &Kept) -> Result<(), Error> {
        let kept = kept.clone();
        self.ask("remind", |reply| Ask::Kept(kept, reply)).await
    }

    /// Holds bids back, and says why in the status; `None` lets them go again, counted and priced anew. Bids that are
    /// on the chain and leases are looked after as ever. Takes effect before it returns.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped.
    pub async fn hold_bids(&self, why: Option<&str>) -> Result<(), Error> {
        let why = why.map(Into::into);
        self.ask("hold bids", |reply| Ask::HoldBids(why, reply)).await
    }

    /// Judges orders again that were declined for their price. Call it when the prices of the strategy changed.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped.
    pub async fn prices_changed(&self) -> Result<(), Error> {
        self.ask("judge prices again", Ask::PricesChanged).await
    }

    /// A plain snapshot of everything. Before the provider runs it is the one it was built with, whose lifecycle is
    /// `init`; once it has stopped, the last one. Both are answered at once.
    ///
    /// While nothing happens but blocks and looks at money it is the same for everybody who asks, and costs nothing; of
    /// leases that are unhealthy it says for how long to within a second.
    pub async fn status(&self) -> Arc<Status> {
        let unknown = || Status {
            lifecycle: self.lifecycle(),
            ..Status::default()
        };
        self.known_status().await.unwrap_or_else(|| Arc::new(unknown()))
    }

    /// The same, and `None` instead of an empty one where the provider does not answer and has not stopped: what it
    /// would say is not known then.
    pub async fn known_status(&self) -> Option<Arc<Status>> {
        let progress = *self.progress.borrow();
        // Nobody answers before it runs, and nobody is to wait for that.
        if !progress.begun && progress.lifecycle == Lifecycle::Init {
            return Some(Arc::clone(&self.first_status));
        }
        match self.ask("status", Ask::Status).await {
            Ok(status) => Some(status),
            Err(_) => self.last_status.get().cloned(),
        }
    }

    /// What is left right now, as a copy in which any group can be tried; `None` while capacity is not known.
    ///
    /// The provider gives it away in microseconds and goes on. [`crate::bidding::screen()`] says with it what would
    /// become of an order, and its [`explain`](Capacity::explain) which nodes have room. Both take as long as the
    /// group is large.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped.
    pub async fn capacity(&self) -> Result<Option<Capacity>, Error> {
        let capacity = self.ask("capacity", Ask::Capacity).await?;
        Ok(capacity.map(|copy| *copy))
    }

    /// Why a group would or would not fit right now, node by node; `None` while capacity is not known. A thread of its
    /// own judges it.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped.
    pub async fn explain(&self, group: &GroupSpec) -> Result<Option<Explanation>, Error> {
        let Some(capacity) = self.capacity().await? else {
            return Ok(None);
        };
        let group = group.clone();
        let judging = tokio::task::spawn_blocking(move || capacity.explain(&group));
        let failed = |error| Error::new(ErrorKind::Internal, "explain", format!("{error}"));
        judging.await.map(Some).map_err(failed)
    }

    /// True while the chain shows this lease as ours and alive.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped: it is not known then, which is not "no".
    pub async fn has_lease(&self, lease: &LeaseId) -> Result<bool, Error> {
        let lease = lease.clone();
        self.ask("has lease", |reply| Ask::HasLease(lease, reply)).await
    }

    /// Our live lease of a group; `None` when the chain shows none that is ours and alive.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when the provider has stopped: it is not known then, which is not "no".
    pub async fn lease_of(&self, group: &GroupId) -> Result<Option<LeaseId>, Error> {
        let group = group.clone();
        self.ask("lease of a group", |reply| Ask::LeaseOf(group, reply))
            .await
    }

    /// Waits until the provider can work: cluster, capacity and chain are known. It may be standing by, or
    /// not be registered; its status says so.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] when it ends before.
    pub async fn wait_ready(&self) -> Result<(), Error> {
        let over = |p: &Progress| p.lifecycle >= Lifecycle::Shutdown;
        let ready = |p: &Progress| p.lifecycle == Lifecycle::Running && p.chain_known;
        let mut progress = self.progress.clone();
        match progress.wait_for(|p| over(p) || ready(p)).await {
            Ok(p) if ready(&p) => Ok(()),
            Ok(_) | Err(_) => Err(stopped("wait until ready")),
        }
    }

    /// Where the provider is in its life.
    #[must_use]
    pub fn lifecycle(&self) -> Lifecycle {
        self.progress.borrow().lifecycle
    }

    /// Where it is, and each step it takes from here on; ends after [`Lifecycle::Done`]. A slow reader may
    /// miss steps, never the last.
    #[must_use]
    pub fn lifecycle_changes(&self) -> BoxStream<'static, Lifecycle> {
        let mut progress = self.progress.clone();
        let first = progress.borrow_and_update().lifecycle;
        let later = stream::unfold((progress, first), |(mut progress, last)| async move {
            if last == Lifecycle::Done {
                return None;
            }
            // The other end enters `Done` before it goes away, so an error has nothing left to tell.
            let next = progress.wait_for(|p| p.lifecycle != last).await.ok()?.lifecycle;
            Some((next, (progress, next)))
        });
        stream::iter([first]).chain(later).boxed()
    }

    async fn done(&self, request: Request) -> Result<(), Refusal> {
        match self.request(request).await? {
            Reply::Done => Ok(()),
            reply @ Reply::Scan(_) => Err(asks::misplaced(&reply)),
        }
    }

    async fn request(&self, request: Request) -> Response {
        let (reply, answer) = oneshot::channel();
        // Not waited for: with a full queue more is asked for than can be answered in time.
        match self.asks.try_send(Ask::Request(request, reply)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(asks::busy()),
            Err(TrySendError::Closed(_)) => return Err(asks::stopping()),
        }
        match timeout(self.limit, answer).await {
            Ok(Ok(response)) => response,
            // Dropped without a word, which says that the provider is over.
            Ok(Err(_)) => Err(asks::stopping()),
            Err(_) => Err(Refusal {
                kind: RefusalKind::Unavailable,
                message: format!("no answer within {:?}; try again", self.limit),
            }),
        }
    }

    async fn ask<T>(
        &self,
        operation: &'static str,
        ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
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
                    "the provider does not run, or did not answer within {:?}",
                    self.limit
                ),
            )),
        }
    }
}

fn stopped(operation: &'static str) -> Error {
    Error::new(ErrorKind::Stopped, operation, "the provider has stopped")
}
