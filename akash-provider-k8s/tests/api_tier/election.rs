//! Leader election with a Lease of a real API server and the rights of `deploy/operators/hostname.yaml`.

use crate::hostname_operator::{
    declare, give_rights, is_written, options, record, start_with, take_rights, writes,
};
use crate::world::{Fault, World, run};
use akash_provider_core::election::{Candidate, ElectionConfig, conformance};
use akash_provider_core::manifest::HttpOptions;
use akash_provider_k8s::election::{Election, LeaseElection, Timing};
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::hostname::HostnameOperator;
use akash_provider_operators::hostname::route::Mode;
use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const NAME: &str = "akash-operator-hostname";

/// Timing of the election. The intervals are long enough for API calls and short enough for a test.
fn timing() -> Timing {
    let mut timing = Timing::default();
    timing.lease = Duration::from_secs(4);
    timing.renew = Duration::from_millis(2_500);
    timing.retry = Duration::from_millis(250);
    timing
}

fn contend(world: &World, client: &Client, identity: &str) -> Arc<Election> {
    let me = Candidate::new(identity);
    let mut config = ElectionConfig::new(NAME, me, timing());
    config.may_be_alone = true;
    config.call_timeout = Duration::from_secs(1);
    Arc::new(Election::start(lease(world, client, NAME), config))
}

fn lease(world: &World, client: &Client, name: &str) -> LeaseElection {
    LeaseElection::new(
        client,
        &world.settings.manifest_namespace,
        name,
        Duration::from_secs(1),
    )
}

fn leads(election: &Election) -> bool {
    election.gate().term().is_some()
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.admin.clone(), &world.settings.manifest_namespace)
}

fn assert_single_leader(elections: Vec<Arc<Election>>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            // In reverse order, so that an election that starts after its check is not counted together with
            // one that ended before.
            let leaders: Vec<String> = elections
                .iter()
                .filter(|one| leads(one))
                .map(|one| one.status().identity)
                .collect();
            assert!(leaders.len() <= 1, "two leaders: {leaders:?}");
            sleep(Duration::from_millis(10)).await;
        }
    })
}

#[test]
fn one_instance_leads_and_another_takes_over_after_any_failure() {
    run("election", |world| {
        async move {
            // The rights arrive a moment late, as after a joint apply. No instance leads alone meanwhile.
            let first = contend(world, &world.client, "first");
            sleep(timing().retry * 2).await;
            assert!(!leads(&first), "{:?}", first.status());
            give_rights(world).await;
            world.until("first leads", || async { leads(&first) }).await;
            assert!(!first.status().is_alone, "{:?}", first.status());
            let second = contend(world, &world.client, "second");
            let watching = assert_single_leader(vec![first.clone(), second.clone()]);
            sleep(timing().lease + timing().retry * 2).await;
            assert!(
                leads(&first),
                "the first instance must stay the leader: {:?}",
                first.status()
            );
            assert_eq!(second.status().holder.as_deref(), Some("first"));
            let term = first.status().term;
            // A released Lease is taken without a wait.
            let started = Instant::now();
            first.release().await;
            world.until("second leads", || async { leads(&second) }).await;
            assert!(started.elapsed() < timing().lease, "{:?}", started.elapsed());
            assert_eq!(
                second.status().term,
                term.map(|term| term + 1),
                "{:?}",
                second.status()
            );
            watching.abort();
            assert!(watching.await.unwrap_err().is_cancelled(), "two leaders");
            let third = contend(world, &world.admin, "third");
            let watching = assert_single_leader(vec![second.clone(), third.clone()]);
            let other = || async { leads(&second) || leads(&third) };
            // A leader without connection steps down automatically, and the connected instance takes over,
            // whatever the Lease contains.
            world.break_line(Some(Fault::Cut));
            world.until("third leads", || async { leads(&third) }).await;
            assert!(second.status().error.is_some(), "{:?}", second.status());
            world.break_line(None);
            // The leader steps down if another holder is written manually. An instance leads again when that
            // holder does not renew.
            let by_hand =
                json!({"spec": {"holderIdentity": "somebody", "renewTime": "2020-01-01T00:00:00.000000Z"}});
            let params = PatchParams::default();
            leases(world)
                .patch(NAME, &params, &Patch::Merge(&by_hand))
                .await
                .unwrap();
            world
                .until("no leader", || async { !leads(&third) && !leads(&second) })
                .await;
            world.until("an instance leads again", other).await;
            // A deleted Lease is created again.
            leases(world)
                .delete(NAME, &DeleteParams::default())
                .await
                .unwrap();
            let is_there = || async { leases(world).get_opt(NAME).await.unwrap().is_some() };
            world.until("the Lease exists again", is_there).await;
            world.until("an instance leads", other).await;
            watching.abort();
            assert!(watching.await.unwrap_err().is_cancelled(), "two leaders");
            take_rights(world).await;
        }
        .boxed()
    });
}

/// Uses the default election lease and its documented fail-over limit.
#[test]
fn suspended_leader_is_replaced_in_time_without_response_to_takeover() {
    run("election-suspended", |world| {
        async move {
            give_rights(world).await;
            let contend = |client: &Client, identity: &str| {
                let me = Candidate::new(identity);
                let config = ElectionConfig::new(NAME, me, Timing::for_lease(Duration::from_secs(12)));
                let store = LeaseElection::new(
                    client,
                    &world.settings.manifest_namespace,
                    NAME,
                    config.call_timeout,
                );
                Election::start(store, config)
            };
            let handed_over = contend(&world.admin, "before");
            world
                .until("a record of the holder", || async {
                    handed_over.status().holder.is_some()
                })
                .await;
            handed_over.release().await;
            let first = contend(&world.admin, "first");
            world.until("first leads", || async { leads(&first) }).await;
            let second = contend(&world.client, "second");
            let knows = || async { second.status().holder.as_deref() == Some("first") };
            world.until("the second instance is standby", knows).await;
            world.break_line(Some(Fault::Hangs));
            // Without its task the leader renews no more, like a suspended process.
            drop(first);
            let suspended = Instant::now();
            world.until("second leads", || async { leads(&second) }).await;
            let took = suspended.elapsed();
            println!("the standby took over after {took:?}");
            assert!(took <= Duration::from_secs(15), "{took:?}");
            second.release().await;
        }
        .boxed()
    });
}

#[test]
fn lease_election_passes_conformance_suite() {
    run("election-conforms", |world| {
        async move {
            // With the rights of the provider for its one Lease.
            let [one, other] =
                [&world.client, &world.admin].map(|client| lease(world, client, "akash-provider"));
            let setup = conformance::Setup::default();
            conformance::suite(&one, &other, &setup).await;
        }
        .boxed()
    });
}

#[test]
fn instance_without_rights_to_leases_leads_alone_and_reports_it() {
    run("election-denied", |world| {
        async move {
            let alone = contend(world, &world.client, "alone");
            world
                .until("the instance leads", || async { leads(&alone) })
                .await;
            let status = alone.status();
            assert!(status.is_alone && status.term == Some(0), "{status:?}");
            assert!(status.error.is_some_and(|error| error.contains("leases")));
            // An unavailable API server is not a refusal, so no instance leads.
            world.break_line(Some(Fault::Cut));
            let waiting = contend(world, &world.client, "waiting");
            world
                .until("the error is reported", || async {
                    waiting.status().error.is_some()
                })
                .await;
            sleep(timing().lease * 2).await;
            assert!(!leads(&waiting), "{:?}", waiting.status());
            world.break_line(None);
        }
        .boxed()
    });
}

#[test]
fn only_one_of_two_hostname_operators_writes() {
    run("election-operators", |world| {
        async move {
            give_rights(world).await;
            let lease = world.lease(1, 1);
            record(world, &lease, &HttpOptions::default()).await;
            let elections = [
                contend(world, &world.client, "a"),
                contend(world, &world.client, "b"),
            ];
            let mut operators: Vec<HostnameOperator> = Vec::new();
            for election in &elections {
                let client = WriteClient::sharing(world.client.clone(), election.gate());
                operators.push(start_with(&client, options(world, Mode::default())).await);
            }
            world.take_calls();
            for n in 0..10 {
                declare(world, &lease, &format!("n{n}.example.com")).await;
            }
            let all = |operator: &HostnameOperator| {
                let names = (0..10).all(|n| is_written(operator, &format!("n{n}.example.com")));
                names && operator.status().busy == 0
            };
            let done = || async { operators.iter().any(all) };
            world.until("all hostnames have their routes", done).await;
            assert_eq!(writes(world, "ingresses").len(), 10);
            let written: Vec<u64> = operators.iter().map(|one| one.status().counts.written).collect();
            assert!(written.contains(&10) && written.contains(&0), "{written:?}");
            // A new leader finds all objects in the desired state.
            let (leader, heir) = if leads(&elections[0]) { (0, 1) } else { (1, 0) };
            operators[leader].stop().await;
            elections[leader].release().await;
            world
                .until("the other instance leads", || async { leads(&elections[heir]) })
                .await;
            declare(world, &lease, "late.example.com").await;
            let late = || async { is_written(&operators[heir], "late.example.com") };
            world.until("the other instance writes", late).await;
            assert_eq!(operators[heir].status().counts.written, 1);
            // Each object states the term in which it was written.
            let term = async |name: &str| {
                let route = world.get("Ingress", &lease.namespace(), name).await.unwrap();
                let term = route["metadata"]["annotations"]["provider.akash.network/operator-term"].as_str();
                term.map(str::to_owned)
            };
            assert_eq!(term("n1.example.com").await.as_deref(), Some("1"));
            assert_eq!(term("late.example.com").await.as_deref(), Some("2"));
            take_rights(world).await;
        }
        .boxed()
    });
}
