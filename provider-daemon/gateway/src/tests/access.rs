//! Access control: every route with every kind of credentials.

use super::clients::{Client, Reply};
use super::world::{
    NOW, PROVIDER, SDL, World, claims, manifest, signed, signed_by_wallet, tenant, token_for,
};
use crate::auth::Scope;
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::sdl;
use serde_json::{Value, json};
use std::time::Duration;

/// Route, and the response to a caller with the permission for this route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) scope: Option<Scope>,
    pub(super) body: String,
    allowed: (u16, &'static str),
    /// Whether the request upgrades to a websocket.
    pub(super) is_stream: bool,
}

impl Route {
    fn stream(path: &'static str, scope: Scope) -> Self {
        Self {
            is_stream: true,
            ..route("GET", path, Some(scope), "", (101, ""))
        }
    }

    /// Sends the request with the credentials of `client`. Closes a stream that the request opens.
    pub(super) async fn ask(&self, client: &Client) -> std::io::Result<Reply> {
        if !self.is_stream {
            return client.try_send(self.method, self.path, &self.body).await;
        }
        match client.try_open(self.path).await? {
            Ok(_) => Ok(Reply {
                status: 101,
                headers: Vec::new(),
                body: String::new(),
            }),
            Err(refused) => Ok(refused),
        }
    }
}

/// Response with status 200 and any body.
const OK: (u16, &str) = (200, "");

fn route(
    method: &'static str,
    path: &'static str,
    scope: Option<Scope>,
    body: &str,
    allowed: (u16, &'static str),
) -> Route {
    Route {
        method,
        path,
        scope,
        body: body.to_owned(),
        allowed,
        is_stream: false,
    }
}

pub(super) fn routes() -> Vec<Route> {
    let manifest = manifest(SDL);
    let group = serde_json::to_string(&sdl::parse(SDL).unwrap().groups[0]).unwrap();
    let names =
        json!({"hostnames_to_migrate": ["web.example.com"], "destination_dseq": 7, "destination_gseq": 1});
    let ends = json!({"endpoints_to_migrate": ["ep"], "destination_dseq": 7, "destination_gseq": 1});
    let (names, ends) = (names.to_string(), ends.to_string());
    let shell = "/lease/7/1/1/shell?cmd0=ls&tty=0&stdin=0&service=web&podIndex=0";
    let nonce = r#"{"nonce":"AA==","bind_tls":false}"#;
    let no_quote = "attestation quote failed: confidential computing is not offered by this provider\n";
    let no_quote = (404, no_quote);
    let no_endpoint = (
        400,
        "the endpoint \"ep\" does not exist in the destination deployment\n",
    );
    vec![
        route("GET", "/version", None, "", OK),
        route("GET", "/address", None, "", OK),
        route("GET", "/status", None, "", OK),
        route("GET", "/validate", None, &group, OK),
        route(
            "PUT",
            "/deployment/7/manifest",
            Some(Scope::SendManifest),
            &manifest,
            OK,
        ),
        route("GET", "/lease/7/1/1/manifest", Some(Scope::GetManifest), "", OK),
        route("GET", "/lease/7/1/1/status", Some(Scope::Status), "", OK),
        route(
            "GET",
            "/lease/7/1/1/service/web/status",
            Some(Scope::Status),
            "",
            OK,
        ),
        Route::stream("/lease/7/1/1/logs", Scope::Logs),
        Route::stream("/lease/7/1/1/kubeevents", Scope::Events),
        Route::stream(shell, Scope::Shell),
        route(
            "POST",
            "/lease/7/1/1/attestation/quote",
            Some(Scope::Attestation),
            nonce,
            no_quote,
        ),
        route(
            "POST",
            "/hostname/migrate",
            Some(Scope::HostnameMigrate),
            &names,
            OK,
        ),
        route(
            "POST",
            "/endpoint/migrate",
            Some(Scope::IpMigrate),
            &ends,
            no_endpoint,
        ),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Denied(u16, &'static str),
}

const NO: Verdict = Verdict::Denied(401, "unauthorized access");
const INVALID: Verdict = Verdict::Denied(401, "JWT is invalid");
const CLAIMS: Verdict = Verdict::Denied(400, "JWT has invalid claims");
const HEADER: Verdict = Verdict::Denied(400, "invalid authorization header");

/// Credentials of a client, with the expected responses on public routes and for each scope.
struct Credential {
    name: String,
    client: Client,
    public: Verdict,
    private: Box<dyn Fn(Scope) -> Verdict>,
}

struct Cases<'w> {
    world: &'w World,
    key: PrivateKey,
    all: Vec<Credential>,
}

impl Cases<'_> {
    /// Adds credentials that every route must refuse with `verdict`.
    fn refused(&mut self, name: &str, client: Client, verdict: Verdict) {
        self.push(name, client, verdict, move |_| verdict);
    }

    fn push(
        &mut self,
        name: &str,
        client: Client,
        public: Verdict,
        private: impl Fn(Scope) -> Verdict + 'static,
    ) {
        let name = name.to_owned();
        let private = Box::new(private);
        self.all.push(Credential {
            name,
            client,
            public,
            private,
        });
    }

    /// Adds a valid token that permits the scopes for which `allows` returns true.
    fn token(&mut self, name: &str, leases: &Value, allows: impl Fn(Scope) -> bool + 'static) {
        let allows = std::rc::Rc::new(allows);
        let all = claims(self.key.address(), leases);
        let tokens = [
            ("", signed(&self.key, &all)),
            (" by a wallet", signed_by_wallet(&self.key, &all)),
        ];
        for (how, token) in tokens {
            let (client, allows) = (self.world.client().bearer(&token), std::rc::Rc::clone(&allows));
            self.push(&format!("{name}{how}"), client, Verdict::Allowed, move |scope| {
                if allows(scope) { Verdict::Allowed } else { NO }
            });
        }
    }

    fn header(&mut self, name: &str, header: &str, verdict: Verdict) {
        let client = self.world.client().header("Authorization", header);
        self.refused(name, client, verdict);
    }

    fn claims(&mut self, name: &str, change: impl Fn(&mut Value), verdict: Verdict) {
        let mut all = claims(self.key.address(), &json!({"access": "full"}));
        change(&mut all);
        for token in [signed(&self.key, &all), signed_by_wallet(&self.key, &all)] {
            self.refused(name, self.world.client().bearer(&token), verdict);
        }
    }

    fn add_malformed_credentials(&mut self) {
        let nobody = self.world.client();
        self.push("nothing", nobody, Verdict::Allowed, |_| NO);
        self.header("one part", "Bearer", HEADER);
        self.header("three parts", "Bearer a b", HEADER);
        self.header("another scheme", "Basic YTpi", HEADER);
        self.header("garbage", "Bearer garbage", INVALID);
        self.header("dots", "Bearer a.b.c", INVALID);
    }

    fn add_invalid_tokens(&mut self) {
        let full = json!({"access": "full"});
        self.claims(
            "expired",
            |c| c["exp"] = json!(NOW - 1),
            Verdict::Denied(401, "JWT is expired"),
        );
        self.claims("not yet", |c| c["nbf"] = json!(NOW + 1), CLAIMS);
        self.claims("made in the future", |c| c["iat"] = json!(NOW + 61), CLAIMS);
        self.claims("another version", |c| c["version"] = json!("v2"), CLAIMS);
        self.claims("no access", |c| c["leases"] = json!({"access": "none"}), CLAIMS);
        self.claims("no leases", |c| c["leases"] = json!(null), CLAIMS);
        let stranger = tenant(99);
        let client = self.world.client().bearer(&token_for(&stranger, &full));
        self.refused("an unknown account", client, INVALID);
        let forged = signed(&stranger, &claims(self.key.address(), &full));
        let client = self.world.client().bearer(&forged);
        self.refused("another account's signature", client, INVALID);
        let forged = signed_by_wallet(&stranger, &claims(self.key.address(), &full));
        let client = self.world.client().bearer(&forged);
        self.refused("another account's signature by a wallet", client, INVALID);
    }

    fn certificates(&mut self) {
        let full = json!({"access": "full"});
        let own = self.world.certificate(&self.key);
        let client = self.world.client().certificate(&own);
        let both = client.clone().bearer(&token_for(&self.key, &full));
        self.push("a certificate", client, Verdict::Allowed, |_| Verdict::Allowed);
        let ambiguous = "auth: ambiguous authentication. may not use mTLS and JWT at the same time";
        self.refused("certificate and token", both, Verdict::Denied(400, ambiguous));
    }

    fn add_valid_tokens(&mut self) {
        self.token("full", &json!({"access": "full"}), |_| true);
        let here = |access: Value| {
            let mut permission = access;
            permission["provider"] = json!(PROVIDER);
            json!({"access": "granular", "permissions": [permission]})
        };
        let other_provider = json!({"provider": self.key.address().as_str(), "access": "full"});
        let other_provider = json!({"access": "granular", "permissions": [other_provider]});
        self.token("another provider", &other_provider, |_| false);
        self.token("full here", &here(json!({"access": "full"})), |_| true);
        for scope in Scope::ALL {
            let scope_name = scope.as_str();
            let scoped = json!({"access": "scoped", "scope": [scope_name]});
            self.token(&format!("scope {scope_name}"), &scoped, move |s| s == scope);
            let name = format!("scope {scope_name} here");
            self.token(&name, &here(scoped), move |s| s == scope);
            let deployment = |mut more: Value| {
                more["scope"] = json!([scope_name]);
                more["services"] = json!(["db", "web"]);
                here(json!({"access": "granular", "deployments": [more]}))
            };
            // A grant covers only its lease, also if the request names no order.
            for (place, deployment_id, is_here) in [
                ("on the deployment", json!({"dseq": 7}), true),
                ("on the lease", json!({"dseq": 7, "gseq": 1, "oseq": 1}), true),
                ("on another deployment", json!({"dseq": 8}), false),
                ("on another group", json!({"dseq": 7, "gseq": 2}), false),
                (
                    "on another order",
                    json!({"dseq": 7, "gseq": 1, "oseq": 2}),
                    false,
                ),
            ] {
                let name = format!("{scope_name} {place}");
                self.token(&name, &deployment(deployment_id), move |s| is_here && s == scope);
            }
        }
    }
}

fn judge(route: &Route, credential: &Credential, reply: &Reply) -> Result<(), String> {
    let verdict = route
        .scope
        .map_or(credential.public, |scope| (credential.private)(scope));
    let body_of = |message: &str| format!("{{\"message\":\"{message}\"}}");
    let is_right = match verdict {
        Verdict::Allowed => {
            let (status, body) = route.allowed;
            reply.status == status && (body.is_empty() || reply.body == body)
        }
        Verdict::Denied(status, message) => {
            reply.status == status
                && reply.body == body_of(message)
                && reply.header("content-type") == Some("application/json")
        }
    };
    if is_right {
        return Ok(());
    }
    let (method, path, name) = (route.method, route.path, &credential.name);
    Err(format!(
        "{method} {path} with {name}: wanted {verdict:?}, got {reply:?}"
    ))
}

#[tokio::test]
async fn every_route_allows_what_the_credentials_allow_and_nothing_else() {
    let world = World::with(|s| s.limits.screenings_per_network = u32::MAX).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let mut cases = Cases {
        world: &world,
        key,
        all: Vec::new(),
    };
    cases.add_malformed_credentials();
    cases.add_invalid_tokens();
    cases.certificates();
    cases.add_valid_tokens();
    let (routes, mut wrong, mut judged) = (routes(), Vec::new(), 0);
    for credential in &cases.all {
        for route in &routes {
            let reply = route.ask(&credential.client).await.unwrap();
            judged += 1;
            wrong.extend(judge(route, credential, &reply).err());
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {judged}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(judged > 1900, "{judged}");
    world.stop().await;
}

fn for_services(services: &[&str], scopes: &[&str]) -> Value {
    let deployment = json!({"dseq": 7, "scope": scopes, "services": services});
    json!({"access": "granular", "permissions": [
        {"provider": PROVIDER, "access": "granular", "deployments": [deployment]}
    ]})
}

#[tokio::test]
async fn token_for_one_service_reads_and_changes_only_that_service() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    for service in ["db", "web"] {
        world.cluster.log(&lease, service, 0, &format!("of {service}"));
    }
    let all: Vec<&str> = Scope::ALL.iter().map(|s| s.as_str()).collect();
    let client = world
        .client()
        .bearer(&token_for(&key, &for_services(&["db"], &all)));
    let status = client.get("/lease/7/1/1/status").await.json();
    assert_eq!(
        status["services"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["db"]
    );
    let back = client.get("/lease/7/1/1/manifest").await.json();
    let services = back[0]["services"].as_array().unwrap();
    assert_eq!((services.len(), &services[0]["name"]), (1, &json!("db")));
    assert_eq!(client.get("/lease/7/1/1/service/db/status").await.status, 200);
    assert_eq!(client.get("/lease/7/1/1/service/web/status").await.status, 401);
    let names =
        json!({"hostnames_to_migrate": ["web.example.com"], "destination_dseq": 7, "destination_gseq": 1});
    for (method, path, body) in [
        ("PUT", "/deployment/7/manifest", manifest(SDL)),
        ("POST", "/hostname/migrate", names.to_string()),
    ] {
        assert_eq!(client.send(method, path, &body).await.status, 401, "{path}");
    }
    let shell = "/lease/7/1/1/shell?cmd0=ls&tty=0&stdin=0&podIndex=0&service=";
    assert_eq!(
        client.open(&format!("{shell}web")).await.err().unwrap().status,
        401
    );
    assert!(client.open(&format!("{shell}db")).await.is_ok());
    for path in [
        "/lease/7/1/1/logs?service=web",
        "/lease/7/1/1/kubeevents?service=db,web",
    ] {
        assert_eq!(client.open(path).await.err().unwrap().status, 401, "{path}");
    }
    let (lines, _) = client.open("/lease/7/1/1/logs").await.ok().unwrap().rest().await;
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["{\"name\":\"db-0\",\"message\":\"of db\"}\n"]);
    world.stop().await;
}

#[tokio::test]
async fn token_for_one_deployment_takes_no_hostname_from_another() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    world.running(key.address(), 8, SDL).await;
    let to = world.lease(key.address(), 7, &sdl::parse(SDL).unwrap()).await;
    assert_eq!(world.put_manifest(&key, 7, SDL).await.status, 200);
    world.runs(&to).await;
    let body =
        json!({"hostnames_to_migrate": ["WEB.example.com"], "destination_dseq": 7, "destination_gseq": 1});
    let narrow = for_services(&["db", "web"], &["hostname-migrate"]);
    let client = world.client().bearer(&token_for(&key, &narrow));
    let reply = client.send("POST", "/hostname/migrate", &body.to_string()).await;
    assert_eq!(reply.status, 401, "{}", reply.body);
    let wide = json!({"access": "scoped", "scope": ["hostname-migrate"]});
    let client = world.client().bearer(&token_for(&key, &wide));
    let reply = client.send("POST", "/hostname/migrate", &body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    world.stop().await;
}

#[tokio::test]
async fn w47_a_revoked_certificate_is_turned_away_before_anything_is_read() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let own = world.certificate(&key);
    world.publish(&own.revoke());
    let is_refused = async |own: &OwnCertificate| {
        let client = world.client().certificate(own);
        client.try_send("GET", "/status", "").await.is_err()
    };
    assert!(is_refused(&own).await);
    // An unpublished certificate, and another one with the serial of a published one.
    let usage = CertUsage::Client;
    let made = Duration::from_secs(NOW - 50);
    let published = OwnCertificate::make(key.address(), &usage, made).unwrap();
    assert!(is_refused(&published).await);
    world.publish(&published.publish());
    let twin = OwnCertificate::make(key.address(), &usage, made).unwrap();
    assert!(is_refused(&twin).await);
    world.stop().await;
}

#[tokio::test]
async fn open_connections_close_when_the_certificate_is_revoked() {
    let world = World::with(|s| s.limits.recheck = Duration::from_millis(50)).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let (own, other) = (world.certificate(&key), world.certificate(&key));
    let client = world.client().certificate(&own);
    let mut connection = client.connect().await.unwrap();
    let mut stream = client.open("/lease/7/1/1/logs?follow=true").await.ok().unwrap();
    let others = world.client().certificate(&other);
    let mut stays = others.open("/lease/7/1/1/logs?follow=true").await.ok().unwrap();
    // An outage of the chain closes nothing.
    world
        .chain
        .fail_queries(akash_provider_core::chain::QueryOutage::UntilRestored);
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.chain.restore_queries();
    world.publish(&own.revoke());
    let (_, end) = stream.rest().await;
    assert_eq!(end, Some((1008, "the certificate is revoked".to_owned())));
    let mut rest = Vec::new();
    let reading = tokio::io::AsyncReadExt::read_to_end(&mut connection, &mut rest);
    drop(
        tokio::time::timeout(Duration::from_secs(60), reading)
            .await
            .expect("an end"),
    );
    assert!(rest.is_empty(), "{rest:?}");
    // The tenant's other certificate stays valid.
    let lease = world.handle.status().await.leases[0].lease.clone();
    world.cluster.log(&lease, "web", 0, "still here");
    let line = stays.data().await.unwrap().to_string();
    assert!(line.contains("still here"), "{line}");
    world.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let world = World::with(|s| s.limits.recheck = Duration::from_millis(50)).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let client = world.tenant_client(&key);
    let mut stream = client.open("/lease/7/1/1/logs?follow=true").await.ok().unwrap();
    world.set_time(NOW + 899);
    let lease = world.handle.status().await.leases[0].lease.clone();
    world.cluster.log(&lease, "web", 0, "still here");
    let line = stream.data().await.unwrap().to_string();
    assert!(line.contains("still here"), "{line}");
    world.set_time(NOW + 900);
    let (_, end) = stream.rest().await;
    assert_eq!(
        end,
        Some((1008, "the token or certificate is expired".to_owned()))
    );
    world.stop().await;
}

#[tokio::test]
async fn cached_token_is_refused_after_expiry() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let client = world.tenant_client(&key);
    assert_eq!(client.get("/address").await.status, 200);
    world.set_time(NOW + 900);
    let over = client.get("/address").await;
    over.expect(401, "{\"message\":\"JWT is expired\"}");
    world.stop().await;
}

#[tokio::test]
async fn the_lifetime_of_tokens_can_be_limited() {
    let world = World::with(|s| s.token_lifetime_max = Some(Duration::from_secs(900))).await;
    let key = world.known_tenant(1);
    let mut all = claims(key.address(), &json!({"access": "full"}));
    // Issued ten seconds ago, valid for another fifteen minutes.
    let long = world.client().bearer(&signed(&key, &all));
    assert_eq!(long.get("/address").await.status, 400);
    all["exp"] = json!(NOW + 890);
    let short = world.client().bearer(&signed(&key, &all));
    assert_eq!(short.get("/address").await.status, 200);
    world.stop().await;
}
