//! What a node says of itself over gRPC: its blocks, whether it is catching up, and the versions that it offers.

use super::{HEIGHT, KIND, MESSAGE, STATUS};
use crate::faults::Faults;
use crate::http::{Body, whole};
use crate::rpc::UNSPOKEN;
use crate::view::View;
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
/// A height takes some bytes.
const BYTES_MAX: usize = 1024;
/// Flag and length before each message.
const PREFIX: usize = 5;
const OK: HeaderValue = HeaderValue::from_static("0");
const INVALID: HeaderValue = HeaderValue::from_static("3");
/// What a node gives to what is no fault of the question's form.
pub(super) const UNKNOWN: HeaderValue = HeaderValue::from_static("2");

/// The question for a block.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct GetBlockByHeight {
    #[prost(int64, tag = "1")]
    height: i64,
}

/// The answer that says whether a node has all blocks.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Syncing {
    #[prost(bool, tag = "1")]
    syncing: bool,
}

/// The answer that says which versions a node offers.
#[derive(Clone, PartialEq, Eq, Message)]
struct Info {
    #[prost(message, optional, tag = "1")]
    akash: Option<Akash>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Akash {
    /// The one in use; of it only the name is said.
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

/// A message as gRPC carries it, not compressed.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    frame.extend(message.encode_to_vec());
    frame.freeze()
}

/// Only a version that nobody speaks.
fn unspoken() -> Info {
    let version = |modules| Version {
        name: UNSPOKEN.to_owned(),
        modules,
    };
    let market = Module {
        name: "market".to_owned(),
        version: UNSPOKEN.to_owned(),
    };
    let akash = Akash {
        client: Some(version(Vec::new())),
        supported: vec![version(vec![market])],
    };
    Info { akash: Some(akash) }
}

/// What it says of itself when that is to be something else.
pub(super) fn changed(path: &str, faults: Faults) -> Option<Bytes> {
    match path {
        SYNCING if faults.catching_up => Some(framed(&Syncing { syncing: true })),
        DISCOVERY if faults.other_versions => Some(framed(&unspoken())),
        _ => None,
    }
}

/// A message as an answer.
pub(super) fn answered(message: Bytes, height: u64) -> Response<Body> {
    let trailers = HeaderMap::from_iter([(STATUS, OK)]);
    let body = whole(message).with_trailers(ready(Some(Ok(trailers))));
    let mut answer = Response::new(body.boxed());
    answer.headers_mut().insert(header::CONTENT_TYPE, KIND);
    answer.headers_mut().insert(HEIGHT, height.into());
    answer
}

/// The node does not answer the question.
pub(super) fn refused(status: HeaderValue, text: String) -> Response<Body> {
    let mut answer = Response::new(whole(Bytes::new()));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, KIND);
    headers.insert(STATUS, status);
    headers.extend(HeaderValue::try_from(text).ok().map(|text| (MESSAGE, text)));
    answer
}

/// True for questions about blocks, whose heights are in the question itself.
pub(super) fn is_of_blocks(path: &str) -> bool {
    [LATEST, BY_HEIGHT].contains(&path)
}

impl View {
    /// Changes a question about a block so that the answer is that node's; `Some` when it refuses.
    pub(super) async fn block(&self, request: &mut Request<Body>) -> io::Result<Option<Response<Body>>> {
        if request.uri().path() == LATEST {
            let height = i64::try_from(self.shown).unwrap_or(i64::MAX);
            // Both have answers of the same form.
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
        if asked > self.shown {
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

/// The same address with another path.
fn moved(uri: &Uri, path: &'static str) -> io::Result<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::from_static(path));
    Uri::from_parts(parts).map_err(io::Error::other)
}
