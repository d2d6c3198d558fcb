//! Two providers of one account on one cluster, with a Lease that elects the leader.

use crate::http::curl;
use crate::on_a_chain::Node;
use crate::stage::{Running, Stage, until};
use akash_provider_core::types::BidState;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use testbed::{Testbed, Tier};

/// Default name of the election Lease.
const NAME: &str = "akash-provider";
const LEASE: Duration = Duration::from_secs(5);

/// StatefulSet with a pod for each instance. Without a kubelet, the pods stay pending.
const PODS: &str = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: run-ha, namespace: default}, spec: {\
                    replicas: 2, podManagementPolicy: Parallel, serviceName: none, selector: {matchLabels: {app: \
                    run-ha}}, template: {metadata: {labels: {app: run-ha}}, spec: {containers: [{name: a, image: a}]}}}}";

struct Pods<'a>(&'a Testbed);

impl<'a> Pods<'a> {
    fn new(cluster: &'a Testbed) -> Self {
        cluster.kubectl_input(&["apply", "--filename=-"], PODS).unwrap();
        let pods = Self(cluster);
        until("two pods", String::new, || {
            pods.read("{.items[*].metadata.name}") == "run-ha-0 run-ha-1"
        });
        pods
    }

    fn read(&self, path: &str) -> String {
        let output = format!("--output=jsonpath={path}");
        let get = [
            "get",
            "pods",
            "--namespace=default",
            "--selector=app=run-ha",
            &output,
        ];
        self.0.kubectl(&get).unwrap()
    }

    /// Waits until the pods of the instances a and b have these roles.
    #[track_caller]
    fn have(&self, roles: &str) {
        let read = || self.read("{.items[*].metadata.labels.provider\\.akash\\.network/role}");
        until(roles, read, || read() == roles);
    }
}

impl Drop for Pods<'_> {
    fn drop(&mut self) {
        let delete = [
            "delete",
            "statefulset",
            "run-ha",
            "--namespace=default",
            "--wait=false",
        ];
        drop(self.0.kubectl(&delete));
    }
}

fn start(stage: &Stage, kubeconfig: &str, name: &str, start: u32) -> Running {
    let home = format!("--home={}", stage.path(&format!("home-{name}")).display());
    let identity = format!("--ha-identity={name}");
    let number = u8::from(name == "b");
    let pod = format!("--ha-pod=default/run-ha-{number}");
    let words = [
        "--cluster-k8s",
        "--kubeconfig",
        kubeconfig,
        "--ha=kubernetes",
        "--ha-lease=5s",
        &identity,
        &pod,
        &home,
        "--gateway-listen-address=127.0.0.1:0",
        "--gateway-health-listen-address=127.0.0.1:0",
        "--certificate-domain=localhost",
    ];
    stage.provider(&format!("{name}-{start}"), &words)
}

fn lease(cluster: &Testbed) -> Value {
    let words = [
        "get",
        "leases.coordination.k8s.io",
        NAME,
        "--namespace=lease",
        "--output=json",
        "--ignore-not-found",
    ];
    serde_json::from_str(&cluster.kubectl(&words).unwrap()).unwrap_or_default()
}

fn leads(one: &Running, times: usize) -> bool {
    one.output().matches("this instance is the leader").count() >= times
}

/// Returns true if the health port reports that the instance is ready.
fn is_ready(one: &Running) -> bool {
    let output = one.output();
    let url = output.lines().find_map(|line| line.split("health at ").nth(1));
    url.is_some_and(|url| {
        let response = curl(&[&format!("{url}/readyz")]);
        response.is_none_or(|(status, _)| status == 200)
    })
}

fn stood_by(one: &Running) -> usize {
    one.output().matches("this instance is the standby").count()
}

/// Changes the holder in the Lease, and then deletes the Lease. Asserts that the leader steps down, and leads
/// again in a higher term.
fn spoiled_and_led_again(cluster: &Testbed, leader: &Running) {
    // The edited record names another holder, so the leader steps down at once. No process renews the record, so the leader leads again later.
    let by_hand = json!({"spec": {"holderIdentity": "somebody", "renewTime": "2020-01-01T00:00:00.000000Z"}});
    let patch = [
        "patch",
        "leases.coordination.k8s.io",
        NAME,
        "--namespace=lease",
        "--type=merge",
        "--patch",
    ];
    let term = lease(cluster)["spec"]["leaseTransitions"].as_u64().unwrap();
    cluster
        .kubectl(&[&patch[..], &[&by_hand.to_string()]].concat())
        .unwrap();
    until(
        "instance b is the standby",
        || leader.dump(),
        || stood_by(leader) == 1,
    );
    until(
        "instance b is the leader again",
        || leader.dump(),
        || leads(leader, 2),
    );
    assert!(lease(cluster)["spec"]["leaseTransitions"].as_u64().unwrap() > term);
    // The leader recreates the deleted Lease with its annotation.
    cluster
        .kubectl(&["delete", "leases.coordination.k8s.io", NAME, "--namespace=lease"])
        .unwrap();
    let beside = || lease(cluster)["metadata"]["annotations"]["provider.akash.network/leadership"].clone();
    until(
        "the deleted Lease exists again",
        || leader.dump(),
        || beside().as_str().is_some_and(|text| text.contains("breaker")),
    );
}

#[test]
fn two_providers_hand_their_leases_over_whatever_becomes_of_the_leader_and_of_its_record() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let mut stage = Stage::new("api-tier-ha", true);
    stage.start_node(Some(Duration::from_millis(500)));
    let kubeconfig = cluster.kubeconfig().to_str().unwrap().to_owned();
    let left = [
        "delete",
        "leases.coordination.k8s.io",
        NAME,
        "--namespace=lease",
        "--ignore-not-found",
    ];
    cluster.kubectl(&left).unwrap();
    let _node = Node::new(&cluster, "run-ha");
    let pods = Pods::new(&cluster);
    let mut first = start(&stage, &kubeconfig, "a", 1);
    until("instance a is the leader", || first.dump(), || leads(&first, 1));
    let mut second = start(&stage, &kubeconfig, "b", 1);
    second.says("leadership: this instance is a standby");
    pods.have("leader standby");
    until("a standby is ready", || second.dump(), || is_ready(&second));
    let id = stage.order(1);
    let bid = stage.bid(&id, &first);
    stage.accept(bid.id);
    first.says("lease won");
    // The leader is killed, and the standby takes over.
    let begun = Instant::now();
    first.kill();
    let late = stage.order(2);
    until("instance b is the leader", || second.dump(), || leads(&second, 1));
    println!("instance b took over {:?} after the kill", begun.elapsed());
    assert!(begun.elapsed() < LEASE * 2, "{:?}", begun.elapsed());
    // The killed instance cannot change its label.
    pods.have("standby leader");
    drop(stage.bid(&late, &second));
    spoiled_and_led_again(&cluster, &second);
    // The leader is stopped, and the standby takes over.
    let third = start(&stage, &kubeconfig, "a", 2);
    third.says("leadership: this instance is a standby");
    second.signal(Signal::SIGTERM);
    let begun = Instant::now();
    until("instance a is the leader", || third.dump(), || leads(&third, 1));
    println!("instance a took over {:?} after the stop", begun.elapsed());
    assert_eq!(second.ended(), Some(0), "{}", second.dump());
    pods.have("leader standby");
    for id in [&id, &late] {
        let bids = stage.bids(id);
        assert!(
            bids.len() == 1 && matches!(bids[0].state, BidState::Open | BidState::Active),
            "{bids:?}"
        );
    }
    assert_eq!(
        stage.live_leases(),
        1,
        "the lease is still active: {}",
        third.dump()
    );
    stage.close(id);
    third.says("lease closed");
}

/// Sends a command to Redis. Returns the first line of the response. If the response is a string, also
/// returns the second line.
pub(crate) fn redis_says(port: u16, words: &[&str]) -> (String, String) {
    let mut line = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    line.write_all(text.as_bytes()).unwrap();
    let mut answer = BufReader::new(line).lines().map(Result::unwrap);
    let first = answer.next().unwrap();
    let second = if first.starts_with('$') {
        answer.next()
    } else {
        None
    };
    (first, second.unwrap_or_default())
}

/// Two providers use one Redis election. The providers have the same account and different clusters.
#[test]
fn an_instance_of_another_cluster_under_the_same_name_stands_by_and_says_why() {
    const KEY: &str = "{akash-provider}:election:two-clusters";
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    let mut stage = Stage::new("api-tier-ha-clusters", true);
    stage.start_node(Some(Duration::from_millis(500)));
    let port = testbed::free_port().unwrap();
    let Some(_redis) = stage.redis(port, &[]) else {
        return;
    };
    let kubeconfig = cluster.kubeconfig().to_str().unwrap().to_owned();
    let url = format!("--ha-url=redis://127.0.0.1:{port}");
    let start = |name: &str| {
        let home = format!("--home={}", stage.path(&format!("home-{name}")).display());
        let words = [
            "--cluster-k8s",
            "--kubeconfig",
            &kubeconfig,
            "--ha=redis",
            &url,
            "--ha-name=two-clusters",
            "--ha-lease=3s",
            &home,
        ];
        stage.provider(name, &words)
    };
    let mut first = start("a");
    until("instance a is the leader", || first.dump(), || leads(&first, 1));
    first.signal(Signal::SIGTERM);
    assert_eq!(first.ended(), Some(0), "{}", first.dump());
    let beside = redis_says(port, &["HGET", KEY, "beside"]).1;
    let mut theirs: Value = serde_json::from_str(&beside).unwrap();
    let ours = theirs["settings"]["cluster"].take();
    assert!(ours.is_string(), "{beside}");
    theirs["settings"]["cluster"] = "0123456789abcdef".into();
    let wrote = redis_says(
        port,
        &["HSET", KEY, "beside", &theirs.to_string(), "version", "theirs"],
    );
    assert_eq!(wrote.0, ":0");
    let second = start("b");
    let names_it = || second.dump().contains("settings=\"cluster\"");
    until(
        "the log names the setting that differs",
        || second.dump(),
        names_it,
    );
    // Three times as long as an instance with different settings waits.
    std::thread::sleep(Duration::from_secs(18));
    assert!(!leads(&second, 1), "{}", second.dump());
    theirs["settings"]["cluster"] = ours;
    redis_says(
        port,
        &["HSET", KEY, "beside", &theirs.to_string(), "version", "ours"],
    );
    until("instance b is the leader", || second.dump(), || leads(&second, 1));
}
