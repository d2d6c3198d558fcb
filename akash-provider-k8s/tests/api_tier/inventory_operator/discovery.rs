//! Hardware discovery with the rights of `deploy/operators/discovery.yaml`, in its namespace with the Pod
//! Security Standard `restricted`. No kubelet runs, so the test marks the pods as running and serves the HTTP
//! responses of the pods.

use super::*;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::inventory::discovery::{self, ACCOUNT, PORT};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::Role;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const SPACE: &str = "op-inv-look";
const NODE: &str = "op-inv-unsaid";

/// Current response of the discovery pods.
type SharedBody = Arc<Mutex<String>>;

async fn rights(world: &World) {
    let own = &world.settings.manifest_namespace;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/operators/discovery.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("namespace: akash-services", &format!("namespace: {own}"));
    let text = text.replace("akash-discovery", SPACE);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for document in documents {
        put(&world.admin, &document, "api-tier").await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(world.admin.clone(), SPACE);
    let there = || async { accounts.get_opt(ACCOUNT).await.unwrap().is_some() };
    world.until("the service account of the pods exists", there).await;
}

/// Serves the current response for all discovery pods.
async fn answering(address: IpAddr, body_text: &SharedBody) -> AbortOnDropHandle<()> {
    let listener = TcpListener::bind((address, PORT)).await.unwrap();
    let body_text = Arc::clone(body_text);
    AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or(0);
            let is_asked = String::from_utf8_lossy(&head[..read]).starts_with("GET /gpu ");
            let body = body_text.lock().unwrap().clone();
            let code = if is_asked { "200 OK" } else { "404 Not Found" };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {code}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }))
}

/// Marks discovery pods as running at this address, removes deleted pods, and stores created pods in `made`.
fn running(world: &World, address: IpAddr, made: &Arc<Mutex<Vec<Pod>>>) -> AbortOnDropHandle<()> {
    let pods: Api<Pod> = Api::namespaced(world.admin.clone(), SPACE);
    let made = Arc::clone(made);
    AbortOnDropHandle::new(tokio::spawn(async move {
        let params = PatchParams::default();
        loop {
            for pod in pods.list(&ListParams::default()).await.unwrap() {
                let name = pod.metadata.name.clone().unwrap();
                if pod.metadata.deletion_timestamp.is_some() {
                    let now = DeleteParams::default().grace_period(0);
                    let _ = pods.delete(&name, &now).await;
                } else if pod
                    .status
                    .as_ref()
                    .and_then(|status| status.pod_ip.as_ref())
                    .is_none()
                {
                    let at = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
                    let _ = pods
                        .patch_status(&name, &params, &Patch::Merge(json!({ "status": at })))
                        .await;
                    made.lock().unwrap().push(pod);
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }))
}

async fn unlook(world: &World) {
    let spaces: Api<Namespace> = Api::all(world.admin.clone());
    let roles: Api<Role> = Api::namespaced(world.admin.clone(), SPACE);
    let _ = roles
        .delete("akash-operator-inventory", &DeleteParams::default())
        .await;
    let pods: Api<Pod> = Api::namespaced(world.admin.clone(), SPACE);
    let now = DeleteParams::default().grace_period(0);
    let _ = pods.delete_collection(&now, &ListParams::default()).await;
    let _ = spaces.delete(SPACE, &DeleteParams::default()).await;
}

/// Asserts that the ServiceAccount has only the documented rights.
async fn has_no_more_rights(world: &World, client: &Client, seen: &Pod) {
    let own = &world.settings.manifest_namespace;
    let body = |space: &str| {
        let mut pod = seen.clone();
        pod.metadata = kube::core::ObjectMeta {
            name: Some("another".to_owned()),
            namespace: Some(space.to_owned()),
            ..Default::default()
        };
        pod.status = None;
        pod
    };
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let make = async |space: &str, pod: &Pod| {
        let pods: Api<Pod> = Api::namespaced(client.clone(), space);
        pods.create(&params, pod).await.map_err(|error| error.to_string())
    };
    assert!(make(SPACE, &body(SPACE)).await.is_ok());
    let refused = make(own, &body(own)).await.unwrap_err();
    assert!(refused.contains("cannot create resource \"pods\""), "{refused}");
    // The namespace refuses a pod that violates the standard.
    let mut greedy = body(SPACE);
    greedy.spec.as_mut().unwrap().host_network = Some(true);
    let refused = make(SPACE, &greedy).await.unwrap_err();
    assert!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client.clone(), SPACE);
    assert!(secrets.list(&ListParams::default()).await.is_err());
    let elsewhere: Api<Pod> = Api::namespaced(client.clone(), own);
    assert!(
        elsewhere
            .get_subresource("proxy", "any:8081")
            .await
            .unwrap_err()
            .to_string()
            .contains("pods/proxy")
    );
}

#[test]
fn unlabelled_machine_is_discovered_with_documented_rights() {
    run_alone("op-inv-look", |world, testbed| {
        async move {
            clear(world).await;
            unlook(world).await;
            let spaces: Api<Namespace> = Api::all(world.admin.clone());
            let is_gone = || async { spaces.get_opt(SPACE).await.unwrap().is_none() };
            world.until("the namespace of the previous test is deleted", is_gone).await;
            rights(world).await;
            let capacity = json!({"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "2"});
            node(world, NODE, json!({}), capacity).await;
            let _kubelets = kubelets(world);
            let address = IpAddr::from(testbed.addresses().host);
            let (body_text, made) = (SharedBody::default(), Arc::default());
            let _answering = answering(address, &body_text).await;
            let _running = running(world, address, &made);
            let client = account(world, &testbed).await;
            let mut discovery = discovery::DiscoveryOptions::new("localhost/none:1");
            discovery.namespace = SPACE.to_owned();
            let mut options = options();
            options.discovery = Some(discovery);
            let operator = InventoryOperator::start(&WriteClient::without_election(client.clone()), options);
            operator.set_list(Database::read(LIST.as_bytes()).unwrap());
            let error = || {
                let now = operator.status();
                now.nodes.get(NODE).and_then(|node| node.discovery.clone()?.error).unwrap_or_default()
            };
            // An invalid response is reported, and every node keeps the labels known without it.
            let is_reported = || async { error().contains("invalid response") };
            world.until("the invalid response is reported", is_reported).await;
            assert_eq!(labels(world, NODE).await["akash.network"], "true");
            let card = |address: &str| {
                json!({"address": address, "index": 0, "pci": {"vendor": {"id": "10de"}, "product": {"id": "20b5"}}})
            };
            *body_text.lock().unwrap() = json!({"cards": [card("0000:3b:00.0"), card("0000:5e:00.0")]}).to_string();
            let model = format!("{GPU}nvidia.model.a100");
            let is_known = || async { labels(world, NODE).await.get(&model).is_some_and(|count| count == "2") };
            world.until("the node has the label of its model", is_known).await;
            let pods: Api<Pod> = Api::namespaced(world.admin.clone(), SPACE);
            let are_gone = || async { pods.list(&ListParams::default()).await.unwrap().items.is_empty() };
            world.until("the pod is deleted", are_gone).await;
            let seen = made.lock().unwrap().last().cloned().unwrap();
            has_no_more_rights(world, &client, &seen).await;
            // Without its rights, discovery after another boot of the machine reports an error, and the
            // labels stay.
            let roles: Api<Role> = Api::namespaced(world.admin.clone(), SPACE);
            roles.delete("akash-operator-inventory", &DeleteParams::default()).await.unwrap();
            let status = json!({"status": {"nodeInfo": {
                "bootID": "another", "machineID": "", "systemUUID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": "amd64",
            }}});
            patch(world, NODE, true, status).await;
            let is_reported = || async { error().contains("deploy/operators") };
            world.until("the missing right is reported", is_reported).await;
            assert_eq!(labels(world, NODE).await[&model], "2");
            operator.stop().await;
            unlook(world).await;
            clear(world).await;
        }
        .boxed()
    });
}
