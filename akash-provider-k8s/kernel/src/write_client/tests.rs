use super::*;
use crate::error::from_kube;
use crate::write_client::WriteClient;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::error::ErrorKind;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Returns a client of an API server without objects. The server records the request methods in `seen`.
fn server(
    seen: &Arc<Mutex<Vec<Method>>>,
) -> ClientBuilder<
    impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Send + 'static,
> {
    let seen = Arc::clone(seen);
    let answer = tower::service_fn(move |request: Request<Body>| {
        seen.lock().unwrap().push(request.method().clone());
        async {
            let mut absent = Response::new(Body::from(b"{\"items\":[]}".to_vec()));
            *absent.status_mut() = StatusCode::NOT_FOUND;
            Ok::<_, Infallible>(absent)
        }
    });
    ClientBuilder::new(answer, "default")
}

/// All HTTP methods, and an unknown method that must count as a write.
const METHODS: [&str; 10] = [
    "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "FUTURE",
];

#[tokio::test]
async fn sends_only_reads_to_the_cluster_as_a_standby() {
    let (gate, seen) = (LeadershipGate::new(false), Arc::default());
    let write_client = WriteClient::build(server(&seen), gate.clone());
    let client = write_client.client();
    let send_all = async || {
        for method in METHODS {
            let request = Request::builder()
                .method(method)
                .uri("/api/v1/namespaces/a/pods/b");
            client.send(request.body(Body::empty()).unwrap()).await.unwrap();
        }
        std::mem::take(&mut *seen.lock().unwrap())
    };
    assert_eq!(send_all().await, [Method::GET, Method::HEAD, Method::OPTIONS]);
    gate.set(true);
    assert_eq!(send_all().await.len(), METHODS.len());
    gate.set_until(3, tokio::time::Instant::now());
    assert_eq!(send_all().await.len(), 3, "an expired term");
    let review = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    client.send(review.body(Body::empty()).unwrap()).await.unwrap();
    let dry_run = Request::post("/apis/rbac.authorization.k8s.io/v1/rolebindings?fieldManager=a&dryRun=All");
    client.send(dry_run.body(Body::empty()).unwrap()).await.unwrap();
    let write = Request::post("/api/v1/namespaces/a/pods?fieldManager=dryRun=All");
    client.send(write.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [Method::POST, Method::POST]);
}

#[tokio::test]
async fn rejects_writes_like_an_unavailable_server() {
    let seen: Arc<Mutex<Vec<Method>>> = Arc::default();
    let client = WriteClient::build(server(&seen), LeadershipGate::new(false));
    let pods: Api<Pod> = Api::namespaced(client.client().clone(), "a");
    let (pod, post, patch) = (Pod::default(), PostParams::default(), PatchParams::apply("test"));
    let delete = DeleteParams::default();
    let errors = [
        pods.create(&post, &pod).await.err(),
        pods.replace("b", &post, &pod).await.err(),
        pods.patch("b", &patch, &Patch::Apply(&pod)).await.err(),
        pods.delete("b", &delete).await.err(),
        pods.delete_collection(&delete, &ListParams::default())
            .await
            .err(),
    ];
    for error in errors {
        let error = from_kube("deploy", error.unwrap());
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(
            error.is_transient() && error.message().contains("another instance"),
            "{error}"
        );
    }
    assert!(seen.lock().unwrap().is_empty());
}

/// The process is suspended with a queued request, and resumes after losing the leadership.
#[tokio::test]
async fn sends_no_queued_write_after_the_leadership_ended() {
    for steps in 0..8 {
        let gate = LeadershipGate::new(true);
        let at_server = gate.clone();
        let server = tower::service_fn(move |_: Request<Body>| {
            let is_leader = at_server.term().is_some();
            async move { Ok::<_, Infallible>(Response::new(Body::from(vec![u8::from(is_leader)]))) }
        });
        let builder = ClientBuilder::new(server, "default");
        let client = WriteClient::build(builder, gate.clone()).client().clone();
        let post = Request::post("/api/v1/namespaces/a/pods").body(Body::empty());
        let sending = tokio::spawn(async move { client.send(post.unwrap()).await });
        let closing = tokio::spawn(async move {
            for _ in 0..steps {
                let mut is_woken = false;
                // Unlike `yield_now`, which lets all other tasks run until they wait.
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut is_woken, true) {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
            }
            gate.set(false);
        });
        closing.await.unwrap();
        let response = sending.await.unwrap().unwrap();
        if response.status() == StatusCode::OK {
            let body = response.into_body().collect_bytes().await.unwrap();
            assert_eq!(body[..], [1], "sent after the leadership ended, {steps} steps");
        }
    }
}

/// The connection to the API server opens only after another instance became the leader.
#[tokio::test(start_paused = true)]
async fn sends_no_write_on_a_connection_that_opens_after_the_end_of_the_term() {
    for (seconds, is_sent) in [(2, false), (1, true)] {
        let (gate, seen) = (LeadershipGate::new(false), Arc::new(Mutex::new(0)));
        let sent = Arc::clone(&seen);
        let server = tower::service_fn(move |_: Request<Body>| {
            let sent = Arc::clone(&sent);
            async move {
                sleep(Duration::from_secs(seconds)).await;
                *sent.lock().unwrap() += 1;
                Ok::<_, Infallible>(Response::new(Body::empty()))
            }
        });
        gate.set_until(4, Instant::now() + Duration::from_millis(1_500));
        let client = WriteClient::build(ClientBuilder::new(server, "default"), gate.clone());
        let post = Request::post("/api/v1/namespaces/a/pods").body(Body::empty());
        let response = client.client().send(post.unwrap()).await.unwrap();
        // The next term of this instance does not continue the write.
        gate.set(true);
        sleep(Duration::from_secs(60)).await;
        let expected = if is_sent {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        assert_eq!(
            (response.status(), *seen.lock().unwrap()),
            (expected, i32::from(is_sent))
        );
    }
}
