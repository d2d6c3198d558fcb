use super::*;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::ChainTx;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::{Address, Msg};
use http::{Request, StatusCode};
use kube::client::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

const LEASE: Duration = Duration::from_secs(12);

#[tokio::test]
async fn only_requests_that_are_sent_to_the_cluster_count() {
    let gate = LeadershipGate::new(false);
    let writers = Writers::new(Some(gate.clone()), LEASE);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let _server = AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let _ = stream.read(&mut request).await;
            let empty = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(empty).await;
        }
    }));
    let client = writers.kubernetes(Config::new(url.parse().unwrap())).unwrap();
    for (leads, expected) in [(false, StatusCode::SERVICE_UNAVAILABLE), (true, StatusCode::OK)] {
        gate.set(leads);
        for (method, expected) in [("GET", StatusCode::OK), ("POST", expected)] {
            let request = Request::builder().method(method).uri("/api/v1/namespaces/a/pods");
            let response = client
                .client()
                .send(request.body(Body::empty()).unwrap())
                .await
                .unwrap();
            assert_eq!(response.status(), expected);
        }
    }
    let counted: u64 = writers.calls().statistics().calls.values().sum();
    assert_eq!(counted, 3);
}

fn msg() -> Msg {
    let owner = Address::from_bytes(&[1; 20]).unwrap();
    Msg::RevokeCertificate {
        owner,
        serial: "1".to_owned(),
    }
}

#[tokio::test]
async fn sends_no_transactions_as_a_standby() {
    let gate = LeadershipGate::new(false);
    let writers = Writers::new(Some(gate.clone()), LEASE);
    let mut settings = ClientSettings::new(vec!["http://127.0.0.1:1".to_owned()], "test");
    settings.signer = Some(writers.signer(PrivateKey::from_bytes(&[1; 32]).unwrap()));
    let (chain, writer) = AkashClient::start(settings, CancellationToken::new()).unwrap();
    let _writing = AbortOnDropHandle::new(tokio::spawn(writer));
    let refused = chain.broadcast_msgs(vec![msg()]).await.unwrap_err();
    assert!(refused.message().contains("another instance"), "{refused}");
    gate.set(true);
    // No node responds, so an accepted message waits.
    let sent = tokio::time::timeout(Duration::from_millis(200), chain.broadcast_msgs(vec![msg()])).await;
    assert!(sent.is_err(), "{sent:?}");
}
