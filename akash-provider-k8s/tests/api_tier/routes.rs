//! Routes of the Gateway API on an API server. The definition of the kind here accepts any content and does
//! not have the schema of the Gateway API. The tests check that the API server stores the routes, not that a
//! gateway would accept them.

use crate::world::{World, put, run};
use akash_provider_core::cluster::HostnameDeclaration;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_kube_model::objects::{HTTPRoute, ParentRef, http_route};
use futures::FutureExt;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

/// Defines the kind HTTPRoute.
pub(crate) async fn define(world: &World) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "httproutes.gateway.networking.k8s.io",
            // The group is protected, so a definition from another source needs this annotation.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "gateway.networking.k8s.io", "scope": "Namespaced",
            "names": {"kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open},
            }],
        },
    });
    put(&world.admin, &definition, "api-tier").await;
    let api: Api<HTTPRoute> = Api::namespaced(world.admin.clone(), &world.settings.manifest_namespace);
    let served = || async { api.list(&ListParams::default()).await.is_ok() };
    world.until("routes are served", served).await;
}

fn routes(world: &World, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<HTTPRoute>(&());
    Api::namespaced_with(world.admin.clone(), namespace, &resource)
}

pub(crate) async fn get(world: &World, namespace: &str, name: &str) -> Value {
    let route = routes(world, namespace).get(name).await.unwrap();
    serde_json::to_value(route).unwrap()
}

/// Changes a route, as a gateway does.
pub(crate) async fn edit(world: &World, namespace: &str, name: &str, patch: &Value) {
    let patch = Patch::Merge(patch);
    let edited = routes(world, namespace)
        .patch(name, &PatchParams::default(), &patch)
        .await;
    edited.unwrap();
}

#[test]
fn gateway_route_is_stored_as_rendered() {
    run("routes", |world| {
        async move {
            define(world).await;
            let namespace = &world.settings.manifest_namespace;
            let api: Api<HTTPRoute> = Api::namespaced(world.admin.clone(), namespace);
            let host = HostnameDeclaration::new("shop.example.com", "web", 80);
            let gateway = ParentRef {
                name: "akash-gateway".to_owned(),
                namespace: Some("akash-gateway".to_owned()),
            };
            let lease = world.lease(1, 1);
            let mut route = http_route(&lease, &host, &HttpOptions::default(), &gateway, "16k");
            route.metadata.namespace = Some(namespace.clone());
            let made = api.create(&PostParams::default(), &route).await.unwrap();
            assert_eq!(made.spec, route.spec);
            let name = made.metadata.name.unwrap();
            let stored = api.get(&name).await.unwrap();
            assert_eq!(stored.spec, route.spec);
            assert_eq!(stored.metadata.labels, route.metadata.labels);
            assert_eq!(stored.metadata.annotations, route.metadata.annotations);
        }
        .boxed()
    });
}
