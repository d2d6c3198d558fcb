//! Credentials of another tenant, revoked credentials, and credentials for another purpose. None of these credentials
//! gives access on any route.

use super::access::routes;
use super::world::{PROVIDER, SDL, WITH_IP, World, claims, signed, signed_by_wallet, token_for, until};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn credentials_of_another_tenant_have_no_access() {
    let world = World::start().await;
    let (key, other) = (world.known_tenant(1), world.known_tenant(2));
    world.running(key.address(), 7, SDL).await;
    // The other tenant has a lease with another number.
    world.running(other.address(), 8, WITH_IP).await;
    let all = claims(other.address(), &json!({"access": "full"}));
    let own = world.certificate(&other);
    let clients = [
        world.client().bearer(&signed(&other, &all)),
        world.client().bearer(&signed_by_wallet(&other, &all)),
        world.client().certificate(&own),
    ];
    let before = world.handle.status().await;
    for client in &clients {
        assert_eq!(client.get("/lease/8/1/1/status").await.status, 200);
        for route in routes().iter().filter(|r| r.scope.is_some()) {
            let path = (route.method, route.path);
            // The owner is the caller, so the lease does not exist: a stream reports that in its close frame.
            if route.is_stream {
                let Ok(mut stream) = client.open(route.path).await else {
                    continue;
                };
                let (frames, _) = stream.rest().await;
                let received: String = frames.iter().map(ToString::to_string).collect();
                assert!(
                    !received.contains("web-0") && !received.contains("db-0"),
                    "{path:?}: {received}"
                );
                continue;
            }
            let reply = client.send(route.method, route.path, &route.body).await;
            assert!([400, 404].contains(&reply.status), "{path:?}: {reply:?}");
        }
    }
    let after = world.handle.status().await;
    assert_eq!(
        (&before.hostnames, before.leases.len()),
        (&after.hostnames, after.leases.len())
    );
    world.stop().await;
}

#[tokio::test]
async fn revoked_certificate_has_no_access_on_any_route() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let own = world.certificate(&key);
    let client = world.client().certificate(&own);
    assert_eq!(client.get("/lease/7/1/1/status").await.status, 200);
    let revoked = world.certificate(&key);
    world.publish(&revoked.revoke());
    let client = world.client().certificate(&revoked);
    for route in routes() {
        let reply = route.ask(&client).await;
        assert!(reply.is_err(), "{} {}: {reply:?}", route.method, route.path);
    }
    world.stop().await;
}

#[tokio::test]
async fn revocation_ends_the_access_of_an_open_connection_on_every_route() {
    let world = World::with(|s| s.limits.recheck = Duration::from_millis(20)).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    for route in routes() {
        let own = world.certificate(&key);
        let client = world.client().certificate(&own);
        let mut connection = client.connect().await.unwrap();
        world.publish(&own.revoke());
        until("the loss of access", || async {
            client.try_send("GET", "/address", "").await.is_err()
        })
        .await;
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
            route.method,
            route.path,
            route.body.len(),
            route.body
        );
        drop(tokio::io::AsyncWriteExt::write_all(&mut connection, head.as_bytes()).await);
        let mut response = Vec::new();
        drop(tokio::io::AsyncReadExt::read_to_end(&mut connection, &mut response).await);
        let response = String::from_utf8_lossy(&response);
        let refused = response.is_empty() || response.starts_with("HTTP/1.1 401");
        assert!(refused, "{} {}: {response}", route.method, route.path);
    }
    world.stop().await;
}

#[tokio::test]
async fn address_migration_needs_the_scope_for_both_leases() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let from = world.running(key.address(), 8, WITH_IP).await;
    world.running(key.address(), 7, WITH_IP).await;
    let body = json!({"endpoints_to_migrate": ["ep"], "destination_dseq": 7, "destination_gseq": 1});
    let body = body.to_string();
    let grant = |dseqs: &[u64], scope: &str, service: &str| {
        let one = |dseq: &u64| json!({"dseq": dseq, "scope": [scope], "services": [service]});
        let deployments: Vec<Value> = dseqs.iter().map(one).collect();
        json!({"access": "granular", "permissions": [
            {"provider": PROVIDER, "access": "granular", "deployments": deployments}
        ]})
    };
    let addresses = || world.cluster.contents().ips;
    until("the addresses", || async { addresses().contains_key(&from) }).await;
    let before = addresses();
    for leases in [
        grant(&[7], "ip-migrate", "web"),
        grant(&[8], "ip-migrate", "web"),
        grant(&[7, 8], "hostname-migrate", "web"),
        grant(&[7, 8], "ip-migrate", "db"),
        json!({"access": "scoped", "scope": ["hostname-migrate"]}),
    ] {
        let client = world.client().bearer(&token_for(&key, &leases));
        let reply = client.send("POST", "/endpoint/migrate", &body).await;
        assert_eq!(reply.status, 401, "{leases}: {}", reply.body);
        assert_eq!(addresses(), before, "{leases}");
    }
    let both = token_for(&key, &grant(&[7, 8], "ip-migrate", "web"));
    let reply = world
        .client()
        .bearer(&both)
        .send("POST", "/endpoint/migrate", &body)
        .await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_ne!(addresses(), before);
    world.stop().await;
}
