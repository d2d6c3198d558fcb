//! Tests of the fault proxy in front of the gRPC endpoint of a node: each fault has its documented effect.

use crate::chain_faults::world::{CHAIN, authority, chain, devnet, height};
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::method::Method;
use akash_provider_chain::proto::akash::discovery::v1::GetInfoRequest;
use akash_provider_chain::proto::akash::market::v1beta5::QueryParamsRequest;
use akash_provider_chain::proto::cosmos::base::node::v1beta1::ConfigRequest;
use akash_provider_chain::proto::cosmos::base::tendermint::v1beta1::{
    GetBlockByHeightRequest, GetLatestBlockRequest, GetLatestBlockResponse, GetSyncingRequest,
};
use akash_provider_chain::proto::cosmos::tx::v1beta1::BroadcastTxRequest;
use akash_provider_chain::proto::tendermint::types::Block;
use akash_provider_chain::{EndpointLimits, Fault, Raw};
use bytes::Bytes;
use fault_proxy::{Faults, Proxy};
use http::uri::PathAndQuery;
use prost::Message;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

const HEIGHT: &str = "x-cosmos-block-height";

/// Sends one request on a new connection. Returns the response and its height.
async fn ask<M: Method>(at: &str, pin: Option<u64>) -> Result<(Bytes, u64), Status> {
    let node = Endpoint::from_shared(format!("http://{at}")).unwrap();
    let mut caller = Grpc::new(node.connect().await.map_err(|e| Status::from_error(e.into()))?);
    caller.ready().await.map_err(|e| Status::from_error(e.into()))?;
    let mut request = Request::new(Bytes::new());
    let pin = pin.map(|height| {
        request
            .metadata_mut()
            .insert(HEIGHT, AsciiMetadataValue::from(height))
    });
    assert!(pin.flatten().is_none());
    let answer = caller
        .unary(request, PathAndQuery::from_static(M::PATH), Raw)
        .await?;
    let height = answer.metadata().get(HEIGHT).unwrap().to_str().unwrap().parse();
    Ok((answer.into_inner(), height.unwrap()))
}

fn block_height(block: Option<Block>) -> u64 {
    block.unwrap().header.unwrap().height.try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_grpc_fault_has_its_documented_effect() {
    let chain = chain();
    let net = devnet(&chain, None).await;
    for _ in 0..10 {
        net.make_block();
    }
    let newest = height(&chain);
    let node = authority(&net.grpc_url());
    let proxy = Proxy::start_grpc(&node, 3).await.unwrap();
    let none = Faults::default();
    let at = proxy.address().to_string();
    let params = async |pin| ask::<QueryParamsRequest>(&at, pin).await;
    let direct = ask::<QueryParamsRequest>(&node, None).await.unwrap();
    assert_eq!(params(None).await.unwrap(), direct, "the response is unchanged");
    assert_eq!(params(Some(newest - 1)).await.unwrap().1, newest - 1);

    proxy.set(Faults { lag: 4, ..none });
    assert_eq!(params(None).await.unwrap().1, newest - 4);
    let later = params(Some(newest)).await.unwrap_err();
    assert!(later.message().contains("height in the future"), "{later}");
    let (_, settings_at) = ask::<ConfigRequest>(&at, None).await.unwrap();
    assert_eq!(settings_at, newest, "the settings of a node have no height");

    proxy.set(Faults { scatter: 3, ..none });
    let mut heights = BTreeSet::new();
    for _ in 0..40 {
        heights.insert(params(None).await.unwrap().1);
    }
    assert_eq!(heights, (newest - 3..=newest).collect());

    proxy.set(Faults {
        keep_blocks: 2,
        ..none
    });
    let gone = params(Some(3)).await.unwrap_err();
    assert!(gone.message().contains("version does not exist"), "{gone}");
    assert_eq!(params(Some(newest - 2)).await.unwrap().1, newest - 2);
    let nodes = [proxy.url()];
    let client = Endpoints::new(&nodes, CHAIN, EndpointLimits::default()).unwrap();
    let gone = client.query(&QueryParamsRequest {}, Some(3)).await.unwrap_err();
    assert!(matches!(gone.fault, Fault::Pruned(_)), "{gone}");

    proxy.set(Faults {
        refused: true,
        ..none
    });
    let before = proxy.stats().faults;
    params(None).await.unwrap_err();
    assert_eq!(proxy.stats().faults, before + 1, "an HTML page is not a message");
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_fault_changes_what_node_reports_about_itself() {
    let chain = chain();
    let net = devnet(&chain, None).await;
    for _ in 0..10 {
        net.make_block();
    }
    let newest = height(&chain);
    let proxy = Proxy::start_grpc(&authority(&net.grpc_url()), 3).await.unwrap();
    let none = Faults::default();
    let at = proxy.address().to_string();
    let latest = async || {
        let (answer, _) = ask::<GetLatestBlockRequest>(&at, None).await.unwrap();
        GetLatestBlockResponse::decode(answer).unwrap().block
    };
    assert_eq!(block_height(latest().await), newest, "the response is unchanged");
    proxy.set(Faults { lag: 4, ..none });
    let nodes = [proxy.url()];
    let client = Endpoints::new(&nodes, CHAIN, EndpointLimits::default()).unwrap();
    let block = async |height: u64| {
        let height = height.try_into().unwrap();
        client.query(&GetBlockByHeightRequest { height }, None).await
    };
    assert_eq!(block_height(latest().await), newest - 4);
    let later = block(newest).await.unwrap_err();
    assert!(matches!(later.fault, Fault::HeightUnavailable(_)), "{later}");
    assert_eq!(block_height(block(newest - 4).await.unwrap().0.block), newest - 4);

    proxy.set(Faults {
        catching_up: true,
        other_versions: true,
        ..none
    });
    let syncing = client.query(&GetSyncingRequest {}, None).await.unwrap();
    assert_eq!((syncing.0.syncing, syncing.1), (true, newest));
    let info = client
        .query(&GetInfoRequest {}, None)
        .await
        .unwrap()
        .0
        .info
        .unwrap();
    assert_eq!(info.client_info.unwrap().api_version, "v9");
    assert_eq!(info.supported_versions[0].modules[0].version, "v9");
    assert_eq!(
        block_height(latest().await),
        newest,
        "other responses are unchanged"
    );

    proxy.set(Faults {
        keep_blocks: 2,
        ..none
    });
    let gone = block(3).await.unwrap_err();
    assert!(gone.to_string().contains("is not available"), "{gone}");
    assert_eq!(block_height(block(newest - 2).await.unwrap().0.block), newest - 2);
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_responses_are_truncated_delayed_or_dropped() {
    let net = devnet(&chain(), None).await;
    let proxy = Proxy::start_grpc(&authority(&net.grpc_url()), 3).await.unwrap();
    let none = Faults::default();
    let at = proxy.address().to_string();
    let params = async || ask::<QueryParamsRequest>(&at, None).await;
    params().await.unwrap();

    proxy.set(Faults {
        truncate: 100,
        ..none
    });
    let cut = params().await.unwrap_err();
    proxy.set(Faults { swallow: 100, ..none });
    let broadcasts = proxy.stats().broadcasts;
    let swallowed = ask::<BroadcastTxRequest>(&at, None).await.unwrap_err();
    assert_eq!(
        proxy.stats().broadcasts,
        broadcasts + 1,
        "the node received the broadcast"
    );
    // Like the end of a connection: an error of the client, not a status of the node.
    for error in [cut, swallowed] {
        assert!(std::error::Error::source(&error).is_some(), "{error:?}");
    }
    proxy.set(Faults { down: true, ..none });
    params().await.unwrap_err();

    proxy.set(Faults { frozen: true, ..none });
    let waiting = tokio::time::timeout(Duration::from_millis(300), params()).await;
    assert!(waiting.is_err(), "a request passed");
    proxy.set(Faults {
        delay_ms: 200,
        ..none
    });
    let began = Instant::now();
    for _ in 0..10 {
        params().await.unwrap();
    }
    assert!(
        began.elapsed() > Duration::from_millis(300),
        "ten responses, each delayed by up to 200 ms"
    );
    net.stop().await;
}
