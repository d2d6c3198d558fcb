//! State of the node: blocks, states of the market, and the mempool.
//!
//! ```text
//!  broadcast ─▶ check ─▶ mempool ─┐                       ┌─▶ blocks, states, index ─▶ responses
//!                                 ├─▶ block of the chain ─┤
//!  direct changes of the chain ───┘                       └─▶ subscribers
//! ```
//! Changes that are made directly on the chain appear in the next block as one transaction without a signature.

use super::ante::{AnteContext, AnteMode, AnteParams, MempoolState, Nonces};
use super::block::{DevnetBlock, IncludedTx};
use super::deliver::{DeliverState, TxResult};
use super::event::{EventContext, typed};
use super::refusal::TxRefusal;
use super::tx::DecodedTx;
use akash_provider_chain::proto::cosmos::tx::v1beta1::{TxBody, TxRaw};
use akash_provider_chain::signer::TxHash;
use akash_provider_core::chain::BlockMaker;
use akash_provider_core::market::Market;
use akash_provider_core::types::{BlockTime, ChainEvent, Height};
use bytes::Bytes;
use prost::Message;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Number of newest heights with a queryable state. Akash nodes with pruning store at least this number.
const HEIGHTS_MAX: u64 = 100;
/// Maximum number of stored states. Most of the memory is used for states. Consecutive blocks without changes
/// share one state.
const STATES_MAX: usize = 32;
/// Maximum number of stored blocks: more than a day of one-second blocks.
const BLOCKS_MAX: usize = 100_000;
/// Maximum number of transactions in all stored blocks. A transaction with its events takes a few kilobytes.
const LANDED_MAX: usize = 50_000;
/// Maximum number of transactions in the mempool, the default of Akash nodes.
const WAITING_MAX: usize = 5_000;
/// Maximum number of stored hashes of earlier transactions. Akash nodes have the same default.
const SEEN_MAX: usize = 10_000;
/// Maximum number of buffered blocks of a subscriber. Akash nodes have the same default. A slower subscriber
/// loses blocks.
const SUBSCRIBER_BLOCKS: usize = 200;

/// State of the market after a block.
#[derive(Debug, Clone)]
pub(super) struct MarketState {
    pub(super) market: Arc<Market>,
}

/// Handle to the state of the node. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct DevnetNode {
    inner: Arc<Mutex<DevnetChain>>,
    blocks: broadcast::Sender<Arc<DevnetBlock>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoState {
    /// The block does not exist yet.
    Future,
    /// The state is pruned.
    Pruned { requested: Height, newest: Height },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MempoolError {
    /// The mempool has recently accepted the same transaction.
    Duplicate,
    /// The mempool is full. Contains the number of transactions, for the error text.
    Full(usize),
    /// The transaction fails the checks.
    Refused(TxRefusal),
}

#[derive(Debug)]
pub(super) struct DevnetChain {
    rules: AnteParams,
    blocks: VecDeque<Arc<DevnetBlock>>,
    states: VecDeque<(Height, MarketState)>,
    current: MarketState,
    index: HashMap<TxHash, (Height, usize)>,
    nonces: Nonces,
    waiting: Vec<DecodedTx>,
    pending: MempoolState,
    recent: RecentHashes,
    /// Transactions of the block in progress.
    landed: Vec<IncludedTx>,
}

/// Hashes of the newest transactions that the mempool accepted.
#[derive(Debug, Default)]
struct RecentHashes {
    order: VecDeque<TxHash>,
    all: HashSet<TxHash>,
}

impl RecentHashes {
    fn insert(&mut self, hash: TxHash) {
        if self.all.insert(hash) {
            self.order.push_back(hash);
        }
        while self.order.len() > SEEN_MAX {
            if let Some(old) = self.order.pop_front() {
                self.all.remove(&old);
            }
        }
    }
}

impl DevnetNode {
    /// Creates a node that stores only the newest block of a market.
    pub(super) fn new(rules: AnteParams, market: &Market) -> Self {
        let (height, time) = (market.height(), market.time());
        let block = DevnetBlock::new(&rules.chain_id, height, time, Vec::new(), None);
        let state = MarketState {
            market: Arc::new(market.clone()),
        };
        let inner = DevnetChain {
            rules,
            blocks: VecDeque::from([Arc::new(block)]),
            states: VecDeque::from([(height, state.clone())]),
            current: state,
            index: HashMap::new(),
            nonces: Nonces::default(),
            waiting: Vec::new(),
            pending: MempoolState::default(),
            recent: RecentHashes::default(),
            landed: Vec::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            blocks: broadcast::channel(SUBSCRIBER_BLOCKS).0,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DevnetChain> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver of the blocks completed after this call.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<DevnetBlock>> {
        self.blocks.subscribe()
    }

    /// Returns the callback that completes the blocks of this node.
    pub(super) fn maker(&self) -> impl BlockMaker {
        NodeBlockMaker(self.clone())
    }

    /// Adds a transaction to the mempool.
    pub(super) fn take(&self, bytes: Bytes) -> Result<TxHash, MempoolError> {
        // Decoding and checking the signature are most of the work, and need no lock.
        let hash = TxHash::new(&bytes);
        if self.lock().recent.all.contains(&hash) {
            return Err(MempoolError::Duplicate);
        }
        let tx = DecodedTx::decode(bytes).map_err(MempoolError::Refused)?;
        self.lock().take(tx)
    }

    /// Executes a transaction on a copy of the state, and returns its gas and events.
    pub(super) fn simulate(&self, bytes: Bytes) -> Result<(DecodedTx, TxResult), (TxRefusal, u64)> {
        let tx = DecodedTx::decode(bytes).map_err(|refusal| (refusal, 0))?;
        // The lock is only held for the check. Execution on a copy would block broadcasts.
        let (rules, state, checked) = {
            let inner = self.lock();
            let state = inner.current.clone();
            let checked = inner.view(&state).check(&tx, AnteMode::Simulate);
            (
                inner.rules.clone(),
                state,
                checked.map_err(|refusal| (refusal, super::gas::ANTE))?,
            )
        };
        let mut market = Market::clone(&state.market);
        let mut ledger = DeliverState {
            rules: &rules,
            height: market.height() + 1,
            time: market.time(),
            market: &mut market,
            // A simulation uses no nonce of the chain.
            nonces: &mut Nonces::default(),
        };
        // Without a limit, because the result determines the limit.
        let result = ledger.execute(&tx, &checked, u64::MAX);
        if result.code == 0 {
            return Ok((tx, result));
        }
        let refusal = TxRefusal::new(&result.codespace, result.code, result.log);
        Err((refusal, result.gas_used))
    }
}

impl DevnetChain {
    pub(super) const fn rules(&self) -> &AnteParams {
        &self.rules
    }

    pub(super) fn newest(&self) -> Option<&Arc<DevnetBlock>> {
        self.blocks.back()
    }

    pub(super) fn oldest(&self) -> Option<&Arc<DevnetBlock>> {
        self.blocks.front()
    }

    pub(super) fn height(&self) -> Height {
        self.newest().map_or(0, |b| b.height)
    }

    pub(super) fn block(&self, height: Height) -> Option<&Arc<DevnetBlock>> {
        let first = self.oldest()?.height;
        let at = usize::try_from(height.checked_sub(first)?).ok()?;
        self.blocks.get(at)
    }

    /// Returns the blocks, oldest first.
    pub(super) fn blocks(&self) -> impl DoubleEndedIterator<Item = &Arc<DevnetBlock>> {
        self.blocks.iter()
    }

    pub(super) fn find(&self, hash: &TxHash) -> Option<(&Arc<DevnetBlock>, usize)> {
        let (height, index) = self.index.get(hash)?;
        Some((self.block(*height)?, *index))
    }

    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.waiting.iter().map(|tx| &tx.bytes)
    }

    /// Returns the state after the block at a height, or the newest state for height 0.
    pub(super) fn state(&self, requested: Height) -> Result<(Height, MarketState), NoState> {
        let newest = self.height();
        let at = if requested == 0 { newest } else { requested };
        if at > newest {
            return Err(NoState::Future);
        }
        // A state is valid from its height until the next one.
        let first = self.states.front().map_or(newest, |(height, _)| *height);
        let index = self.states.partition_point(|(height, _)| *height <= at);
        let state = index.checked_sub(1).and_then(|i| self.states.get(i));
        match state {
            Some((_, state)) if at >= first && at + HEIGHTS_MAX > newest => Ok((at, state.clone())),
            _ => Err(NoState::Pruned {
                requested: at,
                newest,
            }),
        }
    }

    fn view<'a>(&'a self, state: &'a MarketState) -> AnteContext<'a> {
        let (height, time) = self.newest().map_or((0, BlockTime(0)), |b| (b.height, b.time));
        AnteContext {
            rules: &self.rules,
            market: &state.market,
            nonces: &self.nonces,
            pending: Some(&self.pending),
            height,
            time,
        }
    }

    fn take(&mut self, tx: DecodedTx) -> Result<TxHash, MempoolError> {
        // Checked again under this lock: two clients that sent the same bytes may both have passed the first check.
        if self.recent.all.contains(&tx.hash) {
            return Err(MempoolError::Duplicate);
        }
        // Before the check, because the signature is most of the work: a full mempool then costs little.
        if self.waiting.len() >= WAITING_MAX {
            return Err(MempoolError::Full(self.waiting.len()));
        }
        let state = self.current.clone();
        let checked = self.view(&state).check(&tx, AnteMode::Check);
        let checked = checked.map_err(MempoolError::Refused)?;
        self.pending.add(&tx.signer, &checked);
        let hash = tx.hash;
        // Only accepted transactions count as recent. A refused one may be valid later and be sent again.
        self.recent.insert(hash);
        self.waiting.push(tx);
        Ok(hash)
    }

    fn execute(&mut self, market: &mut Market, time: BlockTime) -> Vec<ChainEvent> {
        let height = market.height() + 1;
        let mut facts = Vec::new();
        market.begin_block(time);
        // All pending transactions go into this block, so from here on the market itself contains their spending.
        self.pending = MempoolState::default();
        for tx in std::mem::take(&mut self.waiting) {
            let mut ledger = DeliverState {
                rules: &self.rules,
                market,
                nonces: &mut self.nonces,
                height,
                time,
            };
            let result = ledger.deliver(&tx);
            facts.extend(result.facts.iter().cloned());
            self.landed.push(IncludedTx {
                bytes: tx.bytes,
                hash: tx.hash,
                result,
            });
        }
        facts
    }

    fn completed(&mut self, market: &Market, direct: &[ChainEvent], touched: bool) -> Arc<DevnetBlock> {
        let (height, time) = (market.height(), market.time());
        let mut txs = std::mem::take(&mut self.landed);
        let changed = touched || !txs.is_empty() || !direct.is_empty();
        // First, because it happened before the transactions of this block.
        txs.splice(0..0, unsigned(market, direct));
        for (index, tx) in txs.iter().enumerate() {
            self.index.insert(tx.hash, (height, index));
        }
        let last = self.newest().filter(|b| b.height + 1 == height);
        let block = DevnetBlock::new(&self.rules.chain_id, height, time, txs, last.map(|b| &**b));
        let block = Arc::new(block);
        if last.is_none() {
            // Blocks were created without this node; the stored ones must have no gaps.
            self.blocks.clear();
            self.index.retain(|_, (at, _)| *at == height);
        }
        self.blocks.push_back(Arc::clone(&block));
        self.remove_old_blocks();
        // An empty block leaves the state unchanged. A copy for each would evict the few different ones.
        if changed {
            let state = MarketState {
                market: Arc::new(market.clone()),
            };
            self.current = state.clone();
            self.states.push_back((height, state));
            while self.states.len() > STATES_MAX {
                self.states.pop_front();
            }
        }
        self.nonces.expire(time);
        block
    }

    fn remove_old_blocks(&mut self) {
        let too_many = |s: &Self| s.blocks.len() > BLOCKS_MAX || s.index.len() > LANDED_MAX;
        // The newest block stays, however large: every response refers to a block.
        while self.blocks.len() > 1 && too_many(self) {
            for tx in self.blocks.pop_front().iter().flat_map(|b| &b.txs) {
                self.index.remove(&tx.hash);
            }
        }
    }
}

/// Returns an unsigned transaction with the events of changes without a transaction. Returns `None` if
/// `facts` is empty.
fn unsigned(market: &Market, facts: &[ChainEvent]) -> Option<IncludedTx> {
    if facts.is_empty() {
        return None;
    }
    let event = |fact: &ChainEvent| {
        let hash = match fact {
            ChainEvent::DeploymentCreated { id } => market.deployment(id).map(|d| d.deployment.hash),
            _ => None,
        };
        let context = EventContext {
            hash: hash.as_ref(),
            is_new: false,
        };
        let mut event = typed(fact, context)?;
        event.attributes.push(("msg_index", "0".to_owned()));
        Some(event)
    };
    let body = TxBody {
        memo: format!("done to the chain itself before block {}", market.height()),
        ..TxBody::default()
    };
    let raw = TxRaw {
        body_bytes: body.encode_to_vec(),
        ..TxRaw::default()
    };
    let bytes = Bytes::from(raw.encode_to_vec());
    Some(IncludedTx {
        hash: TxHash::new(&bytes),
        bytes,
        result: TxResult {
            events: facts.iter().filter_map(event).collect(),
            ..TxResult::default()
        },
    })
}

struct NodeBlockMaker(DevnetNode);

impl BlockMaker for NodeBlockMaker {
    fn execute(&mut self, market: &mut Market, time: BlockTime) -> Vec<ChainEvent> {
        self.0.lock().execute(market, time)
    }

    fn completed(&mut self, market: &Market, direct: &[ChainEvent], touched: bool) {
        // The lock is released before subscribers are notified, because they query the node at once.
        let block = self.0.lock().completed(market, direct, touched);
        // The error without subscribers is ignored.
        drop(self.0.blocks.send(block));
    }
}
