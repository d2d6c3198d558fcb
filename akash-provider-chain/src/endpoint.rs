//! Endpoint: one address of a node, with its protocol and its health.
//!
//! | address | protocol |
//! |---|---|
//! | `http://`, `https://`, `tcp://` | JSON-RPC of CometBFT; queries with `abci_query` |
//! | `grpc://`, `grpcs://` | gRPC; queries only, without blocks |

pub(crate) mod health;
mod statistics;
mod version;

use crate::checkpoint::{check_time, now};
use crate::convert::{block_header, excerpt};
use crate::fault::{Fault, NodeError};
use crate::grpc::Grpc;
use crate::limits::EndpointLimits;
use crate::method::Method;
use crate::proto::cosmos::base::tendermint::v1beta1 as node;
use crate::rpc::Rpc;
use crate::rpc::types::{AbciQuery, AbciResponse, BlockHash, HeaderResponse, RpcStatus, height_fault};
use crate::tls::{Roots, Trust};
use akash_provider_core::chain::SyncInfo;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{BlockTime, Height};
use bytes::Bytes;
use prost::Message;
use serde::Serialize;
use statistics::EndpointCounters;
pub use statistics::EndpointStatistics;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;
#[cfg(test)]
pub(crate) use version::SPOKEN;
pub use version::Versions;

/// Codespace and code of an `abci_query` response for a missing record.
const NOT_FOUND: (&str, i64) = ("sdk", 22);

/// Encoded response to a query, and the height of the queried chain state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryResponse {
    pub(crate) bytes: Bytes,
    pub(crate) height: Height,
}

#[derive(Debug)]
pub(crate) enum Transport {
    Rpc(Box<Rpc>),
    Grpc(Grpc),
}

/// One address of a node, with a limit for concurrent requests.
pub(crate) struct NodeEndpoint {
    /// Address of the node, without credentials.
    pub(crate) name: Arc<str>,
    /// Address of the node, with credentials. This address must never be logged or displayed.
    pub(crate) url: Url,
    pub(crate) transport: Transport,
    /// TLS configuration for a websocket to an `https` address.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    requests: Semaphore,
    pub(crate) counters: EndpointCounters,
}

impl fmt::Debug for NodeEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Returns a node address for display, without user name, password and query string.
///
/// If the address is invalid, only its scheme is returned.
#[must_use]
pub fn redact_address(address: &str) -> String {
    let parsed = Url::parse(address).ok().filter(|url| !url.cannot_be_a_base());
    let Some(mut url) = parsed else {
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        return match (rest.contains(['@', '?', '#']), scheme) {
            (false, _) => excerpt(address),
            (true, "") => "…".to_owned(),
            (true, scheme) => excerpt(&format!("{scheme}://")) + "…",
        };
    };
    let is_secretive = url.query().is_some() || url.fragment().is_some();
    // Both functions fail only for addresses without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    let plain = url.as_str().trim_end_matches('/');
    let hidden = if is_secretive { "?…" } else { "" };
    format!("{plain}{hidden}")
}

/// Error for an invalid address of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid endpoint `{address}`: {why}; use http://host:26657, https://host or grpc://host:9090")]
pub struct BadEndpoint {
    /// Address as configured, without credentials.
    pub address: String,
    /// Reason why the address is invalid.
    pub why: String,
}

#[derive(Serialize)]
struct QueryParams<'a> {
    path: &'a str,
    data: String,
    height: String,
    prove: bool,
}

/// Height parameter, encoded as text, because the JSON-RPC encodes 64-bit integers as text.
#[derive(Serialize)]
pub(crate) struct HeightParams {
    pub(crate) height: String,
}

#[derive(Serialize)]
struct NoParams {}

impl NodeEndpoint {
    pub(crate) fn new(address: &str, limits: EndpointLimits, roots: &Roots) -> Result<Self, BadEndpoint> {
        let bad = |why: String| BadEndpoint {
            address: redact_address(address),
            why,
        };
        // Scheme in the configuration of CometBFT.
        let tcp = address
            .strip_prefix("tcp://")
            .map(|rest| format!("http://{rest}"));
        let url = Url::parse(tcp.as_deref().unwrap_or(address)).map_err(|e| bad(e.to_string()))?;
        // `localhost:26657` is a valid URL with the scheme `localhost` and without a host.
        if url.host_str().is_none_or(str::is_empty) {
            return Err(bad("no host in the address".to_owned()));
        }
        let trust = match url.scheme() {
            "https" | "grpcs" => Some(Trust::read(roots).map_err(&bad)?),
            _ => None,
        };
        let tls = trust.as_ref().map(|trust| Arc::clone(&trust.config));
        let transport = match url.scheme() {
            "http" | "https" => {
                let rpc = Rpc::new(&url, limits, tls.as_deref()).map_err(&bad)?;
                Transport::Rpc(Box::new(rpc))
            }
            "grpc" | "grpcs" => Transport::Grpc(Grpc::new(&url, limits, trust.as_ref()).map_err(&bad)?),
            other => return Err(bad(format!("unsupported scheme `{}`", excerpt(other)))),
        };
        Ok(Self {
            name: redact_address(url.as_str()).into(),
            url,
            transport,
            tls,
            requests: Semaphore::new(limits.requests),
            counters: EndpointCounters::new(),
        })
    }

    /// Returns the JSON-RPC client, or `None` if the endpoint uses gRPC.
    pub(crate) const fn rpc(&self) -> Option<&Rpc> {
        match &self.transport {
            Transport::Rpc(rpc) => Some(rpc),
            Transport::Grpc(_) => None,
        }
    }

    /// Creates an error of this endpoint. The statistics count the error.
    pub(crate) fn error(&self, method: &str, fault: Fault) -> NodeError {
        self.counters.count_fault(&fault);
        NodeError {
            endpoint: Arc::clone(&self.name),
            method: method.into(),
            fault,
        }
    }

    /// Sends a query. With `pin`, the response is the state after the block at the height `pin`.
    pub(crate) async fn query(
        &self,
        path: &'static str,
        data: Bytes,
        pin: Option<Height>,
    ) -> Result<QueryResponse, NodeError> {
        let (bytes, height) = self.bytes(path, data, pin).await?;
        let silent = || Fault::Malformed("response without a height".to_owned());
        // A response to a pinned query may omit the height. The requested height is then assumed.
        let height = height.or(pin).ok_or_else(|| self.error(path, silent()))?;
        // A node that ignores the requested height would mix two states.
        match pin {
            Some(asked) if asked != height => {
                let received = height;
                Err(self.error(
                    path,
                    Fault::WrongHeight {
                        requested: asked,
                        received,
                    },
                ))
            }
            _ => Ok(QueryResponse { bytes, height }),
        }
    }

    /// Sends a query about the node, for example about its software version. Such a query has no height.
    pub(crate) async fn query_node(&self, path: &'static str, data: Bytes) -> Result<Bytes, NodeError> {
        self.bytes(path, data, None).await.map(|(bytes, _)| bytes)
    }

    async fn bytes(
        &self,
        path: &'static str,
        data: Bytes,
        pin: Option<Height>,
    ) -> Result<(Bytes, Option<Height>), NodeError> {
        // The semaphore is never closed.
        let _turn = self.requests.acquire().await;
        let began = Instant::now();
        let answer = match &self.transport {
            Transport::Rpc(rpc) => {
                let answer = abci_query(rpc, path, &data, pin).await;
                answer.map(|answer| (answer.bytes, Some(answer.height)))
            }
            Transport::Grpc(grpc) => grpc.query(path, data, pin).await,
        };
        self.counters.count_result(&answer, began.elapsed());
        answer.map_err(|fault| self.error(path, fault))
    }

    async fn query_message<M: Method>(&self, request: &M) -> Result<M::Response, NodeError> {
        let data = request.encode_to_vec().into();
        let bytes = self.query_node(M::PATH, data).await?;
        let decoded = M::Response::decode(bytes);
        decoded.map_err(|e| self.error(M::PATH, Fault::Malformed(e.to_string())))
    }

    pub(crate) async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize + Send,
    ) -> Result<T, NodeError> {
        let Some(rpc) = self.rpc() else {
            let text = "the gRPC endpoint provides no blocks".to_owned();
            return Err(self.error(method, Fault::Unreachable(text)));
        };
        let _turn = self.requests.acquire().await;
        let began = Instant::now();
        let answer = rpc.call(method, params).await;
        self.counters.count_result(&answer, began.elapsed());
        answer.map_err(|fault| self.error(method, fault))
    }

    pub(crate) async fn sync_info(&self) -> Result<SyncInfo, NodeError> {
        self.tip().await.map(|(info, _)| info)
    }

    pub(crate) async fn tip(&self) -> Result<(SyncInfo, BlockHash), NodeError> {
        if self.rpc().is_some() {
            let status: RpcStatus = self.call("status", NoParams {}).await?;
            let time = parse_time(&status.sync_info.latest_block_time);
            let info = SyncInfo {
                chain_id: status.node_info.network,
                height: status.sync_info.latest_block_height.0,
                time: time.map_err(|fault| self.error("status", fault))?,
                catching_up: status.sync_info.catching_up,
            };
            return Ok((info, status.sync_info.latest_block_hash));
        }
        let (block, syncing) = (node::GetLatestBlockRequest {}, node::GetSyncingRequest {});
        // gRPC has no single query for both values.
        let (block, syncing) = tokio::try_join!(self.query_message(&block), self.query_message(&syncing))?;
        let hash = block.block_id.and_then(|id| id.hash.try_into().ok());
        let header = block_header(block.block.and_then(|b| b.header));
        let malformed = |e: crate::convert::Malformed| {
            self.error(node::GetLatestBlockRequest::PATH, Fault::Malformed(e.to_string()))
        };
        let (chain_id, height, time) = header.map_err(malformed)?;
        check_time(time, now()).map_err(|fault| self.error(node::GetLatestBlockRequest::PATH, fault))?;
        let info = SyncInfo {
            chain_id,
            height,
            time,
            catching_up: syncing.syncing,
        };
        Ok((info, BlockHash(hash)))
    }

    /// Returns the chain id and the time of the block at a height.
    pub(crate) async fn header(&self, height: Height) -> Result<(String, BlockTime), NodeError> {
        let (method, answer) = if self.rpc().is_some() {
            let params = HeightParams {
                height: height.to_string(),
            };
            let answer: HeaderResponse = self.call("header", params).await?;
            let header = answer.header.ok_or_else(|| {
                let fault =
                    Fault::HeightUnavailable(format!("the node returned no header of block {height}"));
                self.error("header", fault)
            })?;
            let time = parse_time(&header.time);
            let time = time.map_err(|fault| self.error("header", fault))?;
            ("header", (header.chain_id, header.height.0, time))
        } else {
            let asked = i64::try_from(height).unwrap_or(i64::MAX);
            let request = node::GetBlockByHeightRequest { height: asked };
            let answer = self.query_message(&request).await?;
            let path = node::GetBlockByHeightRequest::PATH;
            let header = block_header(answer.block.and_then(|b| b.header));
            let header = header.map_err(|e| self.error(path, Fault::Malformed(e.to_string())))?;
            check_time(header.2, now()).map_err(|fault| self.error(path, fault))?;
            (path, header)
        };
        let (chain_id, received, time) = answer;
        if received != height {
            let fault = Fault::WrongHeight {
                requested: height,
                received,
            };
            return Err(self.error(method, fault));
        }
        Ok((chain_id, time))
    }
}

/// Queries the chain id of a node, for callers without a configured chain id.
///
/// # Errors
/// Returns an error if the address is invalid, or if the node does not respond.
pub async fn fetch_chain_id(address: &str, limits: EndpointLimits, roots: &Roots) -> Result<String, Error> {
    const OPERATION: &str = "chain id";
    let endpoint = NodeEndpoint::new(address, limits, roots)
        .map_err(|e| Error::new(ErrorKind::Invalid, OPERATION, e.to_string()).with_source(e))?;
    let info = endpoint.sync_info().await;
    info.map(|i| i.chain_id).map_err(|e| e.into_port(OPERATION))
}

async fn abci_query(rpc: &Rpc, path: &str, data: &[u8], pin: Option<Height>) -> Result<QueryResponse, Fault> {
    let params = QueryParams {
        path,
        data: data_encoding::HEXLOWER.encode(data),
        // 0 selects the newest state.
        height: pin.unwrap_or_default().to_string(),
        prove: false,
    };
    let answer = rpc.call::<AbciQuery>("abci_query", params).await;
    // The response contains the reason of a refused query. An error without a response is an error of the node.
    let answer = answer.map_err(Fault::blaming_the_node)?;
    decode_abci_response(answer.response)
}

/// Decodes an `abci_query` response. The fault of an error is the same as for a gRPC query.
fn decode_abci_response(response: AbciResponse) -> Result<QueryResponse, Fault> {
    if response.code == 0 {
        return Ok(QueryResponse {
            bytes: response.value.0.into(),
            height: response.height.0,
        });
    }
    let text = excerpt(&response.log);
    // Checked before the codes: the node reports these errors by text.
    if let Some(fault) = height_fault(&response.log) {
        return Err(fault);
    }
    let code = (response.codespace.as_str(), response.code);
    if code == NOT_FOUND && response.log.contains("not found") {
        let height = Some(response.height.0).filter(|height| *height > 0);
        return Err(Fault::NotFound { text, height });
    }
    Err(Fault::Refused {
        codespace: excerpt(&response.codespace),
        code: response.code,
        text,
    })
}

/// Parses a block time from a JSON-RPC response. A time more than `AHEAD_MAX_MS` ahead of the clock is an error.
pub(crate) fn parse_time(text: &str) -> Result<BlockTime, Fault> {
    let malformed = || Fault::Malformed(format!("`{}` is not a time", excerpt(text)));
    let time = humantime::parse_rfc3339(text).map_err(|_| malformed())?;
    let since = time
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|_| malformed())?;
    let time = BlockTime(i64::try_from(since.as_millis()).map_err(|_| malformed())?);
    check_time(time, now())?;
    Ok(time)
}
