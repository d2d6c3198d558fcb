//! `explain`: whether an SDL or an order gets a bid, with the price, or the reasons per node.
//!
//! ```text
//!  flags ────────────────► from_flags ──┐
//!  chain, cluster, flags ► from_chain ──┴─► bidding::screen
//!  gateway ──────────────► from_gateway     the provider itself decides
//! ```

mod from_chain;
mod from_flags;
mod from_gateway;

pub(crate) use from_chain::first as first_inventory;

use crate::args::ExplainArgs;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::node::block_on;
use akash_provider_cli::output::say;
use akash_provider_cli::sdl::read_sdl;
use akash_provider_core::bidding::{self, OrderContext};
use akash_provider_core::engine::reservations::Capacity;
use akash_provider_core::inventory::Explanation;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Attribute, AuditedAttributes, DecCoin, DeclineCode, DeploymentId, GroupSpec, MarketParams, Order,
    OrderState,
};
use akash_provider_service::printer::explanation_text;
use akash_provider_service::trial;
use anyhow::{Context, bail};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Decision about the market order of one group.
#[derive(Debug, Serialize)]
pub struct GroupVerdict {
    /// Name of the group.
    pub group: String,
    /// True for a bid: `price` is set, `reason` and `message` are not.
    pub would_bid: bool,
    /// Price per block that the provider would bid; `None` for a decline.
    pub price: Option<DecCoin>,
    /// Maximum price of the tenant per block.
    pub maximum: Option<DecCoin>,
    /// Code of the reason for a decline.
    pub reason: Option<DeclineCode>,
    /// Text of the reason for a decline.
    pub message: Option<String>,
    /// Reasons why the group fits or does not fit, for each resource unit and node. The field is
    /// set even if `would_bid` is true.
    pub explanation: Explanation,
}

impl GroupVerdict {
    /// Creates a verdict from the screening of a group.
    #[must_use]
    pub fn new(group: &GroupSpec, screened: bidding::OrderVerdict) -> Self {
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

/// Prints a verdict for each group of an SDL, or for one order. The exit code is 1 after a decline.
///
/// # Errors
/// Returns an error if the file or a setting is invalid, or if chain or cluster cannot be read.
pub fn run(args: &ExplainArgs, home: impl FnOnce() -> anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    if args.run.signer.from.as_deref() == Some("") {
        bail!(WithHelp::new(
            "missing value of --from",
            "add the address or the name of a key; `keys list` lists the keys"
        ));
    }
    let sdl = args.file.as_deref().map(read_sdl).transpose()?;
    if let Some(provider) = &args.provider {
        return block_on(from_gateway::explain(args, provider, sdl.as_ref()));
    }
    if args.is_of_a_real_provider() {
        let home = home()?;
        return block_on(from_chain::explain(args, sdl.as_ref(), &home));
    }
    if args.run.kubernetes.kubeconfig.is_some() || args.run.cluster_k8s {
        bail!(WithHelp::new(
            "--kubeconfig requires --from, --node and --chain-id: the chain has the leases of the provider",
            "add --from, --node and --chain-id"
        ));
    }
    let sdl = sdl.with_context(|| {
        WithHelp::new(
            "--order requires --provider or --from",
            "add --provider, which queries the gateway, or --from, which reads chain and cluster",
        )
    })?;
    block_on(from_flags::explain(args, &sdl))
}

/// Capacity and record of the provider for which the command explains bids.
struct ExplainedProvider {
    capacity: Capacity,
    /// Registered attributes; `None` if the provider is not registered.
    attributes: Option<Vec<Attribute>>,
    params: MarketParams,
    pricing: Arc<dyn PricingStrategy>,
    output: Output,
}

impl ExplainedProvider {
    /// Prints the decision about an order. Returns true if the provider would bid.
    async fn explain(
        &mut self,
        order: &Order,
        audited: &[AuditedAttributes],
        bids: Option<u32>,
    ) -> anyhow::Result<bool> {
        let facts = OrderContext {
            attributes: self.attributes.as_deref(),
            audited,
            params: Some(&self.params),
            bids,
        };
        let verdict = match bidding::check_denom(&order.spec, &self.params) {
            Ok(()) => bidding::screen(order, &facts, &mut self.capacity, &*self.pricing).await,
            Err(decline) => bidding::OrderVerdict {
                bid: Err(decline),
                explanation: self.capacity.explain(&order.spec),
            },
        };
        self.print_verdict(&order.spec, verdict)
    }

    fn print_verdict(&self, group: &GroupSpec, screened: bidding::OrderVerdict) -> anyhow::Result<bool> {
        let verdict = GroupVerdict::new(group, screened);
        print(&verdict, self.output)?;
        Ok(verdict.would_bid)
    }
}

fn print(verdict: &GroupVerdict, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Json => say(&(serde_json::to_string(verdict)? + "\n")),
        Output::Text => say(&text(verdict)),
    }
    Ok(())
}

/// Returns the SDL, or an error if the command line names no SDL.
fn needed(sdl: Option<&Sdl>) -> anyhow::Result<&Sdl> {
    sdl.with_context(|| {
        WithHelp::new(
            "missing SDL file or --order",
            "add the path of an SDL file, or --order with the ID of an order",
        )
    })
}

fn orders(sdl: &Sdl) -> anyhow::Result<Vec<Order>> {
    let deployment = DeploymentId::new(trial::tenant(0)?, 1);
    let order = |(gseq, group): (u32, &GroupSpec)| Order {
        id: deployment.clone().group(gseq).order(1),
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

/// Formats a verdict as text.
#[must_use]
pub fn text(verdict: &GroupVerdict) -> String {
    let maximum = verdict
        .maximum
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut lines = match (&verdict.price, &verdict.message) {
        (Some(price), _) => {
            format!(
                "group {}: would bid {price} per block; maximum of the tenant {maximum}\n",
                verdict.group
            )
        }
        (None, message) => {
            let message = message.as_deref().unwrap_or("no price");
            format!("group {}: would not bid: {message}\n", verdict.group)
        }
    };
    lines.push_str(&explanation_text(&verdict.explanation));
    lines
}
