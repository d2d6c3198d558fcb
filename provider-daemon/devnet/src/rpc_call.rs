//! JSON-RPC call and the envelope of its response.

use serde::Deserialize;
use serde_json::{Value, json};

/// ID in the response to a call without ID.
const NO_ID: i64 = -1;

#[derive(Debug, Deserialize)]
pub(super) struct JsonRpcCall {
    #[serde(default)]
    pub(super) id: Value,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Option<Value>,
}

/// Error response of a JSON-RPC call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpcFailure {
    code: i64,
    message: &'static str,
    data: String,
}

impl RpcFailure {
    /// Creates the JSON-RPC error for a failure of a method.
    pub(super) fn internal(data: impl Into<String>) -> Self {
        Self {
            code: -32603,
            message: "Internal error",
            data: data.into(),
        }
    }

    pub(super) fn params(data: impl Into<String>) -> Self {
        Self {
            code: -32602,
            message: "Invalid params",
            data: data.into(),
        }
    }

    pub(super) const fn no_method() -> Self {
        Self {
            code: -32601,
            message: "Method not found",
            data: String::new(),
        }
    }

    pub(super) fn parse(data: impl Into<String>) -> Self {
        Self {
            code: -32700,
            message: "Parse error. Invalid JSON",
            data: data.into(),
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.data.is_empty() {
            error["data"] = self.data.as_str().into();
        }
        error
    }
}

pub(super) fn envelope(id: &Value, result: Result<Value, RpcFailure>) -> Value {
    let id = if id.is_null() { json!(NO_ID) } else { id.clone() };
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(failure) => json!({"jsonrpc": "2.0", "id": id, "error": failure.json()}),
    }
}
