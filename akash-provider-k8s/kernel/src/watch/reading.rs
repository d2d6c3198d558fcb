//! Requests and partial decoding of objects.
//!
//! Field managers and details of containers make up most of an object, and are never read. The decoder skips them in
//! the text, which saves time and memory. For kinds with many objects, the decoded parts are listed instead of the
//! skipped ones.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, FutureExt, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

/// Maximum size of a watch event, in bytes: more than ten times the largest object of an API server.
const LINE_MAX: u64 = 16 << 20;
const LINE_ROOM: usize = 16 << 20;
/// Capacity that the line buffer retains for the next event, in bytes.
const LINE_KEPT: usize = 64 << 10;

/// Paths in an object, from its root. A path into a list applies to each item.
pub type Paths = &'static [&'static [&'static str]];

/// Selection of at most 64 fields of an object. Either only these fields are decoded, or only these fields
/// are skipped.
pub trait ObjectParts: Clone + Send + Sync + 'static {
    /// Paths of the selected fields.
    const PATHS: Paths;
    /// If true, only the fields in `PATHS` are decoded. If false, only the other fields are decoded.
    const ARE_READ: bool = false;
}

/// Selection of metadata fields that only Kubernetes and its tools use.
#[derive(Debug, Clone, Copy)]
pub struct Bookkeeping;

impl ObjectParts for Bookkeeping {
    const PATHS: Paths = &[
        &["metadata", "managedFields"],
        &[
            "metadata",
            "annotations",
            "kubectl.kubernetes.io/last-applied-configuration",
        ],
    ];
}

/// Functions that list and watch one kind.
#[derive(Debug, Clone, Copy)]
pub struct ListerWatcher {
    list: fn(ObjectSource, ListParams) -> BoxFuture<'static, kube::Result<ListPage>>,
    watch: fn(ObjectSource, WatchParams, String) -> BoxFuture<'static, kube::Result<Events>>,
}

type Events = BoxStream<'static, kube::Result<WatchEvent<Value>>>;

#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) metadata: ListMeta,
    pub(super) items: Option<Vec<Value>>,
}

/// Client and path of a request.
#[derive(Clone)]
pub(super) struct ObjectSource {
    pub(super) client: Client,
    /// Path of the kind, without the address of the server.
    pub(super) path: String,
    /// Requests only the metadata of objects.
    pub(super) is_metadata: bool,
}

impl ListerWatcher {
    /// Creates the list and watch functions for the fields in `P`.
    #[must_use]
    pub const fn new<P: ObjectParts>() -> Self {
        Self {
            list: |source, params| async move { source.list::<P>(&params).await }.boxed(),
            watch: |source, params, version| {
                async move { source.watch::<P>(&params, &version).await }.boxed()
            },
        }
    }

    pub(super) fn list(
        &self,
        source: &ObjectSource,
        params: &ListParams,
    ) -> BoxFuture<'static, kube::Result<ListPage>> {
        (self.list)(source.clone(), params.clone())
    }

    pub(super) fn watch(
        &self,
        source: &ObjectSource,
        params: &WatchParams,
        version: &str,
    ) -> BoxFuture<'static, kube::Result<Events>> {
        (self.watch)(source.clone(), params.clone(), version.to_owned())
    }
}

impl ObjectSource {
    async fn list<P: ObjectParts>(&self, params: &ListParams) -> kube::Result<ListPage> {
        #[derive(Deserialize)]
        #[serde(bound = "")]
        struct ListResponse<P: ObjectParts> {
            #[serde(default)]
            metadata: ListMeta,
            #[serde(default)]
            items: Option<Vec<Pruned<P>>>,
        }
        let request = Request::new(self.path.clone());
        let request = if self.is_metadata {
            request.list_metadata(params)
        } else {
            request.list(params)
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // The name that `kube` uses in its spans.
        request.extensions_mut().insert("list");
        let answer: ListResponse<P> = self.client.request(request).await?;
        let bare = |items: Vec<Pruned<P>>| items.into_iter().map(|item| item.0).collect();
        Ok(ListPage {
            metadata: answer.metadata,
            items: answer.items.map(bare),
        })
    }

    async fn watch<P: ObjectParts>(&self, params: &WatchParams, version: &str) -> kube::Result<Events> {
        let request = Request::new(self.path.clone());
        let request = if self.is_metadata {
            request.watch_metadata(params, version)
        } else {
            request.watch(params, version)
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.extensions_mut().insert("watch");
        // Compressed watch events are not supported by `kube`.
        if let Ok(value) = "identity".parse() {
            request.headers_mut().insert("accept-encoding", value);
        }
        let lines = Box::pin(self.client.request_stream(request).await?);
        let events = stream::unfold((lines, Vec::new()), |(mut lines, mut line)| async move {
            let event = next_event::<P>(lines.as_mut(), &mut line).await?;
            Some((event, (lines, line)))
        });
        Ok(events.boxed())
    }
}

/// Decodes the next line of a watch, or returns `None` at the end. Reuses the line buffer, because an
/// allocation costs more than the decoding.
async fn next_event<P: ObjectParts>(
    mut lines: Pin<&mut impl AsyncBufRead>,
    line: &mut Vec<u8>,
) -> Option<kube::Result<WatchEvent<Value>>> {
    loop {
        line.clear();
        line.shrink_to(LINE_KEPT);
        let read = lines.as_mut().take(LINE_MAX).read_until(b'\n', line).await;
        match read {
            Ok(0) => return None,
            Ok(_) if line.ends_with(b"\n") || line.len() < LINE_ROOM => {}
            Ok(_) => return Some(Err(too_long())),
            // An interrupted watch continues at its last version.
            Err(error) if is_end(&error) => return None,
            Err(error) => return Some(Err(kube::Error::ReadEvents(error))),
        }
        match serde_json::from_slice::<WatchEvent<Pruned<P>>>(line) {
            Ok(event) => return Some(Ok(bare(event))),
            // A partial line at the end, or an empty line.
            Err(error) if error.is_eof() => {}
            Err(error) => {
                let status = serde_json::from_slice::<Status>(line).map(Status::boxed);
                return Some(Err(
                    status.map_or(kube::Error::SerdeError(error), kube::Error::Api)
                ));
            }
        }
    }
}

fn too_long() -> kube::Error {
    let why = format!("a watch event is longer than {LINE_MAX} bytes");
    kube::Error::ReadEvents(std::io::Error::other(why))
}

/// Returns true if the connection ended during a response.
fn is_end(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, UnexpectedEof};
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| matches!(io.kind(), UnexpectedEof | TimedOut)) {
            return true;
        }
        // Such an `io::Error` does not return its inner error as the source.
        let inner = io.and_then(std::io::Error::get_ref);
        cause = inner.map_or_else(|| error.source(), |inner| Some(inner));
    }
    error.to_string().contains("unexpected EOF during chunk")
}

fn bare<P>(event: WatchEvent<Pruned<P>>) -> WatchEvent<Value> {
    match event {
        WatchEvent::Added(object) => WatchEvent::Added(object.0),
        WatchEvent::Modified(object) => WatchEvent::Modified(object.0),
        WatchEvent::Deleted(object) => WatchEvent::Deleted(object.0),
        WatchEvent::Bookmark(mark) => WatchEvent::Bookmark(mark),
        WatchEvent::Error(status) => WatchEvent::Error(status),
    }
}

/// Decoded object without the skipped fields.
#[derive(Debug, Clone)]
pub struct Pruned<P>(
    /// Decoded fields.
    pub Value,
    PhantomData<fn() -> P>,
);

impl<'de, P: ObjectParts> Deserialize<'de> for Pruned<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = (0..P::PATHS.len()).fold(0, |bits, at| bits | bit(at));
        let whole = DecoderPosition {
            paths: P::PATHS,
            are_read: P::ARE_READ,
            open: all,
            depth: 0,
        };
        Ok(Self(whole.deserialize(deserializer)?, PhantomData))
    }
}

fn bit(number: usize) -> u64 {
    u32::try_from(number)
        .ok()
        .and_then(|number| 1u64.checked_shl(number))
        .unwrap_or(0)
}

/// Position of the decoder in an object: a field, and the paths below this field.
#[derive(Debug, Clone, Copy)]
struct DecoderPosition {
    paths: Paths,
    /// True if the paths are decoded, false if they are skipped.
    are_read: bool,
    /// One bit for each path that continues below this field. Without such a path, the whole field is
    /// decoded.
    open: u64,
    /// Number of field names from the root to this field.
    depth: usize,
}

impl DecoderPosition {
    /// Returns the nested field `name`, or `None` if this field is skipped.
    fn behind(self, name: &str) -> Option<Self> {
        let (mut open, mut is_end) = (0, false);
        for (at, path) in self.paths.iter().enumerate() {
            if self.open & bit(at) == 0 || path.get(self.depth).is_none_or(|part| *part != name) {
                continue;
            }
            is_end |= path.len() == self.depth + 1;
            open |= bit(at);
        }
        let is_read = is_end || open != 0;
        if (self.are_read && !is_read) || (!self.are_read && is_end) {
            return None;
        }
        Some(Self {
            open: if is_end { 0 } else { open },
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for DecoderPosition {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        // Without skipped parts the direct decoding is the fastest.
        if self.open == 0 {
            return Value::deserialize(deserializer);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DecoderPosition {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(read) = map.next_key_seed(FieldName(self))? {
            match read {
                Some((name, part)) => {
                    fields.insert(name, map.next_value_seed(part)?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields.into())
    }
}

/// Field name, allocated only for decoded fields.
struct FieldName(DecoderPosition);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Option<(String, DecoderPosition)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Option<(String, DecoderPosition)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.behind(name).map(|part| (name.to_owned(), part)))
    }
}

#[cfg(test)]
mod tests;
