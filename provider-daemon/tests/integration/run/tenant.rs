//! A complete deployment over the wire: order, lease, manifest, status, close.

use crate::http::{curl, token};
use crate::stage::{ADDRESS, Running, Stage, until};
use akash_provider_chain::keyring::{DEFAULT_PATH, derive_key};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::{Address, Coin};
use serde_json::Value;
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));

/// Returns the URL of the gateway once it is served.
pub(crate) fn url(provider: &Running) -> String {
    provider.says("\"event\":\"gateway\"");
    let output = provider.output();
    let line = output
        .lines()
        .find(|line| line.contains("\"event\":\"gateway\""))
        .unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    line["url"].as_str().unwrap().to_owned()
}

#[test]
fn tenant_is_served_from_order_to_close() {
    let mut stage = Stage::new("tenant", true);
    let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
    stage.chain.market(|market| {
        let coin = Coin::new("uact", 1_000_000_000);
        market.fund(key.address(), &coin);
        market.set_pubkey(key.address(), key.public().as_bytes().to_vec());
    });
    stage.start_node(FAST);
    let gateway = [
        "--gateway-listen-address=127.0.0.1:0",
        "--certificate-domain=localhost",
        "--deployment-ingress-static-hosts",
        "--deployment-ingress-domain=ingress.localhost",
        "--output=json",
    ];
    let provider = stage.provider("provider", &gateway);
    let url = url(&provider);
    let account: Address = ADDRESS.parse().unwrap();
    until(
        "the certificate is published",
        || provider.dump(),
        || {
            stage
                .chain
                .market(|market| market.certificates(&account).len() == 1)
        },
    );
    let Some((status, body)) = curl(&[&format!("{url}/status")]) else {
        return;
    };
    assert!(status == 200 && body.contains(ADDRESS), "{status} {body}");

    let id = stage.order_of(key.address(), 9);
    let bid = stage.bid(&id, &provider);
    stage.accept(bid.id);
    provider.says("\"event\":\"lease_won\"");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
    let (code, manifest, err) = stage.ran(&["sdl", "manifest", sample]);
    assert_eq!(code, 0, "{err}");
    let file = stage.path("manifest.json");
    std::fs::write(&file, manifest).unwrap();
    let (bearer, data) = (
        format!("Authorization: Bearer {}", token(&key)),
        format!("@{}", file.display()),
    );
    let put = format!("{url}/deployment/9/manifest");
    let (status, body) = curl(&[
        "--request",
        "PUT",
        "--header",
        &bearer,
        "--data-binary",
        &data,
        &put,
    ])
    .unwrap();
    assert_eq!(status, 200, "{body}\n{}", provider.dump());
    provider.says("\"event\":\"deployed\"");
    provider.says("\"health\":\"good\"");
    let lease = format!("{url}/lease/9/1/1/status");
    let (status, body) = curl(&["--header", &bearer, &lease]).unwrap();
    assert!(status == 200 && body.contains("\"web\""), "{status} {body}");
    stage.close(id);
    provider.says("\"event\":\"lease_closed\"");
}

/// Mnemonic of the tenant's key.
pub(crate) const WORDS: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

/// Returns a tenant with funds, and the file with its mnemonic.
pub(crate) fn tenant(stage: &Stage) -> (PrivateKey, String) {
    let key = derive_key(&WORDS.into(), &"".into(), DEFAULT_PATH).unwrap();
    let words = stage.path("tenant");
    std::fs::write(&words, WORDS).unwrap();
    stage.chain.market(|market| {
        for denom in ["uact", "uakt"] {
            let coin = Coin::new(denom, 1_000_000_000);
            market.fund(key.address(), &coin);
        }
    });
    (key, words.display().to_string())
}

/// Starts a provider, and publishes its gateway address on the chain.
fn reachable(stage: &Stage) -> Running {
    let gateway = [
        "--gateway-listen-address=127.0.0.1:0",
        "--certificate-domain=localhost",
        "--deployment-ingress-static-hosts",
        "--deployment-ingress-domain=ingress.localhost",
        "--output=json",
    ];
    let provider = stage.provider("provider", &gateway);
    let record = stage.path("provider.yaml");
    let text = format!("host: {}\nattributes: []\n", url(&provider));
    std::fs::write(&record, text).unwrap();
    let (code, _, err) = stage.ran(&["tx", "provider", "update", record.to_str().unwrap(), "--yes"]);
    assert_eq!(code, 0, "{err}");
    provider.says("\"is_ready\":true");
    provider
}

#[test]
fn tenant_commands_cover_complete_deployment() {
    let mut stage = Stage::new("commands", true);
    let (key, words) = tenant(&stage);
    stage.start_node(FAST);
    let provider = reachable(&stage);
    let tenant = ["--key-file", words.as_str()];
    let ran = |more: &[&str]| stage.ran(&[more, &tenant].concat());
    let good = |more: &[&str]| {
        let (code, out, err) = ran(more);
        assert_eq!(code, 0, "{more:?}: {out}{err}\n{}", provider.dump());
        out
    };
    good(&["tx", "cert", "generate", "client"]);
    good(&["tx", "cert", "publish", "client", "--yes"]);
    let id = stage.order_of(key.address(), 9);
    let bid = stage.bid(&id, &provider);
    stage.accept(bid.id.clone());
    // Submits without waiting for the provider, because the command waits.
    until(
        "the lease at the node",
        || provider.dump(),
        || {
            stage
                .ran(&["query", "leases", "-o", "json"])
                .1
                .contains("\"dseq\":\"9\"")
        },
    );
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
    let sent = good(&["send-manifest", sample, "--dseq", "9"]);
    assert_eq!(sent, format!("provider: {ADDRESS}\n\tstatus:       PASS\n"));
    provider.says("\"health\":\"good\"");
    for auth in ["jwt", "mtls"] {
        let status = good(&[
            "lease-status",
            "-o",
            "json",
            "--dseq",
            "9",
            "--provider",
            ADDRESS,
            "--auth-type",
            auth,
        ]);
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["services"]["web"]["available"], 2, "{auth}");
    }
    good(&["lease-logs", "--dseq", "9"]);
    good(&["lease-events", "--dseq", "9"]);
    assert_eq!(good(&["lease-shell", "web", "cat", "--dseq", "9"]), "");
    assert!(good(&["get-manifest", "--dseq", "9"]).contains("nginx"));
    stage.close(id);
    provider.says("\"event\":\"lease_closed\"");
    until(
        "the end of the lease",
        || provider.dump(),
        || ran(&["lease-status", "--dseq", "9"]).2.contains("is closed"),
    );
}

#[test]
fn gateway_and_bids_wait_for_certificate() {
    let mut stage = Stage::new("no-certificate", true);
    stage.start_node(FAST);
    let provider = stage.provider("provider", &["--gateway-listen-address=127.0.0.1:0"]);
    provider.says("waiting for a certificate, so that tenants reach it");
    let id = stage.order(1);
    provider.says("order seen");
    std::thread::sleep(Duration::from_secs(2));
    assert!(
        stage.bids(&id).is_empty(),
        "a bid was placed although no manifest could be sent"
    );
    let (code, _, err) = stage.ran(&["tx", "cert", "generate", "server", "localhost"]);
    assert_eq!(code, 0, "{err}");
    provider.says("gateway at https://127.0.0.1:");
    provider.says("ready: bidding");
    stage.bid(&id, &provider);
}
