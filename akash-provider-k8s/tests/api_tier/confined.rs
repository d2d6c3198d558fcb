//! The admission policy for the ServiceAccount of the provider allows writes to leases and their records
//! only.

use crate::world::{World, deployment, put, run, service};
use akash_provider_core::cluster::Cluster;
use akash_provider_k8s::labels;
use futures::FutureExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Start of the message with which the policy refuses a write.
const REFUSAL: &str = "the provider's account may write only in namespaces of leases";

const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "RoleBinding");
/// Attempted writes that RBAC refuses. The admission policy does not receive these writes.
const BY_RIGHTS: [&str; 4] = [
    "a Secret",
    "a change of a Secret",
    "the end of a Secret",
    "a command in a pod",
];

fn api(client: &Client, kind: (&str, &str), namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, "v1", kind.1));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn apply(api: &Api<DynamicObject>, object: &Value) -> Result<(), String> {
    let params = PatchParams::apply("akash-provider").force();
    let name = object["metadata"]["name"].as_str().unwrap();
    let applied = api.patch(name, &params, &Patch::Apply(object)).await;
    applied.map(drop).map_err(|error| error.to_string())
}

fn binding(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC.0, "kind": "ClusterRole", "name": role},
    })
}

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "stolen"}})
}

fn namespace(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// Tries every write that the ServiceAccount's roles permit outside of lease namespaces.
async fn tries(world: &World, theirs: &str) -> Vec<(&'static str, Result<(), String>)> {
    let of = |kind: (&str, &str), namespace: Option<&str>| api(&world.client, kind, namespace);
    let delete = |api: Api<DynamicObject>, name: String| async move {
        let deleted = api.delete(&name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(|error| error.to_string())
    };
    let own = binding(
        "own",
        &format!("akash-provider-{}", world.settings.manifest_namespace),
    );
    let lease = binding("lease", "akash-provider-rs-lease");
    let exec = http::Request::post(format!(
        "/api/v1/namespaces/{theirs}/pods/theirs/exec?command=id&stdout=true"
    ));
    let exec = world.client.request_text(exec.body(Vec::new()).unwrap()).await;
    let labelled = namespace(theirs, json!({labels::MANAGED: "true"}));
    let fresh = namespace(&format!("{theirs}-fresh"), json!({}));
    vec![
        ("a Secret", apply(&of(("", "Secret"), Some(theirs)), &secret()).await),
        (
            "a change of a Secret",
            apply(
                &of(("", "Secret"), Some(theirs)),
                &json!({
                    "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}, "stringData": {"a": "b"},
                }),
            )
            .await,
        ),
        (
            "the end of a Secret",
            delete(of(("", "Secret"), Some(theirs)), "theirs".to_owned()).await,
        ),
        (
            "the end of a pod",
            delete(of(("", "Pod"), Some(theirs)), "theirs".to_owned()).await,
        ),
        ("a command in a pod", exec.map(drop).map_err(|error| error.to_string())),
        (
            "rights",
            apply(&of(RBAC, Some(theirs)), &own).await,
        ),
        ("the rights in a lease", apply(&of(RBAC, Some(theirs)), &lease).await),
        (
            "the label of leases on a namespace of others",
            apply(&of(("", "Namespace"), None), &labelled).await,
        ),
        (
            "a namespace without it",
            apply(&of(("", "Namespace"), None), &fresh).await,
        ),
        (
            "the end of a namespace",
            delete(of(("", "Namespace"), None), theirs.to_owned()).await,
        ),
    ]
}

#[test]
fn account_of_provider_writes_only_to_its_leases() {
    run("confined", |world| {
        async move {
            let theirs = format!("{}-theirs", world.settings.manifest_namespace);
            put(
                &world.admin,
                &namespace(&theirs, json!({"team": "a"})),
                "somebody",
            )
            .await;
            let mut objects = vec![json!({"apiVersion": "v1", "kind": "Secret"})];
            objects.push(json!({
                "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": "a"}]},
            }));
            for mut object in objects {
                object["metadata"] = json!({"name": "theirs", "namespace": theirs});
                put(&world.admin, &object, "somebody").await;
            }
            // A policy takes effect after a moment.
            let refused = || async {
                let more = binding("first", "akash-provider-rs-lease");
                let answer = apply(&api(&world.client, RBAC, Some(&theirs)), &more).await;
                answer.is_err_and(|error| error.contains(REFUSAL))
            };
            world.until("the policy is in force", refused).await;
            for (what, answer) in tries(world, &theirs).await {
                let error = answer.expect_err(what);
                let is_by_rights = BY_RIGHTS.contains(&what) && error.contains("is forbidden");
                assert!(is_by_rights || error.contains(REFUSAL), "{what}: {error}");
            }
            let untouched = world.get("Secret", &theirs, "theirs").await.unwrap();
            assert_eq!(untouched.get("data"), None);

            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let mut web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            std::sync::Arc::make_mut(&mut web.group).services[0].count = 2;
            cluster.record(&web).await.unwrap();
            cluster.deploy(&web).await.unwrap();
            let unlabelled = json!({"metadata": {"labels": {labels::MANAGED: null}}});
            let namespaces = api(&world.client, ("", "Namespace"), None);
            let removed = namespaces
                .patch(
                    &lease.namespace(),
                    &PatchParams::default(),
                    &Patch::Merge(&unlabelled),
                )
                .await;
            let error = removed.unwrap_err().to_string();
            assert!(error.contains("may not remove the label"), "{error}");
            assert!(cluster.is_confined().await.unwrap());
            let policy = format!("akash-provider-{}", world.settings.manifest_namespace);
            crate::world::remove(world, "ValidatingAdmissionPolicyBinding", &policy).await;
            let is_open = || async { !cluster.is_confined().await.unwrap() };
            world.until("the missing policy is reported", is_open).await;
            assert_eq!(
                world
                    .names("RoleBinding", "kube-system")
                    .await
                    .iter()
                    .filter(|name| name.contains("akash"))
                    .count(),
                0
            );
            // The teardown takes the controllers' time. Starting it is enough here.
            cluster.teardown_lease(&lease).await.unwrap();
            crate::world::remove(world, "Namespace", &theirs).await;
        }
        .boxed()
    });
}
