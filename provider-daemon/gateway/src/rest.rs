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
use super::{App, leadership, stream};
use answer::Answer;
use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::routing::{MethodFilter, MethodRouter, any, get, on};
use http::StatusCode;
use std::sync::Arc;

/// A refusal on its way out.
pub(super) type Refused = Box<Answer>;

/// What happens before a route's handler is called.
#[derive(Debug, Clone, Copy)]
enum Door {
    /// Nothing: liveness checks, and `/validate`, which takes from a budget of its own.
    Open,
    /// The request is counted.
    Counted,
    /// It is found out who asks. With the wrong method, as on unknown paths, nobody is asked who he is.
    Asked,
    /// It is found out who asks, whatever the method; the handler refuses the wrong ones.
    AskedFirst,
}

/// A route; `openapi.json` describes each of them.
#[derive(Debug)]
struct Route {
    door: Door,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the test that holds the routes against the document")
    )]
    method: MethodFilter,
    path: String,
    answers: MethodRouter<Arc<App>>,
}

impl Route {
    fn new<H, T>(door: Door, method: MethodFilter, path: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let answers = match door {
            Door::AskedFirst => any(handler),
            Door::Open | Door::Counted | Door::Asked => on(method, handler),
        };
        let path = path.into();
        Self {
            door,
            method,
            path,
            answers,
        }
    }
}

fn routes() -> [Route; 16] {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    let lease = |rest: &str| format!("/lease/{{dseq}}/{{gseq}}/{{oseq}}/{rest}");
    let service = lease("service/{service}/status");
    let mut validate = Route::new(Door::Open, GET, "/validate", validate::group);
    // Other methods get 404 and not 405: without a body nothing is here, whichever the method is.
    validate.answers = validate.answers.fallback(|| async { answer::not_found() });
    [
        Route::new(Door::Asked, GET, "/version", public::version),
        Route::new(Door::Asked, GET, "/address", public::address),
        Route::new(Door::Asked, GET, "/status", public::status),
        Route::new(
            Door::Asked,
            MethodFilter::PUT,
            "/deployment/{dseq}/manifest",
            manifest::send,
        ),
        Route::new(Door::Asked, GET, lease("manifest"), lease::manifest),
        Route::new(Door::Asked, GET, lease("status"), lease::status),
        Route::new(Door::Asked, GET, service, lease::service_status),
        Route::new(Door::Asked, GET, lease("logs"), stream::logs),
        Route::new(Door::Asked, GET, lease("kubeevents"), stream::events),
        Route::new(Door::AskedFirst, GET, lease("shell"), stream::shell),
        Route::new(Door::Asked, POST, "/hostname/migrate", migrate::hostnames),
        Route::new(Door::Asked, POST, "/endpoint/migrate", migrate::endpoints),
        // Who watches over the process may share an address with strangers, and refusing costs as much as answering.
        Route::new(Door::Open, GET, "/healthz", public::healthy),
        Route::new(Door::Open, GET, "/readyz", public::ready),
        Route::new(Door::Counted, GET, "/openapi.json", public::openapi),
        validate,
    ]
}

/// The routes with their doors, and "not found" for everything else, which asks nobody who he is.
pub(super) fn router(app: &Arc<App>) -> Router {
    let asking = middleware::from_fn_with_state(Arc::clone(app), identify);
    let counting = middleware::from_fn_with_state(Arc::clone(app), counted);
    let opened = |route: Route| match route.door {
        Door::Open => route.answers,
        Door::Counted => route.answers.route_layer(counting.clone()),
        Door::Asked => route.answers.route_layer(asking.clone()),
        Door::AskedFirst => route.answers.layer(asking.clone()),
    };
    let router = routes().into_iter().fold(Router::new(), |router, route| {
        let path = route.path.clone();
        router.route(&path, opened(route))
    });
    router
        .fallback(|| async { answer::not_found() })
        .with_state(Arc::clone(app))
}

/// The routes of probes.
pub(super) fn health_router(app: &Arc<App>) -> Router {
    Router::new()
        .route("/healthz", get(public::healthy))
        .route("/readyz", get(public::ready))
        .with_state(Arc::clone(app))
}

/// Finds out who asks, before anything else is looked at.
async fn identify(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Answer {
    let from = Peer::ip(request.extensions().get());
    match Caller::of(&app, &request).await {
        // Only requests of nobody count: a tenant behind a shared address must not be slowed down by its neighbours.
        Ok(caller) if caller.is_nobody() && !app.budgets.requests.take(from) => too_many(),
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            let answer = next.run(request).await;
            leadership::point(app.leadership.as_ref(), answer)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A route that is not described is not found by programs, and one that is described and not there is a lie.
    #[test]
    fn the_document_describes_the_routes_and_no_others() {
        let method = |filter: MethodFilter| match filter {
            MethodFilter::GET => "get",
            MethodFilter::POST => "post",
            MethodFilter::PUT => "put",
            other => panic!("{other:?} is new here"),
        };
        let served: BTreeSet<(String, String)> = routes()
            .into_iter()
            .map(|route| (route.path, method(route.method).to_owned()))
            .collect();
        let document: serde_json::Value = serde_json::from_str(public::OPENAPI).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                assert!(operation["operationId"].is_string(), "{path}");
                described.insert((path.clone(), method.clone()));
            }
        }
        assert_eq!(described, served);
    }

    /// A path has the parameters that it names.
    #[test]
    fn the_parameters_of_a_described_path_are_those_in_it() {
        let document: serde_json::Value = serde_json::from_str(public::OPENAPI).unwrap();
        for (path, methods) in document["paths"].as_object().unwrap() {
            let named: BTreeSet<&str> = path
                .split('/')
                .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
                .collect();
            for operation in methods.as_object().unwrap().values() {
                let given = operation["parameters"].as_array().unwrap().iter();
                let in_path = given.filter(|parameter| parameter["in"] == "path");
                let given: BTreeSet<&str> = in_path.map(|p| p["name"].as_str().unwrap()).collect();
                assert_eq!(given, named, "{path}");
            }
        }
    }
}
