//! Would a group get a bid? Judged as an order would be, and nothing is kept of it.

use super::App;
use akash_provider_core::Config;
use akash_provider_core::bidding::{self, Facts};
use akash_provider_core::error::Error;
use akash_provider_core::pricing::{PRICE_PRECISION, PriceRequest, PricingStrategy};
use akash_provider_core::types::{
    AuditedAttributes, DecCoin, DeploymentId, GroupId, GroupSpec, Order, OrderId, OrderState, ResourceUnit,
};
use std::sync::Arc;

/// Auditors of one group that are asked for.
const AUDITORS_MAX: usize = 8;

/// What bids follow from.
#[derive(Debug, Clone)]
pub struct Screening {
    /// The provider's settings.
    pub config: Config,
    /// What a lease costs.
    pub pricing: Arc<dyn PricingStrategy>,
}

/// What an order of a group would come to.
pub(super) struct Screened {
    /// What speaks against a bid; nothing where there would be one.
    pub(super) reasons: Vec<String>,
    /// What the bid would offer.
    pub(super) offers: Vec<ResourceUnit>,
    /// What it would cost.
    pub(super) price: Option<DecCoin>,
}

/// Why it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unscreened {
    /// Nobody is screened here.
    NotOffered,
    /// Others are being screened.
    Busy,
    /// Somebody who must be asked does not answer.
    Away(&'static str),
}

/// Judges a group and the hostnames that would go with it.
pub(super) async fn screen(
    app: &App,
    group: GroupSpec,
    hostnames: &[String],
) -> Result<Screened, Unscreened> {
    let screening = app.screening.as_ref().ok_or(Unscreened::NotOffered)?;
    // Each one asks the chain and may run a price script.
    let turn = app.screenings.try_acquire();
    let _turn = turn.map_err(|_| Unscreened::Busy)?;
    let group = Arc::new(group);
    let (mut reasons, offers) = judge(app, screening, &group).await?;
    if !hostnames.is_empty() {
        reasons.extend(taken(app, screening, hostnames).await);
    }
    let mut price = None;
    if reasons.is_empty() {
        match calculate(screening, &group).await {
            Ok(calculated) => price = Some(calculated),
            Err(reason) => reasons.push(reason),
        }
    }
    let offers = if price.is_some() { offers } else { Vec::new() };
    Ok(Screened {
        reasons,
        offers,
        price,
    })
}

fn unavailable(error: &Error) -> Unscreened {
    tracing::warn!("a group could not be screened: {error}");
    Unscreened::Away("the chain or the provider cannot be asked; try again")
}

/// What speaks against a bid but the price, and what it would offer.
async fn judge(
    app: &App,
    screening: &Screening,
    group: &Arc<GroupSpec>,
) -> Result<(Vec<String>, Vec<ResourceUnit>), Unscreened> {
    let us = &screening.config.provider;
    let (chain, fail) = (&app.chain, |e: Error| unavailable(&e));
    let record = app.bounded("provider", chain.provider(us)).await.map_err(fail)?;
    let params = app.bounded("params", chain.params()).await.map_err(fail)?;
    let signed_by = &group.requirements.signed_by;
    let auditors = signed_by.all_of.iter().chain(&signed_by.any_of);
    let mut audited: Vec<AuditedAttributes> = Vec::new();
    for auditor in auditors.take(AUDITORS_MAX) {
        let asking = chain.auditor_attributes(auditor, us);
        audited.extend(app.bounded("audits", asking).await.map_err(fail)?);
    }
    let Some(record) = record else {
        return Ok((vec!["the provider is not registered".to_owned()], Vec::new()));
    };
    let facts = Facts {
        attributes: &record.attributes,
        audited: &audited,
        params: Some(&params),
    };
    if let Err(decline) = bidding::should_bid(&order(group, screening), &facts, &screening.config) {
        return Ok((vec![decline.to_string()], Vec::new()));
    }
    let explained = app.handle.explain(group).await.map_err(fail)?;
    let explained = explained.ok_or(Unscreened::Away("capacity is not known yet; try again"))?;
    if explained.fits {
        return Ok((Vec::new(), explained.offers));
    }
    let of_nodes = explained.nodes.into_iter().flat_map(|node| {
        let name = node.node;
        node.missing.into_iter().map(move |m| format!("{name}: {m}"))
    });
    let mut all: Vec<String> = explained.cluster.into_iter().chain(of_nodes).collect();
    if all.is_empty() {
        all.push("it does not fit".to_owned());
    }
    Ok((all, Vec::new()))
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
async fn taken(app: &App, screening: &Screening, names: &[String]) -> Vec<String> {
    let held = app.handle.status().await.hostnames;
    let blocked = akash_provider_core::engine::hostnames::Hostnames::new(&screening.config.blocked_hostnames);
    let names = names.iter().map(|n| n.to_ascii_lowercase());
    names
        .filter(|n| held.contains_key(n) || blocked.is_blocked(n))
        .map(|n| format!("hostname not allowed: {n:?}"))
        .collect()
}

async fn calculate(screening: &Screening, group: &Arc<GroupSpec>) -> Result<DecCoin, String> {
    let request = PriceRequest {
        owner: screening.config.provider.clone(),
        group: Arc::clone(group),
        allocated: None,
        precision: PRICE_PRECISION,
    };
    let asking = screening.pricing.calculate_price(&request);
    let limit = screening.config.pricing_timeout;
    let price = match tokio::time::timeout(limit, asking).await {
        Ok(price) => price.map_err(|e| e.to_string())?,
        Err(_) => return Err(format!("no price within {limit:?}")),
    };
    let maximum = group.max_price().ok_or("its units have no common price")?;
    bidding::check_price(&price, &maximum).map_err(|d| d.to_string())?;
    Ok(price)
}
