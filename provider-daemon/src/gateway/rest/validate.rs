//! Would a group get a bid, and for how much? Without a body nothing is here, as clients know it.

use super::answer::{self, Answer};
use super::{Caller, body};
use crate::gateway::App;
use crate::gateway::screening::{Screened, Unscreened, screen};
use akash_provider_core::types::{DecCoin, GroupSpec};
use axum::body::HttpBody;
use axum::extract::{Request, State};
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// A group of a deployment is some kilobytes.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The network's `ValidateGroupSpecResult`.
#[derive(Serialize)]
struct Validated<'a> {
    min_bid_price: &'a DecCoin,
}

pub(super) async fn group(State(app): State<Arc<App>>, request: Request) -> Answer {
    if request.body().is_end_stream() {
        return answer::not_found();
    }
    // Anybody may ask, but not under a name that is not his.
    if let Err(denial) = Caller::of(&app.auth, &request).await {
        return answer::denied(denial);
    }
    let bytes = match body::read(request.into_body(), BODY_BYTES_MAX, app.limits.body).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    let group: GroupSpec = match serde_json::from_slice(&bytes) {
        Ok(group) => group,
        Err(error) => return answer::text(StatusCode::BAD_REQUEST, format!("group spec: {error}")),
    };
    match screen(&app, group, &[]).await {
        Ok(Screened {
            price: Some(price), ..
        }) => answer::json(&Validated {
            min_bid_price: &price,
        }),
        Ok(Screened { reasons, .. }) => answer::text(StatusCode::UNPROCESSABLE_ENTITY, reasons.join("; ")),
        Err(Unscreened::NotOffered) => answer::not_found(),
        Err(Unscreened::Busy) => {
            answer::text(StatusCode::TOO_MANY_REQUESTS, "too many ask at once; try again")
        }
        Err(Unscreened::Away(words)) => answer::text(StatusCode::SERVICE_UNAVAILABLE, words),
    }
}
