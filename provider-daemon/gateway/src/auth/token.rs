//! Tokens: three parts, two algorithms, one key.
//!
//! `ES256K` signs `header.payload`. `ES256KADR36` is what wallets can do: they sign a transaction that sends
//! nothing and holds that text.

use akash_provider_chain::private_key::PublicKey;
use akash_provider_core::types::Address;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};

/// Longest token that is looked at; it has to fit a header anyhow.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// `ES256K`: the signature is over the token's own text, `header.payload`.
    Es256k,
    /// The text inside of a transaction.
    Es256kAdr36,
}

/// A token taken apart. Nothing of it is known to be true.
#[derive(Debug, Clone, PartialEq)]
pub struct Token<'a> {
    algorithm: Algorithm,
    signed: &'a str,
    signature: Vec<u8>,
    /// The payload, an object. Anybody can have written it until [`Token::is_signed_by`] says otherwise.
    pub claims: Value,
}

impl<'a> Token<'a> {
    /// Takes a token apart; `None` when it is none, or is signed in a way that is not accepted.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        // The limit comes before any decoding, which would make copies of what a stranger sent.
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let object = |part: &str| -> Option<Value> {
            let bytes = BASE64URL_NOPAD.decode(part.as_bytes()).ok()?;
            let value: Value = serde_json::from_slice(&bytes).ok()?;
            value.is_object().then_some(value)
        };
        let header = object(header)?;
        // What must be understood is not.
        if header.get("crit").is_some() {
            return None;
        }
        // A closed list: `none` and the symmetric algorithms, with which tokens are classically forged, never get
        // further.
        let algorithm = match header.get("alg")?.as_str()? {
            "ES256K" => Algorithm::Es256k,
            "ES256KADR36" => Algorithm::Es256kAdr36,
            _ => return None,
        };
        Some(Self {
            algorithm,
            signed,
            signature: BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?,
            claims: object(payload)?,
        })
    }

    /// True when the issuer's key has signed it. A high `s` is refused, as the network does.
    #[must_use]
    pub fn is_signed_by(&self, issuer: &Address, key: &PublicKey) -> bool {
        match self.algorithm {
            Algorithm::Es256k => key.verify(self.signed.as_bytes(), &self.signature),
            Algorithm::Es256kAdr36 => key.verify(sign_doc(issuer, self.signed).as_bytes(), &self.signature),
        }
    }
}

/// The transaction that a wallet signs for a text: sorted keys, no spaces.
#[must_use]
pub fn sign_doc(signer: &Address, text: &str) -> String {
    let data = BASE64.encode(text.as_bytes());
    let signer = json!(signer.as_str());
    // Neither part has a character that JSON escapes.
    format!(
        "{{\"account_number\":\"0\",\"chain_id\":\"\",\"fee\":{{\"amount\":[],\"gas\":\"0\"}},\"memo\":\"\",\
         \"msgs\":[{{\"type\":\"sign/MsgSignData\",\"value\":{{\"data\":\"{data}\",\"signer\":{signer}}}}}],\
         \"sequence\":\"0\"}}"
    )
}

/// The text of a token for these claims, signed by `sign`.
#[must_use]
pub fn encode(
    algorithm: Algorithm,
    issuer: &Address,
    claims: &Value,
    sign: impl Fn(&[u8]) -> [u8; 64],
) -> String {
    let name = match algorithm {
        Algorithm::Es256k => "ES256K",
        Algorithm::Es256kAdr36 => "ES256KADR36",
    };
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&json!({ "alg": name, "typ": "JWT" })), part(claims));
    let signature = match algorithm {
        Algorithm::Es256k => sign(signed.as_bytes()),
        Algorithm::Es256kAdr36 => sign(sign_doc(issuer, &signed).as_bytes()),
    };
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

#[cfg(test)]
mod tests;
