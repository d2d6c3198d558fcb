//! Simulated node with an in-memory market.

mod lie;
mod records;

use super::event::tx_result;
use super::{Node, Reply};
use crate::endpoint::SPOKEN;
use akash_provider_core::market::{Market, MarketConfig, TenantMsg};
use akash_provider_core::types::{
    Address, BidId, BlockTime, ChainEvent, Coin, DecCoin, DeploymentId, Height, Msg, OrderId, ProviderRecord,
    Snapshot,
};
pub(crate) use lie::{Lie, block_hash};
pub(crate) use records::{account_answer, answer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const BLOCK_TIME: Duration = Duration::from_secs(6);

#[derive(Debug, Clone, Default)]
pub(crate) struct NodeBehavior {
    /// The node has pruned the results of blocks below this height.
    pub(crate) results_from: Height,
    /// The node serves only the newest state.
    pub(crate) no_pins: bool,
    /// Number of blocks by which the node is behind the chain.
    pub(crate) lag: Height,
    /// Path of a query. Before each query with this path, the chain completes a block.
    pub(crate) moves_on_at: Option<&'static str>,
    /// Chain id that the node reports. `None` for the id `local`.
    pub(crate) chain_id: Option<String>,
    pub(crate) catching_up: bool,
    /// Height of a block for which the node returns no results.
    pub(crate) withheld: Option<Height>,
    /// The node has no transaction index.
    pub(crate) no_index: bool,
    /// Height of a block with a malformed event in its results.
    pub(crate) malformed_event: Option<Height>,
    /// Height of a block that contains a bid with an invalid price. Another provider placed this bid.
    pub(crate) malformed_bid: Option<Height>,
    /// Number of further `tx_search` calls that get an incomplete response.
    pub(crate) cut_searches: u32,
    /// The node accepts requests but does not respond.
    pub(crate) is_frozen: bool,
    /// False responses of the node.
    pub(crate) lie: Option<Lie>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) market: Market,
    past: BTreeMap<Height, Market>,
    blocks: BTreeMap<Height, (BlockTime, Vec<ChainEvent>)>,
    facts: Vec<ChainEvent>,
    /// Messages of the tenant. Each query with the path [`NodeBehavior::moves_on_at`] executes one message
    /// and completes a block.
    pub(crate) script: Vec<TenantMsg>,
}

/// Simulated chain. Clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    state: Arc<Mutex<State>>,
}

pub(crate) fn account(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

impl Chain {
    /// Creates a chain with three accounts: the tenant (number 1) and two providers (numbers 2 and 3).
    pub(crate) fn new() -> Self {
        let mut market = Market::new(MarketConfig::new("local", BlockTime(1_700_000_000_000)));
        for number in 1..=3 {
            let coin: Coin = "100000000000uact".parse().unwrap();
            market.fund(&account(number), &coin);
        }
        for number in 2..=3 {
            market.execute(&create_provider(&account(number))).unwrap();
        }
        let chain = Self {
            state: Arc::new(Mutex::new(State {
                market,
                past: BTreeMap::new(),
                blocks: BTreeMap::new(),
                facts: Vec::new(),
                script: Vec::new(),
            })),
        };
        chain.end_block();
        chain
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a message of the tenant. Returns false if the market refuses the message.
    pub(crate) fn tenant(&self, msg: TenantMsg) -> bool {
        self.lock().tenant(msg)
    }

    /// Executes a message of a provider. Returns false if the market refuses the message.
    pub(crate) fn provider(&self, msg: &Msg) -> bool {
        let mut state = self.lock();
        let events = state.market.transaction(std::slice::from_ref(msg));
        let done = events.is_ok();
        state.facts.extend(events.into_iter().flatten());
        done
    }

    pub(crate) fn end_block(&self) -> Height {
        self.lock().end_block()
    }

    pub(crate) fn height(&self) -> Height {
        self.lock().market.height()
    }

    /// Creates a deployment with this number of groups, and returns its orders.
    pub(crate) fn order(&self, dseq: u64, groups: u32) -> Vec<OrderId> {
        assert!(self.tenant(create(dseq, groups)));
        let deployment = DeploymentId::new(account(1), dseq);
        let order = |gseq| deployment.clone().group(gseq).order(1);
        (1..=groups).map(order).collect()
    }

    pub(crate) fn bid(&self, order: &OrderId, provider: u8) -> BidId {
        let id = order.clone().bid(account(provider));
        assert!(self.provider(&create_bid(&id)));
        id
    }

    pub(crate) async fn node(&self, behavior: Arc<Mutex<NodeBehavior>>) -> Node {
        let chain = self.clone();
        Node::start(move |method, params| chain.reply(&behavior, method, params)).await
    }

    /// Responds to a query with the state at the height `asked`; `None` means the newest height.
    pub(crate) fn serve(
        &self,
        path: &str,
        data: &[u8],
        asked: Option<Height>,
    ) -> Result<(Vec<u8>, Height), Height> {
        let state = self.lock();
        let at = asked.unwrap_or_else(|| state.market.height());
        let market = state.past.get(&at).ok_or_else(|| state.market.height())?;
        Ok((answer(market, path, data).unwrap_or_default(), at))
    }

    /// Returns the snapshot of the market for a provider. The bids are sorted by id.
    pub(crate) fn snapshot(&self, provider: u8) -> Snapshot {
        let mut snapshot = self.lock().market.snapshot(&account(provider));
        snapshot.bids.sort_by(|a, b| a.id.cmp(&b.id));
        snapshot
    }

    pub(crate) fn facts(&self, height: Height) -> Vec<ChainEvent> {
        self.lock().blocks[&height].1.clone()
    }

    /// Encodes a block as a `NewBlock` event.
    pub(crate) fn frame(&self, height: Height) -> String {
        self.frame_as(height, height)
    }

    /// Encodes the block at height `block` as a `NewBlock` event with the height `height`. If `height` is
    /// above the newest block, the hashes in the event are false.
    pub(crate) fn frame_as(&self, block: Height, height: Height) -> String {
        let state = self.lock();
        let (time, facts) = &state.blocks[&block];
        let newest = state.market.height();
        let value = json!({
            "block": {"header": lie::header(height, newest, *time, "local"), "data": {"txs": []}},
            "block_id": lie::block_id(height, newest),
            "result_finalize_block": {"events": [], "tx_results": [tx_result(facts)]},
        });
        let data = json!({"type": "tendermint/event/NewBlock", "value": value});
        json!({"jsonrpc": "2.0", "id": 1, "result": {"query": "tm.event='NewBlock'", "data": data}})
            .to_string()
    }

    pub(crate) fn reply(&self, behavior: &Mutex<NodeBehavior>, method: &str, params: &Value) -> Reply {
        let behavior = now(behavior, method);
        let mut state = self.lock();
        if behavior.moves_on_at.is_some_and(|path| params["path"] == path) {
            state.move_on();
        }
        let chain_id = behavior.chain_id.as_deref().unwrap_or("local");
        let newest = state.market.height() - behavior.lag;
        let (_, named) = Lie::heights(behavior.lie, 0, newest);
        let time = |time| behavior.lie.map_or(time, |lie| lie.time(time));
        let asked: Height = params["height"]
            .as_str()
            .and_then(|h| h.parse().ok())
            .unwrap_or_default();
        let later = || {
            let text = format!(
                "height {asked} must be less than or equal to the current blockchain height {newest}"
            );
            Reply::Error(-32603, text)
        };
        match method {
            _ if behavior.is_frozen => Reply::Hang,
            "status" => {
                let newest = (newest, time(state.time(newest)));
                Reply::Result(status(chain_id, named, newest, behavior.catching_up))
            }
            "akash" => Reply::Result(discovery()),
            "header" | "block" | "block_results" if asked > newest => Lie::beyond(
                behavior.lie,
                method,
                asked,
                lie::header(asked, newest, state.time(newest), chain_id),
                lie::block_id(asked, newest),
            )
            .unwrap_or_else(later),
            "header" => Reply::Result(
                json!({"header": lie::header(asked, newest, time(state.time(asked)), chain_id)}),
            ),
            "block_results" if asked < behavior.results_from => {
                let text = format!(
                    "height {asked} is not available, lowest height is {}",
                    behavior.results_from
                );
                Reply::Error(-32603, text)
            }
            "block_results" if behavior.withheld == Some(asked) => {
                Reply::Error(-32603, "no reason".to_owned())
            }
            "block_results" => {
                let (_, facts) = &state.blocks[&asked];
                let result = with_malformed_events(&behavior, asked, tx_result(facts));
                Reply::Result(json!({"height": asked.to_string(), "txs_results": [result]}))
            }
            "block" => {
                let header = lie::header(asked, newest, time(state.time(asked)), chain_id);
                let block = json!({"header": header, "data": {"txs": ["eA=="]}});
                Reply::Result(json!({"block": block, "block_id": lie::block_id(asked, newest)}))
            }
            "tx_search" if behavior.cut_searches > 0 => Reply::Cut(b"{".to_vec()),
            "tx_search" => state.search(params, behavior.no_index),
            "abci_query" => {
                let path = params["path"].as_str().unwrap();
                let data = data_encoding::HEXLOWER
                    .decode(params["data"].as_str().unwrap().as_bytes())
                    .unwrap();
                state.query(path, &data, asked, newest, &behavior)
            }
            other => Reply::Error(-32601, format!("no method {other}")),
        }
    }
}

/// Returns the status of a node. `named` is the reported height, `newest` the true height of the newest
/// block.
fn status(chain_id: &str, named: Height, (newest, time): (Height, BlockTime), catching_up: bool) -> Value {
    json!({
        "node_info": {"network": chain_id},
        "sync_info": {
            "latest_block_hash": block_hash(named, newest),
            "latest_block_height": named.to_string(),
            "latest_block_time": rfc3339(time),
            "catching_up": catching_up,
        },
    })
}

/// Adds the malformed events that `behavior` requests for this height.
fn with_malformed_events(behavior: &NodeBehavior, height: Height, mut result: Value) -> Value {
    if behavior.malformed_event == Some(height) {
        let lie = json!({"type": "akash.market.v1.EventOrderCreated", "attributes": []});
        result["events"] = json!([lie]);
    }
    if behavior.malformed_bid == Some(height) {
        let events = result["events"].as_array_mut().unwrap();
        events.push(odd_bid());
    }
    result
}

/// Returns the event of a bid that another provider placed at an invalid price.
fn odd_bid() -> Value {
    let id = json!({"owner": account(1), "dseq": "1", "gseq": 1, "oseq": 1, "provider": account(3)});
    let pairs = [("id", id.to_string()), ("price", "{}".to_owned())];
    let pairs = pairs.map(|(k, v)| json!({"key": k, "value": v}));
    json!({"type": "akash.market.v1.EventBidCreated", "attributes": pairs})
}

/// Returns the behavior for this call. A transaction search decrements [`NodeBehavior::cut_searches`].
fn now(behavior: &Mutex<NodeBehavior>, method: &str) -> NodeBehavior {
    let mut shared = behavior.lock().unwrap_or_else(PoisonError::into_inner);
    let now = shared.clone();
    if method == "tx_search" {
        shared.cut_searches = now.cut_searches.saturating_sub(1);
    }
    now
}

pub(crate) fn create(dseq: u64, groups: u32) -> TenantMsg {
    use akash_provider_core::types::{GroupSpec, ResourceUnit, Resources};
    let unit = ResourceUnit {
        resources: Resources {
            id: 1,
            ..Resources::default()
        },
        count: 1,
        price: price(),
    };
    let group = |n| GroupSpec::new(format!("group-{n}"), vec![unit.clone()]);
    TenantMsg::CreateDeployment {
        id: DeploymentId::new(account(1), dseq),
        groups: (0..groups).map(group).collect(),
        hash: [7; 32],
        deposit: "5000000uact".parse().unwrap(),
        reclamation_min_window: None,
    }
}

fn price() -> DecCoin {
    DecCoin::new(&"uact".into(), "40.5".parse().unwrap())
}

pub(crate) fn create_provider(owner: &Address) -> Msg {
    Msg::CreateProvider(ProviderRecord {
        owner: owner.clone(),
        host_uri: "https://provider.example:8443".to_owned(),
        info: Default::default(),
        attributes: Vec::new(),
    })
}

pub(crate) fn create_bid(id: &BidId) -> Msg {
    Msg::CreateBid {
        id: id.clone(),
        price: price(),
        deposit: "500000uact".parse().unwrap(),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

impl State {
    fn tenant(&mut self, msg: TenantMsg) -> bool {
        let events = self.market.tenant(msg);
        let done = events.is_ok();
        self.facts.extend(events.into_iter().flatten());
        done
    }

    fn end_block(&mut self) -> Height {
        self.market.end_block(BLOCK_TIME);
        let height = self.market.height();
        let facts = std::mem::take(&mut self.facts);
        self.blocks.insert(height, (self.market.time(), facts));
        self.past.insert(height, self.market.clone());
        height
    }

    fn move_on(&mut self) {
        if !self.script.is_empty() {
            let msg = self.script.remove(0);
            self.tenant(msg);
        }
        self.end_block();
    }

    fn search(&self, params: &Value, no_index: bool) -> Reply {
        if no_index {
            return Reply::Result(json!({"txs": [], "total_count": "0"}));
        }
        let query = params["query"].as_str().unwrap();
        let height: Height = query.trim_start_matches("tx.height=").parse().unwrap();
        let result = tx_result(&self.blocks[&height].1);
        let tx = json!({"height": height.to_string(), "index": 0, "tx_result": result});
        Reply::Result(json!({"txs": [tx], "total_count": "1"}))
    }

    fn time(&self, height: Height) -> BlockTime {
        self.market.block_time(height).unwrap()
    }

    fn query(
        &self,
        path: &str,
        data: &[u8],
        asked: Height,
        newest: Height,
        behavior: &NodeBehavior,
    ) -> Reply {
        let (at, named) = Lie::heights(behavior.lie, asked, newest);
        if at > newest {
            return refused(
                "sdk",
                26,
                "cannot query with height in the future; please provide a valid height",
                at,
            );
        }
        if behavior.no_pins && at != newest {
            return refused(
                "sdk",
                38,
                "failed to load state at height 5; version does not exist: not found",
                at,
            );
        }
        match answer(&self.past[&at], path, data) {
            Some(bytes) => {
                let bytes = Lie::content(behavior.lie, path, bytes);
                let value = data_encoding::BASE64.encode(&bytes);
                Reply::Result(
                    json!({"response": {"code": 0, "log": "", "value": value, "height": named.to_string(), "codespace": ""}}),
                )
            }
            None => refused("sdk", 22, "it is not found: key not found", at),
        }
    }
}

fn refused(codespace: &str, code: u32, log: &str, height: Height) -> Reply {
    Reply::Result(
        json!({"response": {"code": code, "log": log, "value": null, "height": height.to_string(), "codespace": codespace}}),
    )
}

pub(crate) fn rfc3339(time: BlockTime) -> String {
    let since = Duration::from_millis(u64::try_from(time.0).unwrap());
    humantime::format_rfc3339_nanos(std::time::UNIX_EPOCH + since).to_string()
}

pub(crate) fn discovery() -> Value {
    let modules = SPOKEN.map(|(module, version)| json!({"module": module, "version": version}));
    json!({"client_info": {"api_version": "v1beta4"}, "supported_versions": [{"api_version": "v1beta4", "modules": modules, "features": null}]})
}
