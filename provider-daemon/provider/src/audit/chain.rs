//! Sender of transactions that records each message in the log.

use akash_provider_core::audit::{Act, ActOutcome, Actor, AuditLog, AuditedAct};
use akash_provider_core::chain::ChainTx;
use akash_provider_core::error::Error;
use akash_provider_core::types::{Msg, TxOutcome, TxReceipt};
use async_trait::async_trait;
use std::sync::Arc;

/// Transaction sender of one component. Records each transaction in the audit log.
#[derive(Debug)]
pub(crate) struct AuditedSender<C> {
    chain: C,
    log: Arc<dyn AuditLog>,
    /// Reason of each act.
    reason: &'static str,
}

impl<C> AuditedSender<C> {
    pub(crate) fn new(chain: C, log: impl AuditLog, reason: &'static str) -> Self {
        let log = Arc::new(log);
        Self { chain, log, reason }
    }
}

#[async_trait]
impl<C: ChainTx> ChainTx for AuditedSender<C> {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        let act = |msg: &Msg| {
            let act = Act::from_msg(msg, Actor::Provider).with_reason(self.reason);
            AuditedAct::new(Arc::clone(&self.log), act)
        };
        let acts: Vec<AuditedAct> = msgs.iter().map(act).collect();
        for act in &acts {
            act.record_intent().await?;
        }
        let sent = self.chain.broadcast_msgs(msgs.clone()).await;
        let outcome = ActOutcome::from_tx(sent.as_ref().map_err(ToString::to_string));
        for (act, msg) in acts.iter().zip(&msgs) {
            act.record_outcome(ActOutcome {
                receipt: self.chain.receipt_of(msg),
                ..outcome.clone()
            });
        }
        sent
    }

    fn receipt_of(&self, message: &Msg) -> Option<TxReceipt> {
        self.chain.receipt_of(message)
    }
}
