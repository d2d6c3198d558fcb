//! Recorder on the engine's side: turns events and calls of the engine into spans, and sends them without waiting.

use super::exporter::ItemSender;
use super::orders::{OrderTrace, OrderTraces};
use super::span::{CLOSE, EVALUATE, LEASE, ORDER, OpenSpan, attribute};
use akash_provider_core::engine::{Call, Effect, EffectId, Engine, Input, Leadership};
use akash_provider_core::record::Recorder;
use akash_provider_core::types::{
    Address, BidOutcome, ChainEvent, CloseReason, DeclineCode, DeploymentId, Event, Msg, Now, OrderId,
};
use opentelemetry_sdk::trace::SpanData;
use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

/// Maximum number of pending calls with a span. New calls replace the oldest.
const CALLS_MAX: usize = 4096;

/// Function that returns the hash of the last sent transaction with the given message.
pub type TransactionOf = Box<dyn Fn(&Msg) -> Option<String> + Send>;

#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) start: SystemTime,
    pub(super) subject: CallSubject,
}

#[derive(Debug)]
pub(super) enum CallSubject {
    Price,
    Transaction(Msg),
    Deploy(OrderId),
    Teardown(OrderId),
}

/// Recorder of traces.
pub struct TraceRecorder {
    sender: ItemSender<SpanData>,
    pub(super) provider: Address,
    pub(super) transaction_of: TransactionOf,
    /// Time of the engine step to record.
    pub(super) now: SystemTime,
    /// True while another instance leads and exports the spans.
    is_standby: bool,
    pub(super) orders: OrderTraces,
    calls: BTreeMap<EffectId, PendingCall>,
}

impl fmt::Debug for TraceRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRecorder")
            .field("provider", &self.provider)
            .field("is_standby", &self.is_standby)
            .finish_non_exhaustive()
    }
}

impl TraceRecorder {
    pub(super) fn new(
        sender: ItemSender<SpanData>,
        provider: Address,
        transaction_of: TransactionOf,
    ) -> Self {
        Self {
            sender,
            provider,
            transaction_of,
            now: SystemTime::now(),
            is_standby: false,
            orders: OrderTraces::default(),
            calls: BTreeMap::new(),
        }
    }

    pub(super) fn span<'a>(
        &'a self,
        order: &'a OrderId,
        name: &'static str,
        start: SystemTime,
    ) -> OpenSpan<'a> {
        OpenSpan::new(&self.provider, order, name, start)
    }

    /// Sends a span, unless another instance leads.
    pub(super) fn send(&self, span: SpanData) {
        if !self.is_standby {
            self.sender.send(span);
        }
    }

    fn end_order(&mut self, order: &OrderId, change: impl FnOnce(OpenSpan<'_>) -> OpenSpan<'_>) {
        let seen = self.orders.get(order).and_then(|trace| trace.seen.take());
        if let Some(seen) = seen {
            self.send(change(self.span(order, ORDER, seen)).end(self.now));
        }
    }

    fn called(&mut self, id: EffectId, call: &Call) {
        let subject = match call {
            Call::CalculatePrice(_) => CallSubject::Price,
            Call::Broadcast(msg) => {
                self.broadcast(msg);
                CallSubject::Transaction(msg.clone())
            }
            Call::Deploy { deployment, .. } => CallSubject::Deploy(deployment.lease.order.clone()),
            Call::Teardown(lease) => {
                let now = self.now;
                if let Some(trace) = self.orders.get(&lease.order) {
                    trace.close.get_or_insert(now);
                    trace.teardown.get_or_insert(now);
                }
                CallSubject::Teardown(lease.order.clone())
            }
            _ => return,
        };
        let start = self.now;
        if self.calls.len() >= CALLS_MAX {
            self.calls.pop_first();
        }
        self.calls.insert(id, PendingCall { start, subject });
    }

    /// Ends the evaluation span of an order when its bid is sent.
    fn broadcast(&mut self, msg: &Msg) {
        let Msg::CreateBid { id, price, .. } = msg else {
            return;
        };
        let now = self.now;
        let Some(trace) = self.orders.get(&id.order) else {
            return;
        };
        trace.bid = Some(now);
        if let Some(start) = trace.evaluation.take() {
            let span = self.span(&id.order, EVALUATE, start).below(ORDER);
            self.send(span.with(attribute::PRICE, price.to_string()).end(now));
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::OrderSeen { order } => {
                let now = self.now;
                let trace = self.orders.get_or_create(order, Some(now));
                trace.evaluation.get_or_insert(now);
            }
            Event::OrderDeclined {
                order,
                reason,
                message,
            } => self.declined(order, *reason, message),
            Event::BidPlaced { bid, price } => self.end_order(&bid.order, |span| {
                let span = span.with(attribute::OUTCOME, "bid_placed");
                span.with(attribute::PRICE, price.to_string())
            }),
            Event::BidAdopted { bid, .. } => {
                let now = self.now;
                self.orders.get_or_create(&bid.order, None).bid.get_or_insert(now);
            }
            Event::BidEnded { bid, outcome } => self.bid_ended(&bid.order, *outcome),
            Event::LeaseWon { lease, price } => self.won(&lease.order, &price.to_string()),
            Event::LeaseAdopted { lease, .. } => {
                let now = self.now;
                start_lease(self.orders.get_or_create(&lease.order, None), now);
            }
            Event::ManifestReceived { deployment, hash } => self.manifest(deployment, Ok(hash)),
            Event::ManifestRefused { deployment, message } => self.manifest(deployment, Err(message)),
            Event::LeaseEnding { lease, .. } => {
                let now = self.now;
                if let Some(trace) = self.orders.get(&lease.order) {
                    trace.close.get_or_insert(now);
                }
            }
            Event::LeaseClosed { lease, reason } => self.closed(&lease.order, *reason),
            _ => {}
        }
    }

    fn declined(&mut self, order: &OrderId, reason: DeclineCode, message: &str) {
        let code = reason.as_str();
        let now = self.now;
        let trace = self.orders.get(order);
        let (start, bid) = trace.map_or((None, None), |trace| (trace.evaluation.take(), trace.bid.take()));
        // A refused bid transaction has a span of its own, and its evaluation has ended.
        if bid.is_none() {
            let span = self.span(order, EVALUATE, start.unwrap_or(now)).below(ORDER);
            let span = span.with(attribute::DECLINE_CODE, code);
            self.send(span.with_text(attribute::DECLINE_MESSAGE, message).end(now));
        }
        self.end_order(order, |span| {
            let span = span.with(attribute::OUTCOME, "declined");
            span.with(attribute::DECLINE_CODE, code)
        });
    }

    fn won(&mut self, order: &OrderId, price: &str) {
        // The lease may arrive before the result of the bid transaction.
        self.end_order(order, |span| {
            let span = span.with(attribute::OUTCOME, "bid_placed");
            span.with(attribute::PRICE, price.to_owned())
        });
        let now = self.now;
        let trace = self.orders.get_or_create(order, None);
        start_lease(trace, now);
        let bid = trace.bid.unwrap_or(now);
        let span = self.span(order, LEASE, bid).below(ORDER);
        self.send(span.with(attribute::PRICE, price.to_owned()).end(now));
    }

    fn bid_ended(&mut self, order: &OrderId, outcome: BidOutcome) {
        self.end_order(order, |span| span.with(attribute::OUTCOME, "bid_placed"));
        let now = self.now;
        let bid = self.orders.remove(order).and_then(|trace| trace.bid);
        let span = self.span(order, "bid_ended", bid.unwrap_or(now)).below(ORDER);
        self.send(span.with(attribute::OUTCOME, outcome.name()).end(now));
    }

    /// Ends the trace of an order that closed without a bid of the provider.
    fn order_closed(&mut self, order: &OrderId) {
        let has_bid = |trace: &mut OrderTrace| trace.bid.is_some() || trace.lease.is_some();
        // The end of a bid or of a lease is a separate event.
        if self.orders.get(order).is_some_and(has_bid) {
            return;
        }
        self.end_order(order, |span| span.with(attribute::OUTCOME, "order_closed"));
        self.orders.remove(order);
    }

    fn manifest(&mut self, deployment: &DeploymentId, result: Result<&String, &String>) {
        let now = self.now;
        for order in self.orders.leases_of(deployment) {
            let Some(trace) = self.orders.get(&order) else {
                continue;
            };
            let start = match result {
                Ok(_) => trace.manifest.take(),
                Err(_) => trace.manifest,
            };
            let span = self.span(&order, "manifest", start.unwrap_or(now)).below(LEASE);
            let span = match result {
                Ok(hash) => span.with(attribute::MANIFEST_HASH, hash.clone()),
                Err(message) => span.failed(message),
            };
            self.send(span.end(now));
        }
    }

    fn closed(&mut self, order: &OrderId, reason: Option<CloseReason>) {
        let now = self.now;
        let close = self.orders.remove(order).and_then(|trace| trace.close);
        let span = self.span(order, CLOSE, close.unwrap_or(now)).below(LEASE);
        let span = match reason {
            Some(reason) => span.with(attribute::REASON, reason.name()),
            None => span,
        };
        self.send(span.end(now));
    }
}

fn start_lease(trace: &mut OrderTrace, now: SystemTime) {
    if trace.lease.is_none() {
        (trace.lease, trace.manifest) = (Some(now), Some(now));
    }
}

impl Recorder for TraceRecorder {
    fn record_input(&mut self, engine: &Engine, _: Now, input: Option<&Input>) {
        self.now = SystemTime::now();
        match input {
            Some(Input::Leadership(role)) => self.is_standby = *role == Leadership::Standby,
            Some(Input::Chain(ChainEvent::OrderClosed { id })) => self.order_closed(id),
            Some(Input::Completed(id, completion)) => {
                if let Some(call) = self.calls.remove(id) {
                    self.completed(engine.order_of_call(*id), call, completion);
                }
            }
            _ => {}
        }
    }

    fn record_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Publish(event) => self.event(event),
                Effect::Call(id, call) => self.called(*id, call),
                Effect::Reply(..) => {}
            }
        }
    }
}
