//! Closes addresses to the pods of running leases: network policies forbid connections to new nodes and API servers.

use super::namespace::{annotation, isolation_of, with_type};
use super::{ClusterContext, KubeCluster, LeadershipGate};
use crate::apply::item::{Item, ItemKind, items};
use crate::apply::plan::edit;
use crate::apply::{self, hash_of_all};
use crate::infrastructure::{Infrastructure, InfrastructureWatch};
use crate::labels;
use crate::settings::KubeSettings;
use akash_provider_core::error::Error;
use akash_provider_kube_model::crd::Manifest;
use akash_provider_kube_model::objects::{self, PriorState};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

const CLOSE: &str = "close";
/// Interval between attempts to update network policies after a failure.
const AGAIN: Duration = Duration::from_secs(10);

impl KubeCluster {
    /// Updates the network policies of leases when addresses of nodes or API servers change. Runs only while
    /// this instance leads. Never returns.
    pub async fn follow_infrastructure(&self, mut watch: InfrastructureWatch, leading: &LeadershipGate) {
        loop {
            let mut found = watch.changed().await;
            loop {
                tokio::select! {
                    biased;
                    // First, so that outdated addresses are not written.
                    newer = watch.changed() => {
                        found = newer;
                        continue;
                    }
                    () = leading.opened() => {}
                }
                match leading.during(self.close_infrastructure(&found)).await {
                    Some(Ok(0)) => break,
                    Some(Ok(leases)) => {
                        tracing::info!(
                            leases,
                            "NetworkPolicies updated, so that pods of leases cannot connect to nodes and API servers"
                        );
                        break;
                    }
                    Some(Err(error)) => {
                        tracing::warn!(%error, "cannot block connections from pods of leases to new nodes and API servers, the next attempt is in 10 s");
                    }
                    // The next leader closes them.
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

    /// Forbids connections from all pods to the addresses in `found`. Returns the number of leases with a
    /// changed policy.
    ///
    /// # Errors
    /// The errors of the API server. The next call or the next deploy writes the remaining leases.
    pub async fn close_infrastructure(&self, found: &Infrastructure) -> Result<usize, Error> {
        let inner = self.inner();
        let mut before = inner.rendering();
        // Before any possible failure, so that later deploys close the addresses.
        found.close(&mut inner.egress.write().unwrap_or_else(PoisonError::into_inner));
        inner.current(CLOSE).await?;
        // Synchronization has identified the account.
        before.lease_account = inner.lease_account();
        let mut leases = 0;
        for manifest in inner.manifests().state() {
            if inner.close(&manifest, &before).await? {
                leases += 1;
            }
        }
        Ok(leases)
    }
}

impl ClusterContext {
    /// Forbids connections from the pods of one lease to nodes and API servers. Returns true if a policy was written.
    async fn close(&self, manifest: &Manifest, before: &KubeSettings) -> Result<bool, Error> {
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
        let _lock = self.locks.lock(&lease.namespace()).await;
        let _turn = self.leases.acquire().await.ok();
        let view = self.state.lease(&lease);
        let Some(namespace) = view.namespace.as_deref().filter(|ns| self.is_applied(&lease, ns)) else {
            return Ok(false);
        };
        let prior = PriorState {
            manifest_version: manifest.metadata.resource_version.clone().unwrap_or_default(),
            isolation: isolation_of(Some(namespace), self.settings.isolation),
            unchanged: BTreeMap::new(),
        };
        // The next deploy reports why the lease cannot be rendered.
        let Ok(objects) = objects::render(&deployment, &self.rendering(), &prior) else {
            return Ok(false);
        };
        let (body, wanted) = (with_type(&objects.namespace), items(&objects));
        let is_policy = |item: &&Item| item.id.kind == ItemKind::NetworkPolicy;
        let policies = wanted.iter().filter(is_policy);
        let writes: Vec<_> = policies.filter_map(|item| edit(item, &view)).collect();
        if writes.is_empty() {
            return Ok(false);
        }
        let (calls, name) = (self.calls(CLOSE), lease.namespace());
        for write in writes {
            calls
                .apply(&write.id.kind.resource(), &name, &write.id.name, &write.body)
                .await?;
        }
        let old = objects::render(&deployment, before, &prior);
        let was = old.map(|old| hash_of_all(&with_type(&old.namespace), &items(&old)));
        // A different hash belongs to a pending deploy, which sets the new one.
        if was.ok().as_ref() == annotation(namespace, labels::APPLIED) {
            let marked = apply::marked(&bound(body, namespace), &wanted);
            calls.apply_namespace(&name, &marked).await?;
        }
        Ok(true)
    }

    /// Returns true if the namespace belongs to the lease and the last apply of the lease is complete.
    fn is_applied(&self, lease: &akash_provider_core::types::LeaseId, namespace: &Namespace) -> bool {
        namespace.metadata.deletion_timestamp.is_none()
            && annotation(namespace, labels::APPLIED).is_some()
            && self
                .check_holder(lease, &namespace.metadata, "namespace", CLOSE)
                .is_ok()
    }
}

/// Adds the uid of the namespace to `body`. The write then fails if the namespace was deleted.
fn bound(mut body: Value, namespace: &Namespace) -> Value {
    if let Some(uid) = &namespace.metadata.uid {
        body["metadata"]["uid"] = Value::from(uid.as_str());
    }
    body
}
