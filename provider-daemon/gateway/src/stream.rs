//! Streams over websockets: logs, events, shells.
//!
//! A stream reads data from the cluster only as fast as its client reads the data, so a slow client delays only its own
//! stream. When the client, the source or the gateway ends a stream, the client gets a close code.

mod events;
mod logs;
mod query;
mod shell;
mod socket;
mod upgrade;

use super::App;
use super::auth::{AccessTarget, Scope, Services};
use super::rest::caller::{Caller, permit, unauthorized};
use super::rest::path::LeasePath;
use super::rest::reply::{self, RejectionReply, RestResult};
use super::statistics::StreamKind;
use akash_provider_core::types::{Address, LeaseId};
use axum::Extension;
use axum::extract::{Path, Request, State};
use http::StatusCode;
use query::Query;
use socket::StreamSocket;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) async fn logs(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
    request: Request,
) -> RestResult {
    let identity = caller.tenant()?;
    let lease = path.lease(&identity.owner, &app.status.info().address)?;
    let mut options = Query::from_request(&request).log_options()?;
    let services = permit(identity, Scope::Logs, AccessTarget::lease(&lease))?;
    options.services = allowed(services, options.services)?;
    let stream = (&app, StreamKind::Logs);
    open(
        stream,
        &caller,
        request,
        lease,
        move |app, socket, lease| async move {
            logs::run(&app, socket, &lease, options).await;
        },
    )
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
    request: Request,
) -> RestResult {
    let identity = caller.tenant()?;
    let lease = path.lease(&identity.owner, &app.status.info().address)?;
    let mut options = Query::from_request(&request).event_options()?;
    let services = permit(identity, Scope::Events, AccessTarget::lease(&lease))?;
    options.services = allowed(services, options.services)?;
    let stream = (&app, StreamKind::Events);
    open(
        stream,
        &caller,
        request,
        lease,
        move |app, socket, lease| async move {
            events::run(&app, socket, &lease, options).await;
        },
    )
}

pub(super) async fn shell(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
    request: Request,
) -> RestResult {
    let identity = caller.tenant()?;
    let lease = path.lease(&identity.owner, &app.status.info().address)?;
    let services = permit(identity, Scope::Shell, AccessTarget::lease(&lease))?;
    let command = Query::from_request(&request).shell()?;
    // Before the upgrade, while the response is still an HTTP status; afterwards there are only close codes.
    if !services.contains(&command.request.service) {
        return Err(unauthorized());
    }
    let token = identity.token_id.clone();
    let stream = (&app, StreamKind::Shell);
    open(
        stream,
        &caller,
        request,
        lease,
        move |app, socket, lease| async move {
            let service = &command.request.service;
            tracing::info!(%lease, service, token, "tenant requested to run a command in a container");
            shell::run(&app, socket, &lease, command).await;
        },
    )
}

/// Upgrades a request to a stream, unless the tenant has the maximum number of streams.
fn open<F>(
    (app, kind): (&Arc<App>, StreamKind),
    caller: &Caller,
    request: Request,
    lease: LeaseId,
    run: impl FnOnce(Arc<App>, Box<StreamSocket>, LeaseId) -> F + Send + 'static,
) -> RestResult
where
    F: Future<Output = ()> + Send + 'static,
{
    // Moved into the stream and released with it, also if the upgrade below is refused.
    let permit = stream_permit(app, &lease, kind)?;
    let validity = caller.validity(app);
    upgrade::upgrade(app, validity, request, move |app, socket| {
        let open = app.counters.open_stream(kind);
        let running = run(app, socket, lease);
        async move {
            running.await;
            drop((permit, open));
        }
    })
}

/// Parses the bytes of a client as websocket frames and shell messages.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz_frames(input: &[u8]) {
    shell::fuzz(input, &upgrade::config(64 * 1024));
}

/// Parses the query of a URL as the parameters of each kind of stream.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz_query(text: &str) {
    query::fuzz(text);
}

/// Returns the services of a stream; an empty list means all services. If `requested` is empty, returns the
/// permitted services. Fails if a requested service is not permitted.
fn allowed(services: Services, requested: Vec<String>) -> Result<Vec<String>, RejectionReply> {
    match services {
        Services::All => Ok(requested),
        // To the cluster, an empty list means all services.
        Services::Only(names) if requested.is_empty() => Ok(names.into_iter().collect()),
        Services::Only(names) if requested.iter().all(|a| names.contains(a)) => Ok(requested),
        Services::Only(_) => Err(unauthorized()),
    }
}

/// Number of open streams of each tenant.
#[derive(Debug, Default)]
pub(super) struct StreamPermits(Mutex<HashMap<Address, usize>>);

impl StreamPermits {
    fn lock(&self) -> MutexGuard<'_, HashMap<Address, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit for one open stream of a tenant. Dropping this value releases the permit.
struct StreamPermit {
    app: Arc<App>,
    owner: Address,
}

fn stream_permit(app: &Arc<App>, lease: &LeaseId, kind: StreamKind) -> Result<StreamPermit, RejectionReply> {
    let owner = lease.owner().clone();
    let mut taken = app.stream_permits.lock();
    let mine = taken.entry(owner.clone()).or_insert(0);
    if *mine >= app.limits.streams_per_tenant {
        app.counters.count_refused_stream(kind);
        let words = format!("{mine} streams are open already; close one first");
        return Err(reply::text(StatusCode::TOO_MANY_REQUESTS, words).into());
    }
    *mine += 1;
    let app = Arc::clone(app);
    Ok(StreamPermit { app, owner })
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self.app.stream_permits.lock();
        if let Some(mine) = taken.get_mut(&self.owner) {
            *mine -= 1;
            if *mine == 0 {
                taken.remove(&self.owner);
            }
        }
    }
}
