//! Counters of the gateway against the requests of a test.

use super::anonymous::ask_again;
use super::clients::Client;
use super::grpc::{SERVICE, call, connect, whole};
use super::world::{SDL, World, token_for, until};
use crate::{GatewayCounters, RequestKind, StreamKind};
use serde_json::json;

fn kind(route: &str, method: &'static str, status: u16) -> RequestKind {
    RequestKind {
        route: route.to_owned(),
        method,
        status,
        grpc_status: 0,
    }
}

#[tokio::test]
async fn requests_streams_and_rejections_are_counted() {
    let counters = GatewayCounters::default();
    let shared = counters.clone();
    let world = World::with(|s| {
        s.counters = shared;
        s.limits.streams_per_tenant = 1;
    })
    .await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let tenant = world.tenant_client(&key);
    for _ in 0..3 {
        assert_eq!(tenant.get("/lease/7/1/1/status").await.status, 200);
    }
    assert_eq!(tenant.get("/lease/8/1/1/status").await.status, 404);
    assert_eq!(world.client().get("/anything/7").await.status, 404);
    assert_eq!(world.client().bearer("a.b.c").get("/status").await.status, 401);
    let follow = "/lease/7/1/1/logs?follow=true";
    let logs = tenant.open(follow).await.unwrap();
    assert_eq!(tenant.open(follow).await.err().unwrap().status, 429);
    let mut sender = connect(&world).await;
    let path = format!("{SERVICE}/GetStatus");
    for (path, status) in [(path.as_str(), "0"), ("/other.Service/Method", "12")] {
        let response = call(&mut sender, path, "application/grpc", &[], Vec::new()).await;
        assert_eq!(whole(response).await.1, status, "{path}");
    }

    until("the stream", || async {
        counters.statistics().open_streams[&StreamKind::Logs] == 1
    })
    .await;
    let counted = counters.statistics();
    let lease = "/lease/{dseq}/{gseq}/{oseq}";
    let expected = [
        (kind(&format!("{lease}/status"), "GET", 200), 3),
        (kind(&format!("{lease}/status"), "GET", 404), 1),
        (kind(&format!("{lease}/logs"), "GET", 101), 1),
        (kind(&format!("{lease}/logs"), "GET", 429), 1),
        (kind("other", "GET", 404), 1),
        (kind("/status", "GET", 401), 1),
        (kind(&path, "POST", 200), 1),
    ];
    for (kind, count) in expected {
        assert_eq!(counted.requests.get(&kind), Some(&count), "{kind:?}: {counted:?}");
    }
    let unimplemented = RequestKind {
        grpc_status: 12,
        ..kind("other", "POST", 200)
    };
    assert_eq!(counted.requests.get(&unimplemented), Some(&1), "{counted:?}");
    assert_eq!(counted.requests.values().sum::<u64>(), counted.durations.total());
    assert_eq!(counted.rejected_credentials, [("token", 1)].into());
    assert_eq!(counted.streams, [(StreamKind::Logs, 1)].into());
    assert_eq!(counted.refused_streams, [(StreamKind::Logs, 1)].into());
    // One connection for each request of REST, and one for the stream that is still open.
    assert_eq!((counted.rest.accepted, counted.grpc.accepted), (8, 1));
    drop(logs);
    drop(sender);
    until("closed connections", || async {
        let counted = counters.statistics();
        (
            counted.rest.open,
            counted.grpc.open,
            counted.open_streams[&StreamKind::Logs],
        ) == (0, 0, 0)
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn connections_and_requests_over_a_limit_are_counted() {
    let counters = GatewayCounters::default();
    let shared = counters.clone();
    let world = World::with(|s| {
        s.counters = shared;
        s.limits.connections = 8;
        s.limits.unleased_per_network = 1;
        s.limits.requests_per_network = 1;
    })
    .await;
    for status in [200, 429, 429] {
        assert_eq!(world.client().get("/version").await.status, status);
    }
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let token = token_for(&key, &json!({"access": "full"}));
    // All places that connections with a lease can take.
    let mut leased = Vec::new();
    for _ in 0..6 {
        let tenant = Client::new(world.address).from("127.0.0.3");
        leased.push(tenant.connect().await.unwrap());
        ask_again(leased.last_mut().unwrap(), &token).await;
    }
    // The second connection closes the first. The third waits for this place, because the second is reserved for
    // probes of this machine. Then the third closes the second.
    let _local = [(); 3].map(|()| std::net::TcpStream::connect(world.address).unwrap());
    let of_port = || counters.statistics().rest;
    until("a displaced connection", || async { of_port().displaced == 2 }).await;
    assert_eq!((of_port().delayed, counters.statistics().over_budget), (1, 2));
    drop(leased);
    world.stop().await;
}
