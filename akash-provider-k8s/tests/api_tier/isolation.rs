//! Edits that switch the isolation of a lease off, each beside a second lease that must not move.

use crate::heal::{follow, written};
use crate::world::{World, deployment, put, run, service};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::manifest::{Permissions, ServiceParams};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::adopt::Finding;
use akash_provider_k8s::cluster::{KubeCluster, LeadershipGate};
use akash_provider_k8s::labels;
use akash_provider_k8s::settings::{Drift, Settings};
use futures::FutureExt;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const POLICY: &str = "akash-deployment-restrictions";
/// An edit is repaired by then, on any machine.
const BOUND: Duration = Duration::from_secs(10);

/// A service with an account that may read, so that the lease has all kinds of objects.
fn reading(lease: &LeaseId) -> WorkloadSpec {
    let mut web = service("web");
    web.params = Some(ServiceParams {
        permissions: Some(Permissions {
            read: Some(vec!["logs".to_owned()]),
        }),
        ..ServiceParams::default()
    });
    deployment(lease, vec![web, service("db")])
}

/// What decides isolation of an object: no metadata of others and no status.
async fn content(world: &World, lease: &LeaseId, kind: &str, name: &str) -> Option<Value> {
    let mut object = world.get(kind, &lease.namespace(), name).await?;
    let fields = object.as_object_mut()?;
    fields.retain(|field, _| !matches!(field.as_str(), "metadata" | "status" | "secrets"));
    Some(object)
}

/// Kind, name, and the merge patch of the edit, made from the object.
type Edit = (&'static str, &'static str, fn(Value) -> Value);

fn edits() -> Vec<Edit> {
    fn container(mut live: Value, field: &str, value: Value) -> Value {
        let mut container = live["spec"]["template"]["spec"]["containers"][0].take();
        container["securityContext"][field] = value;
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    }
    vec![
        (
            "NetworkPolicy",
            POLICY,
            |_| json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}}}),
        ),
        ("NetworkPolicy", POLICY, |mut live| {
            let mut egress = live["spec"]["egress"].take();
            egress[1]["ports"][0]["endPort"] = json!(65535);
            json!({"spec": {"egress": egress}})
        }),
        ("Role", "web", |mut live| {
            let mut rules = live["rules"].take();
            let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]});
            rules.as_array_mut().unwrap().push(secrets);
            json!({"rules": rules})
        }),
        (
            "RoleBinding",
            "web",
            |_| json!({"subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]}),
        ),
        (
            "ResourceQuota",
            "akash-lease",
            |_| json!({"spec": {"hard": {"requests.cpu": "900"}}}),
        ),
        (
            "ResourceQuota",
            "akash-lease",
            |_| json!({"spec": {"hard": {"pods": "0"}}}),
        ),
        (
            "ServiceAccount",
            "web",
            |_| json!({"automountServiceAccountToken": false}),
        ),
        ("Service", "web", |_| json!({"spec": {"selector": {"x": "y"}}})),
        ("Service", "web", |mut live| {
            let mut ports = live["spec"]["ports"].take();
            ports[0]["port"] = json!(81);
            json!({"spec": {"ports": ports}})
        }),
        (
            "Deployment",
            "db",
            |_| json!({"spec": {"template": {"spec": {"automountServiceAccountToken": null}}}}),
        ),
        ("Deployment", "web", |live| {
            container(live, "allowPrivilegeEscalation", Value::Null)
        }),
        ("Deployment", "web", |_| json!({"spec": {"paused": true}})),
        (
            "Deployment",
            "web",
            |_| json!({"spec": {"template": {"spec": {"hostNetwork": true}}}}),
        ),
    ]
}

/// An object that opens a lease.
fn opening(kind: &str, lease: &LeaseId, label: Option<&str>) -> Value {
    let labels = label.map(|label| json!({label: "true"}));
    let mut object = match kind {
        "NetworkPolicy" => json!({
            "apiVersion": "networking.k8s.io/v1",
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]},
        }),
        "Role" => json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}],
        }),
        _ => json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": lease.namespace()}],
        }),
    };
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "opening", "namespace": lease.namespace(), "labels": labels});
    object
}

async fn leased(world: &World, cluster: &KubeCluster, number: u64) -> LeaseId {
    let lease = world.lease(1, number);
    cluster.deploy(&reading(&lease)).await.unwrap();
    lease
}

async fn until_gone(world: &World, lease: &LeaseId, kind: &str) {
    let is_gone = || async { world.get(kind, &lease.namespace(), "opening").await.is_none() };
    world.until("the object is deleted", is_gone).await;
}

#[test]
fn every_edit_of_isolation_is_repaired_and_no_other_lease_moves() {
    run("isolation", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = leased(world, &cluster, 1).await;
            let other = leased(world, &cluster, 2).await;
            let ns = lease.namespace();
            let beside = written(world, &other).await;
            let _following = follow(&cluster, &LeadershipGate::new(true));
            let calm = || async { cluster.state().lease(&lease).roles.contains_key("web") };
            world.until("the roles are watched", calm).await;
            for (kind, name, edit) in edits() {
                let before = content(world, &lease, kind, name).await.unwrap();
                let patch = edit(before.clone());
                world.take_calls();
                world.edit(kind, &ns, name, patch.clone()).await;
                let begin = Instant::now();
                let is_right =
                    || async { content(world, &lease, kind, name).await.as_ref() == Some(&before) };
                world.until(&format!("{kind} {patch}"), is_right).await;
                let (took, calls) = (begin.elapsed(), world.take_calls());
                println!("{kind} {name} {patch}: {} ms, {calls:?}", took.as_millis());
                // The read included, whatever the controllers write of the status meanwhile.
                assert!(
                    took < BOUND && calls.len() <= 2,
                    "{kind} {patch}: {took:?} {calls:?}"
                );
            }
            for kind in ["NetworkPolicy", "Role", "RoleBinding"] {
                world.take_calls();
                put(&world.admin, &opening(kind, &lease, None), "somebody").await;
                until_gone(world, &lease, kind).await;
                assert_eq!(world.take_writes().len(), 1, "{kind}");
            }
            let security =
                json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
            world.edit("Namespace", "", &ns, security).await;
            let is_right = || async {
                let namespace = world.get("Namespace", "", &ns).await.unwrap_or_default();
                namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == json!("baseline")
            };
            world.until("the label is restored", is_right).await;
            world.take_calls();
            world
                .edit(
                    "Namespace",
                    "",
                    &ns,
                    json!({"metadata": {"labels": {labels::MANAGED: null}}}),
                )
                .await;
            let is_labelled = || async {
                let namespace = world.get("Namespace", "", &ns).await.unwrap_or_default();
                namespace["metadata"]["labels"][labels::MANAGED] == json!("true")
            };
            world
                .until("the label of the network is restored", is_labelled)
                .await;
            let calls = world.take_calls();
            assert!(calls.len() <= 2, "{calls:?}");
            assert_eq!(written(world, &other).await, beside);
            world.take_calls();
            cluster.deploy(&reading(&lease)).await.unwrap();
            assert_eq!(world.take_writes(), [], "nothing is left for a deploy");
        }
        .boxed()
    });
}

#[test]
fn isolation_is_restored_without_a_record_and_what_an_operator_keeps_stays() {
    run("unrecorded", |world| {
        async move {
            let settings = Settings {
                drift: Drift::Report,
                ..world.settings.clone()
            };
            let cluster = world.connect_with(settings).await;
            let (lease, control) = (leased(world, &cluster, 1).await, leased(world, &cluster, 2).await);
            let ns = lease.namespace();
            let own = &world.settings.manifest_namespace;
            let following = follow(&cluster, &LeadershipGate::new(true));
            let kept = opening("NetworkPolicy", &control, Some(labels::KEEP));
            put(&world.admin, &kept, "operator").await;
            let open = || async {
                let selector = json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}}});
                world.edit("NetworkPolicy", &ns, POLICY, selector).await;
                put(&world.admin, &opening("Role", &lease, None), "somebody").await;
                until_gone(world, &lease, "Role").await;
                let is_closed = || async {
                    let policy = content(world, &lease, "NetworkPolicy", POLICY)
                        .await
                        .unwrap_or_default();
                    policy["spec"]["podSelector"] == json!({})
                };
                world.until("the policy is restored", is_closed).await;
            };
            let secrets = |live: &Value| live["rules"].to_string().contains("secrets");
            open().await;
            world.delete("Manifest", own, &ns).await;
            open().await;
            // The rights of the account are known from the last record.
            let rules = json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]});
            world.edit("Role", &ns, "web", rules).await;
            let is_narrow =
                || async { !secrets(&content(world, &lease, "Role", "web").await.unwrap_or_default()) };
            world.until("the role is restored", is_narrow).await;
            // A process that has never read the record.
            drop((following, cluster));
            let restarted = world.connect().await;
            let _following = follow(&restarted, &LeadershipGate::new(true));
            open().await;
            assert!(
                content(world, &lease, "Role", "web").await.is_some(),
                "it may be part of the lease"
            );
            assert!(
                world
                    .get("NetworkPolicy", &control.namespace(), "opening")
                    .await
                    .is_some(),
                "an operator's"
            );
        }
        .boxed()
    });
}

#[test]
fn findings_name_what_opens_a_lease_and_harden_restores_it_or_fails() {
    run("hardened", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = leased(world, &cluster, 1).await;
            let ns = lease.namespace();
            let role = content(world, &lease, "Role", "web").await;
            let open = || async {
                world.edit("Role", &ns, "web", json!({"rules": []})).await;
                put(&world.admin, &opening("RoleBinding", &lease, None), "somebody").await;
            };
            open().await;
            let named = || async {
                let findings = cluster.findings().await.unwrap();
                let edited = findings
                    .iter()
                    .filter(|f| matches!(f, Finding::Edited { lease: of, .. } if *of == lease));
                edited.count() == 2
            };
            world.until("both are named", named).await;
            cluster.harden(&lease).await.unwrap();
            assert_eq!(content(world, &lease, "Role", "web").await, role);
            until_gone(world, &lease, "RoleBinding").await;
            let of_lease = json!({"matchLabels": {"kubernetes.io/metadata.name": ns}});
            let policies = ("networking.k8s.io", "v1", "networkpolicies");
            crate::admission::refuse(world, policies, "DELETE", &of_lease).await;
            let is_refused = || async {
                put(&world.admin, &opening("NetworkPolicy", &lease, None), "somebody").await;
                cluster.harden(&lease).await.is_err()
            };
            world
                .until("an open lease is not called hardened", is_refused)
                .await;
            crate::admission::admit(world).await;
            let is_hardened = || async { cluster.harden(&lease).await.is_ok() };
            world.until("the lease is hardened", is_hardened).await;
            until_gone(world, &lease, "NetworkPolicy").await;
        }
        .boxed()
    });
}
