//! Blocks of the chain. Transactions wait in a pool until a block includes them. The block is then written to the file
//! and published to subscribers.

use crate::ledger::{LedgerBlock, LedgerTx};
use crate::{ChainShared, LedgerState, OwnChain, lock};
use akash_provider_core::chain::ChainTx;
use akash_provider_core::market::{Rejection, TenantMsg};
use akash_provider_core::types::{BlockTime, Height, Msg, TxError, TxOutcome};
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum size of a transaction as JSON, in bytes. The reader accepts a block with [`BLOCK_MAX`]
/// transactions of this size.
const TX_MAX: usize = 64 << 10;
/// Maximum number of transactions in a block.
const BLOCK_MAX: usize = 100;
/// Maximum number of pending transactions.
const POOL_MAX: usize = 1000;
/// Lifetime of a transaction in block time.
const LIFETIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct PooledTx {
    tx: LedgerTx,
    /// Last block time at which the transaction is valid.
    expires: BlockTime,
    reply: oneshot::Sender<TxOutcome>,
}

impl LedgerState {
    /// Executes a block: changes the market, and sends the events to the subscribers. Returns the result of
    /// each transaction. The same block always has the same results.
    pub(crate) fn execute(&mut self, block: &LedgerBlock) -> Vec<TxOutcome> {
        let height = block.height;
        self.market.begin_block(block.time);
        let (mut facts, mut outcomes) = (Vec::new(), Vec::new());
        for tx in &block.txs {
            let done = match tx {
                LedgerTx::Provider(msgs) => self.market.transaction(msgs),
                LedgerTx::Tenant(msg) => self.market.tenant(msg.clone()),
            };
            outcomes.push(match done {
                Ok(more) => {
                    facts.extend(more);
                    TxOutcome::Committed { height }
                }
                Err(Rejection { error, code, log }) => TxOutcome::Rejected { error, code, log },
            });
        }
        let elapsed = block.time.since(self.market.time());
        facts.push(self.market.end_block(elapsed));
        // The error without subscribers is ignored.
        let _ = self.events.send(facts.into());
        outcomes
    }

    /// Creates the next block from pending transactions. Returns the block and these transactions. Rejects
    /// expired transactions.
    fn propose(&mut self, elapsed: Duration) -> (LedgerBlock, Vec<PooledTx>) {
        let (height, time) = (self.market.height() + 1, self.market.time().plus(elapsed));
        let mut taken = Vec::new();
        while taken.len() < BLOCK_MAX
            && let Some(pending) = self.pool.pop_front()
        {
            if pending.expires < time {
                pending.answer(expired());
            } else {
                taken.push(pending);
            }
        }
        let txs = taken.iter().map(|pending| pending.tx.clone()).collect();
        (LedgerBlock { height, time, txs }, taken)
    }
}

impl PooledTx {
    fn answer(self, outcome: TxOutcome) {
        // The sender may be dropped; the transaction is in its block anyway.
        let _ = self.reply.send(outcome);
    }
}

fn expired() -> TxOutcome {
    TxOutcome::Rejected {
        error: TxError::Other,
        code: "ledger/1".to_owned(),
        log: "the transaction expired; send it again".to_owned(),
    }
}

impl ChainShared {
    fn close_block(&self, elapsed: Duration) -> Result<Height, Error> {
        let mut ledger = lock(&self.ledger);
        let (block, taken) = lock(&self.state).propose(elapsed);
        if let Err(error) = ledger.write(&block) {
            // The next block overwrites a partial write of this block, so the transactions can wait for the next block.
            let mut state = lock(&self.state);
            taken.into_iter().rev().for_each(|p| state.pool.push_front(p));
            let what = "cannot write the ledger; free space on its disk";
            return Err(Error::new(ErrorKind::Unavailable, "make a block", what).with_source(error));
        }
        let mut state = lock(&self.state);
        let outcomes = state.execute(&block);
        let answers = taken.into_iter().zip(outcomes);
        answers.for_each(|(pending, outcome)| pending.answer(outcome));
        Ok(block.height)
    }
}

impl OwnChain {
    /// Completes a block with the pending transactions, and returns its height. The block time advances by
    /// `elapsed`. The block is completed even if the caller drops the future.
    ///
    /// # Errors
    /// `Unavailable` if the block cannot be written. The transactions then wait for the next block.
    pub async fn block(&self, elapsed: Duration) -> Result<Height, Error> {
        let inner = Arc::clone(&self.0);
        let closed = tokio::task::spawn_blocking(move || inner.close_block(elapsed)).await;
        closed.map_err(|e| Error::new(ErrorKind::Internal, "make a block", "it failed").with_source(e))?
    }

    /// Completes a block at each interval `every`. The block time advances by `elapsed` per block. After a
    /// write error, calls `failed` and tries again at the next interval.
    pub async fn tick(self, every: Duration, elapsed: Duration, failed: impl Fn(&Error)) {
        loop {
            tokio::time::sleep(every).await;
            if let Err(error) = self.block(elapsed).await {
                failed(&error);
            }
        }
    }

    /// Executes a message of the tenant. Returns the height of the block that contains the message.
    ///
    /// # Errors
    /// `Conflict` if the chain refuses the message, and the errors of [`ChainTx::broadcast_msgs`].
    pub async fn tenant(&self, msg: TenantMsg) -> Result<Height, Error> {
        match self.send(LedgerTx::Tenant(msg)).await? {
            TxOutcome::Committed { height } => Ok(height),
            TxOutcome::Rejected { code, log, .. } => {
                let text = format!("refused: {code}: {log}");
                Err(Error::new(ErrorKind::Conflict, "act as the tenant", text))
            }
            TxOutcome::Unknown { .. } => {
                let text = "outcome unknown; query the ledger";
                Err(Error::new(ErrorKind::Timeout, "act as the tenant", text))
            }
        }
    }

    async fn send(&self, tx: LedgerTx) -> Result<TxOutcome, Error> {
        const OPERATION: &str = "broadcast";
        let size = serde_json::to_vec(&tx).map_or(usize::MAX, |text| text.len());
        if size > TX_MAX {
            let text =
                format!("{size} bytes exceed the {TX_MAX} of a transaction; send fewer messages at once");
            return Err(Error::new(ErrorKind::Invalid, OPERATION, text));
        }
        let (reply, outcome) = oneshot::channel();
        let expires = {
            let mut state = lock(&self.0.state);
            if state.pool.len() >= POOL_MAX {
                let text = format!("{POOL_MAX} transactions are pending already; nothing was sent");
                return Err(Error::new(ErrorKind::Unavailable, OPERATION, text));
            }
            let expires = state.market.time().plus(LIFETIME);
            state.pool.push_back(PooledTx { tx, expires, reply });
            expires
        };
        // Without a response, the write of the block failed, but the block may be in the file.
        Ok(outcome.await.unwrap_or(TxOutcome::Unknown { expires }))
    }
}

#[async_trait]
impl ChainTx for OwnChain {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        if msgs.is_empty() {
            let text = "a transaction needs at least one message";
            return Err(Error::new(ErrorKind::Invalid, "broadcast", text));
        }
        self.send(LedgerTx::Provider(msgs)).await
    }
}
