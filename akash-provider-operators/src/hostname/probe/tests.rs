//! Tests of the probe requests, their evaluation, and the results that are stored in the record.

use super::*;
use crate::hostname::index::RoutePlan;
use crate::hostname::samples::{Cluster, host, route, shared};
use serde_json::Value;
use std::sync::Mutex;

#[derive(Debug)]
struct ScriptedProber {
    respond: fn(&ProbeRequest) -> Result<ProbeResponse, String>,
    asked: Mutex<Vec<ProbeRequest>>,
}

#[async_trait]
impl Prober for ScriptedProber {
    async fn ask(&self, question: &ProbeRequest) -> Result<ProbeResponse, String> {
        self.asked.lock().unwrap().push(question.clone());
        (self.respond)(question)
    }
}

fn response(status: u16, body: &str) -> Result<ProbeResponse, String> {
    Ok(ProbeResponse {
        status,
        body: body.as_bytes().to_vec(),
    })
}

const AT: ProxyAddress = ProxyAddress {
    ip: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    http: Some(80),
    https: Some(443),
};

async fn asked(
    name: &str,
    with_tls: bool,
    respond: fn(&ProbeRequest) -> Result<ProbeResponse, String>,
) -> (ReachState, String, usize) {
    let prober = ScriptedProber {
        respond,
        asked: Mutex::default(),
    };
    let (reach, why) = question(&prober, name, AT, with_tls).await;
    (reach, why, prober.asked.into_inner().unwrap().len())
}

#[tokio::test]
async fn response_of_the_service_is_reachable_and_of_the_proxy_is_not() {
    for (status, wanted) in [
        (200, ReachState::Yes),
        (308, ReachState::Yes),
        (401, ReachState::Yes),
        (500, ReachState::Yes),
    ] {
        let answer: fn(&ProbeRequest) -> _ = match status {
            200 => |_| response(200, ""),
            308 => |_| response(308, ""),
            401 => |_| response(401, ""),
            _ => |_| response(500, ""),
        };
        let (reach, why, count) = asked("a.example.com", false, answer).await;
        assert_eq!((reach, count), (wanted, 1), "{why}: a redirect is not followed");
    }
    let (reach, why, _) = asked("a.example.com", false, |_| response(503, "")).await;
    assert!(reach == ReachState::No && why.contains("503"), "{why}");
    let (reach, why, _) = asked("a.example.com", false, |_| Err("refused".to_owned())).await;
    assert!(reach == ReachState::No && why.contains("refused"), "{why}");
}

#[tokio::test]
async fn not_found_of_the_service_differs_from_not_found_of_the_proxy() {
    let (reach, why, _) = asked("a.example.com", false, |_| response(404, "no route")).await;
    assert!(
        reach == ReachState::No && why.contains("without a route"),
        "{why}"
    );
    let own = |question: &ProbeRequest| {
        let words = if question.hostname == NOBODY {
            "no route"
        } else {
            "no page"
        };
        response(404, words)
    };
    assert_eq!(asked("a.example.com", false, own).await.0, ReachState::Yes);
}

#[tokio::test]
async fn https_is_probed_with_a_certificate_and_a_wildcard_with_a_label() {
    let only_http = |question: &ProbeRequest| {
        if question.is_tls {
            Err("the certificate has expired".to_owned())
        } else {
            response(200, "")
        }
    };
    assert_eq!(asked("a.example.com", false, only_http).await.0, ReachState::Yes);
    let (reach, why, count) = asked("a.example.com", true, only_http).await;
    assert!(
        reach == ReachState::No && why.contains("HTTPS") && why.contains("expired"),
        "{why}"
    );
    assert_eq!(count, 2);
    let by_label = |question: &ProbeRequest| {
        response(
            if question.hostname == "akash-probe.example.com" {
                200
            } else {
                503
            },
            "",
        )
    };
    assert_eq!(asked("*.example.com", false, by_label).await.0, ReachState::Yes);
}

/// Prober that never responds.
#[derive(Debug)]
struct SilentProber;

#[async_trait]
impl Prober for SilentProber {
    async fn ask(&self, _: &ProbeRequest) -> Result<ProbeResponse, String> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn probe_without_a_response_times_out() {
    let asking = timeout(LIMIT * 3, question(&SilentProber, "a.example.com", AT, false));
    let (reach, why) = asking.await.unwrap();
    assert!(
        reach == ReachState::No && why.contains("no response in time"),
        "{why}"
    );
}

#[tokio::test]
async fn hostname_without_an_http_port_is_unknown() {
    let nowhere = ProxyAddress {
        http: None,
        https: None,
        ..AT
    };
    let prober = ScriptedProber {
        respond: |_| response(200, ""),
        asked: Mutex::default(),
    };
    let (reach, why) = question(&prober, "a.example.com", nowhere, true).await;
    assert!(reach == ReachState::Unknown && why.contains("127.0.0.1"), "{why}");
    assert!(prober.asked.into_inner().unwrap().is_empty());
}

#[test]
fn only_hostnames_with_an_accepted_route_are_probed() {
    let record = host(1);
    let going = {
        let (place, mut live) = route("going.example.com", &record, Some("10.0.0.7"), false);
        live.is_going = true;
        (place, live)
    };
    let routes = vec![
        route("yes.example.com", &record, Some("10.0.0.7"), false),
        route("waits.example.com", &record, None, false),
        // The record names another namespace.
        route("moved.example.com", &record, Some("10.0.0.7"), false),
        route("undeclared.example.com", &record, Some("10.0.0.7"), false),
        going,
    ];
    let hosts = [
        "yes.example.com",
        "waits.example.com",
        "going.example.com",
        "none.example.com",
    ];
    let mut hosts = hosts.map(|name| (name, record.clone())).to_vec();
    hosts.push(("moved.example.com", host(2)));
    let shared = shared(RoutePlan::default(), &hosts, routes);
    assert_eq!(accepted(&shared), BTreeSet::from(["yes.example.com".to_owned()]));
}

const KEY: &str = labels::HOSTNAME_REACHABLE;

#[derive(Debug, Default)]
struct FixedProber(Mutex<u16>, Mutex<Vec<ProbeRequest>>);

#[async_trait]
impl Prober for FixedProber {
    async fn ask(&self, question: &ProbeRequest) -> Result<ProbeResponse, String> {
        self.1.lock().unwrap().push(question.clone());
        response(*self.0.lock().unwrap(), "")
    }
}

#[tokio::test]
async fn only_a_changed_probe_result_is_noted() {
    const NAME: &str = "shop.example.com";
    let record = host(1);
    let routes = vec![route(NAME, &record, Some("10.0.0.7"), true)];
    let shared = shared(RoutePlan::default(), &[(NAME, record.clone())], routes);
    let (cluster, set) = (Cluster::new(), Arc::new(FixedProber::default()));
    let probe = Probe {
        prober: Arc::clone(&set) as Arc<dyn Prober>,
        budget: CheckRate {
            every: Duration::from_secs(600),
            per_minute: 60,
        },
    };
    let notes = cluster.notebook();
    for (status, answers) in [(200, true), (200, true), (503, false), (503, false), (200, true)] {
        *set.0.lock().unwrap() = status;
        assert_eq!(look(&probe, &shared, &notes, NAME).await, answers, "{status}");
        // The watch delivers the record with its note.
        let mut noted = record.clone();
        let last = cluster.notes(KEY).pop().map(|(_, note)| note);
        noted.notes.reachable = last.map(|note| serde_json::from_value(note).unwrap());
        let change = crate::ObjectChange::Put(NAME.to_owned(), Ok(noted));
        shared
            .state
            .apply(crate::hostname::index::HostnameEvent::Hosts(change));
    }
    let written = cluster.notes(KEY);
    let states: Vec<Value> = written.iter().map(|(_, note)| note["state"].clone()).collect();
    assert_eq!(states, ["yes", "no", "yes"]);
    assert!(written.iter().all(|(object, _)| object == NAME));
    let bodies = cluster.written.lock().unwrap();
    assert_eq!(
        bodies[0].1["metadata"]["uid"], "1",
        "only the record that was read is written"
    );
    let asked = set.1.lock().unwrap();
    let first: Vec<String> = asked
        .iter()
        .take(2)
        .map(|q| format!("{} {}", q.address, q.is_tls))
        .collect();
    assert_eq!(
        first,
        ["10.0.0.7:80 false", "10.0.0.7:443 true"],
        "the route has a certificate"
    );
    let status = shared.status_of(NAME).unwrap().hostnames.remove(NAME).unwrap();
    assert_eq!(status.reachable.unwrap().state, ReachState::Yes);
}

#[tokio::test]
async fn noted_probe_result_is_reported_until_the_next_probe() {
    const NAME: &str = "shop.example.com";
    let mut record = host(1);
    record.notes.reachable = Some(Reachability {
        state: ReachState::No,
        why: "the response is 503".to_owned(),
        at: "2030-01-01T00:00:00Z".to_owned(),
    });
    let routes = vec![route(NAME, &record, Some("10.0.0.7"), false)];
    let shared = shared(RoutePlan::default(), &[(NAME, record)], routes);
    let state = || {
        let status = shared.status_of(NAME).unwrap().hostnames.remove(NAME).unwrap();
        status.reachable.unwrap().state
    };
    assert_eq!(state(), ReachState::No);
    let probe = Probe {
        prober: Arc::new(FixedProber(Mutex::new(200), Mutex::default())),
        budget: CheckRate {
            every: Duration::from_secs(600),
            per_minute: 60,
        },
    };
    let cluster = Cluster::new();
    cluster.code.store(403, std::sync::atomic::Ordering::Relaxed);
    assert!(look(&probe, &shared, &cluster.notebook(), NAME).await);
    assert_eq!(state(), ReachState::Yes, "also without a note");
}
