//! gRPC requests of an HTTP/2 client without a gRPC library. The TLS connection is the one of the other
//! tests, and the messages are encoded with the types of `akash-provider-chain`.

use super::clients::Client;
use super::world::{SDL, World, hardware, until};
use akash_provider_chain::convert::wire_group_spec;
use akash_provider_chain::proto::akash::provider::v1::{BidScreeningRequest, BidScreeningResponse, Status};
use akash_provider_core::inventory::{
    ClusterSpec, IgnoredKind, IgnoredResource, InventoryUpdate, NodeInventory, NodeSpec,
};
use akash_provider_core::sdl;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

pub(super) const SERVICE: &str = "/akash.provider.v1.ProviderRPC";
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) type Sender = SendRequest<Full<bytes::Bytes>>;

pub(super) async fn connect(world: &World) -> Sender {
    connect_as(Client::new(world.grpc)).await
}

pub(super) async fn connect_as(client: Client) -> Sender {
    let tls = client.alpn(&["h2"]).connect().await.unwrap();
    assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(tls))
        .await
        .unwrap();
    tokio::spawn(async move { drop(connection.await) });
    sender
}

/// Sends one message and returns the response with an unread body.
pub(super) async fn call(
    sender: &mut Sender,
    path: &str,
    kind: &str,
    metadata: &[(&str, &str)],
    message: Vec<u8>,
) -> http::Response<Incoming> {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let mut request = http::Request::post(format!("https://localhost{path}"))
        .header("content-type", kind)
        .header("te", "trailers");
    for (name, value) in metadata {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(frame.into())).unwrap();
    let sent = sender.send_request(request);
    timeout(TIMEOUT, sent).await.expect("a response").unwrap()
}

pub(super) async fn whole(response: http::Response<Incoming>) -> (Vec<Vec<u8>>, String) {
    let of_headers = response.headers().get("grpc-status").cloned();
    let body = response.into_body().collect().await.unwrap();
    let of_trailers = body.trailers().and_then(|t| t.get("grpc-status")).cloned();
    let status = of_headers.or(of_trailers).unwrap();
    let mut rest = body.to_bytes();
    let mut messages = Vec::new();
    while rest.len() >= 5 {
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap());
        let frame = rest.split_to(5 + usize::try_from(length).unwrap());
        messages.push(frame[5..].to_vec());
    }
    (messages, status.to_str().unwrap().to_owned())
}

pub(super) async fn unary(world: &World, method: &str, message: Vec<u8>) -> (Vec<Vec<u8>>, String) {
    let mut sender = connect(world).await;
    let path = format!("{SERVICE}/{method}");
    whole(call(&mut sender, &path, "application/grpc", &[], message).await).await
}

async fn status(world: &World) -> Status {
    let (messages, code) = unary(world, "GetStatus", Vec::new()).await;
    assert_eq!((messages.len(), code.as_str()), (1, "0"));
    Status::decode(&messages[0][..]).unwrap()
}

#[tokio::test]
async fn the_status_has_what_indexers_read() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let status = status(&world).await;
    assert_eq!(status.public_hostnames, ["provider.localhost"]);
    assert!(status.timestamp.is_some() && status.errors.is_empty());
    let cluster = status.cluster.unwrap();
    assert_eq!(cluster.leases.unwrap().active, 1);
    let inventory = cluster.inventory.unwrap();
    let reserved = inventory.reservations.unwrap().active.unwrap();
    assert_eq!(reserved.count, 1);
    let text = |q: Option<
        akash_provider_chain::proto::k8s::io::apimachinery::pkg::api::resource::Quantity,
    >| { q.unwrap().string.unwrap() };
    assert_eq!(text(reserved.resources.unwrap().cpu), "300m");
    let node = inventory.cluster.unwrap().nodes.remove(0);
    assert_eq!(node.name, "node1");
    assert_eq!(node.capabilities.unwrap().storage_classes, ["beta2"]);
    let resources = node.resources.unwrap();
    let cpu = resources.cpu.unwrap().quantity.unwrap();
    assert_eq!(
        (text(cpu.allocatable), text(cpu.allocated)),
        ("16".to_owned(), "300m".to_owned())
    );
    let gpu = resources.gpu.unwrap();
    assert_eq!(text(gpu.quantity.unwrap().allocatable), "4");
    let kinds: Vec<_> = gpu
        .info
        .iter()
        .map(|i| (i.vendor.as_str(), i.name.as_str()))
        .collect();
    assert_eq!(kinds, [("nvidia", "a100"); 4]);
    assert_eq!(
        (gpu.info[0].memory_size.as_str(), gpu.info[0].interface.as_str()),
        ("80Gi", "pcie")
    );
    world.stop().await;
}

/// The public status must not reveal nodes that are not offered.
#[tokio::test]
async fn public_status_does_not_list_resources_that_are_not_offered() {
    let mut spec = ClusterSpec::from_nodes([NodeSpec::new("node1", 16_000, 64 << 30, 500 << 30)]);
    spec.ignored = vec![IgnoredResource::new(
        IgnoredKind::Node,
        "node `internal`: missing label",
        "label internal",
    )];
    let capacity = InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&spec)),
        ..hardware()
    };
    let world = World::with_all(Vec::new(), capacity, |_| {}).await;
    let ignored = world.handle.status().await.inventory.available.ignored.clone();
    assert_eq!(ignored, spec.ignored);
    let rest = world.client().get("/status").await;
    let (grpc, _) = unary(&world, "GetStatus", Vec::new()).await;
    for body in [rest.body.as_bytes(), &grpc[0]] {
        let body = String::from_utf8_lossy(body);
        assert!(body.contains("node1") && !body.contains("internal"), "{body}");
    }
    world.stop().await;
}

#[tokio::test]
async fn w26_any_metadata_is_borne() {
    let world = World::start().await;
    for authorization in ["Bearer x", "x", "", "a b c", "Bearer"] {
        let mut sender = connect(&world).await;
        let path = format!("{SERVICE}/GetStatus");
        let metadata = [("authorization", authorization)];
        let response = call(&mut sender, &path, "application/grpc", &metadata, Vec::new()).await;
        let (messages, code) = whole(response).await;
        assert_eq!((messages.len(), code.as_str()), (1, "0"), "{authorization}");
    }
    world.stop().await;
}

#[tokio::test]
async fn status_stream_starts_at_once_sends_changes_and_ends_with_the_gateway() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let mut sender = connect(&world).await;
    let path = format!("{SERVICE}/StreamStatus");
    let mut response = call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
    let next = async |response: &mut http::Response<Incoming>| {
        let frame = timeout(TIMEOUT, response.body_mut().frame())
            .await
            .expect("a message");
        let data = frame.unwrap().unwrap().into_data().unwrap();
        let status = Status::decode(&data[5..]).unwrap();
        status.cluster.unwrap().leases.unwrap().active
    };
    assert_eq!(next(&mut response).await, 0);
    world.running(key.address(), 7, SDL).await;
    // The order may be a change of its own before the lease is.
    while next(&mut response).await != 1 {}
    world.stop_gateway();
    let rest = timeout(TIMEOUT, response.into_body().collect())
        .await
        .expect("an end");
    drop(rest);
    world.stop().await;
}

#[tokio::test]
async fn dropped_status_stream_releases_its_permit() {
    let world = World::start().await;
    let path = format!("{SERVICE}/StreamStatus");
    // Many more than the permitted number of concurrent streams.
    for _ in 0..1100 / 50 {
        let mut sender = connect(&world).await;
        for _ in 0..50 {
            let response = call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
            assert_eq!(response.status(), 200);
            drop(response);
        }
    }
    until("a free permit", || async {
        let mut sender = connect(&world).await;
        let response = call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
        // A refusal is immediate.
        response.headers().get("grpc-status").is_none()
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn other_protocols_get_the_grpc_error_that_liveness_checks_expect() {
    let world = World::start().await;
    for (path, kind) in [("/", ""), ("/anything", "text/plain")] {
        let mut sender = connect(&world).await;
        let response = call(&mut sender, path, kind, &[], Vec::new()).await;
        assert_eq!(response.status(), 415);
        assert_eq!(response.headers()["content-type"], "application/grpc");
        assert_eq!(response.headers()["grpc-status"], "3");
        let words = format!("invalid gRPC request content-type {kind:?}");
        assert_eq!(response.headers()["grpc-message"], words);
    }
    let mut sender = connect(&world).await;
    for path in [
        "/akash.provider.v1.ProviderRPC/Nope",
        "/akash.inventory.v1.ClusterRPC/QueryCluster",
    ] {
        let response = call(&mut sender, path, "application/grpc", &[], Vec::new()).await;
        assert_eq!(whole(response).await.1, "12", "{path}");
    }
    world.stop().await;
}

#[tokio::test]
async fn health_and_reflection_are_served() {
    let world = World::start().await;
    let mut sender = connect(&world).await;
    let check = b"\x0a\x1dakash.provider.v1.ProviderRPC".to_vec();
    let health = "/grpc.health.v1.Health/Check";
    let response = call(&mut sender, health, "application/grpc", &[], check).await;
    assert_eq!(whole(response).await, (vec![vec![8, 1]], "0".to_owned()));
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        // The list of services.
        let response = call(&mut sender, &path, "application/grpc", &[], vec![0x3a, 0]).await;
        let (messages, code) = whole(response).await;
        assert_eq!(code, "0");
        let text = String::from_utf8_lossy(&messages[0]).into_owned();
        for service in [
            "akash.provider.v1.ProviderRPC",
            "akash.provider.lease.v1.LeaseRPC",
        ] {
            assert!(text.contains(service), "{text}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn attestation_quote_over_grpc_is_not_found() {
    let world = World::start().await;
    let mut sender = connect(&world).await;
    for (method, code) in [("AttestationQuote", "5"), ("ServiceStatus", "12")] {
        let path = format!("/akash.provider.lease.v1.LeaseRPC/{method}");
        let response = call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
        assert_eq!(whole(response).await.1, code, "{method}");
    }
    world.stop().await;
}

async fn screen(world: &World, text: &str, hostnames: &[&str]) -> BidScreeningResponse {
    let group = &sdl::parse(text).unwrap().groups[0];
    let request = BidScreeningRequest {
        group_spec: Some(wire_group_spec(group)),
        hostnames: hostnames.iter().map(|h| (*h).to_owned()).collect(),
    };
    let (messages, code) = unary(world, "BidScreening", request.encode_to_vec()).await;
    assert_eq!(code, "0");
    BidScreeningResponse::decode(&messages[0][..]).unwrap()
}

#[tokio::test]
async fn group_is_screened_like_an_order_and_nothing_is_reserved() {
    let world = World::start().await;
    let passed = screen(&world, SDL, &["new.example.com"]).await;
    assert!(passed.passed, "{:?}", passed.reasons);
    assert_eq!(passed.price.unwrap().denom, "uact");
    let wanted = &sdl::parse(SDL).unwrap().groups[0].resources;
    let offered: Vec<u32> = passed.resource_offers.iter().map(|o| o.count).collect();
    let counts: Vec<u32> = wanted.iter().map(|u| u.count).collect();
    assert_eq!(offered, counts);
    let cpu = passed.resource_offers[0]
        .resources
        .as_ref()
        .unwrap()
        .cpu
        .as_ref()
        .unwrap();
    assert_eq!(cpu.units.as_ref().unwrap().val, b"100");
    let large = SDL.replace("units: 0.1", "units: 200");
    let cheap = SDL.replace("amount: 50000", "amount: 0.000001");
    let elsewhere = SDL.replace("here: {pricing", "here: {attributes: {region: mars}, pricing");
    for (text, term) in [(&large, "node1"), (&cheap, "price"), (&elsewhere, "region=mars")] {
        let screened = screen(&world, text, &[]).await;
        assert!(!screened.passed && screened.price.is_none() && screened.resource_offers.is_empty());
        assert!(
            screened.reasons.iter().any(|r| r.contains(term)),
            "{term}: {:?}",
            screened.reasons
        );
    }
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let taken = screen(&world, SDL, &["WEB.example.com"]).await;
    assert_eq!(taken.reasons, ["hostname not allowed: \"web.example.com\""]);
    for (hostname, is_taken) in [
        ("*.EXAMPLE.com", true),
        ("*.web.example.com", false),
        ("*.ample.com", false),
    ] {
        let screened = screen(&world, SDL, &[hostname]).await;
        assert_eq!(
            !screened.reasons.is_empty(),
            is_taken,
            "{hostname}: {:?}",
            screened.reasons
        );
    }
    let status = world.handle.status().await;
    assert_eq!((status.orders.len(), status.leases.len()), (0, 1));
    assert!(status.inventory.pending.is_empty());
    // The host of the provider's record is blocked.
    let own = screen(&world, SDL, &["LocalHost"]).await;
    assert_eq!(own.reasons, ["hostname not allowed: \"localhost\""]);
    let nonsense = unary(&world, "BidScreening", vec![0xff; 20]).await;
    assert_ne!(nonsense.1, "0");
    world.stop().await;
}
