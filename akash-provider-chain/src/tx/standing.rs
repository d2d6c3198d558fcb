//! How the object of a message stands on the chain: was it done, could it be done?
//!
//! This answers where a code is missing: for a transaction of unknown outcome, and for a simulation that failed.

use akash_provider_core::chain::ChainQuery;
use akash_provider_core::error::Error;
use akash_provider_core::types::{
    BidId, BidState, BlockTime, Height, LeaseState, Msg, OrderState, Reclamation, TxError,
};

/// How it stands, as far as the chain's records tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// What the message wants is so.
    Done {
        /// Since when, where the record says it.
        height: Option<Height>,
    },
    /// It is not so, and nothing that can be seen speaks against it.
    NotDone,
    /// It is not so and cannot be: the chain would refuse.
    Impossible(TxError),
    /// The record does not tell.
    Unclear,
}

/// Looks.
///
/// # Errors
/// When nobody answers.
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
                // How much was paid out when is not recorded.
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
            // Absent is not revoked: the node may not know it yet.
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
            // After the lease: the time that its deadline is compared with must not be older.
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
