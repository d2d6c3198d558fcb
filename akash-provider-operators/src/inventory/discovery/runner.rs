//! Runs the discovery pods: a few at a time, while the provider is the leader.
//!
//! A node without a result is retried and delays no other node. Failures do not affect labels that are known without
//! discovery.

use super::super::index::InventoryEvent;
use super::super::shared::InventoryOperatorState;
use super::queue::DiscoveryQueue;
pub use super::queue::{DiscoveryStatus, MachineStatus};
use super::{
    Cards, DiscoveryOptions, DiscoveryProgress, LABELS, NodeIdentity, PORT, Processor, RESPONSE_MAX, START,
    name, pod, progress, selector,
};
use akash_provider_core::audit::ActKind;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::audit::{DeletionLog, deletion};
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::error::from_kube;
use akash_provider_kube_kernel::pages;
use futures::stream::{FuturesUnordered, StreamExt};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::{ApiResource, Request};
use kube::{Api, Client, Resource};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum number of concurrent discovery pods.
const AT_ONCE: usize = 4;
/// Minimum interval between two updates of the discovery queue.
const EVERY: Duration = Duration::from_secs(2);
/// Interval between two checks of a discovery pod.
const PACE: Duration = Duration::from_secs(1);
/// Maximum time until a discovery pod runs, including the pull of its image.
const START_TIME: Duration = Duration::from_secs(120);
/// Maximum time for the response of a discovery pod.
const RESPONSE_TIME: Duration = Duration::from_secs(5);
/// Maximum number of requests to a discovery pod. Requests fail until the pod listens.
const REQUESTS_MAX: u32 = 5;
/// Operation name in errors about old discovery pods.
const LEFTOVERS: &str = "remove old discovery pods";
/// Reason for the deletion of a discovery pod of an earlier discovery.
const LEFTOVER: &str = "discovery_leftover";

#[derive(Clone)]
pub(in super::super) struct DiscoveryRunner {
    shared: Arc<InventoryOperatorState>,
    client: Client,
    calls: KubeCalls,
    options: Arc<DiscoveryOptions>,
    deletions: DeletionLog,
}

impl DiscoveryRunner {
    pub(in super::super) fn new(
        shared: &Arc<InventoryOperatorState>,
        client: &Client,
        calls: KubeCalls,
        options: DiscoveryOptions,
        deletions: DeletionLog,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            client: client.clone(),
            calls,
            options: Arc::new(options),
            deletions,
        }
    }

    /// Discovers nodes until the cancellation.
    pub(in super::super) async fn run(self, until: CancellationToken) {
        let ending = until.clone().cancelled_owned();
        tokio::select! {
            () = ending => {}
            () = self.work() => {}
        }
        // On a regular stop this process is still the leader and removes its pods. Otherwise the next leader removes
        // them.
        if until.is_cancelled() {
            let _ = timeout(RESPONSE_TIME, self.clear()).await;
        }
    }

    async fn work(&self) {
        // The previous leadership may have ended during a discovery.
        self.with_queue(|discovery_queue| {
            discovery_queue.queue.restart();
            discovery_queue.machines.clear();
        });
        let mut wait = EVERY;
        while let Err(error) = self.clear().await {
            self.with_queue(|discovery_queue| {
                if discovery_queue.status.error.replace(error.to_string()).is_none() {
                    tracing::warn!(%error, "cannot delete the hardware discovery pods that an earlier process left, retrying");
                }
            });
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(300));
        }
        self.with_queue(|discovery_queue| discovery_queue.status.error = None);
        let mut looks = FuturesUnordered::new();
        let mut touches = self.shared.state.touches();
        let (mut is_changed, mut next_look) = (true, Instant::now());
        loop {
            let now = Instant::now();
            if is_changed && now >= next_look {
                (is_changed, next_look) = (false, now + EVERY);
                let unseen = self.shared.state.inner().index.unseen();
                self.with_queue(|discovery_queue| discovery_queue.set(unseen));
            }
            while looks.len() < AT_ONCE {
                let Some(Some((node, machine))) =
                    self.with_queue(|discovery_queue| discovery_queue.next(Instant::now()))
                else {
                    break;
                };
                looks.push(self.turn(node, machine));
            }
            // A failed node is retried after its back-off, if the limit of pods allows it.
            let due = self
                .with_queue(|discovery_queue| discovery_queue.queue.due())
                .flatten();
            let due = due.filter(|_| looks.len() < AT_ONCE);
            let wake = due.into_iter().chain(is_changed.then_some(next_look)).min();
            tokio::select! {
                Some(()) = looks.next(), if !looks.is_empty() => {}
                Ok(()) = touches.changed(), if !is_changed => is_changed = true,
                () = until(wake) => {}
            }
        }
    }

    fn with_queue<R>(&self, change: impl FnOnce(&mut DiscoveryQueue) -> R) -> Option<R> {
        self.shared
            .discovery_queue()
            .map(|mut discovery_queue| change(&mut discovery_queue))
    }

    async fn turn(&self, node: String, machine: NodeIdentity) {
        match self.look(&node).await {
            Ok((cards, processors)) => {
                tracing::info!(
                    node,
                    ?cards,
                    ?processors,
                    "hardware discovery of a node completed"
                );
                self.shared
                    .state
                    .apply(InventoryEvent::Found(node.clone(), machine, cards));
                self.shared
                    .choose(InventoryEvent::Processors(node.clone(), processors));
                self.with_queue(|discovery_queue| discovery_queue.done(&node));
            }
            Err(error) => {
                self.with_queue(|discovery_queue| discovery_queue.failed(&node, &error, Instant::now()));
            }
        }
    }

    /// Discovers the hardware of a node with a pod. The pod is deleted afterwards, also after an error.
    async fn look(&self, node: &str) -> Result<(Cards, Vec<Processor>), Error> {
        let name = name(node).map_err(|why| self.error(ErrorKind::Invalid, why))?;
        let pods = ApiResource::erase::<Pod>(&());
        let namespace = &self.options.namespace;
        let body = pod(&self.options, &name, node);
        let made = match self.calls.create(&pods, namespace, &name, &body).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                return Err(self.taken(&pods, &name, error).await?);
            }
            made => made?,
        };
        let uid = made.uid.unwrap_or_default();
        let answer = self.answer(&pods, &name, &uid, node).await;
        if let Err(error) = self.delete(&name, &uid, "discovery_done").await {
            // The pod has a limited lifetime, and the next start removes it.
            tracing::warn!(node, %error, "cannot delete the hardware discovery pod of a node; the pod ends within five minutes");
        }
        answer
    }

    /// Handles a name conflict: deletes the existing pod if it is a discovery pod.
    async fn taken(&self, pods: &ApiResource, name: &str, conflict: Error) -> Result<Error, Error> {
        let namespace = &self.options.namespace;
        let found = self.calls.get(pods, namespace, name).await?;
        let meta = found.map(|found| found.metadata).unwrap_or_default();
        let labels = meta.labels.unwrap_or_default();
        let is_ours = LABELS
            .iter()
            .all(|(key, value)| labels.get(*key).is_some_and(|has| has == value));
        let why = match meta.uid {
            Some(uid) if is_ours => {
                self.delete(name, &uid, LEFTOVER).await?;
                format!("pod {name} existed already and was deleted")
            }
            Some(_) => format!(
                "pod {name} belongs to another client: delete it, or set another --discovery-namespace"
            ),
            // The pod was deleted meanwhile, or the conflict has another cause.
            None => return Ok(conflict),
        };
        Ok(self.error(ErrorKind::Conflict, why))
    }

    async fn answer(
        &self,
        pods: &ApiResource,
        name: &str,
        uid: &str,
        node: &str,
    ) -> Result<(Cards, Vec<Processor>), Error> {
        self.runs(pods, name, uid, node).await?;
        let mut questions = 0;
        loop {
            match self.ask(name, "gpu").await {
                Ok(answer) => {
                    let cards =
                        Cards::read(&answer).map_err(|why| self.error(ErrorKind::Unavailable, why))?;
                    return Ok((cards, self.processors(name, node).await));
                }
                Err(error) if questions + 1 >= REQUESTS_MAX => return Err(error),
                Err(_) => questions += 1,
            }
            sleep(PACE).await;
        }
    }

    /// Requests the processors of a node from its discovery pod; empty after a failure.
    async fn processors(&self, name: &str, node: &str) -> Vec<Processor> {
        let answer = self.ask(name, "cpu").await.map_err(|error| error.to_string());
        let read = answer.and_then(|answer| Processor::read(&answer));
        read.unwrap_or_else(|why| {
            tracing::info!(
                node,
                why,
                "cannot read the CPU models of a node, so the inventory status omits these models"
            );
            Vec::new()
        })
    }

    /// Waits until the created discovery pod runs.
    async fn runs(&self, pods: &ApiResource, name: &str, uid: &str, node: &str) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let found = self.calls.get(pods, &self.options.namespace, name).await?;
            let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(uid)) else {
                return Err(self.error(ErrorKind::Unavailable, "the pod was deleted by another client"));
            };
            match progress(&found.data, node) {
                DiscoveryProgress::Runs => return Ok(()),
                DiscoveryProgress::Fails(why) => return Err(self.error(ErrorKind::Unavailable, why)),
                DiscoveryProgress::Waits(why) if begun.elapsed() >= START_TIME => {
                    return Err(self.error(ErrorKind::Timeout, why));
                }
                DiscoveryProgress::Waits(_) => sleep(PACE).await,
            }
        }
    }

    /// Requests the path `part` from a discovery pod, through the proxy of the API server.
    async fn ask(&self, name: &str, part: &str) -> Result<Vec<u8>, Error> {
        let path = Pod::url_path(&(), Some(&self.options.namespace));
        let request = Request::new(path).get_subresource(&format!("proxy/{part}"), &format!("{name}:{PORT}"));
        let request = request.map_err(|error| self.error(ErrorKind::Internal, error.to_string()))?;
        let asked = async {
            let answer = self.client.send(request.map(Body::from)).await;
            let answer = answer.map_err(|error| from_kube(self.calls.operation(), error))?;
            let status = answer.status();
            // An error response has the same size limit.
            let body = Limited::new(answer.into_body(), RESPONSE_MAX).collect().await;
            let body = body.map_err(|error| {
                let why = if error.is::<LengthLimitError>() {
                    format!("the response is longer than {RESPONSE_MAX} bytes")
                } else {
                    format!("the response was interrupted: {error}")
                };
                self.error(ErrorKind::Unavailable, why)
            })?;
            let body = body.to_bytes();
            if !status.is_success() {
                let words = String::from_utf8_lossy(&body[..body.len().min(300)]);
                let why = format!("the pod responds {status}: {}", words.escape_debug());
                return Err(self.error(ErrorKind::Unavailable, why));
            }
            Ok(body.to_vec())
        };
        match timeout(RESPONSE_TIME, asked).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("the pod does not respond within {RESPONSE_TIME:?}");
                Err(self.error(ErrorKind::Timeout, why))
            }
        }
    }

    /// Deletes pods with the labels and the name prefix of discovery pods.
    async fn clear(&self) -> Result<(), Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.options.namespace);
        let params = ListParams::default().labels(&selector());
        let found = pages::metadata(&api, params, RESPONSE_TIME, LEFTOVERS).await?;
        for meta in found.into_iter().map(|pod| pod.metadata) {
            let (Some(name), Some(uid)) = (meta.name, meta.uid) else {
                continue;
            };
            if name.starts_with(START) {
                self.delete(&name, &uid, LEFTOVER).await?;
            }
        }
        Ok(())
    }

    /// Deletes a discovery pod, and records the deletion in the audit log.
    async fn delete(&self, name: &str, uid: &str, reason: &str) -> Result<(), Error> {
        let (pods, namespace) = (ApiResource::erase::<Pod>(&()), &*self.options.namespace);
        let deleting = self.calls.delete(&pods, namespace, name, Some(uid), None);
        if !deleting.await? {
            return Ok(());
        }
        let node = name.strip_prefix(START).unwrap_or(name);
        let act = deletion(
            ActKind::PodDelete,
            reason,
            node,
            ("Pod", namespace, name, Some(uid)),
        );
        self.deletions.record_completed(act).await
    }

    fn error(&self, kind: ErrorKind, why: impl Into<String>) -> Error {
        Error::new(kind, self.calls.operation(), why)
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
