//! Ids of traces and spans. They are derived from the order, so a restarted provider and another instance of the
//! provider continue the same trace.

use akash_provider_core::types::{Address, OrderId};
use opentelemetry::trace::{SpanId, TraceId};
use sha2::{Digest, Sha256};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the trace id of an order, which is the same for all providers.
pub(super) fn trace_id(order: &OrderId) -> TraceId {
    TraceId::from_bytes(digest(&["trace", &order.to_string()]))
}

/// Returns the id of a span. `start` distinguishes spans with the same name. If an order has only one span
/// with this name, `start` is `None`.
pub(super) fn span_id(provider: &Address, order: &OrderId, name: &str, start: Option<SystemTime>) -> SpanId {
    let since = start.and_then(|start| start.duration_since(UNIX_EPOCH).ok());
    let nanos = since.unwrap_or_default().as_nanos().to_string();
    SpanId::from_bytes(digest(&[
        "span",
        provider.as_str(),
        &order.to_string(),
        name,
        &nanos,
    ]))
}

fn digest<const N: usize>(texts: &[&str]) -> [u8; N] {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text);
        // No text contains this byte, so different lists have different hashes.
        hasher.update([0]);
    }
    let hash = hasher.finalize();
    std::array::from_fn(|at| hash[at])
}
