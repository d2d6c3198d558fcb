//! Watch of CustomResourceDefinitions, shared by all watches of missing kinds, so that they do not poll for these
//! kinds.
//!
//! ```text
//! 404 ─► start once ─► the definition is created or changed ─► retry, with back-off until the kind is served
//!                             └─► definitions cannot be watched ─► retry periodically
//! ```
//!
//! The first missing kind starts the watch; a cluster with all kinds has no such watch. Only metadata are read.

use super::WatchConfig;
use super::follow::{Follower, Sink, WatchObserver};
use super::reading::{Bookkeeping, ListerWatcher};
use super::state::WatchState;
use crate::task;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

/// Name of the watch of CustomResourceDefinitions in a status.
pub const DEFINITIONS: &str = "customresourcedefinitions";
/// Number of definitions per page of a list. One definition may have several KiB.
const PAGE: u32 = 50;
/// Maximum number of retries for a missing kind after a change of its CustomResourceDefinition. The delays
/// start at 250 ms and double, so the retries take four minutes.
const TRIES: u32 = 11;
/// API group of the Gateway API. The name looks like a built-in group, but the kinds are
/// CustomResourceDefinitions.
const STANDARD: &str = "gateway.networking.k8s.io";

/// Watch of the CustomResourceDefinitions of a cluster. The watch stops when the last clone of this value is
/// dropped.
#[derive(Clone, Default)]
pub struct Definitions(Arc<DefinitionWatch>);

#[derive(Default)]
struct DefinitionWatch {
    states: watch::Sender<DefinitionStates>,
    task: OnceLock<AbortOnDropHandle<()>>,
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definitions")
            .field("has_begun", &self.0.task.get().is_some())
            .finish()
    }
}

impl PartialEq for Definitions {
    /// Returns true for any two watches, so that a comparison of settings ignores the shared watch.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Definitions {}

#[derive(Debug, Clone, Default)]
struct DefinitionStates {
    /// Resource version of each definition, by name; `None` before the first list.
    versions: Option<BTreeMap<String, String>>,
    watch: WatchState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DefinitionState<'a> {
    /// The definition is not listed yet, or definitions cannot be watched.
    Unknown,
    Missing,
    /// The definition exists and has this resource version.
    There(&'a str),
}

impl DefinitionStates {
    fn state(&self, name: &str) -> DefinitionState<'_> {
        match &self.versions {
            Some(versions) if self.watch.down_since.is_none() => {
                versions.get(name).map_or(DefinitionState::Missing, |version| {
                    DefinitionState::There(version)
                })
            }
            _ => DefinitionState::Unknown,
        }
    }
}

/// Number of retries for a missing kind. A change of the CustomResourceDefinition resets the number.
#[derive(Debug, Default)]
pub(super) struct Tries {
    version: String,
    count: u32,
}

impl Tries {
    /// Returns the delay before the next attempt. With `None`, the caller waits for a change of the
    /// CustomResourceDefinition.
    fn wait(&mut self, state: DefinitionState<'_>, first: Duration, seldom: Duration) -> Option<Duration> {
        match state {
            DefinitionState::Unknown => Some(seldom),
            DefinitionState::Missing => None,
            DefinitionState::There(version) if self.version != version => {
                version.clone_into(&mut self.version);
                self.count = 0;
                Some(Duration::ZERO)
            }
            DefinitionState::There(_) if self.count == 0 => Some(Duration::ZERO),
            DefinitionState::There(_) => {
                (self.count < TRIES).then(|| first.saturating_mul(1 << (self.count - 1).min(TRIES)))
            }
        }
    }
}

impl Definitions {
    /// Waits until a retry for a missing kind can succeed. For a built-in kind, waits for the duration
    /// `seldom`, because the kind has no CustomResourceDefinition to watch.
    pub(super) async fn awaited(
        &self,
        client: &Client,
        path: &str,
        tries: &mut Tries,
        config: &WatchConfig,
        seldom: Duration,
    ) {
        let Some(name) = definition_of(path) else {
            // Built-in kinds have no definition.
            sleep(seldom).await;
            return;
        };
        let responded_at = Instant::now();
        let mut states = self.begin(client, config);
        loop {
            let wait = tries.wait(states.borrow_and_update().state(&name), config.wait_first, seldom);
            let due = async {
                match wait {
                    Some(wait) => sleep_until(responded_at + wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // The sender is a field of `self`, so the channel is open.
                Ok(()) = states.changed() => {}
                () = due => break,
            }
        }
        tries.count = tries.count.saturating_add(1);
    }

    /// Returns the state of the watch, or `None` if the watch was never started.
    #[must_use]
    pub fn watch_state(&self) -> Option<WatchState> {
        self.0.task.get()?;
        Some(self.0.states.borrow().watch.clone())
    }

    fn begin(&self, client: &Client, config: &WatchConfig) -> watch::Receiver<DefinitionStates> {
        let inner = &self.0;
        inner.task.get_or_init(|| {
            let resource = ApiResource::erase::<CustomResourceDefinition>(&());
            let follower = Follower {
                api: Api::<DynamicObject>::all_with(client.clone(), &resource),
                labels: "",
                fields: "".into(),
                is_metadata: true,
                reading: ListerWatcher::new::<Bookkeeping>(),
                definitions: Self::default(),
                sink: DefinitionSink {
                    states: inner.states.clone(),
                    listed: BTreeMap::new(),
                },
                report: DefinitionReport(inner.states.clone()),
                watch_config: WatchConfig {
                    page_size: PAGE.min(config.page_size),
                    // A missing permission is granted manually, and the kinds are polled in the meantime.
                    wait_first: config.wait_absent,
                    wait_max: config.wait_absent_max.max(config.wait_absent),
                    ..*config
                },
            };
            task::spawn("watch of definitions", follower.run())
        });
        inner.states.subscribe()
    }
}

/// Returns the name of the CustomResourceDefinition for the API path of a kind, or `None` for a built-in kind.
fn definition_of(path: &str) -> Option<String> {
    let mut parts = path.strip_prefix("/apis/")?.split('/');
    let group = parts.next()?;
    let plural = parts.next_back()?;
    let is_own = !group.contains('.') || (group.ends_with(".k8s.io") && group != STANDARD);
    (!is_own).then(|| format!("{plural}.{group}"))
}

/// Sink for names and versions of definitions.
struct DefinitionSink {
    states: watch::Sender<DefinitionStates>,
    listed: BTreeMap<String, String>,
}

impl DefinitionSink {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        self.states
            .send_modify(|states| change(states.versions.get_or_insert_default()));
    }
}

fn read(object: DynamicObject) -> (String, String) {
    let meta = object.metadata;
    (
        meta.name.unwrap_or_default(),
        meta.resource_version.unwrap_or_default(),
    )
}

impl Sink<DynamicObject> for DefinitionSink {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn page(&mut self, objects: Vec<DynamicObject>) {
        self.listed.extend(objects.into_iter().map(read));
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.change(|versions| *versions = listed);
    }

    fn applied(&mut self, object: DynamicObject) {
        let (name, version) = read(object);
        self.change(|versions| drop(versions.insert(name, version)));
    }

    fn deleted(&mut self, object: DynamicObject) {
        let (name, _) = read(object);
        self.change(|versions| drop(versions.remove(&name)));
    }
}

struct DefinitionReport(watch::Sender<DefinitionStates>);

impl WatchObserver for DefinitionReport {
    fn name(&self) -> &'static str {
        DEFINITIONS
    }

    fn listed(&self) {
        self.0.send_modify(|states| states.watch.listed());
    }

    fn works(&self) {
        self.0.send_modify(|states| states.watch.down_since = None);
    }

    fn failed(&self, error: String, since: Instant) -> bool {
        let text = error.clone();
        let mut is_new = false;
        self.0
            .send_modify(|states| is_new = states.watch.failed(error, since));
        if is_new {
            tracing::warn!(
                error = text,
                "cannot watch CustomResourceDefinitions, polling missing kinds: grant `list` and `watch` on customresourcedefinitions.apiextensions.k8s.io"
            );
        }
        // Logged here.
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_kind_has_a_definition_and_a_built_in_kind_has_none() {
        for (path, wanted) in [
            (
                "/apis/gateway.networking.k8s.io/v1/httproutes",
                Some("httproutes.gateway.networking.k8s.io"),
            ),
            (
                "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools",
                Some("ipaddresspools.metallb.io"),
            ),
            (
                "/apis/ceph.rook.io/v1/cephclusters",
                Some("cephclusters.ceph.rook.io"),
            ),
            ("/apis/networking.k8s.io/v1/ingresses", None),
            ("/apis/apps/v1/deployments", None),
            ("/api/v1/pods", None),
        ] {
            assert_eq!(definition_of(path).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn missing_kind_is_retried_only_with_its_definition() {
        let mut tries = Tries::default();
        let (first, seldom) = (Duration::from_millis(250), Duration::from_secs(30));
        assert_eq!(tries.wait(DefinitionState::Missing, first, seldom), None);
        assert_eq!(tries.wait(DefinitionState::Unknown, first, seldom), Some(seldom));
        let mut waits = Vec::new();
        while let Some(wait) = tries.wait(DefinitionState::There("1"), first, seldom) {
            waits.push(wait);
            tries.count += 1;
        }
        assert_eq!(waits.len(), TRIES as usize, "the number of retries is limited");
        assert_eq!(waits[..4], [Duration::ZERO, first, first * 2, first * 4]);
        let all: Duration = waits.iter().sum();
        assert!((200..300).contains(&all.as_secs()), "{all:?}");
        assert_eq!(
            tries.wait(DefinitionState::There("2"), first, seldom),
            Some(Duration::ZERO),
            "the definition changed"
        );
    }

    #[test]
    fn definitions_are_unknown_while_they_cannot_be_watched() {
        let (sender, seen) = {
            let sender = watch::Sender::new(DefinitionStates::default());
            let seen = sender.subscribe();
            (sender, seen)
        };
        let state_of = |name: &str| format!("{:?}", seen.borrow().state(name));
        let object = |name: &str, version: &str| DynamicObject {
            metadata: serde_json::from_value(serde_json::json!({"name": name, "resourceVersion": version}))
                .unwrap(),
            types: None,
            data: serde_json::Value::Null,
        };
        let watch = DefinitionReport(sender.clone());
        let mut intake = DefinitionSink {
            states: sender,
            listed: BTreeMap::new(),
        };
        assert_eq!(state_of("a.b"), "Unknown");
        intake.page(vec![object("a.b", "1")]);
        assert_eq!(state_of("a.b"), "Unknown", "an incomplete list does not count");
        intake.complete(Instant::now());
        assert_eq!(
            (state_of("a.b"), state_of("c.d")),
            ("There(\"1\")".to_owned(), "Missing".to_owned())
        );
        intake.applied(object("c.d", "2"));
        intake.deleted(object("a.b", "3"));
        assert_eq!(
            (state_of("a.b"), state_of("c.d")),
            ("Missing".to_owned(), "There(\"2\")".to_owned())
        );
        watch.failed("forbidden".to_owned(), Instant::now());
        assert_eq!(
            (state_of("a.b"), state_of("c.d")),
            ("Unknown".to_owned(), "Unknown".to_owned())
        );
        watch.works();
        assert_eq!(state_of("a.b"), "Missing");
    }
}
