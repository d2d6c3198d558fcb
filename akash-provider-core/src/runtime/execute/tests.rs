mod audit;

use super::*;
use crate::cluster::{HostnameDeclaration, IpDeclaration, Teardown, WorkloadSpec};
use crate::manifest::Proto;
use crate::runtime::fakes::{self, Does, FakeChain, FakeCluster, FakePricing, Script, lease};
use crate::types::{CloseReason, GroupSpec};
use std::sync::atomic::Ordering;
use tokio::time::Instant;

fn executor_of(cluster: FakeCluster, script: &Arc<Script>) -> Executor {
    let chain = FakeChain {
        script: Arc::clone(script),
        ..FakeChain::default()
    };
    let ports = Ports {
        cluster: Arc::new(cluster),
        chain: Arc::new(chain),
        pricing: Arc::new(FakePricing(Arc::clone(script))),
    };
    Executor::new(ports, &fakes::config())
}

fn with_facets(script: &Arc<Script>, declared: Vec<IpDeclaration>) -> Executor {
    let cluster = FakeCluster {
        script: Arc::clone(script),
        facets: true,
        declared,
        ..FakeCluster::default()
    };
    executor_of(cluster, script)
}

fn ip(key: &str) -> IpDeclaration {
    IpDeclaration {
        service: "web".into(),
        port: 80,
        external_port: 80,
        proto: Proto::default(),
        sharing_key: key.into(),
    }
}

fn deployment() -> Arc<WorkloadSpec> {
    let hostname = |name: &str| HostnameDeclaration::new(name, "web", 80);
    Arc::new(WorkloadSpec {
        hostnames: vec![hostname("a.example"), hostname("b.example")],
        ips: vec![ip("kept"), ip("new")],
        ..fakes::workload(1)
    })
}

fn all_calls() -> Vec<(Call, &'static str)> {
    let bid = lease(1);
    let close = Msg::CloseBid {
        id: bid.clone(),
        reason: CloseReason::Unspecified,
    };
    let request = crate::pricing::PriceRequest {
        owner: fakes::TENANT.parse().unwrap(),
        group: Arc::new(GroupSpec::new("g", Vec::new())),
        allocated: None,
        precision: 6,
        utilization: None,
        height: None,
    };
    let deploy = Call::Deploy {
        deployment: deployment(),
        purge_hostnames: Vec::new(),
    };
    vec![
        (Call::FetchOrder(bid.order.clone()), "order"),
        (Call::FetchProvider, "provider"),
        (Call::FetchBalances(vec!["uakt".into()]), "balance"),
        (Call::FetchAudit("auditor".into()), "audit"),
        (Call::FetchBid(bid.clone()), "bid"),
        (Call::FetchLease(bid.clone()), "lease"),
        (Call::FetchDeployment(bid.deployment().clone()), "deployment"),
        (Call::FetchSnapshot, "snapshot"),
        (Call::CalculatePrice(request), "price"),
        (Call::Broadcast(close), "broadcast"),
        (Call::Record(deployment()), "record"),
        (deploy, "deploy"),
        (Call::Teardown(bid.clone()), "teardown"),
        (Call::ListWorkloads, "deployments"),
        (Call::CountBids(bid.order), "bids"),
    ]
}

fn broadcast() -> Call {
    let mut calls = all_calls().into_iter();
    calls.find(|(_, name)| *name == "broadcast").unwrap().0
}

/// Returns true if the completion reports a failure. Returns `None` if the completion does not belong to this
/// kind of call.
fn fits(call: &Call, completion: &Completion) -> Option<bool> {
    Some(match (call, completion) {
        (Call::FetchOrder(_), Completion::Order(r)) => r.is_err(),
        (Call::CountBids(_), Completion::BidCount(r)) => r.is_err(),
        (Call::FetchProvider, Completion::Provider(r)) => r.is_err(),
        (Call::FetchBalances(_), Completion::Balances(r)) => r.is_err(),
        (Call::FetchAudit(_), Completion::Audit(r)) => r.is_err(),
        (Call::FetchBid(_), Completion::Bid(r)) => r.is_err(),
        (Call::FetchLease(_), Completion::Lease(r)) => r.is_err(),
        (Call::FetchDeployment(_), Completion::Deployment(r)) => r.is_err(),
        (Call::FetchSnapshot, Completion::Snapshot(r)) => r.is_err(),
        (Call::CalculatePrice(_), Completion::Price(r)) => r.is_err(),
        (Call::Broadcast(_), Completion::Tx(r)) => !matches!(r, Ok(TxOutcome::Committed { .. })),
        (Call::Record(_) | Call::Deploy { .. }, Completion::Cluster(r)) => r.is_err(),
        (Call::Teardown(_), Completion::Teardown(r)) => r.is_err(),
        (Call::ListWorkloads, Completion::Workloads(r)) => r.is_err(),
        _ => return None,
    })
}

async fn one(executor: &mut Executor, call: Call, block_time: i64) -> Completion {
    executor.start(EffectId(9), call, None);
    let (id, completion) = executor.next(&BlockTime(block_time)).await.unwrap();
    assert_eq!(id, EffectId(9));
    assert!(executor.in_flight().is_empty());
    completion
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_in_one_completion_of_its_kind() {
    let unavailable = Does::Fail(ErrorKind::Unavailable);
    for does in [Does::Answer, Does::Hang, Does::Panic, unavailable] {
        for (call, name) in all_calls() {
            let script = Arc::new(Script::default());
            script.set(name, does);
            let mut executor = with_facets(&script, Vec::new());
            let completion = one(&mut executor, call.clone(), 0).await;
            let failed = fits(&call, &completion);
            assert_eq!(
                failed,
                Some(does != Does::Answer),
                "call {name}, port {does:?}: unexpected completion {completion:?}"
            );
            assert!(
                executor.try_next(BlockTime(0)).is_none(),
                "{name}: unexpected second completion"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_class_of_calls_has_its_own_limit() {
    let config = fakes::config();
    for (call, name) in all_calls() {
        let limit = match &call {
            Call::Broadcast(_) => config.tx_timeout,
            Call::CalculatePrice(_) => config.pricing_timeout,
            Call::Record(_) | Call::Deploy { .. } | Call::Teardown(_) | Call::ListWorkloads => {
                config.cluster_timeout
            }
            _ => config.query_timeout,
        };
        let script = Arc::new(Script::default());
        script.set(name, Does::Hang);
        let started = Instant::now();
        one(&mut with_facets(&script, Vec::new()), call, 0).await;
        assert_eq!(started.elapsed().as_secs(), limit.as_secs(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_a_response_is_unknown_and_not_an_error() {
    let tx_timeout = fakes::config().tx_timeout;
    let expires = BlockTime(5_000).plus(tx_timeout).plus(Duration::from_secs(60));
    for does in [Does::Hang, Does::Panic, Does::Fail(ErrorKind::Timeout)] {
        let script = Arc::new(Script::default());
        script.set("broadcast", does);
        let completion = one(&mut with_facets(&script, Vec::new()), broadcast(), 5_000).await;
        assert_eq!(
            completion,
            Completion::Tx(Ok(TxOutcome::Unknown { expires })),
            "{does:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_refused_by_its_port_was_not_sent() {
    let script = Arc::new(Script::default());
    script.set("broadcast", Does::Fail(ErrorKind::Unavailable));
    let completion = one(&mut with_facets(&script, Vec::new()), broadcast(), 0).await;
    let Completion::Tx(Err(failure)) = completion else {
        panic!("{completion:?}")
    };
    assert_eq!((failure.kind, failure.transient), (ErrorKind::Unavailable, true));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_transient_failure_with_its_text() {
    let script = Arc::new(Script::default());
    script.set("record", Does::Panic);
    let completion = one(
        &mut with_facets(&script, Vec::new()),
        Call::Record(deployment()),
        0,
    )
    .await;
    let Completion::Cluster(Err(failure)) = completion else {
        panic!("{completion:?}")
    };
    assert_eq!((failure.kind, failure.transient), (ErrorKind::Internal, true));
    assert!(failure.message.contains("scripted panic in record"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn deploy_declares_names_and_then_removes_outdated_ones() {
    let script = Arc::new(Script::default());
    let mut executor = with_facets(&script, vec![ip("kept"), ip("old")]);
    let call = Call::Deploy {
        deployment: deployment(),
        // A name that is declared again is not removed, regardless of the list.
        purge_hostnames: vec!["old.example".into(), "b.example".into()],
    };
    assert_eq!(one(&mut executor, call, 0).await, Completion::Cluster(Ok(())));
    let expected = [
        "deploy 1",
        "declare a.example",
        "declare b.example",
        "declare-ip kept",
        "declare-ip new",
        "purge old.example",
        "purge-ip old",
    ];
    assert_eq!(script.log(), expected);
}

#[tokio::test(start_paused = true)]
async fn deploy_fails_when_a_declaration_or_a_purge_fails() {
    for name in ["declare", "declare-ip", "purge", "purge-ip"] {
        let script = Arc::new(Script::default());
        script.set(name, Does::Fail(ErrorKind::Unavailable));
        let mut executor = with_facets(&script, vec![ip("old")]);
        let call = Call::Deploy {
            deployment: deployment(),
            purge_hostnames: vec!["old.example".into()],
        };
        let completion = one(&mut executor, call, 0).await;
        assert!(matches!(completion, Completion::Cluster(Err(_))), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leased_ip_held_by_another_lease_of_the_tenant_does_not_fail_the_deploy() {
    let script = Arc::new(Script::default());
    script.set("declare-ip", Does::Fail(ErrorKind::Conflict));
    let call = Call::Deploy {
        deployment: deployment(),
        purge_hostnames: Vec::new(),
    };
    let completion = one(&mut with_facets(&script, Vec::new()), call, 0).await;
    assert_eq!(completion, Completion::Cluster(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn w39_a_teardown_runs_every_step_and_is_done_only_if_all_are_done() {
    let parts = ["teardown", "purge-hostnames", "purge-ips"];
    for failing in parts {
        let script = Arc::new(Script::default());
        script.set(failing, Does::Fail(ErrorKind::Unavailable));
        let completion = one(&mut with_facets(&script, Vec::new()), Call::Teardown(lease(1)), 0).await;
        assert!(matches!(completion, Completion::Teardown(Err(_))), "{failing}");
        assert_eq!(script.log().len(), parts.len(), "{failing}: {:?}", script.log());
    }
    let script = Arc::new(Script::default());
    script.set("teardown", Does::NotYet);
    let completion = one(&mut with_facets(&script, Vec::new()), Call::Teardown(lease(1)), 0).await;
    assert_eq!(completion, Completion::Teardown(Ok(Teardown::InProgress)));
}

#[tokio::test(start_paused = true)]
async fn a_backend_without_facets_gets_no_facet_calls() {
    let script = Arc::new(Script::default());
    let cluster = FakeCluster {
        script: Arc::clone(&script),
        ..FakeCluster::default()
    };
    let mut executor = executor_of(cluster, &script);
    let call = Call::Deploy {
        deployment: deployment(),
        purge_hostnames: vec!["old.example".into()],
    };
    assert_eq!(one(&mut executor, call, 0).await, Completion::Cluster(Ok(())));
    one(&mut executor, Call::Teardown(lease(1)), 0).await;
    one(&mut executor, Call::ListWorkloads, 0).await;
    assert_eq!(script.log(), ["deploy 1", "teardown 1", "deployments "]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_queries_are_limited_and_do_not_delay_transactions() {
    let script = Arc::new(Script::default());
    script.set("order", Does::Hang);
    let mut executor = with_facets(&script, Vec::new());
    for id in 0..500 {
        executor.start(EffectId(id), Call::FetchOrder(lease(id).order), None);
    }
    let (broadcast, _) = all_calls().remove(8);
    executor.start(EffectId(1_000), broadcast, None);
    let (id, _) = executor.next(&BlockTime(0)).await.unwrap();
    assert_eq!(id, EffectId(1_000));
    assert_eq!(executor.in_flight().len(), 500);
    assert_eq!(script.most_running.load(Ordering::SeqCst), QUERIES + 1);
    let mut ended = 0;
    while executor.next(&BlockTime(0)).await.is_some() {
        ended += 1;
    }
    assert_eq!(ended, 500, "queued calls must not start while every call hangs");
}

#[tokio::test(start_paused = true)]
async fn addresses_are_listed_with_workloads() {
    let script = Arc::new(Script::default());
    let mut executor = with_facets(&script, vec![ip("front")]);
    let listed = one(&mut executor, Call::ListWorkloads, 0).await;
    let Completion::Workloads(Ok(workloads)) = listed else {
        panic!("{listed:?}");
    };
    assert_eq!(workloads.ips, Some(vec![(lease(1), vec![ip("front")])]));
}
