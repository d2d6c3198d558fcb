//! Tests of the proof state that is stored in the record after DNS responses.

use super::*;
use crate::hostname::index::{ProofRule, RoutePlan};
use crate::hostname::samples::{Cluster, host as of, shared};
use serde_json::Value;
use std::sync::atomic::Ordering;

/// Resolver with one response for all queries.
#[derive(Debug)]
struct FixedLookup(Result<Vec<String>, String>, Mutex<Vec<String>>);

#[async_trait]
impl TxtLookup for FixedLookup {
    async fn txt(&self, name: &str) -> Result<Vec<String>, String> {
        self.1.lock().unwrap().push(name.to_owned());
        self.0.clone()
    }
}

async fn found(hostname: &str, host: &Host, says: Result<Vec<String>, String>) -> (Finding, Vec<String>) {
    let says = FixedLookup(says, Mutex::default());
    let finding = find(&says, hostname, host.lease.owner()).await;
    (finding, says.1.into_inner().unwrap())
}

fn noted(findings: &[Finding]) -> Vec<Option<ProofState>> {
    let (mut host, mut tries) = (of(1), Tries::default());
    let mut all = Vec::new();
    for finding in findings {
        if let Some(proof) = judge("shop.example.com", &host, finding.clone(), &mut tries) {
            host.notes.proof = Some(proof);
        }
        all.push(host.notes.proof_of(host.lease.owner()));
    }
    all
}

#[tokio::test]
async fn only_the_txt_record_of_the_owner_proves() {
    let (one, two) = (of(1), of(2));
    let (name, value) = record("shop.example.com", one.lease.owner());
    assert_eq!(name, "_akash-challenge.shop.example.com");
    assert!(value.starts_with("akash-owner=akash1"), "{value}");
    let both = vec!["v=spf1 -all".to_owned(), format!(" {value} ")];
    let (finding, asked) = found("shop.example.com", &one, Ok(both.clone())).await;
    assert_eq!((finding, asked), (Finding::Proven, vec![name]));
    for other in [
        both,
        vec![value.to_uppercase()],
        vec![format!("{value}x")],
        vec![String::new()],
    ] {
        let (finding, _) = found("shop.example.com", &two, Ok(other.clone())).await;
        assert_eq!(
            finding,
            Finding::Absent("the TXT records have other values"),
            "{other:?}"
        );
    }
    assert_eq!(
        found("shop.example.com", &one, Ok(Vec::new())).await.0,
        Finding::Absent("no TXT record exists")
    );
    let unknown = found("shop.example.com", &one, Err("refused".to_owned())).await.0;
    assert_eq!(unknown, Finding::Unknown("refused".to_owned()));
}

#[tokio::test]
async fn wildcard_is_proven_at_its_parent_and_a_too_long_name_is_not() {
    let one = of(1);
    let asked = found("*.example.com", &one, Ok(Vec::new())).await.1;
    assert_eq!(asked, ["_akash-challenge.example.com"]);
    let long = format!("{}.example.com", vec!["a".repeat(47); 5].join("."));
    let (finding, asked) = found(&long, &one, Ok(Vec::new())).await;
    assert!(
        matches!(finding, Finding::Absent(_)) && asked.is_empty(),
        "{finding:?}"
    );
    let many = (0..200).map(|_| record("a.example.com", one.lease.owner()).1 + "x");
    let mut many: Vec<String> = many.collect();
    many.push(record("a.example.com", one.lease.owner()).1);
    let finding = found("a.example.com", &one, Ok(many)).await.0;
    assert!(
        matches!(finding, Finding::Absent(_)),
        "records beyond the first hundred are not read"
    );
}

#[test]
fn proof_survives_dns_failures_and_is_withdrawn_after_several_responses() {
    let (proven, waiting, withdrawn) = (
        Some(ProofState::Proven),
        Some(ProofState::Waiting),
        Some(ProofState::Withdrawn),
    );
    let (gone, dark) = (
        Finding::Absent("no TXT record exists"),
        Finding::Unknown("refused".to_owned()),
    );
    assert_eq!(
        noted(&[dark.clone(), gone.clone(), Finding::Proven]),
        [waiting, waiting, proven]
    );
    let outage = [
        Finding::Proven,
        dark.clone(),
        dark.clone(),
        dark.clone(),
        dark.clone(),
    ];
    assert_eq!(noted(&outage), [proven; 5]);
    let broken = [
        Finding::Proven,
        gone.clone(),
        gone.clone(),
        dark.clone(),
        gone.clone(),
        gone.clone(),
    ];
    assert_eq!(noted(&broken), [proven; 6], "responses must be consecutive");
    let over = [
        Finding::Proven,
        gone.clone(),
        gone.clone(),
        gone,
        dark,
        Finding::Proven,
    ];
    assert_eq!(
        noted(&over),
        [proven, proven, proven, withdrawn, withdrawn, proven]
    );
}

#[test]
fn proof_of_another_owner_does_not_count() {
    let (mut host, mut tries) = (of(1), Tries::default());
    host.notes.proof = judge("shop.example.com", &host, Finding::Proven, &mut tries);
    let moved = Host {
        notes: host.notes.clone(),
        ..of(2)
    };
    assert_eq!(moved.notes.proof_of(moved.lease.owner()), None);
    let mut tries = Tries::default();
    let note = judge(
        "shop.example.com",
        &moved,
        Finding::Absent("no TXT record exists"),
        &mut tries,
    )
    .unwrap();
    assert_eq!(
        note.state,
        ProofState::Waiting,
        "one missing record suffices without a proof"
    );
    let (name, value) = record("shop.example.com", moved.lease.owner());
    assert!(
        note.why.contains(&name) && note.why.contains(&value),
        "{}",
        note.why
    );
}

#[test]
fn waiting_hostname_backs_off_and_is_noted_once() {
    let (mut host, mut tries) = (of(1), Tries::default());
    let every = Duration::from_secs(3_600);
    let mut waits = Vec::new();
    let mut notes = 0;
    for _ in 0..9 {
        if let Some(note) = judge(
            "shop.example.com",
            &host,
            Finding::Absent("no TXT record exists"),
            &mut tries,
        ) {
            host.notes.proof = Some(note);
            notes += 1;
        }
        waits.push(pause(&host, &tries, every).as_secs());
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
    assert_eq!(notes, 1);
    host.notes.proof = judge("shop.example.com", &host, Finding::Proven, &mut tries);
    assert_eq!(pause(&host, &tries, every), every);
    let gone = Finding::Absent("no TXT record exists");
    assert_eq!(judge("shop.example.com", &host, gone, &mut tries), None);
    assert_eq!(
        pause(&host, &tries, every),
        every,
        "three responses in two minutes withdraw no proof"
    );
}

/// Resolver that never responds.
#[derive(Debug)]
struct SilentLookup;

#[async_trait]
impl TxtLookup for SilentLookup {
    async fn txt(&self, _: &str) -> Result<Vec<String>, String> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn query_without_a_response_times_out() {
    let one = of(1);
    let finding = timeout(
        LIMIT * 3,
        find(&SilentLookup, "shop.example.com", one.lease.owner()),
    )
    .await;
    assert_eq!(
        finding.unwrap(),
        Finding::Unknown("no response in time".to_owned())
    );
}

fn plan() -> RoutePlan {
    RoutePlan {
        proof: Some(ProofRule {
            own_domain: "ingress.example.net".to_owned(),
        }),
        ..RoutePlan::default()
    }
}

#[test]
fn automatic_hostnames_and_invalid_records_need_no_proof() {
    let hosts = [
        ("shop.example.com", of(1)),
        ("*.example.com", of(1)),
        ("auto.ingress.example.net", of(1)),
    ];
    let shared = shared(plan(), &hosts, Vec::new());
    let garbage = crate::ObjectChange::Put("odd.example.com".to_owned(), Err("garbage".to_owned()));
    shared
        .state
        .apply(crate::hostname::index::HostnameEvent::Hosts(garbage));
    let both = ["*.example.com", "shop.example.com"].map(str::to_owned);
    assert_eq!(wanted(&shared), BTreeSet::from(both));
}

#[tokio::test(start_paused = true)]
async fn proof_that_cannot_be_noted_is_queried_again_soon() {
    const NAME: &str = "shop.example.com";
    let one = of(1);
    let value = record(NAME, one.lease.owner()).1;
    let says = Arc::new(FixedLookup(Ok(vec![value]), Mutex::default()));
    let shared = shared(plan(), &[(NAME, one)], Vec::new());
    let cluster = Cluster::new();
    cluster.code.store(403, Ordering::Relaxed);
    let proving = ProofConfig {
        lookup: Arc::clone(&says) as Arc<dyn TxtLookup>,
        budget: CheckRate {
            every: Duration::from_secs(3_600),
            per_minute: 60,
        },
    };
    let until = CancellationToken::new();
    let running = run(proving, shared, cluster.notebook(), until.clone());
    let end = async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        until.cancel();
    };
    tokio::join!(running, end);
    let queries = says.1.lock().unwrap().len();
    assert!(queries > 5, "{queries}: without a note no route is created");
    let states = cluster.notes(labels::HOSTNAME_PROOF).into_iter();
    let states: Vec<Value> = states.map(|(_, note)| note["state"].clone()).collect();
    assert!(
        states.len() == queries && states.iter().all(|state| state == "proven"),
        "{states:?}"
    );
}
