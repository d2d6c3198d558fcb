//! Routes, as clients of the Go provider expect them, and their scopes.
//!
//! | route | scope | module |
//! |---|---|---|
//! | `GET /version`, `/address`, `/status` | none | `public` |
//! | `GET /healthz`, `/readyz`, `/openapi.json` | none | `public` |
//! | `GET /validate` with a deployment group as the body | none | `validate` |
//! | `PUT /deployment/{dseq}/manifest` | `send-manifest` | `manifest` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/manifest` | `get-manifest` | `lease` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/status` | `status` | `lease` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/service/{name}/status` | `status` | `lease` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/logs` | `logs` | `stream` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/kubeevents` | `events` | `stream` |
//! | `GET /lease/{dseq}/{gseq}/{oseq}/shell` | `shell` | `stream` |
//! | `POST /lease/{dseq}/{gseq}/{oseq}/attestation/quote` | `attestation` | `attestation` |
//! | `POST /hostname/migrate` | `hostname-migrate` | `migrate` |
//! | `POST /endpoint/migrate` | `ip-migrate` | `migrate` |
//!
//! Responses also contain fields that clients of the Go provider do not expect, such as `hostnames` of a service.

pub(super) mod attestation;
pub(super) mod body;
pub(super) mod caller;
mod lease;
mod manifest;
mod migrate;
pub(super) mod path;
mod public;
pub(super) mod reply;
pub(super) mod status;
pub(super) mod validate;

use super::listen::Peer;
use super::statistics::count_requests;
use super::{App, leadership, stream};
use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::routing::{MethodFilter, MethodRouter, any, get, on};
use caller::Caller;
use http::StatusCode;
use reply::RestReply;
use std::sync::Arc;

/// Check that runs before the handler of a route.
#[derive(Debug, Clone, Copy)]
enum Guard {
    /// No check. Used for liveness probes and for `/validate`; the handler of `/validate` has its own budget.
    Open,
    /// The request counts against the request budget of the client's IP network.
    Counted,
    /// The caller is identified only if the method is correct. A request with another method gets the same
    /// response as an unknown path.
    Identified,
    /// The caller is identified for every method. The handler refuses wrong methods.
    IdentifiedAnyMethod,
}

/// Route of the REST API. `openapi.json` describes each route.
#[derive(Debug)]
struct Route {
    guard: Guard,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the test that holds the routes against the document")
    )]
    method: MethodFilter,
    path: String,
    handler: MethodRouter<Arc<App>>,
}

impl Route {
    fn new<H, T>(guard: Guard, method: MethodFilter, path: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let handler = match guard {
            Guard::IdentifiedAnyMethod => any(handler),
            Guard::Open | Guard::Counted | Guard::Identified => on(method, handler),
        };
        let path = path.into();
        Self {
            guard,
            method,
            path,
            handler,
        }
    }
}

fn routes() -> [Route; 17] {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    let lease = |rest: &str| format!("/lease/{{dseq}}/{{gseq}}/{{oseq}}/{rest}");
    let service = lease("service/{service}/status");
    let mut validate = Route::new(Guard::Open, GET, "/validate", validate::group);
    // Other methods get 404 and not 405: without a body the route does not exist for any method.
    validate.handler = validate.handler.fallback(|| async { reply::not_found() });
    [
        Route::new(Guard::Identified, GET, "/version", public::version),
        Route::new(Guard::Identified, GET, "/address", public::address),
        Route::new(Guard::Identified, GET, "/status", public::status),
        Route::new(
            Guard::Identified,
            MethodFilter::PUT,
            "/deployment/{dseq}/manifest",
            manifest::send,
        ),
        Route::new(Guard::Identified, GET, lease("manifest"), lease::manifest),
        Route::new(Guard::Identified, GET, lease("status"), lease::status),
        Route::new(Guard::Identified, GET, service, lease::service_status),
        Route::new(Guard::Identified, GET, lease("logs"), stream::logs),
        Route::new(Guard::Identified, GET, lease("kubeevents"), stream::events),
        Route::new(Guard::IdentifiedAnyMethod, GET, lease("shell"), stream::shell),
        Route::new(
            Guard::Identified,
            POST,
            lease("attestation/quote"),
            attestation::quote,
        ),
        Route::new(Guard::Identified, POST, "/hostname/migrate", migrate::hostnames),
        Route::new(Guard::Identified, POST, "/endpoint/migrate", migrate::endpoints),
        // A monitor may share its address with other clients, and a refusal costs as much as the response.
        Route::new(Guard::Open, GET, "/healthz", public::healthy),
        Route::new(Guard::Open, GET, "/readyz", public::ready),
        Route::new(Guard::Counted, GET, "/openapi.json", public::openapi),
        validate,
    ]
}

/// Returns the routes, each with its [`Guard`]. Other paths return "not found" without authentication.
pub(super) fn router(app: &Arc<App>) -> Router {
    let identifying = middleware::from_fn_with_state(Arc::clone(app), identify);
    let counting = middleware::from_fn_with_state(Arc::clone(app), counted);
    let guarded = |route: Route| match route.guard {
        Guard::Open => route.handler,
        Guard::Counted => route.handler.route_layer(counting.clone()),
        Guard::Identified => route.handler.route_layer(identifying.clone()),
        Guard::IdentifiedAnyMethod => route.handler.layer(identifying.clone()),
    };
    let router = routes().into_iter().fold(Router::new(), |router, route| {
        let path = route.path.clone();
        router.route(&path, guarded(route))
    });
    router
        .fallback(|| async { reply::not_found() })
        .layer(middleware::from_fn_with_state(Arc::clone(app), count_requests))
        .with_state(Arc::clone(app))
}

pub(super) fn health_router(app: &Arc<App>) -> Router {
    Router::new()
        .route("/healthz", get(public::healthy))
        .route("/readyz", get(public::ready))
        .with_state(Arc::clone(app))
}

/// Identifies the caller before the body of the request is read.
async fn identify(State(app): State<Arc<App>>, mut request: Request, next: Next) -> RestReply {
    let from = Peer::ip(request.extensions().get());
    match Caller::from_request(&app, &request).await {
        // Only anonymous requests count: a tenant behind a shared address must not be slowed down by its neighbours.
        Ok(caller) if caller.is_anonymous() && !app.budgets.requests.take(from) => too_many(&app),
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            let reply = next.run(request).await;
            leadership::point(app.leadership.as_ref(), reply)
        }
        Err(denial) => reply::denied(denial),
    }
}

async fn counted(State(app): State<Arc<App>>, request: Request, next: Next) -> RestReply {
    if app.budgets.requests.take(Peer::ip(request.extensions().get())) {
        return next.run(request).await;
    }
    too_many(&app)
}

fn too_many(app: &App) -> RestReply {
    app.counters.count_over_budget();
    let words = "too many requests from this address; try again in a minute";
    reply::text(StatusCode::TOO_MANY_REQUESTS, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn openapi_describes_exactly_the_served_routes() {
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

    #[test]
    fn openapi_parameters_match_the_path() {
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
