//! Simulated gRPC node on the loopback interface, with an in-memory market or recorded responses.

use super::chain::{Chain, block_hash};
use super::listen;
use crate::endpoint::SPOKEN;
use crate::method::Method;
use crate::proto::akash::discovery::v1 as discovery;
use crate::proto::cosmos::base::tendermint::v1beta1 as node;
use crate::proto::tendermint::types::{Block, BlockId, Header};
use bytes::Bytes;
use prost::Message;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[derive(Debug, Clone)]
pub(crate) enum GrpcReply {
    /// Encoded response, and the height that the node reports with the response.
    Bytes(Vec<u8>, u64),
    /// Status code and message.
    Status(u32, String),
}

type Answer = Arc<dyn Fn(&str, &[u8], Option<u64>) -> GrpcReply + Send + Sync>;

/// Simulated gRPC node. Dropping the node closes all connections.
#[derive(Debug)]
pub(crate) struct GrpcNode {
    pub(crate) url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for GrpcNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl GrpcNode {
    /// Starts a node. `response` receives the path, bytes and height of each request.
    pub(crate) async fn start(
        response: impl Fn(&str, &[u8], Option<u64>) -> GrpcReply + Send + Sync + 'static,
    ) -> Self {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let url = format!("grpc://{}", listener.local_addr().unwrap());
        let response: Answer = Arc::new(response);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(connection(stream, Arc::clone(&response)));
            }
        });
        Self { url, task }
    }

    pub(crate) async fn for_chain(chain: &Chain) -> Self {
        let chain = chain.clone();
        Self::start(move |path, data, asked| {
            node_reply(&chain, path, data).unwrap_or_else(|| chain_reply(&chain, path, data, asked))
        })
        .await
    }
}

fn chain_reply(chain: &Chain, path: &str, data: &[u8], asked: Option<u64>) -> GrpcReply {
    match chain.serve(path, data, asked) {
        Ok((bytes, height)) if !bytes.is_empty() => GrpcReply::Bytes(bytes, height),
        Ok(_) => GrpcReply::Status(
            5,
            "codespace market code 18: invalid bid: bid not found".to_owned(),
        ),
        Err(_) => GrpcReply::Status(
            3,
            "cannot query with height in the future; please provide a valid height".to_owned(),
        ),
    }
}

fn block(chain: &Chain, height: u64) -> Option<Block> {
    let millis = chain.lock().market.block_time(height)?.0;
    let time = prost_types::Timestamp {
        seconds: millis / 1000,
        nanos: 0,
    };
    let header = Header {
        chain_id: "local".to_owned(),
        height: i64::try_from(height).unwrap(),
        time: Some(time),
    };
    Some(Block {
        header: Some(header),
        data: None,
    })
}

/// Responds to queries about the node itself. Returns `None` for other queries.
pub(crate) fn node_reply(chain: &Chain, path: &str, data: &[u8]) -> Option<GrpcReply> {
    let height = chain.height();
    let bytes = match path {
        node::GetSyncingRequest::PATH => node::GetSyncingResponse { syncing: false }.encode_to_vec(),
        node::GetLatestBlockRequest::PATH => {
            let block = block(chain, height);
            let hash = block_hash(height, height);
            let hash = data_encoding::HEXUPPER.decode(hash.as_bytes()).unwrap();
            let block_id = Some(BlockId { hash });
            node::GetLatestBlockResponse { block_id, block }.encode_to_vec()
        }
        node::GetBlockByHeightRequest::PATH => {
            let asked = node::GetBlockByHeightRequest::decode(data).unwrap().height;
            let block = block(chain, u64::try_from(asked).unwrap());
            node::GetBlockByHeightResponse { block }.encode_to_vec()
        }
        discovery::GetInfoRequest::PATH => {
            let module = |(module, version): (&str, &str)| discovery::ModuleVersion {
                module: module.to_owned(),
                version: version.to_owned(),
            };
            let version = discovery::VersionInfo {
                api_version: "v1beta4".to_owned(),
                modules: SPOKEN.map(module).to_vec(),
                features: Vec::new(),
            };
            let info = discovery::Akash {
                supported_versions: vec![version],
                ..discovery::Akash::default()
            };
            discovery::GetInfoResponse { info: Some(info) }.encode_to_vec()
        }
        _ => return None,
    };
    Some(GrpcReply::Bytes(bytes, height))
}

async fn connection(stream: TcpStream, response: Answer) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let response = Arc::clone(&response);
        tokio::spawn(async move { reply(request, respond, &response).await });
    }
}

async fn reply(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    response: &Answer,
) {
    let path = request.uri().path().to_owned();
    let asked = request.headers().get("x-cosmos-block-height");
    let asked = asked.map(|h| h.to_str().unwrap().parse().unwrap());
    let mut body = request.into_body();
    let mut data = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        drop(body.flow_control().release_capacity(chunk.len()));
        data.extend(chunk);
    }
    let message = data.get(5..).unwrap_or_default();
    let head = http::Response::builder().header("content-type", "application/grpc");
    // The node itself responds to discovery, without a height.
    let has_height = path != discovery::GetInfoRequest::PATH;
    match response(&path, message, asked) {
        GrpcReply::Bytes(bytes, height) => {
            let head = if has_height {
                head.header("x-cosmos-block-height", height.to_string())
            } else {
                head
            };
            let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
            let mut framed = vec![0];
            framed.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
            framed.extend(bytes);
            drop(stream.send_data(framed.into(), false));
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
            drop(stream.send_trailers(trailers));
        }
        GrpcReply::Status(code, text) => {
            let head = head
                .header("grpc-status", code.to_string())
                .header("grpc-message", text);
            drop(respond.send_response(head.body(()).unwrap(), true));
        }
    }
}
