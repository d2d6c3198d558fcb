//! A provider on a market and a cluster in memory.

use super::*;
use akash_provider_core::Config;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::cluster::{Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::{NodeInventory, StaticInventorySource};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::pricing::scale::{Scale, ScaleConfig, parse_storage_scales};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{Bid, DeploymentId, LeaseId};
use std::collections::BTreeSet;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const BLOCK: Duration = Duration::from_secs(6);

struct World {
    chain: MemoryChain,
    cluster: MemoryCluster,
    handle: ProviderHandle,
    audit: Audit,
    settings: AuditSettings,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), akash_provider_core::Error>>,
    _home: TempDir,
}

impl World {
    async fn start() -> Self {
        let (home, settings) = home();
        let account: Address = ACCOUNT.parse().unwrap();
        let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
        chain.market(|market| {
            for account in [ACCOUNT, TENANT] {
                market.fund(&account.parse().unwrap(), &"100000000uact".parse().unwrap());
            }
            let record = ProviderRecord {
                owner: account.clone(),
                host_uri: "https://localhost:8443".into(),
                attributes: Vec::new(),
                info: Default::default(),
            };
            market.execute(&Msg::CreateProvider(record)).unwrap();
        });
        let nodes = ClusterSpec::from_nodes([NodeSpec::new("node-1", 8_000, 16 << 30, 100 << 30)]);
        let mut prices = ScaleConfig::default();
        prices.cpu = "0.01".parse().unwrap();
        prices.storage = parse_storage_scales("0.01").unwrap();
        let mut config = Config::new(account, "local");
        config.breaker_warmup = Duration::ZERO;
        config.withdrawal_period = Some(Duration::from_secs(60));
        config.balance_check_interval = Duration::from_secs(60);
        config.bid_timeout = Some(Duration::from_secs(60));
        config.static_hosts_domain = Some("ingress.localhost".to_owned());
        let cluster = MemoryCluster::new(Facets::default());
        let audit = crate::audit::start(settings.clone()).unwrap();
        let (provider, handle) = Provider::builder()
            .config(config)
            .chain(chain.clone())
            .cluster(cluster.clone())
            .inventory(StaticInventorySource::new(NodeInventory::new(&nodes)))
            .pricing(Scale::new(prices).unwrap())
            .bus(LocalBus::new())
            .audit_log(audit.clone())
            .build()
            .unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(provider.run(shutdown.clone()));
        handle.wait_ready().await.unwrap();
        Self {
            chain,
            cluster,
            handle,
            audit,
            settings,
            shutdown,
            running,
            _home: home,
        }
    }

    #[track_caller]
    fn until(&self, what: &'static str, done: impl Fn() -> bool) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            for _ in 0..2000 {
                if done() {
                    return;
                }
                self.chain.advance(BLOCK);
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            panic!(
                "{at}: {what}: condition not reached\n{:#?}",
                self.handle.status().await
            );
        }
    }

    fn bids(&self, id: &DeploymentId) -> Vec<Bid> {
        let of = |bid: &&Bid| bid.id.deployment() == id;
        self.chain
            .market(|market| market.bids().filter(of).cloned().collect())
    }

    async fn bid(&self, dseq: u64) -> (LeaseId, Sdl) {
        let sdl = sdl::parse(crate::trial::SAMPLE).unwrap();
        let id = DeploymentId::new(TENANT.parse().unwrap(), dseq);
        let created = TenantMsg::create_deployment(id.clone(), &sdl, "5000000uact".parse().unwrap());
        self.chain.tenant(created).unwrap();
        self.until("a bid", || !self.bids(&id).is_empty()).await;
        (self.bids(&id)[0].id.clone(), sdl)
    }

    async fn lease(&self, dseq: u64) -> LeaseId {
        let (bid, sdl) = self.bid(dseq).await;
        self.chain
            .tenant(TenantMsg::CreateLease { bid: bid.clone() })
            .unwrap();
        self.chain.advance(BLOCK);
        while !self.handle.has_lease(&bid).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let manifest = Arc::new(sdl.manifest);
        let submitted = self.handle.submit_manifest(bid.deployment(), manifest, sdl.hash);
        submitted.await.unwrap();
        self.until("a workload", || self.has_workload(&bid)).await;
        bid
    }

    fn has_workload(&self, lease: &LeaseId) -> bool {
        self.cluster.contents().running.contains_key(lease)
    }

    fn lines(&self) -> Vec<AuditLine> {
        if !self.settings.dir.is_dir() {
            return Vec::new();
        }
        lines(&self.settings.dir).0
    }

    fn has_outcome(&self, act: &str, result: &str) -> bool {
        let is_it = |line: &AuditLine| {
            line.act == act
                && line
                    .outcome
                    .as_ref()
                    .is_some_and(|outcome| outcome.result == result)
        };
        self.lines().iter().any(is_it)
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
        self.audit.finish().await;
    }
}

#[tokio::test]
async fn each_act_of_a_provider_has_an_intent_before_its_outcome() {
    let world = World::start().await;
    let lease = world.lease(1).await;
    drop(world.bid(2).await);
    for (act, result) in [("withdrawal", "committed"), ("bid_close", "committed")] {
        world.until(act, || world.has_outcome(act, result)).await;
    }
    world
        .handle
        .end_lease(&lease, CloseReason::Decommission)
        .await
        .unwrap();
    world
        .until("teardown", || world.has_outcome("teardown", "done"))
        .await;
    let lines = world.lines();
    let acts: BTreeSet<&str> = lines.iter().map(|line| &*line.act).collect();
    let expected = ["bid", "bid_close", "lease_close", "teardown", "withdrawal"];
    assert_eq!(acts, expected.into());
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.stage == AuditStage::Outcome)
    {
        let is_intent = |other: &AuditLine| other.id == line.id && other.stage == AuditStage::Intent;
        assert_eq!(
            lines[..at].iter().filter(|other| is_intent(other)).count(),
            1,
            "{line:?}"
        );
    }
    let first = |act: &str| lines.iter().find(|line| line.act == act).unwrap();
    let reasons = expected.map(|act| first(act).reason.as_deref());
    let reasons_expected = [
        "open_order",
        "timeout",
        "decommission",
        "decommission",
        "payout_due",
    ];
    assert_eq!(reasons, reasons_expected.map(Some));
    for act in ["bid", "lease_close", "teardown", "withdrawal"] {
        assert_eq!(first(act).subject, lease.to_string(), "{act}");
    }
    let evidence = |act: &str| serde_json::to_value(&first(act).evidence).unwrap();
    assert!(evidence("bid")["price"].as_str().unwrap().ends_with("uact"));
    assert_eq!(evidence("bid")["deposit"], "500000uact");
    let teardown = evidence("teardown");
    assert_eq!(teardown["report"]["source"], "chain");
    assert_eq!(
        (&teardown["record"]["state"], &teardown["record"]["reason"]),
        (&"closed".into(), &"decommission".into())
    );
    let (report, record) = (&teardown["report"]["height"], &teardown["record"]["height"]);
    assert!(report.as_u64() < record.as_u64(), "{teardown}");
    world.stop().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_written_delays_teardowns_and_nothing_else() {
    let world = World::start().await;
    let lease = world.lease(1).await;
    world
        .until("the first lines", || world.has_outcome("bid", "committed"))
        .await;
    // A file in place of the directory fails every write.
    while fs::write(&world.settings.dir, "").is_err() {
        // The writer may create the directory again in between.
        drop(fs::remove_dir_all(&world.settings.dir));
    }
    let id = lease.deployment().clone();
    world.chain.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    let is_delayed = || world.audit.health().delayed > 0;
    world.until("a delayed teardown", is_delayed).await;
    // A bid and a lease of another tenant are served.
    let other = world.lease(2).await;
    let withdrawn = || {
        world.chain.market(|market| {
            let lease = market.leases().find(|record| record.lease.id == other);
            lease
                .and_then(|record| record.payment)
                .is_some_and(|payment| payment.withdrawn.amount > 0)
        })
    };
    world.until("a withdrawal", withdrawn).await;
    assert!(world.has_workload(&lease), "torn down without a line in the log");
    assert!(world.audit.health().problem.is_some());
    fs::remove_file(&world.settings.dir).unwrap();
    world.until("the teardown", || !world.has_workload(&lease)).await;
    world
        .until("the outcome", || world.has_outcome("teardown", "done"))
        .await;
    let health = world.audit.health();
    assert_eq!((health.problem, health.dropped), (None, 0));
    // The lines of the time without the directory were retained.
    let is_bid = |line: &AuditLine| line.act == "bid" && line.subject == other.to_string();
    assert_eq!(world.lines().iter().filter(|line| is_bid(line)).count(), 2);
    world.stop().await;
}
