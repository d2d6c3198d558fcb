//! One watch: list, watch from there, and again after every gap.
//!
//! The library's own loop begins a watch that ends at once again without a pause, starts its back-off anew
//! with every list, and does not show the bookmarks by which a dead connection is told from a quiet one.

use super::WatchConfig;
use super::definitions::{Definitions, Tries};
use super::object::FromObject;
use super::reading::{Page, Reading, Source};
use super::watch_config::asked_to_wait;
use futures::{Stream, StreamExt};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::runtime::utils::Backoff;
use serde_json::Value;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// After so many failures at one version everything is listed again.
const STUCK: u32 = 3;

/// Why a watch, or a list, is over.
#[derive(Debug)]
enum End {
    /// The server ended it in order.
    Closed,
    /// It was silent for too long; the last sign of life was then.
    Silent(Instant),
    /// The version is too old: everything must be listed again.
    Expired,
    /// There is no such kind.
    Absent(String),
    /// Something else; wait for so long at least.
    Failed(String, Option<Duration>),
}

impl End {
    fn of_status(status: &Status) -> Self {
        match status.code {
            410 => Self::Expired,
            404 => Self::Absent(status.to_string()),
            _ => Self::Failed(status.to_string(), asked_to_wait(status)),
        }
    }

    fn of_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            error => Self::Failed(akash_provider_core::error::chain_text(error), None),
        }
    }

    fn timed_out(what: &str, limit: Duration) -> Self {
        Self::Failed(format!("no answer to a {what} within {limit:?}"), None)
    }
}

/// Where the objects of one watch go.
pub(crate) trait Sink<T>: Send {
    /// A list begins, perhaps after one that broke off.
    fn begin(&mut self);

    /// A part of a list.
    fn page(&mut self, objects: Vec<T>);

    /// The list is complete; it was asked for at `asked`.
    fn complete(&mut self, asked: Instant);

    /// An object is new or changed.
    fn applied(&mut self, object: T);

    /// An object is gone.
    fn deleted(&mut self, object: T);
}

/// Who is told how a watch fares.
pub(crate) trait Report: Send + Sync {
    /// What is watched, for people.
    fn name(&self) -> &'static str;

    /// Everything was listed, to the last page.
    fn listed(&self);

    /// A watch is asked for; it may still fail.
    fn starts(&self) {}

    /// The watch stands: it brought something, or has not failed for a moment.
    fn works(&self);

    /// The version was too old; everything is listed again.
    fn expired(&self) {}

    /// True for a kind that a cluster may go without.
    fn may_be_absent(&self) -> bool {
        false
    }

    /// The cluster has no such kind. True when that is news.
    fn absent(&self, error: String) -> bool {
        self.failed(error, Instant::now())
    }

    /// It does not work, and that since `since` at the latest. True when that is news.
    fn failed(&self, error: String, since: Instant) -> bool;
}

/// One watch: of what, for whom, and how eagerly.
pub(crate) struct Follower<T, S, R> {
    pub(crate) api: Api<T>,
    /// Selector of labels; empty for all.
    pub(crate) labels: &'static str,
    /// Selector of fields; empty for all.
    pub(crate) fields: Cow<'static, str>,
    /// Only the metadata of objects are asked for.
    pub(crate) is_metadata: bool,
    /// What of an object is read at all.
    pub(crate) reading: Reading,
    /// Who says when a kind comes that the cluster does not have.
    pub(crate) definitions: Definitions,
    pub(crate) sink: S,
    pub(crate) report: R,
    pub(crate) watch_config: WatchConfig,
}

impl<T, S, R> Follower<T, S, R>
where
    T: kube::Resource + FromObject + 'static,
    S: Sink<T> + 'static,
    R: Report + 'static,
{
    /// Never ends by itself.
    pub(crate) async fn run(self) {
        let watch = Watch {
            source: Source {
                path: self.api.resource_url().to_owned(),
                client: self.api.into_client(),
                is_metadata: self.is_metadata,
            },
            reading: self.reading,
            labels: self.labels,
            fields: self.fields,
            sink: Box::new(Typed(self.sink, PhantomData)),
            report: Box::new(self.report),
            watch_config: self.watch_config,
            definitions: self.definitions,
            silent_since: None,
            absences: 0,
            tries: Tries::default(),
        };
        watch.run().await;
    }
}

/// Where the objects of a watch go before it is known what they are.
trait Objects: Send {
    fn begin(&mut self);
    fn page(&mut self, objects: Vec<Value>) -> Result<(), String>;
    fn complete(&mut self, asked: Instant);
    fn applied(&mut self, object: &Value) -> Result<(), String>;
    fn deleted(&mut self, object: &Value) -> Result<(), String>;
}

/// A sink of objects of a kind.
struct Typed<T, S>(S, PhantomData<fn() -> T>);

impl<T: FromObject, S: Sink<T>> Objects for Typed<T, S> {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn page(&mut self, objects: Vec<Value>) -> Result<(), String> {
        // Each goes before the next is read: a page is large.
        let read = objects.into_iter().map(|object| T::from_object(&object));
        self.0.page(read.collect::<Result<_, _>>()?);
        Ok(())
    }

    fn complete(&mut self, asked: Instant) {
        self.0.complete(asked);
    }

    fn applied(&mut self, object: &Value) -> Result<(), String> {
        self.0.applied(T::from_object(object)?);
        Ok(())
    }

    fn deleted(&mut self, object: &Value) -> Result<(), String> {
        self.0.deleted(T::from_object(object)?);
        Ok(())
    }
}

/// One watch of whatever kind: compiled once.
struct Watch {
    source: Source,
    reading: Reading,
    labels: &'static str,
    fields: Cow<'static, str>,
    sink: Box<dyn Objects>,
    report: Box<dyn Report>,
    watch_config: WatchConfig,
    definitions: Definitions,
    /// The last sign of life of a connection that fell silent; what follows shows whether it is dead.
    silent_since: Option<Instant>,
    /// Answers in a row that there is no such kind.
    absences: u32,
    /// Those of them that came though its definition was there.
    tries: Tries,
}

impl Watch {
    async fn run(mut self) {
        let watch_config = self.watch_config;
        let mut back_off = watch_config.back_off();
        loop {
            let version = match self.list(&watch_config).await {
                Ok(version) => version,
                Err(end) => {
                    self.pause(end, Instant::now(), &mut back_off).await;
                    continue;
                }
            };
            self.watch_from(version, &watch_config, &mut back_off).await;
        }
    }

    /// Watches until everything has to be listed again.
    async fn watch_from(
        &mut self,
        mut version: String,
        watch_config: &WatchConfig,
        back_off: &mut impl Backoff,
    ) {
        let mut stuck = 0;
        loop {
            let began = Instant::now();
            let before = version.clone();
            let end = self.watch(&mut version, watch_config).await;
            let expired = matches!(end, End::Expired);
            let failed = !matches!(end, End::Closed);
            if let End::Silent(since) = end {
                // Nothing to be told of: bookmarks are no promise, and a quiet kind says nothing else. A server that
                // is dead does not answer the next watch, and that is told.
                tracing::debug!(kind = self.report.name(), "a watch is silent; it is begun anew");
                self.silent_since.get_or_insert(since);
                continue;
            }
            if began.elapsed() >= watch_config.steady {
                back_off.reset();
            }
            let quick = began.elapsed() < watch_config.steady;
            if failed || quick {
                self.pause(end, began, back_off).await;
            }
            stuck = if version == before && failed && quick {
                stuck + 1
            } else {
                0
            };
            if expired || stuck >= STUCK {
                return;
            }
        }
    }

    /// Says what went wrong and waits.
    async fn pause(&mut self, end: End, began: Instant, back_off: &mut impl Backoff) {
        let (report, watch_config) = (&self.report, &self.watch_config);
        let kind = report.name();
        let now = Instant::now();
        // A silence that ends in a failure was the beginning of the outage.
        let since = self.silent_since.take().unwrap_or(now);
        let mut least = Duration::ZERO;
        if let End::Absent(error) = end {
            self.pause_absent(error).await;
            return;
        }
        self.absences = 0;
        self.tries = Tries::default();
        match end {
            End::Failed(error, asked) => {
                // An outage is said once; a hundred tries an hour tell nothing new.
                if report.failed(error.clone(), since) {
                    tracing::warn!(kind, error, "a watch failed");
                } else {
                    tracing::debug!(kind, error, "a watch failed again");
                }
                least = asked.unwrap_or_default();
            }
            End::Expired => {
                tracing::debug!(kind, "a watch expired");
                report.expired();
            }
            End::Closed if began.elapsed() < watch_config.proof => {
                report.failed("the server ended the watch at once".to_owned(), since);
            }
            End::Closed | End::Silent(_) | End::Absent(_) => {}
        }
        let next = back_off.next().unwrap_or(watch_config.wait_max);
        sleep(next.max(least)).await;
    }

    /// Says that the cluster has no such kind, and waits until it may have it.
    async fn pause_absent(&mut self, error: String) {
        let (report, config) = (&self.report, &self.watch_config);
        let kind = report.name();
        self.absences = self.absences.saturating_add(1);
        let is_news = report.absent(error.clone());
        if is_news && report.may_be_absent() {
            tracing::info!(kind, error, "the cluster has no such kind");
        } else if is_news {
            tracing::warn!(kind, error, "the cluster has no such kind; waiting for it");
        }
        let seldom = config.absent(self.absences, report.may_be_absent());
        let Source { client, path, .. } = &self.source;
        self.definitions
            .awaited(client, path, &mut self.tries, config, seldom)
            .await;
    }

    /// Lists everything, page by page; the version it was listed at.
    async fn list(&mut self, watch_config: &WatchConfig) -> Result<String, End> {
        // Before the question: the list is of a moment after it.
        let asked = Instant::now();
        let mut params = ListParams::default().limit(watch_config.page_size);
        params.label_selector = selector(self.labels);
        params.field_selector = selector(&self.fields);
        self.sink.begin();
        loop {
            let page = timeout(
                watch_config.list_timeout,
                self.reading.list(&self.source, &params),
            )
            .await;
            let page: Page = page
                .map_err(|_| End::timed_out("list", watch_config.list_timeout))?
                .map_err(|error| End::of_error(&error))?;
            let objects = page.items.unwrap_or_default();
            self.sink.page(objects).map_err(unreadable)?;
            if let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) {
                params.continue_token = Some(next);
                continue;
            }
            let version = page
                .metadata
                .resource_version
                .filter(|version| !version.is_empty());
            let version =
                version.ok_or_else(|| End::Failed("a list came without its version".to_owned(), None))?;
            self.sink.complete(asked);
            self.report.listed();
            return Ok(version);
        }
    }

    /// Watches until something ends it; `version` is the last one seen.
    async fn watch(&mut self, version: &mut String, watch_config: &WatchConfig) -> End {
        let mut params = WatchParams::default().timeout(watch_config.watch_seconds);
        params.label_selector = selector(self.labels);
        params.field_selector = selector(&self.fields);
        self.report.starts();
        let started = self.reading.watch(&self.source, &params, version);
        let started = timeout(watch_config.start_timeout, started).await;
        let events = match started {
            Err(_) => return End::timed_out("watch", watch_config.start_timeout),
            Ok(Err(error)) => return End::of_error(&error),
            Ok(Ok(events)) => events,
        };
        let mut events = pin!(events);
        let (mut proven, mut heard) = (false, Instant::now());
        loop {
            // Silence counts against a watch only after it stood for a moment without failing.
            let limit = if proven {
                watch_config.idle
            } else {
                watch_config.proof.min(watch_config.idle)
            };
            match next(&mut events, limit).await {
                None if proven || limit == watch_config.idle => return End::Silent(heard),
                None => {}
                Some(None) => return End::Closed,
                Some(Some(Err(error))) => return End::of_error(&error),
                Some(Some(Ok(WatchEvent::Error(status)))) => return End::of_status(&status),
                Some(Some(Ok(event))) => {
                    heard = Instant::now();
                    if let Some(end) = self.take(event, version) {
                        return end;
                    }
                }
            }
            if !proven {
                proven = true;
                self.silent_since = None;
                self.report.works();
            }
        }
    }

    /// Takes an event over.
    fn take(&mut self, event: WatchEvent<Value>, version: &mut String) -> Option<End> {
        let (object, is_there) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
            WatchEvent::Deleted(object) => (object, false),
            WatchEvent::Bookmark(mark) => {
                *version = mark.metadata.resource_version;
                return None;
            }
            WatchEvent::Error(status) => return Some(End::of_status(&status)),
        };
        let Some(seen) = object["metadata"]["resourceVersion"].as_str() else {
            return Some(End::Failed("an event came without its version".to_owned(), None));
        };
        let taken = if is_there {
            self.sink.applied(&object)
        } else {
            self.sink.deleted(&object)
        };
        if let Err(why) = taken {
            return Some(unreadable(why));
        }
        // After it was taken: what could not be is asked for again.
        seen.clone_into(version);
        None
    }
}

/// An object without which the others are not what there is.
fn unreadable(why: String) -> End {
    End::Failed(format!("an object cannot be read: {why}"), None)
}

fn selector(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The next item within the limit; `None` when nothing came.
async fn next<S: Stream + Unpin>(stream: &mut S, limit: Duration) -> Option<Option<S::Item>> {
    timeout(limit, stream.next()).await.ok()
}
