//! Explanation for a hypothetical provider with the hardware and attributes of the flags.

use super::{ExplainedProvider, code, orders};
use crate::args::ExplainArgs;
use akash_provider_core::Config;
use akash_provider_core::bidding;
use akash_provider_core::engine::reservations::Reservations;
use akash_provider_core::inventory::{InventoryUpdate, LeasedIpUsage, NodeInventory};
use akash_provider_core::market::network_params;
use akash_provider_core::sdl::Sdl;
use akash_provider_service::trial::{self, most_volumes, widest_reclamation};
use anyhow::Context;
use std::process::ExitCode;
use std::sync::Arc;

pub(super) async fn explain(args: &ExplainArgs, sdl: &Sdl) -> anyhow::Result<ExitCode> {
    let hardware = &args.run.cluster;
    let mut config = Config::new(trial::provider()?, trial::CHAIN_ID);
    config.external_ports = hardware.cluster_node_port_quantity;
    config.leased_ips = hardware.leased_ips > 0;
    let (mut attributes, mut audited) = (hardware.attributes(&args.attribute), Vec::new());
    if args.accept_any {
        (attributes, audited) = bidding::accepting_profile(&sdl.groups, trial::AUDITOR);
        config.reclamation_window = widest_reclamation([sdl]);
        config.max_volumes_per_unit = config.max_volumes_per_unit.max(most_volumes(&sdl.groups));
    }
    let usage = LeasedIpUsage {
        total: hardware.leased_ips,
        ..LeasedIpUsage::default()
    };
    let mut reservations = Reservations::new(&config);
    reservations.update(InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&hardware.spec())),
        placements: Vec::new(),
        leased_ips: config.leased_ips.then_some(usage),
    });
    let mut provider = ExplainedProvider {
        capacity: reservations
            .capacity()
            .context("cannot compute the capacity of the hardware in the flags")?,
        attributes: Some(attributes),
        params: network_params(),
        pricing: args.run.pricing.strategy(1)?,
        output: args.run.output,
    };
    let mut all_bid = true;
    for order in orders(sdl)? {
        all_bid &= provider.explain(&order, &audited, None).await?;
    }
    Ok(code(all_bid))
}
