//! [`TxApi`] over the endpoints.

use super::api::{Code, IncludedTx, Simulation, Submission, TxApi};
use super::object_state::{ObjectState, object_state};
use crate::convert::dec_coin_from_text;
use crate::endpoints::Capability;
use crate::fault::{Fault, NodeError};
use crate::method::Method;
use crate::proto::cosmos::base::node::v1beta1::ConfigRequest;
use crate::proto::cosmos::tx::v1beta1::{
    BroadcastMode, BroadcastTxRequest, BroadcastTxResponse, GetTxRequest, SimulateRequest, SimulateResponse,
};
use crate::reader::Reader;
use crate::signer::TxHash;
use akash_provider_core::chain::{Account, ChainQuery, SyncInfo};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{Address, Coin, DecCoin, Msg};
use async_trait::async_trait;
use bytes::Bytes;
use data_encoding::BASE64;
use prost::Message;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Error code of the Cosmos SDK for a transaction that is already in the mempool.
const IN_MEMPOOL: u32 = 19;
/// Error text of CometBFT for a transaction that the node already has. This error has no code of its own.
const IN_CACHE: &str = "tx already exists in cache";

#[derive(Clone, Serialize)]
struct BroadcastParams {
    tx: String,
}

#[derive(Deserialize)]
struct Checked {
    code: u32,
    #[serde(default)]
    codespace: String,
    #[serde(default)]
    log: String,
}

fn submission(code: u32, space: String, log: String) -> Submission {
    if code == 0 {
        return Submission::Accepted;
    }
    Submission::Refused {
        code: Code::new(space, code),
        log,
    }
}

/// Returns [`Submission::Known`] if the error means that the node already has the transaction.
fn submission_of(error: &NodeError) -> Option<Submission> {
    match &error.fault {
        Fault::Refused { text, .. } if text.contains(IN_CACHE) => Some(Submission::Known),
        _ => None,
    }
}

fn malformed(what: &str) -> Error {
    let message = format!("response of the node without {what}");
    Error::new(ErrorKind::Unavailable, "transactions", message)
}

/// Replaces a refusal with an error if another node may have received the transaction. The outcome of the
/// transaction is then unknown. A refusal with the code [`IN_MEMPOOL`] is not replaced.
fn check_conclusive(response: Submission, may_have_arrived: &AtomicBool) -> Result<Submission, Error> {
    match response {
        Submission::Refused { code, log }
            if may_have_arrived.load(Ordering::Relaxed) && !code.is_sdk(IN_MEMPOOL) =>
        {
            let message = format!(
                "the transaction may have been sent: one node did not respond, and the next node refused the transaction with {code} {log}"
            );
            Err(Error::new(ErrorKind::Unavailable, "broadcast", message))
        }
        response => Ok(response),
    }
}

impl Reader {
    async fn broadcast_by_rpc(
        &self,
        tx: &[u8],
        may_have_arrived: &AtomicBool,
    ) -> Result<Submission, NodeError> {
        let params = BroadcastParams {
            tx: BASE64.encode(tx),
        };
        let ask = |at: usize| {
            let (params, endpoint) = (params.clone(), self.endpoints.endpoint(at));
            async move {
                let response = endpoint?.call::<Checked>("broadcast_tx_sync", params).await;
                Ok((note_delivery(response, may_have_arrived)?, None))
            }
        };
        let (_, checked) = self.endpoints.attempt(Capability::Blocks, ask).await?;
        Ok(submission(checked.code, checked.codespace, checked.log))
    }

    async fn broadcast_by_grpc(
        &self,
        tx: Vec<u8>,
        may_have_arrived: &AtomicBool,
    ) -> Result<Submission, NodeError> {
        let request = BroadcastTxRequest {
            tx_bytes: tx,
            mode: BroadcastMode::Sync.into(),
        };
        let data = Bytes::from(request.encode_to_vec());
        let ask = |at: usize| {
            let (data, endpoint) = (data.clone(), self.endpoints.endpoint(at));
            async move {
                let endpoint = endpoint?;
                let response = endpoint.query_node(BroadcastTxRequest::PATH, data).await;
                let response = note_delivery(response, may_have_arrived)?;
                // The node accepted the request, but the response is malformed, so the transaction may have been
                // sent.
                let read = BroadcastTxResponse::decode(response).ok();
                let checked = read.and_then(|r| r.tx_response).ok_or_else(|| {
                    may_have_arrived.store(true, Ordering::Relaxed);
                    endpoint.error(
                        BroadcastTxRequest::PATH,
                        Fault::Malformed("response without a result".to_owned()),
                    )
                })?;
                Ok((checked, None))
            }
        };
        let (_, checked) = self.endpoints.attempt(Capability::Queries, ask).await?;
        Ok(submission(checked.code, checked.codespace, checked.raw_log))
    }
}

/// Sets `may_have_arrived` if the call failed, but the node has possibly received the transaction.
fn note_delivery<T>(response: Result<T, NodeError>, may_have_arrived: &AtomicBool) -> Result<T, NodeError> {
    if response.as_ref().is_err_and(|e| e.fault.may_have_been_received()) {
        may_have_arrived.store(true, Ordering::Relaxed);
    }
    response
}

fn simulate_request(tx: Vec<u8>) -> SimulateRequest {
    SimulateRequest {
        tx: None,
        tx_bytes: tx,
    }
}

fn to_simulation(response: Result<SimulateResponse, NodeError>) -> Result<Simulation, Error> {
    match response {
        Ok(response) => {
            let gas = response.gas_info.ok_or_else(|| malformed("gas"))?;
            Ok(Simulation::Gas { used: gas.gas_used })
        }
        // A message about a missing order or lease fails with `not found`, which is a refusal too.
        Err(NodeError {
            fault: Fault::Refused { text, .. } | Fault::NotFound { text, .. },
            ..
        }) => Ok(Simulation::Refused { log: text }),
        Err(error) => Err(error.into_port("simulate")),
    }
}

#[async_trait]
impl TxApi for Reader {
    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        ChainQuery::sync_info(self).await
    }

    async fn account(&self, address: &Address) -> Result<Option<Account>, Error> {
        let request = crate::proto::cosmos::auth::v1beta1::QueryAccountRequest {
            address: address.to_string(),
        };
        // Number and sequence are cached until a node refuses them.
        let response = match self.endpoints.query_agreed(&request).await {
            Err(error) if error.is_not_found() => return Ok(None),
            response => response.map_err(|e| e.into_port("account"))?,
        };
        let account = crate::convert::account(response.account);
        let malformed =
            |e: crate::convert::Malformed| Error::new(ErrorKind::Unavailable, "account", e.to_string());
        account.map(Some).map_err(malformed)
    }

    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        ChainQuery::balance(self, address, denom).await
    }

    async fn min_gas_prices(&self) -> Result<Vec<DecCoin>, Error> {
        let response = self.endpoints.query(&ConfigRequest {}, None).await;
        let (config, _) = response.map_err(|e| e.into_port("gas prices"))?;
        let coins = config
            .minimum_gas_price
            .split(',')
            .map(str::trim)
            .filter(|c| !c.is_empty());
        let coins = coins.map(|text| {
            // In `0.025uakt`, the denomination starts at the first letter.
            let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
            let (amount, denom) = text.split_at(at);
            dec_coin_from_text(denom, amount)
        });
        coins
            .collect::<Result<_, _>>()
            .map_err(|e| Error::new(ErrorKind::Unavailable, "gas prices", e.to_string()))
    }

    async fn simulate(&self, tx: Vec<u8>) -> Result<Simulation, Error> {
        let request = simulate_request(tx);
        to_simulation(
            self.endpoints
                .query(&request, None)
                .await
                .map(|(response, _)| response),
        )
    }

    async fn simulate_below(&self, tx: Vec<u8>, most: u64) -> Result<Simulation, Error> {
        let request = simulate_request(tx);
        let (first, at) = self.endpoints.query_with_endpoint(&request).await;
        let first = to_simulation(first)?;
        let Simulation::Gas { used } = first else {
            return Ok(first);
        };
        let (true, Some(at)) = (used > most, at) else {
            return Ok(first);
        };
        match self
            .endpoints
            .query_another(at, &request)
            .await
            .map(to_simulation)
        {
            Some(Ok(Simulation::Gas { used: second })) if second < used => {
                tracing::warn!(
                    used,
                    second,
                    "two chain nodes report different gas for a transaction, using the lower value: check the nodes of --node"
                );
                self.endpoints.request_check(at);
                Ok(Simulation::Gas { used: second })
            }
            // A second node that fails or reports more gas is ignored.
            Some(_) | None => Ok(first),
        }
    }

    async fn broadcast(&self, tx: Vec<u8>) -> Result<Submission, Error> {
        let may_have_arrived = AtomicBool::new(false);
        let error = match self.broadcast_by_rpc(&tx, &may_have_arrived).await {
            Ok(response) => return check_conclusive(response, &may_have_arrived),
            Err(error) => error,
        };
        if let Some(submission) = submission_of(&error) {
            return Ok(submission);
        }
        // Fallback for endpoints without JSON-RPC. Sending the same bytes twice has no effect.
        match self.broadcast_by_grpc(tx, &may_have_arrived).await {
            Ok(response) => check_conclusive(response, &may_have_arrived),
            Err(second) => submission_of(&second).ok_or_else(|| error.into_port("broadcast")),
        }
    }

    async fn find(&self, hash: &TxHash) -> Result<Option<IncludedTx>, Error> {
        let request = GetTxRequest {
            hash: hash.to_string(),
        };
        let found = match self.endpoints.query(&request, None).await {
            Ok((response, _)) => response.tx_response.ok_or_else(|| malformed("result"))?,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into_port("find transaction")),
        };
        let height = u64::try_from(found.height).map_err(|_| malformed("height"))?;
        let failed = found.code != 0;
        Ok(Some(IncludedTx {
            height,
            failure: failed.then(|| Code::new(found.codespace, found.code)),
            log: found.raw_log,
            gas_used: u64::try_from(found.gas_used).unwrap_or(0),
        }))
    }

    async fn object_state(&self, msg: &Msg) -> Result<ObjectState, Error> {
        object_state(self, msg).await
    }
}

#[cfg(test)]
mod tests;
