//! Text format of exported private keys, compatible with `keys export` and `keys import` of the Go tools.
//!
//! The text is OpenPGP armor (headers, base64, CRC-24) around the key in amino format, encrypted with a passphrase:
//!
//! | `kdf` | key | cipher | written by |
//! |---|---|---|---|
//! | `argon2` | Argon2id, 1 pass, 64 MiB, 4 lanes | ChaCha20-Poly1305, nonce 0 (the salt is random) | this crate, and Cosmos SDK from 0.50 |
//! | `bcrypt` | SHA-256 of bcrypt, cost 12 | XSalsa20-Poly1305, nonce first | older versions of the Go tools; read only |

use super::error::{KeyringError, shortened};
use super::record::{AMINO_PRIVATE, amino_private};
use crate::private_key::PrivateKey;
use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{Aead, KeyInit};
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use data_encoding::{BASE64, HEXUPPER, HEXUPPER_PERMISSIVE};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

const BEGIN: &str = "-----BEGIN TENDERMINT PRIVATE KEY-----";
const END: &str = "-----END TENDERMINT PRIVATE KEY-----";
/// Maximum length of an exported key in bytes. Normally, about 400 bytes.
const ARMOR_BYTES_MAX: usize = 16 * 1024;
const LINE: usize = 64;
const SALT_BYTES: usize = 16;
const BCRYPT_COST: u32 = 12;
const SECRETBOX_NONCE_BYTES: usize = 24;
const ARGON2_KIB: u32 = 64 * 1024;

fn bad(why: impl Into<String>) -> KeyringError {
    KeyringError::Armor(why.into())
}

/// Encrypts a private key and returns an armored text (Argon2 and ChaCha20-Poly1305). The text does not end
/// with a line break.
pub(super) fn seal(key: &PrivateKey, passphrase: &SecretString) -> Result<String, KeyringError> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|e| KeyringError::Randomness(e.to_string()))?;
    let mut plain = Zeroizing::new(AMINO_PRIVATE.to_vec());
    plain.extend_from_slice(key.to_bytes().as_slice());
    let sealed = ChaCha20Poly1305::new((&*argon2_key(passphrase, &salt)?).into())
        .encrypt(&[0; 12].into(), plain.as_slice())
        .map_err(|_| bad("encryption failed"))?;
    let body = BASE64.encode(&sealed);
    let mut text = format!(
        "{BEGIN}\nkdf: argon2\nsalt: {}\ntype: secp256k1\n\n",
        HEXUPPER.encode(&salt)
    );
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    let sum = crc24(&sealed).to_be_bytes();
    let sum = BASE64.encode(sum.get(1..).unwrap_or_default());
    text.push_str(&format!("={sum}\n{END}"));
    Ok(text)
}

/// Decrypts an exported key that was encrypted with Argon2 or bcrypt. If the armor has no checksum, a damaged
/// text and a wrong passphrase cause the same error.
pub(super) fn open(text: &str, passphrase: &SecretString) -> Result<PrivateKey, KeyringError> {
    let (headers, sealed) = decode_armor(text)?;
    let header = |name: &str| headers.get(name).map(String::as_str);
    // Older versions of the Go tools omit the type.
    if let Some(kind) = header("type").filter(|t| !t.is_empty() && *t != "secp256k1") {
        return Err(bad(format!(
            "key type is `{}`, expected secp256k1",
            shortened(kind)
        )));
    }
    let salt = header("salt").ok_or_else(|| bad("missing `salt` header"))?;
    let salt = HEXUPPER_PERMISSIVE
        .decode(salt.as_bytes())
        .map_err(|_| bad("the `salt` header is not hexadecimal"))?;
    let salt: [u8; SALT_BYTES] = salt
        .try_into()
        .map_err(|_| bad(format!("the salt does not have {SALT_BYTES} bytes")))?;
    let plain = match header("kdf") {
        Some("argon2") => ChaCha20Poly1305::new((&*argon2_key(passphrase, &salt)?).into())
            .decrypt(&[0; 12].into(), sealed.as_slice())
            .ok(),
        Some("bcrypt") => open_secretbox(&sealed, passphrase, salt)?,
        other => {
            let kdf = shortened(other.unwrap_or_default());
            return Err(bad(format!(
                "the `kdf` header is `{kdf}`, expected argon2 or bcrypt"
            )));
        }
    };
    let wrong = || KeyringError::WrongPassphrase {
        what: "the exported key".to_owned(),
    };
    amino_private(&Zeroizing::new(plain.ok_or_else(wrong)?)).map_err(bad)
}

fn argon2_key(passphrase: &SecretString, salt: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeyringError> {
    let params = Params::new(ARGON2_KIB, 1, 4, Some(32)).map_err(|e| bad(e.to_string()))?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.expose_secret().as_bytes(), salt, key.as_mut_slice())
        .map_err(|e| bad(e.to_string()))?;
    Ok(key)
}

fn open_secretbox(
    sealed: &[u8],
    passphrase: &SecretString,
    salt: [u8; SALT_BYTES],
) -> Result<Option<Vec<u8>>, KeyringError> {
    // The key is derived from the text of the hash, including version and cost, as in older versions of the Go tools.
    let hash = bcrypt::hash_with_salt(passphrase.expose_secret().as_bytes(), BCRYPT_COST, salt)
        .map_err(|e| bad(e.to_string()))?
        .format_for_version(bcrypt::Version::TwoA);
    let key = Zeroizing::new(<[u8; 32]>::from(Sha256::digest(Zeroizing::new(hash).as_bytes())));
    let (nonce, ciphertext) = sealed
        .split_at_checked(SECRETBOX_NONCE_BYTES)
        .ok_or_else(|| bad("content too short"))?;
    let nonce: [u8; SECRETBOX_NONCE_BYTES] = nonce.try_into().map_err(|_| bad("content too short"))?;
    Ok(XSalsa20Poly1305::new((&*key).into())
        .decrypt((&nonce).into(), ciphertext)
        .ok())
}

type Headers = BTreeMap<String, String>;

/// Returns the headers and the content of an exported key. Text before and after the armor is ignored.
fn decode_armor(text: &str) -> Result<(Headers, Vec<u8>), KeyringError> {
    if text.len() > ARMOR_BYTES_MAX {
        return Err(bad(format!("longer than {ARMOR_BYTES_MAX} bytes")));
    }
    let mut lines = text.lines().map(str::trim).skip_while(|l| *l != BEGIN);
    lines
        .next()
        .ok_or_else(|| bad(format!("missing line `{BEGIN}`")))?;
    let mut headers = Headers::new();
    for line in lines.by_ref() {
        if line.is_empty() {
            break;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| bad("invalid header: expected `name: value`, then an empty line"))?;
        headers.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    let (mut body, mut sum, mut ended) = (String::new(), None, false);
    for line in lines {
        if line == END {
            ended = true;
            break;
        }
        match line.strip_prefix('=') {
            Some(value) => sum = Some(value),
            None => body.push_str(line),
        }
    }
    if !ended {
        return Err(bad(format!("truncated: missing line `{END}`")));
    }
    let content = BASE64
        .decode(body.as_bytes())
        .map_err(|_| bad("content is not base64"))?;
    // The checksum is optional (RFC 4880).
    if let Some(sum) = sum {
        let expected = crc24(&content).to_be_bytes();
        if BASE64.decode(sum.as_bytes()).ok().as_deref() != expected.get(1..) {
            return Err(bad("the checksum does not match the content"));
        }
    }
    Ok((headers, content))
}

/// Returns the checksum of OpenPGP armor (RFC 4880, 6.1).
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x00b7_04ce_u32;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    crc & 0x00ff_ffff
}

#[cfg(test)]
#[path = "armor/tests.rs"]
mod tests;
