//! Tests of the gRPC port with a tonic client.

use super::super::tests::{of_nodes, process, recorded_node, silent};
use super::*;
use crate::args::InventoryOperatorArgs;
use crate::backend::served::OperatorClient;
use akash_provider_core::Error;
use akash_provider_core::inventory::{InventorySource, InventoryUpdate, NodeMetrics};
use akash_provider_core::types::Address;
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::settings::KubeSettings;
use akash_provider_operators::inventory::rules::{Pattern, Rules};
use http::uri::PathAndQuery;
use rustls::pki_types::PrivateKeyDer;
use std::path::PathBuf;
use tokio::io::copy_bidirectional;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::{Channel, Endpoint};

async fn serving(process: &Arc<InventoryProcess>) -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let until = CancellationToken::new();
    tokio::spawn(serve(listener, Arc::clone(process), until.clone()));
    (address, until)
}

async fn connect(address: &str) -> Channel {
    Endpoint::from_shared(address.to_owned())
        .unwrap()
        .connect()
        .await
        .unwrap()
}

fn path(method: &str) -> PathAndQuery {
    format!("/akash.inventory.v1.ClusterRPC/{method}")
        .parse()
        .unwrap()
}

async fn query(channel: &Channel, method: &str) -> Result<Cluster, tonic::Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let codec = ProstCodec::<(), Cluster>::default();
    let answer = client.unary(tonic::Request::new(()), path(method), codec).await;
    answer.map(tonic::Response::into_inner)
}

async fn subscribe(channel: &Channel) -> Result<tonic::Streaming<Cluster>, tonic::Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let codec = ProstCodec::<(), Cluster>::default();
    let asked = tonic::Request::new(());
    let answer = client.server_streaming(asked, path("StreamCluster"), codec).await;
    answer.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn subscriber_receives_the_cluster_and_its_changes() {
    let process = process(&of_nodes(vec![recorded_node()]), Rules::default());
    let (address, until) = serving(&process).await;
    let channel = connect(&address).await;
    let mut stream = subscribe(&channel).await.unwrap();
    let first = timeout(Duration::from_secs(60), stream.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(first.nodes[0].name, "node1");
    assert_eq!(query(&channel, "QueryCluster").await.unwrap(), first);
    let mut rules = Rules::default();
    rules.exclude(Pattern::new("node1").unwrap()).unwrap();
    process.operator.set_rules(rules);
    let second = timeout(Duration::from_secs(10), stream.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(second.nodes.is_empty());
    assert_eq!(
        query(&channel, "Nonsense").await.unwrap_err().code(),
        tonic::Code::Unimplemented
    );
    until.cancel();
    let end = timeout(Duration::from_secs(10), stream.message()).await.unwrap();
    assert!(
        matches!(end, Ok(None)),
        "a stop ends the stream without an error: {end:?}"
    );
}

#[tokio::test]
async fn query_is_unavailable_before_the_first_count_and_subscribers_are_limited() {
    let process = process(&silent(), Rules::default());
    let (address, _until) = serving(&process).await;
    let channel = connect(&address).await;
    assert_eq!(
        query(&channel, "QueryCluster").await.unwrap_err().code(),
        tonic::Code::Unavailable
    );
    let mut subscribers = Vec::new();
    for _ in 0..STREAMS_MAX / CALLS_MAX as usize {
        let channel = connect(&address).await;
        for _ in 0..CALLS_MAX {
            subscribers.push(subscribe(&channel).await.unwrap());
        }
        // At the limit of calls per connection, the next call waits.
        let waits = timeout(Duration::from_millis(100), query(&channel, "QueryCluster")).await;
        assert!(waits.is_err(), "{waits:?}");
    }
    let refused = subscribe(&channel).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    subscribers.pop();
    let again = async {
        while subscribe(&channel).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), again).await.unwrap();
}

/// Returns the capacity of a provider that follows the operator at `url`, with `age` as its maximum age.
fn provider_of(url: &str, age: Duration, ca: Option<PathBuf>) -> (KubeInventory, AbortOnDropHandle<()>) {
    let args = InventoryOperatorArgs {
        inventory_operator: Some(url.parse().unwrap()),
        inventory_operator_age: age,
        inventory_operator_ca: ca,
    };
    let settings = KubeSettings::new(Address::from_bytes(&[8; 20]).unwrap());
    let client = of_nodes(Vec::new());
    let options = CapacityOptions::default();
    let (inventory, feed) = KubeInventory::start_served(&client, &settings, &options, age);
    let operator = OperatorClient::new(&args).unwrap().unwrap();
    (
        inventory,
        AbortOnDropHandle::new(tokio::spawn(operator.run(feed))),
    )
}

/// Returns the next update for which `is_it` is true, and the errors before.
async fn until_update(
    updates: &mut BoxStream<'static, Result<InventoryUpdate, Error>>,
    is_it: impl Fn(&NodeMetrics) -> bool,
) -> (NodeMetrics, usize) {
    let mut errors = 0;
    let found = async {
        loop {
            match updates.next().await.unwrap() {
                Ok(update) => {
                    let node = update.inventory.metrics().nodes.into_iter().next();
                    if let Some(node) = node.filter(&is_it) {
                        return node;
                    }
                }
                Err(_) => errors += 1,
            }
        }
    };
    let found = timeout(Duration::from_secs(60), found).await.unwrap();
    (found, errors)
}

#[tokio::test]
async fn provider_places_nothing_on_old_capacity_and_continues_when_the_operator_returns() {
    let process = process(&of_nodes(vec![recorded_node()]), Rules::default());
    let (address, until) = serving(&process).await;
    let age = Duration::from_millis(1_500);
    let (inventory, _following) = provider_of(&address, age, None);
    let mut updates = inventory.watch();
    let is_open = |node: &NodeMetrics| node.cpu.available > 0;
    let (node, errors) = until_update(&mut updates, is_open).await;
    assert_eq!((&*node.name, errors), ("node1", 0));
    assert!(inventory.watches()["nodes"].is_connected);
    // A silent operator is queried, so its capacity stays valid.
    let silent = timeout(age * 2, until_update(&mut updates, |node| !is_open(node))).await;
    assert!(silent.is_err(), "{silent:?}");
    until.cancel();
    let (closed, errors) = until_update(&mut updates, |node| !is_open(node)).await;
    assert_eq!((closed.cpu.allocatable, errors), (node.cpu.allocatable, 1));
    assert!(!inventory.watches()["nodes"].is_connected);
    let listener = TcpListener::bind(address.strip_prefix("http://").unwrap())
        .await
        .unwrap();
    tokio::spawn(serve(listener, process, CancellationToken::new()));
    assert_eq!(until_update(&mut updates, is_open).await.0, node);
}

#[tokio::test]
async fn provider_follows_an_operator_behind_tls_with_its_ca_only() {
    let process = process(&of_nodes(vec![recorded_node()]), Rules::default());
    let (address, _until) = serving(&process).await;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [ca, other_ca] = ["ca.pem", "other.pem"].map(|name| folder.path().join(name));
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&other_ca, other.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth();
    let mut config = config
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let plain = address.strip_prefix("http://").unwrap().to_owned();
    let _proxy = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut operator = TcpStream::connect(&plain).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut stream, &mut operator).await.ok() });
        }
    }));
    let age = Duration::from_secs(15);
    let (inventory, _following) = provider_of(&url, age, Some(ca));
    let (node, _) = until_update(&mut inventory.watch(), |_| true).await;
    assert_eq!(node.name, "node1");
    let (untrusting, _following) = provider_of(&url, age, Some(other_ca));
    let refused = timeout(Duration::from_secs(60), untrusting.watch().next())
        .await
        .unwrap();
    let error = refused.unwrap().unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}
