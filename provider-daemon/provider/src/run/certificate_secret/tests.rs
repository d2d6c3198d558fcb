use super::*;
use akash_provider_core::election::LeadershipGate;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// API server with one Secret, which checks the versions of writes.
#[derive(Debug, Clone, Default)]
struct SecretServer(Arc<Mutex<Option<Value>>>);

impl SecretServer {
    fn client(&self) -> Client {
        let secret = Arc::clone(&self.0);
        let serve = move |request: Request<Body>| {
            let secret = Arc::clone(&secret);
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let (status, answer) = answer(&mut secret.lock().unwrap(), &method, &body);
                let answer = Response::builder()
                    .status(status)
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::io::Error>(answer.unwrap())
            }
        };
        Client::new(tower::service_fn(serve), "default")
    }

    fn entries(&self) -> Value {
        let secret = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        secret
            .as_ref()
            .map_or(Value::Null, |secret| secret["data"].clone())
    }
}

fn answer(secret: &mut Option<Value>, method: &Method, body: &[u8]) -> (u16, Value) {
    let failure = |code: u16, reason: &str| {
        (
            code,
            json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": reason}),
        )
    };
    if (method, &*secret) == (&Method::POST, &None) {
        let mut made: Value = serde_json::from_slice(body).unwrap();
        made["metadata"]["resourceVersion"] = json!("1");
        return (201, secret.insert(made).clone());
    }
    match (method, secret) {
        (&Method::GET, Some(secret)) => (200, secret.clone()),
        (&Method::PATCH, Some(secret)) => {
            let change: Value = serde_json::from_slice(body).unwrap();
            if change["metadata"]["resourceVersion"] != secret["metadata"]["resourceVersion"] {
                return failure(409, "Conflict");
            }
            for (name, value) in change["data"].as_object().unwrap() {
                let entries = secret["data"].as_object_mut().unwrap();
                match value.is_null() {
                    true => drop(entries.remove(name)),
                    false => drop(entries.insert(name.clone(), value.clone())),
                }
            }
            let version: u32 = secret["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            secret["metadata"]["resourceVersion"] = json!((version + 1).to_string());
            (200, secret.clone())
        }
        (_, None) => failure(404, "NotFound"),
        (_, Some(_)) => failure(409, "AlreadyExists"),
    }
}

fn store(server: &SecretServer, gate: &LeadershipGate) -> CertificateSecret {
    let client = WriteClient::sharing(server.client(), gate.clone());
    CertificateSecret {
        name: "provider-certificate".to_owned(),
        namespace: "lease".to_owned(),
        prefix: "akash1.".to_owned(),
        kubeconfig: None,
        limit: Duration::from_secs(5),
        writers: Writers::read_only(),
        client: OnceCell::new_with(Some(client)),
    }
}

fn files(names: &[&str]) -> FileContents {
    names
        .iter()
        .map(|name| ((*name).to_owned(), b"x".to_vec()))
        .collect()
}

#[tokio::test]
async fn leader_creates_and_changes_only_its_entries_of_the_secret() {
    let server = SecretServer::default();
    let store = store(&server, &LeadershipGate::new(true));
    let absent = store.load().await.unwrap();
    assert_eq!((&absent.version, &absent.files), (&None, &files(&[])));
    store.save(&absent, &files(&["akash1.next.pem"])).await.unwrap();
    server.0.lock().unwrap().as_mut().unwrap()["data"]["tls.crt"] = json!("eQ==");
    let created = store.load().await.unwrap();
    assert_eq!(created.files, files(&["akash1.next.pem"]));
    store.save(&created, &files(&["akash1.pem"])).await.unwrap();
    assert_eq!(server.entries(), json!({"akash1.pem": "eA==", "tls.crt": "eQ=="}));
}

#[tokio::test]
async fn standby_or_outdated_leader_does_not_write_the_secret() {
    let server = SecretServer::default();
    let leader = store(&server, &LeadershipGate::new(true));
    let standby = store(&server, &LeadershipGate::new(false));
    assert!(
        standby
            .save(&StoredFiles::default(), &files(&["akash1.pem"]))
            .await
            .is_err()
    );
    assert_eq!(server.entries(), Value::Null);
    leader
        .save(&StoredFiles::default(), &files(&["akash1.pem"]))
        .await
        .unwrap();
    let seen = standby.load().await.unwrap();
    assert_eq!(seen.files, files(&["akash1.pem"]));
    leader.save(&seen, &files(&["akash1.old.pem"])).await.unwrap();
    // Another instance wrote since.
    assert!(leader.save(&seen, &files(&["akash1.next.pem"])).await.is_err());
    assert_eq!(server.entries(), json!({"akash1.old.pem": "eA=="}));
}
