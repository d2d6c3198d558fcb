//! State of the object that a message creates or changes. The state shows whether the message was executed,
//! or can be executed.
//!
//! The state replaces a missing error code: after a transaction with unknown outcome, and after a failed
//! simulation.

use akash_provider_core::chain::ChainQuery;
use akash_provider_core::error::Error;
use akash_provider_core::types::{
    BidId, BidState, BlockTime, Height, LeaseState, Msg, OrderState, Reclamation, TxError,
};

/// Whether a message was executed, according to the object that the message affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectState {
    /// The object shows that the message was executed.
    Done {
        /// Height at which the object changed. `None` if the object does not contain this height.
        height: Option<Height>,
    },
    /// The object shows that the message was not executed. The message can be sent again.
    NotDone,
    /// The message was not executed. The chain would now refuse the message for the contained reason.
    Impossible(TxError),
    /// The object does not show whether the message was executed.
    Unclear,
}

/// Returns whether the chain has executed `msg`, according to the affected object.
///
/// # Errors
/// Returns an error if a query fails.
pub(super) async fn object_state(chain: &dyn ChainQuery, msg: &Msg) -> Result<ObjectState, Error> {
    match msg {
        Msg::CreateBid { id, .. } => bid_state(chain, id).await,
        Msg::CloseBid { id, .. } => close_state(chain, id).await,
        Msg::StartReclaim { id, .. } => {
            let state = chain.lease(id).await?.value.map(|r| r.lease.state);
            Ok(match state {
                Some(LeaseState::Reclaiming) => ObjectState::Done { height: None },
                Some(LeaseState::Active) => ObjectState::NotDone,
                Some(LeaseState::Closed | LeaseState::InsufficientFunds) => {
                    ObjectState::Impossible(TxError::LeaseNotActive)
                }
                None => ObjectState::Unclear,
            })
        }
        Msg::WithdrawLease { id } => {
            let state = chain.lease(id).await?.value.map(|r| r.lease.state);
            Ok(match state {
                Some(state) if !state.is_live() => ObjectState::Impossible(TxError::LeaseNotActive),
                // The record does not contain the times of payouts.
                _ => ObjectState::Unclear,
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

fn done_if(done: bool) -> ObjectState {
    if done {
        ObjectState::Done { height: None }
    } else {
        ObjectState::NotDone
    }
}

async fn bid_state(chain: &dyn ChainQuery, id: &BidId) -> Result<ObjectState, Error> {
    if let Some(bid) = chain.bid(id).await?.value {
        return Ok(ObjectState::Done {
            height: Some(bid.created_at),
        });
    }
    Ok(match chain.order(&id.order).await?.map(|o| o.state) {
        Some(OrderState::Open) => ObjectState::NotDone,
        Some(OrderState::Active | OrderState::Closed) => ObjectState::Impossible(TxError::OrderNotOpen),
        None => ObjectState::Unclear,
    })
}

async fn close_state(chain: &dyn ChainQuery, id: &BidId) -> Result<ObjectState, Error> {
    let Some(bid) = chain.bid(id).await?.value else {
        return Ok(ObjectState::Unclear);
    };
    match bid.state {
        BidState::Closed => Ok(ObjectState::Done { height: None }),
        BidState::Lost => Ok(ObjectState::Impossible(TxError::UnknownBid)),
        BidState::Open => Ok(ObjectState::NotDone),
        BidState::Active => {
            let lease = chain.lease(id).await?.value.map(|r| r.lease);
            // Queried after the lease: the time must not be older than the lease.
            let now = chain.sync_info().await?.time;
            Ok(match lease.and_then(|l| l.reclamation) {
                Some(terms) => reclamation_state(&terms, now),
                None => ObjectState::NotDone,
            })
        }
    }
}

fn reclamation_state(terms: &Reclamation, now: BlockTime) -> ObjectState {
    match terms.deadline {
        None => ObjectState::Impossible(TxError::ReclaimNotStarted),
        Some(deadline) if now < deadline => ObjectState::Impossible(TxError::WindowNotElapsed),
        Some(_) => ObjectState::NotDone,
    }
}
