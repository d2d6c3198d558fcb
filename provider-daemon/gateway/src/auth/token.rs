//! Parsing, signing and verification of tokens.
//!
//! `ES256K` signs the text `header.payload`. Wallets can sign only transactions, so `ES256KADR36` signs a transaction
//! that contains this text and has no effect.

use akash_provider_chain::private_key::PublicKey;
use akash_provider_core::types::Address;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};

/// Maximum length of a token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Signature algorithm of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// `ES256K`: the signature is over the text `header.payload` of the token.
    Es256k,
    /// `ES256KADR36`: the signature is over a transaction that contains the text `header.payload`.
    Es256kAdr36,
}

/// Parsed token, not verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Token<'a> {
    algorithm: Algorithm,
    signed: &'a str,
    signature: Vec<u8>,
    /// Payload, an object. Untrusted until [`Token::is_signed_by`] returns true.
    pub claims: Value,
}

impl<'a> Token<'a> {
    /// Parses a token. Returns `None` if the text is malformed or its algorithm is not an [`Algorithm`].
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        // The limit comes before any decoding, which would copy the client's data.
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
        // `crit` lists extensions that a verifier must understand; none are supported.
        if header.get("crit").is_some() {
            return None;
        }
        // A closed list: `none` and the symmetric algorithms, classic means of forging tokens, are refused here.
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

    /// Returns true if `key` signed the token. A signature with a high `s` is refused, as on the Akash chain.
    #[must_use]
    pub fn is_signed_by(&self, issuer: &Address, key: &PublicKey) -> bool {
        match self.algorithm {
            Algorithm::Es256k => key.verify(self.signed.as_bytes(), &self.signature),
            Algorithm::Es256kAdr36 => key.verify(sign_doc(issuer, self.signed).as_bytes(), &self.signature),
        }
    }
}

/// Returns the JSON of the transaction that a wallet signs for `text`: sorted keys, no spaces.
#[must_use]
pub fn sign_doc(signer: &Address, text: &str) -> String {
    let data = BASE64.encode(text.as_bytes());
    let signer = json!(signer.as_str());
    // Both parts are free of characters that JSON escapes.
    format!(
        "{{\"account_number\":\"0\",\"chain_id\":\"\",\"fee\":{{\"amount\":[],\"gas\":\"0\"}},\"memo\":\"\",\
         \"msgs\":[{{\"type\":\"sign/MsgSignData\",\"value\":{{\"data\":\"{data}\",\"signer\":{signer}}}}}],\
         \"sequence\":\"0\"}}"
    )
}

/// Returns the text of a token with these claims. `sign` returns the signature of the given bytes.
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
