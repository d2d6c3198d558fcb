//! Every route, with successful requests and with errors.

use super::world::{SDL, WITH_IP, World, manifest, token_for, until};
use crate::{ProblemSource, ProgramVersion};
use akash_provider_core::chain::QueryOutage;
use akash_provider_core::cluster::{Cluster, Operation};
use akash_provider_core::engine::Leadership;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::sdl;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[tokio::test]
async fn readiness_lists_notes_for_operators() {
    let world = World::with(|s| s.notes = vec!["create the routes manually".to_owned()]).await;
    let ready = world.client().get("/readyz").await;
    assert_eq!(ready.status, 200, "a note is not a failure");
    let body = ready.body;
    assert!(
        body.starts_with("ok") && body.contains("create the routes manually"),
        "{body}"
    );
    world.stop().await;
}

#[tokio::test]
async fn readiness_reports_a_problem_of_the_program_while_it_lasts() {
    let problem = Arc::new(Mutex::new(Some("disk full".to_owned())));
    let source = ProblemSource::new({
        let problem = Arc::clone(&problem);
        move || problem.lock().unwrap().clone()
    });
    let world = World::with(|settings| settings.problem = Some(source)).await;
    let ready = world.client().get("/readyz").await;
    ready.expect(200, "ok; disk full\n");
    *problem.lock().unwrap() = None;
    assert_eq!(world.client().get("/readyz").await.body, "ok\n");
    world.stop().await;
}

#[tokio::test]
async fn public_routes_need_no_credentials() {
    let world = World::start().await;
    let client = world.client();
    let address = client.get("/address").await;
    assert_eq!(
        address.body,
        "{\"address\":\"akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm\"}"
    );
    assert_eq!(
        address.header("content-type"),
        Some("application/json; charset=UTF-8")
    );
    let version = client.get("/version").await.json();
    assert_eq!(version["akash"]["name"], "provider-services");
    assert!(
        version["kube"]["gitVersion"]
            .as_str()
            .unwrap()
            .starts_with("memory")
    );
    let status = client.get("/status").await.json();
    assert_eq!(status["cluster"]["leases"], 0);
    assert_eq!(status["cluster_public_hostname"], "provider.localhost");
    for path in ["/healthz", "/readyz"] {
        let reply = client.get(path).await;
        reply.expect(200, "ok\n");
    }
    assert_eq!(client.get("/openapi.json").await.json()["openapi"], "3.1.0");
    world
        .cluster
        .fail_next(Operation::Version, 1, ErrorKind::Unavailable);
    assert_eq!(client.get("/version").await.status, 503);
    world.stop().await;
}

#[tokio::test]
async fn the_version_names_the_program_that_serves() {
    let world = World::with(|settings| {
        settings.program = ProgramVersion {
            name: "my-provider",
            version: "7.1.0",
            commit: "c0ffee",
        };
    })
    .await;
    let version = &world.client().get("/version").await.json()["akash"];
    assert_eq!(version["server_name"], "my-provider");
    assert_eq!(version["version"], "7.1.0");
    assert_eq!(version["commit"], "c0ffee");
    world.stop().await;
}

#[tokio::test]
async fn what_is_not_there_is_404_and_the_wrong_method_405() {
    let world = World::start().await;
    let client = world.client();
    for path in [
        "/",
        "/nope",
        "/status/",
        "/validate",
        "/lease/1/1/1",
        "/lease/1/1/1/nope",
    ] {
        let reply = client.get(path).await;
        assert_eq!(
            (reply.status, &*reply.body),
            (404, "404 page not found\n"),
            "{path}"
        );
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    // Unknown paths do not authenticate.
    let stranger = client.clone().header("Authorization", "nonsense");
    assert_eq!(stranger.get("/nope").await.status, 404);
    for (method, path) in [
        ("POST", "/status"),
        ("OPTIONS", "/status"),
        ("GET", "/deployment/1/manifest"),
        ("DELETE", "/lease/1/1/1/status"),
        ("GET", "/hostname/migrate"),
    ] {
        let reply = stranger.send(method, path, "").await;
        assert_eq!((reply.status, reply.body.as_str()), (405, ""), "{method} {path}");
    }
    world.stop().await;
}

#[tokio::test]
async fn group_is_validated_like_an_order() {
    let world = World::start().await;
    let client = world.client();
    let group = |text: &str| serde_json::to_string(&sdl::parse(text).unwrap().groups[0]).unwrap();
    let fits = client.send("GET", "/validate", &group(SDL)).await;
    assert_eq!(fits.status, 200, "{}", fits.body);
    assert_eq!(
        fits.header("content-type"),
        Some("application/json; charset=UTF-8")
    );
    let price = &fits.json()["min_bid_price"];
    let amount: f64 = price["amount"].as_str().unwrap().parse().unwrap();
    assert!(price["denom"] == "uact" && amount > 0.0, "{price}");
    let large = SDL.replace("units: 0.1", "units: 200");
    let cheap = SDL.replace("amount: 50000", "amount: 0.000001");
    for (text, word) in [(&large, "node1"), (&cheap, "price")] {
        let refused = client.send("GET", "/validate", &group(text)).await;
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body.contains(word), "{}", refused.body);
    }
    let nonsense = client.send("GET", "/validate", "{\"name\": 1}").await;
    assert_eq!(nonsense.status, 400);
    assert!(nonsense.body.starts_with("group spec: "), "{}", nonsense.body);
    let huge = client.send("GET", "/validate", &" ".repeat(256 * 1024 + 1)).await;
    assert_eq!(huge.status, 413, "{}", huge.body);
    let none = client.send("POST", "/validate", &group(SDL)).await;
    none.expect(404, "404 page not found\n");
    let status = world.handle.status().await;
    assert_eq!((status.orders.len(), status.leases.len()), (0, 0));
    world.stop().await;
}

#[tokio::test]
async fn manifest_is_accepted_returned_and_its_services_listed() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let sdl = sdl::parse(SDL).unwrap();
    let lease = world.lease(key.address(), 7, &sdl).await;
    let path = "/lease/7/1/1/status";
    let none = world.ask(&key, "GET", path, "").await;
    none.expect(404, "");
    let none = world.ask(&key, "GET", "/lease/7/1/1/manifest", "").await;
    none.expect(404, "lease not found\n");
    let sent = world.put_manifest(&key, 7, SDL).await;
    sent.expect(200, "");
    world.runs(&lease).await;
    let status = world.ask(&key, "GET", path, "").await.json();
    let web = &status["services"]["web"];
    assert_eq!((&web["total"], &web["available"]), (&json!(2), &json!(2)));
    assert_eq!(web["uris"][1], "web.example.com");
    assert_eq!(status["services"]["db"]["uris"], json!(null));
    assert_eq!(web.get("hostnames"), None, "no notes");
    assert_eq!(status["forwarded_ports"], json!(null));
    let one = world
        .ask(&key, "GET", "/lease/7/1/1/service/web/status", "")
        .await;
    assert_eq!(one.json(), *web);
    let back = world.ask(&key, "GET", "/lease/7/1/1/manifest", "").await;
    assert_eq!(back.json(), json!([sdl.manifest.groups[0]]));
    for (service, lease, text) in [
        ("nope", 7, "kube: no service for that lease\n"),
        ("web", 8, "kube: lease not found\n"),
    ] {
        let path = format!("/lease/{lease}/1/1/service/{service}/status");
        let reply = world.ask(&key, "GET", &path, "").await;
        reply.expect(404, text);
    }
    let other = world.known_tenant(2);
    assert_eq!(world.ask(&other, "GET", path, "").await.status, 404);
    world.stop().await;
}

#[tokio::test]
async fn invalid_manifest_is_refused_with_the_reason() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let sdl = sdl::parse(SDL).unwrap();
    world.lease(key.address(), 7, &sdl).await;
    let put = async |dseq: u64, body: &str| {
        let path = format!("/deployment/{dseq}/manifest");
        let reply = world.ask(&key, "PUT", &path, body).await;
        (reply.status, reply.body)
    };
    let right = manifest(SDL);
    for (status, begins, dseq, body) in [
        (422, "invalid manifest", 7, "{nonsense".to_owned()),
        (422, "invalid manifest", 7, "[]".to_owned()),
        (422, "invalid manifest", 7, "null".to_owned()),
        (422, "invalid manifest", 7, right.replace("\"db\"", "\"Db\"")),
        (422, "manifest version", 7, right.replace("web:1", "web:2")),
        (404, "no lease for deployment", 8, right.clone()),
    ] {
        let (got, text) = put(dseq, &body).await;
        assert_eq!(got, status, "{text}");
        assert!(text.starts_with(begins), "{text}");
    }
    world.chain.fail_queries(QueryOutage::UntilRestored);
    let (status, text) = put(7, &right).await;
    assert_eq!(status, 503, "{text}");
    world.chain.restore_queries();
    world
        .cluster
        .fail_next(Operation::Record, 100, ErrorKind::Unavailable);
    let (status, text) = put(7, &right).await;
    assert_eq!(status, 503, "{text}");
    world.stop().await;
}

#[tokio::test]
async fn cluster_errors_map_to_http_status() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    for (kind, status) in [
        (ErrorKind::Unavailable, 503),
        (ErrorKind::Timeout, 503),
        (ErrorKind::Internal, 500),
    ] {
        for (operation, path) in [
            (Operation::Status, "status"),
            (Operation::Status, "service/web/status"),
            (Operation::Deployments, "manifest"),
        ] {
            world.cluster.fail_next(operation, 1, kind);
            let path = format!("/lease/7/1/1/{path}");
            let reply = world.ask(&key, "GET", &path, "").await;
            assert_eq!(reply.status, status, "{path}: {}", reply.body);
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn hanging_cluster_is_an_outage_and_delays_no_other_request() {
    let world = World::with(|s| s.limits.cluster = Duration::from_millis(50)).await;
    let key = world.known_tenant(1);
    world.cluster.hang(Operation::Status);
    let reply = world.ask(&key, "GET", "/lease/7/1/1/status", "").await;
    assert_eq!(reply.status, 503, "{}", reply.body);
    world.cluster.restore(Operation::Status);
    world.stop().await;
}

#[tokio::test]
async fn hostnames_migrate_between_leases_of_one_tenant() {
    let world = World::start().await;
    let (key, other) = (world.known_tenant(1), world.known_tenant(2));
    let from = world.running(key.address(), 7, SDL).await;
    // The second gets the same name only by a migration.
    let to = world.lease(key.address(), 8, &sdl::parse(SDL).unwrap()).await;
    let sent = world.put_manifest(&key, 8, SDL).await;
    assert_eq!(sent.status, 200, "{}", sent.body);
    world.runs(&to).await;
    let holder = || world.cluster.contents().hostnames.get("web.example.com").cloned();
    assert_eq!(holder().as_ref(), Some(&from));
    let body = |name: &str, dseq: u64| {
        json!({"hostnames_to_migrate": [name], "destination_dseq": dseq, "destination_gseq": 1}).to_string()
    };
    let path = "/hostname/migrate";
    let no_deployment = "destination deployment does not exist\n";
    let no_hostname = "the hostname \"nope.example.com\" is not used by this deployment\n";
    for (status, text, body) in [
        (422, "", "{nonsense".to_owned()),
        (400, "", "{}".to_owned()),
        (400, "", json!({"hostnames_to_migrate": []}).to_string()),
        (400, no_deployment, body("web.example.com", 9)),
        (400, no_hostname, body("nope.example.com", 8)),
    ] {
        let reply = world.ask(&key, "POST", path, &body).await;
        assert_eq!((reply.status, reply.body.as_str()), (status, text), "{body}");
    }
    let moved = world.ask(&key, "POST", path, &body("web.example.com", 8)).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    assert_eq!(moved.body, "{\"transferred\":[\"web.example.com\"]}");
    assert_eq!(moved.header("content-type"), Some("application/json"));
    until("the name at its new lease", || async {
        holder().as_ref() == Some(&to)
    })
    .await;

    // Another tenant's name is a conflict, with the text that consoles expect.
    let sdl = sdl::parse(SDL).unwrap();
    world.lease(other.address(), 1, &sdl).await;
    let refused = world.put_manifest(&other, 1, SDL).await;
    refused.expect(422, "hostname not allowed: host \"web.example.com\" in use\n");
    world.stop().await;
}

#[tokio::test]
async fn w30_exactly_the_named_addresses_move() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let from = world.running(key.address(), 7, WITH_IP).await;
    until("the addresses", || async {
        world.cluster.contents().ips.contains_key(&from)
    })
    .await;
    let to = world.running(key.address(), 8, WITH_IP).await;
    let keys = |lease| {
        let ips = world.cluster.contents().ips.remove(lease).unwrap_or_default();
        let mut keys: Vec<String> = ips.into_iter().map(|ip| ip.sharing_key).collect();
        keys.sort();
        keys
    };
    let before = keys(&from);
    assert_eq!((before.len(), keys(&to).len()), (2, 0));
    let body = |name: &str| {
        json!({"endpoints_to_migrate": [name], "destination_dseq": 8, "destination_gseq": 1}).to_string()
    };
    let unknown = world.ask(&key, "POST", "/endpoint/migrate", &body("nope")).await;
    unknown.expect(
        400,
        "the endpoint \"nope\" does not exist in the destination deployment\n",
    );
    let ips = async |dseq: u64| {
        let path = format!("/lease/{dseq}/1/1/status");
        world.ask(&key, "GET", &path, "").await.json()["ips"].clone()
    };
    let there = ips(7).await;
    let of = |at: usize| &there["web"][at];
    assert_eq!(
        (&of(0)["Port"], &of(0)["ExternalPort"], &of(0)["Protocol"]),
        (&json!(80), &json!(80), &json!("TCP"))
    );
    assert!(
        of(0)["IP"].as_str().unwrap().parse::<std::net::IpAddr>().is_ok(),
        "{there}"
    );
    assert_ne!(of(0)["IP"], of(1)["IP"]);
    assert_eq!(ips(8).await, json!(null));
    let moved = world.ask(&key, "POST", "/endpoint/migrate", &body("ep")).await;
    moved.expect(200, "{\"transferred\":[\"ep\"]}");
    let (at_from, at_to) = (keys(&from), keys(&to));
    assert_eq!((at_from.len(), at_to.len()), (1, 1), "{at_from:?} {at_to:?}");
    assert!(at_to[0].ends_with("-ip-ep") && at_from[0].ends_with("-ip-other"));
    // The address moves with its name.
    let (left, gone) = (ips(7).await, ips(8).await);
    let mut after = [&left["web"][0]["IP"], &gone["web"][0]["IP"]].map(ToString::to_string);
    let mut before = [&of(0)["IP"], &of(1)["IP"]].map(ToString::to_string);
    after.sort();
    before.sort();
    assert_eq!(after, before);
    world
        .cluster
        .fail_next(Operation::DeclareIp, 1, ErrorKind::Conflict);
    let conflict = world.ask(&key, "POST", "/endpoint/migrate", &body("other")).await;
    assert_eq!(conflict.status, 422, "{}", conflict.body);
    // A standby migrates nothing.
    let standby = world.handle.set_leadership(Leadership::Standby);
    standby.await.unwrap();
    let refused = world.ask(&key, "POST", "/endpoint/migrate", &body("other")).await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(keys(&to).len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn standby_serves_reads_and_names_the_leader() {
    let now = crate::Leadership {
        role: "standby",
        holder: Some("b".to_owned()),
        address: Some("b.example.com:8443".to_owned()),
        implausible_term: Some(u64::MAX),
        ..crate::Leadership::default()
    };
    let source = crate::LeadershipSource::new(move || now.clone());
    let world = World::with(|settings| settings.leadership = Some(source)).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    world.handle.set_leadership(Leadership::Standby).await.unwrap();
    assert_eq!(world.client().get("/readyz").await.status, 200);
    assert_eq!(
        world.ask(&key, "GET", "/lease/7/1/1/status", "").await.status,
        200
    );
    let status = world.client().get("/status").await.json();
    let expected = json!({
        "role": "standby", "holder": "b", "address": "b.example.com:8443", "implausible_term": u64::MAX,
    });
    assert_eq!(status["leadership"], expected);
    let sent = world.put_manifest(&key, 7, SDL).await;
    assert_eq!(sent.status, 503, "{}", sent.body);
    assert!(
        sent.body.contains("the leader is b.example.com:8443"),
        "{}",
        sent.body
    );
    assert_eq!(sent.header("akash-provider-leader"), Some("b.example.com:8443"));
    world.stop().await;
}

#[tokio::test]
async fn stopped_provider_is_not_ready_and_refuses_manifests() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    world.stop_provider().await;
    assert_eq!(world.client().get("/readyz").await.status, 503);
    assert_eq!(world.client().get("/healthz").await.status, 200);
    let sent = world.put_manifest(&key, 7, SDL).await;
    assert_eq!(sent.status, 503, "{}", sent.body);
    // The workloads are not observed yet.
    assert!(world.cluster.lease_status(&lease).await.is_ok());
    assert_eq!(
        world.ask(&key, "GET", "/lease/7/1/1/status", "").await.status,
        200
    );
    world.stop().await;
}

#[tokio::test]
async fn known_tenants_keep_access_during_a_chain_outage() {
    let world = World::start().await;
    let (key, stranger) = (world.known_tenant(1), world.known_tenant(2));
    world.running(key.address(), 7, SDL).await;
    let certificate = world.certificate(&key);
    let by_certificate = world.client().certificate(&certificate);
    let path = "/lease/7/1/1/status";
    assert_eq!(world.ask(&key, "GET", path, "").await.status, 200);
    assert_eq!(by_certificate.get(path).await.status, 200);
    world.chain.fail_queries(QueryOutage::UntilRestored);
    // A new token of a known key, and the same certificate.
    let token = token_for(&key, &json!({"access": "scoped", "scope": ["status"]}));
    assert_eq!(world.client().bearer(&token).get(path).await.status, 200);
    assert_eq!(by_certificate.get(path).await.status, 200);
    let unknown = world.ask(&stranger, "GET", path, "").await;
    assert_eq!(unknown.status, 503, "{}", unknown.body);
    assert!(unknown.json()["message"].as_str().unwrap().contains("chain"));
    let own = akash_provider_chain::cert::OwnCertificate::make(
        stranger.address(),
        &akash_provider_chain::cert::CertUsage::Client,
        Duration::from_secs(super::world::NOW - 5),
    )
    .unwrap();
    let unknown = world.client().certificate(&own).get(path).await;
    assert_eq!(unknown.status, 503, "{}", unknown.body);
    world.chain.restore_queries();
    assert_eq!(world.ask(&stranger, "GET", path, "").await.status, 404);
    world.stop().await;
}
