//! Metrics of a provider: the sources and the server.

use crate::args::RunArgs;
use crate::args::gas::gas_price;
use crate::metrics::{
    ChainSource, EngineSource, GatewaySource, KubernetesSource, Metrics, PartsSource, ProcessSource,
    RunwaySource, serve,
};
use crate::printer::Printer;
use crate::supervise::{Part, Supervisor};
use akash_provider_chain::AkashClient;
use akash_provider_core::Config;
use akash_provider_core::provider::ProviderHandle;
use futures::FutureExt;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Starts the metrics server if enabled. Returns the metrics, to which each part adds its source.
pub(super) fn start(
    args: &RunArgs,
    printer: &Arc<Printer>,
    until: &CancellationToken,
    parts: &mut Supervisor,
) -> Metrics {
    let metrics = Metrics::default();
    metrics.add(ProcessSource::new());
    let Some(address) = args.metrics.metrics_listener.get() else {
        return metrics;
    };
    let (address, served) = (address.to_owned(), metrics.clone());
    let (printer, until) = (Arc::clone(printer), until.clone());
    parts.again(Part::Metrics, move |_| {
        let (address, served) = (address.clone(), served.clone());
        let (printer, until) = (Arc::clone(&printer), until.clone());
        async move {
            serve(&address, served, &until, |url| announce(&printer, url)).await;
            Ok(())
        }
        .boxed()
    });
    metrics
}

#[derive(Debug)]
pub(super) struct MeasuredParts {
    pub(super) chain: ChainSource,
    /// `None` for the in-memory cluster.
    pub(super) kubernetes: Option<KubernetesSource>,
    pub(super) gateway: Option<GatewaySource>,
    pub(super) process: PartsSource,
}

impl MeasuredParts {
    /// Adds all parts to `metrics`. Returns the metrics source of the chain client.
    pub(super) fn add_to(self, metrics: &Metrics) -> ChainSource {
        metrics.add(self.chain.clone());
        if let Some(kubernetes) = self.kubernetes {
            metrics.add(kubernetes);
        }
        if let Some(gateway) = self.gateway {
            metrics.add(gateway);
        }
        metrics.add(self.process);
        self.chain
    }
}

/// Returns the metrics source of the chain client. The source reports the provider's balances in two
/// denominations: the denomination of `bid_deposit` and the denomination of `gas_prices`.
pub(super) fn chain_source(chain: &AkashClient, config: &Config, gas_prices: &str) -> ChainSource {
    let mut denoms = vec![config.bid_deposit.denom.clone()];
    denoms.extend(gas_price(gas_prices).map(|(denom, _)| denom));
    ChainSource::new(chain.clone(), config.provider.clone(), denoms)
}

/// Adds the metrics of the engine. Also adds an estimate of the time until the balances from `chain` are used
/// up.
pub(super) fn add_engine(metrics: &Metrics, args: &RunArgs, handle: &ProviderHandle, chain: ChainSource) {
    let ports = args.cluster.cluster_node_port_quantity;
    let is_per_lease = args.metrics.metrics_per_lease;
    metrics.add(EngineSource::new(handle.clone(), ports, is_per_lease));
    let pays_fees = args.gas.fee_granter.is_none();
    metrics.add(RunwaySource::new(chain, handle.clone(), pays_fees));
}

fn announce(printer: &Printer, url: &str) {
    if printer.is_text() {
        printer.note(&format!("metrics at {url}"));
    }
    printer.object(json!({ "event": "metrics", "url": url }));
}
