//! Changed or deleted objects of a lease are repaired at once, and no other lease is affected.

use crate::adoption::{make, recording};
use crate::world::{World, deployment, run, service};
use akash_provider_core::cluster::{Cluster, Teardown};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::cluster::{KubeCluster, LeadershipGate};
use akash_provider_k8s::labels;
use akash_provider_k8s::settings::Drift;
use akash_provider_k8s::statistics::DriftOutcome;
use futures::FutureExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio_util::task::AbortOnDropHandle;

const POLICY: &str = "akash-deployment-restrictions";

pub(crate) fn follow(cluster: &Arc<KubeCluster>, leading: &LeadershipGate) -> AbortOnDropHandle<()> {
    let (cluster, leading) = (Arc::clone(cluster), leading.clone());
    AbortOnDropHandle::new(tokio::spawn(async move { cluster.follow_drift(&leading).await }))
}

/// Deploys a lease and waits until it runs.
async fn leased(world: &World, cluster: &KubeCluster, number: u64) -> LeaseId {
    let lease = world.lease(1, number);
    let web = deployment(&lease, vec![service("web")]);
    cluster.deploy(&web).await.unwrap();
    lease
}

/// Returns a field of the object, or null.
async fn field(world: &World, lease: &LeaseId, (kind, name): (&str, &str), path: &str) -> Value {
    let object = world.get(kind, &lease.namespace(), name).await;
    object.and_then(|o| o.pointer(path).cloned()).unwrap_or_default()
}

/// Returns the generation or the resource version of each object of a lease.
pub(crate) async fn written(world: &World, lease: &LeaseId) -> Vec<String> {
    let mut found = Vec::new();
    for (kind, path) in [
        ("Deployment", "/metadata/generation"),
        ("StatefulSet", "/metadata/generation"),
        ("Service", "/metadata/resourceVersion"),
        ("NetworkPolicy", "/metadata/resourceVersion"),
    ] {
        for object in world.list(kind, &lease.namespace()).await {
            let (name, value) = (&object["metadata"]["name"], object.pointer(path));
            found.push(format!("{kind} {name} {value:?}"));
        }
    }
    found
}

async fn scale_to_zero(world: &World, lease: &LeaseId) {
    let none = json!({"spec": {"replicas": 0}});
    world.edit("Deployment", &lease.namespace(), "web", none).await;
}

async fn replicas(world: &World, lease: &LeaseId) -> Value {
    field(world, lease, ("Deployment", "web"), "/spec/replicas").await
}

/// Deletes a policy of the lease `control` twice, and waits for each repair. The provider has then processed
/// all earlier changes. Returns the number of recorded writes.
async fn until_processed(world: &World, control: &LeaseId) -> usize {
    let ns = control.namespace();
    for _ in 0..2 {
        world.delete("NetworkPolicy", &ns, POLICY).await;
        let is_there = || async { world.get("NetworkPolicy", &ns, POLICY).await.is_some() };
        world.until("the control lease is repaired", is_there).await;
    }
    let writes = world.take_writes();
    println!("{writes:?}");
    writes.len()
}

/// Returns the edits: kind and name of an object, path of a field, and merge patch.
fn edits() -> [(&'static str, &'static str, &'static str, Value); 4] {
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "evil:1"}]}}}});
    let selector = json!({"spec": {"selector": {labels::SERVICE: "x"}}});
    let selects = "/spec/selector/akash.network~1manifest-service";
    [
        (
            "Deployment",
            "web",
            "/spec/replicas",
            json!({"spec": {"replicas": 0}}),
        ),
        (
            "NetworkPolicy",
            POLICY,
            "/spec/egress",
            json!({"spec": {"egress": [{}]}}),
        ),
        ("Service", "web", selects, selector),
        (
            "Deployment",
            "web",
            "/spec/template/spec/containers/0/image",
            image,
        ),
    ]
}

#[test]
fn drift_of_a_lease_is_repaired_at_once_without_touching_others() {
    run("heal", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = leased(world, &cluster, 1).await;
            let other = leased(world, &cluster, 2).await;
            let _following = follow(&cluster, &LeadershipGate::new(true));
            let ns = lease.namespace();
            let beside = written(world, &other).await;
            let team = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}});
            world.edit("Deployment", &ns, "web", team.clone()).await;
            world.edit("NetworkPolicy", &ns, POLICY, team).await;
            world.take_calls();

            for (kind, name, path, patch) in edits() {
                let before = field(world, &lease, (kind, name), path).await;
                world.edit(kind, &ns, name, patch).await;
                let begin = Instant::now();
                let is_right = || async { field(world, &lease, (kind, name), path).await == before };
                world.until("the object is repaired", is_right).await;
                println!("{kind} {path}: {} ms", begin.elapsed().as_millis());
                let calls = world.take_calls();
                let is_about_it = calls.iter().all(|call| call.path.contains(&format!("/{name}")));
                assert!(
                    calls.len() == 2 && is_about_it,
                    "one read and one write: {calls:?}"
                );
            }
            for (kind, name) in [("Deployment", "web"), ("NetworkPolicy", POLICY)] {
                let label = field(world, &lease, (kind, name), "/metadata/labels/team").await;
                let note = field(world, &lease, (kind, name), "/metadata/annotations/note").await;
                assert_eq!(
                    (label, note),
                    (json!("a"), json!("b")),
                    "metadata of other managers stays"
                );
            }
            for (kind, name) in [
                ("NetworkPolicy", POLICY),
                ("Service", "web-np"),
                ("Deployment", "web"),
            ] {
                world.delete(kind, &ns, name).await;
                let is_there = || async { world.get(kind, &ns, name).await.is_some() };
                world.until("the object is recreated", is_there).await;
                let calls = world.take_calls();
                assert_eq!(calls.len(), 2, "one read and one write: {calls:?}");
            }
            assert_eq!(replicas(world, &lease).await, json!(1));
            assert_eq!(written(world, &other).await, beside);
            cluster
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            assert_eq!(world.take_writes(), [], "nothing is left for a deploy");
        }
        .boxed()
    });
}

#[test]
fn report_mode_repairs_only_isolation() {
    run("heal-told", |world| {
        async move {
            let mut settings = world.settings.clone();
            settings.drift = Drift::Report;
            let cluster = world.connect_with(settings).await;
            let lease = leased(world, &cluster, 1).await;
            let _following = follow(&cluster, &LeadershipGate::new(true));
            world.take_calls();
            scale_to_zero(world, &lease).await;
            world.delete("Service", &lease.namespace(), "web").await;
            assert_eq!(
                until_processed(world, &lease).await,
                2,
                "only the policy is written"
            );
            assert_eq!(replicas(world, &lease).await, json!(0));
            let drift = cluster.statistics().drift;
            for kind in ["Deployment", "Service"] {
                assert_eq!(drift.get(&(kind, DriftOutcome::Left)), Some(&1), "{drift:?}");
            }
            cluster
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            assert_eq!(replicas(world, &lease).await, json!(1));
        }
        .boxed()
    });
}

#[test]
fn leases_not_deployed_by_this_process_are_not_repaired() {
    run("heal-others", |world| {
        async move {
            let folder = testbed::recordings::folder("peer/k8s");
            let adopted = recording(world, &folder.join("storage")).unwrap();
            make(world, &adopted).await;
            // A process before this one deployed the lease. No deploy was requested from this process yet.
            let earlier = world.connect().await;
            let unasked = leased(world, &earlier, 1).await;
            drop(earlier);
            let cluster = world.connect().await;
            let (control, half) = (leased(world, &cluster, 2).await, leased(world, &cluster, 3).await);
            let all = cluster.deployments().await.unwrap().deployments;
            let theirs = all.into_iter().find(|d| d.lease == adopted.lease).unwrap();
            cluster.deploy(&theirs).await.unwrap();
            let leading = LeadershipGate::new(true);
            let _following = follow(&cluster, &leading);
            // A deploy that was interrupted.
            let unmarked = json!({"metadata": {"annotations": {labels::APPLIED: null}}});
            world.edit("Namespace", "", &half.namespace(), unmarked).await;
            for lease in [&unasked, &half] {
                scale_to_zero(world, lease).await;
                world.delete("NetworkPolicy", &lease.namespace(), POLICY).await;
            }
            let ns = adopted.lease.namespace();
            let policies = world.names("NetworkPolicy", &ns).await;
            let services = world.names("Service", &ns).await;
            world.delete("NetworkPolicy", &ns, &policies[0]).await;
            world.delete("Service", &ns, &services[0]).await;
            let none = json!({"spec": {"replicas": 0}});
            let workload = world.names("Deployment", &ns).await.remove(0);
            world.edit("Deployment", &ns, &workload, none).await;
            world.take_calls();
            assert_eq!(
                until_processed(world, &control).await,
                2,
                "only the policy of the control lease"
            );
            for lease in [&unasked, &half] {
                assert_eq!(replicas(world, lease).await, json!(0));
                cluster
                    .deploy(&deployment(lease, vec![service("web")]))
                    .await
                    .unwrap();
                assert_eq!(
                    replicas(world, lease).await,
                    json!(1),
                    "the deploy repairs the replicas"
                );
                scale_to_zero(world, lease).await;
                let is_right = || async { replicas(world, lease).await == json!(1) };
                world
                    .until("the object is repaired after a deploy", is_right)
                    .await;
            }
        }
        .boxed()
    });
}

#[test]
fn ending_lease_and_lease_of_standby_are_not_repaired() {
    run("heal-gone", |world| {
        async move {
            let cluster = world.connect().await;
            let (lease, control) = (leased(world, &cluster, 1).await, leased(world, &cluster, 2).await);
            let standby = world.connect().await;
            leased(world, &standby, 3).await;
            let _following = follow(&cluster, &LeadershipGate::new(true));
            let _waiting = follow(&standby, &LeadershipGate::new(false));
            let of_standby = world.lease(1, 3);
            scale_to_zero(world, &of_standby).await;
            let first = cluster.teardown_lease(&lease).await.unwrap();
            assert_eq!(first, Teardown::InProgress);
            world.take_calls();
            assert_eq!(
                until_processed(world, &control).await,
                2,
                "only the policy of the control lease"
            );
            assert_eq!(replicas(world, &of_standby).await, json!(0));
            world.remove(&cluster, &lease).await;
        }
        .boxed()
    });
}
