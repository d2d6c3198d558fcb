//! The one writer of labels: some nodes at once, and each at its own pace.

use super::node::MANAGER;
use super::shared::{Shared, Turn};
use crate::error::within;
use akash_provider_core::error::Error;
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::ObjectMeta;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Nodes that are written at once.
const AT_ONCE: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) nodes: Api<Node>,
    /// Limit of one call.
    pub(super) limit: Duration,
}

impl Writer {
    /// Works until the end, and finishes what it began.
    pub(super) async fn run(self, until: CancellationToken) {
        self.shared.restart();
        let mut jobs = FuturesUnordered::new();
        while !until.is_cancelled() {
            let mut due = None;
            while jobs.len() < AT_ONCE {
                match self.shared.next(Instant::now()) {
                    Ok(turn) => jobs.push(self.work(turn)),
                    Err(then) => {
                        due = then;
                        break;
                    }
                }
            }
            let later = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = until.cancelled() => break,
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
                () = self.shared.news.notified(), if jobs.len() < AT_ONCE => {}
                () = later => {}
            }
        }
        let rest = async { while jobs.next().await.is_some() {} };
        if timeout(self.limit, rest).await.is_err() {
            tracing::warn!("labels were still being written at the end; the next start looks at them");
        }
    }

    async fn work(&self, turn: Turn) {
        let outcome = self.write(&turn).await;
        self.shared.finish(&turn, outcome, Instant::now());
    }

    async fn write(&self, turn: &Turn) -> Result<ObjectMeta, Error> {
        tracing::info!(node = turn.name, labels = %turn.patch["metadata"]["labels"], "labels of a node are written");
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&turn.patch);
        let call = self.nodes.patch_metadata(&turn.name, &params, &patch);
        Ok(within(self.limit, "write the labels of a node", call)
            .await?
            .metadata)
    }
}
