//! Would a group get a bid, and for how much? Without a body nothing is here, as clients know it.

use super::answer::{self, Answer};
use super::{Caller, body};
use crate::App;
use crate::listen::Peer;
use crate::screening::{Screened, Unscreened, admit, screen};
use crate::wire::Held;
use akash_provider_core::types::{DecCoin, GroupSpec};
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// A group of a deployment is some kilobytes.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The network's `ValidateGroupSpecResult`: the price that a bid would have.
#[derive(Serialize)]
struct Validated<'a> {
    min_bid_price: &'a DecCoin,
}

pub(super) async fn group(State(app): State<Arc<App>>, request: Request) -> Answer {
    if request.body().is_end_stream() {
        return answer::not_found();
    }
    // Anybody may ask, but not under a name that is not his.
    if let Err(denial) = Caller::of(&app, &request).await {
        return answer::denied(denial);
    }
    let peer = request.extensions().get::<Peer>().cloned();
    // Admitted before the body is read, so that the budget also limits how much is read.
    if let Err(why) = admit(&app, peer.as_ref()) {
        return unscreened(why);
    }
    let bytes = match body::read(request.into_body(), BODY_BYTES_MAX, app.limits.body).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    let group: GroupSpec = match serde_json::from_slice(&bytes) {
        Ok(group) => group,
        Err(error) => return answer::text(StatusCode::BAD_REQUEST, format!("group spec: {error}")),
    };
    match screen(&app, peer.as_ref(), group, &[]).await {
        Ok(screened) => {
            let (answer, turn) = told(screened);
            let unwritten = peer.map(|p| p.unwritten).unwrap_or_default();
            answer.map(|body| Body::new(Held::new(body, turn, unwritten)))
        }
        Err(why) => unscreened(why),
    }
}

fn told(screened: Screened) -> (Answer, Option<OwnedSemaphorePermit>) {
    let answer = match &screened.price {
        Some(min_bid_price) => answer::json(&Validated { min_bid_price }),
        None => answer::text(StatusCode::UNPROCESSABLE_ENTITY, screened.reasons.join("; ")),
    };
    (answer, screened.turn)
}

fn unscreened(why: Unscreened) -> Answer {
    let status = match why {
        Unscreened::NotOffered => return answer::not_found(),
        Unscreened::Busy | Unscreened::TooMany => StatusCode::TOO_MANY_REQUESTS,
        Unscreened::Away(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    answer::text(status, why.message())
}
