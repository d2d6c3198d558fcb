//! Certificates compared with recordings from the chain, and with invalid input.

use super::*;
use akash_provider_core::chain::Certificate;
use std::fs;
use testbed::recordings;

fn owner() -> Address {
    "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap()
}

fn now() -> Duration {
    Duration::new(1_795_253_704, 990_464_384)
}

fn server() -> CertUsage {
    CertUsage::Server {
        domains: vec!["provider.localhost".into()],
    }
}

/// Returns the signed part of a certificate, with zeros instead of the public key.
fn comparable(der: &[u8]) -> Vec<u8> {
    use x509_cert::der::{Decode, Encode};
    let certificate = x509_cert::Certificate::from_der(der).unwrap();
    let tbs = certificate.tbs_certificate();
    let key = tbs
        .subject_public_key_info()
        .subject_public_key
        .raw_bytes()
        .to_vec();
    let mut bytes = tbs.to_der().unwrap();
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap();
    bytes[at..at + key.len()].fill(0);
    bytes
}

#[test]
fn new_certificate_has_the_bytes_of_the_recorded_certificate() {
    let folder = recordings::folder("chain/cert");
    let tenant: Address = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap();
    let client_made_at = Duration::from_nanos(1_795_253_704_008_179_190);
    let cases = [
        ("provider", owner(), server(), now()),
        ("tenant", tenant, CertUsage::Client, client_made_at),
    ];
    for (name, owner, usage, made_at) in cases {
        let cert = fs::read(folder.join(format!("{name}-onchain-cert.pem"))).unwrap();
        let public_key = fs::read(folder.join(format!("{name}-onchain-pubkey.pem"))).unwrap();
        let info = check_published(&owner, &cert, &public_key).unwrap();
        assert_eq!(info.serial, made_at.as_nanos().to_string());
        let own = OwnCertificate::make(&owner, &usage, made_at).unwrap();
        let recorded = only_block(&cert, CERTIFICATE).unwrap();
        assert_eq!(comparable(own.der()), comparable(&recorded), "{name}");
        let own_info = CertificateInfo {
            public_key: info.public_key.clone(),
            ..own.info().clone()
        };
        assert_eq!(own_info, info);
        assert_eq!(
            own.cert_pem().lines().next(),
            std::str::from_utf8(&cert).unwrap().lines().next()
        );
        let lengths = |pem: &str| pem.lines().map(str::len).collect::<Vec<_>>();
        assert_eq!(
            lengths(&own.public_key_pem()),
            lengths(std::str::from_utf8(&public_key).unwrap())
        );
    }
}

#[test]
fn new_certificate_passes_the_checks_of_the_chain() {
    for usage in [CertUsage::Client, server()] {
        let own = OwnCertificate::make(&owner(), &usage, now()).unwrap();
        let info = check_published(
            &owner(),
            own.cert_pem().as_bytes(),
            own.public_key_pem().as_bytes(),
        )
        .unwrap();
        assert_eq!(&info, own.info());
        assert_eq!((info.client, info.server), (true, usage != CertUsage::Client));
        assert!(info.is_valid_at(now() + VALIDITY / 2));
        assert!(!info.is_valid_at(now() + VALIDITY + Duration::from_secs(1)));
        assert!(!info.is_valid_at(Duration::from_secs(now().as_secs() - 1)));
        let Msg::CreateCertificate {
            owner: signer,
            cert,
            pubkey,
        } = own.publish()
        else {
            panic!()
        };
        assert_eq!((signer, cert), (owner(), own.cert_pem().into_bytes()));
        assert_eq!(pubkey, own.public_key_pem().into_bytes());
        let serial = info.serial.clone();
        assert_eq!(
            own.revoke(),
            Msg::RevokeCertificate {
                owner: owner(),
                serial
            }
        );
        assert!(!format!("{own:?}").contains("SigningKey"));
    }
}

#[test]
fn refuses_certificates_that_the_chain_refuses() {
    let own = OwnCertificate::make(&owner(), &server(), now()).unwrap();
    let other = OwnCertificate::make(&owner(), &server(), now()).unwrap();
    let (cert, key) = (own.cert_pem(), own.public_key_pem());
    let check = |cert: &str, key: &str| check_published(&owner(), cert.as_bytes(), key.as_bytes());
    assert!(matches!(
        check(&cert, &other.public_key_pem()),
        Err(CertError::Refused(_))
    ));
    assert!(matches!(
        check(&cert, &key.replace("EC PUBLIC KEY", "PUBLIC KEY")),
        Err(CertError::Malformed(_))
    ));
    for text in [
        format!("{cert}{cert}"),
        format!("x\n{cert}"),
        format!("{cert}x"),
        String::new(),
        cert[..200].into(),
    ] {
        assert!(
            matches!(check(&text, &key), Err(CertError::Malformed(_))),
            "{text}"
        );
    }
    let other_account = Address::from_bytes(&[1; 20]).unwrap();
    let refused = check_published(&other_account, cert.as_bytes(), key.as_bytes());
    assert!(matches!(refused, Err(CertError::Owner { .. })));
    let large = format!("{cert}{}", " ".repeat(PEM_BYTES_MAX));
    assert!(read(large.as_bytes()).unwrap_err().to_string().contains("larger"));
    assert!(read(&[0xff; 10]).unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn refuses_invalid_domains() {
    let make = |domains: &[&str]| {
        let domains = domains.iter().map(|d| (*d).to_owned()).collect();
        OwnCertificate::make(&owner(), &CertUsage::Server { domains }, now())
    };
    assert!(matches!(make(&[]), Err(CertError::NoDomain)));
    let long = "a.".repeat(127) + "a";
    for bad in [
        "",
        "https://x",
        "x:8443",
        "a..b",
        "-a",
        "10.0.0.1",
        "::1",
        "a b",
        "ä.de",
        "a.*",
        long.as_str(),
    ] {
        assert!(matches!(make(&[bad]), Err(CertError::Domain { .. })), "{bad}");
    }
    let own = make(&["*.ingress.example.com", "a-1.example.com", "localhost"]).unwrap();
    assert_eq!(
        own.info().domains,
        ["*.ingress.example.com", "a-1.example.com", "localhost"]
    );
}

#[test]
fn certificate_with_a_changed_byte_never_verifies() {
    let own = OwnCertificate::make(&owner(), &server(), now()).unwrap();
    let key = own.public_key_pem();
    for at in 0..own.der().len() {
        let mut der = own.der().to_vec();
        der[at] ^= 1;
        let pem = encode_pem(CERTIFICATE, &der);
        let checked = check_published(&owner(), pem.as_bytes(), key.as_bytes());
        // The second copy of the algorithm is outside the signed part, and is compared with the signed copy.
        assert!(checked.is_err(), "{at}: {checked:?}");
        drop(read(encode_pem(CERTIFICATE, &der[..at]).as_bytes()));
    }
}

fn on_chain(own: &OwnCertificate, valid: bool) -> Certificate {
    Certificate {
        serial: own.info().serial.clone(),
        valid,
        cert: own.cert_pem().into_bytes(),
        pubkey: own.public_key_pem().into_bytes(),
    }
}

fn step(
    current: Option<&OwnCertificate>,
    next: Option<&OwnCertificate>,
    chain: &[Certificate],
    now: Duration,
) -> RotationStep {
    let pems = [current, next].map(|o| o.map(OwnCertificate::cert_pem));
    let of = |own: Option<&OwnCertificate>, at: usize| {
        own.zip(pems[at].as_ref())
            .map(|(o, p)| (o.info().clone(), p.as_bytes().to_vec()))
    };
    let (current, next) = (of(current, 0), of(next, 1));
    let view = |o: &Option<(CertificateInfo, Vec<u8>)>| o.as_ref().map(|(f, p)| (f.clone(), p.clone()));
    let (current, next) = (view(&current), view(&next));
    next_step(
        current.as_ref().map(|(f, p)| (f, &p[..])),
        next.as_ref().map(|(f, p)| (f, &p[..])),
        chain,
        now,
    )
}

#[test]
fn rotation_continues_after_an_interruption_at_any_step() {
    let old = OwnCertificate::make(&owner(), &server(), now()).unwrap();
    let day = Duration::from_secs(24 * 3600);
    let due = now() + VALIDITY - 6 * day;
    let new = OwnCertificate::make(&owner(), &server(), due).unwrap();
    let (old_valid, old_revoked) = (on_chain(&old, true), on_chain(&old, false));
    let new_valid = on_chain(&new, true);

    assert_eq!(step(None, None, &[], now()), RotationStep::Make);
    assert_eq!(
        step(Some(&old), None, &[], now() + day),
        RotationStep::PublishCurrent
    );
    let next_step = step(Some(&old), None, std::slice::from_ref(&old_valid), now() + day);
    assert!(
        matches!(next_step, RotationStep::Keep { recheck_in } if recheck_in > 350 * day && recheck_in < 358 * day),
        "{next_step:?}"
    );
    assert_eq!(
        step(Some(&old), None, &[old_revoked], now() + day),
        RotationStep::Make
    );

    assert_eq!(
        step(Some(&old), None, std::slice::from_ref(&old_valid), due),
        RotationStep::Make
    );
    assert_eq!(
        step(
            Some(&old),
            Some(&new),
            std::slice::from_ref(&old_valid),
            due + day
        ),
        RotationStep::PublishNext
    );
    assert_eq!(
        step(
            Some(&old),
            Some(&new),
            &[old_valid.clone(), new_valid.clone()],
            due + day
        ),
        RotationStep::Promote
    );
    let both = [old_valid.clone(), new_valid.clone()];
    assert!(matches!(
        step(Some(&new), None, &both, due + day),
        RotationStep::Keep { .. }
    ));
    assert_eq!(
        step(None, Some(&new), &[new_valid], due + day),
        RotationStep::Promote
    );

    assert_eq!(
        step(Some(&old), Some(&new), &[on_chain(&new, false)], due + day),
        RotationStep::DiscardNext
    );
    assert_eq!(
        step(Some(&old), Some(&old), std::slice::from_ref(&old_valid), due),
        RotationStep::DiscardNext
    );
    let impostor = Certificate {
        cert: old.cert_pem().into_bytes(),
        ..on_chain(&new, true)
    };
    assert_eq!(
        step(None, Some(&new), &[impostor], due + day),
        RotationStep::DiscardNext
    );
}
