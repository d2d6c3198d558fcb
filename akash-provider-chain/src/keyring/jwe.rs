//! Encryption of keyring files: compact JWE with PBES2-HS256+A128KW and A256GCM.
//!
//! ```text
//! BASE64URL(header) . wrapped key . nonce . ciphertext . tag
//! ```
//! PBKDF2 (8192 rounds) derives a wrapping key from the passphrase and the salt in the header. The wrapping
//! key encrypts the content key, and the content key encrypts the content.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_kw::KwAes128;
use data_encoding::BASE64URL_NOPAD;
use pbkdf2::pbkdf2_hmac;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

const ALGORITHM: &str = "PBES2-HS256+A128KW";
const ENCRYPTION: &str = "A256GCM";
/// Number of PBKDF2 rounds for new files, the same as in the Go library.
const ROUNDS: u32 = 8192;
/// Maximum number of PBKDF2 rounds. Without this limit, a manipulated file could use unlimited CPU time.
const ROUNDS_MAX: u32 = 5_000_000;
const SALT_BYTES: usize = 12;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const CONTENT_KEY_BYTES: usize = 32;
const WRAPPED_KEY_BYTES: usize = CONTENT_KEY_BYTES + 8;
const WRAPPING_KEY_BYTES: usize = 16;

/// Reason why an encrypted file (a JWE token) cannot be decrypted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OpenError {
    /// The token is invalid or was modified. Contains the reason.
    Damaged(String),
    /// The passphrase is wrong.
    WrongPassphrase,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    created: String,
    enc: String,
    p2c: u32,
    p2s: String,
}

fn damaged(why: impl Into<String>) -> OpenError {
    OpenError::Damaged(why.into())
}

fn decoded(what: &str, part: &str) -> Result<Vec<u8>, OpenError> {
    BASE64URL_NOPAD
        .decode(part.as_bytes())
        .map_err(|_| damaged(format!("{what} is not base64url")))
}

/// Decrypts a JWE token and authenticates its header and content.
pub(super) fn open(token: &str, passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let parts: Vec<&str> = token.trim_end().split('.').collect();
    let [protected, wrapped, nonce, ciphertext, tag] = parts[..] else {
        return Err(damaged(format!("{} parts, expected 5", parts.len())));
    };
    let header: Header = serde_json::from_slice(&decoded("header", protected)?)
        .map_err(|e| damaged(format!("invalid header ({e})")))?;
    if header.alg != ALGORITHM || header.enc != ENCRYPTION {
        return Err(damaged(format!(
            "unsupported algorithm, expected {ALGORITHM} and {ENCRYPTION}"
        )));
    }
    if header.p2c == 0 || header.p2c > ROUNDS_MAX {
        return Err(damaged(format!(
            "number of rounds {} is not in 1..={ROUNDS_MAX}",
            header.p2c
        )));
    }
    let wrapped = decoded("wrapped key", wrapped)?;
    let nonce = decoded("nonce", nonce)?;
    let mut sealed = decoded("ciphertext", ciphertext)?;
    let tag = decoded("tag", tag)?;
    if wrapped.len() != WRAPPED_KEY_BYTES || tag.len() != TAG_BYTES {
        return Err(damaged("wrong length of the wrapped key or the tag"));
    }
    let nonce: [u8; NONCE_BYTES] = nonce
        .try_into()
        .map_err(|_| damaged("wrong length of the nonce"))?;
    // The cipher expects the tag after the ciphertext. The token has a separate part for the tag.
    sealed.extend(tag);

    let wrapping = wrapping_key(passphrase, &decoded("salt", &header.p2s)?, header.p2c);
    let mut content_key = Zeroizing::new([0; CONTENT_KEY_BYTES]);
    // The key wrapping is authenticated, so a wrong passphrase fails here and differs from damage.
    KwAes128::new((&*wrapping).into())
        .unwrap_key(&wrapped, content_key.as_mut_slice())
        .map_err(|_| OpenError::WrongPassphrase)?;
    let payload = Payload {
        msg: &sealed,
        aad: protected.as_bytes(),
    };
    Aes256Gcm::new((&*content_key).into())
        .decrypt(&nonce.into(), payload)
        .map(Zeroizing::new)
        .map_err(|_| damaged("the tag does not match the content"))
}

/// Encrypts `plaintext` as a JWE token. `created` is an informational text in the header.
pub(super) fn seal(plaintext: &[u8], passphrase: &[u8], created: &str) -> Result<String, getrandom::Error> {
    let mut salt = [0; SALT_BYTES];
    let mut nonce = [0; NONCE_BYTES];
    let mut content_key = Zeroizing::new([0; CONTENT_KEY_BYTES]);
    getrandom::fill(&mut salt)?;
    getrandom::fill(&mut nonce)?;
    getrandom::fill(content_key.as_mut_slice())?;

    let header = Header {
        alg: ALGORITHM.to_owned(),
        created: created.to_owned(),
        enc: ENCRYPTION.to_owned(),
        p2c: ROUNDS,
        p2s: BASE64URL_NOPAD.encode(&salt),
    };
    let header = serde_json::to_vec(&header).unwrap_or_default();
    let protected = BASE64URL_NOPAD.encode(&header);
    let wrapping = wrapping_key(passphrase, &salt, ROUNDS);
    let mut wrapped = [0; WRAPPED_KEY_BYTES];
    // Encryption and key wrapping fail for wrong lengths only, which are constant here.
    let fixed = |_| getrandom::Error::UNEXPECTED;
    KwAes128::new((&*wrapping).into())
        .wrap_key(content_key.as_slice(), &mut wrapped)
        .map_err(fixed)?;
    let payload = Payload {
        msg: plaintext,
        aad: protected.as_bytes(),
    };
    let sealed = Aes256Gcm::new((&*content_key).into())
        .encrypt(&nonce.into(), payload)
        .map_err(|_| getrandom::Error::UNEXPECTED)?;
    let (ciphertext, tag) = sealed.split_at(sealed.len().saturating_sub(TAG_BYTES));
    let parts = [&wrapped[..], &nonce, ciphertext, tag].map(|p| BASE64URL_NOPAD.encode(p));
    Ok(format!("{protected}.{}", parts.join(".")))
}

fn wrapping_key(passphrase: &[u8], salt: &[u8], rounds: u32) -> Zeroizing<[u8; WRAPPING_KEY_BYTES]> {
    // RFC 7518, 4.8.1.1: the name of the algorithm and a zero byte precede the salt.
    let mut full = ALGORITHM.as_bytes().to_vec();
    full.push(0);
    full.extend_from_slice(salt);
    let mut key = Zeroizing::new([0; WRAPPING_KEY_BYTES]);
    pbkdf2_hmac::<Sha256>(passphrase, &full, rounds, key.as_mut_slice());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decrypts_an_encrypted_token() {
        let token = seal(b"{}", b"secret", "2026-11-21").unwrap();
        assert_eq!(&**open(&token, b"secret").unwrap(), b"{}");
        assert_eq!(&**open(&format!("{token}\n"), b"secret").unwrap(), b"{}");
        assert_eq!(open(&token, b"Secret"), Err(OpenError::WrongPassphrase));
        assert_ne!(token, seal(b"{}", b"secret", "2026-11-21").unwrap());
    }

    #[test]
    fn modified_token_fails() {
        let token = seal(b"some content", b"secret", "").unwrap();
        for at in (0..token.len()).step_by(3) {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(open(&changed, b"secret").is_err(), "{at}: {changed}");
        }
    }

    #[test]
    fn invalid_token_fails_without_key_derivation() {
        let header = |json: &str| format!("{}.AA.AA.AA.AA", BASE64URL_NOPAD.encode(json.as_bytes()));
        let invalid = [
            String::new(),
            "a.b".into(),
            "!.!.!.!.!".into(),
            header("{}"),
            header(r#"{"alg":"none","enc":"A256GCM","p2c":1,"p2s":""}"#),
            header(r#"{"alg":"PBES2-HS256+A128KW","enc":"A256GCM","p2c":4294967295,"p2s":""}"#),
            header(r#"{"alg":"PBES2-HS256+A128KW","enc":"A256GCM","p2c":0,"p2s":""}"#),
            header(r#"{"alg":"PBES2-HS256+A128KW","enc":"A256GCM","p2c":-1,"p2s":""}"#),
            header(r#"{"alg":"PBES2-HS256+A128KW","enc":"A256GCM","p2c":8192,"p2s":""}"#),
        ];
        for token in invalid {
            assert!(
                matches!(open(&token, b"x"), Err(OpenError::Damaged(_))),
                "{token}"
            );
        }
    }
}
