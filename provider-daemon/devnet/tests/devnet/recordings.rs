//! Recordings of a live chain: its transactions in order, its queries by height, its genesis.

use akash_provider_chain::convert;
use akash_provider_chain::private_key::PublicKey;
use akash_provider_chain::proto::akash::market::v1beta5::QueryOrdersResponse;
use akash_provider_chain::proto::cosmos::crypto::secp256k1::PubKey;
use akash_provider_chain::proto::cosmos::tx::v1beta1::{AuthInfo, TxBody, TxRaw};
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::types::{
    Address, BlockTime, CloseReason, Dec, DecCoin, DeploymentId, MarketParams, Msg,
};
use data_encoding::BASE64;
use prost::Message;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

pub(crate) use testbed::recordings::json as read;

fn names(folder: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.filter_map(|e| {
        let name = e.unwrap().file_name().to_string_lossy().into_owned();
        name.strip_suffix(ending).map(str::to_owned)
    });
    names.collect()
}

fn time(text: &str) -> BlockTime {
    let time = humantime::parse_rfc3339(text).unwrap();
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    BlockTime(i64::try_from(since.as_millis()).unwrap())
}

pub(crate) fn genesis(folder: &Path) -> MemoryChain {
    let genesis = read(&folder.join("genesis.json"));
    let state = &genesis["app_state"];
    let mut config = MarketConfig::new("local", time(genesis["genesis_time"].as_str().unwrap()));
    let params = &state["market"]["params"];
    let seconds = |value: &Value| {
        let text = value.as_str().unwrap().trim_end_matches('s');
        Duration::from_secs(text.parse().unwrap())
    };
    config.params = MarketParams {
        min_reclamation_window: seconds(&params["min_reclamation_window"]),
        max_reclamation_window: seconds(&params["max_reclamation_window"]),
        bid_min_deposits: params["bid_min_deposits"]
            .as_array()
            .unwrap()
            .iter()
            .map(coin)
            .collect(),
        ..config.params
    };
    let chain = MemoryChain::new(config);
    chain.market(|market| {
        for account in state["auth"]["accounts"].as_array().unwrap() {
            let address: Address = account["address"].as_str().unwrap().parse().unwrap();
            market.account_mut(&address);
        }
        for balance in state["bank"]["balances"].as_array().unwrap() {
            let address: Address = balance["address"].as_str().unwrap().parse().unwrap();
            for entry in balance["coins"].as_array().unwrap() {
                market.fund(&address, &coin(entry));
            }
        }
    });
    chain
}

fn coin(value: &Value) -> akash_provider_core::types::Coin {
    let text = |key: &str| value[key].as_str().unwrap();
    format!("{}{}", text("amount"), text("denom")).parse().unwrap()
}

pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) height: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) answer: Value,
    pub(crate) time: Option<BlockTime>,
}

pub(crate) fn recorded(folder: &Path) -> Vec<Recorded> {
    let mut all: Vec<Recorded> = names(&folder.join("tx"), ".rpc-tx.json")
        .into_iter()
        .map(|name| {
            let answer = read(&folder.join(format!("tx/{name}.rpc-tx.json")))["result"].clone();
            let block = folder.join(format!("rpc/block-{name}.json"));
            let block = block.is_file().then(|| read(&block));
            let time = block.map(|b| time(b["result"]["block"]["header"]["time"].as_str().unwrap()));
            Recorded {
                height: answer["height"].as_str().unwrap().parse().unwrap(),
                bytes: BASE64.decode(answer["tx"].as_str().unwrap().as_bytes()).unwrap(),
                name,
                answer,
                time,
            }
        })
        .collect();
    all.sort_by_key(|r| r.height);
    all
}

/// Returns the signer and the sequence of an encoded transaction, or `None` for an unordered transaction.
pub(crate) fn signed(bytes: &[u8]) -> Option<(Address, u64)> {
    let raw = TxRaw::decode(bytes).unwrap();
    let (body, auth) = (
        TxBody::decode(&*raw.body_bytes).unwrap(),
        AuthInfo::decode(&*raw.auth_info_bytes).unwrap(),
    );
    if body.unordered {
        return None;
    }
    let info = &auth.signer_infos[0];
    let key = PubKey::decode(&*info.public_key.as_ref().unwrap().value).unwrap();
    let key = PublicKey::from_bytes(&key.key).unwrap();
    Some((key.address().clone(), info.sequence))
}

/// Takes the key of the next page out of an orders response. Returns the response with a placeholder, and the
/// key.
pub(crate) fn split_page(response: &Value) -> (Value, Vec<u8>) {
    let mut response = response.clone();
    let bytes = BASE64
        .decode(response["value"].as_str().unwrap().as_bytes())
        .unwrap();
    let mut page = QueryOrdersResponse::decode(&*bytes).unwrap();
    let mut key = Vec::new();
    if let Some(pagination) = &mut page.pagination {
        key = std::mem::take(&mut pagination.next_key);
        pagination.next_key = vec![u8::from(!key.is_empty())];
    }
    response["value"] = BASE64.encode(&page.encode_to_vec()).into();
    (response, key)
}

fn deployment(dseq: u64) -> DeploymentId {
    DeploymentId::new(TENANT.parse().unwrap(), dseq)
}

/// Returns the message of the recorded deployment `name`, with `dseq` as its deployment number.
fn same_as(name: &str, dseq: u64) -> TenantMsg {
    let folder = testbed::recordings::folder("chain");
    let recorded = read(&folder.join(format!("tx/{name}.rpc-tx.json")));
    let bytes = BASE64
        .decode(recorded["result"]["tx"].as_str().unwrap().as_bytes())
        .unwrap();
    let body = TxRaw::decode(&*bytes).unwrap().body_bytes;
    let any = TxBody::decode(&*body).unwrap().messages.remove(0);
    let mut msg = convert::tenant_from_any(&any).unwrap().unwrap();
    if let TenantMsg::CreateDeployment { id, .. } = &mut msg {
        *id = deployment(dseq);
    }
    msg
}

/// Repeats on `chain` the recorded actions that have no recorded transaction.
pub(crate) fn unrecorded(chain: &MemoryChain, height: u64) {
    let of_tenant = match height {
        613 => Some(same_as("deployment-create-two-groups", 1004)),
        614 => Some(same_as("deployment-create", 1005)),
        700 => Some(TenantMsg::CloseDeployment { id: deployment(1004) }),
        _ => None,
    };
    if let Some(msg) = of_tenant {
        chain.tenant(msg).unwrap();
    }
    let bid = |dseq| deployment(dseq).group(1).order(1).bid(PROVIDER.parse().unwrap());
    let msg = match height {
        714 => Msg::WithdrawLease { id: bid(1006) },
        785 => Msg::CreateBid {
            id: bid(1005),
            price: DecCoin::new(&"uact".into(), Dec::from_int(40)),
            deposit: "500000uakt".parse().unwrap(),
            resources_offer: Vec::new(),
            reclamation_window: None,
        },
        819 => Msg::CloseBid {
            id: bid(1005),
            reason: CloseReason::Unspecified,
        },
        _ => return,
    };
    chain.market(|market| {
        // The sequences are those of the recorded transactions.
        let us: Address = PROVIDER.parse().unwrap();
        let sequence = market.account_mut(&us).sequence;
        market.execute(&msg).unwrap();
        market.account_mut(&us).sequence = sequence;
    });
}

/// Returns the name of a recording: the chain state and the query.
pub(crate) fn name_of(path: &Path) -> String {
    let names: Vec<String> = path.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    names[names.len() - 2..]
        .join("/")
        .trim_end_matches(".json")
        .to_owned()
}

/// Part of a query response to compare with the recording.
pub(crate) enum Comparison {
    /// Every byte of the response.
    Whole,
    /// The keys, the type of each value, and the value of the key `code`. All other values depend on the node
    /// or on unrecorded actions.
    Shape,
}

pub(crate) fn comparison(name: &str) -> Comparison {
    let (state, query) = name.split_once('/').unwrap();
    // Unrecorded transactions of these states counted sequences and paid fees.
    let late = state.starts_with("two-groups") || state.starts_with("overdrawn");
    let own_values = match query {
        "auth-Account-tenant" => state.starts_with("reclaim") || late,
        "auth-Account-provider" | "bank-Balance-uakt" | "bank-AllBalances" => late,
        // The number of an account depends on all accounts; the text on the library that reads addresses.
        "auth-Account-no-pubkey" | "auth-Account-notfound" => true,
        _ => false,
    };
    if own_values {
        Comparison::Shape
    } else {
        Comparison::Whole
    }
}

/// Returns `value` with types in place of scalars. Lists contain each distinct item once.
pub(crate) fn shape(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            "digits".into()
        }
        Value::String(_) => "text".into(),
        Value::Array(items) => {
            let mut kinds: Vec<Value> = Vec::new();
            for kind in items.iter().map(shape) {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            kinds.into()
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), shape(value)));
            Value::Object(fields.collect())
        }
    }
}

/// Returns the recorded queries of the implemented modules, by height.
pub(crate) fn recorded_queries(folder: &Path) -> BTreeMap<u64, Vec<PathBuf>> {
    let mut found: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    for state in fs::read_dir(folder.join("grpc")).unwrap() {
        let state = state.unwrap().path();
        if !state.is_dir() {
            continue;
        }
        for name in names(&state, ".json") {
            let module = name.split('-').next().unwrap();
            if ["bme", "oracle", "discovery", "node", "tendermint", "tx"].contains(&module) {
                continue;
            }
            let path = state.join(format!("{name}.json"));
            let answer = read(&path);
            let height = answer["abci_query_response"]["result"]["response"]["height"].as_str();
            let height: u64 = height.unwrap().parse().unwrap();
            found.entry(height).or_default().push(path);
        }
    }
    found
}
