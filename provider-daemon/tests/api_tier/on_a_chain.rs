//! `run` between a development network and a real API server.

use crate::stage::{ADDRESS, PRICES, Stage, until};
use akash_provider_core::market::TenantMsg;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;
use testbed::{Cluster, Component, Tier};

/// A node with room, as long as the test lasts.
struct Node<'a>(&'a Cluster, &'static str);

impl<'a> Node<'a> {
    fn new(cluster: &'a Cluster, name: &'static str) -> Self {
        let node = Self(cluster, name);
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"akash.network": "true"}},
        });
        cluster
            .kubectl_input(&["create", "--filename", "-"], &object.to_string())
            .unwrap();
        let room = json!({"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "50"});
        let now = "2026-01-01T00:00:00Z";
        let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": [{
            "type": "Ready", "status": "True", "reason": "Test", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]}});
        let patch = status.to_string();
        let args = [
            "patch",
            "node",
            name,
            "--subresource=status",
            "--type=merge",
            "--patch",
            &patch,
        ];
        cluster.kubectl(&args).unwrap();
        node
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        let _ = self
            .0
            .kubectl(&["delete", "node", self.1, "--ignore-not-found", "--wait=false"]);
    }
}

/// What `explain` says of the order, by the nodes of this cluster.
fn explained(stage: &Stage, kubeconfig: &str) -> Value {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
    let prices = PRICES.iter().copied();
    let words = [
        "explain",
        "--from",
        ADDRESS,
        "--output=json",
        "--kubeconfig",
        kubeconfig,
        sample,
    ];
    let (code, out, err) = stage.ran(&words.into_iter().chain(prices).collect::<Vec<_>>());
    let verdict = serde_json::from_str(&out);
    assert!(verdict.is_ok(), "{code}: {out}{err}");
    verdict.unwrap()
}

#[test]
fn a_provider_waits_for_its_cluster_and_bids_with_what_that_has() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    let mut stage = Stage::new("api-tier", true);
    stage.start_node(Some(Duration::from_millis(500)));
    cluster.kill(Component::ApiServer).unwrap();
    let kubeconfig = cluster.kubeconfig().to_str().unwrap().to_owned();
    let mut provider = stage.provider("provider", &["--cluster-k8s", "--kubeconfig", &kubeconfig]);
    provider.says("waiting for the cluster");
    let id = stage.order(1);
    cluster.start(Component::ApiServer).unwrap();
    let node = Node::new(&cluster, "run-on-a-chain");
    let bid = stage.bid(&id, &provider);
    // The node has room for another one like it.
    let alike = explained(&stage, &kubeconfig);
    assert_eq!(
        alike["price"],
        serde_json::to_value(&bid.price).unwrap(),
        "{alike}"
    );
    provider.says("bid placed");
    let lease = bid.id.to_string();
    stage
        .chain
        .tenant(TenantMsg::CreateLease { bid: bid.id })
        .unwrap();
    provider.says("lease won");
    // Nothing of it is on the cluster yet, and the cluster is who says so.
    let hardened = |words: &[&str]| stage.ran(&[&["harden"], words].concat());
    for words in [&[lease.as_str()][..], &["--all"]] {
        let (code, said, problem) = hardened(words);
        assert!(code == 1 && said.contains("is unknown"), "{said}{problem}");
    }
    let (code, said, problem) = hardened(&[&lease.replacen("/1/1/1/", "/2/1/1/", 1)]);
    assert!(
        code == 1 && said.contains("is no live lease of this provider"),
        "{said}{problem}"
    );
    drop(node);
    let without = || explained(&stage, &kubeconfig);
    until(
        "no room",
        || without().to_string(),
        || without()["reason"] == "insufficient_capacity",
    );
    // Its leases stay where they are, with and without it.
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.told());
    assert_eq!(stage.live_leases(), 1);
    let mut again = stage.provider("again", &["--cluster-k8s", "--kubeconfig", &kubeconfig]);
    again.says("ready: bidding");
    stage.chain.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    again.says("lease closed");
    until("nothing lives", || again.told(), || stage.live_leases() == 0);
    again.signal(Signal::SIGTERM);
    assert_eq!(again.ended(), Some(0), "{}", again.told());
}

/// What the provider's process says of its hostname operator.
fn hostname_operator(stage: &Stage) -> Value {
    let (code, out, err) = stage.ran(&["operator", "status", "--output=json"]);
    assert_eq!(code, 0, "{out}{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    said["operators"]["hostname"].clone()
}

/// Who holds the Lease of the hostname operators.
fn holder(cluster: &Cluster) -> String {
    let path = "jsonpath={.spec.holderIdentity}";
    let lease = [
        "get",
        "lease",
        "akash-operator-hostname",
        "--namespace=lease",
        "--output",
        path,
    ];
    cluster.kubectl(&lease).unwrap_or_default()
}

#[test]
fn a_provider_runs_the_hostname_operator_in_its_own_process_and_hands_its_work_over() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    let mut stage = Stage::new("operators", true);
    stage.start_node(Some(Duration::from_millis(500)));
    let kubeconfig = cluster.kubeconfig().to_str().unwrap().to_owned();
    let words = [
        "--cluster-k8s",
        "--kubeconfig",
        &kubeconfig,
        "--with-operators=hostname",
    ];
    let mut provider = stage.provider("provider", &words);
    provider.says("ready: bidding");
    let works = || {
        let said = hostname_operator(&stage);
        said["is_ready"] == true && said["election"]["is_leader"] == true
    };
    until("it works", || hostname_operator(&stage).to_string(), works);
    let (_, told, _) = stage.ran(&["operator", "status"]);
    assert_eq!(told, "hostname: works\n");
    let said = hostname_operator(&stage);
    assert_eq!(said["election"]["identity"], holder(&cluster).as_str());
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.told());
    assert_eq!(holder(&cluster), "", "whoever comes next need not wait");
    let (code, _, err) = stage.ran(&["operator", "status"]);
    assert!(code != 0 && err.contains("no provider runs"), "{err}");
}
