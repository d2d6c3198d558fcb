//! `BidScreening` on the wire.

use crate::gateway::App;
use crate::gateway::screening::{Unscreened, screen};
use akash_provider_chain::convert;
use akash_provider_chain::proto::akash::provider::v1::{BidScreeningRequest, BidScreeningResponse};
use tonic::Status;

pub(super) async fn answer(app: &App, asked: BidScreeningRequest) -> Result<BidScreeningResponse, Status> {
    let group = convert::group_spec(asked.group_spec)
        .map_err(|e| Status::invalid_argument(format!("group_spec: {e}")))?;
    let screened = screen(app, group, &asked.hostnames)
        .await
        .map_err(|why| match why {
            Unscreened::NotOffered => Status::unimplemented("BidScreening not implemented"),
            Unscreened::Busy => Status::resource_exhausted("too many ask at once; try again"),
            Unscreened::Away(words) => Status::unavailable(words),
        })?;
    Ok(BidScreeningResponse {
        passed: screened.reasons.is_empty(),
        reasons: screened.reasons,
        resource_offers: screened.offers.iter().map(convert::wire_offer).collect(),
        price: screened.price.as_ref().map(convert::wire_dec_coin),
    })
}
