//! Parameters of a JSON-RPC call. The notation in JSON differs from the notation in URLs.
//!
//! | | JSON | URL |
//! |---|---|---|
//! | number | decimal string, or a number | decimal digits, quoted or not |
//! | text | string | quoted string |
//! | bytes | base64 | `0x` and hexadecimal digits, or a quoted string |

use super::rpc_call::RpcFailure;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use serde_json::{Map, Value};

/// Parameters by name, not yet parsed.
#[derive(Debug)]
pub(super) enum Params {
    /// Parameters from an HTTP body or a websocket message.
    Json(Map<String, Value>),
    /// Parameters from a URL, with their quotes. For a repeated name, the first parameter is used.
    Uri(Vec<(String, String)>),
}

impl Params {
    /// Parses the parameters of a JSON call, by name or by position.
    pub(super) fn from_json(params: Option<Value>, names: &[&str]) -> Result<Self, RpcFailure> {
        match params {
            None | Some(Value::Null) => Ok(Self::Json(Map::new())),
            Some(Value::Object(map)) => Ok(Self::Json(map)),
            Some(Value::Array(values)) if values.len() <= names.len() => {
                let named = names.iter().map(|name| (*name).to_owned()).zip(values);
                Ok(Self::Json(named.collect()))
            }
            Some(_) => Err(RpcFailure::params("parameters are an object or a list")),
        }
    }

    fn json(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Json(map) => map.get(name).filter(|value| !value.is_null()),
            Self::Uri(_) => None,
        }
    }

    /// Returns the text of a parameter in a URL, with its quotes.
    fn uri(&self, name: &str) -> Option<&str> {
        match self {
            Self::Json(_) => None,
            Self::Uri(pairs) => {
                let found = pairs.iter().find(|(key, _)| key == name);
                found.map(|(_, value)| value.as_str()).filter(|v| !v.is_empty())
            }
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, RpcFailure> {
        if let Some(text) = self.uri(name) {
            return Ok(Some(unquoted(text).unwrap_or(text).to_owned()));
        }
        match self.json(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, RpcFailure> {
        let text = match (self.uri(name), self.json(name)) {
            (Some(text), _) => unquoted(text).unwrap_or(text).to_owned(),
            (None, None) => return Ok(None),
            (None, Some(Value::String(text))) => text.clone(),
            (None, Some(Value::Number(number))) => number.to_string(),
            (None, Some(_)) => return Err(wrong(name, "a number")),
        };
        if text.is_empty() {
            return Ok(None);
        }
        // A wider type, to distinguish a negative number from an invalid one as nodes do.
        match text.parse::<i128>() {
            Ok(number) if number < 0 => Err(RpcFailure::internal(format!(
                "{name} must be greater than 0, but got {number}"
            ))),
            Ok(number) => u64::try_from(number)
                .map(Some)
                .map_err(|_| wrong(name, "a number")),
            Err(_) => Err(wrong(name, "a number")),
        }
    }

    /// Returns the bytes of a parameter, which JSON encodes as base64.
    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>, RpcFailure> {
        if let Some(text) = self.uri(name) {
            return uri_bytes(name, text);
        }
        let text = self.text(name)?.unwrap_or_default();
        BASE64.decode(text.as_bytes()).map_err(|_| wrong(name, "base64"))
    }

    /// Returns the bytes of a parameter. The JSON value consists of hexadecimal digits.
    pub(super) fn hex(&self, name: &str) -> Result<Vec<u8>, RpcFailure> {
        if let Some(text) = self.uri(name) {
            return uri_bytes(name, text);
        }
        let text = self.text(name)?.unwrap_or_default();
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        bytes.map_err(|_| wrong(name, "hexadecimal digits"))
    }
}

fn wrong(name: &str, what: &str) -> RpcFailure {
    RpcFailure::params(format!(
        "error converting json params to arguments: {name} is not {what}"
    ))
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

fn uri_bytes(name: &str, text: &str) -> Result<Vec<u8>, RpcFailure> {
    if let Some(digits) = text.strip_prefix("0x") {
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        return bytes.map_err(|_| wrong(name, "hexadecimal digits"));
    }
    match unquoted(text) {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => Err(wrong(name, "0x and digits, or a text in quotes")),
    }
}
