//! Many unauthenticated clients. Their new connections replace old connections of unauthenticated clients, and tenants
//! are still served.

use super::clients::{Client, Connection};
use super::grpc::{self, SERVICE};
use super::world::{SDL, World, claims, signed, token_for};
use crate::auth::memory::AuthStore;
use crate::descriptors;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn idle_anonymous_connections_do_not_lock_out_a_tenant() {
    descriptors::raise().unwrap();
    // The number of places with 1,024 file descriptors.
    let world = World::with(|s| s.limits.connections = 288).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let token = token_for(&key, &json!({"access": "full"}));
    let client = world.client().bearer(&token);
    let mut stream = client.open("/lease/7/1/1/logs?follow=true").await.ok().unwrap();
    let mut idle = Vec::new();
    for number in 0..1200_u16 {
        // From many addresses, each with few connections.
        let from = format!("127.0.{}.{}", number % 100, 2 + number % 7);
        let stranger = Client::new(world.address).from(&from);
        idle.push(stranger.silent().await.unwrap());
        if number % 10 == 0 {
            // Some complete the handshake and then stay silent.
            drop(timeout(TIMEOUT, stranger.connect()).await.expect("an end"));
        }
    }
    let status = timeout(TIMEOUT, client.get("/lease/7/1/1/status")).await;
    assert_eq!(status.expect("a place").status, 200);
    // The connection of the tenant is still open.
    let lease = world.handle.status().await.leases[0].lease.clone();
    world.cluster.log(&lease, "web", 0, "still here");
    let line = stream.data().await.unwrap();
    assert!(line.to_text().unwrap().contains("still here"));
    drop(idle);
    world.stop().await;
}

#[tokio::test]
async fn idle_anonymous_connections_do_not_lock_out_grpc_clients() {
    descriptors::raise().unwrap();
    let world = World::with(|s| s.limits.connections = 50).await;
    let mut idle = Vec::new();
    for number in 0..300_u16 {
        let from = format!("127.0.{}.2", number % 100);
        idle.push(Client::new(world.grpc).from(&from).silent().await.unwrap());
    }
    // Long before their handshakes time out.
    let soon = Duration::from_secs(20);
    let (messages, code) = timeout(soon, grpc::unary(&world, "GetStatus", Vec::new()))
        .await
        .expect("a place");
    assert_eq!((messages.len(), code.as_str()), (1, "0"));
    world.stop().await;
}

pub(super) async fn ask_again(connection: &mut Connection, token: &str) {
    let head = format!("GET /address HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.flush().await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"}") {
        let byte = timeout(TIMEOUT, connection.read_u8()).await.expect("a response");
        response.push(byte.unwrap());
    }
    assert!(
        response.starts_with(b"HTTP/1.1 200 OK"),
        "{}",
        String::from_utf8_lossy(&response)
    );
}

#[tokio::test]
async fn oldest_anonymous_connection_of_a_network_is_closed_for_a_new_one() {
    let world = World::with(|s| s.limits.unleased_per_network = 2).await;
    let other = Client::new(world.address)
        .from("127.0.0.9")
        .connect()
        .await
        .unwrap();
    // An authenticated tenant is not anonymous, although its connection is older.
    let token = token_for(&world.known_tenant(1), &json!({"access": "full"}));
    let mut tenant = world.client().connect().await.unwrap();
    ask_again(&mut tenant, &token).await;
    let mut first = world.client().connect().await.unwrap();
    let _second = world.client().connect().await.unwrap();
    let _third = world.client().connect().await.unwrap();
    let mut rest = Vec::new();
    let ended = first.read_to_end(&mut rest);
    drop(timeout(TIMEOUT, ended).await.expect("an end"));
    ask_again(&mut tenant, &token).await;
    let mut other = other;
    let waiting = other.read_to_end(&mut rest);
    assert!(timeout(Duration::from_millis(200), waiting).await.is_err());
    world.stop().await;
}

#[tokio::test]
async fn accounts_without_leases_do_not_lock_out_a_lease_or_a_probe() {
    descriptors::raise().unwrap();
    // The number of places with 1,024 file descriptors.
    let world = World::with(|s| s.limits.connections = 288).await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    let token = token_for(&key, &json!({"access": "full"}));
    let tenant = Client::new(world.address).from("127.0.0.3").bearer(&token);
    let mut stream = tenant.open("/lease/7/1/1/logs?follow=true").await.ok().unwrap();
    let mut tenant_connection = tenant.connect().await.unwrap();
    ask_again(&mut tenant_connection, &token).await;
    let attacker = Client::new(world.address).from("127.0.0.2");
    let mut connections = Vec::new();
    for seed in 10..34 {
        let token = token_for(&world.known_tenant(seed), &json!({"access": "full"}));
        for _ in 0..12 {
            let mut connection = attacker.connect().await.unwrap();
            ask_again(&mut connection, &token).await;
            connections.push(connection);
        }
    }
    let mut silent = Vec::new();
    for _ in 0..1_000 {
        silent.push(attacker.silent().await.unwrap());
    }
    for (client, path) in [(tenant, "/lease/7/1/1/status"), (world.client(), "/readyz")] {
        let mut fastest = TIMEOUT;
        for _ in 0..5 {
            let began = Instant::now();
            let reply = timeout(TIMEOUT, client.get(path)).await;
            assert_eq!(reply.expect("a reply").status, 200, "{path}");
            fastest = fastest.min(began.elapsed());
        }
        println!("{path} in {fastest:?}");
        assert!(fastest <= Duration::from_millis(100), "{path} in {fastest:?}");
    }
    // Connections of the lease stayed open.
    ask_again(&mut tenant_connection, &token).await;
    world.cluster.log(&lease, "web", 0, "still here");
    let line = stream.data().await.unwrap();
    assert!(line.to_text().unwrap().contains("still here"));
    drop((connections, silent));
    world.stop().await;
}

#[tokio::test]
async fn anonymous_requests_have_a_budget_and_tenants_have_none() {
    let world = World::with(|s| s.limits.requests_per_network = 5).await;
    let key = world.known_tenant(1);
    let client = world.client();
    let mut statuses = Vec::new();
    let paths = [
        "/version",
        "/address",
        "/status",
        "/openapi.json",
        "/status",
        "/version",
    ];
    for path in paths.into_iter().chain(["/openapi.json", "/healthz", "/readyz"]) {
        statuses.push(client.get(path).await.status);
    }
    // Health checks have no budget.
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 200, 200]);
    let (_, code) = grpc::unary(&world, "GetStatus", Vec::new()).await;
    assert_eq!(code, "8");
    assert_eq!(world.ask(&key, "GET", "/status", "").await.status, 200);
    let elsewhere = Client::new(world.address).from("127.0.0.2");
    assert_eq!(elsewhere.get("/status").await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn status_streams_are_limited_per_network() {
    let world = World::with(|s| s.limits.status_streams_per_network = 3).await;
    let path = format!("{SERVICE}/StreamStatus");
    let mut sender = grpc::connect(&world).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let response = grpc::call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
        assert!(response.headers().get("grpc-status").is_none());
        open.push(response);
    }
    // Also from another connection of the same network.
    let mut again = grpc::connect(&world).await;
    let refused = grpc::call(&mut again, &path, "application/grpc", &[], Vec::new()).await;
    assert_eq!(refused.headers()["grpc-status"], "8");
    let mut elsewhere = grpc::connect_as(Client::new(world.grpc).from("127.0.0.2")).await;
    let response = grpc::call(&mut elsewhere, &path, "application/grpc", &[], Vec::new()).await;
    assert!(response.headers().get("grpc-status").is_none());
    world.stop().await;
}

#[tokio::test]
async fn wrong_signatures_for_real_accounts_have_a_query_budget_and_store_nothing() {
    let world = World::start().await;
    let forger = super::world::tenant(99);
    let access = json!({"access": "full"});
    let mut responses = BTreeMap::new();
    let real: Vec<_> = (100..200).map(|seed| world.known_tenant(seed)).collect();
    for account in &real {
        let forged = signed(&forger, &claims(account.address(), &access));
        let reply = world.client().bearer(&forged).get("/address").await;
        *responses.entry(reply.status).or_insert(0) += 1;
    }
    assert_eq!(responses, BTreeMap::from([(401, 60), (429, 40)]));
    assert!(
        real.iter()
            .all(|account| world.memory.key(account.address()).is_none())
    );
    // A key with a valid signature is stored, and does not depend on unauthenticated clients.
    let tenant = &real[99];
    let elsewhere = Client::new(world.address).from("127.0.0.2");
    let elsewhere = elsewhere.bearer(&token_for(tenant, &access));
    assert_eq!(elsewhere.get("/address").await.status, 200);
    assert!(world.memory.key(tenant.address()).is_some());
    assert_eq!(world.ask(tenant, "GET", "/address", "").await.status, 200);
    world.stop().await;
}
