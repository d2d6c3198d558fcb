//! Clients that others wrote, unchanged: the network's TypeScript SDK, a websocket client, grpcurl, OpenSSL, and a
//! fuzzer of OpenAPI documents. Each is skipped, with the reason, where it cannot be had.

use super::world::{SDL, World, token_for};
use akash_provider_chain::keyring::{DEFAULT_PATH, key_of_mnemonic};
use akash_provider_core::types::Msg;
use data_encoding::BASE64;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;
use testbed::clients;

const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

/// A client, or a word about why there is none.
fn had<T, E: std::fmt::Display>(what: &str, found: Result<T, E>) -> Option<T> {
    found
        .inspect_err(|why| println!("skipped: {what} cannot be had: {why}"))
        .ok()
}

/// Runs a program to its end while the gateway serves.
async fn ran(mut command: Command) -> Output {
    let running = move || command.stdin(Stdio::null()).output().unwrap();
    tokio::task::spawn_blocking(running).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn program(path: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(words);
    command
}

/// A world of today, a minute ahead, so that what others make by their own clock holds already.
async fn world_of_today() -> World {
    let world = World::start().await;
    world.set_time(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 60);
    world
}

/// What the script of the SDK saw.
async fn script(folder: &Path, asked: Value) -> Value {
    let mut command = program(Path::new("node"), &["gateway.mjs", &asked.to_string()]);
    command
        .current_dir(folder)
        .env("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    let output = ran(command).await;
    assert!(output.status.success(), "{asked}\n{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout)))
}

/// A tenant whose credentials the SDK makes.
struct Stranger {
    folder: PathBuf,
    made: Value,
}

impl Stranger {
    /// Makes them, publishes the certificate, and has a lease that runs. `None` where there is no SDK.
    async fn with_lease(world: &World) -> Option<Self> {
        let folder = had("the TypeScript SDK", clients::node())?;
        let words = SecretString::from(WORDS.to_owned());
        let key = key_of_mnemonic(&words, &"".into(), DEFAULT_PATH).unwrap();
        let made = script(&folder, json!({"act": "credentials", "mnemonic": WORDS})).await;
        assert_eq!(made["address"], key.address().as_str());
        world.make_known(key.address(), key.public().as_bytes());
        let pem = |name: &str| made["certificate"][name].as_str().unwrap().as_bytes().to_vec();
        world.publish(&Msg::CreateCertificate {
            owner: key.address().clone(),
            cert: pem("cert"),
            pubkey: pem("publicKey"),
        });
        let lease = world.running(key.address(), 7, SDL).await;
        assert!(world.cluster.log(&lease, "web", 0, "one <line>"));
        Some(Self { folder, made })
    }

    async fn asks(&self, world: &World, path: &str, token: Option<&str>, more: Value) -> Value {
        let websocket = more["act"] == "listen";
        let scheme = if websocket { "wss" } else { "https" };
        let mut asked = more;
        asked["url"] = json!(format!("{scheme}://{}{path}", world.address));
        match token {
            Some(name) => asked["token"] = self.made[name].clone(),
            None => {
                asked["cert"] = self.made["certificate"]["cert"].clone();
                asked["key"] = self.made["certificate"]["privateKey"].clone();
            }
        }
        script(&self.folder, asked).await
    }
}

#[tokio::test]
async fn tokens_and_certificates_of_the_typescript_sdk_let_its_tenant_in() {
    let world = world_of_today().await;
    let Some(stranger) = Stranger::with_lease(&world).await else {
        return world.stop().await;
    };
    let get = || json!({"act": "get"});
    let status = "/lease/7/1/1/status";
    for shown in [Some("full"), None] {
        let seen = stranger.asks(&world, status, shown, get()).await;
        assert_eq!(seen["status"], 200, "{shown:?}: {seen}");
        assert!(seen["body"].as_str().unwrap().contains("\"web\""), "{seen}");
    }
    let narrow = stranger.asks(&world, status, Some("logs"), get()).await;
    assert_eq!(narrow["status"], 401, "{narrow}");
    assert_eq!(narrow["body"], "{\"message\":\"unauthorized access\"}");
    world.stop().await;
}

#[tokio::test]
async fn the_typescript_sdk_reads_the_status_over_grpc() {
    let world = world_of_today().await;
    let Some(stranger) = Stranger::with_lease(&world).await else {
        return world.stop().await;
    };
    let grpc = format!("https://{}", world.grpc);
    let anonymous = json!({"act": "status", "grpc": grpc});
    let mut with_certificate = anonymous.clone();
    with_certificate["cert"] = stranger.made["certificate"]["cert"].clone();
    with_certificate["key"] = stranger.made["certificate"]["privateKey"].clone();
    for asked in [anonymous, with_certificate] {
        let seen = script(&stranger.folder, asked).await;
        for status in [&seen["once"], &seen["first"]] {
            assert_eq!(status["cluster"]["leases"]["active"], 1, "{seen}");
            let nodes = &status["cluster"]["inventory"]["cluster"]["nodes"];
            assert_eq!(nodes[0]["name"], "node1", "{seen}");
            assert_eq!(nodes[0]["resources"]["gpu"]["info"][0]["name"], "a100");
            let cpu = &nodes[0]["resources"]["cpu"]["quantity"];
            assert_eq!(cpu["allocatable"]["string"], "16", "{cpu}");
            assert_eq!(status["publicHostnames"], json!(["provider.localhost"]));
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn a_websocket_client_of_others_reads_logs_and_runs_commands() {
    let world = world_of_today().await;
    let Some(stranger) = Stranger::with_lease(&world).await else {
        return world.stop().await;
    };
    let listen = || json!({"act": "listen"});
    for shown in [Some("full"), Some("logs"), None] {
        let seen = stranger.asks(&world, "/lease/7/1/1/logs", shown, listen()).await;
        let line = "{\"name\":\"web-0\",\"message\":\"one \\u003cline\\u003e\"}\n";
        assert_eq!(seen["frames"], json!([line]), "{shown:?}: {seen}");
        assert_eq!(seen["code"], 1000);
    }
    let shell = "/lease/7/1/1/shell?cmd0=cat&tty=0&stdin=1&service=web&podIndex=0";
    let refused = stranger.asks(&world, shell, Some("logs"), listen()).await;
    assert_eq!(refused["refused"], 401, "{refused}");
    let base64 = |bytes: &[u8]| BASE64.encode(bytes);
    let mut with_input = listen();
    // Input, a size, and the end of the input.
    with_input["send"] = json!([base64(b"hto and fro"), base64(b"i\0\x50\0\x18"), base64(b"h")]);
    let seen = stranger.asks(&world, shell, Some("full"), with_input).await;
    let wanted = [base64(b"dto and fro"), base64(b"f{\"exit_code\":0}\n")];
    assert_eq!(seen["frames"], json!(wanted), "{seen}");
    world.stop().await;
}

#[tokio::test]
async fn grpcurl_lists_describes_and_calls() {
    let Some(grpcurl) = had("grpcurl", clients::grpcurl()) else {
        return;
    };
    let world = World::start().await;
    let key = world.known(1);
    world.running(key.address(), 7, SDL).await;
    let at = world.grpc.to_string();
    let run = async |words: &[&str]| {
        let output = ran(program(&grpcurl, words)).await;
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let services = run(&["-insecure", &at, "list"]).await;
    for service in [
        "akash.provider.v1.ProviderRPC",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    ] {
        assert!(services.lines().any(|l| l == service), "{services}");
    }
    let rpc = "akash.provider.v1.ProviderRPC";
    let described = run(&["-insecure", &at, "describe", rpc]).await;
    for method in ["GetStatus", "StreamStatus", "BidScreening"] {
        assert!(described.contains(&format!("rpc {method} (")), "{described}");
    }
    let status = run(&["-insecure", &at, &format!("{rpc}/GetStatus")]).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["cluster"]["leases"]["active"], 1, "{status}");
    let asked = format!("{{\"service\":\"{rpc}\"}}");
    let health = ["-insecure", "-d", &asked, &at, "grpc.health.v1.Health/Check"];
    assert!(run(&health).await.contains("SERVING"));
    // The metadata that ends today's provider.
    let odd = run(&[
        "-insecure",
        "-H",
        "authorization: x",
        &at,
        &format!("{rpc}/GetStatus"),
    ])
    .await;
    assert!(odd.contains("node1"), "{odd}");
    world.stop().await;
}

#[tokio::test]
async fn openssl_sees_tls_1_3_and_the_certificate_of_the_name() {
    let openssl = Path::new("openssl");
    if had("openssl", program(openssl, &["version"]).output()).is_none() {
        return;
    }
    let world = World::start().await;
    let (public, folder) = super::tls::public_certificate(&world, "provider.localhost");
    let at = world.address.to_string();
    let run = async |words: &[&str]| {
        let common = ["s_client", "-connect", &at, "-showcerts"];
        let output = ran(program(openssl, &[&common, words].concat())).await;
        (output.status.success(), text(&output.stdout))
    };
    let (is_well, said) = run(&["-tls1_3", "-servername", "localhost"]).await;
    assert!(is_well && said.contains("TLSv1.3"), "{said}");
    let lines = |pem: &str| pem.lines().map(str::trim).collect::<String>();
    let own = lines(&world.own.cert_pem());
    assert!(lines(&said).contains(&own), "{said}");
    assert!(said.contains("No ALPN negotiated"), "{said}");
    let (_, said) = run(&["-tls1_3", "-servername", "provider.localhost"]).await;
    assert!(lines(&said).contains(&lines(&public.cert_pem())), "{said}");
    let (_, said) = run(&["-tls1_3", "-noservername", "-alpn", "h2,http/1.1"]).await;
    assert!(
        lines(&said).contains(&own) && said.contains("No ALPN negotiated"),
        "{said}"
    );
    let (is_well, said) = run(&["-tls1_2"]).await;
    assert!(!is_well, "{said}");
    let grpc = world.grpc.to_string();
    let output = ran(program(openssl, &["s_client", "-connect", &grpc, "-alpn", "h2"])).await;
    assert!(
        text(&output.stdout).contains("ALPN protocol: h2"),
        "{}",
        text(&output.stdout)
    );
    drop(folder);
    world.stop().await;
}

#[tokio::test]
async fn what_the_openapi_document_allows_and_forbids_gets_a_documented_answer() {
    let Some(schemathesis) = had("schemathesis", clients::schemathesis()) else {
        return;
    };
    let world = World::start().await;
    let key = world.known(1);
    world.running(key.address(), 7, SDL).await;
    let token = token_for(&key, &json!({"access": "full"}));
    let (document, bearer) = (
        format!("https://{}/openapi.json", world.address),
        format!("Authorization: Bearer {token}"),
    );
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "run",
        &document,
        "--tls-verify=false",
        "--phases=coverage,fuzzing",
        "--max-examples=25",
        "--seed=1",
        "--checks=not_a_server_error,status_code_conformance,content_type_conformance",
        "--suppress-health-check=all",
        "--workers=1",
        "--request-timeout=60",
        "--continue-on-failure",
        "-H",
        &bearer,
    ];
    let mut command = program(&schemathesis, &words);
    command.current_dir(folder.path()).env("NO_COLOR", "1");
    let output = ran(command).await;
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    // It has asked for everything, and nothing is worse for it.
    assert!(said.contains("Tested: 13"), "{said}");
    assert_eq!(world.client().get("/readyz").await.status, 200);
    world.stop().await;
}
