//! List and watch of one kind, repeated after every gap.
//!
//! The loop of `kube` is not used, for three reasons. This loop restarts a watch without a delay if the watch has ended
//! immediately. The loop resets its back-off with every list, and hides bookmarks, which distinguish a dead connection
//! from a quiet one.

use super::WatchConfig;
use super::config::asked_to_wait;
use super::definitions::{Definitions, Tries};
use super::object::FromObject;
use super::reading::{ListPage, ListerWatcher, ObjectSource};
use futures::{Stream, StreamExt};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::runtime::utils::Backoff;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Maximum number of failures at one resource version. Then all objects are listed again.
const STUCK: u32 = 3;

/// Reason for the end of a watch or a list.
#[derive(Debug)]
enum End {
    /// The server ended the watch.
    Closed,
    /// No event arrived within the idle limit. Contains the time of the last event.
    Silent(Instant),
    /// The resource version is too old, so all objects must be listed again.
    Expired,
    /// The server does not serve the kind.
    Absent(String),
    /// Any other error. Optionally contains the minimum delay before the next attempt.
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
        Self::Failed(format!("no response to a {what} within {limit:?}"), None)
    }
}

/// Destination of the objects of one watch.
pub trait Sink<T>: Send {
    /// Starts a new list of all objects. The previous list may have been interrupted.
    fn begin(&mut self);

    /// Receives a page of the list.
    fn page(&mut self, objects: Vec<T>);

    /// The list, which was requested at `asked`, is complete.
    fn complete(&mut self, asked: Instant);

    /// Receives a new or changed object.
    fn applied(&mut self, object: T);

    /// Receives a deleted object.
    fn deleted(&mut self, object: T);
}

/// Receiver of the state of a watch.
pub trait WatchObserver: Send + Sync {
    /// Returns the name of the watched kind, for display.
    fn name(&self) -> &'static str;

    /// All objects were listed.
    fn listed(&self);

    /// A watch was requested. The request may still fail.
    fn starts(&self) {}

    /// Reports that the watch works: an event arrived, or no failure occurred during [`WatchConfig::proof`].
    fn works(&self);

    /// The resource version was too old. All objects are listed again.
    fn expired(&self) {}

    /// Returns true for a kind that a cluster may lack.
    fn may_be_absent(&self) -> bool {
        false
    }

    /// Reports that the server does not serve the kind. Returns true for the first of consecutive reports.
    fn absent(&self, error: String) -> bool {
        self.failed(error, Instant::now())
    }

    /// Reports that the watch stopped working at `since` or earlier. Returns true if the watch worked before.
    fn failed(&self, error: String, since: Instant) -> bool;
}

/// Task that follows the objects of one kind with list and watch requests.
pub struct Follower<T, S, R> {
    /// API of the kind, in one namespace or in all namespaces.
    pub api: Api<T>,
    /// Label selector; empty for all objects.
    pub labels: &'static str,
    /// Field selector; empty for all objects.
    pub fields: Cow<'static, str>,
    /// Whether only the metadata of objects is requested.
    pub is_metadata: bool,
    /// Functions that decode the required parts of an object.
    pub reading: ListerWatcher,
    /// Shared watch of CustomResourceDefinitions, for kinds that the cluster does not serve yet.
    pub definitions: Definitions,
    /// Destination of the objects.
    pub sink: S,
    /// Receiver of the state of the watch.
    pub report: R,
    /// Timing of the watch.
    pub watch_config: WatchConfig,
}

impl<T, S, R: WatchObserver> fmt::Debug for Follower<T, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("kind", &self.report.name())
            .finish_non_exhaustive()
    }
}

impl<T, S, R> Follower<T, S, R>
where
    T: kube::Resource + FromObject + 'static,
    S: Sink<T> + 'static,
    R: WatchObserver + 'static,
{
    /// Watches the kind forever.
    pub async fn run(self) {
        let watch = ListWatch {
            source: ObjectSource {
                path: self.api.resource_url().to_owned(),
                client: self.api.into_client(),
                is_metadata: self.is_metadata,
            },
            reading: self.reading,
            labels: self.labels,
            fields: self.fields,
            sink: Box::new(TypedSink(self.sink, PhantomData)),
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

/// Destination of the undecoded objects of a watch.
trait Objects: Send {
    fn begin(&mut self);
    fn page(&mut self, objects: Vec<Value>) -> Result<(), String>;
    fn complete(&mut self, asked: Instant);
    fn applied(&mut self, object: &Value) -> Result<(), String>;
    fn deleted(&mut self, object: &Value) -> Result<(), String>;
}

/// Decodes objects for a sink.
struct TypedSink<T, S>(S, PhantomData<fn() -> T>);

impl<T: FromObject, S: Sink<T>> Objects for TypedSink<T, S> {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn page(&mut self, objects: Vec<Value>) -> Result<(), String> {
        // Objects are dropped one by one, because a page is large.
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

/// List and watch of one kind. The object type is erased, so that the code is compiled only once.
struct ListWatch {
    source: ObjectSource,
    reading: ListerWatcher,
    labels: &'static str,
    fields: Cow<'static, str>,
    sink: Box<dyn Objects>,
    report: Box<dyn WatchObserver>,
    watch_config: WatchConfig,
    definitions: Definitions,
    /// Start of the current silence: the last event before an idle watch was restarted. `None` while the
    /// watch works.
    silent_since: Option<Instant>,
    /// Number of consecutive times that the API server reported the kind as missing.
    absences: u32,
    /// Retries for a missing kind, counted since its CustomResourceDefinition last changed.
    tries: Tries,
}

impl ListWatch {
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

    /// Watches until all objects have to be listed again.
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
                // Not reported: bookmarks are not guaranteed, and a quiet kind has no other events. A dead server
                // does not respond to the next request, which is reported.
                tracing::debug!(kind = self.report.name(), "idle watch restarted");
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

    /// Reports the end of the watch, then waits for the next attempt.
    async fn pause(&mut self, end: End, began: Instant, back_off: &mut impl Backoff) {
        let (report, watch_config) = (&self.report, &self.watch_config);
        let kind = report.name();
        let now = Instant::now();
        // The outage started with the silence before the failure.
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
                // Logged once per outage.
                if report.failed(error.clone(), since) {
                    tracing::warn!(
                        kind,
                        error,
                        "watch of the Kubernetes objects of one kind failed, retrying"
                    );
                } else {
                    tracing::debug!(kind, error, "watch failed again");
                }
                least = asked.unwrap_or_default();
            }
            End::Expired => {
                tracing::debug!(kind, "watch expired");
                report.expired();
            }
            End::Closed if began.elapsed() < watch_config.proof => {
                report.failed("the server ended the watch immediately".to_owned(), since);
            }
            End::Closed | End::Silent(_) | End::Absent(_) => {}
        }
        let next = back_off.next().unwrap_or(watch_config.wait_max);
        sleep(next.max(least)).await;
    }

    /// Reports a missing kind, and waits until a retry can succeed.
    async fn pause_absent(&mut self, error: String) {
        let (report, config) = (&self.report, &self.watch_config);
        let kind = report.name();
        self.absences = self.absences.saturating_add(1);
        let is_new = report.absent(error.clone());
        if is_new && report.may_be_absent() {
            tracing::info!(
                kind,
                error,
                "the cluster does not serve an optional kind, waiting until the kind is installed"
            );
        } else if is_new {
            tracing::warn!(
                kind,
                error,
                "the cluster does not serve a required kind, waiting: install the kind"
            );
        }
        let seldom = config.absent(self.absences, report.may_be_absent());
        let ObjectSource { client, path, .. } = &self.source;
        self.definitions
            .awaited(client, path, &mut self.tries, config, seldom)
            .await;
    }

    /// Lists all objects in pages, and returns the version of the list.
    async fn list(&mut self, watch_config: &WatchConfig) -> Result<String, End> {
        // Before the request, so that the list is newer than this time.
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
            let page: ListPage = page
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
            let version = version.ok_or_else(|| {
                End::Failed(
                    "the list of the API server has no resource version".to_owned(),
                    None,
                )
            })?;
            self.sink.complete(asked);
            self.report.listed();
            return Ok(version);
        }
    }

    /// Watches from `version`, and returns the reason for the end. Updates `version` to the last observed
    /// version.
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
        let (mut proven, mut last_frame) = (false, Instant::now());
        loop {
            // The idle limit applies after a watch has worked for a moment.
            let limit = if proven {
                watch_config.idle
            } else {
                watch_config.proof.min(watch_config.idle)
            };
            match next(&mut events, limit).await {
                None if proven || limit == watch_config.idle => return End::Silent(last_frame),
                None => {}
                Some(None) => return End::Closed,
                Some(Some(Err(error))) => return End::of_error(&error),
                Some(Some(Ok(WatchEvent::Error(status)))) => return End::of_status(&status),
                Some(Some(Ok(event))) => {
                    last_frame = Instant::now();
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

    /// Applies a watch event to the sink. Returns the reason if the watch must end.
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
            return Some(End::Failed("an event has no resource version".to_owned(), None));
        };
        let taken = if is_there {
            self.sink.applied(&object)
        } else {
            self.sink.deleted(&object)
        };
        if let Err(why) = taken {
            return Some(unreadable(why));
        }
        // Updated last, so that a failed event is requested again.
        seen.clone_into(version);
        None
    }
}

/// Returns the reason to end a watch or list: an object cannot be decoded, so the result would be incomplete.
fn unreadable(why: String) -> End {
    End::Failed(format!("cannot decode an object: {why}"), None)
}

fn selector(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the next item, `Some(None)` at the end of the stream, or `None` if no item arrives within `limit`.
async fn next<S: Stream + Unpin>(stream: &mut S, limit: Duration) -> Option<Option<S::Item>> {
    timeout(limit, stream.next()).await.ok()
}
