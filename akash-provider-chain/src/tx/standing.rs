//! State of the object that a message changes: whether the message has been executed, or could be.
//!
//! Replaces a missing error code: for a transaction with unknown outcome, and for a failed simulation.

use akash_provider_core::chain::ChainQuery;
use akash_provider_core::error::Error;
use akash_provider_core::types::{
    BidId, BidState, BlockTime, Height, LeaseState, Msg, OrderState, Reclamation, TxError,
};

/// State of the object, according to the records of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The effect of the message is present.
    Done {
        /// Height of the change, if the record contains it.
        height: Option<Height>,
    },
    /// The effect is not present, and the message would probably succeed.
    NotDone,
    /// The effect is not present, and the chain would refuse the message.
    Impossible(TxError),
    /// The record is inconclusive.
    Unclear,
}

/// Returns the state of the object of `msg`.
///
/// # Errors
/// Returns an error if a query fails.
pub(super) async fn standing(chain: &dyn ChainQuery, msg: &Msg) -> Result<Standing, Error> {
    match msg {
        Msg::CreateBid { id, .. } => of_bid(chain, id).await,
        Msg::CloseBid { id, .. } => of_close(chain, id).await,
        Msg::StartReclaim { id, .. } => {
            let state = chain.lease(id).await?.value.map(|r| r.lease.state);
            Ok(match state {
                Some(LeaseState::Reclaiming) => Standing::Done { height: None },
                Some(LeaseState::Active) => Standing::NotDone,
                Some(LeaseState::Closed | LeaseState::InsufficientFunds) => {
                    Standing::Impossible(TxError::LeaseNotActive)
                }
                None => Standing::Unclear,
            })
        }
        Msg::WithdrawLease { id } => {
            let state = chain.lease(id).await?.value.map(|r| r.lease.state);
            Ok(match state {
                Some(state) if !state.is_live() => Standing::Impossible(TxError::LeaseNotActive),
                // The record does not contain the times of payouts.
                _ => Standing::Unclear,
            })
        }
        Msg::CreateProvider(record) | Msg::UpdateProvider(record) => {
            let found = chain.provider(&record.owner).await?;
            Ok(done_if(found.as_ref() == Some(record)))
        }
        Msg::CreateCertificate { owner, cert, .. } => {
            let all = chain.certificates(owner, None).await?;
            Ok(done_if(all.iter().any(|c| c.cert == *cert)))
        }
        Msg::RevokeCertificate { owner, serial } => {
            let found = chain.certificates(owner, Some(serial)).await?;
            // An absent certificate is not revoked: the node may lag behind the publication.
            Ok(done_if(!found.is_empty() && found.iter().all(|c| !c.valid)))
        }
    }
}

fn done_if(done: bool) -> Standing {
    if done {
        Standing::Done { height: None }
    } else {
        Standing::NotDone
    }
}

async fn of_bid(chain: &dyn ChainQuery, id: &BidId) -> Result<Standing, Error> {
    if let Some(bid) = chain.bid(id).await?.value {
        return Ok(Standing::Done {
            height: Some(bid.created_at),
        });
    }
    Ok(match chain.order(&id.order).await?.map(|o| o.state) {
        Some(OrderState::Open) => Standing::NotDone,
        Some(OrderState::Active | OrderState::Closed) => Standing::Impossible(TxError::OrderNotOpen),
        None => Standing::Unclear,
    })
}

async fn of_close(chain: &dyn ChainQuery, id: &BidId) -> Result<Standing, Error> {
    let Some(bid) = chain.bid(id).await?.value else {
        return Ok(Standing::Unclear);
    };
    match bid.state {
        BidState::Closed => Ok(Standing::Done { height: None }),
        BidState::Lost => Ok(Standing::Impossible(TxError::UnknownBid)),
        BidState::Open => Ok(Standing::NotDone),
        BidState::Active => {
            let lease = chain.lease(id).await?.value.map(|r| r.lease);
            // Queried after the lease: the time must not be older than the lease.
            let now = chain.sync_info().await?.time;
            Ok(match lease.and_then(|l| l.reclamation) {
                Some(terms) => of_reclamation(&terms, now),
                None => Standing::NotDone,
            })
        }
    }
}

fn of_reclamation(terms: &Reclamation, now: BlockTime) -> Standing {
    match terms.deadline {
        None => Standing::Impossible(TxError::ReclaimNotStarted),
        Some(deadline) if now < deadline => Standing::Impossible(TxError::WindowNotElapsed),
        Some(_) => Standing::NotDone,
    }
}
