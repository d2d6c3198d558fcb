//! Would a group get a bid? Judged as an order would be, and nothing is kept of it.
//!
//! ```text
//!  budget of the network ──► limits ──► a turn ──► facts of the chain ──► a copy of the ledger ──► price
//!    else 429                else no     else 429    kept for a moment     on a thread of its own    few at once
//! ```
//! Anybody may ask, so nobody is asked anything about a group that cannot be one, and a turn is held until the answer
//! is written.

mod facts;
mod limits;
mod words;

pub(in crate::gateway) use facts::Known;

use super::App;
use super::auth::LookupFault;
use super::listen::Peer;
use akash_provider_core::Config;
use akash_provider_core::bidding::{self, Facts};
use akash_provider_core::engine::hostnames::Hostnames;
use akash_provider_core::error::Error;
use akash_provider_core::pricing::{PRICE_PRECISION, PriceRequest, PricingStrategy};
use akash_provider_core::types::{
    AuditedAttributes, DecCoin, DeploymentId, GroupId, GroupSpec, Order, OrderId, OrderState, Provider,
    ResourceUnit,
};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use words::{short, summed};

/// Prices calculated at once for whoever asks: each may be a program that runs.
const PRICES_AT_ONCE: usize = 2;

/// What bids follow from.
#[derive(Debug, Clone)]
pub struct Screening {
    /// The provider's settings.
    pub config: Config,
    /// What a lease costs.
    pub pricing: Arc<dyn PricingStrategy>,
}

/// What there is for all screenings together.
#[derive(Debug)]
pub(super) struct Desk {
    turns: Arc<Semaphore>,
    prices: Semaphore,
    known: Known,
}

impl Desk {
    /// For so many screenings at once.
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_once)),
            prices: Semaphore::new(PRICES_AT_ONCE),
            known: Known::default(),
        }
    }
}

/// What an order of a group would come to.
pub(super) struct Screened {
    /// What speaks against a bid; nothing where there would be one.
    pub(super) reasons: Vec<String>,
    /// What the bid would offer.
    pub(super) offers: Vec<ResourceUnit>,
    /// What it would cost.
    pub(super) price: Option<DecCoin>,
    /// The turn; for the body of the answer.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

impl Screened {
    fn no(reasons: Vec<String>) -> Self {
        Self {
            reasons: reasons.iter().map(|r| short(r)).collect(),
            offers: Vec::new(),
            price: None,
            turn: None,
        }
    }
}

/// Why it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unscreened {
    /// Nobody is screened here.
    NotOffered,
    /// Others are being screened.
    Busy,
    /// The network of the caller has asked too often.
    TooMany,
    /// Somebody who must be asked does not answer.
    Away(&'static str),
}

impl Unscreened {
    /// What a caller is told.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::NotOffered => "nobody is screened here",
            Self::Busy => "too many ask at once; try again",
            Self::TooMany => "too many questions from this address; try again in a minute",
            Self::Away(words) => words,
        }
    }
}

impl From<LookupFault> for Unscreened {
    fn from(fault: LookupFault) -> Self {
        match fault {
            LookupFault::Outage => Self::Away("the chain cannot be asked; try again"),
            LookupFault::TooMany => Self::TooMany,
        }
    }
}

/// One question of a caller, before anything of it is read.
pub(super) fn admit(app: &App, peer: Option<&Peer>) -> Result<(), Unscreened> {
    if app.screening.is_none() {
        return Err(Unscreened::NotOffered);
    }
    let may = app.budgets.screenings.take(Peer::ip(peer));
    if may { Ok(()) } else { Err(Unscreened::TooMany) }
}

/// Judges a group and the hostnames that would go with it, for somebody who was admitted.
pub(super) async fn screen(
    app: &App,
    peer: Option<&Peer>,
    group: GroupSpec,
    hostnames: &[String],
) -> Result<Screened, Unscreened> {
    let screening = app.screening.as_ref().ok_or(Unscreened::NotOffered)?;
    if let Err(reason) = limits::check(&group, hostnames) {
        return Ok(Screened::no(vec![reason]));
    }
    let turn = Arc::clone(&app.desk.turns).try_acquire_owned();
    let turn = turn.map_err(|_| Unscreened::Busy)?;
    let group = Arc::new(group);
    let (mut reasons, offers) = judge(app, screening, peer, &group).await?;
    if !hostnames.is_empty() {
        reasons.extend(taken(app, screening, hostnames).await?);
    }
    let mut screened = Screened::no(reasons);
    if screened.reasons.is_empty() {
        match calculate(app, screening, &group).await? {
            Ok(price) => (screened.price, screened.offers) = (Some(price), offers),
            Err(reason) => screened.reasons.push(short(&reason)),
        }
    }
    screened.turn = Some(turn);
    Ok(screened)
}

fn unavailable(error: &Error) -> Unscreened {
    tracing::warn!("a group could not be screened: {error}");
    Unscreened::Away("the chain or the provider cannot be asked; try again")
}

/// What speaks against a bid but the price, and what it would offer.
async fn judge(
    app: &App,
    screening: &Screening,
    peer: Option<&Peer>,
    group: &Arc<GroupSpec>,
) -> Result<(Vec<String>, Vec<ResourceUnit>), Unscreened> {
    let us = &screening.config.provider;
    let no = |reason: String| Ok((vec![reason], Vec::new()));
    let record = app.desk.known.record(app, us).await?;
    let Some(provider) = &record.provider else {
        return no("the provider is not registered".to_owned());
    };
    // The chain takes deposits and prices in these.
    let denoms: Vec<&str> = record.params.bid_min_deposits.iter().map(|c| &*c.denom).collect();
    let priced_in = group.max_price().map(|p| p.denom).unwrap_or_default();
    if !denoms.contains(&&*priced_in) {
        let taken = denoms.join(" or ");
        return no(format!(
            "the group is priced in {priced_in}; the chain takes {taken}"
        ));
    }
    let mut audited: Vec<AuditedAttributes> = Vec::new();
    for auditor in bidding::auditors(group) {
        let audit = app.desk.known.audit(app, us, auditor, Peer::ip(peer)).await?;
        audited.extend(audit.map(|a| (*a).clone()));
    }
    let facts = Facts {
        attributes: &provider.attributes,
        audited: &audited,
        params: Some(&record.params),
    };
    if let Err(decline) = bidding::should_bid(&order(group, screening), &facts, &screening.config) {
        return no(decline.to_string());
    }
    let explained = app.handle.explain(group).await;
    let explained = explained.map_err(|e| unavailable(&e))?;
    let explained = explained.ok_or(Unscreened::Away("capacity is not known yet; try again"))?;
    if explained.fits {
        return Ok((Vec::new(), explained.offers));
    }
    Ok((summed(&explained), Vec::new()))
}

/// An order of nobody: what it is judged by is its group.
fn order(group: &Arc<GroupSpec>, screening: &Screening) -> Order {
    let deployment = DeploymentId {
        owner: screening.config.provider.clone(),
        dseq: 1,
    };
    Order {
        id: OrderId {
            group: GroupId { deployment, gseq: 1 },
            oseq: 1,
        },
        state: OrderState::Open,
        spec: Arc::clone(group),
        created_at: 1,
        reclamation_min_window: None,
    }
}

/// Hostnames that somebody has, or that nobody gets.
async fn taken(app: &App, screening: &Screening, names: &[String]) -> Result<Vec<String>, Unscreened> {
    let shown = app.status.get().await;
    let held = &shown.status.hostnames;
    let mut blocked = Hostnames::new(&screening.config.blocked_hostnames);
    let record = app.desk.known.record(app, &screening.config.provider).await?;
    if let Some(host) = record.provider.as_ref().and_then(Provider::host) {
        blocked.set_own(host);
    }
    let names = names.iter().map(|n| n.to_ascii_lowercase());
    let taken = names.filter(|n| held.contains_key(n) || blocked.is_blocked(n));
    Ok(taken.map(|n| format!("hostname not allowed: {n:?}")).collect())
}

/// The price, or why there is none. Those who ask wait for each other here, and never for the provider's own bids.
async fn calculate(
    app: &App,
    screening: &Screening,
    group: &Arc<GroupSpec>,
) -> Result<Result<DecCoin, String>, Unscreened> {
    let limit = screening.config.pricing_timeout;
    // Never closed, so only time can run out.
    let Ok(Ok(_one_of_few)) = timeout(limit, app.desk.prices.acquire()).await else {
        return Err(Unscreened::Busy);
    };
    let request = PriceRequest {
        owner: screening.config.provider.clone(),
        group: Arc::clone(group),
        allocated: None,
        precision: PRICE_PRECISION,
    };
    let asking = screening.pricing.calculate_price(&request);
    let price = match timeout(limit, asking).await {
        Ok(Ok(price)) => price,
        Ok(Err(error)) => return Ok(Err(error.to_string())),
        Err(_) => return Ok(Err(format!("no price within {limit:?}"))),
    };
    let Some(maximum) = group.max_price() else {
        return Ok(Err("its units have no common price".to_owned()));
    };
    let checked = bidding::check_price(&price, &maximum).map_err(|d| d.to_string());
    Ok(checked.map(|()| price))
}
