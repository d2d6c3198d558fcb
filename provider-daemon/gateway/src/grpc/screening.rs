//! `BidScreening` on the wire.

use crate::App;
use crate::listen::Peer;
use crate::screening::{Unscreened, admit, screen};
use akash_provider_chain::convert;
use akash_provider_chain::proto::akash::provider::v1::{BidScreeningRequest, BidScreeningResponse};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

/// The answer, and the turn that is held until it is written.
pub(super) async fn answer(
    app: &App,
    peer: Option<&Peer>,
    asked: BidScreeningRequest,
) -> Result<(BidScreeningResponse, Option<OwnedSemaphorePermit>), Status> {
    // The budget is taken before the group is converted: that is work too, and a broken group must cost its sender.
    admit(app, peer).map_err(unscreened)?;
    let group = convert::group_spec(asked.group_spec)
        .map_err(|e| Status::invalid_argument(format!("group_spec: {e}")))?;
    let screened = screen(app, peer, group, &asked.hostnames).await;
    let screened = screened.map_err(unscreened)?;
    let response = BidScreeningResponse {
        passed: screened.reasons.is_empty(),
        reasons: screened.reasons,
        resource_offers: screened.offers.iter().map(convert::wire_offer).collect(),
        price: screened.price.as_ref().map(convert::wire_dec_coin),
    };
    Ok((response, screened.turn))
}

fn unscreened(why: Unscreened) -> Status {
    match why {
        Unscreened::NotOffered => Status::unimplemented("BidScreening not implemented"),
        Unscreened::Busy | Unscreened::TooMany => Status::resource_exhausted(why.message()),
        Unscreened::Away(words) => Status::unavailable(words),
    }
}
