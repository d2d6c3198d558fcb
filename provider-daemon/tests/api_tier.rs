//! `dev` on a cluster with leases of another provider: the command fails and writes nothing.
//!
//! `AKASH_TESTBED_DIR` is the state folder of a cluster of the API tier. Without it each test prints that it
//! was skipped.

#![expect(clippy::unwrap_used, reason = "a failed test panics with the reason")]

#[path = "api_tier/chart.rs"]
mod chart;
#[path = "api_tier/doctor.rs"]
mod doctor;
#[path = "common/environment.rs"]
mod environment;
#[path = "api_tier/ha.rs"]
mod ha;
#[path = "api_tier/ha_campaign.rs"]
mod ha_campaign;
#[path = "api_tier/ha_figures.rs"]
mod ha_figures;
#[path = "common/http.rs"]
mod http;
#[expect(dead_code, reason = "other tests use the rest of the module")]
#[path = "common/landed.rs"]
mod landed;
#[path = "api_tier/leased.rs"]
mod leased;
#[path = "api_tier/on_a_chain.rs"]
mod on_a_chain;
#[path = "api_tier/requests.rs"]
mod requests;
#[path = "common/scrape.rs"]
mod scrape;
#[path = "api_tier/served_inventory.rs"]
mod served_inventory;
#[expect(dead_code, reason = "other tests use the rest of the module")]
#[path = "common/stage.rs"]
mod stage;
#[path = "api_tier/with_operator.rs"]
mod with_operator;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Testbed, Tier};

const THEIR_MANAGER: &str = "--field-manager=provider-services";
/// Recorded objects of a lease, in the order in which the Go provider wrote them.
const FILES: [&str; 11] = [
    "namespace",
    "manifest-cr",
    "networkpolicies",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "secrets",
    "deployments",
    "statefulsets",
    "services",
    "providerhosts",
];
const PATIENCE: Duration = Duration::from_secs(60);

/// Removes the fields that the API server and the controllers added to an object.
fn bare(mut object: Value) -> Value {
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object.as_object_mut().unwrap().remove("status");
    if object["kind"] == json!("Service") {
        let spec = object["spec"].as_object_mut().unwrap();
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
        for port in spec["ports"].as_array_mut().unwrap() {
            port.as_object_mut().unwrap().remove("nodePort");
        }
    }
    object
}

/// Reads the objects of a recorded lease.
fn lease(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for file in FILES {
        let Ok(text) = std::fs::read_to_string(folder.join(format!("{file}.json"))) else {
            continue;
        };
        let object: Value = serde_json::from_str(&text).unwrap();
        let all = match object["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![object],
        };
        let theirs = |o: &Value| o["metadata"]["labels"]["akash.network"] == json!("true");
        found.extend(all.into_iter().filter(theirs).map(bare));
    }
    found
}

/// Returns one line for each object: its identity, and the time of each client's last write. Components of
/// Kubernetes do not count as clients.
fn everything(cluster: &Testbed) -> Vec<String> {
    let kinds = cluster
        .kubectl(&["api-resources", "--verbs=list", "--output=name"])
        .unwrap();
    let is_listed = |kind: &&str| !kind.starts_with("events") && !kind.starts_with("leases.coordination");
    let kinds: Vec<&str> = kinds.lines().filter(is_listed).collect();
    let args = [
        "get",
        &kinds.join(","),
        "--all-namespaces",
        "--output=json",
        "--show-managed-fields",
    ];
    let list: Value = serde_json::from_str(&cluster.kubectl(&args).unwrap()).unwrap();
    let mut all: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(written)
        .collect();
    all.sort();
    assert!(all.len() > 30, "{all:?}");
    all
}

/// Describes an object and its writers in one line. Returns `None` if only Kubernetes wrote the object.
fn written(object: &Value) -> Option<String> {
    let about = &object["metadata"];
    let writers = about["managedFields"].as_array()?.iter();
    let writers = writers.filter_map(|entry| Some((entry["manager"].as_str()?, entry["time"].as_str()?)));
    let writers: BTreeSet<(&str, &str)> = writers
        .filter(|(name, _)| !name.starts_with("kube-") && *name != "kwok")
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [namespace, name, uid] = ["namespace", "name", "uid"].map(|key| text(&about[key]));
    let kind = text(&object["kind"]);
    (!writers.is_empty()).then(|| format!("{kind} {namespace} {name} {uid} {writers:?}"))
}

/// Waits until the cluster is unchanged, and returns its objects.
fn settled(cluster: &Testbed) -> Vec<String> {
    let began = Instant::now();
    let mut last = everything(cluster);
    loop {
        sleep(Duration::from_secs(3));
        // The namespaces of earlier tests may still be in deletion. This query comes first, because a namespace that
        // is deleted between the two queries would be in the list.
        let terminating = [
            "get",
            "namespaces",
            "--field-selector=status.phase=Terminating",
            "--output=name",
        ];
        let terminating = cluster.kubectl(&terminating).unwrap();
        let now = everything(cluster);
        if now == last && terminating.is_empty() {
            return now;
        }
        let changed: Vec<_> = now.iter().filter(|object| !last.contains(object)).collect();
        assert!(
            began.elapsed() < PATIENCE,
            "objects that still change: {changed:?}, namespaces in deletion: {terminating}"
        );
        last = now;
    }
}

fn dev(cluster: &Testbed, more: &[&str]) -> (bool, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
        .args(["dev", "--accept-any", "--once", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(more)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

fn namespaces(objects: &[Value]) -> Vec<&str> {
    let namespaces = objects.iter().filter(|o| o["kind"] == json!("Namespace"));
    namespaces
        .map(|o| o["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// Objects of the test, deleted on drop.
struct CreatedObjects<'a>(&'a Testbed, String);

impl Drop for CreatedObjects<'_> {
    fn drop(&mut self) {
        let args = ["delete", "--ignore-not-found", "--wait=false", "--filename", "-"];
        let _ = self.0.kubectl_input(&args, &self.1);
    }
}

fn make<'a>(cluster: &'a Testbed, objects: &[Value], manager: &str) -> CreatedObjects<'a> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let made = CreatedObjects(cluster, list);
    let args = ["create", manager, "--filename", "-"];
    cluster.kubectl_input(&args, &made.1).unwrap();
    made
}

/// Waits until the cluster has no leases.
fn empty(cluster: &Testbed) {
    let began = Instant::now();
    let args = [
        "get",
        "namespaces",
        "--selector=akash.network=true",
        "--output=name",
    ];
    while !cluster.kubectl(&args).unwrap().is_empty() {
        assert!(began.elapsed() < PATIENCE, "leases of other tests exist");
        sleep(Duration::from_millis(500));
    }
}

#[test]
fn live_leases_of_another_provider_are_refused_without_a_write() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let folder = testbed::recordings::folder("peer/k8s");
    empty(&cluster);
    let mut theirs = Vec::new();
    for name in ["web", "storage", "ports", "tiny"] {
        theirs.extend(lease(&folder.join(name)));
    }
    assert_eq!(namespaces(&theirs).len(), 4);
    let _theirs = make(&cluster, &theirs, THEIR_MANAGER);
    let before = settled(&cluster);

    let (served, output) = dev(&cluster, &[]);
    assert!(!served, "{output}");
    assert!(
        output.contains("the cluster has leases of other chains"),
        "{output}"
    );
    assert!(output.contains("use a cluster without leases"), "{output}");
    assert!(
        namespaces(&theirs).iter().any(|ns| output.contains(ns)),
        "{output}"
    );
    let (removed, output) = dev(&cluster, &["--remove-leftovers-of", "akashnet-2"]);
    assert!(
        !removed && output.contains("not the ID of an embedded chain"),
        "{output}"
    );
    let (removed, output) = dev(&cluster, &["--remove-leftovers-of", "dev-1"]);
    assert!(
        removed && output.contains("removed 0 objects of dev-1"),
        "{output}"
    );
    let after = everything(&cluster);
    assert_eq!(before, after, "the command wrote to the cluster");
    println!("{} objects, none written", after.len());
}

#[test]
fn only_leftovers_of_an_embedded_chain_are_removed() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let folder = testbed::recordings::folder("peer/k8s");
    empty(&cluster);
    let theirs = lease(&folder.join("web"));
    let mut ours = lease(&folder.join("tiny"));
    for object in &mut ours {
        if !object["metadata"]["annotations"].is_object() {
            object["metadata"]["annotations"] = json!({});
        }
        object["metadata"]["annotations"]["provider.akash.network/chain-id"] = json!("dev-7");
    }
    // Registry passwords are stored next to the records. Secrets of an unknown chain are not deleted.
    let secret = |name: &str, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": name, "namespace": "lease", "labels": {"akash.network": "true"}, "annotations": annotations,
        }})
    };
    ours.push(secret(
        "leftover-registry",
        json!({"provider.akash.network/chain-id": "dev-7"}),
    ));
    let stays = [secret("unnamed-registry", json!({}))];
    let _stays = make(&cluster, &stays, THEIR_MANAGER);
    let _theirs = make(&cluster, &theirs, THEIR_MANAGER);
    let _ours = make(&cluster, &ours, "--field-manager=akash-provider");
    let is_theirs = |line: &String| namespaces(&theirs).iter().any(|ns| line.contains(ns));
    let before: Vec<String> = settled(&cluster).into_iter().filter(is_theirs).collect();
    assert!(before.len() > 4, "{before:?}");

    let (served, output) = dev(&cluster, &[]);
    assert!(
        !served && output.contains("--remove-leftovers-of dev-7"),
        "{output}"
    );
    let (removed, output) = dev(&cluster, &["--remove-leftovers-of", "dev-7"]);
    assert!(removed, "{output}");
    assert!(output.contains("removed Secret leftover-registry"), "{output}");
    let left = [
        "get",
        "secrets",
        "--namespace=lease",
        "--selector=akash.network=true",
        "--output=name",
    ];
    assert_eq!(cluster.kubectl(&left).unwrap().trim(), "secret/unnamed-registry");
    for ns in namespaces(&ours) {
        assert!(output.contains(&format!("removed Namespace {ns}")), "{output}");
        assert!(output.contains(&format!("removed Manifest {ns}")), "{output}");
        let gone = [
            "wait",
            "--for=delete",
            &format!("namespace/{ns}"),
            "--timeout=60s",
        ];
        cluster.kubectl(&gone).unwrap();
    }
    let after: Vec<String> = everything(&cluster).into_iter().filter(is_theirs).collect();
    assert_eq!(before, after);
}
