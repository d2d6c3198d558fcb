//! Capacity from an inventory operator, over `akash.inventory.v1.ClusterRPC`.
//!
//! ```text
//! operator ─ StreamCluster, or QueryCluster after a silence ─► message ─ checks ─► feed ─► inventory
//! ```
//!
//! A failed call or an invalid message means that the capacity is unknown; the connection is then opened again. A
//! silent stream may be a hung operator, so the client queries the cluster before the last message is too old.

mod message;

pub(crate) use message::cluster_spec;

use crate::args::InventoryOperatorArgs;
use akash_provider_chain::proto::akash::inventory::v1::Cluster;
use akash_provider_chain::regular_file;
use akash_provider_core::error::chain_text;
use akash_provider_k8s::inventory::OperatorFeed;
use anyhow::Context;
use http::uri::PathAndQuery;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// Maximum size of a message in bytes: the default limit of gRPC servers and clients.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Maximum size of response headers in bytes.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Maximum size of a CA file in bytes.
const CA_BYTES_MAX: u64 = 4 << 20;
/// Timeout of a connection and of the start of a stream.
const CALL_TIME: Duration = Duration::from_secs(5);
/// Interval of TCP keep-alive probes. Servers of Go reject HTTP/2 pings at short intervals.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Minimum interval between two messages of a stream.
const PAUSE: Duration = Duration::from_millis(100);
/// First and maximum delay before the next connection.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// Client of an inventory operator.
#[derive(Debug)]
pub(crate) struct OperatorClient {
    channel: Channel,
    url: String,
    /// Time without a message after which the client queries the cluster.
    silence: Duration,
}

impl OperatorClient {
    /// Creates the client that the flags describe, without a connection. Returns `None` without
    /// `--inventory-operator`.
    ///
    /// # Errors
    /// Returns an error if the file with CA certificates cannot be used.
    pub(crate) fn new(args: &InventoryOperatorArgs) -> anyhow::Result<Option<Self>> {
        let Some(url) = &args.inventory_operator else {
            return Ok(None);
        };
        let mut endpoint = Endpoint::from_shared(url.to_string())
            .with_context(|| format!("invalid --inventory-operator {url}"))?
            .connect_timeout(CALL_TIME)
            .tcp_keepalive(Some(KEEP_ALIVE))
            .tcp_nodelay(true)
            .http2_max_header_list_size(HEAD_BYTES_MAX);
        if url.scheme() == "https" {
            let tls = match &args.inventory_operator_ca {
                None => ClientTlsConfig::new().with_native_roots(),
                Some(file) => {
                    let unreadable = || format!("cannot read --inventory-operator-ca {}", file.display());
                    let text = regular_file::read(file, CA_BYTES_MAX).with_context(unreadable)?;
                    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(text))
                }
            };
            endpoint = endpoint
                .tls_config(tls)
                .context("invalid certificates in --inventory-operator-ca")?;
        }
        Ok(Some(Self {
            channel: endpoint.connect_lazy(),
            url: url.to_string(),
            silence: args.inventory_operator_age / 3,
        }))
    }

    /// Reports each cluster of the operator to `feed`, forever.
    pub(crate) async fn run(self, feed: OperatorFeed) {
        let mut wait = RETRY.0;
        loop {
            let error = self.follow(&feed, &mut wait).await;
            feed.failed(format!("inventory operator {}: {error}", self.url));
            sleep(wait).await;
            wait = (wait * 2).min(RETRY.1);
        }
    }

    /// Follows one stream, and returns the reason of its end. A valid message resets `wait`.
    async fn follow(&self, feed: &OperatorFeed, wait: &mut Duration) -> String {
        let mut stream = match self.subscribe().await {
            Ok(stream) => stream,
            Err(error) => return error,
        };
        feed.connected();
        loop {
            let cluster = match timeout(self.silence, stream.message()).await {
                Ok(Ok(Some(cluster))) => Ok(cluster),
                Ok(Ok(None)) => Err("the operator ended the stream".to_owned()),
                Ok(Err(status)) => Err(status_text(&status)),
                Err(_) => self.query().await,
            };
            match cluster.and_then(|cluster| cluster_spec(&cluster)) {
                Ok(cluster) => feed.received(&cluster),
                Err(error) => return error,
            }
            *wait = RETRY.0;
            sleep(PAUSE).await;
        }
    }

    async fn subscribe(&self) -> Result<Streaming<Cluster>, String> {
        let path = PathAndQuery::from_static("/akash.inventory.v1.ClusterRPC/StreamCluster");
        self.call(async |caller| caller.server_streaming(Request::new(()), path, codec()).await)
            .await
    }

    async fn query(&self) -> Result<Cluster, String> {
        let path = PathAndQuery::from_static("/akash.inventory.v1.ClusterRPC/QueryCluster");
        self.call(async |caller| caller.unary(Request::new(()), path, codec()).await)
            .await
    }

    /// Sends a request when the connection is ready. Fails after [`CALL_TIME`].
    async fn call<T>(
        &self,
        request: impl AsyncFnOnce(&mut Grpc<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, String> {
        let mut caller = Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let response = timeout(CALL_TIME, async {
            caller.ready().await.map_err(|error| chain_text(&error))?;
            let response = request(&mut caller).await;
            response
                .map(Response::into_inner)
                .map_err(|status| status_text(&status))
        });
        response
            .await
            .unwrap_or_else(|_| Err(format!("no response within {CALL_TIME:?}")))
    }
}

fn codec() -> ProstCodec<(), Cluster> {
    ProstCodec::default()
}

/// Returns the code and the start of the message of a status. The operator chooses the message.
fn status_text(status: &Status) -> String {
    let message = message::excerpt(status.message());
    let cause = std::error::Error::source(status).map(|cause| format!(": {}", chain_text(cause)));
    format!("{:?} {message}{}", status.code(), cause.unwrap_or_default())
}
