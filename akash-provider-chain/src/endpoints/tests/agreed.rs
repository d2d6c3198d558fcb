//! Responses that two nodes must agree on.

use super::*;

/// Starts a node that responds to every query with `bytes`.
async fn node_of(bytes: Arc<Mutex<Vec<u8>>>) -> Node {
    node_at("5", "2026-01-01T00:00:00Z", bytes).await
}

/// Starts a node with a newest block at `height` and `time`. The node responds to every query with `bytes`.
async fn node_at(height: &'static str, time: &'static str, bytes: Arc<Mutex<Vec<u8>>>) -> Node {
    Node::start(move |method, _| match method {
        "status" => Reply::Result(json!({"node_info": {"network": "local"}, "sync_info": {
            "latest_block_height": height, "latest_block_time": time, "catching_up": false}})),
        "akash" => Reply::Result(crate::testing::chain::discovery()),
        _ => {
            let value = data_encoding::BASE64.encode(&bytes.lock().unwrap());
            Reply::Result(
                json!({"response": {"code": 0, "log": "", "value": value, "height": height, "codespace": ""}}),
            )
        }
    })
    .await
}

#[tokio::test]
async fn false_height_does_not_silence_the_second_node() {
    let request = crate::proto::cosmos::auth::v1beta1::QueryAccountRequest {
        address: account(1).to_string(),
    };
    let bytes = |number| Arc::new(Mutex::new(crate::testing::chain::account_answer(number, 0)));
    let lying = node_at("40", "2026-01-01T00:00:31Z", bytes(99)).await;
    for (time, is_late) in [("2026-01-01T00:00:01Z", false), ("2026-01-01T00:00:00Z", true)] {
        let second = node_at("5", time, bytes(7)).await;
        let both = Endpoints::new(&[&lying.url, &second.url], "local", quick()).unwrap();
        let answer = both.query_agreed(&request).await;
        let fault = both.status()[1].fault.clone();
        assert!(matches!(fault, Some(Fault::Behind { .. })), "{fault:?}");
        // A node that is late by its clock too cannot know the newest state.
        assert_eq!(answer.is_ok(), is_late, "{answer:?}");
    }
}

#[tokio::test]
async fn accounts_and_certificates_require_two_nodes_that_agree() {
    use crate::proto::akash::cert::v1::QueryCertificatesResponse;
    use crate::proto::cosmos::auth::v1beta1::QueryAccountRequest;
    let (one, two) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
    let (first, second) = (node_of(Arc::clone(&one)).await, node_of(Arc::clone(&two)).await);
    let both = Endpoints::new(&[&first.url, &second.url], "local", quick()).unwrap();
    let reader = Reader::new(both.clone());
    let own = akash_provider_core::chain::Certificate {
        cert: b"PEM".to_vec(),
        pubkey: b"KEY".to_vec(),
        serial: "7".to_owned(),
        valid: true,
    };
    let certificates = QueryCertificatesResponse {
        certificates: vec![crate::convert::responses::certificate(&own)],
        pagination: None,
    };
    *one.lock().unwrap() = certificates.encode_to_vec();
    // The second node has no certificate: the first one may be false, or the second one may hide it.
    let error = reader.certificates(&account(1), Some("7")).await.unwrap_err();
    assert!(
        error.is_transient() && error.to_string().contains("another"),
        "{error}"
    );
    two.lock().unwrap().clone_from(&one.lock().unwrap());
    let found = reader.certificates(&account(1), Some("7")).await.unwrap();
    assert_eq!(found, [own]);
    let request = QueryAccountRequest {
        address: account(1).to_string(),
    };
    let account = |text: &str| {
        crate::proto::cosmos::auth::v1beta1::QueryAccountResponse {
            account: Some(prost_types::Any {
                type_url: text.to_owned(),
                value: Vec::new(),
            }),
        }
        .encode_to_vec()
    };
    *one.lock().unwrap() = account("/a");
    *two.lock().unwrap() = account("/b");
    let error = both.query_agreed(&request).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Untrusted(_)), "{error}");
    *two.lock().unwrap() = account("/a");
    both.query_agreed(&request).await.unwrap();
    // A failed second node must not stop the provider.
    *two.lock().unwrap() = account("/b");
    drop(second);
    both.query_agreed(&request).await.unwrap();
}
