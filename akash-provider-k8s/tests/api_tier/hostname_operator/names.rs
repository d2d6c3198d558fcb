//! Checks of hostnames: HTTP probes, and proof of ownership by DNS.

use super::*;
use akash_provider_core::cluster::{Cluster, HostnameDeclaration, HostnameNotes, ReachState};
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_kube_model::crd::notes::ProofState;
use akash_provider_operators::hostname::index::ProofRule;
use akash_provider_operators::hostname::probe::{Probe, ProbeRequest, ProbeResponse, Prober};
use akash_provider_operators::hostname::proof::{ProofConfig, TxtLookup, record as proof_record};
use akash_provider_operators::hostname::schedule::CheckRate;
use async_trait::async_trait;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const NAME: &str = "shop.example.com";
const AUTOMATIC: &str = "abc.ingress.test";

const BUDGET: CheckRate = CheckRate {
    every: Duration::from_secs(1),
    per_minute: 6_000,
};

/// Declares the hostname in the same way as the provider. The lease status then contains the hostname.
async fn declare_by(cluster: &KubeCluster, lease: &LeaseId) {
    let name = HostnameDeclaration::new(NAME.to_owned(), "web", 80);
    let names = cluster.hostnames().unwrap();
    names.declare_hostname(lease, &name).await.unwrap();
}

/// A DNS zone with records set by the test.
#[derive(Debug, Default)]
struct Zone(Mutex<BTreeMap<String, Result<Vec<String>, String>>>);

impl Zone {
    fn set(&self, name: &str, says: Result<Vec<String>, String>) {
        self.0.lock().unwrap().insert(name.to_owned(), says);
    }
}

#[async_trait]
impl TxtLookup for Zone {
    async fn txt(&self, name: &str) -> Result<Vec<String>, String> {
        self.0
            .lock()
            .unwrap()
            .get(name)
            .cloned()
            .unwrap_or_else(|| Ok(Vec::new()))
    }
}

async fn hostname_notes(cluster: &KubeCluster, lease: &LeaseId) -> HostnameNotes {
    let status = cluster.lease_status(lease).await.unwrap();
    let web = &status.services["web"];
    web.hostnames.get(NAME).cloned().unwrap_or_default()
}

/// Returns the options of an operator that requires a DNS TXT record for the hostname.
fn proving(world: &World, zone: &Arc<Zone>) -> HostnameOperatorOptions {
    let mut plan = RoutePlan::default();
    plan.proof = Some(ProofRule {
        own_domain: "ingress.test".to_owned(),
    });
    let mut options = options(world, plan);
    options.proving = Some(ProofConfig::new(Arc::clone(zone) as Arc<dyn TxtLookup>, BUDGET));
    options
}

/// Asserts that a proof survives DNS failures, and is withdrawn only when DNS returns no record.
async fn through_an_outage(
    world: &World,
    zone: &Arc<Zone>,
    operator: HostnameOperator,
    txt: &str,
    value: &str,
) {
    let home = world.lease(1, 1).namespace();
    zone.set(txt, Err("no server responds".to_owned()));
    tokio::time::sleep(BUDGET.every * 3).await;
    assert!(is_written(&operator, NAME), "a failed query removes no route");
    // The route also survives a restart, which reads the proof from the note.
    operator.stop().await;
    drop(operator);
    let operator = start(&world.client, proving(world, zone)).await;
    let is_routed = || async { is_written(&operator, NAME) };
    world
        .until("the hostname stays routed after a restart", is_routed)
        .await;
    zone.set(txt, Ok(Vec::new()));
    let gone = || async { world.get("Ingress", &home, NAME).await.is_none() };
    world
        .until("the route is deleted after several negative responses", gone)
        .await;
    assert!(is_written(&operator, AUTOMATIC));
    zone.set(txt, Ok(vec![value.to_owned()]));
    world.until("the route returns with the record", is_routed).await;
    operator.stop().await;
}

#[test]
fn hostname_is_routed_after_proof_and_survives_dns_outage() {
    run("op-proof", |world| {
        async move {
            give_rights(world).await;
            let (lease, other) = (world.lease(1, 1), world.lease(2, 2));
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            let cluster = world.connect().await;
            declare_by(&cluster, &lease).await;
            declare(world, &lease, AUTOMATIC).await;
            let (txt, value) = proof_record(NAME, &lease.order.group.deployment.owner);
            let (_, theirs) = proof_record(NAME, &other.order.group.deployment.owner);
            let zone = Arc::new(Zone::default());
            let operator = start(&world.client, proving(world, &zone)).await;
            let says = |wanted: ProofState| {
                let operator = &operator;
                move || {
                    let proof = state(operator, NAME).and_then(|state| state.proof);
                    async move { proof.is_some_and(|proof| proof.state == wanted) }
                }
            };
            world
                .until("the automatic name is routed", || async {
                    is_written(&operator, AUTOMATIC)
                })
                .await;
            world
                .until("the pending proof is noted", says(ProofState::Waiting))
                .await;
            let problem = state(&operator, NAME).unwrap().problem.unwrap();
            assert!(problem.contains(&txt) && problem.contains(&value), "{problem}");
            // A record with another tenant's value proves nothing.
            zone.set(&txt, Ok(vec![theirs]));
            let reads_it = || async {
                let why = state(&operator, NAME).and_then(|state| state.proof).unwrap().why;
                why.contains("have other values")
            };
            world
                .until("the record of another tenant is observed", reads_it)
                .await;
            assert!(world.get("Ingress", &home, NAME).await.is_none());
            // The provider reports the same to the tenant.
            let waits = || async {
                let notes = hostname_notes(&cluster, &lease).await;
                notes.waits_for.is_some_and(|words| words.contains(&value))
            };
            world
                .until("the lease status shows the missing record", waits)
                .await;

            zone.set(&txt, Ok(vec![value.clone()]));
            world
                .until("the hostname is routed", || async { is_written(&operator, NAME) })
                .await;
            assert_eq!(hostname_notes(&cluster, &lease).await.waits_for, None);
            through_an_outage(world, &zone, operator, &txt, &value).await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[derive(Debug, Default)]
struct FixedProber(Mutex<(u16, Vec<ProbeRequest>)>);

#[async_trait]
impl Prober for FixedProber {
    async fn ask(&self, question: &ProbeRequest) -> Result<ProbeResponse, String> {
        let mut inner = self.0.lock().unwrap();
        inner.1.push(question.clone());
        match inner.0 {
            0 => Err("the connection is refused".to_owned()),
            status => Ok(ProbeResponse {
                status,
                body: Vec::new(),
            }),
        }
    }
}

async fn give_address(world: &World, home: &str) {
    let ingresses: Api<Ingress> = Api::namespaced(world.admin.clone(), home);
    let address = json!({"ip": "10.9.8.7", "ports": [{"port": 8080, "protocol": "TCP"}]});
    let status = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": [address]}}}));
    let params = PatchParams::default();
    ingresses.patch_status(NAME, &params, &status).await.unwrap();
}

#[test]
fn probe_uses_address_of_ingress_status_and_changes_no_route() {
    run("op-probe", |world| {
        async move {
            give_rights(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            let cluster = world.connect().await;
            declare_by(&cluster, &lease).await;
            let answers = Arc::new(FixedProber::default());
            let mut with_probe = options(world, Mode::default());
            with_probe.probe = Some(Probe::new(Arc::clone(&answers) as Arc<dyn Prober>, BUDGET));
            let operator = start(&world.client, with_probe).await;
            world
                .until("the hostname has its route", || async {
                    is_written(&operator, NAME)
                })
                .await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(
                answers.0.lock().unwrap().1.is_empty(),
                "a route without an address is not probed"
            );
            give_address(world, &home).await;
            let is = |wanted: ReachState| {
                let operator = &operator;
                move || {
                    let reachable = state(operator, NAME).and_then(|state| state.reachable);
                    async move { reachable.is_some_and(|reachable| reachable.state == wanted) }
                }
            };
            world
                .until("the failed probe is reported", is(ReachState::No))
                .await;
            let asked = answers.0.lock().unwrap().1[0].clone();
            assert_eq!(
                (asked.hostname.as_str(), asked.address.to_string().as_str()),
                (NAME, "10.9.8.7:8080")
            );
            assert!(!asked.is_tls, "the hostname has no certificate");
            world.take_calls();
            answers.0.lock().unwrap().0 = 200;
            world
                .until("the successful probe is reported", is(ReachState::Yes))
                .await;
            answers.0.lock().unwrap().0 = 503;
            world
                .until("the error status is reported", is(ReachState::No))
                .await;
            let sees = || async {
                let reachable = hostname_notes(&cluster, &lease).await.reachable;
                reachable.is_some_and(|reachable| reachable.why.contains("503"))
            };
            world.until("the lease status shows the result", sees).await;
            assert_eq!(
                writes(world, "ingresses"),
                Vec::<String>::new(),
                "probes change no route"
            );
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}
