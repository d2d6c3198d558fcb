//! A chain of one's own: an append-only file, with nothing of Cosmos in it.
//!
//! ```text
//!   provider ─ Msg ──────┐                                        ┌─► answers (ChainQuery)
//!   tenant ─── TenantMsg ┴► pool ─ block ─► ledger.jsonl ─► Market ┴─► facts   (ChainEvents)
//! ```
//! The first line of the file says what the chain begins with; each other line is a block with its transactions. A block
//! is on the disk before anybody hears of it. The state is what the network's own rules, the core's [`Market`], make
//! of the lines, so opening the file again gives the same chain, and a refused transaction is refused again.
//!
//! `cargo run -p example-own-chain` plays one order on a new ledger, from the bid to the running lease and its end, and
//! shows the blocks that told it. What a chain must keep to is in `docs/writing-a-chain.md`.
//!
//! What it is not: there are no signatures, so who may write the file may do everything; one program writes at a
//! time; and the file grows with every block, for ever.

mod blocks;
mod events;
mod ledger;
mod lines;
mod query;

use akash_provider_core::Error;
use akash_provider_core::market::{Market, MarketConfig};
use akash_provider_core::types::Height;
use blocks::Pending;
use events::Facts;
use ledger::{Block, Ledger, Reader};
pub use ledger::{Damage, Genesis};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;

/// Most blocks that may be missing before one that is there. More is no gap, but a wrong number.
const GAP_MAX: Height = 1000;

/// A chain in a file. A clone is the same chain; the file is free again when the last one is gone.
#[derive(Debug, Clone)]
pub struct OwnChain(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Held while a block is written. Questions do not wait for the disk: they take the other lock alone.
    ledger: Mutex<Ledger>,
    state: Mutex<State>,
    damages: Vec<Damage>,
}

/// What the file makes.
#[derive(Debug)]
struct State {
    market: Market,
    pool: VecDeque<Pending>,
    told: broadcast::Sender<Facts>,
    /// Heights of blocks that the file had and has no more.
    lost: BTreeSet<Height>,
    /// Lines since the last block that may have been one.
    unread: u64,
    /// The file has lines that cannot be used, or lacks some.
    has_gap: bool,
}

impl OwnChain {
    /// The chain of this file, which is made when it is missing. Reads the whole file on the calling thread.
    ///
    /// # Errors
    /// `Unavailable` when the file cannot be read or written, `Conflict` when another program writes it or it begins
    /// in another way, `Invalid` when its first line cannot be read. Any other line that cannot be used is told
    /// by [`OwnChain::damages`] and left out.
    pub fn open(path: &Path, genesis: &Genesis) -> Result<Self, Error> {
        let mut state = State::new(genesis);
        let (ledger, damages) = Ledger::open(path, genesis, &mut state)?;
        // Of blocks lost at the very end no later one tells the height.
        let trailing = state.unread.min(GAP_MAX);
        state.lose(trailing);
        Ok(Self(Arc::new(Inner {
            ledger: Mutex::new(ledger),
            state: Mutex::new(state),
            damages,
        })))
    }

    /// The lines that cannot be used, the first hundred of them.
    #[must_use]
    pub fn damages(&self) -> &[Damage] {
        &self.0.damages
    }
}

impl State {
    fn new(genesis: &Genesis) -> Self {
        let mut market = Market::new(MarketConfig {
            chain_id: genesis.chain_id.clone(),
            genesis_time: genesis.time,
            params: genesis.params.clone(),
        });
        for (account, coin) in &genesis.money {
            market.fund(account, coin);
        }
        Self {
            market,
            pool: VecDeque::new(),
            told: broadcast::Sender::new(events::WAITING_MAX),
            lost: BTreeSet::new(),
            unread: 0,
            has_gap: false,
        }
    }

    /// So many blocks that nobody knows: they pass, and nothing is in them.
    fn lose(&mut self, blocks: u64) {
        for _ in 0..blocks {
            self.market.end_block(Duration::ZERO);
            self.lost.insert(self.market.height());
        }
        self.unread = 0;
    }
}

impl Reader for State {
    fn block(&mut self, block: &Block) -> Result<u64, String> {
        let (height, time) = (self.market.height(), self.market.time());
        let missing = block.height.checked_sub(height.saturating_add(1));
        let Some(missing) = missing.filter(|n| *n <= GAP_MAX && block.time >= time) else {
            let found = block.height;
            return Err(format!("block {found} does not follow on block {height}"));
        };
        let untold = missing.saturating_sub(self.unread);
        self.has_gap |= untold > 0;
        self.lose(missing);
        self.execute(block);
        Ok(untold)
    }

    fn lost(&mut self) {
        self.unread = self.unread.saturating_add(1);
        self.has_gap = true;
    }
}

/// Locks what is whole at every point where a holder could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-chain.md")]
pub struct Guide;
