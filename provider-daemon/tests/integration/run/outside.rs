//! Third-party clients with the whole program: the network's TypeScript SDK, a websocket client, grpcurl,
//! OpenSSL, and an OpenAPI fuzzer. If a client cannot be installed, its test prints the reason and is
//! skipped.

use crate::http::curl;
use crate::run::served::Served;
use crate::run::tenant::WORDS;
use crate::stage::{ADDRESS, TENANT};
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_core::types::{Address, Msg};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, UNIX_EPOCH};
use testbed::clients;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Hostname of the public certificate.
const PUBLIC: &str = "provider.localhost";

/// Returns the third-party client; `None` if its installation failed.
fn available<T, E: std::fmt::Display>(what: &str, found: Result<T, E>) -> Option<T> {
    found
        .inspect_err(|why| println!("skipped: {what} is unavailable: {why}"))
        .ok()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ran(path: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

/// Runs the script `gateway.mjs`, which uses the TypeScript SDK.
fn script(folder: &Path, asked: &Value) -> Value {
    let mut command = Command::new("node");
    command
        .args(["gateway.mjs", &asked.to_string()])
        .current_dir(folder)
        .env("NODE_TLS_REJECT_UNAUTHORIZED", "0")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{asked}\n{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout)))
}

struct SdkTenant<'a> {
    served: &'a Served,
    folder: PathBuf,
    made: Value,
}

impl<'a> SdkTenant<'a> {
    fn new(served: &'a Served, folder: PathBuf) -> Self {
        let made = script(&folder, &json!({"act": "credentials", "mnemonic": WORDS}));
        let owner = served.tenant.address().clone();
        assert_eq!(made["address"], owner.as_str());
        let pem = |name: &str| made["certificate"][name].as_str().unwrap().as_bytes().to_vec();
        let published = Msg::CreateCertificate {
            owner,
            cert: pem("cert"),
            pubkey: pem("publicKey"),
        };
        served
            .stage
            .chain
            .market(|market| market.execute(&published).unwrap());
        // The node serves the state of complete blocks.
        let height = || served.stage.chain.market(|market| market.height());
        let before = height();
        served.until("two blocks", || height() >= before + 2);
        Self { served, folder, made }
    }

    fn asks(&self, path: &str, token: Option<&str>, more: &Value) -> Value {
        let mut asked = more.clone();
        let scheme = if more["act"] == "listen" { "wss" } else { "https" };
        let at = self.served.url.trim_start_matches("https");
        asked["url"] = json!(format!("{scheme}{at}{path}"));
        match token {
            Some(name) => asked["token"] = self.made[name].clone(),
            None => self.with_certificate(&mut asked),
        }
        script(&self.folder, &asked)
    }

    fn with_certificate(&self, asked: &mut Value) {
        asked["cert"] = self.made["certificate"]["cert"].clone();
        asked["key"] = self.made["certificate"]["privateKey"].clone();
    }

    /// Reads the lease status with a full-access token and with a certificate. Asserts that a token for logs
    /// is refused.
    fn reads_its_lease(&self) {
        let get = json!({"act": "get"});
        let status = "/lease/9/1/1/status";
        for access in [Some("full"), None] {
            let seen = self.asks(status, access, &get);
            assert_eq!(seen["status"], 200, "{access:?}: {seen}");
            assert!(seen["body"].as_str().unwrap().contains("\"web\""), "{seen}");
        }
        let narrow = self.asks(status, Some("logs"), &get);
        assert_eq!(narrow["status"], 401, "{narrow}");
        assert_eq!(narrow["body"], "{\"message\":\"unauthorized access\"}");
    }

    /// Reads the status over gRPC, without credentials and with a certificate.
    fn reads_the_status(&self) {
        let anonymous = json!({"act": "status", "grpc": format!("https://{}", self.served.grpc)});
        let mut with_certificate = anonymous.clone();
        self.with_certificate(&mut with_certificate);
        for asked in [anonymous, with_certificate] {
            let seen = script(&self.folder, &asked);
            for status in [&seen["once"], &seen["first"]] {
                assert_eq!(status["cluster"]["leases"]["active"], 1, "{seen}");
                let node = &status["cluster"]["inventory"]["cluster"]["nodes"][0];
                let cpu = &node["resources"]["cpu"]["quantity"];
                assert!(!cpu["capacity"]["string"].as_str().unwrap().is_empty(), "{node}");
                assert_eq!(status["publicHostnames"], json!([PUBLIC]));
            }
        }
    }

    /// Runs a command and reads logs with the websocket client.
    fn runs_a_command(&self) {
        let shell = "/lease/9/1/1/shell?cmd0=cat&tty=0&stdin=1&service=web&podIndex=0";
        let refused = self.asks(shell, Some("logs"), &json!({"act": "listen"}));
        assert_eq!(refused["refused"], 401, "{refused}");
        let base64 = |bytes: &[u8]| BASE64.encode(bytes);
        // Input, a terminal size, and the end of the input.
        let send = json!([base64(b"hto and fro"), base64(b"i\0\x50\0\x18"), base64(b"h")]);
        let seen = self.asks(shell, Some("full"), &json!({"act": "listen", "send": send}));
        let wanted = [base64(b"dto and fro"), base64(b"f{\"exit_code\":0}\n")];
        // The order of stdout and stderr is undefined.
        let simulated = json!(base64(b"ethis workload is simulated: nothing of it runs\n"));
        let frames = seen["frames"].as_array().unwrap();
        let (results, others): (Vec<_>, Vec<_>) = frames.iter().partition(|frame| **frame == simulated);
        assert_eq!((results.len(), json!(others)), (1, json!(wanted)), "{seen}");
        let logs = self.asks("/lease/9/1/1/logs", Some("logs"), &json!({"act": "listen"}));
        assert_eq!(logs["code"], 1000, "{logs}");
    }
}

#[test]
fn typescript_sdk_and_websocket_client_are_served() {
    let Some(folder) = available("the TypeScript SDK", clients::node()) else {
        return;
    };
    let served = Served::start("sdk", FAST, &["--cluster-public-hostname", PUBLIC]);
    let stranger = SdkTenant::new(&served, folder);
    stranger.reads_its_lease();
    stranger.reads_the_status();
    stranger.runs_a_command();
}

/// Lists, describes and calls methods with `grpcurl`.
fn grpcurl(served: &Served) {
    let Some(grpcurl) = available("grpcurl", clients::grpcurl()) else {
        return;
    };
    let at = served.grpc.as_str();
    let run = |args: &[&str]| {
        let output = ran(&grpcurl, args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let services = run(&["-insecure", at, "list"]);
    for service in [
        "akash.provider.v1.ProviderRPC",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    ] {
        assert!(services.lines().any(|l| l == service), "{services}");
    }
    let rpc = "akash.provider.v1.ProviderRPC";
    let described = run(&["-insecure", at, "describe", rpc]);
    for method in ["GetStatus", "StreamStatus", "BidScreening"] {
        assert!(described.contains(&format!("rpc {method} (")), "{described}");
    }
    let status = run(&["-insecure", at, &format!("{rpc}/GetStatus")]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["cluster"]["leases"]["active"], 1, "{status}");
    let asked = format!("{{\"service\":\"{rpc}\"}}");
    let health = run(&["-insecure", "-d", &asked, at, "grpc.health.v1.Health/Check"]);
    assert!(health.contains("\"SERVING\""), "{health}");
    // Metadata that crashes the Go provider.
    let odd = [
        "-insecure",
        "-H",
        "authorization: x",
        at,
        &format!("{rpc}/GetStatus"),
    ];
    assert!(run(&odd).contains("\"nodes\""));
}

/// Checks TLS 1.3 and the certificate for each name.
fn openssl(served: &Served, public: &OwnCertificate) {
    let openssl = Path::new("openssl");
    if available("openssl", Command::new(openssl).arg("version").output()).is_none() {
        return;
    }
    let at = served.url.trim_start_matches("https://");
    let run = |args: &[&str]| {
        let common = ["s_client", "-connect", at, "-showcerts"];
        let output = ran(openssl, &[&common, args].concat());
        (output.status.success(), text(&output.stdout))
    };
    let lines = |pem: &str| pem.lines().map(str::trim).collect::<String>();
    let account: Address = ADDRESS.parse().unwrap();
    let own = served
        .stage
        .chain
        .market(|market| market.certificates(&account)[0].cert.clone());
    let own = lines(&text(&own));
    let (is_well, stdout) = run(&["-tls1_3", "-servername", "localhost"]);
    assert!(is_well && stdout.contains("TLSv1.3"), "{stdout}");
    assert!(lines(&stdout).contains(&own), "{stdout}");
    assert!(stdout.contains("No ALPN negotiated"), "{stdout}");
    let (_, stdout) = run(&["-tls1_3", "-servername", PUBLIC]);
    assert!(lines(&stdout).contains(&lines(&public.cert_pem())), "{stdout}");
    let (_, stdout) = run(&["-tls1_3", "-noservername", "-alpn", "h2,http/1.1"]);
    assert!(
        lines(&stdout).contains(&own) && stdout.contains("No ALPN negotiated"),
        "{stdout}"
    );
    let (is_well, stdout) = run(&["-tls1_2"]);
    assert!(!is_well, "{stdout}");
    let output = ran(openssl, &["s_client", "-connect", &served.grpc, "-alpn", "h2"]);
    let stdout = text(&output.stdout);
    assert!(stdout.contains("ALPN protocol: h2"), "{stdout}");
}

/// Sends requests that `schemathesis` generates from the OpenAPI document. Checks that the document describes
/// each response.
fn schemathesis(served: &Served) {
    let Some(schemathesis) = available("schemathesis", clients::schemathesis()) else {
        return;
    };
    let document = format!("{}/openapi.json", served.url);
    let bearer = format!("Authorization: Bearer {}", served.token());
    let folder = tempfile::tempdir().unwrap();
    let args = [
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
    let mut command = Command::new(&schemathesis);
    command.args(args).current_dir(folder.path()).env("NO_COLOR", "1");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", text(&output.stderr));
    // The fuzzer sent requests to every path except the document itself, and the provider still works.
    if let Some((_, described)) = curl(&[&document]) {
        let described: Value = serde_json::from_str(&described).unwrap();
        let paths = described["paths"].as_object().unwrap().len() - 1;
        assert!(stdout.contains(&format!("Tested: {paths}\n")), "{stdout}");
    }
    if let Some((status, body)) = curl(&[&format!("{}/readyz", served.url)]) {
        assert_eq!(status, 200, "{body}");
    }
}

/// Creates a certificate that the test treats as issued by a public authority.
fn public_certificate(folder: &Path) -> OwnCertificate {
    let usage = CertUsage::Server {
        domains: vec![PUBLIC.to_owned()],
    };
    let made = UNIX_EPOCH.elapsed().unwrap() - Duration::from_secs(60);
    let public = OwnCertificate::make(&TENANT.parse().unwrap(), &usage, made).unwrap();
    std::fs::write(folder.join("tls.crt"), public.cert_pem()).unwrap();
    let key = BASE64.encode(&public.private_key_der().unwrap());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    std::fs::write(folder.join("tls.key"), pem).unwrap();
    public
}

#[test]
fn third_party_programs_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let public = public_certificate(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("tls.crt"), file("tls.key"));
    let flags = [
        "--cluster-public-hostname",
        PUBLIC,
        "--gateway-tls-cert",
        &certificate,
        "--gateway-tls-key",
        &key,
    ];
    let served = Served::start("programs", FAST, &flags);
    grpcurl(&served);
    openssl(&served, &public);
    schemathesis(&served);
}
