//! Deletion of pods that block the update of a StatefulSet.
//!
//! A StatefulSet replaces its pods one by one and waits until each pod is ready, even a pod of an older
//! revision. If a pod of an older revision can never become ready (image not pullable, failing command), the
//! update does not progress. The provider deletes such a pod, and the controller recreates it with the new
//! revision and the same volumes.
//!
//! ```text
//! set or pod changes ─► pods of an old revision that are not ready ─► confirm the set (live) ─► delete
//! ```

use super::{ClusterContext, KubeCluster, LeadershipGate};
use crate::error::{from_kube, is_absent, within};
use crate::labels;
use crate::state::{EVERYWHERE, LeaseView};
use akash_provider_core::audit::ActKind;
use akash_provider_core::error::Error;
use akash_provider_kube_kernel::audit::deletion;
use akash_provider_kube_kernel::calls::deleting;
use akash_provider_kube_kernel::rights::{self, Attempt};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

const ROLLOUT: &str = "rollout";
/// Pod label with the revision of the StatefulSet.
const REVISION: &str = "controller-revision-hash";
/// Delay before the next attempt after a failed deletion.
const AGAIN: Duration = Duration::from_secs(10);

impl KubeCluster {
    /// While the provider leads, deletes old pods that block the update of a StatefulSet. Never returns.
    pub async fn follow_rollouts(&self, leading: &LeadershipGate) {
        loop {
            leading.opened().await;
            // Ends when the leadership is lost; the next leader checks all leases.
            let _: Option<()> = leading.during(self.inner().free_rollouts()).await;
        }
    }
}

impl ClusterContext {
    async fn free_rollouts(&self) {
        let mut touched = self.state.touched();
        let mut homes = self.homes();
        // Leases with a failed deletion wait, even if they change meanwhile.
        let (mut failed, mut again) = (BTreeSet::new(), Instant::now());
        let mut is_logged = false;
        loop {
            let was_well = failed.is_empty();
            for home in std::mem::take(&mut homes) {
                if failed.contains(&home) {
                    continue;
                }
                if let Err(error) = self.free_rollout(&home).await {
                    // A missing right is logged once, not for every pod.
                    if !std::mem::replace(&mut is_logged, true) {
                        tracing::warn!(namespace = home, %error, "cannot delete pod that blocks the update of a lease, retrying");
                    }
                    failed.insert(home);
                }
            }
            // The delay starts at the first failure; later ones do not extend it.
            if was_well {
                again = Instant::now() + AGAIN;
            }
            is_logged &= !failed.is_empty();
            tokio::select! {
                biased;
                () = sleep_until(again), if !failed.is_empty() => homes = std::mem::take(&mut failed),
                next = touched.recv() => match next {
                    Ok(home) if *home != *EVERYWHERE => drop(homes.insert(home.as_ref().to_owned())),
                    // One of the missed changes may concern any lease.
                    Ok(_) | Err(RecvError::Lagged(_)) => homes = self.homes(),
                    // This process owns the sender, so it is never closed.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
            }
        }
    }

    fn homes(&self) -> BTreeSet<String> {
        self.state.leases().into_keys().collect()
    }

    async fn free_rollout(&self, home: &str) -> Result<(), Error> {
        let ours = self.state.ours_in(home);
        for (service, pods) in ours.iter().flat_map(|(_, view)| stuck_services(view)) {
            let sets: Api<StatefulSet> = Api::namespaced(self.client.clone(), home);
            let limit = self.settings.call_timeout;
            // The cache may hold a pod of a newer revision than its set.
            let Some(set) = within(limit, ROLLOUT, sets.get_opt(&service)).await? else {
                continue;
            };
            for pod in pods.iter().filter(|pod| is_of_old_revision(pod, &set)) {
                self.delete_pod(home, pod).await?;
            }
        }
        Ok(())
    }

    /// Deletes a pod if it did not change since it was read.
    pub(crate) async fn delete_pod(&self, home: &str, pod: &Pod) -> Result<(), Error> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let params = deleting(&pod.metadata);
        let (api, limit) = (
            Api::<Pod>::namespaced(self.client.clone(), home),
            self.settings.call_timeout,
        );
        let call = async { Ok(api.delete(name, &params).await) };
        match within(limit, ROLLOUT, call).await? {
            Ok(_) => {
                tracing::info!(
                    namespace = home,
                    pod = name,
                    "pod deleted that blocked the update of a lease"
                );
                // Afterwards, because failed attempts repeat every few seconds.
                let object = ("Pod", home, name, pod.metadata.uid.as_deref());
                let act = deletion(ActKind::PodReplace, "blocks_update", self.subject(home), object);
                self.settings.deletions.record_completed(act).await
            }
            Err(error) if is_absent(&error) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            Err(error) => {
                let attempt = Attempt::at::<Pod>(&["delete"], Some(home));
                let error = from_kube(ROLLOUT, error);
                Err(rights::judged(&self.client, limit, &attempt, error).await)
            }
        }
    }
}

/// Returns the pods that seem to block the update of their StatefulSet, by service.
fn stuck_services(view: &LeaseView) -> Vec<(String, Vec<Pod>)> {
    let is_going = view
        .namespace
        .as_ref()
        .is_none_or(|ns| ns.metadata.deletion_timestamp.is_some());
    if is_going {
        return Vec::new();
    }
    let ours = view
        .stateful_sets
        .iter()
        .filter(|(_, set)| is_applied(&set.metadata));
    let stuck = ours.map(|(service, set)| {
        let pods = view.pods.values().filter(|pod| is_of_old_revision(pod, set));
        (service.clone(), pods.map(|pod| (**pod).clone()).collect())
    });
    stuck
        .filter(|(_, pods): &(_, Vec<Pod>)| !pods.is_empty())
        .collect()
}

/// Returns true if this program applied the object. Objects of other programs are not changed.
pub(super) fn is_applied(meta: &ObjectMeta) -> bool {
    let annotations = meta.annotations.as_ref();
    annotations.is_some_and(|a| a.contains_key(labels::APPLIED_HASH))
}

/// Returns true if the pod belongs to the StatefulSet, has an older revision, is not ready and is not being
/// deleted.
fn is_of_old_revision(pod: &Pod, set: &StatefulSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    // Before the controller has observed the latest specification, its status is outdated.
    let is_current =
        status.observed_generation >= set.metadata.generation && set.metadata.deletion_timestamp.is_none();
    let owners = pod.metadata.owner_references.iter().flatten();
    let is_of_set = owners
        .into_iter()
        .any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref());
    let revision = pod.metadata.labels.as_ref().and_then(|l| l.get(REVISION));
    let wanted = status.update_revision.filter(|wanted| !wanted.is_empty());
    let is_old = matches!((revision, wanted), (Some(there), Some(wanted)) if *there != wanted);
    is_current && is_of_set && is_old && pod.metadata.deletion_timestamp.is_none() && !is_ready(pod)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

#[cfg(test)]
mod tests;
