//! `run` with a development network and a real API server.

use crate::scrape::scraped;
use crate::stage::{ADDRESS, PRICES, Running, Stage, until};
use akash_provider_service::state::State;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;
use testbed::{Component, Testbed, Tier, free_port};

/// Node with capacity. Dropping the value deletes the node.
pub(crate) struct Node<'a>(&'a Testbed, &'static str);

impl<'a> Node<'a> {
    pub(crate) fn new(cluster: &'a Testbed, name: &'static str) -> Self {
        let node = Self(cluster, name);
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"akash.network": "true"}},
        });
        cluster
            .kubectl_input(&["create", "--filename", "-"], &object.to_string())
            .unwrap();
        node.ready();
        node
    }

    /// Marks the node as ready, as a kubelet would.
    pub(crate) fn ready(&self) {
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
            self.1,
            "--subresource=status",
            "--type=merge",
            "--patch",
            &patch,
        ];
        self.0.kubectl(&args).unwrap();
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        let _ = self
            .0
            .kubectl(&["delete", "node", self.1, "--ignore-not-found", "--wait=false"]);
    }
}

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

/// Namespace with the labels of a lease, and one event. Dropping the value deletes both.
struct StoredEvent<'a>(&'a Testbed);

impl<'a> StoredEvent<'a> {
    /// Name with the length and characters of a lease namespace.
    const NAMESPACE: &'static str = "happenedhappenedhappenedhappenedhappenedhappe";

    fn new(cluster: &'a Testbed) -> Self {
        let namespace = Self::NAMESPACE;
        let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "pulled", "namespace": namespace},
            "reason": "Pulled", "message": "text", "type": "Normal", "source": {"component": "kubelet"},
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "web-1"},
        });
        for object in [place, event] {
            cluster
                .kubectl_input(&["create", "--filename", "-"], &object.to_string())
                .unwrap();
        }
        Self(cluster)
    }

    /// Returns true if the home directory contains the event. Call after the provider has stopped.
    fn is_stored(stage: &Stage) -> bool {
        let state = State::open(&stage.path("")).unwrap().state;
        let stored = state.lease_events().load().unwrap();
        let mut stored = stored
            .iter()
            .map(|event| (event.namespace.as_str(), event.event.reason.as_str()));
        stored.any(|event| event == (Self::NAMESPACE, "Pulled"))
    }
}

impl Drop for StoredEvent<'_> {
    fn drop(&mut self) {
        let _ = self.0.kubectl(&[
            "delete",
            "namespace",
            Self::NAMESPACE,
            "--ignore-not-found",
            "--wait=false",
        ]);
    }
}

#[test]
fn provider_waits_for_cluster_and_bids_with_its_capacity() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let mut stage = Stage::new("api-tier", true);
    stage.start_node(Some(Duration::from_millis(500)));
    cluster.kill(Component::ApiServer).unwrap();
    let kubeconfig = cluster.kubeconfig().to_str().unwrap().to_owned();
    let mut provider = stage.provider("provider", &["--cluster-k8s", "--kubeconfig", &kubeconfig]);
    provider.says("waiting for the cluster");
    let id = stage.order(1);
    cluster.start(Component::ApiServer).unwrap();
    let node = Node::new(&cluster, "run-on-a-chain");
    let event = StoredEvent::new(&cluster);
    let bid = stage.bid(&id, &provider);
    // The node has capacity for another order of this size.
    let alike = explained(&stage, &kubeconfig);
    assert_eq!(
        alike["price"],
        serde_json::to_value(&bid.price).unwrap(),
        "{alike}"
    );
    provider.says("bid placed");
    let lease = bid.id.to_string();
    stage.accept(bid.id);
    provider.says("lease won");
    // No object of the lease exists in the cluster yet, and the cluster reports that.
    let hardened = |words: &[&str]| stage.ran(&[&["harden"], words].concat());
    for words in [&[lease.as_str()][..], &["--all"]] {
        let (code, stdout, problem) = hardened(words);
        assert!(code == 1 && stdout.contains("is unknown"), "{stdout}{problem}");
    }
    let (code, stdout, problem) = hardened(&[&lease.replacen("/1/1/1/", "/2/1/1/", 1)]);
    assert!(
        code == 1 && stdout.contains("is not an active lease of this provider"),
        "{stdout}{problem}"
    );
    drop(node);
    let without = || explained(&stage, &kubeconfig);
    until(
        "no room",
        || without().to_string(),
        || without()["reason"] == "insufficient_capacity",
    );
    // The leases stay on the cluster after the provider stopped, and after it started again.
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    assert_eq!(stage.live_leases(), 1);
    assert!(StoredEvent::is_stored(&stage), "{}", provider.dump());
    // The event is deleted in the API server and retained by the provider.
    drop(event);
    let mut again = stage.provider("again", &["--cluster-k8s", "--kubeconfig", &kubeconfig]);
    again.says("ready: bidding");
    stage.close(id);
    again.says("lease closed");
    until("no lease is live", || again.dump(), || stage.live_leases() == 0);
    again.signal(Signal::SIGTERM);
    assert_eq!(again.ended(), Some(0), "{}", again.dump());
    assert!(StoredEvent::is_stored(&stage), "{}", again.dump());
}

/// Returns the status of an operator in the process of the provider.
pub(crate) fn operator(stage: &Stage, name: &str) -> Value {
    let (code, out, err) = stage.ran(&["operator", "status", "--output=json"]);
    assert_eq!(code, 0, "{out}{err}");
    let status: Value = serde_json::from_str(&out).unwrap();
    status["operators"][name].clone()
}

/// Checks that the metrics agree with `status`, the status of the operator. The caller must have observed a
/// node heartbeat within the last ten seconds.
fn check_metrics(port: u16, provider: &Running, status: &Value) {
    let queue = |state: &str| {
        format!("akash_provider_operator_queue_depth{{operator=\"inventory\",state=\"{state}\"}}")
    };
    let values = scraped(port, provider, "an empty queue", |values| {
        ["ready", "running", "waiting", "ignored"]
            .iter()
            .all(|state| values.get(&queue(state)) == Some(&0.0))
    });
    let counts = &status["counts"];
    let expected = [
        ("akash_provider_operator_ready{operator=\"inventory\"}", 1.0),
        ("akash_provider_operator_leader{operator=\"inventory\"}", 1.0),
        (
            "akash_provider_operator_failures_total{operator=\"inventory\"}",
            counts["failed"].as_f64().unwrap(),
        ),
        ("akash_provider_inventory_watch_up{kind=\"nodes\"}", 1.0),
        ("akash_provider_inventory_watch_up{kind=\"pods\"}", 1.0),
        (
            "akash_provider_inventory_watch_failures_total{kind=\"nodes\"}",
            0.0,
        ),
        ("akash_provider_inventory_watch_starts_total{kind=\"nodes\"}", 1.0),
        ("akash_provider_drift_queued_leases", 0.0),
    ];
    for (sample, value) in expected {
        assert_eq!(values.get(sample), Some(&value), "{sample} in {values:#?}");
    }
    let works = values["akash_provider_operator_reconcile_duration_seconds_count{operator=\"inventory\"}"];
    // Each labelled node was written once at least.
    assert!(works >= 2.0, "{works}");
    let age = values["akash_provider_inventory_watch_last_event_age_seconds{kind=\"nodes\"}"];
    assert!((0.0..10.0).contains(&age), "{age}");
}

#[test]
fn provider_labels_nodes_by_configured_rules() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let mut stage = Stage::new("labels", true);
    stage.start_node(Some(Duration::from_millis(500)));
    let kubeconfig = cluster.kubeconfig().to_str().unwrap().to_owned();
    let (offered, left_out) = (
        Node::new(&cluster, "run-labels"),
        Node::new(&cluster, "run-master"),
    );
    let port = free_port().unwrap();
    let rules = stage.path("rules.yaml");
    std::fs::write(&rules, "version: v1\nexclude:\n  nodes: [\"-master$\"]\n").unwrap();
    let is_labelled = |node: &Node<'_>| {
        let path = r"jsonpath={.metadata.labels.akash\.network}";
        let status = cluster.kubectl(&["get", "node", node.1, "--output", path]);
        status.unwrap() == "true"
    };
    cluster
        .kubectl(&["label", "node", offered.1, "akash.network-"])
        .unwrap();
    let words = [
        "--cluster-k8s",
        "--kubeconfig",
        &kubeconfig,
        "--with-operators=inventory",
        "--provider-configs-url=",
        &format!("--inventory-config={}", rules.display()),
        &format!("--metrics-listener=127.0.0.1:{port}"),
    ];
    let mut provider = stage.provider("provider", &words);
    provider.says("ready: bidding");
    let status = || operator(&stage, "inventory");
    let beat = || [&offered, &left_out].map(Node::ready);
    let are_labelled = || {
        beat();
        is_labelled(&offered) && !is_labelled(&left_out)
    };
    until("nodes have their labels", || status().to_string(), are_labelled);
    until(
        "the operator leads",
        || status().to_string(),
        || status()["is_ready"] == true && status()["election"]["is_leader"] == true,
    );
    let (_, printed_status, _) = stage.ran(&["operator", "status"]);
    assert_eq!(printed_status, "inventory: active\n");
    assert_eq!(status()["nodes"]["run-master"]["standing"], "excluded");
    // Changed rules are read at runtime, as in an operator's pod.
    std::fs::write(&rules, "version: v1\n").unwrap();
    let is_offered = || {
        beat();
        is_labelled(&left_out)
    };
    until("the node is offered", || status().to_string(), is_offered);
    check_metrics(port, &provider, &status());
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
}
