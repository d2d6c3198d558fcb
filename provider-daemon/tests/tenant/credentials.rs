//! Who is let in, and who is believed: certificates and tokens that are not right, on either side.

use crate::stage::{Stage, certificate, sample};
use akash_provider_chain::private_key::PrivateKey;
use std::time::Duration;

const OF: [&str; 4] = ["--dseq", "7", "--auth-type", "mtls"];

#[test]
fn a_certificate_that_is_not_made_not_published_or_revoked_is_told_before_anybody_is_asked() {
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
    ran(&["lease-status"]).failed(&["is revoked, for good", "tx cert generate client --overwrite"]);
    stage
        .ran(&["tx", "cert", "generate", "client", "--overwrite"])
        .good();
    ran(&["lease-status"]).failed(&["is not on the chain", "tx cert publish client"]);
    let home = stage.path("elsewhere");
    std::fs::create_dir_all(&home).unwrap();
    ran(&["lease-status", "--home", &home]).failed(&["there is no certificate", "tx cert generate client"]);
    // Going around the chain for the address does not go around it for certificates.
    let unasked = [
        "--provider",
        provider.address.as_str(),
        "--provider-url",
        &provider.url,
    ];
    let refused = ran(&[&["lease-status"], &unasked[..]].concat());
    refused.failed(&["is not on the chain"]);
    // A token still does.
    stage.ran(&["lease-status", "--dseq", "7"]).good();
}

#[test]
fn somebody_else_s_lease_is_not_shown() {
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
    // Going around the chain does not help: to the provider this account is nobody.
    let around = [
        "--provider",
        provider.address.as_str(),
        "--provider-url",
        &provider.url,
    ];
    let asked = stage.ran(&[&["lease-status"], &of[..], &around[..]].concat());
    asked.failed(&["answers 401", "your clock"]);
    let owner = ["--owner", provider.address.as_str()];
    let asked = stage.ran(&[&["lease-status", "--dseq", "7"], &owner[..]].concat());
    asked.failed(&["is not the account of the key"]);
}

#[test]
fn a_provider_is_believed_only_with_its_own_certificate_from_the_chain() {
    let stage = Stage::new("believed");
    let (honest, other) = (stage.provider(43), stage.provider(44));
    let address = honest.address.as_str();
    stage.settle();
    stage.ran(&["status", address]).good();
    // Somebody else answers at its address, with a certificate that is on the chain too.
    let at_other = stage.ran(&["status", address, "--provider-url", &other.url]);
    at_other.failed(&["does not show that it is the provider", other.address.as_str()]);
    let offline = stage.ran(&["status", address, "--provider-url", &honest.url, "--offline"]);
    offline.failed(&["the chain alone vouches", "--offline"]);
    stage
        .ran(&["status", address, "--offline"])
        .failed(&["--provider-url"]);
    stage
        .chain
        .market(|market| market.execute(&honest.own.revoke()).unwrap());
    stage.settle();
    stage.ran(&["status", address]).failed(&["is revoked"]);
    // A newer one that it does not show changes nothing.
    certificate(&stage.chain, &honest.address);
    stage.settle();
    stage.ran(&["status", address]).failed(&["is revoked"]);
}

#[test]
fn what_is_not_there_is_told_with_the_mend() {
    let stage = Stage::new("absent");
    let nobody = PrivateKey::from_bytes(&[45; 32]).unwrap().address().to_string();
    stage
        .ran(&["status", &nobody])
        .failed(&["is no provider on this chain", "--provider"]);
    stage
        .ran(&["lease-status", "--dseq", "99"])
        .failed(&["no such lease", "query leases"]);
    let known: akash_provider_core::types::Address = nobody.parse().unwrap();
    stage.register(&known, "http://localhost:8443");
    stage.settle();
    stage.ran(&["status", &nobody]).failed(&["is not https"]);
    stage.register(&known, "https://127.0.0.1:1");
    stage.settle();
    stage
        .ran(&["status", &nobody])
        .failed(&["https://127.0.0.1:1 cannot be reached"]);
    let provider = stage.provider(46);
    let sdl = sample("web.yaml");
    let lease = stage.lease(5, &sdl, &[&provider]).remove(0);
    let of = ["--dseq", "5", "--provider", provider.address.as_str()];
    let early = stage.ran(&[&["lease-status"], &of[..]].concat());
    early.failed(&["answers 404", "send-manifest"]);
    let other = stage.file(
        "other.yaml",
        &std::fs::read_to_string(&sdl)
            .unwrap()
            .replace("count: 2", "count: 3"),
    );
    let refused = stage.ran(&[&["send-manifest", &other], &of[..]].concat());
    let out = refused.failed(&[]);
    assert!(
        out.contains("status:       FAIL") && out.contains("answers 422"),
        "{out}"
    );
    let close = akash_provider_core::market::TenantMsg::CloseDeployment {
        id: lease.deployment().clone(),
    };
    stage.chain.tenant(close).unwrap();
    stage.settle();
    stage
        .ran(&[&["lease-status"], &of[..]].concat())
        .failed(&["is over"]);
    stage.ran(&["lease-status", "--dseq", "5"]).failed(&["is over"]);
}

#[test]
fn a_node_that_is_away_is_told() {
    let stage = Stage::new("no-node");
    let begun = std::time::Instant::now();
    let asked = stage.ran(&["lease-status", "--dseq", "7", "--node", "http://127.0.0.1:1"]);
    asked.failed(&["127.0.0.1:1"]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
