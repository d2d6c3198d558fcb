//! What can go wrong, and what holds at the moment.

use crate::lie::Lie;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a node, or the way to it, does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Every connection is cut, and new ones are cut as soon as they are there.
    pub down: bool,
    /// Connections are taken and nothing passes until this ends.
    pub frozen: bool,
    /// Every question gets a web page with an error.
    pub refused: bool,
    /// The node is so many blocks behind.
    pub lag: u64,
    /// The node says that it is catching up.
    pub catching_up: bool,
    /// The node offers nothing but a version of its interface that nobody speaks.
    pub other_versions: bool,
    /// Each question lands on another node, and each of those is up to so many blocks behind.
    pub scatter: u64,
    /// Answers and pushed blocks take up to so many milliseconds longer.
    pub delay_ms: u64,
    /// So many of a hundred pushed blocks are lost.
    pub lose_events: u64,
    /// So many of a hundred pushed blocks come twice, the second time after the next one.
    pub repeat_events: u64,
    /// Only so many of the newest blocks are kept; 0 for all.
    pub keep_blocks: u64,
    /// So many of a hundred answers break off in the middle.
    pub truncate: u64,
    /// So many of a hundred answers never come, although the node heard the question.
    pub swallow: u64,
    /// A false response of the JSON-RPC.
    pub lie: Option<Lie>,
}

/// What has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Questions.
    pub questions: u64,
    /// Transactions that the node has been given.
    pub broadcasts: u64,
    /// Questions for blocks and heights: `status`, `block`, `block_results`, `header`.
    pub polls: u64,
    /// Websockets that were opened.
    pub subscriptions: u64,
    /// Blocks that were pushed.
    pub pushed: u64,
    /// Things that a fault did.
    pub faults: u64,
}

#[derive(Debug)]
struct State {
    stats: Stats,
    dice: ChaCha8Rng,
    cutter: CancellationToken,
}

/// What all connections of a proxy share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) upstream: String,
    faults: watch::Sender<Faults>,
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn new(upstream: &str, seed: u64) -> Self {
        Self {
            upstream: upstream.to_owned(),
            faults: watch::Sender::new(Faults::default()),
            state: Mutex::new(State {
                stats: Stats::default(),
                dice: ChaCha8Rng::seed_from_u64(seed),
                cutter: CancellationToken::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> Faults {
        *self.faults.borrow()
    }

    pub(crate) fn set(&self, faults: Faults) {
        self.faults.send_replace(faults);
        if faults.down {
            self.cut();
        }
    }

    pub(crate) fn cut(&self) {
        let mut state = self.state();
        state.stats.faults += 1;
        std::mem::take(&mut state.cutter).cancel();
    }

    pub(crate) fn cutter(&self) -> CancellationToken {
        self.state().cutter.clone()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.state().stats
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Stats)) {
        count(&mut self.state().stats);
    }

    /// A number below `bound`.
    pub(crate) fn draw(&self, bound: u64) -> u64 {
        self.state().dice.next_u64() % bound.max(1)
    }

    /// True so many times of a hundred; counted when it is.
    pub(crate) fn strikes(&self, percent: u64) -> bool {
        let strikes = percent > 0 && self.draw(100) < percent;
        if strikes {
            self.count(|stats| stats.faults += 1);
        }
        strikes
    }

    /// Waits while nothing passes.
    pub(crate) async fn thaw(&self) {
        let mut faults = self.faults.subscribe();
        // The sender lives as long as this.
        drop(faults.wait_for(|faults| !faults.frozen).await);
    }

    /// Takes longer, when it is to.
    pub(crate) async fn delay(&self) {
        let most = self.faults().delay_ms;
        if most > 0 {
            let time = self.draw(most + 1);
            tokio::time::sleep(Duration::from_millis(time)).await;
        }
    }

    /// How many blocks the node behind the next question is behind.
    pub(crate) fn behind(&self) -> u64 {
        let faults = self.faults();
        let scatter = if faults.scatter > 0 {
            self.draw(faults.scatter + 1)
        } else {
            0
        };
        faults.lag + scatter
    }
}
