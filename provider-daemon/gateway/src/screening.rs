//! Bid screening: the decision and the price that the provider would calculate for an order with a given group. Nothing
//! is stored.
//!
//! ```text
//!  budget of the network ──► limits ──► a permit ──► facts of the chain ──► bidding::evaluate ──► Offer::request
//!    else 429                else no     else 429     cached for a moment    a copy of the ledger,  few at once
//!                                                                            a blocking thread
//! ```
//! Clients need no authentication, so an invalid group causes no queries, and a permit is held until the response is
//! written.

mod facts;
mod limits;
mod reasons;

pub(crate) use facts::ChainFacts;

use super::App;
use super::auth::LookupFault;
use super::listen::Peer;
use akash_provider_core::Config;
use akash_provider_core::bidding::{self, Decline, Offer, OrderContext};
use akash_provider_core::engine::hostnames::HostnameLedger;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::inventory::{Explanation, IgnoredResource};
use akash_provider_core::manifest::covering;
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::types::{
    AuditedAttributes, DecCoin, DeclineCode, DeploymentId, GroupSpec, Order, OrderState, ProviderRecord,
    ResourceUnit,
};
use reasons::{ignored, shorten, summarize};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Maximum number of concurrent price calculations for screenings.
const PRICES_AT_ONCE: usize = 2;

/// Configuration of bid screening.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Screening {
    /// Settings that the provider uses for its bids.
    pub config: Config,
    /// Price strategy that the provider uses for its bids.
    pub pricing: Arc<dyn PricingStrategy>,
}

impl Screening {
    /// Creates a configuration with the settings and the price strategy of the provider.
    #[must_use]
    pub fn new(config: Config, pricing: Arc<dyn PricingStrategy>) -> Self {
        Self { config, pricing }
    }
}

#[derive(Debug)]
pub(super) struct ScreeningState {
    permits: Arc<Semaphore>,
    prices: Semaphore,
    facts: ChainFacts,
}

impl ScreeningState {
    /// Creates the screening state. At most `at_once` screenings run concurrently.
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(at_once)),
            prices: Semaphore::new(PRICES_AT_ONCE),
            facts: ChainFacts::default(),
        }
    }
}

#[derive(Default)]
pub(super) struct ScreeningResult {
    /// Decline code of the first reason; `None` if the reason has no code.
    pub(super) code: Option<DeclineCode>,
    /// Reasons against a bid; empty if the provider would bid.
    pub(super) reasons: Vec<String>,
    /// Resources that the provider does not offer. The list has entries only if the group does not fit the
    /// offered resources.
    pub(super) ignored: Vec<IgnoredResource>,
    /// Resources that the bid would offer.
    pub(super) offers: Vec<ResourceUnit>,
    /// Price of the bid. `None` if the provider would not bid.
    pub(super) price: Option<DecCoin>,
    /// Permit of the screening, released when the response is written.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl ScreeningResult {
    fn declined(code: Option<DeclineCode>, reasons: &[String]) -> Self {
        Self {
            code,
            reasons: reasons.iter().map(|r| shorten(r)).collect(),
            ..Self::default()
        }
    }

    fn offered(offer: Offer) -> Self {
        Self {
            offers: offer.units.to_vec(),
            price: Some(offer.price),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreeningError {
    /// Bid screening is disabled.
    NotOffered,
    /// All permits for concurrent screenings are in use.
    Busy,
    /// The IP network of the client has used its budget of screenings.
    TooMany,
    /// A query to the chain or to the provider failed.
    Unavailable(&'static str),
}

impl ScreeningError {
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::NotOffered => "bid screening is disabled",
            Self::Busy => "too many concurrent requests; try again",
            Self::TooMany => "too many requests from this address; try again in a minute",
            Self::Unavailable(words) => words,
        }
    }
}

impl From<LookupFault> for ScreeningError {
    fn from(fault: LookupFault) -> Self {
        match fault {
            LookupFault::Outage => Self::Unavailable("cannot query the chain; try again"),
            LookupFault::TooMany => Self::TooMany,
        }
    }
}

/// Counts a screening request in the request budget of the client's IP network. The caller has not read the
/// request body yet.
pub(super) fn admit(app: &App, peer: Option<&Peer>) -> Result<(), ScreeningError> {
    if app.screening.is_none() {
        return Err(ScreeningError::NotOffered);
    }
    let may = app.budgets.screenings.take(Peer::ip(peer));
    if may { Ok(()) } else { Err(ScreeningError::TooMany) }
}

/// Screens a group and its hostnames. The client must have passed [`admit`].
pub(super) async fn screen(
    app: &App,
    peer: Option<&Peer>,
    group: GroupSpec,
    hostnames: &[String],
) -> Result<ScreeningResult, ScreeningError> {
    let screening = app.screening.as_ref().ok_or(ScreeningError::NotOffered)?;
    // Cheap checks come before the permit: an invalid group never delays another.
    if let Err((code, reason)) = limits::check(&group, hostnames) {
        return Ok(ScreeningResult::declined(Some(code), &[reason]));
    }
    // Not awaited: a queue of unauthenticated requests would only grow, and each holds its request in memory.
    let permit = Arc::clone(&app.screenings.permits).try_acquire_owned();
    let permit = permit.map_err(|_| ScreeningError::Busy)?;
    let judged = judge(app, screening, peer, group).await?;
    let taken = taken(app, screening, hostnames).await?;
    let mut screened = match judged {
        // A price may be a process, so it is calculated only if everything else fits.
        Ok(request) if taken.is_empty() => match price(app, screening, &request).await? {
            Ok(offer) => ScreeningResult::offered(offer),
            Err(decline) => ScreeningResult::declined(Some(decline.code()), &[public_reason(&decline)]),
        },
        Ok(_) => ScreeningResult::declined(None, &taken),
        Err(mut declined) => {
            declined
                .reasons
                .extend(taken.iter().map(|reason| shorten(reason)));
            *declined
        }
    };
    screened.permit = Some(permit);
    Ok(screened)
}

/// Returns the reason for a decline as a text for any client. The text of a price error is only logged,
/// because it contains the path and the output of the price script.
fn public_reason(decline: &Decline) -> String {
    let Decline::Price { message } = decline else {
        return decline.to_string();
    };
    tracing::warn!(
        error = message.as_str(),
        "screening request declined: cannot calculate the price; check the price script or the price policy"
    );
    "the provider could not calculate a price".to_owned()
}

fn unavailable(error: &Error) -> ScreeningError {
    tracing::warn!(%error, "screening request refused: cannot decide whether the provider would bid; check the chain node and the provider's status");
    ScreeningError::Unavailable("cannot query the chain or the provider; try again")
}

/// Decides whether the provider would bid. Returns the request for the price strategy, or the result with the
/// reasons against a bid.
async fn judge(
    app: &App,
    screening: &Screening,
    peer: Option<&Peer>,
    group: GroupSpec,
) -> Result<Result<PriceRequest, Box<ScreeningResult>>, ScreeningError> {
    let us = &screening.config.provider;
    let record = app.screenings.facts.record(app, us).await?;
    // Checked before the price script receives the denomination.
    if let Err(decline) = bidding::check_denom(&group, &record.params) {
        return Ok(Err(Box::new(because(&decline, Vec::new()))));
    }
    let mut audited: Vec<AuditedAttributes> = Vec::new();
    for auditor in bidding::auditors(&group) {
        let audit = app
            .screenings
            .facts
            .audit(app, us, auditor, Peer::ip(peer))
            .await?;
        audited.extend(audit.map(|a| (*a).clone()));
    }
    let capacity = app.handle.capacity().await.map_err(|e| unavailable(&e))?;
    let mut capacity = capacity.ok_or(ScreeningError::Unavailable(
        "capacity is not known yet; try again",
    ))?;
    let order = order(group, screening);
    // The search over the nodes is pure computation that grows with the cluster: on this thread it would delay other
    // tasks.
    let judging = tokio::task::spawn_blocking(move || {
        let facts = OrderContext {
            attributes: record.provider.as_ref().map(|p| p.attributes.as_slice()),
            audited: &audited,
            params: Some(&record.params),
            bids: None,
        };
        bidding::evaluate(&order, &facts, &mut capacity).map_err(|decline| {
            Box::new(match decline {
                Decline::InsufficientCapacity { .. }
                | Decline::ExternalPortsExhausted { .. }
                | Decline::NoLeasedIps { .. }
                | Decline::LeasedIpsExhausted { .. } => with_nodes(&decline, &capacity.explain(&order.spec)),
                decline => because(&decline, Vec::new()),
            })
        })
    });
    let failed = |error| Error::new(ErrorKind::Internal, "screening", format!("{error}"));
    judging.await.map_err(|e| unavailable(&failed(e)))
}

/// Returns the result for a decline. The reason of the decline comes first, then the reasons in `more`.
fn because(decline: &Decline, mut more: Vec<String>) -> ScreeningResult {
    let first = decline.to_string();
    more.retain(|reason| *reason != shorten(&first));
    more.insert(0, first);
    ScreeningResult::declined(Some(decline.code()), &more)
}

/// Returns the result for a decline. The explanation adds further reasons and the ignored resources.
fn with_nodes(decline: &Decline, explanation: &Explanation) -> ScreeningResult {
    ScreeningResult {
        ignored: ignored(explanation),
        ..because(decline, summarize(explanation))
    }
}

/// Returns an order for the group. The other fields of the order do not affect the decision.
fn order(group: GroupSpec, screening: &Screening) -> Order {
    let deployment = DeploymentId::new(screening.config.provider.clone(), 1);
    Order {
        id: deployment.group(1).order(1),
        state: OrderState::Open,
        spec: Arc::new(group),
        created_at: 1,
        reclamation_min_window: None,
    }
}

/// Returns one reason for each hostname in `names` that is blocked or in use by a lease.
async fn taken(app: &App, screening: &Screening, names: &[String]) -> Result<Vec<String>, ScreeningError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let snapshot = app.status.get().await;
    let hostnames = &snapshot.status.hostnames;
    // A ledger of its own: requests must not change the one with the real names.
    let mut blocked = HostnameLedger::new(&screening.config.blocked_hostnames)
        .with_automatic(screening.config.static_hosts_domain.as_deref());
    let record = app
        .screenings
        .facts
        .record(app, &screening.config.provider)
        .await?;
    if let Some(host) = record.provider.as_ref().and_then(ProviderRecord::host) {
        blocked.set_own(host);
    }
    let names: Vec<String> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
    // One pass over the names in use for all wildcards of the request.
    let stars: BTreeSet<&str> = names.iter().filter_map(|n| n.strip_prefix("*.")).collect();
    let rests = hostnames.keys().filter_map(|hostnames| hostnames.split_once('.'));
    let overlapped: BTreeSet<&str> = rests
        .map(|(_, rest)| rest)
        .filter(|rest| stars.contains(rest))
        .collect();
    let is_overlapped = |name: &str| match name.strip_prefix("*.") {
        Some(rest) => overlapped.contains(rest),
        None => covering(name).is_some_and(|cover| hostnames.contains_key(&cover)),
    };
    let taken = names
        .iter()
        .filter(|n| hostnames.contains_key(*n) || is_overlapped(n) || blocked.is_blocked(n));
    Ok(taken.map(|n| format!("hostname not allowed: {n:?}")).collect())
}

/// Calculates the price of the bid. Only screenings wait for a permit, so the provider's own bids are never
/// delayed.
async fn price(
    app: &App,
    screening: &Screening,
    request: &PriceRequest,
) -> Result<Result<Offer, Decline>, ScreeningError> {
    let limit = screening.config.pricing_timeout;
    // The semaphore is never closed, so only the timeout can fail.
    let Ok(Ok(_one_of_few)) = timeout(limit, app.screenings.prices.acquire()).await else {
        return Err(ScreeningError::Busy);
    };
    Ok(Offer::request(request, &*screening.pricing, limit).await)
}
