use super::*;
use crate::bus::Bus;
use crate::chain::ChainClient;
use crate::cluster::{Cluster, ExecIo, ExecRequest, Hostnames};
use crate::inventory::{InventorySource, LeasedIpUsage};
use crate::pricing::{PriceRequest, PricingStrategy};
use crate::types::{Dec, DecCoin, Topic};
use futures::{StreamExt, stream};
use std::sync::Arc;

const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn lease() -> LeaseId {
    format!("{OWNER}/1/1/1/{PROVIDER}").parse().unwrap()
}

#[tokio::test]
async fn facets_are_mocked_behind_a_mocked_cluster() {
    let mut hostnames = MockHostnames::new();
    hostnames.expect_all_hostnames().once().returning(|| Ok(vec![]));
    let hostnames: Arc<dyn Hostnames> = Arc::new(hostnames);
    let mut ips = MockLeasedIps::new();
    ips.expect_usage()
        .once()
        .returning(|| Ok(LeasedIpUsage::default()));
    let mut shell = MockShell::new();
    shell.expect_exec().once().returning(|_, _, _| Ok(7));
    let mut cluster = MockCluster::new();
    cluster.expect_hostnames().once().return_once(|| Some(hostnames));
    cluster
        .expect_leased_ips()
        .once()
        .return_once(|| Some(Arc::new(ips)));
    cluster
        .expect_shell()
        .once()
        .return_once(|| Some(Arc::new(shell)));
    cluster
        .expect_changes()
        .once()
        .returning(|| stream::empty().boxed());
    let cluster: Arc<dyn Cluster> = Arc::new(cluster);
    assert_eq!(cluster.hostnames().unwrap().all_hostnames().await.unwrap(), []);
    assert_eq!(cluster.leased_ips().unwrap().usage().await.unwrap().total, 0);
    let io = ExecIo {
        stdin: None,
        stdout: Box::new(tokio::io::sink()),
        stderr: Box::new(tokio::io::sink()),
        resize: stream::empty().boxed(),
    };
    let code = cluster
        .shell()
        .unwrap()
        .exec(&lease(), ExecRequest::default(), io)
        .await;
    assert_eq!(code.unwrap(), 7);
    assert!(cluster.changes().next().await.is_none());
}

#[tokio::test]
async fn a_mocked_chain_client_is_a_chain_client() {
    let mut chain = MockChainClient::new();
    let outcome = TxOutcome::Committed { height: 3 };
    let returned = outcome.clone();
    chain.expect_broadcast_msgs().once().return_once(|_| Ok(returned));
    chain.expect_certificates().once().returning(|_, _| Ok(vec![]));
    chain
        .expect_subscribe()
        .once()
        .returning(|_| stream::empty().boxed());
    let chain: Arc<dyn ChainClient> = Arc::new(chain);
    let msg = Msg::WithdrawLease { id: lease() };
    assert_eq!(chain.broadcast_msgs(vec![msg]).await.unwrap(), outcome);
    let owner = OWNER.parse().unwrap();
    assert_eq!(chain.certificates(&owner, None).await.unwrap(), []);
    assert!(chain.subscribe(&owner).next().await.is_none());
}

#[tokio::test]
async fn bus_pricing_and_inventory_are_mocked() {
    let mut bus = MockBus::new();
    bus.expect_last().once().returning(|_| Ok(None));
    let bus: Arc<dyn Bus> = Arc::new(bus);
    assert_eq!(bus.last(Topic::ClusterStatus).await.unwrap(), None);

    let price = DecCoin::new(&"uact".into(), Dec::from_int(5));
    let answer = price.clone();
    let mut pricing = MockPricingStrategy::new();
    pricing
        .expect_calculate_price()
        .once()
        .return_once(|_| Ok(answer));
    let group = crate::types::GroupSpec {
        name: "dc".to_owned(),
        requirements: crate::types::PlacementRequirements::default(),
        resources: Vec::new(),
    };
    let request = PriceRequest {
        owner: OWNER.parse().unwrap(),
        group: Arc::new(group),
        allocated: None,
        precision: 6,
        utilization: None,
        height: None,
    };
    let pricing: Arc<dyn PricingStrategy> = Arc::new(pricing);
    assert_eq!(pricing.calculate_price(&request).await.unwrap(), price);

    let mut source = MockInventorySource::new();
    source.expect_watch().once().returning(|| stream::empty().boxed());
    let source: Arc<dyn InventorySource> = Arc::new(source);
    assert!(source.watch().next().await.is_none());
}
