//! The node itself: blocks, states of the market, transactions that wait.
//!
//! ```text
//!  broadcast ─▶ check ─▶ waiting ─┐                       ┌─▶ blocks, states, index ─▶ answers
//!                                 ├─▶ block of the chain ─┤
//!  who acts on the chain itself ──┘                       └─▶ subscribers
//! ```
//! What is done to the chain itself, not by a transaction that came in, stands in its block as one transaction
//! without a signature.

use super::ante::{Nonces, Rules, Stage, Taken, View};
use super::block::{Block, Landed};
use super::deliver::{Ledger, TxResult};
use super::event::{Context, typed};
use super::refusal::Refusal;
use super::tx::Tx;
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

/// Heights whose states can be asked about, as the network's least setting for nodes that prune.
const HEIGHTS_MAX: u64 = 100;
/// States that differ, which take the room: a snapshot is read within a few blocks.
const STATES_MAX: usize = 32;
/// Blocks that are kept: more than a day of one-second blocks.
const BLOCKS_MAX: usize = 100_000;
/// Transactions in them; each has some kilobytes with its events.
const LANDED_MAX: usize = 50_000;
/// Transactions that wait for a block, as the network's default.
const WAITING_MAX: usize = 5_000;
/// Hashes of transactions that were seen, as the network's default.
const SEEN_MAX: usize = 10_000;
/// Blocks that wait for a slow subscriber before it loses some, as the network's default.
const SUBSCRIBER_BLOCKS: usize = 200;

/// The market after a block.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) market: Arc<Market>,
}

/// A node. A clone is the same one.
#[derive(Debug, Clone)]
pub(super) struct Node {
    inner: Arc<Mutex<Inner>>,
    blocks: broadcast::Sender<Arc<Block>>,
}

/// A state that cannot be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoState {
    /// The block is not there yet.
    Future,
    /// It is no longer kept.
    Pruned { asked: Height, newest: Height },
}

/// What the mempool says to a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// It was seen before.
    Seen,
    /// As many wait as may; the number, which nodes tell in their refusal.
    Full(usize),
    /// It does not pass.
    Refused(Refusal),
}

#[derive(Debug)]
pub(super) struct Inner {
    rules: Rules,
    blocks: VecDeque<Arc<Block>>,
    states: VecDeque<(Height, State)>,
    current: State,
    index: HashMap<TxHash, (Height, usize)>,
    nonces: Nonces,
    waiting: Vec<Tx>,
    taken: Taken,
    seen: Seen,
    /// Transactions of the block that is made.
    landed: Vec<Landed>,
}

/// Hashes of the newest transactions.
#[derive(Debug, Default)]
struct Seen {
    order: VecDeque<TxHash>,
    all: HashSet<TxHash>,
}

impl Seen {
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

impl Node {
    /// A node that knows the newest block of a market and nothing before it.
    pub(super) fn new(rules: Rules, market: &Market) -> Self {
        let (height, time) = (market.height(), market.time());
        let block = Block::new(&rules.chain_id, height, time, Vec::new(), None);
        let state = State {
            market: Arc::new(market.clone()),
        };
        let inner = Inner {
            rules,
            blocks: VecDeque::from([Arc::new(block)]),
            states: VecDeque::from([(height, state.clone())]),
            current: state,
            index: HashMap::new(),
            nonces: Nonces::default(),
            waiting: Vec::new(),
            taken: Taken::default(),
            seen: Seen::default(),
            landed: Vec::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            blocks: broadcast::channel(SUBSCRIBER_BLOCKS).0,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<Block>> {
        self.blocks.subscribe()
    }

    /// What takes part in the making of blocks.
    pub(super) fn maker(&self) -> impl BlockMaker {
        Maker(self.clone())
    }

    /// Takes a transaction to wait for a block.
    pub(super) fn take(&self, bytes: Bytes) -> Result<TxHash, NotTaken> {
        // The signature is most of the work of decoding and checking; a decoded transaction needs no lock.
        let hash = TxHash::of(&bytes);
        if self.lock().seen.all.contains(&hash) {
            return Err(NotTaken::Seen);
        }
        let tx = Tx::decode(bytes).map_err(NotTaken::Refused)?;
        self.lock().take(tx)
    }

    /// What a transaction would come to in the next block: its gas and its events.
    pub(super) fn simulate(&self, bytes: Bytes) -> Result<(Tx, TxResult), (Refusal, u64)> {
        let tx = Tx::decode(bytes).map_err(|refusal| (refusal, 0))?;
        // The lock is held for the check alone. Executing on a copy would keep broadcasts waiting.
        let (rules, state, passed) = {
            let inner = self.lock();
            let state = inner.current.clone();
            let passed = inner.view(&state).check(&tx, Stage::Simulate);
            (
                inner.rules.clone(),
                state,
                passed.map_err(|refusal| (refusal, super::gas::ANTE))?,
            )
        };
        let mut market = Market::clone(&state.market);
        let mut ledger = Ledger {
            rules: &rules,
            height: market.height() + 1,
            time: market.time(),
            market: &mut market,
            // What is only tried uses up no nonce of the chain.
            nonces: &mut Nonces::default(),
        };
        // Without a limit, because the limit is chosen by what is found here.
        let result = ledger.execute(&tx, &passed, u64::MAX);
        if result.code == 0 {
            return Ok((tx, result));
        }
        let refusal = Refusal::new(&result.codespace, result.code, result.log);
        Err((refusal, result.gas_used))
    }
}

impl Inner {
    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn newest(&self) -> Option<&Arc<Block>> {
        self.blocks.back()
    }

    pub(super) fn oldest(&self) -> Option<&Arc<Block>> {
        self.blocks.front()
    }

    /// Height of the newest block.
    pub(super) fn height(&self) -> Height {
        self.newest().map_or(0, |b| b.height)
    }

    pub(super) fn block(&self, height: Height) -> Option<&Arc<Block>> {
        let first = self.oldest()?.height;
        let at = usize::try_from(height.checked_sub(first)?).ok()?;
        self.blocks.get(at)
    }

    /// Blocks from the newest back.
    pub(super) fn blocks(&self) -> impl DoubleEndedIterator<Item = &Arc<Block>> {
        self.blocks.iter()
    }

    pub(super) fn find(&self, hash: &TxHash) -> Option<(&Arc<Block>, usize)> {
        let (height, index) = self.index.get(hash)?;
        Some((self.block(*height)?, *index))
    }

    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.waiting.iter().map(|tx| &tx.bytes)
    }

    /// The state after a block; after the newest one for height 0.
    pub(super) fn state(&self, asked: Height) -> Result<(Height, State), NoState> {
        let newest = self.height();
        let at = if asked == 0 { newest } else { asked };
        if at > newest {
            return Err(NoState::Future);
        }
        // A state stands for its height and those after it until the next one.
        let first = self.states.front().map_or(newest, |(height, _)| *height);
        let index = self.states.partition_point(|(height, _)| *height <= at);
        let state = index.checked_sub(1).and_then(|i| self.states.get(i));
        match state {
            Some((_, state)) if at >= first && at + HEIGHTS_MAX > newest => Ok((at, state.clone())),
            _ => Err(NoState::Pruned { asked: at, newest }),
        }
    }

    fn view<'a>(&'a self, state: &'a State) -> View<'a> {
        let (height, time) = self.newest().map_or((0, BlockTime(0)), |b| (b.height, b.time));
        View {
            rules: &self.rules,
            market: &state.market,
            nonces: &self.nonces,
            taken: Some(&self.taken),
            height,
            time,
        }
    }

    fn take(&mut self, tx: Tx) -> Result<TxHash, NotTaken> {
        // Looked at again under this lock: two who sent the same bytes may both have passed the first look.
        if self.seen.all.contains(&tx.hash) {
            return Err(NotTaken::Seen);
        }
        // Before the check, whose signature is most of the work: a full pool costs a node next to nothing.
        if self.waiting.len() >= WAITING_MAX {
            return Err(NotTaken::Full(self.waiting.len()));
        }
        let state = self.current.clone();
        let passed = self.view(&state).check(&tx, Stage::Check);
        let passed = passed.map_err(NotTaken::Refused)?;
        self.taken.add(&tx.signer, &passed);
        let hash = tx.hash;
        // Only what was taken counts as seen. One that was refused may fit later, and be sent again.
        self.seen.insert(hash);
        self.waiting.push(tx);
        Ok(hash)
    }

    fn execute(&mut self, market: &mut Market, time: BlockTime) -> Vec<ChainEvent> {
        let height = market.height() + 1;
        let mut facts = Vec::new();
        market.begin_block(time);
        // All that wait go into this block, so from here on the market itself says what is spent.
        self.taken = Taken::default();
        for tx in std::mem::take(&mut self.waiting) {
            let mut ledger = Ledger {
                rules: &self.rules,
                market,
                nonces: &mut self.nonces,
                height,
                time,
            };
            let result = ledger.deliver(&tx);
            facts.extend(result.facts.iter().cloned());
            self.landed.push(Landed {
                bytes: tx.bytes,
                hash: tx.hash,
                result,
            });
        }
        facts
    }

    fn completed(&mut self, market: &Market, direct: &[ChainEvent], touched: bool) -> Arc<Block> {
        let (height, time) = (market.height(), market.time());
        let mut txs = std::mem::take(&mut self.landed);
        let changed = touched || !txs.is_empty() || !direct.is_empty();
        // In front: it was done before the transactions of this block were executed.
        txs.splice(0..0, unsigned(market, direct));
        for (index, tx) in txs.iter().enumerate() {
            self.index.insert(tx.hash, (height, index));
        }
        let last = self.newest().filter(|b| b.height + 1 == height);
        let block = Block::new(&self.rules.chain_id, height, time, txs, last.map(|b| &**b));
        let block = Arc::new(block);
        if last.is_none() {
            // Blocks were made while nobody looked; what is kept has no gaps.
            self.blocks.clear();
            self.index.retain(|_, (at, _)| *at == height);
        }
        self.blocks.push_back(Arc::clone(&block));
        self.forget_old_blocks();
        // An empty block leaves the state as it was. A copy for each would push out the few that differ.
        if changed {
            let state = State {
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

    fn forget_old_blocks(&mut self) {
        let too_many = |s: &Self| s.blocks.len() > BLOCKS_MAX || s.index.len() > LANDED_MAX;
        // The newest block stays, however large: every answer is about some block.
        while self.blocks.len() > 1 && too_many(self) {
            for tx in self.blocks.pop_front().iter().flat_map(|b| &b.txs) {
                self.index.remove(&tx.hash);
            }
        }
    }
}

/// What was done to the chain itself, as a transaction.
fn unsigned(market: &Market, facts: &[ChainEvent]) -> Option<Landed> {
    if facts.is_empty() {
        return None;
    }
    let event = |fact: &ChainEvent| {
        let hash = match fact {
            ChainEvent::DeploymentCreated { id } => market.deployment(id).map(|d| d.deployment.hash),
            _ => None,
        };
        let context = Context {
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
    Some(Landed {
        hash: TxHash::of(&bytes),
        bytes,
        result: TxResult {
            events: facts.iter().filter_map(event).collect(),
            ..TxResult::default()
        },
    })
}

struct Maker(Node);

impl BlockMaker for Maker {
    fn execute(&mut self, market: &mut Market, time: BlockTime) -> Vec<ChainEvent> {
        self.0.lock().execute(market, time)
    }

    fn completed(&mut self, market: &Market, direct: &[ChainEvent], touched: bool) {
        // The lock is free again before subscribers hear of it, for they look into the node at once.
        let block = self.0.lock().completed(market, direct, touched);
        // Without subscribers there is nobody to tell.
        drop(self.0.blocks.send(block));
    }
}
