//! Fuzz targets for the gateway's parsers of untrusted input. A fuzzer calls one of [`TARGETS`] with any bytes.
//!
//! A target panics when an invariant is broken. `tests/fuzz.rs` mutates the inputs of a corpus at random, on any
//! toolchain; a coverage-guided fuzzer uses the same functions and corpora (`fuzz/corpus`, the directory of
//! `cargo fuzz`).

use super::auth::claims::{self, Claims};
use super::auth::token::Token;
use super::auth::{Access, AccessTarget, Clock, Scope, Services};
use super::stream;
use super::tls::client_certificate;
use akash_provider_chain::cert;
use akash_provider_core::manifest;
use akash_provider_core::types::Address;
use std::time::Duration;

/// Function that parses an input. The function panics if an invariant is broken.
pub type FuzzTarget = fn(&[u8]);

/// Fuzz targets, each with the name of its corpus.
pub const TARGETS: [(&str, FuzzTarget); 5] = [
    ("certificate", certificate),
    ("frames", frames),
    ("jwt", jwt),
    ("manifest", manifest_json),
    ("query", query),
];

/// Parses the input as an `Authorization` header, as a token, and as the claims of a correctly signed token.
pub fn jwt(input: &[u8]) {
    let Ok(provider) = Address::from_bytes(&[1; 20]) else {
        return;
    };
    if let Some(token) = super::auth::bearer(input) {
        assert!(
            !token.contains([' ', '\t', '\r', '\n']),
            "a token has no white space"
        );
    }
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Some(token) = Token::parse(text) {
        assert!(token.claims.is_object(), "claims are an object");
        judge(&token.claims, &provider);
    }
    if let Ok(value) = serde_json::from_str(text) {
        judge(&value, &provider);
    }
}

fn judge(value: &serde_json::Value, provider: &Address) {
    let Ok(read) = Claims::read(value, provider) else {
        return;
    };
    assert_eq!(claims::issuer(value).as_ref(), Some(&read.issuer));
    assert!(
        read.check_time(read.expires).is_err(),
        "a token is invalid at its expiry"
    );
    assert!(read.lifetime() <= read.expires);
    let owner = read.issuer.clone();
    let identity = super::auth::Identity {
        owner,
        access: read.access.clone(),
        token_id: None,
        until: Duration::MAX,
    };
    let everywhere = Scope::ALL.map(|s| identity.permits(s, AccessTarget::Deployment(0)));
    match read.access {
        Access::Full => assert!(everywhere.iter().all(|s| *s == Some(Services::All))),
        Access::Scoped(scopes) => {
            let granted = everywhere.iter().flatten().count();
            assert_eq!(granted, scopes.len(), "the token grants the named scopes");
        }
        // No deployment has the number 0.
        Access::Granular(_) | Access::OtherProviders => assert!(everywhere.iter().all(Option::is_none)),
    }
}

/// Passes the input to two certificate parsers: the parser of the TLS server and that of the chain client.
pub fn certificate(input: &[u8]) {
    let now = Clock::new(|| Duration::from_secs(1_800_000_000));
    let is_accepted = client_certificate(input, &now);
    let read = cert::read_der(input);
    if let Ok(facts) = &read {
        assert!(!facts.serial.is_empty() && facts.serial.bytes().all(|b| b.is_ascii_digit()));
    }
    if is_accepted {
        assert!(
            read.is_ok_and(|facts| facts.client),
            "the serial of an accepted certificate can be queried"
        );
    }
    if let Ok(der) = cert::decode_pem(input) {
        certificate(&der);
    }
}

/// Parses the input as a manifest. Checks the hash. Also encodes the parsed manifest, parses the result, and
/// checks that both manifests are equal.
pub fn manifest_json(input: &[u8]) {
    let Ok((read, hashes)) = manifest::parse(input) else {
        return;
    };
    let hash = manifest::hash(&read);
    // A list sent as null is read as empty and hashed as null.
    let has_null = input.windows(4).any(|word| word == b"null");
    assert!(
        has_null || *hashes.known() == hash,
        "the hash follows from the parsed manifest"
    );
    let written = serde_json::to_vec(&read).unwrap_or_default();
    match manifest::parse(&written) {
        Ok(again) => assert_eq!(again, (read, hash.into())),
        Err(error) => assert!(
            written.len() > manifest::MAX_BYTES,
            "the encoded manifest does not parse: {error}"
        ),
    }
}

/// Parses the input as websocket frames of a shell, and each frame as a shell message.
pub fn frames(input: &[u8]) {
    stream::fuzz_frames(input);
}

/// Parses the input as the URL query of each kind of stream.
pub fn query(input: &[u8]) {
    stream::fuzz_query(&String::from_utf8_lossy(input));
}
