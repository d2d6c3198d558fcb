//! Custom chain: an append-only file, without Cosmos.
//!
//! ```text
//!   provider ─ Msg ──────┐                                        ┌─► queries (ChainQuery)
//!   tenant ─── TenantMsg ┴► pool ─ block ─► ledger.jsonl ─► Market ┴─► events  (ChainEvents)
//! ```
//! The first line of the file is the genesis. Each other line is a block with its transactions. A block is on the disk
//! before it is published. The state is computed by the core's [`Market`], which has the rules of the Akash chain.
//! Opening the file again therefore gives the same state, and a transaction that was refused is refused again.
//!
//! `cargo run -p example-own-chain` runs one order on a new ledger, from the bid to the lease and its end, and prints
//! the blocks. `docs/writing-a-chain.md` has the requirements of a chain.
//!
//! Limits: there are no signatures, so a program with write access may do everything; only one program writes
//! at a time; and the file grows without bound.

mod blocks;
mod events;
mod ledger;
mod lines;
mod query;

use akash_provider_core::Error;
use akash_provider_core::market::{Market, MarketConfig};
use akash_provider_core::types::Height;
use blocks::PooledTx;
use events::Facts;
pub use ledger::{Damage, Genesis};
use ledger::{LedgerBlock, LedgerReader, LedgerWriter};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;

/// Maximum number of consecutive missing blocks. A block after a larger gap is unusable.
const GAP_MAX: Height = 1000;

/// Chain in a file. Clones share the file. Dropping the last clone closes the file.
#[derive(Debug, Clone)]
pub struct OwnChain(Arc<ChainShared>);

#[derive(Debug)]
struct ChainShared {
    /// Ledger file. The lock is held while a block is written; queries use only the lock of `state`.
    ledger: Mutex<LedgerWriter>,
    state: Mutex<LedgerState>,
    damages: Vec<Damage>,
}

/// State of the chain, computed from the file.
#[derive(Debug)]
struct LedgerState {
    market: Market,
    pool: VecDeque<PooledTx>,
    events: broadcast::Sender<Facts>,
    /// Heights of the missing or unreadable blocks.
    lost: BTreeSet<Height>,
    /// Number of unusable lines since the last readable block. Each of these lines possibly contained a
    /// block.
    unread: u64,
    /// True if the file has unusable or missing lines.
    has_gap: bool,
}

impl OwnChain {
    /// Opens the chain in the file `path`, and creates a missing file. Reads the whole file on the calling
    /// thread.
    ///
    /// # Errors
    /// - `Unavailable`: the file cannot be read or written.
    /// - `Conflict`: another program writes the file, or the file contains a different genesis.
    /// - `Invalid`: the first line cannot be parsed.
    ///
    /// Other unusable lines are skipped. [`OwnChain::damages`] returns the first 100 of these lines.
    pub fn open(path: &Path, genesis: &Genesis) -> Result<Self, Error> {
        let mut state = LedgerState::new(genesis);
        let (ledger, damages) = LedgerWriter::open(path, genesis, &mut state)?;
        // Blocks that were lost at the end of the file have no later block that shows their heights.
        let trailing = state.unread.min(GAP_MAX);
        state.lose(trailing);
        Ok(Self(Arc::new(ChainShared {
            ledger: Mutex::new(ledger),
            state: Mutex::new(state),
            damages,
        })))
    }

    /// Returns the unusable lines of the file, at most the first 100.
    #[must_use]
    pub fn damages(&self) -> &[Damage] {
        &self.0.damages
    }
}

impl LedgerState {
    fn new(genesis: &Genesis) -> Self {
        let mut config = MarketConfig::new(genesis.chain_id.as_str(), genesis.time);
        config.params = genesis.params.clone();
        let mut market = Market::new(config);
        for (account, coin) in &genesis.money {
            market.fund(account, coin);
        }
        Self {
            market,
            pool: VecDeque::new(),
            events: broadcast::Sender::new(events::WAITING_MAX),
            lost: BTreeSet::new(),
            unread: 0,
            has_gap: false,
        }
    }

    /// Records `blocks` missing or unreadable blocks, and raises the height by this number.
    fn lose(&mut self, blocks: u64) {
        for _ in 0..blocks {
            self.market.end_block(Duration::ZERO);
            self.lost.insert(self.market.height());
        }
        self.unread = 0;
    }
}

impl LedgerReader for LedgerState {
    fn block(&mut self, block: &LedgerBlock) -> Result<u64, String> {
        let (height, time) = (self.market.height(), self.market.time());
        let missing = block.height.checked_sub(height.saturating_add(1));
        let Some(missing) = missing.filter(|n| *n <= GAP_MAX && block.time >= time) else {
            let found = block.height;
            return Err(format!("block {found} does not follow block {height}"));
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

/// Locks a mutex. Also locks a poisoned mutex, because a panic does not leave inconsistent data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Doc tests of the page `docs/writing-a-chain.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-chain.md")]
pub struct Guide;
