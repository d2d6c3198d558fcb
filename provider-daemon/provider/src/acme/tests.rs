//! Tests without an ACME server: settings, and the check of certificates.

mod pebble;

use super::AcmeSettings;
use super::check::{CertificateFault, Validity, check};
use crate::args::RunArgs;
use crate::args::run_line::RunLine;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use std::path::Path;
use std::time::{Duration, SystemTime};

const NAME: &str = "provider.test";
const NOW: Duration = Duration::from_secs(1_800_000_000);
const DAY: Duration = Duration::from_hours(24);

/// Returns the arguments of `run` with the ACME client enabled.
fn args(words: &[&str]) -> Box<RunArgs> {
    let enabled = ["--cert-issuer-enabled", "--cluster-public-hostname=provider.test"];
    RunLine::real(&[&enabled, words].concat()).unwrap()
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns the PEM of a key and of a certificate from `issuer` for `name` that expires at `end`.
fn issued(issuer: &CertifiedIssuer<'_, KeyPair>, name: &str, end: Duration) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = (SystemTime::UNIX_EPOCH + end - 90 * DAY).into();
    params.not_after = (SystemTime::UNIX_EPOCH + end).into();
    (key.serialize_pem(), params.signed_by(&key, issuer).unwrap().pem())
}

#[test]
fn certificate_is_used_only_with_matching_key_name_time_and_issuer() {
    let (ours, other) = (authority("ours"), authority("other"));
    let roots = RootCertStore::empty();
    let checked = |key: &str, leaf: &str, chain: &str| {
        check(format!("{key}{leaf}{chain}").as_bytes(), NAME, NOW, &roots)
    };
    let (key, leaf) = issued(&ours, NAME, NOW + 30 * DAY);
    let valid = Validity::new(NOW - 60 * DAY, NOW + 30 * DAY);
    assert_eq!(checked(&key, &leaf, &ours.pem()), Ok(valid));
    let (other_key, wrong_name) = issued(&ours, "other.test", NOW + 30 * DAY);
    let (old_key, old) = issued(&ours, NAME, NOW - DAY);
    let (new_key, early) = issued(&ours, NAME, NOW + 100 * DAY);
    for (key, leaf, chain, fault) in [
        (&other_key, &leaf, ours.pem(), CertificateFault::Key),
        (&key, &String::new(), String::new(), CertificateFault::Empty),
        (&key, &leaf, String::new(), CertificateFault::Chain),
        (&key, &leaf, other.pem(), CertificateFault::Chain),
        (
            &other_key,
            &wrong_name,
            ours.pem(),
            CertificateFault::Name(NAME.to_owned()),
        ),
        (&old_key, &old, ours.pem(), CertificateFault::Time),
        (&new_key, &early, ours.pem(), CertificateFault::Time),
    ] {
        assert_eq!(checked(key, leaf, &chain), Err(fault));
    }
    for damaged in [
        "",
        "words",
        "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n",
    ] {
        assert!(
            matches!(checked("", damaged, ""), Err(CertificateFault::Pem(_))),
            "{damaged}"
        );
    }
    // A certificate authority that the system trusts need not be in the chain.
    let mut roots = RootCertStore::empty();
    roots.add(ours.der().clone()).unwrap();
    assert_eq!(
        check(format!("{key}{leaf}").as_bytes(), NAME, NOW, &roots),
        Ok(valid)
    );
}

#[test]
fn certificates_of_different_servers_have_different_files() {
    let file = |words: &[&str]| {
        let words = [words, &["--cert-issuer-http-challenge-port=80"]].concat();
        let settings = AcmeSettings::from_args(&args(&words), Path::new("/home")).unwrap();
        settings.unwrap().certificate_file().display().to_string()
    };
    let staging = "/home/.certissuer/acme-staging-v02.api.letsencrypt.org_directory/provider.test.pem";
    assert_eq!(file(&[]), staging);
    let local = [
        "--cert-issuer-ca-dir-url=https://ca.test:9000/../acme/x",
        "--cert-issuer-storage-dir=/data",
    ];
    assert_eq!(file(&local), "/data/ca.test_9000_acme_x/provider.test.pem");
}

#[test]
fn no_certificate_is_ordered_without_a_challenge_port_or_beside_a_given_certificate() {
    let of = |words: &[&str]| {
        let args = args(words);
        let notices = args.notices(|_| None).join("\n");
        (
            AcmeSettings::from_args(&args, Path::new("")).unwrap().is_some(),
            notices,
        )
    };
    let port = "--cert-issuer-tls-challenge-port=443";
    assert_eq!(of(&[port]), (true, String::new()));
    let (is_used, notices) = of(&["--cert-issuer-dns-providers=cf"]);
    assert!(
        !is_used && notices.contains("for DNS-01, use cert-manager"),
        "{notices}"
    );
    let (is_used, notices) = of(&[port, "--gateway-tls-cert=a", "--gateway-tls-key=b"]);
    assert!(
        !is_used && notices.contains("no effect with --gateway-tls-cert"),
        "{notices}"
    );
    assert_eq!(of(&["--cert-issuer-enabled=false"]), (false, String::new()));
}

#[test]
fn invalid_settings_of_the_acme_client_are_errors() {
    for words in [
        ["--cluster-public-hostname=", ""],
        ["--cluster-public-hostname=localhost", ""],
        ["--cluster-public-hostname=10.0.0.1", ""],
        ["--cert-issuer-kid=a", ""],
        ["--cert-issuer-kid=a", "--cert-issuer-hmac=not base64"],
        ["--cert-issuer-kid=", "--cert-issuer-hmac=YWJj"],
    ] {
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let args = args(&[&words[..], &["--cert-issuer-http-challenge-port=80"]].concat());
        assert!(
            AcmeSettings::from_args(&args, Path::new("")).is_err(),
            "{words:?}"
        );
    }
}
