//! Responses of the JSON-RPC. Only the fields that this crate uses are decoded. A duplicate key is an error.
//! Unknown keys are ignored.

use crate::convert::excerpt;
use crate::fault::Fault;
use data_encoding::HEXUPPER_PERMISSIVE;
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// Outer JSON object of every response.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) error: Option<RpcError>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Option<String>,
}

impl RpcError {
    /// Converts the error to a fault. Recognizes an unavailable height by the error text.
    pub(crate) fn into_fault(self) -> Fault {
        let data = self.data.unwrap_or_default();
        // The message is often just `Internal error`. The data field has the reason.
        let text = if data.is_empty() { self.message } else { data };
        if let Some(fault) = height_fault(&text) {
            return fault;
        }
        Fault::Refused {
            codespace: "json-rpc".to_owned(),
            code: self.code,
            text: excerpt(&text),
        }
    }
}

/// Returns a fault if the error text of a node reports a future height or a pruned height.
pub(crate) fn height_fault(text: &str) -> Option<Fault> {
    const LATER: [&str; 3] = [
        "must be less than or equal to the current blockchain height",
        "height in the future",
        // The misspelling is in the text of the node.
        "block height is bigger then the chain length",
    ];
    const GONE: [&str; 6] = [
        "is not available, lowest height is",
        "could not find results for height",
        "node is not persisting",
        "failed to load state at height",
        "version does not exist",
        "version mismatch on immutable",
    ];
    if LATER.iter().any(|part| text.contains(part)) {
        return Some(Fault::HeightUnavailable(excerpt(text)));
    }
    let is_gone = GONE.iter().any(|part| text.contains(part));
    is_gone.then(|| Fault::Pruned(excerpt(text)))
}

/// Unsigned integer, encoded as a JSON string by nodes and as a JSON number by some proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Number(pub(crate) u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a non-negative integer")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
                // `parse` accepts a plus sign.
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let number = text.parse().ok().filter(|_| digits);
                number
                    .map(Number)
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }
        }
        deserializer.deserialize_any(Digits)
    }
}

/// Bytes encoded as base64. `null` means no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        let bytes = data_encoding::BASE64.decode(text.as_bytes());
        bytes.map(Self).map_err(D::Error::custom)
    }
}

/// Hash of a block. `None` if the node does not return a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockHash(pub(crate) Option<[u8; 32]>);

impl<'de> Deserialize<'de> for BlockHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        if text.is_empty() {
            return Ok(Self(None));
        }
        let bytes = HEXUPPER_PERMISSIVE
            .decode(text.as_bytes())
            .map_err(D::Error::custom)?;
        let bytes = bytes
            .try_into()
            .map_err(|_| D::Error::custom("a block hash has 32 bytes"))?;
        Ok(Self(Some(bytes)))
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct BlockId {
    #[serde(default)]
    pub(crate) hash: BlockHash,
}

/// Response of `status`: chain id and height of the node.
#[derive(Debug, Deserialize)]
pub(crate) struct RpcStatus {
    pub(crate) node_info: NodeInfo,
    pub(crate) sync_info: SyncInfo,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NodeInfo {
    pub(crate) network: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SyncInfo {
    pub(crate) latest_block_height: Number,
    pub(crate) latest_block_time: String,
    #[serde(default)]
    pub(crate) latest_block_hash: BlockHash,
    pub(crate) catching_up: bool,
}

/// Response of the method `abci_query`.
#[derive(Debug, Deserialize)]
pub(crate) struct AbciQuery {
    pub(crate) response: AbciResponse,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AbciResponse {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) log: String,
    #[serde(default)]
    pub(crate) codespace: String,
    #[serde(default)]
    pub(crate) value: Base64,
    #[serde(default)]
    pub(crate) height: Number,
}

/// Response to a query for a header. Contains no header if the node does not have the block.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderResponse {
    pub(crate) header: Option<Header>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Header {
    pub(crate) chain_id: String,
    pub(crate) height: Number,
    pub(crate) time: String,
    /// Id of the previous block.
    #[serde(default)]
    pub(crate) last_block_id: BlockId,
}

/// Response of the method `block`, also part of a `NewBlock` event.
#[derive(Debug, Deserialize)]
pub(crate) struct BlockResponse {
    #[serde(default)]
    pub(crate) block_id: BlockId,
    pub(crate) block: Option<RpcBlock>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RpcBlock {
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) data: BlockData,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct BlockData {
    /// Transactions, encoded as base64. `null` if the block is empty.
    #[serde(default)]
    pub(crate) txs: Option<Vec<String>>,
}

/// Response of `block_results`: the results of the transactions in a block, and the events of the block.
#[derive(Debug, Deserialize)]
pub(crate) struct BlockResults {
    pub(crate) height: Number,
    #[serde(default)]
    pub(crate) txs_results: Option<Vec<TxResult>>,
    #[serde(default)]
    pub(crate) finalize_block_events: Option<Vec<AbciEvent>>,
    #[serde(default)]
    pub(crate) begin_block_events: Option<Vec<AbciEvent>>,
    #[serde(default)]
    pub(crate) end_block_events: Option<Vec<AbciEvent>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct TxResult {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) codespace: String,
    #[serde(default)]
    pub(crate) log: String,
    #[serde(default, deserialize_with = "gas")]
    pub(crate) gas_used: u64,
    #[serde(default)]
    pub(crate) events: Option<Vec<AbciEvent>>,
}

/// Decodes an amount of gas from a JSON number or a JSON string.
///
/// Any other value becomes 0, so that the block stays valid.
fn gas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    let text = value.as_str().and_then(|text| text.parse().ok());
    Ok(text.or_else(|| value.as_u64()).unwrap_or_default())
}

/// Event as the node sent it, not validated.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct AbciEvent {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) attributes: Option<Vec<AbciAttribute>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct AbciAttribute {
    #[serde(default)]
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) value: Option<String>,
}

/// Response of `tx_search`: one page, and the total number of transactions.
#[derive(Debug, Deserialize)]
pub(crate) struct TxSearch {
    #[serde(default)]
    pub(crate) txs: Option<Vec<FoundTx>>,
    #[serde(default)]
    pub(crate) total_count: Number,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FoundTx {
    pub(crate) height: Number,
    #[serde(default)]
    pub(crate) index: u64,
    pub(crate) tx_result: TxResult,
}

/// Result object in a websocket message.
#[derive(Debug, Deserialize)]
pub(crate) struct FrameResult<'a> {
    #[serde(borrow, default)]
    pub(crate) data: Option<FrameData<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FrameData<'a> {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(borrow, default)]
    pub(crate) value: Option<&'a RawValue>,
}

/// `NewBlock` event: a block, and the results of its transactions.
#[derive(Debug, Deserialize)]
pub(crate) struct NewBlock {
    #[serde(default)]
    pub(crate) block_id: BlockId,
    pub(crate) block: Option<RpcBlock>,
    pub(crate) result_finalize_block: Option<FinalizeBlock>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FinalizeBlock {
    #[serde(default)]
    pub(crate) events: Option<Vec<AbciEvent>>,
    #[serde(default)]
    pub(crate) tx_results: Option<Vec<TxResult>>,
}

/// Response of `akash`: the API versions that a node supports.
#[derive(Debug, Deserialize)]
pub(crate) struct Discovery {
    #[serde(default)]
    pub(crate) client_info: Option<DiscoveredClient>,
    #[serde(default)]
    pub(crate) supported_versions: Option<Vec<DiscoveredVersion>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DiscoveredClient {
    #[serde(default)]
    pub(crate) api_version: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DiscoveredVersion {
    #[serde(default)]
    pub(crate) api_version: String,
    #[serde(default)]
    pub(crate) modules: Option<Vec<DiscoveredModule>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DiscoveredModule {
    #[serde(default)]
    pub(crate) module: String,
    #[serde(default)]
    pub(crate) version: String,
}
