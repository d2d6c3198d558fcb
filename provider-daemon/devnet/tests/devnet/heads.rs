//! Metadata of gRPC responses: the names in the head and in the trailers must be those of the Akash node,
//! because clients may need any of them.

use super::driver::devnet;
use super::recordings::read;
use akash_provider_devnet::Devnet;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::collections::BTreeSet;
use tokio::net::TcpStream;

const HEIGHT: &str = "x-cosmos-block-height";
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const TYPE: &str = "content-type";

/// Methods for which an Akash node first selects a state. Even the refusal of such a call contains the height
/// of the state.
const OF_STATE: [&str; 32] = [
    "/akash.audit.v1.Query/AllProvidersAttributes",
    "/akash.audit.v1.Query/AuditorAttributes",
    "/akash.audit.v1.Query/ProviderAttributes",
    "/akash.audit.v1.Query/ProviderAuditorAttributes",
    "/akash.cert.v1.Query/Certificates",
    "/akash.deployment.v1beta4.Query/Deployment",
    "/akash.deployment.v1beta4.Query/Deployments",
    "/akash.deployment.v1beta4.Query/Group",
    "/akash.deployment.v1beta4.Query/Params",
    "/akash.escrow.v1.Query/Accounts",
    "/akash.escrow.v1.Query/Payments",
    "/akash.market.v1beta5.Query/Bid",
    "/akash.market.v1beta5.Query/Bids",
    "/akash.market.v1beta5.Query/Lease",
    "/akash.market.v1beta5.Query/Leases",
    "/akash.market.v1beta5.Query/Order",
    "/akash.market.v1beta5.Query/Orders",
    "/akash.market.v1beta5.Query/Params",
    "/akash.provider.v1beta4.Query/Provider",
    "/akash.provider.v1beta4.Query/Providers",
    "/cosmos.auth.v1beta1.Query/Account",
    "/cosmos.bank.v1beta1.Query/AllBalances",
    "/cosmos.bank.v1beta1.Query/Balance",
    "/cosmos.base.node.v1beta1.Service/Config",
    "/cosmos.base.node.v1beta1.Service/Status",
    "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight",
    "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock",
    "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo",
    "/cosmos.base.tendermint.v1beta1.Service/GetSyncing",
    "/cosmos.tx.v1beta1.Service/BroadcastTx",
    "/cosmos.tx.v1beta1.Service/GetTx",
    "/cosmos.tx.v1beta1.Service/Simulate",
];
/// Method that an Akash node executes without a chain state.
const OF_SERVER: &str = "/akash.discovery.v1.Discovery/GetInfo";
/// Recorded methods of modules that are not implemented.
const NOT_PLAYED: [&str; 2] = [
    "/akash.bme.v1.Query/Status",
    "/akash.oracle.v2.Query/AggregatedPrice",
];

/// Metadata of a response: the names in the head, the names in the trailers, and the height.
#[derive(Debug, PartialEq)]
struct ResponseMetadata {
    head: BTreeSet<String>,
    trailers: BTreeSet<String>,
    height: Option<u64>,
}

impl ResponseMetadata {
    fn new(head: &[&str], trailers: &[&str], height: Option<u64>) -> Self {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            head: names(head),
            trailers: names(trailers),
            height,
        }
    }

    fn of_state(height: u64) -> Self {
        Self::new(&[TYPE, HEIGHT], &[STATUS, MESSAGE], Some(height))
    }

    fn of_server() -> Self {
        Self::new(&[TYPE], &[STATUS, MESSAGE], None)
    }

    fn without_state() -> Self {
        Self::new(&[TYPE, STATUS, MESSAGE], &[], None)
    }
}

/// Sends a request with an empty message.
async fn ask(devnet: &Devnet, path: &str, height: Option<&str>) -> ResponseMetadata {
    let address = devnet.grpc_url().trim_start_matches("grpc://").to_owned();
    let stream = TcpStream::connect(&address).await.unwrap();
    let client = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = client.await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = http::Request::builder()
        .method("POST")
        .uri(format!("http://{address}{path}"))
        .header(TYPE, "application/grpc")
        .header("te", "trailers");
    if let Some(height) = height {
        request = request.header(HEIGHT, height);
    }
    let request = request.body(Full::new(Bytes::from_static(&[0; 5]))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let names = |map: &http::HeaderMap| map.keys().map(ToString::to_string).collect();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let metadata = ResponseMetadata {
        height: head
            .headers
            .get(HEIGHT)
            .map(|h| h.to_str().unwrap().parse().unwrap()),
        trailers: body.trailers().map(names).unwrap_or_default(),
        head: names(&head.headers),
    };
    drop(sender);
    connection.await.unwrap().unwrap();
    metadata
}

#[tokio::test]
async fn heads_and_trailers_match_the_network() {
    let devnet = devnet(None).await;
    for _ in 0..3 {
        devnet.make_block();
    }
    let newest = devnet.chain().market(|m| m.height());
    let earlier = (newest - 1).to_string();
    for path in OF_STATE {
        assert_eq!(
            ask(&devnet, path, None).await,
            ResponseMetadata::of_state(newest),
            "{path}"
        );
        let pinned = ask(&devnet, path, Some(&earlier)).await;
        assert_eq!(
            pinned,
            ResponseMetadata::of_state(newest - 1),
            "{path} at {earlier}"
        );
        for unfit in ["1000000", "rubbish"] {
            let refused = ask(&devnet, path, Some(unfit)).await;
            assert_eq!(refused, ResponseMetadata::without_state(), "{path} at {unfit}");
        }
    }
    for height in [None, Some("1"), Some("1000000"), Some("rubbish")] {
        let metadata = ask(&devnet, OF_SERVER, height).await;
        assert_eq!(
            metadata,
            ResponseMetadata::of_server(),
            "{OF_SERVER} at {height:?}"
        );
    }
    for path in NOT_PLAYED {
        assert_eq!(
            ask(&devnet, path, None).await,
            ResponseMetadata::without_state(),
            "{path}"
        );
    }
    devnet.stop().await;
}

#[test]
fn every_recorded_method_is_in_the_table() {
    let folder = testbed::recordings::folder("chain");
    let methods = OF_STATE.iter().chain(&NOT_PLAYED).chain([&OF_SERVER]);
    let methods: BTreeSet<&str> = methods.copied().collect();
    for state in std::fs::read_dir(folder.join("grpc")).unwrap() {
        let state = state.unwrap().path();
        for file in std::fs::read_dir(&state).into_iter().flatten() {
            let recorded = read(&file.unwrap().path());
            let path = recorded["path"].as_str().unwrap();
            assert!(methods.contains(path), "{path}");
        }
    }
}
