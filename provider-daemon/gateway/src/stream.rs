//! Streams over websockets: logs, events, shells.
//!
//! A stream reads from the cluster as fast as its client takes it, so a slow client slows its own stream alone.
//! It ends with the client, with what it shows, or with the gateway; and says how.

mod events;
mod logs;
mod query;
mod shell;
mod socket;
mod upgrade;

use super::App;
use super::auth::{Scope, Services, Target};
use super::rest::answer::{self, Answer};
use super::rest::{Caller, LeasePath, Refused, permit, unauthorized};
use akash_provider_core::types::{Address, LeaseId};
use axum::Extension;
use axum::extract::{Path, Request, State};
use http::StatusCode;
use query::Query;
use socket::Socket;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) async fn logs(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
    request: Request,
) -> Answer {
    answered(open_logs(&app, &caller, &path, request))
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
    request: Request,
) -> Answer {
    answered(open_events(&app, &caller, &path, request))
}

pub(super) async fn shell(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
    request: Request,
) -> Answer {
    answered(open_shell(&app, &caller, &path, request))
}

fn answered(answer: Result<Answer, Refused>) -> Answer {
    answer.unwrap_or_else(|refused| *refused)
}

fn open_logs(app: &Arc<App>, caller: &Caller, path: &LeasePath, request: Request) -> Result<Answer, Refused> {
    let identity = caller.tenant()?;
    let lease = path.lease(&identity.owner, &app.status.about().address)?;
    let query = Query::of(&request);
    let mut options = query.log_options()?;
    let services = permit(identity, Scope::Logs, Target::lease(&lease))?;
    options.services = allowed(services, options.services)?;
    open(
        app,
        caller,
        request,
        lease,
        move |app, socket, lease| async move {
            logs::run(&app, socket, &lease, options).await;
        },
    )
}

fn open_events(
    app: &Arc<App>,
    caller: &Caller,
    path: &LeasePath,
    request: Request,
) -> Result<Answer, Refused> {
    let identity = caller.tenant()?;
    let lease = path.lease(&identity.owner, &app.status.about().address)?;
    let query = Query::of(&request);
    let mut options = query.event_options()?;
    let services = permit(identity, Scope::Events, Target::lease(&lease))?;
    options.services = allowed(services, options.services)?;
    open(
        app,
        caller,
        request,
        lease,
        move |app, socket, lease| async move {
            events::run(&app, socket, &lease, options).await;
        },
    )
}

fn open_shell(
    app: &Arc<App>,
    caller: &Caller,
    path: &LeasePath,
    request: Request,
) -> Result<Answer, Refused> {
    let identity = caller.tenant()?;
    let lease = path.lease(&identity.owner, &app.status.about().address)?;
    let services = permit(identity, Scope::Shell, Target::lease(&lease))?;
    let asked = Query::of(&request).shell()?;
    // Before the upgrade, while an HTTP status can still be told; afterwards there are close codes only.
    if !services.contains(&asked.request.service) {
        return Err(unauthorized());
    }
    let token = identity.token_id.clone();
    open(
        app,
        caller,
        request,
        lease,
        move |app, socket, lease| async move {
            let service = &asked.request.service;
            tracing::info!(%lease, service, token, "a command is run");
            shell::run(&app, socket, &lease, asked).await;
        },
    )
}

/// Opens a stream of a lease's tenant, who may have so many at once.
fn open<F>(
    app: &Arc<App>,
    caller: &Caller,
    request: Request,
    lease: LeaseId,
    run: impl FnOnce(Arc<App>, Box<Socket>, LeaseId) -> F + Send + 'static,
) -> Result<Answer, Refused>
where
    F: Future<Output = ()> + Send + 'static,
{
    // Moved into the stream and given back with it, also where the upgrade below is refused.
    let permit = stream_permit(app, &lease)?;
    let validity = caller.validity(app);
    upgrade::upgrade(app, validity, request, move |app, socket| {
        let running = run(app, socket, lease);
        async move {
            running.await;
            drop(permit);
        }
    })
}

/// Reads the bytes of a client as the server's end of a websocket, and each message as a shell's.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz_frames(input: &[u8]) {
    shell::fuzz(input, &upgrade::config(64 * 1024));
}

/// Reads a query as that of each stream.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz_query(text: &str) {
    query::fuzz(text);
}

/// The services to show: those asked for, all of which must be allowed; all that are allowed where none is named.
fn allowed(services: Services, asked: Vec<String>) -> Result<Vec<String>, Refused> {
    match services {
        Services::All => Ok(asked),
        // Passed on empty, the cluster would show all services.
        Services::Only(names) if asked.is_empty() => Ok(names.into_iter().collect()),
        Services::Only(names) if asked.iter().all(|a| names.contains(a)) => Ok(asked),
        Services::Only(_) => Err(unauthorized()),
    }
}

/// Streams of each tenant.
#[derive(Debug, Default)]
pub(super) struct StreamPermits(Mutex<HashMap<Address, usize>>);

/// One stream of a tenant; given back when it is dropped.
struct StreamPermit {
    app: Arc<App>,
    owner: Address,
}

fn stream_permit(app: &Arc<App>, lease: &LeaseId) -> Result<StreamPermit, Refused> {
    let owner = lease.owner().clone();
    let mut taken = app
        .stream_permits
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let mine = taken.entry(owner.clone()).or_insert(0);
    if *mine >= app.limits.streams_per_tenant {
        let words = format!("{mine} streams are open already; close one first");
        return Err(Box::new(answer::text(StatusCode::TOO_MANY_REQUESTS, words)));
    }
    *mine += 1;
    let app = Arc::clone(app);
    Ok(StreamPermit { app, owner })
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self
            .app
            .stream_permits
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = taken.get_mut(&self.owner) {
            *mine -= 1;
            if *mine == 0 {
                taken.remove(&self.owner);
            }
        }
    }
}
