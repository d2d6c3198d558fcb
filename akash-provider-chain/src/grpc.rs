//! gRPC client of a node. Requests and responses are encoded messages, the same messages as with
//! `abci_query`.

use crate::connection;
use crate::fault::Fault;
use crate::limits::EndpointLimits;
use crate::raw::Raw;
use crate::rpc::types::height_fault;
use crate::tls::Trust;
use crate::{convert::excerpt, fault::causes};
use bytes::Bytes;
use http::uri::PathAndQuery;
use std::time::Duration;
use tonic::client::Grpc as Caller;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use url::Url;

/// Name of the gRPC metadata entry that contains the height, in requests and responses.
const HEIGHT: &str = "x-cosmos-block-height";
/// Interval of HTTP/2 keep-alive pings.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(crate) struct Grpc {
    channel: Channel,
    limits: EndpointLimits,
}

impl Grpc {
    /// Creates a client of the node at `url` (`grpc` or `grpcs`), without opening a connection. `trust`
    /// contains the root certificates for `grpcs`.
    pub(crate) fn new(url: &Url, limits: EndpointLimits, trust: Option<&Trust>) -> Result<Self, String> {
        let host = url.host_str().ok_or("no host in the address")?;
        // Default gRPC port of nodes.
        let port = url.port().unwrap_or(9090);
        let scheme = if trust.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{host}:{port}"));
        let mut endpoint = endpoint
            .map_err(|e| causes(&e))?
            .connect_timeout(limits.connect_time)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(limits.connect_time)
            .tcp_nodelay(true);
        if let Some(trust) = trust {
            let mut tls = ClientTlsConfig::new().with_native_roots();
            if let Some(extra) = &trust.extra {
                tls = tls.ca_certificate(Certificate::from_pem(extra));
            }
            endpoint = endpoint.tls_config(tls).map_err(|e| causes(&e))?;
        }
        Ok(Self {
            channel: endpoint.connect_lazy(),
            limits,
        })
    }

    /// Sends a query. Returns the encoded response and the height of the response. The height is `None` if
    /// the node does not report a height.
    pub(crate) async fn query(
        &self,
        path: &'static str,
        data: Bytes,
        pin: Option<u64>,
    ) -> Result<(Bytes, Option<u64>), Fault> {
        let time = self.limits.response_time;
        let response = tokio::time::timeout(time, self.send(path, data, pin)).await;
        response.map_err(|_| Fault::Timeout(time))?
    }

    async fn send(
        &self,
        path: &'static str,
        data: Bytes,
        pin: Option<u64>,
    ) -> Result<(Bytes, Option<u64>), Fault> {
        let mut caller =
            Caller::new(self.channel.clone()).max_decoding_message_size(self.limits.response_bytes);
        // Awaited separately: a failure here precedes the transmission of data.
        let ready = caller.ready().await;
        ready.map_err(|e| connection::fault(&e, is_connect(&e)))?;
        let mut request = Request::new(data);
        if let Some(height) = pin {
            request
                .metadata_mut()
                .insert(HEIGHT, AsciiMetadataValue::from(height));
        }
        let path = PathAndQuery::from_static(path);
        let response = caller.unary(request, path, Raw).await;
        let response = response.map_err(|status| self.fault(&status))?;
        let height = height_in(response.metadata());
        Ok((response.into_inner(), height))
    }

    fn fault(&self, status: &Status) -> Fault {
        let text = excerpt(status.message());
        // Checked before the code: nodes have no code of their own for a height they do not have.
        if let Some(fault) = height_fault(status.message()) {
            return fault;
        }
        // A status with a source is local: the connection failed.
        if std::error::Error::source(status).is_some() {
            return connection::fault(status, is_connect(status));
        }
        match status.code() {
            Code::NotFound => Fault::NotFound {
                text,
                height: height_in(status.metadata()),
            },
            Code::DeadlineExceeded => Fault::Timeout(self.limits.response_time),
            // Code of the decoder for a response above the size limit.
            Code::OutOfRange => Fault::TooLarge {
                limit: self.limits.response_bytes,
            },
            Code::Cancelled
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Internal
            | Code::DataLoss
            | Code::PermissionDenied
            | Code::Unauthenticated => Fault::Unreachable(causes(status)),
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Unimplemented => Fault::Refused {
                codespace: "grpc".to_owned(),
                code: i64::from(i32::from(status.code())),
                text,
            },
        }
    }
}

fn is_connect(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| cause.is::<tonic::ConnectError>())
}

fn height_in(metadata: &MetadataMap) -> Option<u64> {
    let height = metadata.get(HEIGHT)?;
    height.to_str().ok()?.parse().ok()
}
