//! Spans of orders.

use super::ids::{span_id, trace_id};
use crate::history::cut;
use akash_provider_core::types::{Address, OrderId};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use std::time::SystemTime;

/// Root span, from the order event to the bid or the decline.
pub(super) const ORDER: &str = "order";
/// Span of the decision whether to bid.
pub(super) const EVALUATE: &str = "evaluate";
/// Span from the bid to the start of the lease, and parent of the lease's other spans.
pub(super) const LEASE: &str = "lease";
/// Span from the decision to close a lease until the workload is removed.
pub(super) const CLOSE: &str = "close";
/// Spans that an order has at most once.
const SINGLE: [&str; 3] = [ORDER, LEASE, CLOSE];

/// Names of the attributes.
pub(super) mod attribute {
    pub(in crate::otlp) const BLOCK_HEIGHT: &str = "akash.block.height";
    pub(in crate::otlp) const DECLINE_CODE: &str = "akash.decline.code";
    pub(in crate::otlp) const DECLINE_MESSAGE: &str = "akash.decline.message";
    pub(in crate::otlp) const DSEQ: &str = "akash.dseq";
    pub(in crate::otlp) const GSEQ: &str = "akash.gseq";
    pub(in crate::otlp) const MANIFEST_HASH: &str = "akash.manifest.hash";
    pub(in crate::otlp) const MESSAGE: &str = "akash.transaction.message";
    pub(in crate::otlp) const ORDER: &str = "akash.order";
    pub(in crate::otlp) const OSEQ: &str = "akash.oseq";
    pub(in crate::otlp) const OUTCOME: &str = "akash.outcome";
    pub(in crate::otlp) const OWNER: &str = "akash.owner";
    pub(in crate::otlp) const PRICE: &str = "akash.price";
    pub(in crate::otlp) const REASON: &str = "akash.close.reason";
    pub(in crate::otlp) const TRANSACTION: &str = "akash.transaction.hash";
}

/// Unfinished span of an order.
pub(super) struct OpenSpan<'a> {
    provider: &'a Address,
    order: &'a OrderId,
    name: &'static str,
    start: SystemTime,
    parent: SpanId,
    attributes: Vec<KeyValue>,
    error: Option<String>,
}

impl<'a> OpenSpan<'a> {
    /// Creates a span with the attributes of the order. A span without a parent is the root span.
    pub(super) fn new(
        provider: &'a Address,
        order: &'a OrderId,
        name: &'static str,
        start: SystemTime,
    ) -> Self {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let attributes = vec![
            KeyValue::new(attribute::ORDER, order.to_string()),
            KeyValue::new(attribute::OWNER, order.owner().to_string()),
            KeyValue::new(attribute::DSEQ, number(order.deployment().dseq)),
            KeyValue::new(attribute::GSEQ, i64::from(order.group.gseq)),
            KeyValue::new(attribute::OSEQ, i64::from(order.oseq)),
        ];
        Self {
            provider,
            order,
            name,
            start,
            parent: SpanId::INVALID,
            attributes,
            error: None,
        }
    }

    pub(super) fn single_id(provider: &Address, order: &OrderId, name: &str) -> SpanId {
        span_id(provider, order, name, None)
    }

    /// Sets the parent to the span with the name `parent`. `SINGLE` must contain this name.
    pub(super) fn below(mut self, parent: &str) -> Self {
        self.parent = Self::single_id(self.provider, self.order, parent);
        self
    }

    /// Sets the parent to the evaluation span that started at this time.
    pub(super) fn below_evaluation(mut self, start: SystemTime) -> Self {
        self.parent = span_id(self.provider, self.order, EVALUATE, Some(start));
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push(KeyValue::new(name, value));
        self
    }

    /// Adds an attribute, cut to a maximum length because tenants may choose the text.
    pub(super) fn with_text(self, name: &'static str, text: &str) -> Self {
        self.with(name, cut(text.to_owned()))
    }

    pub(super) fn failed(mut self, error: impl ToString) -> Self {
        self.error = Some(cut(error.to_string()));
        self
    }

    pub(super) fn end(self, end: SystemTime) -> SpanData {
        let start = (!SINGLE.contains(&self.name)).then_some(self.start);
        let id = span_id(self.provider, self.order, self.name, start);
        let flags = TraceFlags::SAMPLED;
        let context = SpanContext::new(trace_id(self.order), id, flags, false, TraceState::NONE);
        SpanData {
            span_context: context,
            parent_span_id: self.parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: self.name.into(),
            start_time: self.start,
            end_time: end.max(self.start),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: self.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: InstrumentationScope::builder(crate::PROGRAM)
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }
}
