//! Faults of the chain, the cluster and the tenants, and their counters in a scrape.

use super::*;
use akash_provider_core::chain::{BroadcastResult, ChainTx, QueryOutage};
use akash_provider_core::cluster::{Health, Operation};
use akash_provider_core::engine::RefusalKind;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::Manifest;
use akash_provider_core::types::CloseReason;

const STEP: Duration = Duration::from_millis(100);
const MINUTE: Duration = Duration::from_secs(60);

struct World {
    chain: MemoryChain,
    cluster: MemoryCluster,
    handle: ProviderHandle,
    metrics: Metrics,
}

impl World {
    /// Makes blocks until a scrape has these lines.
    async fn until(&self, lines: &str) {
        for _ in 0..1_000 {
            self.metrics.refresh().await;
            if self.metrics.missing(lines).is_empty() {
                return;
            }
            self.chain.advance(STEP);
            tokio::time::sleep(STEP).await;
        }
        self.metrics.check(lines);
    }

    fn order(&self, dseq: u64, sdl: &Sdl) {
        let created = TenantMsg::create_deployment(deployment(dseq), sdl, "5000000uact".parse().unwrap());
        self.chain.tenant(created).unwrap();
    }

    fn close(&self, dseq: u64) {
        let id = deployment(dseq);
        self.chain.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    }

    /// Wins an order and gets no manifest.
    async fn unused_lease(&self) {
        // The cluster has no record of the adopted leases, so the provider does not close a lease.
        self.handle.release_breaker().await.unwrap();
        self.order(31, &web());
        self.until(r#"akash_provider_bids_total{action="open",result="success"} 1.0"#)
            .await;
        self.chain
            .tenant(TenantMsg::CreateLease { bid: lease(31) })
            .unwrap();
        self.until(r#"akash_provider_order_outcomes_total{outcome="won"} 1.0"#)
            .await;
        for _ in 0..300 {
            self.chain.advance(10 * STEP);
            tokio::time::sleep(10 * STEP).await;
        }
        self.until(r#"akash_provider_lease_ends_total{reason="manifest_timeout"} 1.0"#)
            .await;
    }

    /// Omits two blocks, and then repeats one.
    async fn block_faults(&self) {
        self.chain
            .market(|market| [(); 2].map(|()| market.end_block(STEP)));
        self.chain.advance(STEP);
        let before = self.chain.market(|market| market.clone());
        self.chain.advance(STEP);
        self.chain.market(|market| *market = before);
        let lines = r#"
            akash_provider_engine_gaps_total 1.0
            akash_provider_engine_missed_blocks_total 2.0
            akash_provider_engine_repeated_blocks_total 1.0
            akash_provider_scan_starts_total{kind="full",reason="gap"} 1.0"#;
        self.until(lines).await;
    }

    /// Sends manifests that are refused, and one with two failed deploys.
    async fn manifest_faults(&self) {
        let sdl = web();
        let submit = async |dseq, change: fn(&mut Manifest), hash: [u8; 32]| {
            let mut manifest = sdl.manifest.clone();
            change(&mut manifest);
            let id = deployment(dseq);
            let submitted = self.handle.submit_manifest(&id, Arc::new(manifest), hash).await;
            submitted.map_err(|refusal| refusal.kind)
        };
        self.cluster
            .fail_next(Operation::Deploy, 2, ErrorKind::Unavailable);
        assert_eq!(submit(1, |_| {}, sdl.hash).await, Ok(()));
        let host: fn(&mut Manifest) = |manifest| {
            manifest.groups[0].services[0].expose[0].hosts = Some(vec!["blocked.example.com".to_owned()]);
        };
        let count: fn(&mut Manifest) = |manifest| manifest.groups[0].services[0].count = 9;
        for (dseq, change, hash, kind) in [
            (2, host, sdl.hash, RefusalKind::Hostname),
            (9, |_| {}, sdl.hash, RefusalKind::NoLease),
            (2, |_| {}, [0; 32], RefusalKind::VersionMismatch),
            (3, |_| {}, [1; 32], RefusalKind::VersionMismatch),
            (2, count, sdl.hash, RefusalKind::CrossValidation),
        ] {
            assert_eq!(submit(dseq, change, hash).await, Err(kind));
        }
        let lines = r#"
            akash_provider_manifests_total{result="accepted"} 1.0
            akash_provider_manifests_total{result="hostname"} 1.0
            akash_provider_manifests_total{result="no_lease"} 1.0
            akash_provider_manifests_total{result="version_mismatch"} 2.0
            akash_provider_manifests_total{result="cross_validation"} 1.0
            akash_provider_calls_total{call="deploy",result="fail"} 2.0
            akash_provider_calls_total{call="deploy",result="success"} 1.0
            provider_deployment{action="deploy",result="fail"} 2.0
            provider_deployment{action="reserve-hostnames",result="err"} 1.0"#;
        self.until(lines).await;
    }

    /// Makes a workload unhealthy, lets a scan fail, and ends a lease without an event.
    async fn scan_faults(&self) {
        assert!(self.cluster.set_health(&lease(1), Health::Bad));
        self.chain.fail_queries(QueryOutage::Next(1));
        self.handle.scan(true).await.unwrap_err();
        let id = deployment(3);
        let closed = self
            .chain
            .market(|market| market.tenant(TenantMsg::CloseDeployment { id }));
        closed.unwrap();
        assert_eq!(self.handle.scan(false).await.unwrap().len(), 1);
        let lines = r#"
            akash_provider_health_changes_total{health="bad"} 1.0
            akash_provider_scans_total{result="fail"} 1.0
            akash_provider_calls_total{call="fetch_snapshot",result="fail"} 1.0
            akash_provider_scan_findings_total 1.0
            akash_provider_leases_closed_total 1.0"#;
        self.until(lines).await;
        let reason = CloseReason::Unspecified;
        self.handle.end_lease(&lease(2), reason).await.unwrap();
        let lines = r#"
            akash_provider_lease_ends_total{reason="unspecified"} 1.0
            akash_provider_leases_closed_total 2.0"#;
        self.until(lines).await;
    }

    /// Creates an order that cannot be read, and one that does not fit.
    async fn order_faults(&self) {
        self.chain.fail_queries(QueryOutage::UntilRestored);
        self.order(11, &web());
        let lines = r#"
            akash_provider_order_evaluations_total{result="fail"} 1.0
            provider_should_bid{result="fail"} 1.0"#;
        self.until(lines).await;
        self.close(11);
        self.chain.restore_queries();
        let mut large = web();
        large.groups[0].resources[0].resources.cpu.units = 300_000;
        large.groups[0].resources[0].count = 5;
        self.order(12, &large);
        let lines = r#"akash_provider_reservations_total{action="open",result="fail"} 1.0"#;
        self.until(lines).await;
        self.close(12);
    }

    /// Loses transactions that open and close bids. Another program closes the last bid.
    async fn bid_faults(&self) {
        const OPENED: &str = r#"akash_provider_bids_total{action="open",result="success"}"#;
        self.chain.set_next_broadcast(BroadcastResult::NotSent);
        self.order(21, &web());
        self.until(r#"akash_provider_bids_total{action="open",result="fail"} 1.0"#)
            .await;
        self.until(&format!("{OPENED} 1.0")).await;
        let unknown = BroadcastResult::Unknown {
            included_after: Some(0),
        };
        self.chain.set_next_broadcast(unknown);
        self.order(22, &web());
        self.until(r#"akash_provider_bids_total{action="open",result="unknown"} 1.0"#)
            .await;
        self.close(21);
        self.close(22);
        self.order(23, &web());
        self.until(&format!("{OPENED} 2.0\nprovider_order_manager 1.0"))
            .await;
        self.chain.set_next_broadcast(BroadcastResult::NotSent);
        self.chain.advance(6 * MINUTE);
        self.until(r#"akash_provider_bids_total{action="close",result="fail"} 1.0"#)
            .await;
        self.close(23);
        self.until(r#"provider_bid{action="close",result="fail"} 1.0"#)
            .await;
        self.order(24, &web());
        self.until(&format!("{OPENED} 3.0")).await;
        let reason = CloseReason::Unspecified;
        let (chain, close) = (
            self.chain.clone(),
            Msg::CloseBid {
                id: lease(24),
                reason,
            },
        );
        tokio::spawn(async move { chain.broadcast_msgs(vec![close]).await });
        let lines = r#"
            akash_provider_order_outcomes_total{outcome="closed"} 1.0
            provider_order_complete{result="bid-closed-external"} 1.0"#;
        self.until(lines).await;
    }

    /// Loses the transaction of a withdrawal, and lets three teardowns fail.
    async fn lease_faults(&self) {
        self.chain.set_next_broadcast(BroadcastResult::NotSent);
        self.chain.advance(25 * 60 * MINUTE);
        self.until(r#"akash_provider_withdrawals_total{result="fail"} 1.0"#)
            .await;
        self.cluster
            .fail_next(Operation::Teardown, 3, ErrorKind::Unavailable);
        let reason = CloseReason::Decommission;
        self.handle.end_lease(&lease(1), reason).await.unwrap();
        let lines = r#"
            akash_provider_lease_ends_total{reason="decommission"} 1.0
            akash_provider_calls_total{call="teardown",result="fail"} 3.0
            provider_deployment{action="teardown",result="fail"} 3.0
            akash_provider_leases_closed_total 3.0"#;
        self.until(lines).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_of_chain_cluster_and_tenants_is_counted_in_a_scrape() {
    let (chain, cluster, handle) = provider(3).await;
    let metrics = Metrics::of(EngineSource::new(handle.clone(), 1_000, false));
    let world = World {
        chain,
        cluster,
        handle,
        metrics,
    };
    world.until("akash_provider_leases_adopted_total 3.0").await;
    world.unused_lease().await;
    world.block_faults().await;
    world.manifest_faults().await;
    world.scan_faults().await;
    world.order_faults().await;
    world.bid_faults().await;
    world.lease_faults().await;
}

#[test]
fn scrape_has_the_number_of_inputs_that_the_engine_did_not_expect() {
    let mut status = Status::default();
    status.unexpected_inputs = 7;
    let values = Values {
        status: &status,
        counts: &ProviderStatistics::default(),
        external_ports: 0,
    };
    Metrics::of(state::measures(&values)).check("akash_provider_unexpected_inputs_total 7.0");
}
