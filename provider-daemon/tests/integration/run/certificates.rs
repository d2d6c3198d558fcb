//! Certificates that change while a provider runs.

use crate::run::tenant::url;
use crate::stage::{ADDRESS, Running, Stage, WORDS, until};
use akash_provider_chain::cert::{CertUsage, KeyFile, KeyFiles, OwnCertificate, RENEW_BEFORE};
use akash_provider_chain::keyring::{DEFAULT_PATH, derive_key};
use akash_provider_core::types::Address;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Validity period of a certificate on the chain.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// Time from the test start to the first renewal.
const RUNS: Duration = Duration::from_secs(30);

fn has(tool: &str) -> bool {
    let there = Command::new(tool).arg("--help").output().is_ok();
    if !there {
        println!("skipped: {tool} is absent");
    }
    there
}

/// Returns the decimal serial number of the certificate served at `url`.
fn served_serial(url: &str) -> Option<String> {
    let script = r#"openssl s_client -connect "$0" </dev/null 2>/dev/null | openssl x509 -noout -serial | cut -d= -f2"#;
    let address = url.trim_start_matches("https://");
    let output = Command::new("bash")
        .args(["-c", script, address])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    u128::from_str_radix(text.trim(), 16).ok().map(|n| n.to_string())
}

/// The provider publishes and serves a new certificate without a restart.
#[test]
fn certificate_is_renewed_before_expiry() {
    if !has("openssl") {
        return;
    }
    let mut stage = Stage::new("rotation", true);
    stage.start_node(FAST);
    let key = derive_key(&WORDS.into(), &"".into(), DEFAULT_PATH).unwrap();
    let owner: Address = ADDRESS.parse().unwrap();
    let usage = CertUsage::Server {
        domains: vec!["localhost".to_owned()],
    };
    let made = UNIX_EPOCH.elapsed().unwrap() + RENEW_BEFORE + RUNS - VALIDITY;
    let old = OwnCertificate::make(&owner, &usage, made).unwrap();
    let folder = stage.path("");
    KeyFiles::new(&folder, &key)
        .write(KeyFile::Current, &old)
        .unwrap();
    stage
        .chain
        .market(|market| market.execute(&old.publish()))
        .unwrap();
    let gateway = [
        "--gateway-listen-address=127.0.0.1:0",
        "--certificate-domain=localhost",
        "--output=json",
    ];
    let mut provider = stage.provider("provider", &gateway);
    let url = url(&provider);
    let first = served_serial(&url).unwrap();
    let published = || stage.chain.market(|market| market.certificates(&owner).to_vec());
    until(
        "the next certificate is published",
        || provider.dump(),
        || published().len() == 2,
    );
    let old = old.info().serial.clone();
    let serials = published().into_iter().map(|c| c.serial);
    let next = serials.into_iter().find(|serial| *serial != old).unwrap();
    assert!(first == old || first == next, "{first}");
    until(
        "the next certificate is served",
        || provider.dump(),
        || served_serial(&url).as_ref() == Some(&next),
    );
    assert!(provider.has_ended().is_none());
    assert!(
        published().iter().all(|c| c.valid),
        "the old certificate stays valid for an hour, for clients that cached it"
    );
}

/// Creates a self-signed certificate for `name` and loopback.
fn public(stage: &Stage, name: &str) {
    let (certificate, key) = (
        stage.path(&format!("{name}.pem")),
        stage.path(&format!("{name}.key")),
    );
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-subj",
            "/CN=provider.test",
            "-addext",
            "subjectAltName=DNS:provider.test,IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-days", "2", "-keyout"])
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

fn is_trusted(stage: &Stage, provider: &Running, name: &str) -> bool {
    let port = url(provider).rsplit_once(':').unwrap().1.to_owned();
    let authority = stage.path(&format!("{name}.pem"));
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "30", "--cacert"])
        .arg(authority)
        .args(["--resolve", &format!("provider.test:{port}:127.0.0.1")])
        .arg(format!("https://provider.test:{port}/status"))
        .output();
    output.unwrap().status.success()
}

#[test]
fn replaced_public_certificate_is_served_without_restart() {
    let mut stage = Stage::new("public", true);
    if !has("openssl") || !has("curl") {
        return;
    }
    stage.start_node(FAST);
    let (code, _, err) = stage.ran(&["tx", "cert", "generate", "server", "localhost"]);
    assert_eq!(code, 0, "{err}");
    public(&stage, "first");
    public(&stage, "second");
    let copy = |from: &str| {
        for end in ["pem", "key"] {
            let to = stage.path(&format!("served_serial.{end}"));
            // Like the update of a Secret: each file is replaced atomically, one after the other.
            std::fs::copy(stage.path(&format!("{from}.{end}")), stage.path("new")).unwrap();
            std::fs::rename(stage.path("new"), to).unwrap();
        }
    };
    copy("first");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let provider = stage.provider(
        "provider",
        &[
            "--gateway-listen-address=127.0.0.1:0",
            "--cluster-public-hostname=provider.test",
            "--gateway-tls-cert",
            &text(&stage.path("served_serial.pem")),
            "--gateway-tls-key",
            &text(&stage.path("served_serial.key")),
            "--output=json",
        ],
    );
    until(
        "the first",
        || provider.dump(),
        || is_trusted(&stage, &provider, "first"),
    );
    assert!(!is_trusted(&stage, &provider, "second"));
    copy("second");
    until(
        "the second",
        || provider.dump(),
        || is_trusted(&stage, &provider, "second"),
    );
    assert!(!is_trusted(&stage, &provider, "first"));
}

#[test]
fn node_is_trusted_with_additional_certificate_authority() {
    if !has("openssl") {
        return;
    }
    let mut stage = Stage::new("authority", true);
    stage.start_node(FAST);
    public(&stage, "node");
    let url = stage.tls(&stage.path("node.pem"), &stage.path("node.key"));
    let file = stage.path("node.pem");
    let ask = ["query", "params", "--node", &url, "--chain-id=devnet"];
    let (code, _, err) = stage.ran(&ask);
    assert!(
        code == 1 && err.contains("certificate authority"),
        "the certificate is not trusted: {err}"
    );
    let with = ["--node-ca", file.to_str().unwrap()];
    for chain in ["--chain-id=devnet", "--chain-id="] {
        let ask = ["query", "params", "--node", &url, chain];
        let (code, out, err) = stage.ran(&[&ask[..], &with].concat());
        assert!(code == 0 && out.contains("bid_min_deposits"), "{err}");
    }
    let (code, _, err) = stage.ran(&[&ask[..], &["--node-ca=/nowhere.pem"]].concat());
    assert!(code == 1 && err.contains("/nowhere.pem"), "{err}");
    // Pushed blocks use the same TLS configuration.
    let provider = stage.provider("provider", &[&["--node", &url][..], &with].concat());
    provider.says("ready: bidding");
    let id = stage.order(1);
    stage.bid(&id, &provider);
}
