//! The alert on a ledger of reservations that differs from a recount. The cause is a defective implementation of the
//! inventory, because the engine and the inventory of the daemon have no known defect.

use super::alerts::Alerts;
use crate::scrape::{Values, parse};
use crate::stage::{ADDRESS, Stage, until};
use akash_provider_core::Config;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::cluster::{Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::{NodeInventory, StaticInventorySource};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{
    AdjustOptions, Allocation, Explanation, InsufficientCapacity, Inventory, Metrics as Capacity,
};
use akash_provider_core::pricing::scale::{Scale, ScaleConfig, parse_storage_scales};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::types::ResourceUnit;
use akash_provider_service::metrics::{EngineSource, Metrics};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Inventory that does not release capacity.
#[derive(Debug)]
struct LeakyInventory(Box<dyn Inventory>);

impl Inventory for LeakyInventory {
    fn adjust(
        &mut self,
        units: &[ResourceUnit],
        options: AdjustOptions,
    ) -> Result<Allocation, InsufficientCapacity> {
        self.0.adjust(units, options)
    }

    fn restore(&mut self, allocation: &Allocation) {
        self.0.restore(allocation);
    }

    fn release(&mut self, _: &Allocation) {}

    fn explain(&self, units: &[ResourceUnit]) -> Explanation {
        self.0.explain(units)
    }

    fn metrics(&self) -> Capacity {
        self.0.metrics()
    }

    fn dup(&self) -> Box<dyn Inventory> {
        Box::new(Self(self.0.dup()))
    }
}

fn provider(stage: &Stage) -> (Provider, ProviderHandle) {
    let nodes = ClusterSpec::from_nodes([NodeSpec::new("node-1", 8_000_000, 64 << 30, 100 << 30)]);
    let inventory = LeakyInventory(Box::new(NodeInventory::new(&nodes)));
    let mut prices = ScaleConfig::default();
    prices.cpu = "0.01".parse().unwrap();
    prices.storage = parse_storage_scales("0.00001").unwrap();
    Provider::builder()
        .config(Config::new(ADDRESS.parse().unwrap(), "devnet"))
        .chain(stage.chain.clone())
        .cluster(MemoryCluster::new(Facets::default()))
        .inventory(StaticInventorySource::new(inventory))
        .pricing(Scale::new(prices).unwrap())
        .bus(LocalBus::new())
        .build()
        .unwrap()
}

#[test]
fn ledger_that_differs_from_a_recount_fires_its_alert() {
    let stage = Stage::new("alert-ledger", true);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (provider, handle) = provider(&stage);
    runtime.spawn(provider.run(CancellationToken::new()));
    runtime.block_on(handle.wait_ready()).unwrap();
    let metrics = Metrics::default();
    metrics.add(EngineSource::new(handle.clone(), 100, false));
    let scrape = || -> Values {
        runtime.block_on(metrics.refresh());
        parse(&metrics.texts().unwrap().0)
    };
    let reserved = || scrape()["akash_provider_capacity_cpu_cores{state=\"pending\"}"];
    let scan = || runtime.block_on(handle.scan(false)).unwrap();
    assert_eq!(scan(), Vec::<String>::new());
    let (before, alerts) = (scrape(), Alerts::read());
    let firing = |now: &Values| -> BTreeSet<String> {
        let firing = alerts.firing(&before, now);
        firing.into_iter().map(str::to_owned).collect()
    };
    assert_eq!(firing(&before), BTreeSet::new());
    let id = stage.order(1);
    let make_block = || {
        stage.chain.advance(Duration::from_secs(6));
    };
    let dump = || format!("{:?}", runtime.block_on(handle.status()));
    until("a reservation", dump, || {
        make_block();
        reserved() > 0.0
    });
    stage.close(id);
    until("no reservation", dump, || {
        make_block();
        reserved() == 0.0
    });
    assert_eq!(scan().len(), 1);
    let (differs, finding) = ("AkashProviderLedgerDiffers", "AkashProviderScanFindings");
    let now = scrape();
    assert_eq!(firing(&now), [differs, finding].map(str::to_owned).into());
    assert_eq!(now["akash_provider_ledger_mismatches_total"], 1.0);
    // The recount has replaced the ledger.
    assert_eq!(scan(), Vec::<String>::new());
    assert_eq!(firing(&scrape()), [differs.to_owned()].into());
}
