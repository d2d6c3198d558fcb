//! `explain`: would an SDL, or an order, get a bid, at what price, and why not, node by node.
//!
//! ```text
//!  flags ────────────────► trial ──┐
//!  chain, cluster, flags ► real ───┴─► bidding::screen
//!  its gateway ──────────► asked        the provider itself judges
//! ```

mod asked;
mod real;
mod trial;

use super::chain::block_on;
use super::read_sdl;
use crate::args::{ExplainArgs, Output};
use crate::dev::names;
use crate::say;
use akash_provider_core::bidding::{self, Facts};
use akash_provider_core::engine::reservations::Capacity;
use akash_provider_core::inventory::Explanation;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Attribute, AuditedAttributes, DecCoin, DeclineCode, DeploymentId, GroupId, GroupSpec, MarketParams,
    Order, OrderId, OrderState,
};
use anyhow::{Context, bail};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// What would happen to one group's order.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Name of the group.
    pub group: String,
    /// True for a bid: `price` is set then, and neither `reason` nor `message` is.
    pub would_bid: bool,
    /// At this price per block.
    pub price: Option<DecCoin>,
    /// The most the tenant pays per block.
    pub maximum: Option<DecCoin>,
    /// Why not, as a code.
    pub reason: Option<DeclineCode>,
    /// Why not, for people.
    pub message: Option<String>,
    /// How each node fares with each unit, also where there would be a bid.
    pub explanation: Explanation,
}

impl Verdict {
    /// What came of screening a group.
    #[must_use]
    pub fn new(group: &GroupSpec, screened: bidding::Verdict) -> Self {
        let (offer, decline) = match screened.bid {
            Ok(offer) => (Some(offer), None),
            Err(decline) => (None, Some(decline)),
        };
        Self {
            group: group.name.clone(),
            would_bid: offer.is_some(),
            price: offer.map(|offer| offer.price),
            maximum: group.max_price(),
            reason: decline.as_ref().map(|decline| decline.code()),
            message: decline.map(|decline| decline.to_string()),
            explanation: screened.explanation,
        }
    }
}

/// Prints a verdict for every group of an SDL, or for an order of the chain; fails (exit code 1) when one of them would
/// get no bid.
///
/// # Errors
/// The file is not valid, a setting makes no sense, or chain or cluster of a real provider cannot be read.
pub fn run(args: &ExplainArgs, home: impl FnOnce() -> anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    if args.run.signer.from.as_deref() == Some("") {
        bail!("--from names no provider: write its address, or the name of its key");
    }
    let sdl = args.file.as_deref().map(read_sdl).transpose()?;
    if let Some(provider) = &args.provider {
        return block_on(asked::explain(args, provider, sdl.as_ref()));
    }
    if args.is_of_a_real_provider() {
        let home = home()?;
        return block_on(real::explain(args, sdl.as_ref(), &home));
    }
    if args.run.kubernetes.kubeconfig.is_some() || args.run.cluster_k8s {
        bail!(
            "whose cluster is it? what its leases hold is known from the chain: name the provider with --from, and \
             the chain with --node and --chain-id"
        );
    }
    let sdl = sdl.context(
        "whose bid on the order? name the provider: with --provider its gateway is asked, with --from chain and cluster",
    )?;
    block_on(trial::explain(args, &sdl))
}

/// A provider that is asked: what it has, and what it is on the chain.
struct Desk {
    capacity: Capacity,
    /// As registered; `None` while it is not.
    attributes: Option<Vec<Attribute>>,
    params: MarketParams,
    pricing: Arc<dyn PricingStrategy>,
    output: Output,
}

impl Desk {
    /// Prints what would become of an order; true when it would be bid on.
    async fn explain(
        &mut self,
        order: &Order,
        audited: &[AuditedAttributes],
        bids: Option<u32>,
    ) -> anyhow::Result<bool> {
        let facts = Facts {
            attributes: self.attributes.as_deref(),
            audited,
            params: Some(&self.params),
            bids,
        };
        let verdict = bidding::screen(order, &facts, &mut self.capacity, &*self.pricing).await;
        self.tell(&order.spec, verdict)
    }

    fn tell(&self, group: &GroupSpec, screened: bidding::Verdict) -> anyhow::Result<bool> {
        let verdict = Verdict::new(group, screened);
        print(&verdict, self.output)?;
        Ok(verdict.would_bid)
    }
}

fn print(verdict: &Verdict, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Json => say(&(serde_json::to_string(verdict)? + "\n")),
        Output::Text => say(&text(verdict)),
    }
    Ok(())
}

/// The SDL of a command line that names no order.
fn needed(sdl: Option<&Sdl>) -> anyhow::Result<&Sdl> {
    sdl.context("there is nothing to explain: name an SDL file, or an order with --order")
}

/// The orders that an SDL would make: an order for each of its groups.
fn orders(sdl: &Sdl) -> anyhow::Result<Vec<Order>> {
    let deployment = DeploymentId {
        owner: names::tenant(0)?,
        dseq: 1,
    };
    let order = |(gseq, group): (u32, &GroupSpec)| Order {
        id: OrderId {
            group: GroupId {
                deployment: deployment.clone(),
                gseq,
            },
            oseq: 1,
        },
        state: OrderState::Open,
        spec: Arc::new(group.clone()),
        created_at: 1,
        reclamation_min_window: sdl.reclamation_min_window,
    };
    Ok((1..).zip(&sdl.groups).map(order).collect())
}

const fn code(all_bid: bool) -> ExitCode {
    if all_bid {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A verdict for people.
#[must_use]
pub fn text(verdict: &Verdict) -> String {
    let maximum = verdict
        .maximum
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut lines = match (&verdict.price, &verdict.message) {
        (Some(price), _) => {
            format!(
                "group {}: would bid {price} per block; the tenant pays at most {maximum}\n",
                verdict.group
            )
        }
        (None, message) => {
            let message = message.as_deref().unwrap_or("no price");
            format!("group {}: would not bid: {message}\n", verdict.group)
        }
    };
    lines.push_str(&nodes(&verdict.explanation));
    lines
}

/// An explanation for people, a line for each node and unit.
#[must_use]
pub fn nodes(explanation: &Explanation) -> String {
    let mut lines = String::new();
    for node in &explanation.nodes {
        let missing = if node.missing.is_empty() {
            "has room".to_owned()
        } else {
            node.missing.join("; ")
        };
        lines.push_str(&format!(
            "  {:<12} unit {}: takes {}, {missing}\n",
            node.node, node.unit, node.replicas
        ));
    }
    for line in &explanation.cluster {
        lines.push_str(&format!("  cluster      {line}\n"));
    }
    for line in &explanation.ignored {
        lines.push_str(&format!("  ignored      {line}\n"));
    }
    lines
}
