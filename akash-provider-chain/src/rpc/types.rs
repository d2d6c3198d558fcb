//! Answers of the JSON-RPC, as far as they are read. A key that comes twice is refused; unknown keys are not
//! looked at.

use crate::convert::shown;
use crate::fault::Fault;
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// The frame around every answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) error: Option<RpcError>,
}

/// An error in that frame.
#[derive(Debug, Deserialize)]
pub(crate) struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Option<String>,
}

impl RpcError {
    /// As a fault. Nodes tell a height they do not have only by text.
    pub(crate) fn into_fault(self) -> Fault {
        let data = self.data.unwrap_or_default();
        // The message is often no more than `Internal error`; the data says which.
        let text = if data.is_empty() { self.message } else { data };
        if let Some(fault) = height_fault(&text) {
            return fault;
        }
        Fault::Refused {
            codespace: "json-rpc".to_owned(),
            code: self.code,
            text: shown(&text),
        }
    }
}

/// The fault in the texts by which nodes say that they do not have a height: not yet, or no longer.
pub(crate) fn height_fault(text: &str) -> Option<Fault> {
    const LATER: [&str; 3] = [
        "must be less than or equal to the current blockchain height",
        "height in the future",
        // The misspelling is the node's.
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
        return Some(Fault::HeightUnavailable(shown(text)));
    }
    let is_gone = GONE.iter().any(|part| text.contains(part));
    is_gone.then(|| Fault::Pruned(shown(text)))
}

/// A whole number that JSON carries as text (or, from some proxies, as a number).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Number(pub(crate) u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number that is not negative")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
                // `parse` would take a plus sign.
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

/// Bytes in base64; null is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        let bytes = data_encoding::BASE64.decode(text.as_bytes());
        bytes.map(Self).map_err(D::Error::custom)
    }
}

/// Answer of `status`: the node's chain, and how far the node is.
#[derive(Debug, Deserialize)]
pub(crate) struct Status {
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
    pub(crate) catching_up: bool,
}

/// Answer of `abci_query`: the application's answer, with a code of its own.
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

/// Answer of `header`; without a header where the node lacks the height.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderAnswer {
    pub(crate) header: Option<Header>,
}

/// The head of a block.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Header {
    pub(crate) chain_id: String,
    pub(crate) height: Number,
    pub(crate) time: String,
}

/// Answer of `block`, and the block of an event.
#[derive(Debug, Deserialize)]
pub(crate) struct BlockAnswer {
    pub(crate) block: Option<Block>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Block {
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) data: BlockData,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct BlockData {
    /// Transactions, each in base64; null where there are none.
    #[serde(default)]
    pub(crate) txs: Option<Vec<String>>,
}

/// Answer of `block_results`: what became of the transactions, not the transactions.
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

/// What became of a transaction.
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

/// Gas as a number or as text; what is neither is none, because no block is refused for it.
fn gas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    let text = value.as_str().and_then(|text| text.parse().ok());
    Ok(text.or_else(|| value.as_u64()).unwrap_or_default())
}

/// An event; nothing in it is checked yet.
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

/// Answer of `tx_search`: one page, and how many there are in all.
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

/// What a websocket frame's result carries.
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

/// A `NewBlock` event: a block and what became of its transactions.
#[derive(Debug, Deserialize)]
pub(crate) struct NewBlock {
    pub(crate) block: Option<Block>,
    pub(crate) result_finalize_block: Option<FinalizeBlock>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FinalizeBlock {
    #[serde(default)]
    pub(crate) events: Option<Vec<AbciEvent>>,
    #[serde(default)]
    pub(crate) tx_results: Option<Vec<TxResult>>,
}

/// Answer of `akash`: which versions of the interface a node serves.
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
