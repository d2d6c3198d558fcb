//! Bid screening over REST (`GET /validate`). A request without a body gets 404, as from the Go provider.

use super::body;
use super::caller::Caller;
use super::reply::{self, RestReply, RestResult};
use crate::App;
use crate::listen::Peer;
use crate::screening::{ScreeningError, ScreeningResult, admit, screen};
use crate::wire::PermitBody;
use akash_provider_core::inventory::IgnoredResource;
use akash_provider_core::types::{DecCoin, DeclineCode, GroupSpec};
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use http::StatusCode;
use http::header::ACCEPT;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Media type of a decline as JSON, with a code and the resources that are not offered. Without this media
/// type in the request, a decline is plain text.
pub const DECLINE_JSON: &str = "application/vnd.provider-daemon.decline+json";

/// Maximum size of a request body, in bytes.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// Response of `/validate`: the price that the provider would bid. The Go type is `ValidateGroupSpecResult`.
#[derive(Serialize)]
struct Validated<'a> {
    min_bid_price: &'a DecCoin,
}

/// Response body for a decline, if the client accepts [`DECLINE_JSON`].
#[derive(Serialize)]
struct Declined<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<DeclineCode>,
    /// Reasons for the decline. A plain text response contains the same reasons.
    reasons: &'a [String],
    ignored: &'a [IgnoredResource],
}

pub(super) async fn group(State(app): State<Arc<App>>, request: Request) -> RestResult {
    if request.body().is_end_stream() {
        return Ok(reply::not_found());
    }
    // No authentication required, but invalid credentials are refused.
    let caller = Caller::from_request(&app, &request).await;
    caller.map_err(reply::denied)?;
    let is_detailed = request
        .headers()
        .get(ACCEPT)
        .is_some_and(|accept| accept == DECLINE_JSON);
    let peer = request.extensions().get::<Peer>().cloned();
    // Admitted before the body is read, so that the budget also limits how much is read.
    admit(&app, peer.as_ref()).map_err(error_reply)?;
    let bytes = body::read(request.into_body(), BODY_BYTES_MAX, app.limits.body).await?;
    let invalid = |error| reply::text(StatusCode::BAD_REQUEST, format!("group spec: {error}"));
    let group: GroupSpec = serde_json::from_slice(&bytes).map_err(invalid)?;
    let screened = screen(&app, peer.as_ref(), group, &[])
        .await
        .map_err(error_reply)?;
    let (reply, permit) = respond(screened, is_detailed);
    let pending_writes = peer.map(|p| p.pending_writes).unwrap_or_default();
    Ok(reply.map(|body| Body::new(PermitBody::new(body, permit, pending_writes))))
}

fn respond(screened: ScreeningResult, is_detailed: bool) -> (RestReply, Option<OwnedSemaphorePermit>) {
    let reply = match &screened.price {
        Some(min_bid_price) => reply::json(&Validated { min_bid_price }),
        None if is_detailed => {
            let mut reply = reply::json(&Declined {
                code: screened.code,
                reasons: &screened.reasons,
                ignored: &screened.ignored,
            });
            *reply.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            reply
        }
        None => reply::text(StatusCode::UNPROCESSABLE_ENTITY, screened.reasons.join("; ")),
    };
    (reply, screened.permit)
}

fn error_reply(why: ScreeningError) -> RestReply {
    let status = match why {
        ScreeningError::NotOffered => return reply::not_found(),
        ScreeningError::Busy | ScreeningError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        ScreeningError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    reply::text(status, why.message())
}
