//! Tests of the HTTP port, with a cluster that never responds.

use super::*;
use crate::operators::process::{Process, router};
use crate::operators::serve::serve;
use akash_provider_cli::flags::Output;
use akash_provider_k8s::write_client::WriteClient;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

fn process() -> Arc<Process<HostnameOperator>> {
    let silent = tower::service_fn(|_: Request<kube::client::Body>| {
        std::future::pending::<Result<Response<kube::client::Body>, std::io::Error>>()
    });
    let client = Client::new(silent, "default");
    let operator = HostnameOperator::start(
        &WriteClient::without_election(client),
        HostnameOperatorOptions::default(),
    );
    Arc::new(Process::new(operator, None))
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

#[tokio::test]
async fn hostname_operator_serves_and_is_not_ready_without_its_cluster() {
    let process = process();
    let router = router(&process);
    assert_eq!(ask(&router, "GET", "/health", NEAR).await, (200, "OK".to_owned()));
    let (code, pending) = ask(&router, "GET", "/readyz", NEAR).await;
    assert_eq!(code, 503);
    for kind in ["providerhosts", "manifests", "ingresses"] {
        assert!(
            pending.contains(&format!("initial list of {kind} pending")),
            "{pending}"
        );
    }
    assert!(!pending.contains("certificates"), "optional kind: {pending}");
    for (path, text) in [("/managed-hostnames", "{}"), ("/ignore-list", "{}")] {
        assert_eq!(ask(&router, "GET", path, NEAR).await, (200, text.to_owned()));
    }
    let (_, status) = ask(&router, "GET", "/status", NEAR).await;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["is_ready"], false);
    for (query, code) in [
        ("?limit=5&after=a.example.com", 200),
        ("?limit=0", 400),
        ("?limit=10001", 400),
        ("?limit=many", 400),
        ("?page=2", 400),
        ("?hostname=nobody.example.com", 404),
    ] {
        assert_eq!(
            ask(&router, "GET", &format!("/status{query}"), NEAR).await.0,
            code,
            "{query}"
        );
    }
    assert!(
        ask(&router, "GET", "/version", NEAR)
            .await
            .1
            .contains(env!("CARGO_PKG_VERSION"))
    );
    let (code, metrics) = ask(&router, "GET", "/metrics", NEAR).await;
    assert_eq!(code, 200);
    for line in [
        "provider_operator_ready{operator=\"hostname\"} 0.0",
        "provider_operator_leader{operator=\"hostname\"} 1.0",
        "provider_operator_watch_synced{operator=\"hostname\",kind=\"ingresses\"} 0.0",
        "provider_operator_hostnames{operator=\"hostname\",state=\"written\"} 0.0",
        "provider_operator_writes_total{operator=\"hostname\"} 0.0",
    ] {
        assert!(metrics.lines().any(|have| have == line), "{line} in {metrics}");
    }
    process.operator.stop().await;
}

#[tokio::test]
async fn only_local_clients_can_retry_hostnames() {
    let process = process();
    let router = router(&process);
    let lease = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
    let path = format!("/forget/{lease}");
    for remote in ["10.1.2.3:5", "[fd00::1]:5", "[::ffff:10.1.2.3]:5"] {
        assert_eq!(ask(&router, "POST", &path, remote).await.0, 403, "{remote}");
    }
    for near in [NEAR, "[::1]:5", "[::ffff:127.0.0.1]:5"] {
        let (code, body) = ask(&router, "POST", &path, near).await;
        assert_eq!(code, 200, "{near}");
        assert!(body.contains(lease) && body.contains("\"forgotten\":0"), "{body}");
    }
    assert_eq!(ask(&router, "GET", &path, NEAR).await.0, 405);
    assert_eq!(ask(&router, "POST", "/confirm", "10.1.2.3:5").await.0, 403);
    let (code, body) = ask(&router, "POST", "/confirm", NEAR).await;
    assert_eq!((code, body.as_str()), (200, "{\"confirmed\":0}\n"));
}

#[tokio::test]
async fn forget_command_works_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let until = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, router(&process()), until.clone()));
    let args = crate::args::operators::ForgetArgs {
        lease: "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0"
            .parse()
            .unwrap(),
        rest_port: at.port(),
        output: Output::Json,
    };
    let asked = tokio::task::spawn_blocking(move || crate::operators::commands::forget(&args, "hostname"))
        .await
        .unwrap();
    assert!(asked.is_ok(), "{asked:?}");
    until.cancel();
    serving.await.unwrap();
    let args = crate::args::operators::ForgetArgs {
        lease:
            "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/1/1/1/akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0"
                .parse()
                .unwrap(),
        rest_port: at.port(),
        output: Output::Text,
    };
    let asked = tokio::task::spawn_blocking(move || crate::operators::commands::forget(&args, "hostname"))
        .await
        .unwrap();
    assert!(asked.unwrap_err().to_string().contains("no operator runs"));
}
