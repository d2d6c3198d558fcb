//! Rights on Secrets, logs and exec. The ServiceAccount has these rights only in the namespaces of leases.

use crate::heal::follow;
use crate::missing::rich;
use crate::world::{World, put, rights_of, run};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::cluster::LeadershipGate;
use akash_provider_k8s::labels;
use futures::FutureExt;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

pub(crate) const ACCESS: &str = "akash-provider:access";

/// Returns the status codes of three requests: for Secrets, for the log of a missing pod, and for exec in
/// this pod.
async fn status_codes(world: &World, namespace: &str) -> [u16; 3] {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), namespace);
    let code = |error: kube::Error| match error {
        kube::Error::Api(status) => status.code,
        error => panic!("{error}"),
    };
    let listed = secrets.list(&ListParams::default()).await;
    let pod = format!("/api/v1/namespaces/{namespace}/pods/none");
    let log = http::Request::get(format!("{pod}/log")).body(Vec::new()).unwrap();
    let exec = http::Request::post(format!("{pod}/exec?command=id&stdout=true"));
    let exec = exec.body(Vec::new()).unwrap();
    [
        listed.map_or_else(code, |_| 200),
        world.client.request_text(log).await.map_or_else(code, |_| 200),
        world.client.request_text(exec).await.map_or_else(code, |_| 200),
    ]
}

/// Removes the rule that lets the ServiceAccount bind roles to itself.
async fn forbid_binding(world: &World) {
    let name = format!("akash-provider-rs-bind-{}", world.settings.manifest_namespace);
    let mut role = world.get("ClusterRole", "", &name).await.unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["verbs"] != json!(["bind"]));
    let rules = role["rules"].take();
    world
        .edit("ClusterRole", "", &name, json!({ "rules": rules }))
        .await;
}

/// Simulates a lease of an older program version: deletes the role binding and its ledger entry.
async fn upgraded(world: &World, lease: &LeaseId) {
    let ns = lease.namespace();
    world.delete("RoleBinding", &ns, ACCESS).await;
    let namespace = world.get("Namespace", "", &ns).await.unwrap();
    let key = "provider.akash.network/ledger";
    let ledger = namespace["metadata"]["annotations"][key].as_str().unwrap();
    let mut ledger: Value = serde_json::from_str(ledger).unwrap();
    ledger
        .as_object_mut()
        .unwrap()
        .remove(&format!("RoleBinding/{ACCESS}"));
    let annotations = json!({key: ledger.to_string(), labels::APPLIED: "before"});
    world
        .edit(
            "Namespace",
            "",
            &ns,
            json!({"metadata": {"annotations": annotations}}),
        )
        .await;
}

#[test]
fn secrets_logs_and_exec_are_allowed_only_in_namespaces_of_leases() {
    run("grants", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            cluster.deploy(&rich(&lease, "hunter2", 1)).await.unwrap();
            assert!(world.get("Secret", &ns, "docker-creds-web").await.is_some());
            assert_eq!(status_codes(world, &ns).await, [200, 404, 404]);
            for theirs in ["kube-system", "default"] {
                assert_eq!(status_codes(world, theirs).await, [403; 3], "{theirs}");
            }
            let all = Api::<Secret>::all(world.client.clone());
            assert!(all.list(&ListParams::default()).await.is_err());

            let following = follow(&cluster, &LeadershipGate::new(true));
            world.delete("RoleBinding", &ns, ACCESS).await;
            let is_bound = || async { status_codes(world, &ns).await == [200, 404, 404] };
            world.until("the binding is restored", is_bound).await;
            drop(following);

            cluster.record(&rich(&lease, "hunter2", 2)).await.unwrap();
            cluster.deploy(&rich(&lease, "hunter2", 2)).await.unwrap();
            assert!(cluster.lease_status(&lease).await.is_ok());
            drop(cluster);
            let restarted = world.connect().await;
            let listing = restarted.deployments().await.unwrap();
            assert_eq!(listing.deployments, [rich(&lease, "hunter2", 2)]);
            let is_about_it =
                |remark: &String| remark.contains(&ns) || remark.contains("cannot search for problems");
            assert!(!listing.remarks.iter().any(is_about_it), "{:?}", listing.remarks);
            world.take_calls();
            restarted.deploy(&listing.deployments[0]).await.unwrap();
            let writes = world.take_writes();
            assert_eq!(writes, [], "nothing is left for a deploy");
            drop(restarted);

            upgraded(world, &lease).await;
            let after = world.connect().await;
            let recorded = after.deployments().await.unwrap().deployments;
            after.deploy(&recorded[0]).await.unwrap();
            assert_eq!(status_codes(world, &ns).await, [200, 404, 404]);
            let findings = after.findings().await.unwrap();
            assert!(
                !findings.iter().any(|finding| finding.to_string().contains(&ns)),
                "{findings:?}"
            );
            world.remove(&after, &lease).await;
        }
        .boxed()
    });
}

/// Grants the rights of earlier versions: one ClusterRole for the whole cluster.
async fn give_rights_everywhere(world: &World) {
    let own = &world.settings.manifest_namespace;
    let (role, bind) = (
        format!("akash-provider-{own}"),
        format!("akash-provider-rs-bind-{own}"),
    );
    for kind in ["ClusterRoleBinding", "ClusterRole"] {
        world.delete(kind, "", &bind).await;
    }
    let mut before = world.get("ClusterRole", "", &role).await.unwrap();
    let mut rules = before["rules"].take();
    rules.as_array_mut().unwrap().extend([
        json!({
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
            "verbs": ["list", "watch", "create", "patch", "delete"],
        }),
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "create", "patch", "delete"]}),
        json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}),
    ]);
    world
        .edit("ClusterRole", "", &role, json!({"rules": rules}))
        .await;
}

async fn give(world: &World, file: &str) {
    for document in rights_of(file, &world.settings.manifest_namespace) {
        put(&world.admin, &document, "api-tier").await;
    }
}

/// Follows the documented upgrade order: `lease.yaml`, restart, `provider.yaml`.
#[test]
fn upgrade_from_cluster_wide_rights_has_no_gap() {
    run("grants-upgrade", |world| {
        async move {
            give_rights_everywhere(world).await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            // Exec is left out, because the policy of confined.yaml refuses it as soon as it is in force.
            let everywhere = || async { status_codes(world, "kube-system").await[..2] == [200, 404] };
            world.until("the old rights are in force", everywhere).await;
            let old = world.connect().await;
            old.deploy(&rich(&lease, "hunter2", 1)).await.unwrap();
            assert!(
                world.get("RoleBinding", &ns, ACCESS).await.is_none(),
                "as the old version left it"
            );
            let has_all =
                async |when: &str| assert_eq!(status_codes(world, &ns).await, [200, 404, 404], "{when}");

            give(world, "lease.yaml").await;
            has_all("before the restart").await;
            assert!(everywhere().await, "the file takes no right away");
            drop(old);
            world
                .until("the account may bind the role", || may_bind(world))
                .await;

            let restarted = world.connect().await;
            let recorded = restarted.deployments().await.unwrap().deployments;
            restarted.deploy(&recorded[0]).await.unwrap();
            assert!(world.get("RoleBinding", &ns, ACCESS).await.is_some());
            give(world, "provider.yaml").await;
            let is_narrow = || async {
                has_all("the new rights must suffice while the old rights are removed").await;
                status_codes(world, "kube-system").await == [403; 3]
            };
            world.until("the old rights are removed", is_narrow).await;
            let update = rich(&lease, "hunter3", 2);
            restarted.record(&update).await.unwrap();
            restarted.deploy(&update).await.unwrap();
            let new = world.lease(1, 2);
            restarted.deploy(&rich(&new, "hunter2", 1)).await.unwrap();
            assert_eq!(status_codes(world, &new.namespace()).await, [200, 404, 404]);
            let following = follow(&restarted, &LeadershipGate::new(true));
            world.delete("RoleBinding", &ns, ACCESS).await;
            let is_bound = || async { status_codes(world, &ns).await == [200, 404, 404] };
            world.until("the binding is restored", is_bound).await;
            drop(following);
        }
        .boxed()
    });
}

async fn may_bind(world: &World) -> bool {
    let review = json!({"spec": {"resourceAttributes": {
        "verb": "bind", "group": "rbac.authorization.k8s.io", "resource": "clusterroles", "name": "akash-provider-rs-lease",
    }}});
    let review: SelfSubjectAccessReview = serde_json::from_value(review).unwrap();
    let api: Api<SelfSubjectAccessReview> = Api::all(world.client.clone());
    let answer = api.create(&PostParams::default(), &review).await.unwrap();
    answer.status.unwrap().allowed
}

#[test]
fn deploy_without_right_to_bind_suggests_remedy() {
    run("grants-missing", |world| {
        async move {
            forbid_binding(world).await;
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let refused = || async {
                match cluster.deploy(&rich(&lease, "hunter2", 1)).await {
                    Ok(()) => false,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
                        error
                            .to_string()
                            .contains("kubectl apply --filename deploy/rbac`")
                    }
                }
            };
            world.until("the deploy names the remedy", refused).await;
            let own = crate::world::rights(&world.settings.manifest_namespace);
            for document in &own {
                put(&world.admin, document, "api-tier").await;
            }
            let deployed = || async { cluster.deploy(&rich(&lease, "hunter2", 1)).await.is_ok() };
            world.until("the lease is deployed", deployed).await;
        }
        .boxed()
    });
}
