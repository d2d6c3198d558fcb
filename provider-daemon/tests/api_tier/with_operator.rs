//! `run` with the hostname operator in its process, and a lease with every kind of object: election, and metrics of the
//! requests to the API server.

use crate::http::curl;
use crate::leased::{Leased, NODE, tenant};
use crate::make;
use crate::on_a_chain::{Node, operator};
use crate::requests::LoggedAccount;
use crate::stage::{ADDRESS, PRICES, Running, Stage, until};
use akash_provider_core::types::{Attribute, Msg};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;
use testbed::{Testbed, Tier, free_port};

/// Actions of the Go provider that this provider counts for the lease. The other actions are for HTTPRoutes, which the
/// operator writes instead of Ingresses with `--ingress-mode gateway-api`, and for reads of accounts, roles and their
/// bindings, which this provider lists.
const ACTIONS: [&str; 47] = [
    "akash-manifests-create",
    "akash-manifests-get",
    "akash-manifests-update",
    "deployments-create",
    "deployments-get",
    "deployments-list",
    "deployments-patch",
    "deployments-update",
    "discovery-serverversion",
    "events-follow",
    "events-list",
    "ingresses-get",
    "manifests-delete",
    "manifests-get",
    "manifests-list",
    "namespace-get",
    "namespaces-create",
    "namespaces-delete",
    "namespaces-get",
    "namespaces-update",
    "networking-ingresses-create",
    "networking-ingresses-update",
    "networking-policies-create",
    "networking-policies-get",
    "networking-policies-update",
    "pods-getlogs",
    "pods-list",
    "provider-hosts",
    "providerhosts-list",
    "rolebindings-create",
    "rolebindings-update",
    "roles-create",
    "roles-update",
    "secrets-create",
    "secrets-get",
    "secrets-update",
    "serviceaccounts-create",
    "serviceaccounts-update",
    "services-create",
    "services-get",
    "services-list",
    "services-update",
    "statefulset-create",
    "statefulset-get",
    "statefulset-update",
    "statefulsets-get",
    "statefulsets-list",
];

/// Returns the holder in the election Lease of the hostname operators.
fn holder(cluster: &Testbed) -> String {
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

/// Declares the storage class in the attributes of the provider.
fn declare_storage(stage: &Stage) {
    let attribute = |key: &str, value: &str| Attribute {
        key: format!("capabilities/storage/1/{key}"),
        value: value.to_owned(),
    };
    stage.chain.market(|market| {
        let mut record = market.provider(&ADDRESS.parse().unwrap()).unwrap().clone();
        record.attributes = vec![attribute("class", "beta2"), attribute("persistent", "true")];
        market.execute(&Msg::UpdateProvider(record)).unwrap();
    });
}

fn gateway(provider: &Running) -> String {
    provider.says("\"event\":\"gateway\"");
    let output = provider.output();
    let line = output.lines().find(|line| line.contains("\"event\":\"gateway\""));
    let line: Value = serde_json::from_str(line.unwrap()).unwrap();
    line["url"].as_str().unwrap().to_owned()
}

/// Starts a provider that has a price for the storage class, and waits until the provider bids.
fn start(stage: &Stage, kubeconfig: &str, port: u16) -> Running {
    let words = [
        "--cluster-k8s",
        "--kubeconfig",
        kubeconfig,
        "--with-operators=hostname",
        "--gateway-listen-address=127.0.0.1:0",
        "--certificate-domain=localhost",
        "--deployment-ingress-static-hosts",
        "--deployment-ingress-domain=ingress.localhost",
        "--output=json",
        &format!("--metrics-listener=127.0.0.1:{port}"),
    ];
    let [cpu, memory, storage, endpoint] = PRICES;
    let storage = format!("{storage},beta2=0.00001");
    let prices = ["run", cpu, memory, &storage, endpoint];
    let provider = stage.running("provider", &[&prices[..], &words].concat());
    provider.says("\"is_ready\":true");
    provider
}

/// Checks that the operator leads.
fn check_operator(stage: &Stage, cluster: &Testbed) {
    let works = || {
        let status = operator(stage, "hostname");
        status["is_ready"] == true && status["election"]["is_leader"] == true
    };
    until(
        "the operator leads",
        || operator(stage, "hostname").to_string(),
        works,
    );
    let (_, printed_status, _) = stage.ran(&["operator", "status"]);
    assert_eq!(printed_status, "hostname: active\n");
    let status = operator(stage, "hostname");
    assert_eq!(status["election"]["identity"], holder(cluster).as_str());
}

#[test]
fn provider_runs_hostname_operator_in_process_and_releases_its_lease() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let mut stage = Stage::new("operators", true);
    let tenant = tenant(&stage);
    declare_storage(&stage);
    stage.start_node(Some(Duration::from_millis(500)));
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "rancher.io/local-path",
        "metadata": {"name": "beta2", "labels": {"akash.network": "true"}},
    });
    let _class = make(&cluster, &[class], "--field-manager=api-tier");
    let node = Node::new(&cluster, NODE);
    let label = [
        "label",
        "node",
        NODE,
        "akash.network/capabilities.storage.class.beta2=1",
    ];
    cluster.kubectl(&label).unwrap();
    let account = LoggedAccount::new(&cluster, &stage);
    let port = free_port().unwrap();
    let mut provider = start(&stage, account.kubeconfig.to_str().unwrap(), port);
    check_operator(&stage, &cluster);
    let leased = Leased {
        cluster: &cluster,
        stage: &stage,
        provider: &provider,
        url: gateway(&provider),
    };
    // As the heartbeat of a kubelet.
    node.ready();
    let (id, space) = leased.rent(&tenant);
    leased.update(&id);
    leased.read_logs(&space, &account);
    leased.drift(&space, port);
    leased.check_audit();
    stage.close(id);
    provider.says("\"event\":\"lease_closed\"");
    leased.check_metrics(port);
    if curl(&[&format!("{}/version", leased.url)]).is_some() {
        account.check(port, &provider, &ACTIONS);
    }
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    assert_eq!(holder(&cluster), "", "the Lease has no holder after the stop");
    let (code, _, err) = stage.ran(&["operator", "status"]);
    assert!(code != 0 && err.contains("no provider runs"), "{err}");
}
