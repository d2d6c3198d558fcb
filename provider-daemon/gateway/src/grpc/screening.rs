//! `BidScreening` method.

use crate::App;
use crate::listen::Peer;
use crate::screening::{ScreeningError, admit, screen};
use akash_provider_chain::convert;
use akash_provider_chain::proto::akash::provider::v1::{BidScreeningRequest, BidScreeningResponse};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

/// Screens the group of a request. The caller holds the returned permit until the response is written.
pub(super) async fn respond(
    app: &App,
    peer: Option<&Peer>,
    asked: BidScreeningRequest,
) -> Result<(BidScreeningResponse, Option<OwnedSemaphorePermit>), Status> {
    // The budget is used before the conversion, because even an invalid group costs work.
    admit(app, peer).map_err(error_status)?;
    let group = convert::group_spec(asked.group_spec)
        .map_err(|e| Status::invalid_argument(format!("group_spec: {e}")))?;
    let screened = screen(app, peer, group, &asked.hostnames).await;
    let screened = screened.map_err(error_status)?;
    let response = BidScreeningResponse {
        passed: screened.reasons.is_empty(),
        reasons: screened.reasons,
        resource_offers: screened.offers.iter().map(convert::wire_offer).collect(),
        price: screened.price.as_ref().map(convert::wire_dec_coin),
    };
    Ok((response, screened.permit))
}

fn error_status(why: ScreeningError) -> Status {
    match why {
        ScreeningError::NotOffered => Status::unimplemented("BidScreening not implemented"),
        ScreeningError::Busy | ScreeningError::TooMany => Status::resource_exhausted(why.message()),
        ScreeningError::Unavailable(words) => Status::unavailable(words),
    }
}
