use super::*;
use akash_provider_chain::private_key::PrivateKey;

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

fn token(algorithm: Algorithm) -> String {
    let key = key();
    let claims = json!({ "iss": key.address().as_str(), "note": "<&>" });
    encode(algorithm, key.address(), &claims, |text| key.sign(text))
}

#[test]
fn both_algorithms_verify_and_refuse_any_changed_byte() {
    let (key, stranger) = (key(), PrivateKey::from_bytes(&[8; 32]).unwrap());
    for algorithm in [Algorithm::Es256k, Algorithm::Es256kAdr36] {
        let text = token(algorithm);
        let parsed = Token::parse(&text).unwrap();
        assert!(parsed.is_signed_by(key.address(), key.public()));
        assert!(!parsed.is_signed_by(key.address(), stranger.public()));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let verified =
                Token::parse(&changed).is_some_and(|t| t.is_signed_by(key.address(), key.public()));
            assert!(!verified, "byte {at} of {algorithm:?}");
        }
    }
}

#[test]
fn other_algorithms_and_forms_are_refused() {
    let head = |alg: &str| BASE64URL_NOPAD.encode(json!({ "alg": alg }).to_string().as_bytes());
    let good = token(Algorithm::Es256k);
    let (_, rest) = good.split_once('.').unwrap();
    for alg in ["none", "HS256", "ES256", "es256k", ""] {
        assert!(Token::parse(&format!("{}.{rest}", head(alg))).is_none(), "{alg}");
    }
    let (signed, _) = good.rsplit_once('.').unwrap();
    for text in [
        String::new(),
        "..".to_owned(),
        "a.b.c".to_owned(),
        format!("{good}="),
        format!("{signed}."),
        format!("{good}.{rest}"),
        "x".repeat(TOKEN_BYTES_MAX + 1),
    ] {
        let verified = Token::parse(&text).is_some_and(|t| t.is_signed_by(key().address(), key().public()));
        assert!(!verified, "{text}");
    }
}

#[test]
fn a_high_s_is_refused() {
    const ORDER: [u8; 32] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xba,
        0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
    ];
    let text = token(Algorithm::Es256k);
    let mut parsed = Token::parse(&text).unwrap();
    // The other root: the order minus s.
    let mut borrow = 0_i16;
    for (at, byte) in ORDER.iter().enumerate().rev() {
        let mut digit = i16::from(*byte) - i16::from(parsed.signature[32 + at]) - borrow;
        borrow = i16::from(digit < 0);
        digit += 256 * borrow;
        parsed.signature[32 + at] = u8::try_from(digit).unwrap();
    }
    assert!(!parsed.is_signed_by(key().address(), key().public()));
}

/// Verifies tokens that another implementation signed, to find errors that signing and verification share.
#[test]
fn signatures_of_another_implementation_verify() {
    const PAYLOAD: &str = "eyJpc3MiOiJha2FzaDE1MHJ0cm1qMmY4dmw5dGVtOHFwZnczNnlsdzVqZzlqMjdjOHdxciIsImV4cCI6MTc2MDQwNjc0MCwi\
                 bmJmIjoxNzYwNDA0OTQwLCJpYXQiOjE3NjA0MDQ5NDAsInZlcnNpb24iOiJ2MSIsImxlYXNlcyI6eyJhY2Nlc3MiOiJzY29w\
                 ZWQiLCJzY29wZSI6WyJzdGF0dXMiLCJzaGVsbCJdfX0";
    let (es256k, adr36) = (
        "eyJhbGciOiJFUzI1NksiLCJ0eXAiOiJKV1QifQ",
        "eyJhbGciOiJFUzI1NktBRFIzNiIsInR5cCI6IkpXVCJ9",
    );
    let cases = [
        (
            es256k,
            "763T0k-Dsj_GpiNmCKn5EYXKWLm2YSwcB9JlNhmzkhskrBuA7sBAoIbGtAUHMpoFn_JJLB3FubRqJN6L7fj3fw",
            "763T0k-Dsj_GpiNmCKn5EYXKWLm2YSwcB9JlNhmzkhvbU-R_ET-_X3k5S_r4zWX5GryTupGC5odVrYAA4j1Jwg",
        ),
        (
            adr36,
            "gDb-r9HSicHSuXvvFlS9dBKm4kuMWZp_E5NDtxjkfFh4jUI5wtcAaNjaGO4JYHTqYxwWLmyIJteHgBKNbpZ8Fg",
            "gDb-r9HSicHSuXvvFlS9dBKm4kuMWZp_E5NDtxjkfFiHcr3GPSj_lycl5xH2n4sUV5LGuELAeWQ4Ukv_YZ_FKw",
        ),
    ];
    let verifies = |header: &str, signature: &str| {
        let text = format!("{header}.{PAYLOAD}.{signature}");
        Token::parse(&text)
            .unwrap()
            .is_signed_by(key().address(), key().public())
    };
    for (header, signature, high_s) in cases {
        assert!(verifies(header, signature), "{header}");
        assert!(!verifies(header, high_s), "{header}");
    }
    let swapped = [verifies(es256k, cases[1].1), verifies(adr36, cases[0].1)];
    assert_eq!(
        swapped,
        [false, false],
        "the header names the text that is signed"
    );
}

#[test]
fn token_with_critical_extension_is_refused() {
    let key = key();
    let claims = json!({ "iss": key.address().as_str() });
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let of = |header: Value| {
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = BASE64URL_NOPAD.encode(&key.sign(signed.as_bytes()));
        Token::parse(&format!("{signed}.{signature}")).is_some()
    };
    assert!(of(json!({ "alg": "ES256K", "kid": "unknown and harmless" })));
    for crit in [json!(["b64"]), json!([]), json!(null)] {
        assert!(!of(json!({ "alg": "ES256K", "crit": crit })), "{crit}");
    }
}
