//! The routes, as today's clients know them, and who may use them.
//!
//! | route | scope | room |
//! |---|---|---|
//! | `GET /version`, `/address`, `/status` | none | `public` |
//! | `GET /healthz`, `/readyz`, `/openapi.json` | none | `public` |
//! | `GET /validate` with a group | none | `validate` |
//! | `PUT /deployment/{dseq}/manifest` | `send-manifest` | `manifest` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/manifest` | `get-manifest` | `lease` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/status` | `status` | `lease` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/service/{name}/status` | `status` | `lease` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/logs` | `logs` | `stream` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/kubeevents` | `events` | `stream` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/shell` | `shell` | `stream` |
//! | `POST /hostname/migrate` | `hostname-migrate` | `migrate` |
//! | `POST /endpoint/migrate` | `ip-migrate` | `migrate` |
//!
//! Whatever is shown must be right even where nothing need be shown.

pub(super) mod answer;
pub(super) mod body;
mod caller;
mod lease;
mod manifest;
mod migrate;
mod path;
mod public;
pub(super) mod status;
mod validate;

pub(super) use caller::{Caller, permit, unauthorized};
pub(super) use path::{LeasePath, bad_number};

use super::listen::Peer;
use super::{App, stream};
use answer::Answer;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::routing::{MethodRouter, any, get, post, put};
use http::StatusCode;
use std::sync::Arc;

/// A refusal on its way out.
pub(super) type Refused = Box<Answer>;

/// All routes.
pub(super) fn router(app: &Arc<App>) -> Router {
    let lease = |rest: &str| format!("/lease/{{dseq}}/{{gseq}}/{{oseq}}/{rest}");
    // With the wrong method, as on unknown paths, nobody is asked who he is.
    let asking = middleware::from_fn_with_state(Arc::clone(app), identify);
    let asked = |method: MethodRouter<Arc<App>>| method.route_layer(asking.clone());
    let counting = middleware::from_fn_with_state(Arc::clone(app), counted);
    Router::new()
        .route("/version", asked(get(public::version)))
        .route("/address", asked(get(public::address)))
        .route("/status", asked(get(public::status)))
        .route("/deployment/{dseq}/manifest", asked(put(manifest::send)))
        .route(&lease("manifest"), asked(get(lease::manifest)))
        .route(&lease("status"), asked(get(lease::status)))
        .route(
            &lease("service/{service}/status"),
            asked(get(lease::service_status)),
        )
        .route(&lease("logs"), asked(get(stream::logs)))
        .route(&lease("kubeevents"), asked(get(stream::events)))
        .route(&lease("shell"), any(stream::shell).layer(asking.clone()))
        .route("/hostname/migrate", asked(post(migrate::hostnames)))
        .route("/endpoint/migrate", asked(post(migrate::endpoints)))
        // Who watches over the process may share an address with strangers, and refusing costs as much as answering.
        .route("/healthz", get(public::healthy))
        .route("/readyz", get(public::ready))
        .route("/openapi.json", get(public::openapi).route_layer(counting))
        .route(
            "/validate",
            get(validate::group).fallback(|| async { answer::not_found() }),
        )
        .fallback(|| async { answer::not_found() })
        .with_state(Arc::clone(app))
}

/// Finds out who asks, before anything else is looked at.
async fn identify(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Answer {
    let from = Peer::ip(request.extensions().get());
    match Caller::of(&app.auth, &request).await {
        Ok(caller) if caller.is_nobody() && !app.budgets.requests.take(from) => too_many(),
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(denial) => answer::denied(denial),
    }
}

/// For anybody, and each network has so much of it.
async fn counted(State(app): State<Arc<App>>, request: Request, next: Next) -> Answer {
    if app.budgets.requests.take(Peer::ip(request.extensions().get())) {
        return next.run(request).await;
    }
    too_many()
}

fn too_many() -> Answer {
    let words = "too many requests from this address; try again in a minute";
    answer::text(StatusCode::TOO_MANY_REQUESTS, words)
}
