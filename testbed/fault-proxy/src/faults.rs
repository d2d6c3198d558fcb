//! Faults of a node, and the state shared by the connections of a proxy.

use crate::lie::Lie;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Faults of a node or its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Existing and new connections are closed.
    pub down: bool,
    /// Connections are accepted, but no data passes.
    pub frozen: bool,
    /// Every request gets an HTML error page, as from a load balancer.
    pub refused: bool,
    /// Number of blocks by which the node lags.
    pub lag: u64,
    /// The node reports that it is catching up.
    pub catching_up: bool,
    /// The node offers only an unsupported API version.
    pub other_versions: bool,
    /// Every query of the state fails. JSON-RPC only.
    pub no_state: bool,
    /// Maximum random lag of the node in addition to `lag`, in blocks.
    pub scatter: u64,
    /// Maximum delay of responses and pushed blocks, in milliseconds.
    pub delay_ms: u64,
    /// Percentage of pushed blocks that are lost.
    pub lose_events: u64,
    /// Percentage of blocks that are pushed again after the next block.
    pub repeat_events: u64,
    /// Number of blocks that the node retains; 0 for all.
    pub keep_blocks: u64,
    /// Percentage of responses that are truncated.
    pub truncate: u64,
    /// Percentage of responses that are lost after the node received the request.
    pub swallow: u64,
    /// Kind of false response. JSON-RPC only.
    pub lie: Option<Lie>,
}

/// Counters of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Number of requests that the proxy received.
    pub questions: u64,
    /// Number of transactions passed to the node.
    pub broadcasts: u64,
    /// Number of requests for blocks and heights, over JSON-RPC and gRPC.
    pub polls: u64,
    /// Number of opened websockets.
    pub subscriptions: u64,
    /// Number of blocks pushed to clients, without repetitions.
    pub pushed: u64,
    /// Number of injected faults.
    pub faults: u64,
}

#[derive(Debug)]
struct ProxyTraffic {
    stats: Stats,
    dice: ChaCha8Rng,
    cutter: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct ProxyFaults {
    pub(crate) upstream: String,
    faults: watch::Sender<Faults>,
    state: Mutex<ProxyTraffic>,
}

impl ProxyFaults {
    pub(crate) fn new(upstream: &str, seed: u64) -> Self {
        Self {
            upstream: upstream.to_owned(),
            faults: watch::Sender::new(Faults::default()),
            state: Mutex::new(ProxyTraffic {
                stats: Stats::default(),
                dice: ChaCha8Rng::seed_from_u64(seed),
                cutter: CancellationToken::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, ProxyTraffic> {
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

    /// Returns a random number below `bound`.
    pub(crate) fn draw(&self, bound: u64) -> u64 {
        self.state().dice.next_u64() % bound.max(1)
    }

    /// Returns `true` with a probability of `percent` percent. If `true`, counts an injected fault.
    pub(crate) fn injects(&self, percent: u64) -> bool {
        let injects = percent > 0 && self.draw(100) < percent;
        if injects {
            self.count(|stats| stats.faults += 1);
        }
        injects
    }

    /// Waits until the proxy is not frozen.
    pub(crate) async fn thaw(&self) {
        let mut faults = self.faults.subscribe();
        // The sender lives as long as `self`.
        drop(faults.wait_for(|faults| !faults.frozen).await);
    }

    /// Waits for a random time of at most `delay_ms`.
    pub(crate) async fn delay(&self) {
        let most = self.faults().delay_ms;
        if most > 0 {
            let time = self.draw(most + 1);
            tokio::time::sleep(Duration::from_millis(time)).await;
        }
    }

    /// Returns the lag for the next request, in blocks.
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
