//! Nodes and API servers that came are closed to the pods of leases that run already.

use super::deploy::{annotation, isolation_of, with_type};
use super::{Inner, KubeCluster, LeadershipGate};
use crate::apply::item::{Item, Kind, items};
use crate::apply::plan::{Ledger, There, Wanted, plan};
use crate::apply::{self, hash_of_all};
use crate::crd::Manifest;
use crate::infrastructure::{Infrastructure, InfrastructureWatch};
use crate::labels;
use crate::objects::{self, Prior};
use crate::settings::Settings;
use akash_provider_core::error::Error;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

const CLOSE: &str = "close";
/// Wait after addresses could not be closed everywhere.
const AGAIN: Duration = Duration::from_secs(10);

impl KubeCluster {
    /// Keeps the addresses of nodes and API servers closed as they change, while its provider leads. Never ends.
    pub async fn follow_infrastructure(&self, mut watch: InfrastructureWatch, leading: &LeadershipGate) {
        loop {
            let mut found = watch.changed().await;
            loop {
                tokio::select! {
                    biased;
                    // First: older addresses must not be written when newer ones are known.
                    newer = watch.changed() => {
                        found = newer;
                        continue;
                    }
                    () = leading.begins() => {}
                }
                match leading.during(self.close_infrastructure(&found)).await {
                    Some(Ok(0)) => break,
                    Some(Ok(leases)) => {
                        tracing::info!(leases, "nodes or API servers changed: their addresses are closed");
                        break;
                    }
                    Some(Err(error)) => {
                        tracing::warn!(%error, "addresses of nodes and API servers are not closed everywhere yet");
                    }
                    // Whoever leads closes them; if that is us once more, what it left open.
                    None => continue,
                }
                tokio::select! {
                    biased;
                    newer = watch.changed() => found = newer,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
    }

    /// From here on these addresses are closed to pods, also to those of leases that run: where the policies of one
    /// that we applied change by it, they are written, and nothing else is. How many leases that concerned.
    ///
    /// # Errors
    /// As the API server answers; leases that were not reached are written by the next call, or their next deploy.
    pub async fn close_infrastructure(&self, found: &Infrastructure) -> Result<usize, Error> {
        let inner = self.inner();
        let before = inner.rendering();
        // Before anything can fail: what is deployed from here on is closed to them.
        found.close(&mut inner.egress.write().unwrap_or_else(PoisonError::into_inner));
        inner.current(CLOSE).await?;
        // The account is known from here on.
        let before = Settings {
            lease_account: inner.lease_account(),
            ..before
        };
        let mut leases = 0;
        for manifest in inner.manifests().state() {
            if inner.close(&manifest, &before).await? {
                leases += 1;
            }
        }
        Ok(leases)
    }
}

impl Inner {
    /// True when something was written.
    async fn close(&self, manifest: &Manifest, before: &Settings) -> Result<bool, Error> {
        let Some(lease) = self
            .is_ours(manifest)
            .then_some(&manifest.metadata.labels)
            .and_then(|l| labels::lease_of(l.as_ref()?))
        else {
            return Ok(false);
        };
        let Some(deployment) = self.read_manifest(manifest).ok().filter(|d| d.lease == lease) else {
            return Ok(false);
        };
        let _lane = self.lanes.enter(&lease.namespace()).await;
        let _turn = self.leases.acquire().await.ok();
        let view = self.state.lease(&lease);
        let Some(namespace) = view.namespace.as_deref().filter(|ns| self.is_applied(&lease, ns)) else {
            return Ok(false);
        };
        let prior = Prior {
            manifest_version: manifest.metadata.resource_version.clone().unwrap_or_default(),
            isolation: isolation_of(Some(namespace), self.settings.isolation),
            unchanged: BTreeMap::new(),
        };
        // Its next deploy says why it cannot be rendered.
        let Ok(objects) = objects::render(&deployment, &self.rendering(), &prior) else {
            return Ok(false);
        };
        let (body, wanted) = (with_type(&objects.namespace), items(&objects));
        let is_policy = |item: &&Item| item.id.kind == Kind::NetworkPolicy;
        let policies: Vec<_> = wanted.iter().filter(is_policy).cloned().collect();
        let changes = Wanted {
            items: &policies,
            ledger: &Ledger::new(),
            there: &There::new(),
            without_password: &BTreeSet::new(),
            kept: &BTreeSet::new(),
            prune: false,
        };
        // Deletes are no business of this: what is not a policy is not among what is wanted here.
        let writes = plan(&changes, &view).writes;
        if writes.is_empty() {
            return Ok(false);
        }
        let (calls, name) = (self.calls(CLOSE), lease.namespace());
        for write in writes {
            calls
                .apply(write.id.kind, &name, &write.id.name, &write.body)
                .await?;
        }
        let old = objects::render(&deployment, before, &prior);
        let was = old.map(|old| hash_of_all(&with_type(&old.namespace), &items(&old)));
        // A mark that says something else is of a deploy that is still to come, which sets it.
        if was.ok().as_ref() == annotation(namespace, labels::APPLIED) {
            let marked = apply::marked(&bound(body, namespace), &wanted);
            calls.apply_namespace(&name, &marked).await?;
        }
        Ok(true)
    }

    /// True for a namespace of ours in which everything was applied by us.
    fn is_applied(&self, lease: &akash_provider_core::types::LeaseId, namespace: &Namespace) -> bool {
        namespace.metadata.deletion_timestamp.is_none()
            && annotation(namespace, labels::APPLIED).is_some()
            && self
                .check_holder(lease, &namespace.metadata, "namespace", CLOSE)
                .is_ok()
    }
}

/// This very namespace: one that is gone meanwhile is not made anew.
fn bound(mut body: Value, namespace: &Namespace) -> Value {
    if let Some(uid) = &namespace.metadata.uid {
        body["metadata"]["uid"] = Value::from(uid.as_str());
    }
    body
}
