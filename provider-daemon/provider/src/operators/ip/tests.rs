//! Tests of the HTTP port, with a cluster that never responds and with one that returns fixed lists.

use super::*;
use crate::operators::process::{Process, router};
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::ip::IpOperatorOptions;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use serde_json::json;
use std::time::Duration;
use tower::ServiceExt;

const OWNER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";
const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";

fn process_of(client: &Client) -> Arc<Process<IpOperator>> {
    let options = IpOperatorOptions::new(PROVIDER.parse().unwrap());
    Arc::new(Process::new(
        IpOperator::start(&WriteClient::without_election(client.clone()), options),
        None,
    ))
}

fn silent() -> Client {
    let silent = tower::service_fn(|_: Request<kube::client::Body>| {
        std::future::pending::<Result<Response<kube::client::Body>, std::io::Error>>()
    });
    Client::new(silent, "default")
}

/// Returns a client for a cluster with these Services and pools.
fn fixed(services: Value, pools: Option<Value>) -> Client {
    let cluster = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (path, query) = (
            request.uri().path().to_owned(),
            request.uri().query().unwrap_or_default().to_owned(),
        );
        let items = if path.ends_with("/services") {
            Some(services.clone())
        } else if path.ends_with("/ipaddresspools") {
            pools.clone()
        } else if path.contains("akash.network") {
            Some(json!([]))
        } else {
            None
        };
        async move {
            if query.contains("watch=true") || request.method() != http::Method::GET {
                return std::future::pending().await;
            }
            let (code, body) = match items {
                Some(items) => (
                    200,
                    json!({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items}),
                ),
                None => (
                    404,
                    json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such kind"}),
                ),
            };
            let body = kube::client::Body::from(serde_json::to_vec(&body).unwrap());
            Ok::<_, std::io::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(cluster, "default")
}

fn lease_id() -> LeaseId {
    format!("{OWNER}/7/1/1/{PROVIDER}").parse().unwrap()
}

/// Returns a Service as the Go operator creates it, with the given addresses from MetalLB.
fn service(given: &[&str]) -> Value {
    let ingress: Vec<_> = given.iter().map(|ip| json!({"ip": ip})).collect();
    json!({
        "metadata": {
            "name": "web-ip-80-tcp", "namespace": lease_id().namespace(), "uid": "u", "resourceVersion": "3",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "annotations": {"metallb.universe.tf/allow-shared-ip": format!("{OWNER}-ip-front")},
            "labels": {
                "akash.network": "true", "akash.network/service-target": "metal-lb",
                "akash.network/lease.id.owner": OWNER, "akash.network/lease.id.dseq": "7",
                "akash.network/lease.id.gseq": "1", "akash.network/lease.id.oseq": "1",
                "akash.network/lease.id.provider": PROVIDER,
            },
        },
        "spec": {
            "type": "LoadBalancer", "selector": {"akash.network/manifest-service": "web"},
            "ports": [{"name": "web-ip-80-tcp", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {"ingress": ingress}},
    })
}

fn pools() -> Value {
    json!([{"metadata": {"name": "default", "resourceVersion": "1"}, "spec": {"addresses": ["203.0.113.0/28"]}}])
}

async fn ask(router: &Router, method: &str, path: &str, peer: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request.extension(Peer(peer.parse().unwrap())).body(Body::empty());
    let answer = router.clone().oneshot(request.unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

const NEAR: &str = "127.0.0.1:5";

async fn get_(router: &Router, path: &str) -> (u16, String) {
    ask(router, "GET", path, NEAR).await
}

#[tokio::test]
async fn ip_operator_serves_and_is_not_ready_without_its_cluster() {
    let process = process_of(&silent());
    let router = router(&process);
    assert_eq!(get_(&router, "/health").await, (200, "OK".to_owned()));
    let lease = format!("/ip-lease-status/{OWNER}/7/1/1");
    for path in ["/readyz", "/usage", "/state", "/ignored-leases", &lease] {
        let (code, response) = get_(&router, path).await;
        assert_eq!(code, 503, "{path}");
        for kind in ["providerleasedips", "manifests", "services"] {
            assert!(
                response.contains(&format!("initial list of {kind} pending")),
                "{path}: {response}"
            );
        }
        assert!(!response.contains("pools"), "optional kind: {response}");
    }
    let (_, status) = get_(&router, "/status").await;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["is_ready"], false);
    assert!(
        get_(&router, "/version")
            .await
            .1
            .contains(env!("CARGO_PKG_VERSION"))
    );
    process.operator.stop().await;
}

async fn settled(client: &Client, has_pools: bool) -> (Arc<Process<IpOperator>>, Router) {
    let process = process_of(client);
    process.operator.ready().await;
    while has_pools && process.operator.usage().total.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (Arc::clone(&process), router(&process))
}

#[tokio::test]
async fn responses_match_the_go_operator() {
    let (_process, router) = settled(&fixed(json!([service(&["203.0.113.7"])]), Some(pools())), true).await;
    assert_eq!(
        get_(&router, "/usage").await,
        (200, r#"{"Available":16,"InUse":1}"#.to_owned())
    );
    assert_eq!(get_(&router, "/ignored-leases").await.0, 200);
    let status = |path: String| {
        let router = router.clone();
        async move { get_(&router, &format!("/ip-lease-status/{path}")).await }
    };
    let wanted =
        r#"[{"Port":8080,"ExternalPort":80,"ServiceName":"web","IP":"203.0.113.7","Protocol":"TCP"}]"#;
    assert_eq!(
        status(format!("{OWNER}/7/1/1")).await,
        (200, format!("{wanted}\n"))
    );
    assert_eq!(status(format!("{OWNER}/8/1/1")).await, (204, String::new()));
    for garbage in ["nobody/7/1/1", "x/-7/1/1"] {
        assert_eq!(status(garbage.to_owned()).await.0, 404, "{garbage}");
    }
    for numbers in [
        "-7/1/1",
        "7/x/1",
        "7/1/99999999999",
        "99999999999999999999999/1/1",
    ] {
        assert_eq!(status(format!("{OWNER}/{numbers}")).await.0, 404, "{numbers}");
    }
}

#[tokio::test]
async fn service_without_an_address_is_the_error_of_the_go_operator() {
    let (_process, router) = settled(&fixed(json!([service(&[])]), Some(pools())), true).await;
    let (code, response) = get_(&router, &format!("/ip-lease-status/{OWNER}/7/1/1")).await;
    let response: Value = serde_json::from_str(&response).unwrap();
    let error =
        "metal lb error lease service error: service \"web-ip-80-tcp\" has 0 load balancers and is invalid";
    assert_eq!((code, response), (500, json!({"Error": error, "Code": -1})));
    // A Service without a record is not in `/state`; its state is in `/status`.
    assert_eq!(get_(&router, "/state").await, (200, "{}".to_owned()));
    let (_, status) = get_(&router, "/status").await;
    assert!(
        status.contains("\"waiting_since\":\"2026-01-02T03:04:05Z\""),
        "{status}"
    );
}

#[tokio::test]
async fn number_of_addresses_is_unknown_without_pools() {
    let (_process, router) = settled(&fixed(json!([]), None), false).await;
    assert_eq!(get_(&router, "/readyz").await.0, 200, "pools are optional");
    let (code, response) = get_(&router, "/usage").await;
    assert!(code == 503 && response.contains("unknown"), "{response}");
    let (_, status) = get_(&router, "/status").await;
    assert!(
        status.contains("IPAddressPools of MetalLB are unknown"),
        "{status}"
    );
}

#[tokio::test]
async fn only_local_clients_can_retry_addresses() {
    let router = router(&process_of(&silent()));
    let path = format!("/forget/{}", lease_id());
    assert_eq!(ask(&router, "POST", &path, "10.1.2.3:5").await.0, 403);
    let (code, body) = ask(&router, "POST", &path, NEAR).await;
    assert!(code == 200 && body.contains("\"forgotten\":0"), "{body}");
}
