use super::*;
use akash_provider_chain::private_key::PrivateKey;
use testbed::recordings;

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

fn token(algorithm: Algorithm) -> String {
    let key = key();
    let claims = json!({ "iss": key.address().as_str(), "note": "<&>" });
    encode(algorithm, key.address(), &claims, |text| key.sign(text))
}

#[test]
fn both_algorithms_verify_and_no_changed_byte_does() {
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
fn other_algorithms_and_forms_are_no_tokens() {
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
    // The other root: s becomes the order less s.
    let mut borrow = 0_i16;
    for (at, byte) in ORDER.iter().enumerate().rev() {
        let mut digit = i16::from(*byte) - i16::from(parsed.signature[32 + at]) - borrow;
        borrow = i16::from(digit < 0);
        digit += 256 * borrow;
        parsed.signature[32 + at] = u8::try_from(digit).unwrap();
    }
    assert!(!parsed.is_signed_by(key().address(), key().public()));
}

#[test]
#[ignore = "reads the chain SDK's test data in AKASH_FIXTURES"]
fn the_networks_own_vectors_are_judged_as_the_network_judges_them() {
    let folder = recordings::sdk("jwt");
    let mnemonic = std::fs::read_to_string(folder.join("mnemonic")).unwrap();
    let signer = key_of(&mnemonic);
    let cases = recordings::json(&folder.join("cases_es256k.json"));
    let mut valid = 0;
    for case in cases.as_array().unwrap() {
        let text = case["tokenString"].as_str().unwrap();
        let must_fail = case["mustFail"].as_bool().unwrap();
        let verified = Token::parse(text).is_some_and(|t| t.is_signed_by(signer.address(), signer.public()));
        assert_eq!(verified, !must_fail, "{}", case["description"]);
        valid += u32::from(verified);
    }
    assert!(valid >= 2, "only {valid} vectors were valid");
}

fn key_of(mnemonic: &str) -> PrivateKey {
    let (words, none) = (mnemonic.trim().into(), "".into());
    akash_provider_chain::keyring::key_of_mnemonic(&words, &none, "m/44'/118'/0'/0/0").unwrap()
}

#[test]
fn what_must_be_understood_is_not_and_the_token_is_refused() {
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
