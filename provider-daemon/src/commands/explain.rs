//! `explain`: would an SDL get a bid, at what price, and why not, node by node.

use super::read_sdl;
use crate::args::{ExplainArgs, Output};
use crate::dev::{most_volumes, names};
use crate::say;
use akash_provider_core::Config;
use akash_provider_core::bidding::{self, Facts};
use akash_provider_core::engine::reservations::Reservations;
use akash_provider_core::inventory::{Explanation, InventoryUpdate, LeasedIpUsage, NodeInventory};
use akash_provider_core::market::network_params;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Attribute, AuditedAttributes, DecCoin, DeploymentId, GroupId, GroupSpec, Order, OrderId, OrderState,
};
use anyhow::Context;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;

/// What would happen to one group's order.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Name of the group.
    pub group: String,
    /// We would bid.
    pub would_bid: bool,
    /// At this price per block.
    pub price: Option<DecCoin>,
    /// The most the tenant pays per block.
    pub maximum: Option<DecCoin>,
    /// Why not, as a short word.
    pub reason: Option<String>,
    /// Why not, for people.
    pub message: Option<String>,
    /// Node by node.
    pub explanation: Explanation,
}

/// Prints a verdict for every group; fails (exit code 1) when one of them would get no bid.
///
/// # Errors
/// The file is not valid, or a setting makes no sense.
pub fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let sdl = read_sdl(&args.file)?;
    let provider = Provider::new(args, &sdl)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut all_bid = true;
    for (index, group) in sdl.groups.iter().enumerate() {
        let verdict = runtime.block_on(provider.verdict(&sdl, group, index))?;
        all_bid &= verdict.would_bid;
        match args.output {
            Output::Json => say(&(serde_json::to_string(&verdict)? + "\n")),
            Output::Text => say(&text(&verdict)),
        }
    }
    Ok(if all_bid {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Provider {
    config: Config,
    attributes: Vec<Attribute>,
    audited: Vec<AuditedAttributes>,
    update: InventoryUpdate,
    pricing: Arc<dyn PricingStrategy>,
}

impl Provider {
    fn new(args: &ExplainArgs, sdl: &Sdl) -> anyhow::Result<Self> {
        let mut config = Config::new(names::provider()?, names::CHAIN_ID);
        config.external_ports = args.cluster.cluster_node_port_quantity;
        config.leased_ips = args.cluster.leased_ips > 0;
        let (mut attributes, mut audited) = (args.cluster.attributes(), Vec::new());
        if args.accept_any {
            (attributes, audited) = bidding::accepting_profile(&sdl.groups, names::AUDITOR);
            config.reclamation_window = sdl.reclamation_min_window;
            config.max_volumes_per_unit = config.max_volumes_per_unit.max(most_volumes(&sdl.groups));
        }
        let inventory = Arc::new(NodeInventory::new(&args.cluster.spec()));
        let usage = LeasedIpUsage {
            total: args.cluster.leased_ips,
            ..LeasedIpUsage::default()
        };
        let leased_ips = config.leased_ips.then_some(usage);
        let update = InventoryUpdate {
            inventory,
            placements: Vec::new(),
            leased_ips,
        };
        Ok(Self {
            config,
            attributes,
            audited,
            update,
            pricing: args.pricing.strategy(1)?,
        })
    }

    async fn verdict(&self, sdl: &Sdl, group: &GroupSpec, index: usize) -> anyhow::Result<Verdict> {
        let id = OrderId {
            group: GroupId {
                deployment: DeploymentId {
                    owner: names::tenant(0)?,
                    dseq: 1,
                },
                gseq: u32::try_from(index)? + 1,
            },
            oseq: 1,
        };
        let order = Order {
            id,
            state: OrderState::Open,
            spec: Arc::new(group.clone()),
            created_at: 1,
            reclamation_min_window: sdl.reclamation_min_window,
        };
        let params = network_params();
        let facts = Facts {
            attributes: Some(&self.attributes),
            audited: &self.audited,
            params: Some(&params),
            bids: None,
        };
        let mut reservations = Reservations::new(&self.config);
        reservations.update(self.update.clone());
        let mut capacity = reservations.capacity().context("there is no capacity")?;
        let screened = bidding::screen(&order, &facts, &mut capacity, &*self.pricing).await;
        let (offer, decline) = match screened.bid {
            Ok(offer) => (Some(offer), None),
            Err(decline) => (None, Some(decline)),
        };
        Ok(Verdict {
            group: group.name.clone(),
            would_bid: offer.is_some(),
            price: offer.map(|offer| offer.price),
            maximum: group.max_price(),
            reason: decline.as_ref().map(|decline| decline.code().to_owned()),
            message: decline.map(|decline| decline.to_string()),
            explanation: screened.explanation,
        })
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
