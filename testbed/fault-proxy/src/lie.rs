//! False responses of a node. All other responses are true.

use crate::number::number;
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A time a century in the future.
const FUTURE: &str = "2126-01-01T00:00:00Z";
/// Encoded field `params` with `order_max_bids: 0`. Appended to a message, these bytes replace the earlier
/// value.
const NO_BIDS: [u8; 4] = [0x0a, 2, 0x10, 0];
/// Encoded account number and sequence, both 99. Appended to a message, these bytes replace the earlier
/// values.
const OTHER_ACCOUNT: [u8; 4] = [0x18, 99, 0x20, 99];

/// A false response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lie {
    /// The status and queries report this height.
    Height(u64),
    /// Status, headers, blocks and queries all report heights that are too high by this number.
    Chain(u64),
    /// Status, headers and blocks have a time one century ahead.
    Time,
    /// The market parameters allow no bids.
    Params,
    /// Every account has a wrong number and sequence.
    Account,
    /// No account has a certificate.
    Certificates,
    /// Pushed blocks have a false height: the true height plus this number.
    Pushes(u64),
}

/// Query response with an account of type `Any` in the first field.
#[derive(Clone, PartialEq, prost::Message)]
struct Wrapped {
    #[prost(message, optional, tag = "1")]
    account: Option<prost_types::Any>,
}

impl Lie {
    /// Changes a request so that a node with true heights can respond.
    pub(crate) fn change_request(self, method: &str, params: &mut Value) {
        let asked = number(&params["height"]);
        let Self::Chain(higher) = self else { return };
        if asked > 0 && matches!(method, "header" | "block" | "block_results" | "abci_query") {
            params["height"] = asked.saturating_sub(higher).max(1).to_string().into();
        }
    }

    /// Falsifies the result of a request. `asked` is the requested height, or 0 for the newest height.
    pub(crate) fn change_result(self, method: &str, path: &str, asked: u64, result: &mut Value) {
        let named = |true_height: &Value, higher: u64| {
            let height = match asked {
                0 => number(true_height).saturating_add(higher),
                asked => asked,
            };
            Value::from(height.to_string())
        };
        match (self, method) {
            (Self::Height(height), "status") => {
                result["sync_info"]["latest_block_height"] = height.to_string().into();
            }
            (Self::Height(height), "abci_query") if asked == 0 => {
                result["response"]["height"] = height.to_string().into();
            }
            (Self::Chain(higher), "status") => {
                let height = &mut result["sync_info"]["latest_block_height"];
                *height = named(height, higher);
            }
            (Self::Chain(higher), "header" | "block" | "block_results" | "abci_query") => {
                let place = match method {
                    "header" => "/header/height",
                    "block" => "/block/header/height",
                    "block_results" => "/height",
                    _ => "/response/height",
                };
                if let Some(height) = result.pointer_mut(place) {
                    *height = named(height, higher);
                }
            }
            (Self::Time, "status") => result["sync_info"]["latest_block_time"] = FUTURE.into(),
            (Self::Time, "header") => result["header"]["time"] = FUTURE.into(),
            (Self::Time, "block") => result["block"]["header"]["time"] = FUTURE.into(),
            (_, "abci_query") => self.change_value(path, &mut result["response"]["value"]),
            _ => {}
        }
    }

    fn change_value(self, path: &str, value: &mut Value) {
        let Ok(mut bytes) = BASE64.decode(value.as_str().unwrap_or_default().as_bytes()) else {
            return;
        };
        match (self, path) {
            (Self::Params, "/akash.market.v1beta5.Query/Params") => bytes.extend(NO_BIDS),
            (Self::Certificates, "/akash.cert.v1.Query/Certificates") => bytes.clear(),
            (Self::Account, "/cosmos.auth.v1beta1.Query/Account") => {
                let Ok(mut wrapped) = <Wrapped as prost::Message>::decode(&*bytes) else {
                    return;
                };
                let account = wrapped.account.get_or_insert_default();
                account.value.extend(OTHER_ACCOUNT);
                bytes = prost::Message::encode_to_vec(&wrapped);
            }
            _ => return,
        }
        *value = BASE64.encode(&bytes).into();
    }

    /// Returns a pushed block with a false height. `None` if this lie does not change pushed blocks.
    pub(crate) fn change_push(self, text: &str) -> Option<String> {
        let Self::Pushes(higher) = self else { return None };
        let mut frame: Value = serde_json::from_str(text).ok()?;
        let height = frame.pointer_mut("/result/data/value/block/header/height")?;
        *height = number(height).saturating_add(higher).to_string().into();
        Some(frame.to_string())
    }
}
