//! False responses of a simulated node.

use super::{Reply, rfc3339};
use crate::method::Method;
use crate::proto::akash::{cert::v1 as cert, market::v1beta5 as mkt};
use crate::proto::cosmos::auth::v1beta1 as auth;
use akash_provider_core::types::{BlockTime, Height};
use prost::Message;
use serde_json::{Value, json};
use std::time::Duration;

/// False response of a node. All other responses are true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Status and query responses contain this height.
    Height(Height),
    /// The node reports this number of additional, empty blocks in all responses.
    Chain(Height),
    /// The times in status and headers are one century in the future.
    Time,
    /// The parameters of the market allow no bids.
    Params,
    /// Every account has a wrong account number and a wrong sequence.
    Account,
    /// No account has a certificate.
    Certificates,
}

impl Lie {
    /// Returns the height at which the node reads the state, and the height in the node's response.
    pub(super) fn heights(lie: Option<Self>, asked: Height, newest: Height) -> (Height, Height) {
        let at = if asked == 0 || matches!(lie, Some(Self::Chain(_))) {
            newest
        } else {
            asked
        };
        match lie {
            Some(_) if asked != 0 => (at, asked),
            lie => (at, lie.map_or(at, |lie| lie.height(at))),
        }
    }

    /// Returns the false response of `lie` to a query, or else `truth`.
    pub(super) fn content(lie: Option<Self>, path: &str, truth: Vec<u8>) -> Vec<u8> {
        match lie {
            Some(Self::Params) if path == mkt::QueryParamsRequest::PATH => no_bids(&truth),
            Some(Self::Account) if path == auth::QueryAccountRequest::PATH => super::account_answer(99, 99),
            Some(Self::Certificates) if path == cert::QueryCertificatesRequest::PATH => Vec::new(),
            _ => truth,
        }
    }

    /// Returns the false response of [`Self::Chain`] for a height above the newest block, or `None` for other
    /// lies.
    pub(super) fn beyond(
        lie: Option<Self>,
        method: &str,
        height: Height,
        header: Value,
        block_id: Value,
    ) -> Option<Reply> {
        let reply = match (lie?, method) {
            (Self::Chain(_), "header") => json!({"header": header}),
            (Self::Chain(_), "block") => {
                json!({"block": {"header": header, "data": {"txs": []}}, "block_id": block_id})
            }
            (Self::Chain(_), "block_results") => json!({"height": height.to_string(), "txs_results": []}),
            _ => return None,
        };
        Some(Reply::Result(reply))
    }

    fn height(self, newest: Height) -> Height {
        match self {
            Self::Height(height) => height,
            Self::Chain(higher) => newest + higher,
            Self::Time | Self::Params | Self::Account | Self::Certificates => newest,
        }
    }

    pub(super) fn time(self, time: BlockTime) -> BlockTime {
        match self {
            Self::Time => time.plus(Duration::from_secs(100 * 365 * 24 * 3600)),
            Self::Height(_) | Self::Chain(_) | Self::Params | Self::Account | Self::Certificates => time,
        }
    }
}

/// Returns the hash of the block at `height`. Above the height `newest`, the hash is false.
pub(crate) fn block_hash(height: Height, newest: Height) -> String {
    let start = if height > newest { "FA15E" } else { "AAAAA" };
    format!("{start}{height:059X}")
}

pub(super) fn block_id(height: Height, newest: Height) -> Value {
    json!({"hash": block_hash(height, newest)})
}

pub(super) fn header(height: Height, newest: Height, time: BlockTime, chain_id: &str) -> Value {
    json!({
        "chain_id": chain_id,
        "height": height.to_string(),
        "time": rfc3339(time),
        "last_block_id": block_id(height - 1, newest),
    })
}

fn no_bids(bytes: &[u8]) -> Vec<u8> {
    let mut response = mkt::QueryParamsResponse::decode(bytes).unwrap();
    response.params.as_mut().unwrap().order_max_bids = 0;
    response.encode_to_vec()
}
