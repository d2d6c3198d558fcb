//! gRPC messages about the node itself: its blocks, whether the node is catching up, and the offered API
//! versions.

use super::{HEIGHT, KIND, MESSAGE, STATUS};
use crate::faults::Faults;
use crate::http::{ProxyBody, whole};
use crate::rpc::UNSUPPORTED;
use crate::view::BlockRange;
use bytes::{BufMut, Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Limited};
use prost::Message;
use std::future::ready;
use std::io;

const LATEST: &str = "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock";
const BY_HEIGHT: &str = "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight";
const DISCOVERY: &str = "/akash.discovery.v1.Discovery/GetInfo";
const SYNCING: &str = "/cosmos.base.tendermint.v1beta1.Service/GetSyncing";
/// Maximum size of a request for a block, in bytes.
const BYTES_MAX: usize = 1024;
/// Length of the gRPC message prefix, in bytes: a flag and the message length.
const PREFIX: usize = 5;
const OK: HeaderValue = HeaderValue::from_static("0");
const INVALID: HeaderValue = HeaderValue::from_static("3");
/// gRPC status of all errors, except for invalid requests.
pub(super) const UNKNOWN: HeaderValue = HeaderValue::from_static("2");

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct GetBlockByHeight {
    #[prost(int64, tag = "1")]
    height: i64,
}

/// Response that states whether the node is catching up.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Syncing {
    #[prost(bool, tag = "1")]
    syncing: bool,
}

/// Response with the offered API versions.
#[derive(Clone, PartialEq, Eq, Message)]
struct Info {
    #[prost(message, optional, tag = "1")]
    akash: Option<Akash>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Akash {
    /// API version in use. Only the field `name` of the version is read.
    #[prost(message, optional, tag = "1")]
    client: Option<Version>,
    #[prost(message, repeated, tag = "2")]
    supported: Vec<Version>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Version {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    modules: Vec<Module>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Module {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

/// Encodes an uncompressed gRPC message.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    frame.extend(message.encode_to_vec());
    frame.freeze()
}

/// Returns an unsupported version.
fn unsupported() -> Info {
    let version = |modules| Version {
        name: UNSUPPORTED.to_owned(),
        modules,
    };
    let market = Module {
        name: "market".to_owned(),
        version: UNSUPPORTED.to_owned(),
    };
    let akash = Akash {
        client: Some(version(Vec::new())),
        supported: vec![version(vec![market])],
    };
    Info { akash: Some(akash) }
}

/// Returns a false response about the node. Returns `None` if no fault falsifies the response.
pub(super) fn changed(path: &str, faults: Faults) -> Option<Bytes> {
    match path {
        SYNCING if faults.catching_up => Some(framed(&Syncing { syncing: true })),
        DISCOVERY if faults.other_versions => Some(framed(&unsupported())),
        _ => None,
    }
}

pub(super) fn response(message: Bytes, height: u64) -> Response<ProxyBody> {
    let trailers = HeaderMap::from_iter([(STATUS, OK)]);
    let body = whole(message).with_trailers(ready(Some(Ok(trailers))));
    let mut answer = Response::new(body.boxed());
    answer.headers_mut().insert(header::CONTENT_TYPE, KIND);
    answer.headers_mut().insert(HEIGHT, height.into());
    answer
}

/// Returns an error response.
pub(super) fn refused(status: HeaderValue, text: String) -> Response<ProxyBody> {
    let mut answer = Response::new(whole(Bytes::new()));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, KIND);
    headers.insert(STATUS, status);
    headers.extend(HeaderValue::try_from(text).ok().map(|text| (MESSAGE, text)));
    answer
}

/// Returns true for the two block requests: for the latest block, and for the block at a height.
pub(super) fn is_of_blocks(path: &str) -> bool {
    [LATEST, BY_HEIGHT].contains(&path)
}

impl BlockRange {
    /// Changes a block request so that the upstream node returns the block of the simulated node. Returns an
    /// error response if the simulated node does not have the block.
    pub(super) async fn block(
        &self,
        request: &mut Request<ProxyBody>,
    ) -> io::Result<Option<Response<ProxyBody>>> {
        if request.uri().path() == LATEST {
            let height = i64::try_from(self.height).unwrap_or(i64::MAX);
            // Both requests have responses of the same type.
            *request.uri_mut() = moved(request.uri(), BY_HEIGHT)?;
            *request.body_mut() = whole(framed(&GetBlockByHeight { height }));
            request.headers_mut().remove(header::CONTENT_LENGTH);
            return Ok(None);
        }
        let body = std::mem::replace(request.body_mut(), whole(Bytes::new()));
        let body = Limited::new(body, BYTES_MAX).collect().await;
        let body = body.map_err(io::Error::other)?.to_bytes();
        let message = body.get(PREFIX..).unwrap_or_default();
        let asked = GetBlockByHeight::decode(message)
            .map_err(io::Error::other)?
            .height;
        *request.body_mut() = whole(body);
        let asked = u64::try_from(asked).unwrap_or_default();
        if asked > self.height {
            let text = "requested block height is bigger then the chain length";
            return Ok(Some(refused(INVALID, text.to_owned())));
        }
        let is_gone = asked < self.oldest;
        Ok(is_gone.then(|| {
            let lowest = self.oldest;
            refused(
                UNKNOWN,
                format!("height {asked} is not available, lowest height is {lowest}"),
            )
        }))
    }
}

/// Returns the URI with its path replaced.
fn moved(uri: &Uri, path: &'static str) -> io::Result<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::from_static(path));
    Uri::from_parts(parts).map_err(io::Error::other)
}
