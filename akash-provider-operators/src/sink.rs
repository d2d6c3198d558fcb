//! Feeds watched objects into an index, and records the state of the watches.
//!
//! Objects are decoded one by one, so an invalid object becomes a value of the index and does not end the list.

use super::change::ObjectChange;
use super::operator_state::{OperatorIndex, OperatorState};
use akash_provider_kube_kernel::task;
use akash_provider_kube_kernel::watch::{
    Bookkeeping, Follower, ListerWatcher, Sink, WatchConfig, WatchObserver, WatchState,
};
use kube::Api;
use kube::core::DynamicObject;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Function that decodes the index key and the index value of an object.
type ObjectDecoder<K, V> = Box<dyn Fn(&DynamicObject) -> (K, V) + Send>;

#[derive(Clone, Copy)]
pub(super) struct WatchSpec {
    /// Name of the watch in the status.
    pub(super) key: &'static str,
    /// Name of the watched kind in logs.
    pub(super) name: &'static str,
    /// Label selector; empty for all objects.
    pub(super) labels: &'static str,
    /// True if a cluster can lack this kind.
    pub(super) may_be_absent: bool,
    /// Functions that decode the required parts of an object.
    pub(super) reading: ListerWatcher,
}

impl WatchSpec {
    /// Returns a watch of all objects of a kind that every cluster has, without their bookkeeping.
    pub(super) const fn new(key: &'static str, name: &'static str) -> Self {
        Self {
            key,
            name,
            labels: "",
            may_be_absent: false,
            reading: ListerWatcher::new::<Bookkeeping>(),
        }
    }
}

/// Returns the name of an object.
pub(super) fn named(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

pub(super) fn follow<I, K, V>(
    state: &Arc<OperatorState<I>>,
    watched: WatchSpec,
    api: Api<DynamicObject>,
    read: impl Fn(&DynamicObject) -> (K, V) + Send + 'static,
    event: impl Fn(ObjectChange<K, V>) -> I::Event + Send + 'static,
    watch_config: WatchConfig,
) -> AbortOnDropHandle<()>
where
    I: OperatorIndex,
    K: Ord + Send + 'static,
    V: Send + 'static,
{
    let follower = Follower {
        api,
        labels: watched.labels,
        fields: "".into(),
        is_metadata: false,
        reading: watched.reading,
        definitions: state.definitions.clone(),
        sink: IndexSink {
            state: Arc::clone(state),
            read: Box::new(read),
            event: Box::new(event),
            listed: BTreeMap::new(),
        },
        report: WatchReport {
            watched,
            state: Arc::clone(state),
        },
        watch_config,
    };
    task::spawn("watch of an operator", follower.run())
}

/// Sink that passes the objects of one kind to the index.
struct IndexSink<I: OperatorIndex, K, V> {
    state: Arc<OperatorState<I>>,
    read: ObjectDecoder<K, V>,
    event: Box<dyn Fn(ObjectChange<K, V>) -> I::Event + Send>,
    /// Objects of a list that is not complete yet.
    listed: BTreeMap<K, V>,
}

impl<I: OperatorIndex, K, V> IndexSink<I, K, V> {
    fn apply(&self, change: ObjectChange<K, V>) {
        self.state.apply((self.event)(change));
    }
}

impl<I: OperatorIndex, K: Ord + Send, V: Send> Sink<DynamicObject> for IndexSink<I, K, V> {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn page(&mut self, objects: Vec<DynamicObject>) {
        let read = &self.read;
        self.listed.extend(objects.iter().map(read));
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.apply(ObjectChange::Listed(listed));
    }

    fn applied(&mut self, object: DynamicObject) {
        let (key, value) = (self.read)(&object);
        self.apply(ObjectChange::Put(key, value));
    }

    fn deleted(&mut self, object: DynamicObject) {
        let (key, value) = (self.read)(&object);
        self.apply(ObjectChange::Gone(key, value));
    }
}

/// State of one watch, stored for the status of the operator.
struct WatchReport<I> {
    watched: WatchSpec,
    state: Arc<OperatorState<I>>,
}

impl<I: OperatorIndex> WatchReport<I> {
    fn change<R>(&self, change: impl FnOnce(&mut WatchState) -> R) -> R {
        change(self.state.inner().watches.entry(self.watched.key).or_default())
    }
}

impl<I: OperatorIndex> WatchObserver for WatchReport<I> {
    fn name(&self) -> &'static str {
        self.watched.name
    }

    fn listed(&self) {
        self.change(WatchState::listed);
    }

    fn starts(&self) {
        self.change(|watch| watch.starts += 1);
    }

    fn works(&self) {
        self.change(|watch| watch.down_since = None);
    }

    fn expired(&self) {
        self.change(|watch| watch.failures += 1);
    }

    fn may_be_absent(&self) -> bool {
        self.watched.may_be_absent
    }

    fn absent(&self, error: String) -> bool {
        if self.watched.may_be_absent
            && let Some(event) = I::absent(self.watched.key)
        {
            self.state.apply(event);
        }
        self.change(|watch| {
            watch.failed(error, Instant::now());
            let awaited = "the cluster does not serve this kind".to_owned();
            watch.awaited.replace(awaited).is_none()
        })
    }

    fn failed(&self, error: String, since: Instant) -> bool {
        self.change(|watch| watch.failed(error, since))
    }
}
