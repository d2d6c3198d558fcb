//! Edits that disable the isolation of a lease: the provider repairs them and does not change a second lease.

use crate::heal::{follow, written};
use crate::world::{Call, World, deployment, put, run, service, with_logs};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::types::{Attribute, LeaseId};
use akash_provider_k8s::adopt::Finding;
use akash_provider_k8s::cluster::{KubeCluster, LeadershipGate};
use akash_provider_k8s::labels;
use akash_provider_k8s::settings::Drift;
use akash_provider_k8s::statistics::DriftOutcome;
use futures::FutureExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const POLICY: &str = "akash-deployment-restrictions";
/// Number of successive edits of one object, after which the provider pauses repairs.
const REPEATED: usize = 6;
/// Maximum time until an edit is repaired, generous for slow machines.
const BOUND: Duration = Duration::from_secs(10);

/// Returns a deployment with objects of all kinds. Its service `web` may read logs.
fn reading(lease: &LeaseId) -> WorkloadSpec {
    let mut disk = service("disk");
    disk.resources.storage[0].attributes = vec![
        Attribute::new("class", "beta2"),
        Attribute::new("persistent", "true"),
    ];
    deployment(lease, vec![with_logs(service("web")), service("db"), disk])
}

/// Returns the fields of an object that affect isolation.
async fn content(world: &World, lease: &LeaseId, kind: &str, name: &str) -> Option<Value> {
    let mut object = world.get(kind, &lease.namespace(), name).await?;
    let fields = object.as_object_mut()?;
    fields.retain(|field, _| !matches!(field.as_str(), "metadata" | "status" | "secrets"));
    Some(object)
}

/// Kind and name of an object, and a function that returns a merge patch for the object.
type Edit = (&'static str, &'static str, fn(Value) -> Value);

/// Edits that the provider repairs even without the Manifest record.
fn edits() -> Vec<Edit> {
    [edits_of_rules(), edits_of_workloads()].concat()
}

fn edits_of_rules() -> Vec<Edit> {
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
        // With the hash annotation of another rendering.
        (
            "Role",
            "web",
            |_| json!({"metadata": {"annotations": {labels::APPLIED_HASH: "x"}}, "rules": []}),
        ),
        ("NetworkPolicy", POLICY, |_| {
            json!({
                "metadata": {"annotations": {labels::APPLIED_HASH: "x"}},
                "spec": {"podSelector": {"matchLabels": {"x": "y"}}},
            })
        }),
    ]
}

fn edits_of_workloads() -> Vec<Edit> {
    fn container(mut live: Value, field: &str, value: Value) -> Value {
        let mut container = live["spec"]["template"]["spec"]["containers"][0].take();
        container["securityContext"][field] = value;
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    }
    vec![
        ("Service", "web", |_| json!({"spec": {"selector": {"x": "y"}}})),
        (
            "StatefulSet",
            "disk",
            |_| json!({"spec": {"template": {"spec": {"automountServiceAccountToken": true}}}}),
        ),
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

/// Returns the edits of [`edits`], and an edit that the provider repairs only with the Manifest record.
fn all_edits() -> Vec<Edit> {
    let mut edits = edits();
    edits.push(("Service", "web", |mut live| {
        let mut ports = live["spec"]["ports"].take();
        ports[0]["port"] = json!(81);
        json!({"spec": {"ports": ports}})
    }));
    edits
}

/// Returns an additional object that weakens the isolation of a lease.
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

const SECURITY: &str = "pod-security.kubernetes.io/enforce";

async fn lower_security(world: &World, lease: &LeaseId) {
    let labels = json!({"metadata": {"labels": {SECURITY: "privileged"}}});
    world.edit("Namespace", "", &lease.namespace(), labels).await;
}

async fn until_secure(world: &World, lease: &LeaseId) {
    let is_secure = || async {
        let namespace = world
            .get("Namespace", "", &lease.namespace())
            .await
            .unwrap_or_default();
        namespace["metadata"]["labels"][SECURITY] == json!("baseline")
    };
    world.until("the label is restored", is_secure).await;
}

async fn set_isolation(world: &World, lease: &LeaseId, level: &str) {
    let annotations = json!({"metadata": {"annotations": {labels::ISOLATION: level}}});
    world.edit("Namespace", "", &lease.namespace(), annotations).await;
}

async fn isolation(world: &World, lease: &LeaseId) -> Value {
    let namespace = world
        .get("Namespace", "", &lease.namespace())
        .await
        .unwrap_or_default();
    namespace["metadata"]["annotations"][labels::ISOLATION].clone()
}

async fn until_gone(world: &World, lease: &LeaseId, kind: &str) {
    let is_gone = || async { world.get(kind, &lease.namespace(), "opening").await.is_none() };
    world.until("the object is deleted", is_gone).await;
}

/// Applies each edit and waits until the object is restored.
async fn edits_are_repaired_one_by_one(world: &World, lease: &LeaseId) {
    let ns = lease.namespace();
    for (kind, name, edit) in all_edits() {
        let before = content(world, lease, kind, name).await.unwrap();
        let patch = edit(before.clone());
        world.take_calls();
        world.edit(kind, &ns, name, patch.clone()).await;
        let begin = Instant::now();
        let is_right = || async { content(world, lease, kind, name).await.as_ref() == Some(&before) };
        world.until(&format!("{kind} {patch}"), is_right).await;
        let (took, calls) = (begin.elapsed(), world.take_calls());
        println!("{kind} {name} {patch}: {} ms, {calls:?}", took.as_millis());
        // The count includes the read. Status updates of the controllers are not counted.
        assert!(
            took < BOUND && calls.len() <= 2,
            "{kind} {patch}: {took:?} {calls:?}"
        );
    }
}

fn assert_each_deletion_is_counted(cluster: &KubeCluster) {
    let drift = cluster.statistics().drift;
    for kind in ["NetworkPolicy", "Role", "RoleBinding"] {
        assert_eq!(drift.get(&(kind, DriftOutcome::Deleted)), Some(&1), "{drift:?}");
    }
}

#[test]
fn every_edit_of_isolation_is_repaired_without_changes_to_other_leases() {
    run("isolation", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = leased(world, &cluster, 1).await;
            let other = leased(world, &cluster, 2).await;
            let ns = lease.namespace();
            let beside = written(world, &other).await;
            let following = follow(&cluster, &LeadershipGate::new(true));
            let calm = || async { cluster.state().lease(&lease).roles.contains_key("web") };
            world.until("the roles are watched", calm).await;
            edits_are_repaired_one_by_one(world, &lease).await;
            let role: Edit = ("Role", "web", |_| json!({"rules": []}));
            let mut took = Duration::ZERO;
            for _ in 0..REPEATED {
                took += repair_time(world, &lease, &[role]).await;
            }
            println!("{REPEATED} edits of one object: {} ms", took.as_millis());
            // A back-off that doubles from one second would add half a minute.
            assert!(took < Duration::from_secs(20), "{took:?}");
            for kind in ["NetworkPolicy", "Role", "RoleBinding"] {
                world.take_calls();
                put(&world.admin, &opening(kind, &lease, None), "somebody").await;
                until_gone(world, &lease, kind).await;
                assert_eq!(world.take_writes().len(), 1, "{kind}");
            }
            let begin = Instant::now();
            for _ in 0..2 {
                lower_security(world, &lease).await;
                until_secure(world, &lease).await;
            }
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
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
            set_isolation(world, &lease, "legacy").await;
            let is_right = || async { isolation(world, &lease).await == "baseline" };
            world.until("the level of isolation is restored", is_right).await;
            assert_eq!(written(world, &other).await, beside);
            world.take_calls();
            cluster.deploy(&reading(&lease)).await.unwrap();
            assert_eq!(world.take_writes(), [], "no write is left for a deploy");
            assert_each_deletion_is_counted(&cluster);
            drop((following, cluster));

            set_isolation(world, &lease, "legacy").await;
            let restarted = world.connect().await;
            restarted.deploy(&reading(&lease)).await.unwrap();
            assert_eq!(
                isolation(world, &lease).await,
                "baseline",
                "an edit does not lower the isolation level"
            );
            assert!(world.get("ResourceQuota", &ns, "akash-lease").await.is_some());
        }
        .boxed()
    });
}

/// Objects by kind and name, with their content.
type Contents = BTreeMap<(&'static str, &'static str), Value>;

/// Applies several edits at once. Returns the time until the objects are restored.
async fn repair_time(world: &World, lease: &LeaseId, edits: &[Edit]) -> Duration {
    let before = apply_edits(world, lease, edits).await;
    time_until_restored(world, lease, &before).await
}

/// Applies several edits at once. Returns the previous content of the objects.
async fn apply_edits(world: &World, lease: &LeaseId, edits: &[Edit]) -> Contents {
    let mut before = BTreeMap::new();
    for (kind, name, _) in edits {
        let object = content(world, lease, kind, name).await.unwrap();
        before.insert((*kind, *name), object);
    }
    world.take_calls();
    for (kind, name, edit) in edits {
        let patch = edit(world.get(kind, &lease.namespace(), name).await.unwrap());
        world.edit(kind, &lease.namespace(), name, patch).await;
    }
    before
}

async fn time_until_restored(world: &World, lease: &LeaseId, before: &Contents) -> Duration {
    let begin = Instant::now();
    for ((kind, name), before) in before {
        let is_right = || async { content(world, lease, kind, name).await.as_ref() == Some(before) };
        world.until(&format!("{kind} {name} is restored"), is_right).await;
    }
    begin.elapsed()
}

/// Asserts at most two calls for each object of `lease`, and none for the lease `other`.
fn assert_few_calls(calls: &[Call], lease: &LeaseId, other: &LeaseId) {
    let (ns, others) = (lease.namespace(), other.namespace());
    let namespace = format!("/api/v1/namespaces/{ns}");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.path.contains(&ns)) {
        let path = call.path.split('?').next().unwrap_or_default();
        *counts.entry(path).or_default() += 1;
    }
    // The hash annotation of the namespace is read once per object with another hash.
    counts.retain(|path, count| *count > 2 && *path != namespace);
    assert!(counts.is_empty(), "{counts:?}");
    assert!(!calls.iter().any(|call| call.path.contains(&others)), "{calls:?}");
}

#[test]
fn edits_during_downtime_are_repaired_without_a_record() {
    run("down", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = leased(world, &cluster, 1).await;
            let other = leased(world, &cluster, 2).await;
            let own = &world.settings.manifest_namespace;
            drop(cluster);
            for lease in [&lease, &other] {
                world.delete("Manifest", own, &lease.namespace()).await;
            }
            let beside = written(world, &other).await;

            let edits = edits();
            lower_security(world, &lease).await;
            put(
                &world.admin,
                &opening("Role", &lease, Some(labels::MANAGED)),
                "somebody",
            )
            .await;
            let before = apply_edits(world, &lease, &edits).await;
            let started = async {
                let restarted = world.connect().await;
                let following = follow(&restarted, &LeadershipGate::new(true));
                (restarted, following)
            };
            let restored = time_until_restored(world, &lease, &before);
            let ((restarted, following), took) = tokio::join!(started, restored);
            println!(
                "{} edits undone after a start: {} ms",
                edits.len(),
                took.as_millis()
            );
            assert!(took < BOUND, "{took:?}");
            until_gone(world, &lease, "Role").await;
            until_secure(world, &lease).await;
            assert_few_calls(&world.take_calls(), &lease, &other);

            for edit in &edits {
                let took = repair_time(world, &lease, std::slice::from_ref(edit)).await;
                let calls = world.take_calls();
                println!("{} {}: {} ms", edit.0, edit.1, took.as_millis());
                assert!(
                    calls.len() <= 2 && took < BOUND,
                    "{} {}: {took:?} {calls:?}",
                    edit.0,
                    edit.1
                );
            }
            assert_eq!(written(world, &other).await, beside);
            drop((restarted, following));
        }
        .boxed()
    });
}

#[test]
fn isolation_is_restored_without_a_record_and_retained_objects_of_operators_stay() {
    run("unrecorded", |world| {
        async move {
            let mut settings = world.settings.clone();
            settings.drift = Drift::Report;
            let cluster = world.connect_with(settings).await;
            let (lease, control) = (leased(world, &cluster, 1).await, leased(world, &cluster, 2).await);
            let ns = lease.namespace();
            let own = &world.settings.manifest_namespace;
            let following = follow(&cluster, &LeadershipGate::new(true));
            let labelled = opening("NetworkPolicy", &control, Some(labels::KEEP));
            put(&world.admin, &labelled, "operator").await;
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
            // The rules of the service account are known from the last record.
            let rules = json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]});
            world.edit("Role", &ns, "web", rules).await;
            let is_narrow =
                || async { !secrets(&content(world, &lease, "Role", "web").await.unwrap_or_default()) };
            world.until("the role is restored", is_narrow).await;
            // A new process that has never read the record.
            drop((following, cluster));
            let restarted = world.connect().await;
            let _following = follow(&restarted, &LeadershipGate::new(true));
            open().await;
            assert!(
                content(world, &lease, "Role", "web").await.is_some(),
                "the object may be part of the lease"
            );
            assert!(
                world
                    .get("NetworkPolicy", &control.namespace(), "opening")
                    .await
                    .is_some(),
                "the object of an operator stays"
            );
        }
        .boxed()
    });
}

#[test]
fn isolation_is_restored_after_record_and_labels_are_edited_or_deleted() {
    run("disowned", |world| {
        async move {
            let cluster = world.connect().await;
            let (lease, other) = (leased(world, &cluster, 1).await, leased(world, &cluster, 2).await);
            let beside = written(world, &other).await;
            let (ns, own) = (lease.namespace(), &world.settings.manifest_namespace);
            let _following = follow(&cluster, &LeadershipGate::new(true));
            let policy = content(world, &lease, "NetworkPolicy", POLICY).await;
            let is_repaired = || async {
                let selector = json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}}});
                world.edit("NetworkPolicy", &ns, POLICY, selector).await;
                let is_right = || async { content(world, &lease, "NetworkPolicy", POLICY).await == policy };
                world.until("the policy is restored", is_right).await;
            };
            is_repaired().await;
            let stranger = lease.owner().to_string();
            let spec = json!({"spec": {"lease_id": {"provider": stranger}}});
            let label = json!({"metadata": {"labels": {labels::LEASE_PROVIDER: stranger}}});
            // The record of another lease of this provider.
            let lease_id = json!({"provider": lease.provider.to_string(), "dseq": "999"});
            let labels =
                json!({labels::LEASE_PROVIDER: lease.provider.to_string(), labels::LEASE_DSEQ: "999"});
            let other_lease = json!({"metadata": {"labels": labels}, "spec": {"lease_id": lease_id}});
            for edit in [spec, label, other_lease] {
                world.edit("Manifest", own, &ns, edit).await;
                is_repaired().await;
            }
            // The level of isolation too, which the record would verify.
            set_isolation(world, &lease, "legacy").await;
            let is_baseline = || async { isolation(world, &lease).await == json!("baseline") };
            world.until("the annotation is restored", is_baseline).await;
            world.delete("Manifest", own, &ns).await;
            let mut labels: BTreeMap<&str, Value> = labels::LEASE.map(|label| (label, Value::Null)).into();
            labels.insert(labels::MANAGED, Value::Null);
            let unlabelled = json!({"metadata": {"labels": labels}});
            world.edit("Namespace", "", &ns, unlabelled).await;
            let is_labelled = || async {
                let namespace = world.get("Namespace", "", &ns).await.unwrap_or_default();
                namespace["metadata"]["labels"][labels::MANAGED] == json!("true")
            };
            world.until("the labels are restored", is_labelled).await;
            is_repaired().await;
            assert_eq!(written(world, &other).await, beside);
        }
        .boxed()
    });
}

#[test]
fn findings_list_objects_that_open_a_lease_and_harden_restores_or_fails() {
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
            world.until("both additional objects are reported", named).await;
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
            world.until("`harden` fails for an open lease", is_refused).await;
            crate::admission::admit(world).await;
            // A finalizer keeps a deleted policy, which continues to open the lease.
            let finalizers_patch = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
            let hold = finalizers_patch(json!(["example.com/held"]));
            world.edit("NetworkPolicy", &ns, "opening", hold).await;
            let is_named = || async {
                let error = cluster.harden(&lease).await.unwrap_err().to_string();
                error.contains("NetworkPolicy/opening: not part of the lease")
            };
            world.until("the additional policy is reported", is_named).await;
            world
                .edit("NetworkPolicy", &ns, "opening", finalizers_patch(Value::Null))
                .await;
            let edit = json!({"metadata": {"annotations": {labels::APPLIED_HASH: "x"}}, "rules": []});
            world.edit("Role", &ns, "web", edit).await;
            let is_seen = || async {
                let view = cluster.state().lease(&lease);
                view.roles.get("web").is_some_and(|role| role.rules.is_none())
            };
            world.until("the edit is observed", is_seen).await;
            let is_hardened = || async { cluster.harden(&lease).await.is_ok() };
            world.until("the lease is hardened", is_hardened).await;
            assert_eq!(content(world, &lease, "Role", "web").await, role);
            until_gone(world, &lease, "NetworkPolicy").await;
        }
        .boxed()
    });
}
