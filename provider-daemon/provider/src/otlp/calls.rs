//! Spans of completed calls: price, transactions, deploy and teardown.

use super::recorder::{CallSubject, PendingCall, TraceRecorder};
use super::span::{CLOSE, LEASE, ORDER, OpenSpan, attribute};
use akash_provider_core::cluster::Teardown;
use akash_provider_core::engine::Completion;
use akash_provider_core::error::Failure;
use akash_provider_core::types::{DecCoin, Msg, OrderId, TxOutcome};
use std::time::SystemTime;

impl TraceRecorder {
    /// Sends the span of a completed call. `order` is the order of this call, if any.
    pub(super) fn completed(&mut self, order: Option<&OrderId>, call: PendingCall, completion: &Completion) {
        let PendingCall { start, subject } = call;
        match (subject, completion) {
            (CallSubject::Price, Completion::Price(result)) => {
                if let Some(order) = order {
                    self.priced(order, start, result);
                }
            }
            (CallSubject::Transaction(msg), Completion::Tx(result)) => self.transaction(start, &msg, result),
            (CallSubject::Deploy(order), Completion::Cluster(result)) => {
                let span = self.span(&order, "deploy", start).below(LEASE);
                self.send(with_failure(span, result).end(self.now));
            }
            (CallSubject::Teardown(order), Completion::Teardown(result)) => {
                self.torn_down(&order, start, result)
            }
            _ => {}
        }
    }

    fn priced(&mut self, order: &OrderId, start: SystemTime, result: &Result<DecCoin, Failure>) {
        let Some(trace) = self.orders.get(order) else {
            return;
        };
        let evaluation = *trace.evaluation.get_or_insert(start);
        let span = self.span(order, "price", start).below_evaluation(evaluation);
        let span = match result {
            Ok(price) => span.with(attribute::PRICE, price.to_string()),
            Err(failure) => span.failed(failure),
        };
        self.send(span.end(self.now));
    }

    fn torn_down(&mut self, order: &OrderId, start: SystemTime, result: &Result<Teardown, Failure>) {
        // The call is repeated while the teardown is in progress.
        if matches!(result, Ok(Teardown::InProgress)) {
            return;
        }
        let first = self.orders.get(order).and_then(|trace| trace.teardown.take());
        let span = self.span(order, "teardown", first.unwrap_or(start)).below(CLOSE);
        self.send(with_failure(span, result).end(self.now));
    }

    fn transaction(&mut self, start: SystemTime, msg: &Msg, result: &Result<TxOutcome, Failure>) {
        let (Msg::CreateBid { id, .. }
        | Msg::CloseBid { id, .. }
        | Msg::StartReclaim { id, .. }
        | Msg::WithdrawLease { id }) = msg
        else {
            return;
        };
        let order = &id.order;
        let now = self.now;
        let trace = self.orders.get(order);
        let has_lease = trace.as_ref().is_some_and(|trace| trace.lease.is_some());
        if let (Some(trace), Msg::CreateBid { .. }, Ok(TxOutcome::Committed { .. })) = (trace, msg, result)
            && !has_lease
        {
            trace.bid = Some(now);
        }
        let span = match msg {
            Msg::CreateBid { price, .. } => {
                let span = self.span(order, "bid", start).below(ORDER);
                span.with(attribute::PRICE, price.to_string())
            }
            Msg::CloseBid { reason, .. } => {
                let (name, parent) = if has_lease {
                    ("close_transaction", CLOSE)
                } else {
                    ("close_bid", ORDER)
                };
                let span = self.span(order, name, start).below(parent);
                span.with(attribute::REASON, reason.name())
            }
            Msg::StartReclaim { reason, .. } => {
                let span = self.span(order, "reclaim", start).below(LEASE);
                span.with(attribute::REASON, reason.name())
            }
            _ => self.span(order, "payout", start).below(LEASE),
        };
        let span = span.with(attribute::MESSAGE, msg.name());
        let span = match result {
            Ok(TxOutcome::Committed { height }) => {
                let height = i64::try_from(*height).unwrap_or(i64::MAX);
                span.with(attribute::BLOCK_HEIGHT, height)
            }
            Ok(TxOutcome::Rejected { code, log, .. }) => span.failed(format!("{code}: {log}")),
            Ok(TxOutcome::Unknown { .. }) => span.failed("the outcome of the transaction is unknown"),
            Err(failure) => span.failed(failure),
        };
        let hash = result.is_ok().then(|| (self.transaction_of)(msg)).flatten();
        let span = match hash {
            Some(hash) => span.with(attribute::TRANSACTION, hash),
            None => span,
        };
        self.send(span.end(now));
    }
}

fn with_failure<'a, T>(span: OpenSpan<'a>, result: &Result<T, Failure>) -> OpenSpan<'a> {
    match result {
        Ok(_) => span,
        Err(failure) => span.failed(failure),
    }
}
