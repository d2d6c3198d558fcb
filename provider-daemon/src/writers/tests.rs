use super::*;
use akash_provider_chain::ClientSettings;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::bus::{Delivery, LocalBus};
use akash_provider_core::chain::ChainTx;
use akash_provider_core::types::{Address, Event, Msg, Topic};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

const LEASE: Duration = Duration::from_secs(12);

/// Returns a client of an API server without objects. The API server records the request methods.
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
    let writers = Writers::new(Some(gate.clone()), LEASE);
    let client = writers.kubernetes(server(&seen));
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
    assert_eq!(*seen.lock().unwrap(), [Method::POST]);
    let sent = 3 + METHODS.len() + 3 + 1;
    let counted: u64 = writers.calls().statistics().calls.values().sum();
    assert_eq!(counted, sent as u64, "only requests that were sent");
}

#[tokio::test]
async fn rejects_writes_like_an_unavailable_server() {
    let seen: Arc<Mutex<Vec<Method>>> = Arc::default();
    let client = Writers::read_only().kubernetes(server(&seen));
    let pods: Api<Pod> = Api::namespaced(client, "a");
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
        let error = akash_provider_k8s::error::from_kube("deploy", error.unwrap());
        assert_eq!(error.kind(), akash_provider_core::ErrorKind::Unavailable);
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
        let client = Writers::new(Some(gate.clone()), LEASE).kubernetes(builder);
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

fn msg() -> Msg {
    let owner = Address::from_bytes(&[1; 20]).unwrap();
    Msg::RevokeCertificate {
        owner,
        serial: "1".to_owned(),
    }
}

#[tokio::test]
async fn sends_no_transactions_and_events_as_a_standby() {
    let gate = LeadershipGate::new(false);
    let writers = Writers::new(Some(gate.clone()), LEASE);
    let mut settings = ClientSettings::new(vec!["http://127.0.0.1:1".to_owned()], "test");
    settings.key = Some(PrivateKey::from_bytes(&[1; 32]).unwrap());
    let (chain, writer) = AkashClient::start(settings, CancellationToken::new()).unwrap();
    let _writing = AbortOnDropHandle::new(tokio::spawn(writer));
    let local = LocalBus::new();
    let mut events = local.subscribe(&Topic::ALL).await.unwrap();
    let bus = writers.bus(local);
    let chain = writers.chain(chain);
    let mut publish = async || {
        let event = Arc::new(Event::Status { body: 1.into() });
        bus.publish(Topic::ClusterStatus, event).await.unwrap();
        events.next().now_or_never().flatten()
    };
    assert_eq!(publish().await, None);
    let refused = chain.broadcast_msgs(vec![msg()]).await.unwrap_err();
    assert!(refused.message().contains("another instance"), "{refused}");
    gate.set(true);
    assert!(matches!(publish().await, Some(Delivery::Event { .. })));
    // No node responds, so an accepted message waits.
    let sent = tokio::time::timeout(Duration::from_millis(200), chain.broadcast_msgs(vec![msg()])).await;
    assert!(sent.is_err(), "{sent:?}");
}
