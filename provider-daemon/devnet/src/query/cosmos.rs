//! Queries of the common Cosmos modules: accounts, balances, transactions, the node itself, discovery.

use super::super::ante::AnteParams;
use super::super::block::{DevnetBlock, node_id, rfc3339};
use super::super::deliver::{TxResult, responses};
use super::super::event::DevnetEvent;
use super::super::node::{DevnetNode, MempoolError};
use super::{At, QueryCall, QueryError, Transport, page};
use akash_provider_chain::convert;
use akash_provider_chain::proto::akash::discovery::v1 as discovery;
use akash_provider_chain::proto::cosmos::auth::v1beta1 as auth;
use akash_provider_chain::proto::cosmos::bank::v1beta1 as bank;
use akash_provider_chain::proto::cosmos::base::abci::v1beta1 as abci;
use akash_provider_chain::proto::cosmos::base::node::v1beta1 as settings;
use akash_provider_chain::proto::cosmos::base::tendermint::v1beta1 as comet;
use akash_provider_chain::proto::cosmos::base::v1beta1::Coin;
use akash_provider_chain::proto::cosmos::crypto::secp256k1::PubKey;
use akash_provider_chain::proto::cosmos::tx::v1beta1 as tx;
use akash_provider_chain::proto::tendermint::{abci as wire, p2p, types};
use akash_provider_chain::signer::TxHash;
use akash_provider_core::types::{BlockTime, Height};
use bytes::Bytes;
use data_encoding::{HEXLOWER_PERMISSIVE, HEXUPPER};
use prost::{Message, Name};
use prost_types::{Any, Timestamp};
use tonic::Code;

pub(crate) const VERSION: &str = concat!("devnet-", env!("CARGO_PKG_VERSION"));
pub(crate) const COMET_VERSION: &str = "0.38.21";
/// Modules and versions that the discovery query reports, as on the Akash network.
pub(crate) const MODULES: [(&str, &str); 6] = [
    ("audit", "v1"),
    ("cert", "v1"),
    ("deployment", "v1beta4"),
    ("escrow", "v1"),
    ("market", "v1beta5"),
    ("provider", "v1beta4"),
];
/// API versions that the discovery query reports, the newest first.
pub(crate) const API_VERSIONS: [&str; 2] = ["v1beta4", "v1beta3"];

/// Executes a query if this module serves the path.
pub(super) fn execute(
    node: &DevnetNode,
    transport: Transport,
    state: At<'_>,
    height: Height,
    call: &mut QueryCall<'_>,
) {
    accounts(state, call);
    transactions(node, transport, call);
    node_itself(node, height, call);
    // Discovery is not available over abci_query.
    if transport == Transport::Grpc {
        call.handle::<discovery::GetInfoRequest>(|_| Ok(info(node.lock().rules())));
    }
}

fn accounts(state: At<'_>, call: &mut QueryCall<'_>) {
    let market = &*state.market;
    call.handle::<auth::QueryAccountRequest>(|request| {
        let address = convert::address("address", &request.address)?;
        let account = market
            .account(&address)
            .ok_or_else(|| QueryError::status(Code::NotFound, format!("account {address} not found")))?;
        let key = account.pubkey.clone().map(|key| Any {
            type_url: PubKey::type_url(),
            value: PubKey { key }.encode_to_vec(),
        });
        let base = auth::BaseAccount {
            address: address.to_string(),
            pub_key: key,
            account_number: account.number,
            sequence: account.sequence,
        };
        let account = Any {
            type_url: auth::BaseAccount::type_url(),
            value: base.encode_to_vec(),
        };
        Ok(auth::QueryAccountResponse {
            account: Some(account),
        })
    });
    call.handle::<bank::QueryBalanceRequest>(|request| {
        let address = convert::address("address", &request.address)?;
        let amount = market.balance(&address, &request.denom).amount.to_string();
        let denom = request.denom;
        Ok(bank::QueryBalanceResponse {
            balance: Some(Coin { denom, amount }),
        })
    });
    call.handle::<bank::QueryAllBalancesRequest>(|request| {
        let address = convert::address("address", &request.address)?;
        let coins = market
            .account(&address)
            .map(|a| a.coins.clone())
            .unwrap_or_default();
        let balances = coins.into_iter().filter(|(_, amount)| *amount > 0);
        let (balances, pagination) = page(
            balances,
            |(denom, _)| denom.to_string(),
            |(denom, amount)| Coin {
                denom: denom.to_string(),
                amount: amount.to_string(),
            },
            request.pagination,
        )?;
        Ok(bank::QueryAllBalancesResponse { balances, pagination })
    });
}

fn transactions(node: &DevnetNode, transport: Transport, call: &mut QueryCall<'_>) {
    call.handle::<tx::SimulateRequest>(|request| simulate(node, request));
    call.handle::<tx::BroadcastTxRequest>(|request| match transport {
        Transport::Grpc => broadcast(node, request),
        Transport::Abci => Err(QueryError::sdk(
            18,
            "invalid request",
            "can't route a broadcast tx message",
        )),
    });
    call.handle::<tx::GetTxRequest>(|request| get_tx(node, &request.hash));
}

fn simulate(node: &DevnetNode, request: tx::SimulateRequest) -> Result<tx::SimulateResponse, QueryError> {
    let bytes = match request.tx {
        Some(tx) if request.tx_bytes.is_empty() => tx.encode_to_vec(),
        _ => request.tx_bytes,
    };
    if bytes.is_empty() {
        let text = "empty txBytes is not allowed";
        return Err(QueryError::status(Code::InvalidArgument, text));
    }
    let (decoded, result) = node.simulate(Bytes::from(bytes)).map_err(|(refusal, gas)| {
        let text = format!("{} with gas used: '{gas}'", refusal.log);
        QueryError::status(Code::Unknown, text)
    })?;
    Ok(tx::SimulateResponse {
        gas_info: Some(abci::GasInfo {
            // The network represents "no limit" by all bits set.
            gas_wanted: u64::MAX,
            gas_used: result.gas_used,
        }),
        result: Some(abci::Result {
            events: result.events.iter().map(wire_event).collect(),
            data: result.data,
            log: String::new(),
            msg_responses: responses(&decoded.steps),
        }),
    })
}

fn broadcast(
    node: &DevnetNode,
    request: tx::BroadcastTxRequest,
) -> Result<tx::BroadcastTxResponse, QueryError> {
    let mode = request.mode();
    if !matches!(mode, tx::BroadcastMode::Sync | tx::BroadcastMode::Async) {
        let text = format!(
            "unsupported return type {}; supported types: sync, async",
            mode.as_str_name()
        );
        return Err(QueryError::status(Code::Unknown, text));
    }
    let bytes = Bytes::from(request.tx_bytes);
    let hash = TxHash::new(&bytes);
    let mut response = abci::TxResponse {
        txhash: hash.to_string(),
        ..abci::TxResponse::default()
    };
    match node.take(bytes) {
        Ok(_) => {}
        Err(MempoolError::Refused(refusal)) => {
            response.code = refusal.code;
            response.codespace = refusal.space;
            response.raw_log = refusal.log;
        }
        // The client library of the node turns these two into codes.
        Err(MempoolError::Duplicate) => {
            response.code = 19;
            response.codespace = "sdk".to_owned();
        }
        Err(MempoolError::Full(_)) => {
            response.code = 20;
            response.codespace = "sdk".to_owned();
        }
    }
    Ok(tx::BroadcastTxResponse {
        tx_response: Some(response),
    })
}

fn get_tx(node: &DevnetNode, hash: &str) -> Result<tx::GetTxResponse, QueryError> {
    let bytes = HEXLOWER_PERMISSIVE.decode(hash.as_bytes()).ok();
    let parsed = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let inner = node.lock();
    let found = parsed.and_then(|hash| inner.find(&TxHash(hash)));
    let missing = || QueryError::status(Code::NotFound, format!("tx not found: {hash}"));
    let (block, landed) = found
        .and_then(|(block, index)| Some((block, block.txs.get(index)?)))
        .ok_or_else(missing)?;
    let raw = tx::TxRaw::decode(&*landed.bytes).map_err(|e| QueryError::malformed(&e))?;
    let whole = tx::Tx {
        body: Some(tx::TxBody::decode(&*raw.body_bytes).map_err(|e| QueryError::malformed(&e))?),
        auth_info: Some(tx::AuthInfo::decode(&*raw.auth_info_bytes).map_err(|e| QueryError::malformed(&e))?),
        signatures: raw.signatures,
    };
    Ok(tx::GetTxResponse {
        tx_response: Some(tx_response(block, &landed.hash, &landed.result, &whole)),
        tx: Some(whole),
    })
}

fn tx_response(block: &DevnetBlock, hash: &TxHash, result: &TxResult, whole: &tx::Tx) -> abci::TxResponse {
    let gas = |gas: u64| i64::try_from(gas).unwrap_or(i64::MAX);
    // The network's format has whole seconds.
    let time = BlockTime(block.time.0 - block.time.0.rem_euclid(1000));
    let time = rfc3339(time).replace(".000000000Z", "Z");
    abci::TxResponse {
        height: i64::try_from(block.height).unwrap_or(i64::MAX),
        txhash: hash.to_string(),
        codespace: result.codespace.clone(),
        code: result.code,
        data: HEXUPPER.encode(&result.data),
        raw_log: result.log.clone(),
        gas_wanted: gas(result.gas_wanted),
        gas_used: gas(result.gas_used),
        tx: Some(Any {
            type_url: tx::Tx::type_url(),
            value: whole.encode_to_vec(),
        }),
        timestamp: time,
        events: result.events.iter().map(wire_event).collect(),
        ..abci::TxResponse::default()
    }
}

fn wire_event(event: &DevnetEvent) -> wire::Event {
    let attribute = |(key, value): &(&str, String)| wire::EventAttribute {
        key: (*key).to_owned(),
        value: value.clone(),
        index: true,
    };
    wire::Event {
        r#type: event.kind.clone(),
        attributes: event.attributes.iter().map(attribute).collect(),
    }
}

fn timestamp(time: BlockTime) -> Timestamp {
    Timestamp {
        seconds: time.0.div_euclid(1000),
        nanos: i32::try_from(time.0.rem_euclid(1000)).unwrap_or(0) * 1_000_000,
    }
}

fn wire_block(block: &DevnetBlock) -> types::Block {
    types::Block {
        header: Some(types::Header {
            chain_id: block.chain_id.clone(),
            height: i64::try_from(block.height).unwrap_or(i64::MAX),
            time: Some(timestamp(block.time)),
        }),
        data: Some(types::Data {
            txs: block.txs.iter().map(|tx| tx.bytes.to_vec()).collect(),
        }),
    }
}

fn node_itself(node: &DevnetNode, height: Height, call: &mut QueryCall<'_>) {
    call.handle::<comet::GetSyncingRequest>(|_| Ok(comet::GetSyncingResponse { syncing: false }));
    call.handle::<comet::GetLatestBlockRequest>(|_| {
        let inner = node.lock();
        let newest = inner.newest();
        let block_id = newest.map(|b| types::BlockId {
            hash: b.hash.to_vec(),
        });
        let block = newest.map(|b| wire_block(b));
        Ok(comet::GetLatestBlockResponse { block_id, block })
    });
    call.handle::<comet::GetBlockByHeightRequest>(|request| {
        let inner = node.lock();
        let requested = u64::try_from(request.height).unwrap_or(0);
        if requested > inner.height() {
            let text = "requested block height is bigger then the chain length";
            return Err(QueryError::status(Code::InvalidArgument, text));
        }
        let lowest = inner.oldest().map_or(0, |b| b.height);
        let gone = || {
            let text = format!("height {requested} is not available, lowest height is {lowest}");
            QueryError::status(Code::Unknown, text)
        };
        let block = inner.block(requested).ok_or_else(gone)?;
        Ok(comet::GetBlockByHeightResponse {
            block: Some(wire_block(block)),
        })
    });
    call.handle::<comet::GetNodeInfoRequest>(|_| Ok(node_info(node.lock().rules())));
    call.handle::<settings::ConfigRequest>(|_| {
        let price = &node.lock().rules().gas_price.clone();
        Ok(settings::ConfigResponse {
            minimum_gas_price: format!("{}{}", price.amount, price.denom),
            pruning_keep_recent: "0".to_owned(),
            pruning_interval: "0".to_owned(),
            halt_height: 0,
        })
    });
    call.handle::<settings::StatusRequest>(|_| {
        let inner = node.lock();
        let block = inner.block(height).or_else(|| inner.newest());
        Ok(block.map_or_else(settings::StatusResponse::default, |block| {
            settings::StatusResponse {
                earliest_store_height: 0,
                height: block.height,
                timestamp: Some(timestamp(block.time)),
                app_hash: block.app_hash.to_vec(),
                validator_hash: block.hash.to_vec(),
            }
        }))
    });
}

fn node_info(rules: &AnteParams) -> comet::GetNodeInfoResponse {
    comet::GetNodeInfoResponse {
        default_node_info: Some(p2p::DefaultNodeInfo {
            default_node_id: node_id(),
            listen_addr: "tcp://127.0.0.1:0".to_owned(),
            network: rules.chain_id.clone(),
            version: COMET_VERSION.to_owned(),
            channels: Vec::new(),
            moniker: "devnet".to_owned(),
        }),
        application_version: Some(comet::VersionInfo {
            name: "akash".to_owned(),
            app_name: "akash".to_owned(),
            version: VERSION.to_owned(),
            ..comet::VersionInfo::default()
        }),
    }
}

fn info(rules: &AnteParams) -> discovery::GetInfoResponse {
    let modules = MODULES.map(|(module, version)| discovery::ModuleVersion {
        module: module.to_owned(),
        version: version.to_owned(),
    });
    let version = |api: &str| discovery::VersionInfo {
        api_version: api.to_owned(),
        modules: modules.to_vec(),
        features: Vec::new(),
    };
    let info = discovery::Akash {
        client_info: Some(discovery::ClientInfo {
            api_version: API_VERSIONS[1].to_owned(),
        }),
        supported_versions: API_VERSIONS.map(version).to_vec(),
        chain_id: rules.chain_id.clone(),
        node_version: VERSION.to_owned(),
        min_client_version: String::new(),
    };
    discovery::GetInfoResponse { info: Some(info) }
}
