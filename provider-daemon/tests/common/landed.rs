//! Transactions in the blocks of a development network.

use akash_provider_chain::EndpointLimits;
use akash_provider_chain::convert::from_any;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::proto::cosmos::tx::v1beta1::{TxBody, TxRaw};
use akash_provider_core::types::{Height, Msg};
use data_encoding::BASE64;
use prost::Message;
use serde_json::{Value, json};

/// A transaction of the provider in a block.
#[derive(Debug)]
pub(crate) struct LandedTx {
    pub(crate) height: Height,
    pub(crate) msgs: Vec<Msg>,
    pub(crate) code: i64,
}

/// Returns all transactions in the blocks up to `last`.
pub(crate) async fn landed(rpc_url: &str, chain_id: &str, last: Height) -> Vec<LandedTx> {
    let endpoints = Endpoints::new(&[rpc_url], chain_id, EndpointLimits::default()).unwrap();
    let mut all = Vec::new();
    for height in 2..=last {
        let params = json!({"height": height.to_string()});
        let block: Value = endpoints.call("block", params.clone()).await.unwrap();
        let results: Value = endpoints.call("block_results", params).await.unwrap();
        let empty = Vec::new();
        let txs = block["block"]["data"]["txs"].as_array().unwrap_or(&empty);
        for (at, tx) in txs.iter().enumerate() {
            let raw = TxRaw::decode(&*BASE64.decode(tx.as_str().unwrap().as_bytes()).unwrap()).unwrap();
            let body = TxBody::decode(&*raw.body_bytes).unwrap();
            let msgs = body.messages.iter().filter_map(|any| from_any(any).unwrap());
            all.push(LandedTx {
                height,
                msgs: msgs.collect(),
                code: results["txs_results"][at]["code"].as_i64().unwrap(),
            });
        }
    }
    all
}
