//! Tests of the gRPC port with a tonic client.

use super::super::tests::{of_nodes, process, recorded_node, silent};
use super::*;
use akash_provider_operators::inventory::rules::{Pattern, Rules};
use http::uri::PathAndQuery;
use tokio::time::timeout;
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
