//! Label of this instance's pod with its role, so that a Service can select the leader.

use crate::args::ha::PodName;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_k8s::error::within;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

/// Label of a pod: `leader` or `standby`.
const ROLE: &str = "provider.akash.network/role";
const LEADER: &str = "leader";
const STANDBY: &str = "standby";
const OPERATION: &str = "label the pod";
/// Interval at which the label is written again, for example after another program changed the label.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time until a failed write is repeated.
const RETRY: Duration = Duration::from_secs(2);
/// Timeout of one call to the API server.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of pods with the label of a leader that are read.
const PAGE: u32 = 100;

/// Pod with a label for the role of this instance.
#[derive(Debug)]
pub(super) struct RoleLabel {
    api: Api<Pod>,
    pod: PodName,
}

impl RoleLabel {
    pub(super) fn new(client: Client, pod: PodName) -> Self {
        let api = Api::namespaced(client, pod.namespace());
        Self { api, pod }
    }

    /// Keeps the label up to date. The first failure of a series is logged.
    pub(super) async fn follow(self, gate: LeadershipGate) {
        let mut has_failed = false;
        loop {
            let leads = gate.term().is_some();
            let written = match leads {
                // A write of an instance that no longer leads is cancelled.
                true => gate.during(self.lead()).await.unwrap_or(Ok(())),
                false => self.label(self.pod.name(), STANDBY).await.map(drop),
            };
            if let Err(error) = &written
                && !has_failed
            {
                self.warn(error);
            }
            has_failed = written.is_err();
            tokio::select! {
                biased;
                () = gate.closed(), if leads => {}
                () = gate.opened(), if !leads => {}
                () = sleep(if has_failed { RETRY } else { INTERVAL }) => {}
            }
        }
    }

    /// Labels this pod as the leader, and the pods of previous leaders as standbys: a previous leader on a lost node
    /// cannot change its own label.
    async fn lead(&self) -> Result<(), Error> {
        let own = self.label(self.pod.name(), LEADER).await?;
        let Some(owner) = controller(&own) else {
            return Ok(());
        };
        let params = ListParams::default()
            .labels(&format!("{ROLE}={LEADER}"))
            .limit(PAGE);
        let leaders = within(CALL_TIMEOUT, OPERATION, self.api.list_metadata(&params)).await?;
        for other in leaders.items {
            let name = other.name_any();
            if name != self.pod.name() && controller(&other.metadata) == Some(owner) {
                self.label(&name, STANDBY).await?;
            }
        }
        Ok(())
    }

    async fn label(&self, pod: &str, role: &str) -> Result<ObjectMeta, Error> {
        let patch = json!({"metadata": {"labels": {ROLE: role}}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let writing = self.api.patch_metadata(pod, &params, &patch);
        within(CALL_TIMEOUT, OPERATION, writing)
            .await
            .map(|pod| pod.metadata)
    }

    fn warn(&self, error: &Error) {
        let (pod, namespace) = (self.pod.name(), self.pod.namespace());
        match error.kind() {
            ErrorKind::Denied => tracing::warn!(
                pod, namespace, %error,
                "cannot write the role of this instance to its pod, so a Service cannot select the leader: grant `patch` on these pods in this namespace"
            ),
            _ => tracing::warn!(
                pod, namespace, %error,
                "cannot write the role of this instance to its pod, so a Service cannot select the leader: check --ha-pod and the API server"
            ),
        }
    }
}

/// Returns the UID of the controller, for example the StatefulSet, which is the same for all instances.
fn controller(pod: &ObjectMeta) -> Option<&str> {
    let owners: &[OwnerReference] = pod.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    controller.map(|owner| owner.uid.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use kube::client::Body;
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use tokio_util::task::AbortOnDropHandle;

    /// Pods of one namespace: UID of the controller and role, by name.
    #[derive(Default)]
    struct Pods {
        pods: BTreeMap<&'static str, (&'static str, String)>,
        is_denied: bool,
    }

    type Shared = Arc<Mutex<Pods>>;

    fn object(name: &str, (owner, role): &(&'static str, String)) -> Value {
        json!({"metadata": {
            "name": name,
            "labels": {ROLE: role},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": owner, "controller": true},
            ],
        }})
    }

    async fn answer(shared: Shared, request: Request<Body>) -> (u16, Value) {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let mut state = shared.lock().unwrap();
        if state.is_denied {
            let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"});
            return (403, status);
        }
        if head.method == Method::GET {
            assert!(
                head.uri.query().unwrap().contains("%2Frole%3Dleader"),
                "{}",
                head.uri
            );
            let leaders = state.pods.iter().filter(|(_, pod)| pod.1 == LEADER);
            let items: Vec<Value> = leaders.map(|(name, pod)| object(name, pod)).collect();
            return (200, json!({"metadata": {}, "items": items}));
        }
        let name = head.uri.path().rsplit('/').next().unwrap();
        let patch: Value = serde_json::from_slice(&body).unwrap();
        let pod = state.pods.iter_mut().find(|(known, _)| **known == name).unwrap();
        patch["metadata"]["labels"][ROLE]
            .as_str()
            .unwrap()
            .clone_into(&mut pod.1.1);
        (200, object(name, pod.1))
    }

    fn follow(shared: &Shared, gate: &LeadershipGate) -> AbortOnDropHandle<()> {
        let shared = Arc::clone(shared);
        let served = tower::service_fn(move |request: Request<Body>| {
            let answered = answer(Arc::clone(&shared), request);
            async move {
                let (code, object) = answered.await;
                let body = Body::from(object.to_string().into_bytes());
                Ok::<_, std::io::Error>(Response::builder().status(code).body(body).unwrap())
            }
        });
        let label = RoleLabel::new(Client::new(served, "ops"), "ops/set-1".parse().unwrap());
        AbortOnDropHandle::new(tokio::spawn(label.follow(gate.clone())))
    }

    fn roles(shared: &Shared) -> Vec<String> {
        let state = shared.lock().unwrap();
        state.pods.values().map(|(_, role)| role.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn exactly_the_leader_of_a_set_has_the_label_of_a_leader() {
        let shared = Shared::default();
        let pods = [
            ("other-0", ("other", LEADER)),
            ("set-0", ("set", LEADER)),
            ("set-1", ("set", "")),
        ];
        shared.lock().unwrap().pods = pods
            .map(|(name, (uid, role))| (name, (uid, role.to_owned())))
            .into();
        let gate = LeadershipGate::new(false);
        let _task = follow(&shared, &gate);
        sleep(RETRY).await;
        assert_eq!(roles(&shared), [LEADER, LEADER, STANDBY]);
        gate.set(true);
        sleep(RETRY).await;
        assert_eq!(
            roles(&shared),
            [LEADER, STANDBY, LEADER],
            "the previous leader is a standby"
        );
        gate.set(false);
        sleep(RETRY).await;
        assert_eq!(roles(&shared), [LEADER, STANDBY, STANDBY]);
    }

    #[tokio::test(start_paused = true)]
    async fn denied_label_is_written_once_it_is_allowed() {
        let shared = Shared::default();
        *shared.lock().unwrap() = Pods {
            pods: [("set-1", ("set", String::new()))].into(),
            is_denied: true,
        };
        let _task = follow(&shared, &LeadershipGate::new(true));
        sleep(INTERVAL).await;
        assert_eq!(roles(&shared), [""]);
        shared.lock().unwrap().is_denied = false;
        sleep(RETRY * 2).await;
        assert_eq!(roles(&shared), [LEADER]);
    }
}
