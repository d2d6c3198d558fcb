//! Authentication on both sides: invalid certificates and tokens.

use crate::tenant::stage::{RunningProvider, Stage, certificate, ran, sample};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_gateway::CertificateFiles;
use akash_provider_gateway::auth::Clock;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::time::{Duration, UNIX_EPOCH};

const OF: [&str; 4] = ["--dseq", "7", "--auth-type", "mtls"];

#[test]
fn missing_unpublished_or_revoked_certificate_is_reported_before_a_request() {
    let stage = Stage::new("certificate");
    let provider = stage.provider(41);
    let sdl = sample("web.yaml");
    let lease = stage.lease(7, &sdl, &[&provider]).remove(0);
    let ran = |words: &[&str]| stage.ran(&[words, &OF].concat());
    ran(&["send-manifest", &sdl]).good();
    provider.runs(&lease);
    ran(&["lease-status"]).good();

    stage.ran(&["tx", "cert", "revoke", "client", "--yes"]).good();
    stage.settle();
    ran(&["lease-status"]).failed(&["is revoked", "tx cert generate client --overwrite"]);
    stage
        .ran(&["tx", "cert", "generate", "client", "--overwrite"])
        .good();
    ran(&["lease-status"]).failed(&["is not on the chain", "tx cert publish client"]);
    let home = stage.path("elsewhere");
    std::fs::create_dir_all(&home).unwrap();
    ran(&["lease-status", "--home", &home]).failed(&["no certificate at", "tx cert generate client"]);
    // Skipping the chain for the address does not skip it for certificates.
    let unasked = [
        "--provider",
        provider.address.as_str(),
        "--provider-url",
        &provider.url,
    ];
    let refused = ran(&[&["lease-status"], &unasked[..]].concat());
    refused.failed(&["is not on the chain"]);
    // A token works with the skipped chain.
    stage.ran(&["lease-status", "--dseq", "7"]).good();
}

#[test]
fn lease_of_another_tenant_is_refused() {
    let stage = Stage::new("stranger");
    let provider = stage.provider(42);
    let sdl = sample("web.yaml");
    let lease = stage.lease(7, &sdl, &[&provider]).remove(0);
    stage.ran(&["send-manifest", &sdl, "--dseq", "7"]).good();
    provider.runs(&lease);
    let words = "legal winner thank year wave sausage worth useful legal winner thank yellow";
    let other = stage.file("other", words);
    let of = ["--dseq", "7", "--key-file", &other];
    stage
        .ran(&[&["lease-status"], &of[..]].concat())
        .failed(&["no such lease"]);
    // Skipping the chain does not help, because the provider does not know this account.
    let around = [
        "--provider",
        provider.address.as_str(),
        "--provider-url",
        &provider.url,
    ];
    let asked = stage.ran(&[&["lease-status"], &of[..], &around[..]].concat());
    asked.failed(&["status 401", "your clock"]);
    let owner = ["--owner", provider.address.as_str()];
    let asked = stage.ran(&[&["lease-status", "--dseq", "7"], &owner[..]].concat());
    asked.failed(&["differs from the account of the key"]);
}

#[test]
fn provider_is_trusted_only_with_its_certificate_from_the_chain() {
    let stage = Stage::new("believed");
    let (honest, other) = (stage.provider(43), stage.provider(44));
    let address = honest.address.as_str();
    stage.settle();
    stage.ran(&["status", address]).good();
    // Another provider responds at this address, with its own certificate from the chain.
    let at_other = stage.ran(&["status", address, "--provider-url", &other.url]);
    at_other.failed(&["cannot verify that", other.address.as_str()]);
    let offline = stage.ran(&["status", address, "--provider-url", &honest.url, "--offline"]);
    offline.failed(&["the certificate is self-signed", "--offline"]);
    stage
        .ran(&["status", address, "--offline"])
        .failed(&["--provider-url"]);
    stage
        .chain
        .market(|market| market.execute(&honest.own.revoke()).unwrap());
    stage.settle();
    stage.ran(&["status", address]).failed(&["is revoked"]);
    // A newer certificate that the provider does not present changes nothing.
    certificate(&stage.chain, &honest.address);
    stage.settle();
    stage.ran(&["status", address]).failed(&["is revoked"]);
}

#[test]
fn expired_or_future_token_suggests_a_clock_problem() {
    let stage = Stage::new("clocks");
    let now = || UNIX_EPOCH.elapsed().unwrap();
    let hour = Duration::from_secs(3600);
    let later = stage.provider_with(47, |settings| settings.clock = Clock::new(move || now() + hour));
    let earlier = stage.provider_with(48, |settings| settings.clock = Clock::new(move || now() - hour));
    stage.settle();
    let asked = |provider: &RunningProvider| {
        let at = [
            "--provider",
            provider.address.as_str(),
            "--provider-url",
            &provider.url,
        ];
        stage.ran(&[&["lease-status", "--dseq", "7"], &at[..]].concat())
    };
    asked(&later).failed(&["status 401", "JWT is expired", "your clock"]);
    asked(&earlier).failed(&["status 400", "synchronized clocks"]);
}

#[test]
fn public_authority_or_chain_verifies_the_provider() {
    let stage = Stage::new("public");
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let roots = stage.file("ca.pem", &issuer.pem());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let public = params.signed_by(&key, &issuer).unwrap();
    let files = CertificateFiles {
        certificate: stage.file("public.pem", &public.pem()).into(),
        key: stage.file("public.key", &key.serialize_pem()).into(),
    };
    let provider = stage.provider_with(49, |settings| {
        settings.public_hostname = "localhost".to_owned();
        settings.public_certificate = Some(files);
    });
    let sdl = sample("web.yaml");
    let lease = stage.lease(7, &sdl, &[&provider]).remove(0);
    let by_name = provider.url.replace("127.0.0.1", "localhost");
    let at = [
        "--dseq",
        "7",
        "--provider",
        provider.address.as_str(),
        "--provider-url",
        &by_name,
    ];
    let trusting = |words: &[&str]| {
        let mut command = stage.command(&[words, &at].concat());
        ran(command.env("SSL_CERT_FILE", &roots))
    };
    // No node is queried, because the name is sufficient.
    trusting(&["send-manifest", &sdl, "--offline"]).good();
    provider.runs(&lease);
    trusting(&["lease-status", "--offline"]).good();
    // With a client certificate the client requests another server name, and the provider presents its own
    // certificate.
    trusting(&["lease-status", "--auth-type", "mtls"]).good();
    trusting(&["lease-status", "--auth-type", "mtls", "--offline"])
        .failed(&["the certificate is self-signed"]);
    // A certificate authority that is not trusted locally is not accepted.
    let stranger = stage.ran(&[&["lease-status"], &at[..]].concat());
    stranger.failed(&["cannot verify that", "public CA"]);
}

#[test]
fn missing_objects_are_reported_with_remedy() {
    let stage = Stage::new("absent");
    let nobody = PrivateKey::from_bytes(&[45; 32]).unwrap().address().to_string();
    stage
        .ran(&["status", &nobody])
        .failed(&["is not registered on this chain", "--provider"]);
    stage
        .ran(&["lease-status", "--dseq", "99"])
        .failed(&["no such lease", "query leases"]);
    stage
        .ran(&["status", &nobody, "--provider-url", "http://localhost:8443"])
        .failed(&["require https"]);
    // Valid URL paths with the wrong port, in both directions.
    let node = stage.node();
    let plain = node.replace("http://", "https://");
    stage
        .ran(&["status", &nobody, "--provider-url", &plain])
        .failed(&["does not serve TLS", "plain HTTP"]);
    let address: akash_provider_core::types::Address = nobody.parse().unwrap();
    stage.register(&address, "https://127.0.0.1:1");
    stage.settle();
    stage
        .ran(&["status", &nobody])
        .failed(&["cannot reach https://127.0.0.1:1"]);
    let provider = stage.provider(46);
    let plain = provider.url.replace("https://", "http://");
    stage
        .ran(&["query", "params", "--node", &plain])
        .failed(&["this is an https port", "use https://"]);
    let sdl = sample("web.yaml");
    let lease = stage.lease(5, &sdl, &[&provider]).remove(0);
    let of = ["--dseq", "5", "--provider", provider.address.as_str()];
    let early = stage.ran(&[&["lease-status"], &of[..]].concat());
    early.failed(&["status 404", "send-manifest"]);
    let other = stage.file(
        "other.yaml",
        &std::fs::read_to_string(&sdl)
            .unwrap()
            .replace("count: 2", "count: 3"),
    );
    let refused = stage.ran(&[&["send-manifest", &other], &of[..]].concat());
    let out = refused.failed(&[]);
    assert!(
        out.contains("status:       FAIL") && out.contains("status 422"),
        "{out}"
    );
    let close = akash_provider_core::market::TenantMsg::CloseDeployment {
        id: lease.deployment().clone(),
    };
    stage.chain.tenant(close).unwrap();
    stage.settle();
    stage
        .ran(&[&["lease-status"], &of[..]].concat())
        .failed(&["is closed"]);
    stage.ran(&["lease-status", "--dseq", "5"]).failed(&["is closed"]);
}

#[test]
fn unavailable_node_is_reported() {
    let stage = Stage::new("no-node");
    let begun = std::time::Instant::now();
    let asked = stage.ran(&["lease-status", "--dseq", "7", "--node", "http://127.0.0.1:1"]);
    asked.failed(&["127.0.0.1:1"]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
