//! Would a group get a bid? Judged as an order would be, and nothing is kept of it.
//!
//! ```text
//!  budget of the network ──► limits ──► a turn ──► facts of the chain ──► bidding::consider ──► Offer::asked
//!    else 429                else no     else 429    kept for a moment     a copy of the ledger,   few at once
//!                                                                          a thread of its own
//! ```
//! Anybody may ask, so nobody is asked anything about a group that cannot be one, and a turn is held until the answer
//! is written.

mod facts;
mod limits;
mod words;

pub(crate) use facts::Known;

use super::App;
use super::auth::LookupFault;
use super::listen::Peer;
use akash_provider_core::Config;
use akash_provider_core::bidding::{self, Decline, Facts, Offer};
use akash_provider_core::engine::hostnames::HostnameLedger;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::covering;
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::types::{
    AuditedAttributes, DecCoin, DeploymentId, GroupId, GroupSpec, Order, OrderId, OrderState, ProviderRecord,
    ResourceUnit,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use words::{short, summed};

/// Prices calculated at once for whoever asks: each may be a program that runs.
const PRICES_AT_ONCE: usize = 2;

/// What bids follow from.
#[derive(Debug, Clone)]
pub struct Screening {
    /// The settings that real bids are made with, or the answer here would be another than the bid.
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

    fn yes(offer: Offer) -> Self {
        Self {
            offers: offer.units.to_vec(),
            price: Some(offer.price),
            ..Self::no(Vec::new())
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
    // Cheap checks come before a turn is taken: a broken group never keeps another waiting.
    if let Err(reason) = limits::check(&group, hostnames) {
        return Ok(Screened::no(vec![reason]));
    }
    // Never waited for: a queue of strangers would only grow, and each holds its request in memory.
    let turn = Arc::clone(&app.desk.turns).try_acquire_owned();
    let turn = turn.map_err(|_| Unscreened::Busy)?;
    let judged = judge(app, screening, peer, group).await?;
    let taken = taken(app, screening, hostnames).await?;
    let mut screened = match judged {
        // A price may be a program that runs, so it is asked for only where everything else is right.
        Ok(request) if taken.is_empty() => match price(app, screening, &request).await? {
            Ok(offer) => Screened::yes(offer),
            Err(decline) => Screened::no(vec![public_reason(&decline)]),
        },
        Ok(_) => Screened::no(taken),
        Err(reasons) => Screened::no([reasons, taken].concat()),
    };
    screened.turn = Some(turn);
    Ok(screened)
}

/// Returns the text of a decline for any caller. The text of a price error has the path of the operator's script and
/// its standard error, so that one goes to the log alone.
fn public_reason(decline: &Decline) -> String {
    let Decline::Price { message } = decline else {
        return decline.to_string();
    };
    tracing::warn!(error = message.as_str(), "price calculation failed");
    "the provider could not calculate a price".to_owned()
}

fn unavailable(error: &Error) -> Unscreened {
    tracing::warn!("a group could not be screened: {error}");
    Unscreened::Away("the chain or the provider cannot be asked; try again")
}

/// What to ask for a price, or what speaks against a bid before that.
async fn judge(
    app: &App,
    screening: &Screening,
    peer: Option<&Peer>,
    group: GroupSpec,
) -> Result<Result<PriceRequest, Vec<String>>, Unscreened> {
    let us = &screening.config.provider;
    let record = app.desk.known.record(app, us).await?;
    // The chain takes deposits and prices in these.
    let denoms: Vec<&str> = record.params.bid_min_deposits.iter().map(|c| &*c.denom).collect();
    let priced_in = group.max_price().map(|p| p.denom).unwrap_or_default();
    if !denoms.contains(&&*priced_in) {
        let taken = denoms.join(" or ");
        return Ok(Err(vec![format!(
            "the group is priced in {priced_in}; the chain takes {taken}"
        )]));
    }
    let mut audited: Vec<AuditedAttributes> = Vec::new();
    for auditor in bidding::auditors(&group) {
        let audit = app.desk.known.audit(app, us, auditor, Peer::ip(peer)).await?;
        audited.extend(audit.map(|a| (*a).clone()));
    }
    let capacity = app.handle.capacity().await.map_err(|e| unavailable(&e))?;
    let mut capacity = capacity.ok_or(Unscreened::Away("capacity is not known yet; try again"))?;
    let order = order(group, screening);
    // The search over the nodes is computation alone, and grows with the cluster: it would hold up the tasks of
    // others.
    let judging = tokio::task::spawn_blocking(move || {
        let facts = Facts {
            attributes: record.provider.as_ref().map(|p| p.attributes.as_slice()),
            audited: &audited,
            params: Some(&record.params),
            bids: None,
        };
        bidding::consider(&order, &facts, &mut capacity).map_err(|decline| match decline {
            Decline::InsufficientCapacity { .. }
            | Decline::ExternalPortsExhausted { .. }
            | Decline::NoLeasedIps { .. }
            | Decline::LeasedIpsExhausted { .. } => summed(&capacity.explain(&order.spec)),
            decline => vec![decline.to_string()],
        })
    });
    let failed = |error| Error::new(ErrorKind::Internal, "screening", format!("{error}"));
    judging.await.map_err(|e| unavailable(&failed(e)))
}

/// An order of nobody: what it is judged by is its group.
fn order(group: GroupSpec, screening: &Screening) -> Order {
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
        spec: Arc::new(group),
        created_at: 1,
        reclamation_min_window: None,
    }
}

/// Hostnames that somebody has, or that nobody gets.
async fn taken(app: &App, screening: &Screening, names: &[String]) -> Result<Vec<String>, Unscreened> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let shown = app.status.get().await;
    let held = &shown.status.hostnames;
    // A ledger of its own: nothing that a stranger asks may touch the one that holds real names.
    let mut blocked = HostnameLedger::new(&screening.config.blocked_hostnames)
        .with_automatic(screening.config.static_hosts_domain.as_deref());
    let record = app.desk.known.record(app, &screening.config.provider).await?;
    if let Some(host) = record.provider.as_ref().and_then(ProviderRecord::host) {
        blocked.set_own(host);
    }
    let names: Vec<String> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
    // One look at what is held, however many wildcards are asked for.
    let stars: BTreeSet<&str> = names.iter().filter_map(|n| n.strip_prefix("*.")).collect();
    let rests = held.keys().filter_map(|held| held.split_once('.'));
    let overlapped: BTreeSet<&str> = rests
        .map(|(_, rest)| rest)
        .filter(|rest| stars.contains(rest))
        .collect();
    let is_overlapped = |name: &str| match name.strip_prefix("*.") {
        Some(rest) => overlapped.contains(rest),
        None => covering(name).is_some_and(|cover| held.contains_key(&cover)),
    };
    let taken = names
        .iter()
        .filter(|n| held.contains_key(*n) || is_overlapped(n) || blocked.is_blocked(n));
    Ok(taken.map(|n| format!("hostname not allowed: {n:?}")).collect())
}

/// The bid, or why there is none. Those who ask wait for each other here, and never for the provider's own bids.
async fn price(
    app: &App,
    screening: &Screening,
    request: &PriceRequest,
) -> Result<Result<Offer, Decline>, Unscreened> {
    let limit = screening.config.pricing_timeout;
    // Never closed, so only time can run out.
    let Ok(Ok(_one_of_few)) = timeout(limit, app.desk.prices.acquire()).await else {
        return Err(Unscreened::Busy);
    };
    Ok(Offer::asked(request, &*screening.pricing, limit).await)
}
