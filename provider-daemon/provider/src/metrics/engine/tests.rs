mod faults;

use super::super::Metrics;
use super::*;
use akash_provider_core::Config;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::{Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::{NodeInventory, StaticInventorySource};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::pricing::scale::{Scale, ScaleConfig, parse_storage_scales};
use akash_provider_core::provider::Provider;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{Address, BidId, BlockTime, DecCoin, DeploymentId, Msg, ProviderRecord};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ACCOUNT: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";

fn web() -> Sdl {
    sdl::parse(include_str!("../../../../samples/web.yaml")).unwrap()
}

fn deployment(dseq: u64) -> DeploymentId {
    let owner = TENANT.parse().unwrap();
    DeploymentId::new(owner, dseq)
}

fn lease(dseq: u64) -> BidId {
    format!("{TENANT}/{dseq}/1/1/{ACCOUNT}").parse().unwrap()
}

/// Creates a chain on which the provider has this number of leases.
fn chain(leases: u64) -> MemoryChain {
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    let (account, tenant): (Address, Address) = (ACCOUNT.parse().unwrap(), TENANT.parse().unwrap());
    chain.market(|market| {
        for account in [&account, &tenant] {
            market.fund(account, &"100000000000uact".parse().unwrap());
        }
        let record = ProviderRecord {
            owner: account.clone(),
            host_uri: "https://localhost:8443".into(),
            attributes: Vec::new(),
            info: Default::default(),
        };
        market.execute(&Msg::CreateProvider(record)).unwrap();
    });
    let sdl = web();
    for dseq in 1..=leases {
        let created = TenantMsg::create_deployment(deployment(dseq), &sdl, "5000000uact".parse().unwrap());
        chain.tenant(created).unwrap();
        let bid = lease(dseq);
        chain.market(|market| {
            let create = Msg::CreateBid {
                id: bid.clone(),
                price: DecCoin::new(&"uact".into(), "1".parse().unwrap()),
                deposit: "500000uact".parse().unwrap(),
                resources_offer: market.order(&bid.order).unwrap().spec.resources.clone(),
                reclamation_window: None,
            };
            market.execute(&create).unwrap();
        });
        chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
    }
    chain
}

/// Starts a provider that has adopted all leases of the chain.
async fn provider(leases: u64) -> (MemoryChain, MemoryCluster, ProviderHandle) {
    let nodes = ClusterSpec::from_nodes([NodeSpec::new("node-1", 1_200_000, 64 << 40, 100 << 40)]);
    let mut prices = ScaleConfig::default();
    prices.cpu = "0.01".parse().unwrap();
    prices.storage = parse_storage_scales("0.00001").unwrap();
    let (chain, cluster) = (chain(leases), MemoryCluster::new(Facets::default()));
    let mut config = Config::new(ACCOUNT.parse().unwrap(), "local");
    config.static_hosts_domain = Some("ingress.localhost".to_owned());
    config.blocked_hostnames = vec!["blocked.example.com".to_owned()];
    let (provider, handle) = Provider::builder()
        .config(config)
        .chain(chain.clone())
        .cluster(cluster.clone())
        .inventory(StaticInventorySource::new(NodeInventory::new(&nodes)))
        .pricing(Scale::new(prices).unwrap())
        .bus(LocalBus::new())
        .build()
        .unwrap();
    tokio::spawn(provider.run(CancellationToken::new()));
    handle.wait_ready().await.unwrap();
    while handle.status().await.leases.len() as u64 != leases {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (chain, cluster, handle)
}

/// Returns the name and the labels of each sample in a scrape.
async fn samples(handle: &ProviderHandle, is_per_lease: bool) -> BTreeSet<String> {
    let metrics = Metrics::default();
    metrics.add(EngineSource::new(handle.clone(), 1_000, is_per_lease));
    metrics.refresh().await;
    let (text, _) = metrics.texts().unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    // The kinds of calls that a provider has made depend on the time since its start.
    let samples = samples.filter(|sample| !sample.contains("call=\""));
    samples
        .map(|sample| sample.rsplit_once(' ').unwrap().0.to_owned())
        .collect()
}

#[tokio::test]
async fn number_of_series_does_not_depend_on_the_number_of_leases() {
    let (few, many) = (provider(10).await.2, provider(1_000).await.2);
    let mut difference = BTreeSet::new();
    // A provider that has just started may not have made each kind of call.
    for _ in 0..100 {
        let (few, many) = (samples(&few, false).await, samples(&many, false).await);
        let of_lease = many
            .iter()
            .find(|sample| sample.contains("lease=\"") || sample.contains(TENANT));
        assert_eq!(of_lease, None);
        difference = few.symmetric_difference(&many).cloned().collect();
        if difference.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(difference, BTreeSet::new());
    let of_leases = samples(&many, true).await;
    let of_leases = of_leases.iter().filter(|sample| sample.contains("lease=\""));
    assert!(of_leases.count() >= 3_000, "the flag has no effect");
}
