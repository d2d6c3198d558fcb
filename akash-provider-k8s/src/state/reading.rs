//! How objects are asked for, and what of them is read at all.
//!
//! Who wrote which field, and what runs in a container, are most of an object's bytes, and nobody here looks at them. They
//! are passed over while the text is read: what is never made costs neither time nor memory.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use std::marker::PhantomData;

/// Places in an object, from its root on. Lists on the way are passed through: a place within one is there in each item.
type Paths = &'static [&'static [&'static str]];

/// What of an object is left out, at most 64 places.
pub(crate) trait LeftOut: Clone + Send + Sync + 'static {
    /// Where it is.
    const PATHS: Paths;
}

/// What Kubernetes and its tools keep for themselves: no object is made of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bookkeeping;

impl LeftOut for Bookkeeping {
    const PATHS: Paths = &[
        &["metadata", "managedFields"],
        &[
            "metadata",
            "annotations",
            "kubectl.kubernetes.io/last-applied-configuration",
        ],
    ];
}

/// A list or a watch of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    list: fn(Source, ListParams) -> BoxFuture<'static, kube::Result<Page>>,
    watch: fn(Source, WatchParams, String) -> BoxFuture<'static, kube::Result<Events>>,
}

/// What a watch tells.
type Events = BoxStream<'static, kube::Result<WatchEvent<Value>>>;

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) metadata: ListMeta,
    pub(crate) items: Option<Vec<Value>>,
}

/// Whom to ask, and for what.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) client: Client,
    /// Of the kind, below the server's address.
    pub(crate) path: String,
    /// Only the metadata of objects are asked for.
    pub(crate) is_metadata: bool,
}

impl Reading {
    /// Everything but that.
    pub(crate) const fn without<P: LeftOut>() -> Self {
        Self {
            list: |source, params| async move { source.list::<P>(&params).await }.boxed(),
            watch: |source, params, version| {
                async move { source.watch::<P>(&params, &version).await }.boxed()
            },
        }
    }

    pub(super) fn list(
        &self,
        source: &Source,
        params: &ListParams,
    ) -> BoxFuture<'static, kube::Result<Page>> {
        (self.list)(source.clone(), params.clone())
    }

    pub(super) fn watch(
        &self,
        source: &Source,
        params: &WatchParams,
        version: &str,
    ) -> BoxFuture<'static, kube::Result<Events>> {
        (self.watch)(source.clone(), params.clone(), version.to_owned())
    }
}

impl Source {
    async fn list<P: LeftOut>(&self, params: &ListParams) -> kube::Result<Page> {
        #[derive(Deserialize)]
        #[serde(bound = "")]
        struct Answer<P: LeftOut> {
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
        // As the library names it in its spans.
        request.extensions_mut().insert("list");
        let answer: Answer<P> = self.client.request(request).await?;
        let bare = |items: Vec<Pruned<P>>| items.into_iter().map(|item| item.0).collect();
        Ok(Page {
            metadata: answer.metadata,
            items: answer.items.map(bare),
        })
    }

    async fn watch<P: LeftOut>(&self, params: &WatchParams, version: &str) -> kube::Result<Events> {
        let request = Request::new(self.path.clone());
        let request = if self.is_metadata {
            request.watch_metadata(params, version)
        } else {
            request.watch(params, version)
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.extensions_mut().insert("watch");
        let events = self.client.request_events::<Pruned<P>>(request).await?;
        Ok(events.map(|event| event.map(bare)).boxed())
    }
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

/// An object without what is left out.
#[derive(Debug, Clone)]
pub(crate) struct Pruned<P>(pub(crate) Value, PhantomData<fn() -> P>);

impl<'de, P: LeftOut> Deserialize<'de> for Pruned<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = (0..P::PATHS.len()).fold(0, |bits, at| bits | bit(at));
        let whole = Part {
            paths: P::PATHS,
            open: all,
            depth: 0,
        };
        Ok(Self(whole.deserialize(deserializer)?, PhantomData))
    }
}

/// A path by its number.
fn bit(number: usize) -> u64 {
    u32::try_from(number)
        .ok()
        .and_then(|number| 1u64.checked_shl(number))
        .unwrap_or(0)
}

/// A part of an object, as it is read.
#[derive(Debug, Clone, Copy)]
struct Part {
    paths: Paths,
    /// The paths that lead through here.
    open: u64,
    /// So many names were passed.
    depth: usize,
}

impl Part {
    /// What is behind a name; `None` where it is left out.
    fn behind(self, name: &str) -> Option<Self> {
        let mut open = 0;
        for (at, path) in self.paths.iter().enumerate() {
            if self.open & bit(at) == 0 || path.get(self.depth).is_none_or(|part| *part != name) {
                continue;
            }
            if path.len() == self.depth + 1 {
                return None;
            }
            open |= bit(at);
        }
        Some(Self {
            open,
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        // Nothing is left out below: the usual way is the fastest.
        if self.open == 0 {
            return Value::deserialize(deserializer);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
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
        while let Some(name) = map.next_key::<String>()? {
            match self.behind(&name) {
                Some(part) => {
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

#[cfg(test)]
mod tests;
